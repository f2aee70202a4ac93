//! What a provider keeps for one account: requests that name it go to the lane that gave it out.

use crate::caller::chat;
use crate::gateway::Agent;
use crate::upstream::{Upstream, chunk, json, stream_end, stream_head};
use http::Method;

/// Two accounts of one vendor, and the pool `chat` over both.
fn document(east: &Upstream, west: &Upstream, pool: &str) -> String {
    let provider = |upstream: &Upstream| {
        let address = upstream.address;
        format!("{{protocol: [responses, openai], base_url: \"http://{address}\", api_key: null}}")
    };
    let (east, west) = (provider(east), provider(west));
    format!(
        "gateway: edge\nproviders:\n  east: {east}\n  west: {west}\n\
         models:\n  a: {{provider: east}}\n  b: {{provider: west}}\n\
         pools:\n  chat: {{members: [{{target: a}}, {{target: b}}]{pool}}}\n"
    )
}

async fn account(name: &str) -> Upstream {
    let whole = format!(
        r#"{{"id":"resp_{name}","status":"completed","error":null,"output":[{{"type":"message","id":"msg_1","role":"assistant","content":[{{"type":"output_text","text":"hello"}}]}}]}}"#
    );
    Upstream::start(json(200, &whole)).await
}

fn id_of(text: &str) -> String {
    let at = text.find("resp_").expect("an id");
    let id = text[at..].split('"').next().expect("a quote");
    id.to_owned()
}

#[tokio::test]
async fn follow_ups_go_to_the_account_that_knows_what_they_name() {
    let (east, west) = (account("east").await, account("west").await);
    let agent = Agent::start(&document(&east, &west, "")).await;
    let ask = |body: String| chat("chat", false).at("/v1/responses").body(body);
    let got = ask(r#"{"model":"chat","input":"hi"}"#.to_owned());
    let got = got.send(agent.address).await;
    assert_eq!(got.status, 200, "{got:?}");
    let first = got.header("x-lanekeeper-lane").unwrap().to_owned();
    let id = id_of(&got.body);
    assert!(id.starts_with("resp_lk"), "{id}");
    assert!(
        got.body.contains("\"msg_1\""),
        "items are no state of their own"
    );
    for turn in 0..20 {
        let body = format!(r#"{{"model":"chat","input":"{turn}","previous_response_id":"{id}"}}"#);
        let got = ask(body).send(agent.address).await;
        assert_eq!(
            got.header("x-lanekeeper-lane"),
            Some(first.as_str()),
            "{got:?}"
        );
    }
    let asked = if first == "a" { &east } else { &west };
    let plain = format!("resp_{}", if first == "a" { "east" } else { "west" });
    let last = asked.seen().pop().unwrap();
    assert!(last.body.contains(&format!("\"{plain}\"")), "{}", last.body);
    assert!(!last.body.contains("resp_lk"), "{}", last.body);

    let mut stored = chat("chat", false).at(&format!("/v1/responses/{id}"));
    stored.method = Method::GET;
    let got = stored.with("x-lanekeeper-pool", "chat").body("");
    let got = got.send(agent.address).await;
    assert_eq!(
        got.header("x-lanekeeper-lane"),
        Some(first.as_str()),
        "{got:?}"
    );
    let last = asked.seen().pop().unwrap();
    assert_eq!(last.path, format!("/v1/responses/{plain}"));
}

#[tokio::test]
async fn an_account_that_cannot_serve_is_said_and_no_other_is_asked() {
    let (east, west) = (account("east").await, account("west").await);
    let breaker = ", breaker: {trip: {mode: consecutive, consecutive_n: 1}}";
    let agent = Agent::start(&document(&east, &west, breaker)).await;
    let ask = |body: String| chat("chat", false).at("/v1/responses").body(body);
    let got = ask(r#"{"model":"chat","input":"hi"}"#.to_owned());
    let got = got.send(agent.address).await;
    let (knows, other) = match got.header("x-lanekeeper-lane") {
        Some("a") => (&east, &west),
        _ => (&west, &east),
    };
    let id = id_of(&got.body);
    let hits = other.hits();
    knows.always(json(503, ""));
    let follow_up = format!(r#"{{"model":"chat","input":"x","previous_response_id":"{id}"}}"#);
    let got = ask(follow_up.clone()).send(agent.address).await;
    assert_eq!(got.status, 503, "its own failure: {got:?}");
    let got = ask(follow_up).send(agent.address).await;
    assert_eq!(got.status, 409, "{got:?}");
    assert!(got.body.contains("state_unavailable"), "{got:?}");
    assert_eq!(other.hits(), hits, "nobody else can know it");

    let both = format!(r#"{{"model":"chat","input":"{id} resp_lk0123456789_x"}}"#);
    let got = ask(both).send(agent.address).await;
    assert_eq!(got.status, 400, "{got:?}");
}

#[tokio::test]
async fn streams_carry_one_marked_id_in_every_event() {
    let event = |kind: &str| {
        format!(
            "event: response.{kind}\ndata: {{\"type\":\"response.{kind}\",\"response\":{{\"id\":\"resp_1\",\"status\":\"{kind}\",\"error\":null}}}}\n\n"
        )
    };
    let delta = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"resp_\"}\n\n";
    let script = vec![
        stream_head(),
        chunk(&event("created")),
        chunk(delta),
        chunk(delta),
        chunk(&event("completed")),
        stream_end(),
    ];
    let (east, west) = (
        Upstream::start(script.clone()).await,
        Upstream::start(script).await,
    );
    for (pool, marked) in [("", 2), (", state: off", 0)] {
        let agent = Agent::start(&document(&east, &west, pool)).await;
        let body = r#"{"model":"chat","input":"hi","stream":true}"#;
        let got = chat("chat", true).at("/v1/responses").body(body);
        let got = got.send(agent.address).await;
        assert!(got.whole && got.status == 200, "{got:?}");
        assert_eq!(
            got.body.matches("\"id\":\"resp_lk").count(),
            marked,
            "{got:?}"
        );
        assert_eq!(
            got.body.matches("\"delta\":\"resp_\"").count(),
            2,
            "{got:?}"
        );
    }
}
