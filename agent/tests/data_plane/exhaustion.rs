//! What happens when no member can serve.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually, timed};
use crate::upstream::{Step, Upstream, answer, completion, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

fn retry_after(got: &crate::caller::Got) -> u64 {
    got.header("retry-after").unwrap().parse().unwrap()
}

/// Trips with the first failure, and for a time tests can rely on.
const TRIP_AT_ONCE: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 40, max_cooldown_secs: 80, \
     jitter_ratio: 0, jitter_floor_secs: 0, poison_guard: false}";

/// Field report B12.
#[tokio::test]
async fn rejection_names_the_soonest_genuine_expiry() {
    let (a, b) = (
        Upstream::start(answer(503, &[("retry-after", "70")], "")).await,
        Upstream::start(json(503, "")).await,
    );
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .breaker(TRIP_AT_ONCE);
    let agent = Agent::start(&document.yaml()).await;
    chat("chat", false).send(agent.address).await;
    let (hits_a, hits_b) = (a.hits(), b.hits());
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 503);
    assert!((39..=40).contains(&retry_after(&got)), "{got:?}");
    assert_eq!(got.json()["error"]["code"], "circuit_open");
    assert_eq!(
        (a.hits(), b.hits()),
        (hits_a, hits_b),
        "no lane was touched"
    );
    assert_eq!(got.header("x-lanekeeper-attempts"), Some("0"));
}

/// Field report B13.
#[tokio::test]
async fn members_this_request_may_not_use_do_not_shorten_the_wait() {
    let (a, b) = (
        Upstream::start(answer(503, &[("retry-after", "60")], "")).await,
        Upstream::start(completion("b")).await,
    );
    let document = Document::new()
        .lane("a", &a)
        .lane_at("b", b.address, 1, "max_requests: 1")
        .breaker(TRIP_AT_ONCE);
    let agent = Agent::start(&document.yaml()).await;
    // The first request fails on a and spends the budget of b.
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 503);
    assert!((59..=60).contains(&retry_after(&got)), "{got:?}");
    assert_eq!(
        agent.lane("b")["dead_reason"],
        "the lifetime budget is spent"
    );
}

/// Field report B12.
#[tokio::test]
async fn last_answer_429_stays_a_429_with_the_later_wait() {
    let a = Upstream::start(answer(429, &[("retry-after", "9")], "")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 429, "{got:?}");
    assert_eq!(retry_after(&got), 9);
    assert_eq!(got.json()["error"]["type"], "rate_limit_error");
    // The lane asked to be left alone: it is, although its cell is closed.
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), a.hits()), (503, 1));
    assert!((8..=9).contains(&retry_after(&got)), "{got:?}");
}

/// Field report B12.
#[tokio::test]
async fn pure_saturation_has_a_floor() {
    let gate = Arc::new(Semaphore::new(0));
    let mut script = vec![Step::Gate(Arc::clone(&gate))];
    script.extend(completion("hello"));
    let a = Upstream::start(script).await;
    let document = Document::new().lane_at("a", a.address, 1, "max_concurrent: 1");
    let agent = Agent::start(&document.yaml()).await;
    let address = agent.address;
    let first = tokio::spawn(async move { chat("chat", false).send(address).await });
    eventually("the permit is taken", || a.hits() == 1).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), retry_after(&got)), (503, 2));
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 200);
}

#[tokio::test]
async fn softly_parked_member_serves_when_nothing_else_can() {
    let a = Upstream::start(completion("hello")).await;
    a.next(json(503, ""));
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    assert!(
        agent.cell("chat", "a")["parked_remaining_s"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    assert_eq!(agent.cell("chat", "a")["parked_remaining_s"], 0.0);
}

/// Field report B29.
#[tokio::test]
async fn least_bad_sends_to_the_member_that_is_back_soonest() {
    let (a, b) = (
        Upstream::start(answer(503, &[("retry-after", "70")], "")).await,
        Upstream::start(json(503, "")).await,
    );
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .breaker(TRIP_AT_ONCE)
        .pool("on_exhausted: least_bad");
    let agent = Agent::start(&document.yaml()).await;
    chat("chat", false).send(agent.address).await;
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    assert_eq!(agent.cell("chat", "b")["state"], "open");
    b.always(completion("hello"));
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(got.header("x-lanekeeper-degraded"), Some("least_bad"));
    assert_eq!(got.header("x-lanekeeper-lane"), Some("b"));
    assert_eq!(
        agent.cell("chat", "b")["state"],
        "open",
        "a degraded answer decides nothing"
    );
}

#[tokio::test]
async fn fail_open_forwards_as_if_closed() {
    let a = Upstream::start(json(503, "")).await;
    let document = Document::new()
        .lane("a", &a)
        .breaker(TRIP_AT_ONCE)
        .pool("on_exhausted: fail_open");
    let agent = Agent::start(&document.yaml()).await;
    chat("chat", false).send(agent.address).await;
    a.always(completion("hello"));
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 200, "{got:?}");
}

#[tokio::test]
async fn fallback_pool_goes_on_under_its_own_cells_and_never_asks_a_lane_twice() {
    let (a, b) = (
        Upstream::start(json(503, "")).await,
        Upstream::start(completion("rescued")).await,
    );
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .yaml()
        .replace("      - {target: b, weight: 1}\n", "")
        .replace(
            "    breaker: {}\n",
            "    on_exhausted: {fallback_pool: spare}\n",
        )
        + "  spare:\n    members: [{target: a}, {target: b}]\n";
    let agent = Agent::start(&document).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(
        (got.status.as_u16(), a.hits(), b.hits()),
        (200, 1, 1),
        "{got:?}"
    );
    assert_eq!(agent.cell("spare", "b")["window"]["ok"], 1);
    assert_eq!(agent.cell("spare", "a")["window"]["failed"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_gives_each_freed_permit_to_one_waiter_and_forgets_those_who_left() {
    let gate = Arc::new(Semaphore::new(0));
    let mut script = vec![Step::Gate(Arc::clone(&gate))];
    script.extend(completion("hello"));
    let a = Upstream::start(script).await;
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_concurrent: 1")
        .pool("on_exhausted: {queue: {max_ms: 1500}}");
    let agent = Agent::start(&document.yaml()).await;
    let address = agent.address;
    let queued = || {
        serde_json::to_value(agent.plane.stats()).unwrap()["pools"][0]["queued"]
            .as_u64()
            .unwrap()
    };
    let send = || tokio::spawn(async move { chat("chat", false).send(address).await });
    let first = send();
    eventually("the permit is taken", || a.hits() == 1).await;
    let mut waiters: Vec<_> = (0..6).map(|_| send()).collect();
    eventually("six wait", || queued() == 6).await;
    for waiter in waiters.drain(..3) {
        waiter.abort();
    }
    eventually("three wait", || queued() == 3).await;
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 200);
    eventually("one more was sent", || a.hits() == 2).await;
    assert_eq!(queued(), 2);
    gate.add_permits(1);
    eventually("one more was sent", || a.hits() == 3).await;
    assert_eq!(queued(), 1);
    // No further permit comes back in time: the last one is sent away.
    eventually("nobody waits", || queued() == 0).await;
    gate.add_permits(1);
    let mut statuses = Vec::new();
    for waiter in waiters {
        statuses.push(waiter.await.unwrap().status.as_u16());
    }
    statuses.sort_unstable();
    assert_eq!((statuses, a.hits()), (vec![200, 200, 503], 3));
    agent.settles().await;
}

#[tokio::test]
async fn queue_is_skipped_when_nothing_is_merely_saturated() {
    let a = Upstream::start(json(503, "")).await;
    let document = Document::new()
        .lane("a", &a)
        .breaker(TRIP_AT_ONCE)
        .pool("on_exhausted: {queue: {max_ms: 5000}}");
    let agent = Agent::start(&document.yaml()).await;
    chat("chat", false).send(agent.address).await;
    let (got, took) = timed(chat("chat", false).send(agent.address)).await;
    assert_eq!(got.status, 503);
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn failure_that_benches_no_lane_asks_for_a_short_wait() {
    for status in [503, 429] {
        let a = Upstream::start(json(status, "")).await;
        let document = Document::new().lane("a", &a).breaker("{park_secs: 0}");
        let agent = Agent::start(&document.yaml()).await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.status, status);
        assert_eq!(retry_after(&got), 2, "{got:?}");
    }
}

/// Field report B91: what a pool of one member does when that is benched.
#[tokio::test]
async fn single_benched_member_is_dealt_with_as_the_pool_says() {
    for (policy, status, hits, degraded) in [
        ("reject", 503, 0, None),
        ("least_bad", 200, 1, Some("least_bad")),
        ("fail_open", 200, 1, Some("fail_open")),
        ("{queue: {max_ms: 9000}}", 503, 0, None),
        ("{fallback_pool: spare}", 200, 0, None),
    ] {
        let (a, b) = (
            Upstream::start(json(503, "")).await,
            Upstream::start(completion("spare")).await,
        );
        let document = Document::new()
            .lane("a", &a)
            .lane_at("b", b.address, 0, "")
            .breaker(TRIP_AT_ONCE)
            .pool("on_exhausted: reject")
            .rest("  spare: {members: [{target: b}]}");
        let agent = Agent::start(&document.yaml()).await;
        assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
        // A pool's policy may change while its member is benched.
        let changed = document.pool(&format!("on_exhausted: {policy}"));
        agent.apply(&changed.yaml());
        a.always(completion("a"));
        let before = a.hits();
        let (got, took) = timed(chat("chat", false).send(agent.address)).await;
        assert_eq!(got.status, status, "{policy}: {got:?}");
        assert_eq!(a.hits() - before, hits, "{policy}");
        assert_eq!(got.header("x-lanekeeper-degraded"), degraded, "{policy}");
        assert_eq!(
            got.header("retry-after").is_some(),
            status == 503,
            "{policy}"
        );
        assert!(took < Duration::from_secs(2), "{policy}: {took:?}");
        let rescued = policy.contains("spare");
        assert_eq!(b.hits(), usize::from(rescued), "{policy}");
    }
}

/// Field report B99: hops, a second pool and the queue share one deadline.
#[tokio::test]
async fn one_deadline_covers_hops_fallback_and_queue() {
    let hanging = Upstream::start(vec![Step::Hang]).await;
    let gate = Arc::new(Semaphore::new(0));
    let busy = Upstream::start(vec![Step::Gate(Arc::clone(&gate))]).await;
    let mut document = Document::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        document = document.lane_at(name, hanging.address, 1, "attempt_timeout_ms: 400");
    }
    let yaml = document
        .lane_at("g", busy.address, 1, "max_concurrent: 1")
        .pool("failover: {timeout_secs: 1.5, max_hops: 1}\non_exhausted: {fallback_pool: spare}")
        .rest(
            "  spare: {members: [{target: f}, {target: g}], failover: {timeout_secs: 9}, \
             on_exhausted: {queue: {max_ms: 8000}}}",
        )
        .yaml()
        .replace(
            "      - {target: f, weight: 1}\n      - {target: g, weight: 1}\n",
            "",
        );
    let agent = Agent::start(&yaml).await;
    let address = agent.address;
    let first = tokio::spawn(async move { chat("g", false).send(address).await });
    eventually("the permit is taken", || busy.hits() == 1).await;
    let (got, took) = timed(chat("chat", false).send(agent.address)).await;
    assert_eq!(got.status, 503, "{got:?}");
    assert_eq!(got.header("x-lanekeeper-attempts"), Some("3"));
    assert!((1_400..2_500).contains(&took.as_millis()), "{took:?}");
    first.abort();
}

/// Field report B107: lanes that are benched free no permit, so nobody waits for them.
#[tokio::test]
async fn rate_limits_everywhere_are_answered_at_once_also_with_a_queue() {
    for streams in [false, true] {
        let a = Upstream::start(json(429, "")).await;
        let document = Document::new()
            .lane_at("a", a.address, 1, "max_concurrent: 9")
            .lane_at("b", a.address, 1, "max_concurrent: 9")
            .pool("on_exhausted: {queue: {max_ms: 9000}}");
        let agent = Agent::start(&document.yaml()).await;
        let (got, took) = timed(chat("chat", streams).send(agent.address)).await;
        assert_eq!((got.status.as_u16(), a.hits()), (429, 2), "{got:?}");
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

/// Field report B92: each pool is visited once, each lane asked once, and then it is over.
#[tokio::test]
async fn chain_of_pools_ends_where_it_ends() {
    let a = Upstream::start(json(503, "")).await;
    let yaml = Document::new()
        .lane("a", &a)
        .pool("on_exhausted: {fallback_pool: q}")
        .rest(
            "  q: {members: [{target: a}], on_exhausted: {fallback_pool: r}}\n  \
             r: {members: [{target: a}]}",
        )
        .yaml();
    let agent = Agent::start(&yaml).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), a.hits()), (503, 1), "{got:?}");
    for (to, cycle) in [("chat", "chat"), ("q", "q")] {
        let cyclic = yaml.replace(
            "r: {members: [{target: a}]}",
            &format!("r: {{members: [{{target: a}}], on_exhausted: {{fallback_pool: {to}}}}}"),
        );
        let problems = lanekeeper_model::document::check_yaml(&cyclic).unwrap_err();
        let told = format!("{problems:?}");
        assert!(told.contains(cycle) && told.contains("r"), "{told}");
    }
    // The running configuration stays.
    assert_eq!(agent.plane.applied().unwrap().revision, 1);
}

/// The provider's own cell counts for the wait like the pool's.
#[tokio::test]
async fn wait_is_as_long_as_the_providers_cell_says_while_a_probe_of_the_pools_runs() {
    let gate = Arc::new(Semaphore::new(0));
    let a = Upstream::start(json(503, "")).await;
    let own = "breaker: {trip: {mode: consecutive, consecutive_n: 2}, base_cooldown_secs: 40, \
               max_cooldown_secs: 80, jitter_ratio: 0, jitter_floor_secs: 0}";
    let yaml = Document::new()
        .lane("a", &a)
        .breaker(
            "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.1, \
             max_cooldown_secs: 0.1, jitter_ratio: 0, jitter_floor_secs: 0}",
        )
        .yaml()
        .replace("api_key: null", &format!("api_key: null, {own}"));
    let agent = Agent::start(&yaml).await;
    let address = agent.address;
    chat("chat", false).send(address).await;
    agent.cooled("chat", "a").await;
    // The pool's probe is under way when the provider's cell opens by a direct call.
    a.next(vec![Step::Gate(Arc::clone(&gate))]);
    let probe = tokio::spawn(async move { chat("chat", false).send(address).await });
    eventually("the probe is under way", || a.hits() == 2).await;
    assert_eq!(agent.cell("chat", "a")["state"], "half_open");
    chat("a", false).send(address).await;
    let got = chat("chat", false).send(address).await;
    assert_eq!((got.status.as_u16(), a.hits()), (503, 3), "{got:?}");
    assert!((38..=40).contains(&retry_after(&got)), "{got:?}");
    probe.abort();
}

/// Both cells are open, the one of `b` for long.
async fn all_benched(policy: &str) -> (Upstream, Upstream, Agent) {
    let (a, b) = (
        Upstream::start(json(503, "")).await,
        Upstream::start(answer(503, &[("retry-after", "70")], "")).await,
    );
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_concurrent: 2")
        .lane("b", &b)
        .breaker(
            "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.2, \
             max_cooldown_secs: 0.2, jitter_ratio: 0, jitter_floor_secs: 0, poison_guard: false}",
        )
        .pool(&format!("on_exhausted: {policy}"));
    let agent = Agent::start(&document.yaml()).await;
    chat("chat", false).send(agent.address).await;
    agent.cooled("chat", "a").await;
    assert_eq!(agent.cell("chat", "b")["state"], "open");
    (a, b, agent)
}

#[tokio::test]
async fn probe_slot_is_single_under_fail_open_while_a_sibling_is_there() {
    let (a, b, agent) = all_benched("fail_open").await;
    let gate = Arc::new(Semaphore::new(0));
    let mut script = vec![Step::Gate(Arc::clone(&gate))];
    script.extend(completion("a"));
    a.always(script);
    b.always(completion("b"));
    let (address, hits) = (agent.address, (a.hits(), b.hits()));
    let probe = tokio::spawn(async move { chat("chat", false).send(address).await });
    eventually("the probe is under way", || a.hits() == hits.0 + 1).await;
    for _ in 0..4 {
        let got = chat("chat", false).send(address).await;
        assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{got:?}");
        assert_eq!(got.header("x-lanekeeper-degraded"), Some("fail_open"));
    }
    assert_eq!((a.hits(), b.hits()), (hits.0 + 1, hits.1 + 4));
    assert_eq!(
        agent.cell("chat", "b")["state"],
        "open",
        "nothing is proved by it"
    );
    gate.add_permits(1);
    assert_eq!(probe.await.unwrap().status, 200);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

#[tokio::test]
async fn least_bad_passes_over_a_member_without_a_permit() {
    let (a, b, agent) = all_benched("least_bad").await;
    let gate = Arc::new(Semaphore::new(0));
    a.always(vec![Step::Gate(Arc::clone(&gate)), Step::Close]);
    b.always(completion("b"));
    let address = agent.address;
    // Calls beside the pool take both permits of the better member.
    let hits = a.hits();
    let busy: Vec<_> = (0..2)
        .map(|_| tokio::spawn(async move { chat("a", false).send(address).await }))
        .collect();
    eventually("the permits are taken", || a.hits() == hits + 2).await;
    let got = chat("chat", false).send(address).await;
    assert_eq!(
        (got.status.as_u16(), got.header("x-lanekeeper-lane")),
        (200, Some("b"))
    );
    assert_eq!(got.header("x-lanekeeper-degraded"), Some("least_bad"));
    for call in busy {
        call.abort();
    }
}

#[tokio::test]
async fn exclusions_of_the_pool_that_is_fallen_back_to_are_its_own() {
    let (a, b) = (
        Upstream::start(json(503, "")).await,
        Upstream::start(completion("b")).await,
    );
    for (exclusions, status) in [("[]", 200), ("[b]", 503)] {
        let yaml = Document::new()
            .lane("a", &a)
            .lane("b", &b)
            .pool("failover: {exclusions: [b]}\non_exhausted: {fallback_pool: spare}")
            .rest(&format!(
                "  spare: {{members: [{{target: a}}, {{target: b}}], failover: {{exclusions: {exclusions}}}}}"
            ))
            .yaml();
        let agent = Agent::start(&yaml).await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.status, status, "{exclusions}: {got:?}");
    }
    assert_eq!((a.hits(), b.hits()), (2, 1));
}
