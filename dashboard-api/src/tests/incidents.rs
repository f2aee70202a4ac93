//! The timeline, incidents, and the events that pages live by.

use super::*;
use futures_util::StreamExt;
use lanekeeper_model::incident::{Incident, Sighting, Sightings, sightings};
use lanekeeper_model::transition::{Reporter, TransitionReport};
use lanekeeper_model::{CellState, FreshWindows, OverrideAction};
use lanekeeper_store::{Hint, StoredIncident};
use std::collections::BTreeSet;

const TIMELINE: &str = "/api/v1/timeline";
const INCIDENTS: &str = "/api/v1/incidents";
const EVENTS: &str = "/api/v1/events";

/// Stores changes of the lane `fast` on an agent, numbered from 1.
async fn changed(server: &Server, agent: &AgentRecord, changes: &[(u64, CellState)]) {
    let entries: Vec<_> = (1..)
        .zip(changes)
        .map(|(sequence, (at_ms, to))| {
            let reporter = Reporter {
                gateway: &agent.gateway,
                instance: &agent.instance,
                agent: &agent.name,
                received_ms: *at_ms,
            };
            reporter.entry(TransitionReport {
                sequence,
                age_ms: 0,
                pool: "chat".into(),
                lane: "fast".into(),
                provider: "east".into(),
                endpoint: None,
                from: CellState::Closed,
                to: *to,
                reason: "count".to_owned(),
                failures: 3,
                samples: 4,
                cause: None,
                cooldown_ms: 10_000,
                observed: false,
            })
        })
        .collect();
    server.store.record_transitions(&entries).await.unwrap();
}

fn seen(records: &[&AgentRecord], now_ms: u64) -> Sightings {
    let mut seen = sightings(records.iter().copied(), now_ms, FreshWindows::default());
    seen.remove("edge").unwrap()
}

/// Opens the incident of the one lane that fails on these agents.
async fn opened(server: &Server, records: &[&AgentRecord]) -> StoredIncident {
    let now_ms = clock::now_ms();
    let seen = seen(records, now_ms);
    let (subject, sighting) = seen.subjects.iter().next().unwrap();
    let incident = Incident::open(&"edge".into(), subject, sighting, seen.fresh, now_ms);
    let opened = server.store.open_incident(incident.unwrap(), now_ms).await;
    hint(server).await;
    opened.unwrap().unwrap()
}

/// Ends an incident.
async fn ended(server: &Server, stored: StoredIncident) {
    let now_ms = clock::now_ms();
    let mut incident = stored.incident;
    incident.step(&Sighting::default(), 1, false, now_ms, 0);
    let advanced = server
        .store
        .advance_incident(incident, stored.version, now_ms);
    advanced.await.unwrap().unwrap();
    hint(server).await;
}

async fn hint(server: &Server) {
    let gateway = "edge".into();
    server
        .live
        .publish(Hint::Incident { gateway })
        .await
        .unwrap();
}

#[tokio::test]
async fn the_timeline_is_paged_filtered_and_refuses_what_it_does_not_know() {
    let server = Server::start().await;
    let now_ms = clock::now_ms();
    for name in ["node-1", "node-2"] {
        let changes = [
            (now_ms - 3_000, CellState::Open),
            (now_ms - 2_000, CellState::HalfOpen),
            (now_ms - 1_000, CellState::Closed),
        ];
        changed(&server, &agent(name), &changes).await;
    }
    let mut seen = BTreeSet::new();
    let mut path = format!("{TIMELINE}?limit=4");
    loop {
        let page = server.get_json(&path).await;
        for entry in page["entries"].as_array().unwrap() {
            seen.insert(format!("{} {}", entry["agent"], entry["sequence"]));
        }
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        path = format!("{TIMELINE}?limit=4&cursor={cursor}");
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
    let count = async |query: &str| {
        let page = server.get_json(&format!("{TIMELINE}?{query}")).await;
        page["entries"].as_array().unwrap().len()
    };
    assert_eq!(count("kind=opened").await, 2);
    assert_eq!(count("agent=node-1").await, 3);
    assert_eq!(count("agent=instance-of-node-2&kind=closed").await, 1);
    assert_eq!(
        count("gateway=edge&pool=chat&lane=fast&provider=east").await,
        6
    );
    assert_eq!(count("lane=slow").await, 0);
    let until = clock::rfc3339(now_ms - 2_000);
    assert_eq!(
        count(&format!("until={until}")).await,
        2,
        "the end is not part of it"
    );
    let page = server
        .get_json(&format!("{TIMELINE}?kind=opened&limit=1"))
        .await;
    let entry = &page["entries"][0];
    assert_eq!(entry["to"], "open");
    assert_eq!(entry["cooldown_secs"], 10.0);
    assert_eq!(
        (&entry["cause"], &entry["missing"]),
        (&Value::Null, &json!(0))
    );
    for query in ["kind=broken", "from=yesterday", "cursor=x", "limit=0"] {
        let refused = server.get(&format!("{TIMELINE}?{query}")).await;
        problem(refused, 400, "invalid_parameter").await;
    }
    let unknown = server.get(&format!("{TIMELINE}?incident=none")).await;
    problem(unknown, 404, "not_found").await;
    server.stop().await;
}

#[tokio::test]
async fn an_incident_shows_its_agents_and_their_states_over_its_time() {
    let server = Server::start().await;
    server.create_edge().await;
    let (one, other) = (with_fast_open(agent("node-1")), agent("node-2"));
    let stored = opened(&server, &[&one, &other]).await;
    let opened_ms = stored.incident.opened_ms;
    let changes = [
        (opened_ms, CellState::Open),
        (opened_ms + 500, CellState::HalfOpen),
    ];
    changed(&server, &one, &changes).await;
    // Another lane of the same time is no part of it.
    let page = server
        .get_json(&format!("{INCIDENTS}?state=open&gateway=edge"))
        .await;
    let shown = &page["incidents"][0];
    assert_eq!(shown["subject"], json!({"kind": "lane", "name": "fast"}));
    assert_eq!(
        (&shown["state"], &shown["scope"]),
        (&json!("active"), &json!("fleet"))
    );
    assert_eq!(
        shown["causes"][0],
        json!({"kind": "status", "status": 529, "count": 5})
    );
    let id = shown["id"].as_str().unwrap();
    let detail = server.get_json(&format!("{INCIDENTS}/{id}")).await;
    assert_eq!(detail["incident"]["id"], id);
    assert_eq!(detail["agents"][0]["agent"], "node-1");
    let spans = detail["strip"][0]["spans"].as_array().unwrap();
    let states: Vec<_> = spans
        .iter()
        .map(|span| span["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["open", "half_open"]);
    let timeline = server.get_json(&format!("{TIMELINE}?incident={id}")).await;
    assert_eq!(timeline["entries"].as_array().unwrap().len(), 2);
    let none = server
        .get_json(&format!("{TIMELINE}?incident={id}&lane=slow"))
        .await;
    assert_eq!(none["entries"], json!([]));
    let summary = server
        .eventually("/api/v1/summary", |summary| summary["open_incidents"] == 1)
        .await;
    assert_eq!(summary["open_incidents"], 1);

    ended(&server, stored).await;
    let page = server.get_json(&format!("{INCIDENTS}?state=closed")).await;
    assert_eq!(page["incidents"][0]["ending"], "recovered");
    assert!(page["incidents"][0]["closed_at"].is_string());
    assert_eq!(
        server.get_json(&format!("{INCIDENTS}?state=open")).await["incidents"],
        json!([])
    );
    problem(
        server.get(&format!("{INCIDENTS}?state=gone")).await,
        400,
        "invalid_parameter",
    )
    .await;
    problem(
        server.get(&format!("{INCIDENTS}/none")).await,
        404,
        "not_found",
    )
    .await;
    server.stop().await;
}

/// Reads a page's events.
struct Page {
    body: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    text: String,
    last_id: Option<String>,
}

impl Page {
    async fn open(server: &Server, query: &str, last_id: Option<&str>) -> Self {
        let mut request = server.request(Method::GET, &format!("{EVENTS}{query}"));
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            body: Box::pin(response.bytes_stream()),
            text: String::new(),
            last_id: None,
        }
    }

    /// The next event but a heartbeat; `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(str::to_owned)
                };
                let (id, name, data) = (field("id: "), field("event: "), field("data: "));
                self.text = rest.to_owned();
                let (name, data) = (name.unwrap(), data.unwrap());
                if name == "heartbeat" {
                    assert_eq!(id, None, "a heartbeat is no place to go on from");
                    continue;
                }
                self.last_id = Some(id.unwrap());
                return Some((name, serde_json::from_str(&data).unwrap()));
            }
            let chunk = tokio::time::timeout(PATIENCE, self.body.next()).await;
            let chunk = chunk.unwrap()?.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The data of the next event with this name that satisfies `wanted`.
    async fn until(&mut self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (given, data) = self.next().await.expect("the stream goes on");
            if given == name && wanted(&data) {
                return data;
            }
        }
    }
}

#[tokio::test]
async fn a_page_gets_a_snapshot_and_then_every_kind_of_change() {
    let server = Server::start().await;
    server.create_edge().await;
    let other = server
        .send_json(Method::POST, "/admin/v1/gateways", &named("other"))
        .await;
    assert_eq!(other.status(), 201);
    let one = agent("node-1");
    server.report(&one).await;
    server
        .eventually("/api/v1/summary", |it| it["agents"]["live"] == 1)
        .await;
    let mut page = Page::open(&server, "", None).await;
    let (name, snapshot) = page.next().await.unwrap();
    assert_eq!(name, "snapshot");
    assert_eq!(
        (&snapshot["cells"], &snapshot["incidents"]),
        (&json!([]), &json!([]))
    );
    assert_eq!(snapshot["summary"]["gateways"], 2);
    let mut filtered = Page::open(&server, "?gateway=other", None).await;
    filtered.until("snapshot", |_| true).await;

    let failing = with_fast_open(one.clone());
    server.report(&failing).await;
    hint(&server).await;
    let cells = page.until("cells", |it| it["cells"] != json!([])).await;
    assert_eq!(
        (&cells["gateway"], &cells["cells"][0]["lane"]),
        (&json!("edge"), &json!("fast"))
    );

    let stored = opened(&server, &[&failing]).await;
    let id = stored.incident.id.clone();
    let news = page.until("incidents", |_| true).await;
    assert_eq!(news["incidents"][0]["id"], id.as_str());
    page.until("summary", |summary| summary["open_incidents"] == 1)
        .await;
    ended(&server, stored).await;
    let over = page
        .until("incidents", |it| it["incidents"][0]["state"] == "closed")
        .await;
    assert_eq!(over["incidents"][0]["id"], id.as_str());

    server.report(&agent("node-2")).await;
    hint(&server).await;
    let agents = page.until("agents", |_| true).await;
    assert_eq!(agents["agents"][0]["name"], "node-2");
    assert_eq!(agents["truncated"], false);

    let order = json!({"action": "drain", "lane": "slow", "reason": "maintenance", "ttl_secs": 60});
    let given = server
        .send_json(Method::POST, "/admin/v1/gateways/edge/overrides", &order)
        .await;
    assert_eq!(given.status(), 201);
    let given: Value = given.json().await.unwrap();
    let overrides = page.until("overrides", |_| true).await;
    assert_eq!(overrides["overrides"][0]["id"], given["id"]);
    assert_eq!(
        overrides["overrides"][0]["action"],
        OverrideAction::Drain.as_str()
    );
    let mut obeying = failing.clone();
    obeying.seq += 1;
    obeying.overrides.understood = true;
    let applied = given["id"].as_str().unwrap().to_owned();
    obeying.overrides.applied = [(applied, clock::now_ms())].into();
    server.report(&obeying).await;
    hint(&server).await;
    let acks = page
        .until("acknowledgements", |it| it["agents_applied"] == 1)
        .await;
    assert_eq!(
        (&acks["id"], &acks["acks"][0]["agent"]),
        (&given["id"], &json!("node-1"))
    );

    let config = "/admin/v1/gateways/edge/config";
    let patch = json!({"pools": {"chat": {"members": [{"target": "fast", "weight": 1}]}}});
    let patched = server
        .request(Method::PATCH, config)
        .header("if-match", "*");
    let patched = patched.json(&patch).send().await.unwrap();
    assert_eq!(patched.status(), 200, "{}", patched.text().await.unwrap());
    page.until("rollout", |it| {
        it["revision"] == 2 && it["gateway"] == "edge"
    })
    .await;

    // Nothing of that concerned the other gateway.
    let document = json!({"models": {"third": {"provider": "west"}}});
    let patched = server
        .request(Method::PATCH, "/admin/v1/gateways/other/config")
        .header("if-match", "*")
        .json(&document);
    assert_eq!(patched.send().await.unwrap().status(), 200);
    loop {
        let (name, data) = filtered.next().await.unwrap();
        match name.as_str() {
            "summary" => {}
            "rollout" => {
                assert_eq!(data["gateway"], "other");
                break;
            }
            _ => assert_eq!(data["gateway"], "other", "{name}"),
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_page_that_comes_back_goes_on_where_it_was_or_is_told_to_begin_anew() {
    let server = Server::start().await;
    server.create_edge().await;
    server.report(&agent("node-1")).await;
    let mut page = Page::open(&server, "", None).await;
    page.until("snapshot", |_| true).await;
    let failing = with_fast_open(agent("node-1"));
    server.report(&failing).await;
    hint(&server).await;
    page.until("cells", |it| it["cells"] != json!([])).await;
    let id = page.last_id.clone().unwrap();
    drop(page);

    // What happens meanwhile is not lost.
    let stored = opened(&server, &[&failing]).await;
    let mut back = Page::open(&server, "", Some(&id)).await;
    let news = back.until("incidents", |_| true).await;
    assert_eq!(news["incidents"][0]["id"], stored.incident.id.as_str());

    let epoch = id.rsplit_once('-').unwrap().0;
    for unknown in ["1", "", "another-7", &format!("{epoch}-99999999")] {
        let mut anew = Page::open(&server, "", Some(unknown)).await;
        let (name, data) = anew.next().await.unwrap();
        assert_eq!(name, "reset", "{unknown}");
        assert!(data["reason"].is_string());
        let (name, snapshot) = anew.next().await.unwrap();
        assert_eq!(name, "snapshot");
        assert_eq!(snapshot["incidents"][0]["id"], stored.incident.id.as_str());
    }
    server.stop().await;
}

#[tokio::test]
async fn a_page_ends_with_its_token_and_one_token_has_its_share_of_pages() {
    let server = Server::start().await;
    server.create_edge().await;
    let (row, token) = server.token(Role::Viewer, None).await;
    let open = || server.bare(Method::GET, EVENTS).bearer_auth(&token).send();
    let first = open().await.unwrap();
    assert_eq!(first.status(), 200);
    let mut pages = Vec::new();
    for _ in 1..crate::event_hub::PAGES_OF_TOKEN_MAX {
        pages.push(open().await.unwrap());
    }
    problem(open().await.unwrap(), 429, "too_many_streams").await;
    drop(pages);
    let path = format!("/admin/v1/tokens/{}", row.id);
    let revoked = server.request(Method::DELETE, &path).send().await.unwrap();
    assert_eq!(revoked.status(), 204);
    let mut body = first.bytes_stream();
    let ended = tokio::time::timeout(PATIENCE, async { while body.next().await.is_some() {} });
    ended.await.expect("a page outlives its token");
    server.stop().await;
}
