//! What the fleet sees, through the API.

use super::*;
use futures_util::StreamExt;
use lanekeeper_store::Hint;
use std::collections::BTreeMap;

const STATE: &str = "/api/v1/breaker-state";

#[tokio::test]
async fn an_open_cell_is_shown_with_its_agents_and_cause() {
    let server = Server::start().await;
    server.create_edge().await;
    server.report(&with_fast_open(agent("node-1"))).await;
    server.report(&agent("node-2")).await;
    let view = server
        .eventually(STATE, |view| view["agents"]["live"] == 2)
        .await;
    assert_eq!(view["fresh_window_secs"], 30);
    assert_eq!(view["partial"], false);
    assert_eq!(view["cells"].as_array().unwrap().len(), 1);
    let cell = &view["cells"][0];
    assert_eq!(cell["lane"], "fast");
    assert_eq!(cell["state"], "open");
    assert_eq!(cell["agents"]["open"], 1);
    assert_eq!(cell["agents"]["closed"], 1);
    assert_eq!(
        cell["cause"],
        json!({"kind": "status", "status": 529, "count": 5})
    );
    assert!(cell["next_probe_in_secs"].as_f64().unwrap() > 0.0);
    server.stop().await;
}

#[tokio::test]
async fn filters_narrow_the_view_and_closed_cells_come_on_request() {
    let server = Server::start().await;
    server.create_edge().await;
    server.report(&with_fast_open(agent("node-1"))).await;
    server
        .eventually(STATE, |view| view["cells"].as_array().unwrap().len() == 1)
        .await;
    for (query, cells) in [
        ("?include=closed", 4),
        ("?include=closed&pool=chat", 2),
        ("?include=closed&pool=", 2),
        ("?include=closed&lane=slow", 2),
        ("?provider=east", 1),
        ("?provider=west", 0),
        ("?state=open", 1),
        ("?state=half_open", 0),
        ("?state=closed", 3),
        ("?gateway=edge", 1),
        ("?gateway=other", 0),
    ] {
        let view = server.get_json(&format!("{STATE}{query}")).await;
        assert_eq!(view["cells"].as_array().unwrap().len(), cells, "{query}");
    }
    let detailed = server.get_json(&format!("{STATE}?detail=agents")).await;
    assert_eq!(detailed["cells"][0]["by_agent"][0]["agent"], "node-1");
    server.stop().await;
}

#[tokio::test]
async fn unknown_parameters_and_values_are_refused_by_name() {
    let server = Server::start().await;
    let refused = problem(
        server.get(&format!("{STATE}?stat=open")).await,
        400,
        "unknown_parameter",
    );
    let refused = refused.await;
    assert_eq!(refused["errors"][0]["parameter"], "stat");
    assert!(refused["detail"].as_str().unwrap().contains("state"));
    for query in [
        "?state=broken",
        "?include=all",
        "?detail=cells",
        "?state=open&state=closed",
    ] {
        problem(
            server.get(&format!("{STATE}{query}")).await,
            400,
            "invalid_parameter",
        )
        .await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_view_that_says_the_same_is_not_sent_twice() {
    let server = Server::start().await;
    server.create_edge().await;
    server.report(&with_fast_open(agent("node-1"))).await;
    server
        .eventually(STATE, |view| view["cells"].as_array().unwrap().len() == 1)
        .await;
    let first = server.get(STATE).await;
    let tag = first.headers()["etag"].clone();
    let first: Value = first.json().await.unwrap();

    // Until ages have moved, so that only the tag's own rule can make them equal.
    let moved =
        |view: &Value| view["cells"][0]["opened_for_secs"] != first["cells"][0]["opened_for_secs"];
    server.eventually(STATE, moved).await;
    let held = server
        .request(Method::GET, STATE)
        .header("if-none-match", &tag)
        .send()
        .await
        .unwrap();
    assert_eq!(held.status(), 304);
    assert_eq!(held.headers()["etag"], tag);

    server.report(&agent("node-2")).await;
    server
        .eventually(STATE, |view| view["agents"]["live"] == 2)
        .await;
    let changed = server
        .request(Method::GET, STATE)
        .header("if-none-match", &tag)
        .send()
        .await
        .unwrap();
    assert_eq!(changed.status(), 200);
    server.stop().await;
}

#[tokio::test]
async fn a_silent_agent_is_stale_and_never_closed() {
    let server = Server::start().await;
    server.create_edge().await;
    let mut silent = agent("node-1");
    silent.report_received_ms = Some(clock::now_ms() - 40_000);
    silent.connected_ms = clock::now_ms() - 60_000;
    server.report(&silent).await;
    let path = format!("{STATE}?include=closed");
    let view = server
        .eventually(&path, |view| view["agents"]["stale"] == 1)
        .await;
    for cell in view["cells"].as_array().unwrap() {
        assert_eq!(cell["state"], "unknown");
        assert_eq!(cell["agents"]["closed"], 0);
        assert_eq!(cell["agents"]["stale"], 1);
    }
    server.stop().await;
}

#[tokio::test]
async fn agents_are_listed_filtered_and_paged() {
    let server = Server::start().await;
    server.create_edge().await;
    for name in ["node-1", "node-2", "node-3"] {
        server.report(&agent(name)).await;
    }
    let path = "/api/v1/agents";
    let all = server
        .eventually(path, |page| page["agents"].as_array().unwrap().len() == 3)
        .await;
    assert_eq!(all["agents"][0]["name"], "node-1");
    assert_eq!(all["agents"][0]["state"], "live");
    assert_eq!(all["agents"][0]["target_revision"], 1);
    assert_eq!(all["agents"][0]["converged"], false);
    assert_eq!(all["agents"][0]["clock_skew_secs"], 0.012);

    let first = server.get_json(&format!("{path}?limit=2")).await;
    assert_eq!(first["agents"].as_array().unwrap().len(), 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = server
        .get_json(&format!("{path}?limit=2&cursor={cursor}"))
        .await;
    assert_eq!(second["agents"][0]["name"], "node-3");
    assert_eq!(second["next_cursor"], Value::Null);

    let gone = server.get_json(&format!("{path}?state=gone")).await;
    assert_eq!(gone["agents"], json!([]));
    let elsewhere = server.get_json(&format!("{path}?gateway=other")).await;
    assert_eq!(elsewhere["agents"], json!([]));
    let one = server.get_json(&format!("{path}/instance-of-node-2")).await;
    assert_eq!(one["name"], "node-2");
    problem(
        server.get(&format!("{path}/nobody")).await,
        404,
        "not_found",
    )
    .await;
    problem(
        server.get(&format!("{path}?state=asleep")).await,
        400,
        "invalid_parameter",
    )
    .await;
    server.stop().await;
}

#[tokio::test]
async fn an_agent_that_only_the_store_remembers_is_silent_and_one_that_left_is_gone() {
    let server = Server::start().await;
    server.create_edge().await;
    let now_ms = clock::now_ms();
    let mut silent = agent("node-9");
    silent.instance = "before-the-restart".to_owned();
    let facts = lanekeeper_store::AgentFacts {
        first_seen_ms: now_ms - 90_000,
        last_seen_ms: now_ms - 60_000,
        ..facts(&silent)
    };
    server.store.record_agent(&facts).await.unwrap();
    let left = lanekeeper_store::AgentFacts {
        instance: "left-before-the-restart".to_owned(),
        name: "went".to_owned(),
        last_seen_ms: now_ms - 1_000,
        left_ms: Some(now_ms - 1_000),
        ..facts
    };
    server.store.record_agent(&left).await.unwrap();
    let listed = |page: &Value| page["agents"].as_array().unwrap().len() == 2;
    let page = server.eventually("/api/v1/agents", listed).await;
    let agents = page["agents"].as_array().unwrap().iter();
    let states: BTreeMap<&str, &str> = agents
        .map(|agent| (agent["name"].as_str(), agent["state"].as_str()))
        .filter_map(|(name, state)| name.zip(state))
        .collect();
    assert_eq!(
        states,
        BTreeMap::from([("node-9", "stale"), ("went", "gone")])
    );
    let view = server.get_json(&format!("{STATE}?include=closed")).await;
    assert_eq!(view["agents"], json!({"live": 0, "stale": 1}));
    server.stop().await;
}

#[tokio::test]
async fn a_session_that_a_later_one_has_followed_is_not_shown_again() {
    let server = Server::start().await;
    server.create_edge().await;
    let record = agent("node-1");
    let later = lanekeeper_store::AgentFacts {
        session_epoch: record.session_epoch + 1,
        ..facts(&record)
    };
    server.store.record_agent(&later).await.unwrap();
    server
        .eventually("/api/v1/agents", |view| {
            view["agents"].as_array().unwrap().len() == 1
        })
        .await;
    // A live view that was emptied takes it from a replica that stood still meanwhile.
    server.report(&record).await;
    server.report(&agent("node-2")).await;
    server
        .eventually("/api/v1/agents", |view| {
            view["agents"].as_array().unwrap().len() == 2
        })
        .await;
    let view = server.get_json(STATE).await;
    assert_eq!(view["agents"]["live"], 1, "node-2 alone");
    server.stop().await;
}

#[tokio::test]
async fn the_summary_counts() {
    let server = Server::start().await;
    server.create_edge().await;
    server.report(&with_fast_open(agent("node-1"))).await;
    let summary = server
        .eventually("/api/v1/summary", |numbers| numbers["incidents"] == 1)
        .await;
    assert_eq!(summary["gateways"], 1);
    assert_eq!(summary["agents"]["live"], 1);
    assert_eq!(summary["cells"]["open"], 1);
    assert_eq!(summary["cells"]["closed"], 3);
    server.stop().await;
}

/// Reads events off a stream.
struct Events {
    body: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    text: String,
}

impl Events {
    async fn open(server: &Server, token: &str) -> Self {
        let response = server
            .bare(Method::GET, &format!("{STATE}/stream"))
            .bearer_auth(token)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            body: Box::pin(response.bytes_stream()),
            text: String::new(),
        }
    }

    /// The next event's name and data; `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    event
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .map(str::to_owned)
                };
                let (name, data) = (field("event: "), field("data: "));
                self.text = rest.to_owned();
                if let (Some(name), Some(data)) = (name, data) {
                    return Some((name, serde_json::from_str(&data).unwrap()));
                }
                continue;
            }
            let chunk = tokio::time::timeout(PATIENCE, self.body.next())
                .await
                .unwrap()?;
            self.text
                .push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
    }
}

#[tokio::test]
async fn a_stream_begins_with_a_snapshot_and_goes_on_with_changes() {
    let server = Server::start().await;
    server.create_edge().await;
    server.report(&agent("node-1")).await;
    server
        .eventually(STATE, |view| view["agents"]["live"] == 1)
        .await;
    let mut events = Events::open(&server, &server.admin).await;
    let (name, snapshot) = events.next().await.unwrap();
    assert_eq!(
        (name.as_str(), &snapshot["cells"]),
        ("snapshot", &json!([]))
    );

    let open = with_fast_open(agent("node-1"));
    server.report(&open).await;
    let hint = Hint::Report {
        gateway: "edge".into(),
        instance: open.instance.clone(),
    };
    server.live.publish(hint).await.unwrap();
    let (name, change) = events.next().await.unwrap();
    assert_eq!(name, "change");
    assert_eq!(change["cells"][0]["state"], "open");

    let mut closed = agent("node-1");
    closed.seq = open.seq + 1;
    server.report(&closed).await;
    let (name, change) = events.next().await.unwrap();
    assert_eq!((name.as_str(), &change["cells"]), ("change", &json!([])));
    assert_eq!(change["gone"][0]["lane"], "fast");
    server.stop().await;
}

#[tokio::test]
async fn a_stream_begins_with_a_snapshot_whatever_event_a_client_saw_last() {
    let server = Server::start().await;
    server.create_edge().await;
    for last in ["", "7", "nonsense"] {
        let asked = server
            .request(Method::GET, &format!("{STATE}/stream"))
            .header("last-event-id", last);
        let mut answer = asked.send().await.unwrap();
        let begin = answer.chunk().await.unwrap().unwrap();
        assert!(begin.starts_with(b"event: snapshot\n"), "{last}: {begin:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let server = Server::start().await;
    let (row, token) = server.token(Role::Viewer, None).await;
    let mut events = Events::open(&server, &token).await;
    assert_eq!(events.next().await.unwrap().0, "snapshot");
    server
        .store
        .revoke_token(&row.id, &by_test())
        .await
        .unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), events.next()).await;
    assert_eq!(
        ended.expect("the stream outlives its token by five seconds"),
        None
    );
    server.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_the_server() {
    let server = Server::start().await;
    let mut events = Events::open(&server, &server.admin).await;
    assert_eq!(events.next().await.unwrap().0, "snapshot");
    let started = clock::instant();
    server.stop().await;
    assert_eq!(events.next().await, None);
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "an idle stream held up the end"
    );
}

#[tokio::test]
async fn streams_are_bounded_and_a_closed_one_makes_room() {
    let server = Server::start().await;
    let path = format!("{STATE}/stream");
    let mut open = Vec::new();
    let follow = |token: String| server.bare(Method::GET, &path).bearer_auth(token).send();
    let share = crate::app::MAX_STREAMS_OF_TOKEN;
    for _ in 0..crate::app::MAX_STREAMS / share {
        let (_, token) = server.token(Role::Viewer, None).await;
        for _ in 0..share {
            let stream = follow(token.clone()).await.unwrap();
            assert_eq!(stream.status(), 200);
            open.push(stream);
        }
    }
    let refused = server.get(&path).await;
    assert!(refused.headers().contains_key("retry-after"));
    problem(refused, 503, "too_many_streams").await;
    drop(open.pop());
    let room = tokio::time::timeout(PATIENCE, async {
        while server.get(&path).await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(room.await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn one_token_cannot_take_the_streams_of_others() {
    let server = Server::start().await;
    let path = format!("{STATE}/stream");
    let mut open = Vec::new();
    for _ in 0..crate::app::MAX_STREAMS_OF_TOKEN {
        open.push(server.get(&path).await);
    }
    let refused = server.get(&path).await;
    assert!(refused.headers().contains_key("retry-after"));
    problem(refused, 429, "too_many_streams").await;
    let (_, other) = server.token(Role::Viewer, None).await;
    let request = server.bare(Method::GET, &path).bearer_auth(other);
    assert_eq!(request.send().await.unwrap().status(), 200);
    drop(open);
    server.stop().await;
}

#[tokio::test]
async fn an_agent_that_only_the_store_remembers_still_has_a_last_sign() {
    let server = Server::start().await;
    let seen_ms = clock::now_ms() - 90_000;
    let record = agent("node-1");
    let facts = lanekeeper_store::AgentFacts {
        first_seen_ms: seen_ms,
        last_seen_ms: seen_ms,
        ..facts(&record)
    };
    server.store.record_agent(&facts).await.unwrap();
    let path = format!("/api/v1/agents/{}", record.instance);
    server
        .eventually("/api/v1/agents", |page| page["agents"][0].is_object())
        .await;
    let shown = server.get_json(&path).await;
    let age = shown["last_report_age_secs"].as_f64().unwrap();
    assert!((90.0..120.0).contains(&age), "{shown:#}");
    assert_ne!(shown["state"], "live");
    server.stop().await;
}

/// The document `edge` whose provider `east` has a breaker of its own.
fn edge_with_breaker() -> Value {
    let mut document = edge();
    document["providers"]["east"]["breaker"] = json!({});
    document
}

/// The same agent, whose provider `east` is open by its own cell and nothing else.
fn with_east_open(record: AgentRecord) -> AgentRecord {
    let mut record = with_fast_open(record);
    for cell in &mut record.cells {
        (cell.pool, cell.lane) = ("".into(), "".into());
    }
    record
}

/// Finding G1: a provider's own cell is a cell like the others.
#[tokio::test]
async fn providers_own_cell_is_listed_counted_and_in_the_small_shape() {
    let server = Server::start().await;
    let document = edge_with_breaker();
    let created = server.send_json(Method::POST, "/admin/v1/gateways", &document);
    assert_eq!(created.await.status(), 201);
    server.report(&agent("one")).await;
    let all = "/api/v1/breaker-state?include=closed&provider=east";
    let view = server
        .eventually(all, |view| view["cells"][0]["state"] == "closed")
        .await;
    let names = |view: &Value| -> Vec<[Value; 3]> {
        let cells = view["cells"].as_array().unwrap().iter();
        cells
            .map(|cell| ["pool", "lane", "provider"].map(|name| cell[name].clone()))
            .collect()
    };
    let own = [Value::Null, Value::Null, json!("east")];
    let lane = |pool: &str| [json!(pool), json!("fast"), json!("east")];
    assert_eq!(names(&view), [own.clone(), lane(""), lane("chat")]);
    let summary = server.get_json("/api/v1/summary").await;
    assert_eq!(summary["cells"]["closed"], 5, "{summary}");

    server.report(&with_east_open(agent("one"))).await;
    let view = server
        .eventually("/api/v1/breaker-state", |view| view["cells"] != json!([]))
        .await;
    assert_eq!(names(&view), [own]);
    let cell = &view["cells"][0];
    assert_eq!(cell["agents"]["open"], 1, "{cell}");
    assert_eq!(cell["cause"]["status"], 529, "{cell}");
    let summary = server.get_json("/api/v1/summary").await;
    assert_eq!(
        (&summary["incidents"], &summary["cells"]["open"]),
        (&json!(1), &json!(1)),
        "{summary}"
    );
    let detail = "/api/v1/breaker-state?provider=east&detail=agents";
    let by_agent = &server.get_json(detail).await["cells"][0]["by_agent"];
    assert_eq!(by_agent[0]["state"], "open", "{by_agent}");
    let small = server.get_json("/admin/v1/gateways/edge/circuit-breaker");
    let small = small.await;
    assert_eq!(small["east"]["state"], "open", "{small}");
    assert_eq!(small["east"]["failures"], 5, "{small}");
    server.stop().await;
}

#[tokio::test]
async fn providers_that_are_not_closed_are_listed_in_the_small_shape() {
    let server = Server::start().await;
    let path = "/admin/v1/gateways/edge/circuit-breaker";
    problem(server.get(path).await, 404, "not_found").await;
    server.create_edge().await;
    server.report(&agent("one")).await;
    server.eventually(path, |body| *body == json!({})).await;
    let before = clock::now_ms() / 1000;
    server.report(&with_fast_open(agent("one"))).await;
    let body = server
        .eventually(path, |body| body["east"]["state"] == "open")
        .await;
    assert_eq!(body["east"]["failures"], 5);
    let opened_at = body["east"]["opened_at"].as_u64().unwrap();
    assert!((before - 3..=before + 3).contains(&opened_at), "{body}");
    assert_eq!(body.as_object().unwrap().len(), 1, "west is closed: {body}");

    let mut silent = with_fast_open(with_fast_open(agent("one")));
    silent.report_received_ms = Some(clock::now_ms() - 60_000);
    server.report(&silent).await;
    let body = server
        .eventually(path, |body| body["west"]["state"] == "unknown")
        .await;
    assert_eq!(body["west"]["opened_at"], Value::Null, "{body}");
    server.stop().await;
}
