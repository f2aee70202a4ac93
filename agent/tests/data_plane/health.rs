//! Active probes: a lane heals, and in mode `active` falls ill, without any caller.

use crate::caller::chat;
use crate::gateway::{Agent, eventually};
use crate::upstream::{Script, Step, Upstream, completion, json};
use std::time::Duration;

const TRIP_AT_ONCE: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 60, \
                            max_cooldown_secs: 60, jitter_ratio: 0, jitter_floor_secs: 0}";
/// Probes of a test come this often.
const INTERVAL_SECS: f64 = 0.1;

/// One lane `a` in the pools `chat` and `other`, probed in `mode`.
fn document(a: &Upstream, mode: &str, breaker: &str) -> String {
    with_provider(
        &format!(
            "protocol: openai, base_url: \"http://{}\", api_key: null",
            a.address
        ),
        mode,
        breaker,
    )
}

fn with_provider(provider: &str, mode: &str, breaker: &str) -> String {
    format!(
        "gateway: edge\n\
         providers:\n\
         \x20 p: {{{provider}, health: {{mode: {mode}, interval_secs: {INTERVAL_SECS}, timeout_secs: 1}}}}\n\
         models:\n\
         \x20 a: {{provider: p, upstream_model: up-a, max_concurrent: 4, max_requests: 100}}\n\
         pools:\n\
         \x20 chat: {{members: [{{target: a}}], breaker: {breaker}}}\n\
         \x20 other: {{members: [{{target: a}}], breaker: {breaker}}}\n"
    )
}

fn failure(status: u16) -> Script {
    json(status, r#"{"error":{"message":"no"}}"#)
}

/// Time for several turns of a probe.
async fn some_intervals() {
    tokio::time::sleep(Duration::from_secs_f64(INTERVAL_SECS * 5.0)).await;
}

/// Field report B81.
#[tokio::test]
async fn dead_mode_closes_every_cell_of_a_healed_lane_without_traffic() {
    let a = Upstream::start(failure(503)).await;
    let agent = Agent::start(&document(&a, "dead", TRIP_AT_ONCE)).await;
    for model in ["chat", "other", "a"] {
        chat(model, false).send(agent.address).await;
    }
    for pool in ["chat", "other"] {
        assert_eq!(agent.cell(pool, "a")["state"], "open");
    }
    a.always(completion("hello"));
    eventually("all cells are closed", || {
        ["chat", "other", ""]
            .iter()
            .all(|pool| agent.cell(pool, "a")["state"] == "closed")
    })
    .await;
    let probe = a.seen().pop().unwrap();
    assert_eq!(probe.path, "/v1/chat/completions");
    let body: serde_json::Value = serde_json::from_str(&probe.body).unwrap();
    assert_eq!(
        (&body["model"], &body["max_tokens"]),
        (&"up-a".into(), &1.into())
    );
    some_intervals().await;
    // Once it is well, dead mode leaves the lane alone, and the one good answer counts once.
    let lane = agent.lane("a");
    assert_eq!(lane["ok"], 1, "{lane:#}");
    let metrics = agent.metrics();
    assert!(
        metrics.contains(r#"lanekeeper_probes_total{lane="a",outcome="ok"} 1"#),
        "{metrics}"
    );
    assert!(
        metrics.contains(r#"from="open",to="closed",reason="recovered""#),
        "{metrics}"
    );
}

/// Field report B82.
#[tokio::test]
async fn failed_dead_probes_do_not_make_a_cooldown_longer() {
    let a = Upstream::start(failure(503)).await;
    let agent = Agent::start(&document(&a, "dead", TRIP_AT_ONCE)).await;
    chat("chat", false).send(agent.address).await;
    let before = agent.cell("chat", "a");
    eventually("three probes failed", || a.hits() >= 4).await;
    let after = agent.cell("chat", "a");
    assert!(
        after["cooldown_remaining_s"].as_f64() < before["cooldown_remaining_s"].as_f64(),
        "{before} {after}"
    );
    assert_eq!(
        (&after["trips"], &after["streak"]),
        (&before["trips"], &before["streak"])
    );
    // The other pool's cell is well and hears nothing of it.
    assert_eq!(agent.cell("other", "a")["window"]["failed"], 0);
}

#[tokio::test]
async fn failed_probe_with_a_longer_wish_puts_the_end_of_a_cooldown_off() {
    let a = Upstream::start(failure(503)).await;
    let agent = Agent::start(&document(&a, "dead", TRIP_AT_ONCE)).await;
    chat("chat", false).send(agent.address).await;
    a.always(crate::upstream::answer(
        429,
        &[("retry-after", "600")],
        "{}",
    ));
    eventually("the cooldown is the server's", || {
        agent.cell("chat", "a")["cooldown_remaining_s"]
            .as_f64()
            .unwrap()
            > 500.0
    })
    .await;
    a.always(completion("hello"));
    eventually("a good probe ends it all the same", || {
        agent.cell("chat", "a")["state"] == "closed"
    })
    .await;
}

#[tokio::test]
async fn active_mode_trips_a_dark_lane_before_any_caller_and_heals_it() {
    let a = Upstream::start(failure(503)).await;
    let agent = Agent::start(&document(&a, "active", TRIP_AT_ONCE)).await;
    eventually("every cell is open", || {
        ["chat", "other", ""]
            .iter()
            .all(|pool| agent.cell(pool, "a")["state"] == "open")
    })
    .await;
    let lane = agent.lane("a");
    assert_eq!(
        (&lane["requests_spent"], &lane["inflight"]),
        (&0.into(), &0.into())
    );
    assert_eq!(agent.plane.totals().requests, 0);
    a.always(completion("hello"));
    eventually("it is well again", || agent.lane("a")["usable"] == true).await;
}

#[tokio::test]
async fn probe_that_hangs_fails_by_its_own_timeout() {
    let a = Upstream::start(vec![Step::Hang]).await;
    let agent = Agent::start(&document(&a, "active", TRIP_AT_ONCE)).await;
    eventually("the silence counted", || {
        agent.cell("chat", "a")["state"] == "open"
    })
    .await;
    assert_eq!(agent.cell("chat", "a")["cause"]["kind"], "timeout");
}

#[tokio::test]
async fn mode_none_sends_nothing() {
    let a = Upstream::start(failure(503)).await;
    let agent = Agent::start(&document(&a, "none", TRIP_AT_ONCE)).await;
    chat("chat", false).send(agent.address).await;
    some_intervals().await;
    assert_eq!(a.hits(), 1);
}

/// Field report B82: a lane that is well for probes and ill for callers trips anew in each round,
/// and the rounds are counted.
#[tokio::test]
async fn lane_that_fails_callers_and_not_probes_trips_in_every_round() {
    let a = Upstream::start(completion("hello")).await;
    let agent = Agent::start(&document(&a, "dead", TRIP_AT_ONCE)).await;
    for round in 1..=3 {
        a.next(failure(503));
        assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
        assert_eq!(agent.cell("chat", "a")["trips"], round);
        eventually("a probe closes it", || {
            agent.cell("chat", "a")["state"] == "closed"
        })
        .await;
    }
    for change in [
        r#"from="closed",to="open",reason="consecutive",cause="status",mode="enforce"} 3"#,
        r#"from="open",to="closed",reason="recovered",cause="",mode="enforce"} 3"#,
    ] {
        let metrics = agent.metrics();
        assert!(metrics.contains(change), "{metrics}");
    }
    assert_eq!(agent.lane("a")["failed"], 3);
}

/// Field report B83.
#[tokio::test]
async fn refused_probe_proves_nothing_and_is_a_problem_until_it_is_understood() {
    for status in [400, 404] {
        let a = Upstream::start(failure(503)).await;
        let agent = Agent::start(&document(&a, "active", TRIP_AT_ONCE)).await;
        eventually("it is open", || agent.cell("chat", "a")["state"] == "open").await;
        a.always(failure(status));
        let told = || agent.plane.problems();
        eventually("the problem is told", || {
            told()
                .iter()
                .any(|text| text.contains("models.a: probe misconfigured"))
        })
        .await;
        assert_eq!(
            agent.cell("chat", "a")["state"],
            "open",
            "a refused probe heals nothing"
        );
        a.always(completion("hello"));
        eventually("the lane is well", || {
            agent.cell("chat", "a")["state"] == "closed"
        })
        .await;
        eventually("the problem is gone", || told().is_empty()).await;
        a.always(failure(status));
        eventually("the problem is told", || !told().is_empty()).await;
        let cell = agent.cell("chat", "a");
        assert_eq!(
            (&cell["state"], &cell["window"]["failed"]),
            (&"closed".into(), &0.into())
        );
        agent.apply(&document(&a, "none", TRIP_AT_ONCE));
        eventually("no probe, no problem", || told().is_empty()).await;
    }
}

/// Field report B83.
#[tokio::test]
async fn answer_cut_by_the_limit_before_any_text_counts_as_well() {
    let a = Upstream::start(failure(503)).await;
    let agent = Agent::start(&document(&a, "dead", TRIP_AT_ONCE)).await;
    chat("chat", false).send(agent.address).await;
    a.always(json(
        200,
        r#"{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"length"}]}"#,
    ));
    eventually("it is closed", || {
        agent.cell("chat", "a")["state"] == "closed"
    })
    .await;
}

/// Field report B82.
#[tokio::test]
async fn success_whose_body_is_no_answer_heals_nothing() {
    let a = Upstream::start(failure(503)).await;
    let agent = Agent::start(&document(&a, "dead", TRIP_AT_ONCE)).await;
    chat("chat", false).send(agent.address).await;
    a.always(json(200, "<html>Welcome</html>"));
    eventually("it was probed", || a.hits() >= 4).await;
    assert_eq!(agent.cell("chat", "a")["state"], "open");
}

#[tokio::test]
async fn lane_without_its_key_is_skipped() {
    let a = Upstream::start(failure(401)).await;
    let provider = format!(
        "protocol: openai, base_url: \"http://{}\", api_key: {{env: LANEKEEPER_TEST_NO_SUCH_KEY}}",
        a.address
    );
    let agent = Agent::start(&with_provider(&provider, "active", TRIP_AT_ONCE)).await;
    eventually("a turn was skipped", || {
        agent
            .metrics()
            .contains(r#"lanekeeper_probes_total{lane="a",outcome="skipped"}"#)
    })
    .await;
    assert_eq!(a.hits(), 0);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

#[tokio::test]
async fn probe_without_any_key_that_is_turned_away_does_not_bench_the_lane() {
    let a = Upstream::start(failure(401)).await;
    let agent = Agent::start(&document(&a, "active", TRIP_AT_ONCE)).await;
    eventually("it was turned away", || !agent.plane.problems().is_empty()).await;
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

#[tokio::test]
async fn hard_down_of_a_refused_key_ends_with_a_good_probe() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "secret").unwrap();
    let a = Upstream::start(failure(403)).await;
    let provider = format!(
        "protocol: openai, base_url: \"http://{}\", api_key: {{file: {}}}",
        a.address,
        key.display()
    );
    let agent = Agent::start(&with_provider(&provider, "dead", TRIP_AT_ONCE)).await;
    chat("chat", false).send(agent.address).await;
    let lane = agent.lane("a");
    assert_eq!(lane["dead"], false);
    a.always(completion("hello"));
    eventually("it is usable again", || {
        agent.cell("chat", "a")["state"] == "closed"
    })
    .await;
    let probe = a.seen().pop().unwrap();
    assert_eq!(probe.header("authorization"), Some("Bearer secret"));
    assert!(agent.lane("a")["dead_reason"].is_null());
}

/// Field report B82.
#[tokio::test]
async fn every_protocol_is_probed_at_its_own_endpoint() {
    let cases = [
        (
            "openai",
            "/v1/chat/completions",
            r#"{"choices":[{"message":{"role":"assistant","content":"a"},"finish_reason":"length"}]}"#,
        ),
        (
            "responses",
            "/v1/responses",
            r#"{"status":"incomplete","output":[{"type":"message"}]}"#,
        ),
        (
            "anthropic",
            "/v1/messages",
            r#"{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"max_tokens"}"#,
        ),
        (
            "gemini",
            "/v1beta/models/up-a:generateContent",
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"MAX_TOKENS"}]}"#,
        ),
        (
            "cohere",
            "/v2/chat",
            r#"{"message":{"role":"assistant","content":[{"type":"text","text":"a"}]},"finish_reason":"MAX_TOKENS"}"#,
        ),
    ];
    for (protocol, path, good) in cases {
        let a = Upstream::start(failure(503)).await;
        let provider = format!(
            "protocol: {protocol}, base_url: \"http://{}\", api_key: null",
            a.address
        );
        let agent = Agent::start(&with_provider(&provider, "active", TRIP_AT_ONCE)).await;
        eventually("it is open", || agent.cell("chat", "a")["state"] == "open").await;
        a.always(json(200, good));
        eventually(protocol, || agent.cell("chat", "a")["state"] == "closed").await;
        assert!(a.seen().iter().all(|seen| seen.path == path), "{protocol}");
    }
}

#[tokio::test]
async fn probes_follow_the_configuration_without_gaps_or_doubles() {
    let a = Upstream::start(completion("hello")).await;
    let on = document(&a, "active", TRIP_AT_ONCE);
    let agent = Agent::start(&on).await;
    eventually("it is probed", || a.hits() >= 2).await;
    // A storm of revisions neither starves the probes nor multiplies them.
    let before = a.hits();
    let storm = Duration::from_secs(1);
    let ((), took) = crate::gateway::timed(async {
        let until = tokio::time::sleep(storm);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => break,
                () = tokio::time::sleep(Duration::from_millis(5)) => { agent.apply(&on); }
            }
        }
    })
    .await;
    let (probes, turns) = (
        (a.hits() - before) as f64,
        took.as_secs_f64() / INTERVAL_SECS,
    );
    assert!(
        probes >= turns * 0.4 && probes <= turns * 1.2 + 2.0,
        "{probes} in {turns} turns"
    );
    agent.apply(&document(&a, "none", TRIP_AT_ONCE));
    some_intervals().await;
    let after = a.hits();
    some_intervals().await;
    assert_eq!(a.hits(), after, "nobody is probed any more");
    agent.apply(&on);
    eventually("it is probed again", || a.hits() > after).await;
}

#[tokio::test]
async fn probes_end_with_the_drain() {
    let a = Upstream::start(completion("hello")).await;
    let agent = Agent::start(&document(&a, "active", TRIP_AT_ONCE)).await;
    eventually("it is probed", || a.hits() >= 2).await;
    agent.drain.closing.cancel();
    some_intervals().await;
    let after = a.hits();
    some_intervals().await;
    assert_eq!(a.hits(), after);
}
