//! Overrides through the API: given, listed, acknowledged, released, refused.

use super::*;
use lanekeeper_model::fleet::HeldOverrides;

const PATH: &str = "/admin/v1/gateways/edge/overrides";

fn force_open() -> Value {
    json!({"action": "force_open", "pool": "chat", "lane": "fast", "ttl_secs": 600,
        "reason": "billing is broken"})
}

impl Server {
    async fn give(&self, order: &Value) -> Value {
        let answer = self.send_json(Method::POST, PATH, order).await;
        assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
        answer.json().await.unwrap()
    }
}

#[tokio::test]
async fn an_order_is_given_shown_listed_and_released() {
    let server = Server::start().await;
    server.create_edge().await;
    let mut hints = server.live.subscribe();
    let (_, operator) = server.token(Role::Operator, None).await;
    let answer = server
        .bare(Method::POST, PATH)
        .bearer_auth(&operator)
        .json(&force_open())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 201);
    let location = answer.headers()["location"].to_str().unwrap().to_owned();
    let given: Value = answer.json().await.unwrap();
    assert_eq!(
        location,
        format!("{PATH}/{}", given["id"].as_str().unwrap())
    );
    for (field, value) in [
        ("gateway", json!("edge")),
        ("action", json!("force_open")),
        ("pool", json!("chat")),
        ("lane", json!("fast")),
        ("agents", json!({})),
        ("reason", json!("billing is broken")),
        ("actor", json!("a-operator")),
        ("state", json!("standing")),
        ("released_at", Value::Null),
    ] {
        assert_eq!(given[field], value, "{field}");
    }
    let remaining = given["remaining_secs"].as_f64().unwrap();
    assert!((590.0..=600.0).contains(&remaining), "{remaining}");
    let hint = tokio::time::timeout(PATIENCE, hints.recv()).await.unwrap();
    let told = lanekeeper_store::Hint::Overrides {
        gateway: "edge".into(),
    };
    assert_eq!(hint.unwrap(), told);

    let listed = server.get_json(PATH).await;
    assert_eq!(listed["overrides"][0]["id"], given["id"]);
    let path = format!("{location}?message=repaired");
    let release = || server.request(Method::DELETE, &path).send();
    assert_eq!(release().await.unwrap().status(), 204);
    let again = release().await.unwrap();
    assert_eq!(again.status(), 200, "twice is as good as once, and said");
    let over: Value = again.json().await.unwrap();
    assert_eq!(over["state"], "released");
    assert_eq!(server.get_json(PATH).await["overrides"], json!([]));
    let ended = server.get_json(&format!("{PATH}?include=ended")).await;
    assert_eq!(ended["overrides"][0]["state"], "released");
    assert_eq!(ended["overrides"][0]["remaining_secs"], 0.0);
    assert!(server.get_json(&location).await["released_at"].is_string());

    let trail = server.get_json("/admin/v1/audit?limit=2").await;
    let told: Vec<_> = trail["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["action"].clone(), entry["message"].clone()))
        .collect();
    assert_eq!(
        told,
        [
            (json!("override.release"), json!("repaired")),
            (json!("override.create"), json!("billing is broken")),
        ]
    );
    server.stop().await;
}

#[tokio::test]
async fn every_agents_word_is_shown() {
    let server = Server::start().await;
    server.create_edge().await;
    let given = server.give(&force_open()).await;
    let id = given["id"].as_str().unwrap();
    let understanding = HeldOverrides {
        understood: true,
        ..HeldOverrides::default()
    };
    let mut obeying = agent("obeying");
    obeying.overrides = HeldOverrides {
        applied: [(id.to_owned(), clock::now_ms())].into(),
        ..understanding.clone()
    };
    let mut late = agent("late");
    late.overrides = understanding;
    for record in [&obeying, &late, &agent("older")] {
        server.report(record).await;
    }
    let path = format!("{PATH}/{id}");
    let shown = server
        .eventually(&path, |shown| shown["acks"].as_array().unwrap().len() == 3)
        .await;
    let acks: Vec<(&str, &str, &Value)> = shown["acks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|ack| {
            let agent = ack["agent"].as_str().unwrap();
            (agent, ack["state"].as_str().unwrap(), &ack["reason"])
        })
        .collect();
    let too_old = json!("agent release 0.1.0 does not understand overrides");
    assert_eq!(
        acks,
        [
            ("late", "pending", &Value::Null),
            ("older", "pending", &too_old),
            ("obeying", "applied", &Value::Null),
        ]
    );
    assert_eq!(
        (&shown["agents_applied"], &shown["agents_pending"]),
        (&json!(1), &json!(2))
    );
    server.stop().await;
}

#[tokio::test]
async fn every_fault_of_an_order_is_listed_at_once() {
    let server = Server::start().await;
    server.create_edge().await;
    let faulty = json!({"action": "close", "pool": 7, "lane": "", "agents": {"zone": 1},
        "reason": " ", "ttl_secs": 604_801, "allow_empty": "yes", "lnae": "fast"});
    let answer = server.send_json(Method::POST, PATH, &faulty).await;
    let refused = problem(answer, 400, "invalid_body").await;
    let mut told = pointers(&refused);
    told.sort_unstable();
    assert_eq!(
        told,
        [
            "/action",
            "/agents/zone",
            "/allow_empty",
            "/lane",
            "/lnae",
            "/pool",
            "/reason",
            "/ttl_secs"
        ]
    );
    for (change, pointer) in [
        (json!({"ttl_secs": null}), "/ttl_secs"),
        (json!({"ttl_secs": 0}), "/ttl_secs"),
        (json!({"ttl_secs": "60"}), "/ttl_secs"),
        (json!({"ttl_secs": 0.5}), "/ttl_secs"),
        (json!({"pool": "chta"}), "/pool"),
        (json!({"lane": "fats"}), "/lane"),
        (json!({"lane": "two\nlines"}), "/lane"),
    ] {
        let mut order = force_open();
        for (field, value) in change.as_object().unwrap() {
            order[field] = value.clone();
        }
        let answer = server.send_json(Method::POST, PATH, &order).await;
        let refused = problem(answer, 400, "invalid_body").await;
        assert_eq!(pointers(&refused), [pointer], "{order}");
    }
    let nowhere = "/admin/v1/gateways/nowhere/overrides";
    let answer = server.send_json(Method::POST, nowhere, &force_open()).await;
    problem(answer, 404, "not_found").await;
    problem(server.get(nowhere).await, 404, "not_found").await;
    let unknown = format!("{PATH}/none");
    problem(server.get(&unknown).await, 404, "not_found").await;
    let answer = server.request(Method::DELETE, &unknown).send().await;
    problem(answer.unwrap(), 404, "not_found").await;
    problem(
        server.get(&format!("{PATH}?include=all")).await,
        400,
        "invalid_parameter",
    )
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_reset_needs_no_end_and_a_direct_route_is_named_by_an_empty_pool() {
    let server = Server::start().await;
    server.create_edge().await;
    let reset = json!({"action": "reset", "lane": "fast", "reason": "try again"});
    let given = server.give(&reset).await;
    assert_eq!(given["pool"], Value::Null);
    assert!(given["remaining_secs"].as_f64().unwrap() <= 60.0);
    let mut direct = force_open();
    direct["pool"] = json!("");
    assert_eq!(server.give(&direct).await["pool"], "");
    server.stop().await;
}

#[tokio::test]
async fn the_last_usable_member_is_taken_only_knowingly_and_by_one_of_two_at_once() {
    let server = Server::start().await;
    server.create_edge().await;
    let mut slow = force_open();
    slow["lane"] = json!("slow");
    let fast = force_open();
    // Both look at a pool with two members at the same moment.
    let (one, other) = tokio::join!(
        server.send_json(Method::POST, PATH, &fast),
        server.send_json(Method::POST, PATH, &slow)
    );
    let mut statuses = [one.status().as_u16(), other.status().as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
    let second = if one.status() == 409 {
        (one, fast)
    } else {
        (other, slow)
    };
    let refused = problem(second.0, 409, "last_usable_member").await;
    assert_eq!(pointers(&refused), ["/allow_empty"]);
    let mut knowingly = second.1;
    knowingly["allow_empty"] = json!(true);
    server.give(&knowingly).await;
    server.stop().await;
}

#[tokio::test]
async fn orders_are_paged() {
    let server = Server::start().await;
    server.create_edge().await;
    for _ in 0..5 {
        server.give(&force_open()).await;
    }
    let mut seen = Vec::new();
    let mut path = format!("{PATH}?limit=2");
    loop {
        let page = server.get_json(&path).await;
        let orders = page["overrides"].as_array().unwrap();
        assert!(orders.len() <= 2);
        seen.extend(orders.iter().map(|order| order["id"].clone()));
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("{PATH}?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 5);
    seen.dedup();
    assert_eq!(seen.len(), 5);
    server.stop().await;
}

#[tokio::test]
async fn provider_is_given_in_place_of_pool_and_lane() {
    let server = Server::start().await;
    let mut document = edge();
    document["providers"]["east"]["breaker"] = json!({});
    let created = server.send_json(Method::POST, "/admin/v1/gateways", &document);
    assert_eq!(created.await.status(), 201);
    let force_open = json!({"action": "force_open", "provider": "east", "ttl_secs": 600,
        "reason": "maintenance"});
    let given = server.give(&force_open).await;
    assert_eq!(
        [&given["pool"], &given["lane"], &given["provider"]],
        [&Value::Null, &Value::Null, &json!("east")]
    );
    let listed = server.get_json(PATH).await;
    assert_eq!(listed["overrides"][0]["provider"], "east", "{listed}");

    for (change, pointer) in [
        (json!({"lane": "fast"}), "/provider"),
        (json!({"pool": ""}), "/provider"),
        (json!({"provider": "west"}), "/provider"),
        (json!({"provider": "north"}), "/provider"),
        (json!({"provider": ""}), "/provider"),
        (json!({"provider": null}), "/lane"),
    ] {
        let mut order = force_open.clone();
        for (field, value) in change.as_object().unwrap() {
            order[field] = value.clone();
        }
        let answer = server.send_json(Method::POST, PATH, &order).await;
        let refused = problem(answer, 400, "invalid_body").await;
        assert_eq!(pointers(&refused), [pointer], "{order}");
    }

    // Lane `fast` stands behind `east`; `slow` is all that the pool has left.
    let slow = json!({"action": "drain", "lane": "slow", "ttl_secs": 600, "reason": "too"});
    let answer = server.send_json(Method::POST, PATH, &slow).await;
    problem(answer, 409, "last_usable_member").await;
    server.stop().await;
}

#[tokio::test]
async fn provider_of_a_pools_last_usable_member_is_taken_only_knowingly() {
    let server = Server::start().await;
    let mut document = edge();
    document["providers"]["east"]["breaker"] = json!({});
    document["pools"]["chat"]["members"] = json!([{"target": "fast"}]);
    let created = server.send_json(Method::POST, "/admin/v1/gateways", &document);
    assert_eq!(created.await.status(), 201);
    let mut order = json!({"action": "force_open", "provider": "east", "ttl_secs": 600,
        "reason": "maintenance"});
    let answer = server.send_json(Method::POST, PATH, &order).await;
    problem(answer, 409, "last_usable_member").await;
    order["allow_empty"] = json!(true);
    server.give(&order).await;
    server.stop().await;
}
