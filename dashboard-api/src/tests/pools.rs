//! Pools and what no breaker says, through the API.

use super::*;
use lanekeeper_model::traffic::ReplicaTraffic;
use lanekeeper_model::{LaneUsability, PoolUsability, UnusableReason};

const STATE: &str = "/api/v1/breaker-state";
const POOLS: &str = "/api/v1/pools";
const SUMMARY: &str = "/api/v1/summary";

/// The same agent, on which `lanes` cannot serve in the pool `chat`.
fn without(mut record: AgentRecord, lanes: &[(&str, UnusableReason)]) -> AgentRecord {
    record.seq += 1;
    record.pools = vec![PoolUsability {
        pool: "chat".into(),
        members: 2,
        usable: 2 - u32::try_from(lanes.len()).unwrap(),
        exhausted: lanes.len() == 2,
        in_flight: 3,
        queued: 0,
        unusable: { lanes.iter() }
            .map(|(lane, reason)| LaneUsability {
                lane: (*lane).into(),
                reasons: [*reason].into_iter().collect(),
            })
            .collect(),
    }];
    record
}

fn cells(view: &Value) -> Vec<&Value> {
    view["cells"].as_array().unwrap().iter().collect()
}

#[tokio::test]
async fn a_lane_without_its_key_is_listed_although_its_cell_is_closed() {
    let server = Server::start().await;
    server.create_edge().await;
    let keyless = [("fast", UnusableReason::MissingKey)];
    server.report(&without(agent("node-1"), &keyless)).await;
    server.report(&agent("node-2")).await;
    let view = server
        .eventually(STATE, |view| view["agents"]["live"] == 2)
        .await;
    let [cell] = cells(&view)[..] else {
        panic!("{view:#}")
    };
    assert_eq!(
        (&cell["pool"], &cell["lane"]),
        (&json!("chat"), &json!("fast"))
    );
    assert_eq!(cell["state"], "closed");
    assert_eq!(
        cell["unusable"],
        json!({"agents": 1, "reasons": ["missing_key"]})
    );
    let detailed = server.get_json(&format!("{STATE}?detail=agents")).await;
    let by_agent = &detailed["cells"][0]["by_agent"];
    assert_eq!(by_agent.as_array().unwrap().len(), 1);
    assert_eq!(by_agent[0]["agent"], "node-1");
    assert_eq!(by_agent[0]["unusable"], json!(["missing_key"]));

    let summary = server.get_json(SUMMARY).await;
    assert_eq!(summary["cells"]["unusable"], 1);
    assert_eq!(
        summary["pools"],
        json!({"total": 1, "exhausted": 0, "impaired": 1, "unknown": 0})
    );
    assert_eq!(summary["incidents"], 0, "the other member serves");
    server.stop().await;
}

#[tokio::test]
async fn a_pool_exhausted_on_one_agent_is_an_incident_of_its_gateway() {
    let server = Server::start().await;
    server.create_edge().await;
    let nothing = [
        ("fast", UnusableReason::MissingKey),
        ("slow", UnusableReason::CellOpen),
    ];
    server.report(&without(agent("node-1"), &nothing)).await;
    server.report(&agent("node-2")).await;
    server.report(&agent("node-3")).await;
    let page = server
        .eventually(POOLS, |page| page["pools"][0]["agents"]["reporting"] == 3)
        .await;
    let pool = &page["pools"][0];
    assert_eq!(
        (&pool["gateway"], &pool["pool"]),
        (&json!("edge"), &json!("chat"))
    );
    assert_eq!(
        pool["agents"],
        json!({"reporting": 3, "exhausted_on": 1, "impaired_on": 0, "stale": 0})
    );
    assert_eq!(
        pool["exhausted_reasons"],
        json!(["missing_key", "cell_open"])
    );
    assert_eq!(pool["usable_members"], json!({"least": 0, "most": 2}));
    assert_eq!(pool["in_flight"], 3);
    let fast = &pool["members"][0];
    assert_eq!(
        (&fast["lane"], &fast["usable_on"]),
        (&json!("fast"), &json!(2))
    );
    assert_eq!(fast["unusable"]["reasons"], json!(["missing_key"]));
    let slow = &pool["members"][1];
    assert_eq!(slow["usable_on"], 2);
    assert_eq!(slow["unusable"]["agents"], 0, "its cell's row says it");

    let one = server.get_json(&format!("{POOLS}/edge/chat")).await;
    assert_eq!(one, *pool);
    problem(
        server.get(&format!("{POOLS}/edge/none")).await,
        404,
        "not_found",
    )
    .await;
    for (query, pools, incidents) in [("?gateway=edge", 1, 1), ("?gateway=other", 0, 0)] {
        let page = server.get_json(&format!("{POOLS}{query}")).await;
        assert_eq!(page["pools"].as_array().unwrap().len(), pools, "{query}");
        let summary = server.get_json(&format!("{SUMMARY}{query}")).await;
        assert_eq!(summary["incidents"], incidents, "{query}");
        assert_eq!(summary["pools"]["exhausted"], incidents, "{query}");
    }
    server.stop().await;
}

#[tokio::test]
async fn cells_are_unknown_when_all_who_knew_are_silent() {
    let server = Server::start().await;
    server.create_edge().await;
    let mut silent = agent("node-1");
    silent.report_received_ms = Some(clock::now_ms() - 60_000);
    server.report(&silent).await;
    let view = server
        .eventually(STATE, |view| view["agents"]["stale"] == 1)
        .await;
    let states: Vec<&Value> = cells(&view).iter().map(|cell| &cell["state"]).collect();
    assert_eq!(states, vec!["unknown"; 4]);
    let summary = server.get_json(SUMMARY).await;
    assert_eq!(summary["silent_gateways"], 1);
    assert_eq!(summary["incidents"], 1);
    let page = server.get_json(POOLS).await;
    assert_eq!(page["pools"][0]["usable_members"], Value::Null);

    let mut left = silent.clone();
    (left.left, left.seq) = (true, 9);
    server.report(&left).await;
    let view = server
        .eventually(STATE, |view| view["cells"] == json!([]))
        .await;
    assert_eq!(
        view["agents"],
        json!({"live": 0, "stale": 0}),
        "it said goodbye"
    );
    server.stop().await;
}

#[tokio::test]
async fn cell_that_an_operator_forced_open_is_no_incident() {
    let server = Server::start().await;
    server.create_edge().await;
    let mut ordered = with_fast_open(agent("node-1"));
    ordered.cells[0].override_action = Some("force_open".to_owned());
    server.report(&ordered).await;
    let view = server
        .eventually(STATE, |view| view["cells"][0]["agents"]["forced_open"] == 1)
        .await;
    let cell = &view["cells"][0];
    assert_eq!(
        (&cell["state"], &cell["scope"]),
        (&json!("open"), &Value::Null)
    );
    let summary = server.get_json(SUMMARY).await;
    assert_eq!(summary["cells"]["forced_open"], 1);
    assert_eq!(summary["incidents"], 0);
    server.stop().await;
}

#[tokio::test]
async fn traffic_of_all_replicas_is_shown_by_pool_and_member() {
    let server = Server::start().await;
    server.create_edge().await;
    server.report(&agent("node-1")).await;
    let heard = |ok: u64, exhausted: u64| -> ReplicaTraffic {
        let minute = json!({
            "totals": {
                "requests": {"ok": ok, "exhausted": exhausted}, "failovers": 2,
                "first_content": [0, 0, 0, 0, ok],
            },
            "attempts": [["fast", {"success": ok}], ["slow", {"transient": ok}]],
        });
        let pools = json!({"edge": {"chat": {"minute": minute}, "": {"ten_minutes": minute}}});
        serde_json::from_value(json!({"minute_ms": 50_000, "gateways": pools})).unwrap()
    };
    for (replica, ok, exhausted) in [("r1", 30, 10), ("r2", 10, 0)] {
        let traffic = Arc::new(heard(ok, exhausted));
        server.live.publish_traffic(replica, traffic).await.unwrap();
    }
    let page = server
        .eventually(POOLS, |page| {
            page["pools"][1]["last_minute"]["requests"] == 50
        })
        .await;
    assert_eq!(
        page["pools"][0]["pool"], "",
        "direct routes, since they serve"
    );
    let chat = &page["pools"][1];
    let minute = &chat["last_minute"];
    assert_eq!(minute["over_secs"], 50.0);
    assert_eq!(minute["error_share"], 0.2);
    assert_eq!(
        (&minute["ok"], &minute["failovers"]),
        (&json!(40), &json!(4))
    );
    let p50 = minute["first_content_p50_secs"].as_f64().unwrap();
    assert!((0.05..=0.1).contains(&p50), "{p50}");
    assert_eq!(minute["whole_p99_secs"], Value::Null);
    assert_eq!(chat["last_ten_minutes"]["error_share"], Value::Null);
    assert_eq!(chat["members"][0]["traffic_share"], 0.5);
    assert_eq!(chat["members"][1]["last_minute"]["transient"], 40);
    server.stop().await;
}

#[tokio::test]
async fn pools_come_in_pages() {
    let server = Server::start().await;
    for gateway in ["a", "b", "c"] {
        server.create_gateway(gateway).await;
    }
    let first = server
        .eventually(&format!("{POOLS}?limit=2"), |page| {
            page["pools"]
                .as_array()
                .is_some_and(|pools| pools.len() == 2)
        })
        .await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = server
        .get_json(&format!("{POOLS}?limit=2&cursor={cursor}"))
        .await;
    assert_eq!(second["pools"][0]["gateway"], "c");
    assert_eq!(second["next_cursor"], Value::Null);
    problem(
        server.get(&format!("{POOLS}?cursor=nonsense")).await,
        400,
        "invalid_parameter",
    )
    .await;
    server.stop().await;
}

#[tokio::test]
async fn the_view_says_that_it_is_rebuilding_until_known_agents_are_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
    store.record_agent(&facts(&agent("node-1"))).await.unwrap();
    let server = Server::over(store, Arc::new(MemoryLive::new()), Some(dir)).await;
    server.create_edge().await;
    let view = server
        .eventually(STATE, |view| view["rebuilding"] == true)
        .await;
    assert_eq!(view["partial"], true);
    assert_eq!(server.get_json(SUMMARY).await["rebuilding"], true);
    assert_eq!(server.get_json(POOLS).await["rebuilding"], true);
    server.report(&agent("node-1")).await;
    let view = server
        .eventually(STATE, |view| view["rebuilding"] == false)
        .await;
    assert_eq!(view["partial"], false);
    server.stop().await;
}
