//! The description is checked in, whole, and true.

use super::*;
use crate::routes;

/// Set to write the checked-in file anew: `UPDATE=1 cargo test -p lanekeeper-dashboard-api description`.
const UPDATE: &str = "UPDATE";

#[test]
fn the_checked_in_description_is_what_the_code_says() {
    let generated = routes::describe().unwrap();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(description_file(), &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(description_file()).unwrap_or_default();
    assert!(
        checked_in == generated,
        "openapi.json is out of date; write it anew with \
         UPDATE=1 cargo test -p lanekeeper-dashboard-api description"
    );
}

#[test]
fn every_reference_of_the_description_leads_somewhere() {
    let document: Value = serde_json::from_str(&routes::describe().unwrap()).unwrap();
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match value.as_str() {
                        Some(target) if key == "$ref" => found.push(target),
                        _ => references(value, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 20);
    for target in found {
        let pointer = target
            .strip_prefix('#')
            .unwrap_or_else(|| panic!("{target} is outside"));
        assert!(
            document.pointer(pointer).is_some(),
            "{target} leads nowhere"
        );
    }
}

#[test]
fn every_documented_route_is_described_with_its_role() {
    let document: Value = serde_json::from_str(&routes::describe().unwrap()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut names = std::collections::BTreeSet::new();
    for route in routes::table() {
        if route.documentation.is_none() {
            continue;
        }
        let method = route.method.as_str().to_ascii_lowercase();
        let operation = &document["paths"][&route.path][&method];
        assert!(
            operation["summary"].is_string(),
            "{method} {} has no summary",
            route.path
        );
        let name = operation["operationId"].as_str().unwrap();
        assert!(names.insert(name), "two operations are called {name}");
        let public = route.access == crate::auth::Access::Public;
        assert_eq!(
            operation["x-required-role"].is_string(),
            !public,
            "{method} {}",
            route.path
        );
    }
}

#[tokio::test]
async fn the_description_its_page_and_the_documents_schema_are_served() {
    let server = Server::start().await;
    let described: Value = server
        .bare(Method::GET, "/openapi.json")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(described["info"]["title"], "Lanekeeper");
    let root = server.bare(Method::GET, "/docs").send().await.unwrap();
    assert_eq!(root.headers()["location"], "/docs/");
    let page = server.bare(Method::GET, "/docs/").send().await.unwrap();
    assert_eq!(page.status(), 200);
    let schema: Value = server
        .bare(Method::GET, "/schemas/gateway.json")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert!(schema["properties"]["pools"].is_object());
    server.stop().await;
}

#[tokio::test]
async fn probes_answer_without_a_token() {
    let server = Server::start().await;
    let live = server.bare(Method::GET, "/livez").send().await.unwrap();
    assert_eq!(live.status(), 200);
    let ready = async || {
        server
            .bare(Method::GET, "/readyz")
            .send()
            .await
            .unwrap()
            .status()
    };
    let came = tokio::time::timeout(PATIENCE, async {
        while ready().await != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(came.await.is_ok());
    server.stop().await;
}

#[test]
fn every_operation_documents_the_answers_it_can_give() {
    let document: Value = serde_json::from_str(&routes::describe().unwrap()).unwrap();
    for route in routes::table() {
        if route.documentation.is_none() {
            continue;
        }
        let method = route.method.as_str().to_ascii_lowercase();
        let line = format!("{method} {}", route.path);
        let operation = &document["paths"][&route.path][&method];
        let parameters = operation["parameters"].as_array();
        let mut expected = vec!["400", "503"];
        if route.access != crate::auth::Access::Public {
            expected.extend(["401", "403"]);
        }
        if route.path.contains('{') {
            expected.push("404");
        }
        if operation["requestBody"].is_object() {
            expected.extend(["408", "413", "415"]);
        }
        for parameter in parameters.into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let schema = &parameter["schema"];
            match name {
                "If-Match" => {
                    expected.push("412");
                    assert!(schema["pattern"].is_string(), "{line}");
                    if parameter["required"] == true {
                        expected.push("428");
                    }
                }
                "limit" => assert_eq!(
                    (&schema["minimum"], &schema["maximum"]),
                    (&json!(1), &json!(250)),
                    "{line}"
                ),
                "section" | "include" | "detail" | "state" => {
                    assert!(schema.to_string().contains("enum"), "{line}: {schema}");
                }
                _ => {}
            }
        }
        for status in expected {
            assert!(
                operation["responses"][status].is_object(),
                "{line} does not document {status}"
            );
        }
    }
}

#[test]
fn every_group_is_described_and_every_operation_is_in_one() {
    let document: Value = serde_json::from_str(&routes::describe().unwrap()).unwrap();
    let groups = document["tags"].as_array().unwrap().iter();
    let groups: std::collections::BTreeSet<&str> =
        groups.map(|it| it["name"].as_str().unwrap()).collect();
    let mut used = std::collections::BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let tag = operation["tags"][0].as_str().unwrap();
            assert!(groups.contains(tag), "{method} {path}: {tag}");
            used.insert(tag);
            if let Some(body) = operation.get("requestBody") {
                assert_eq!(body["required"], true, "{method} {path}");
            }
        }
    }
    assert_eq!(groups, used);
}

/// What the description allows is taken, and what it does not is refused.
#[tokio::test]
async fn bounds_of_the_description_are_those_of_the_code() {
    let document: Value = serde_json::from_str(&routes::describe().unwrap()).unwrap();
    let field = |form: &str, field: &str| {
        document["components"]["schemas"][form]["properties"][field].clone()
    };
    let server = Server::start().await;
    server.create_edge().await;
    let number = |schema: &Value, name: &str| schema[name].as_u64().unwrap();
    let post = async |path: &str, body: Value| {
        let answer = server.send_json(Method::POST, path, &body).await;
        answer.status().as_u16()
    };
    let name = field("TokenForm", "name");
    let longest = "x".repeat(usize::try_from(number(&name, "maxLength")).unwrap());
    let life = field("TokenForm", "expires_in_secs");
    let token = async |name: &str, secs: u64| {
        post(
            "/admin/v1/tokens",
            json!({"name": name, "role": "viewer", "expires_in_secs": secs}),
        )
        .await
    };
    assert_eq!(token(&longest, number(&life, "maximum")).await, 201);
    assert_eq!(token(&format!("{longest}x"), 60).await, 400);
    assert_eq!(token("", 60).await, 400);
    assert_eq!(token("a", number(&life, "minimum")).await, 201);
    assert_eq!(token("a", number(&life, "minimum") - 1).await, 400);
    assert_eq!(token("a", number(&life, "maximum") + 1).await, 400);

    let (ttl, uses) = (
        field("JoinTokenForm", "ttl_secs"),
        field("JoinTokenForm", "max_uses"),
    );
    let join = async |ttl: u64, uses: u64| {
        post(
            "/admin/v1/join-tokens",
            json!({"gateway": "edge", "ttl_secs": ttl, "max_uses": uses}),
        )
        .await
    };
    assert_eq!(
        join(number(&ttl, "maximum"), number(&uses, "maximum")).await,
        201
    );
    assert_eq!(join(number(&ttl, "maximum") + 1, 1).await, 400);
    assert_eq!(join(1, number(&uses, "maximum") + 1).await, 400);
    assert_eq!(join(1, 0).await, 400);

    let (ttl, reason) = (
        field("OverrideForm", "ttl_secs"),
        field("OverrideForm", "reason"),
    );
    let longest = "x".repeat(usize::try_from(number(&reason, "maxLength")).unwrap());
    let order = async |reason: &str, ttl: u64| {
        let body =
            json!({"action": "force_close", "lane": "fast", "reason": reason, "ttl_secs": ttl});
        post("/admin/v1/gateways/edge/overrides", body).await
    };
    assert_eq!(order(&longest, number(&ttl, "maximum")).await, 201);
    assert_eq!(order(&format!("{longest}x"), 60).await, 400);
    assert_eq!(order("why", number(&ttl, "maximum") + 1).await, 400);
    assert_eq!(order("", 60).await, 400);

    for (path, parameter, value) in [
        ("/admin/v1/gateways", "cursor", "no!"),
        ("/admin/v1/gateways", "limit", "251"),
    ] {
        let answer = server.get(&format!("{path}?{parameter}={value}")).await;
        assert_eq!(answer.status(), 400, "{parameter}");
    }
    server.stop().await;
}
