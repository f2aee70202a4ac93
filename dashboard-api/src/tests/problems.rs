//! Every kind of bad request has the same form of answer.

use super::*;

const TOKENS: &str = "/admin/v1/tokens";

#[tokio::test]
async fn an_unknown_route_is_a_problem() {
    let server = Server::start().await;
    for path in [
        "/nothing",
        "/api/v1/breaker-states",
        "/assets/none.js",
        "/docs/none.js",
    ] {
        problem(server.get(path).await, 404, "unknown_route").await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let server = Server::start().await;
    let response = server
        .request(Method::PUT, "/admin/v1/gateways")
        .send()
        .await
        .unwrap();
    let allowed = response.headers()["allow"].to_str().unwrap().to_owned();
    problem(response, 405, "method_not_allowed").await;
    for method in ["GET", "POST"] {
        assert!(allowed.contains(method), "{allowed}");
    }
    server.stop().await;
}

#[tokio::test]
async fn malformed_json_is_answered_with_its_place() {
    let server = Server::start().await;
    let send = |body: &'static str| {
        server
            .request(Method::POST, TOKENS)
            .header("content-type", "application/json; charset=utf-8")
            .body(body)
            .send()
    };
    let body = problem(
        send("{\n \"name\": oops}").await.unwrap(),
        400,
        "malformed_json",
    )
    .await;
    assert!(
        body["detail"].as_str().unwrap().contains("line 2 column"),
        "{body:#}"
    );
    problem(send("").await.unwrap(), 400, "malformed_json").await;
    problem(send("[]").await.unwrap(), 400, "invalid_body").await;
    let twice = problem(
        send("{\"name\": \"a\", \"name\": \"b\"}").await.unwrap(),
        400,
        "invalid_body",
    );
    assert!(
        twice.await["errors"][0]["message"]
            .as_str()
            .unwrap()
            .contains("'name'")
    );
    server.stop().await;
}

#[tokio::test]
async fn bottomless_json_and_yaml_are_refused() {
    let server = Server::start().await;
    for (kind, code) in [
        ("application/json", "malformed_json"),
        ("application/yaml", "invalid_document"),
    ] {
        let response = server
            .request(Method::POST, "/admin/v1/gateways")
            .header("content-type", kind)
            .body("[".repeat(200_000))
            .send()
            .await
            .unwrap();
        problem(response, 400, code).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_body_of_another_type_is_refused() {
    let server = Server::start().await;
    let form = server.request(Method::POST, TOKENS).form_body("name=ci");
    problem(form.send().await.unwrap(), 415, "unsupported_media_type").await;
    let bare = server
        .request(Method::POST, "/admin/v1/gateways")
        .body("{}");
    problem(bare.send().await.unwrap(), 415, "unsupported_media_type").await;
    let packed = server
        .request(Method::POST, TOKENS)
        .header("content-type", "application/json")
        .header("content-encoding", "gzip")
        .body("{}");
    problem(packed.send().await.unwrap(), 415, "unsupported_media_type").await;
    server.stop().await;
}

trait FormBody {
    fn form_body(self, body: &'static str) -> Self;
}

impl FormBody for RequestBuilder {
    fn form_body(self, body: &'static str) -> Self {
        self.header("content-type", "application/x-www-form-urlencoded")
            .body(body)
    }
}

#[tokio::test]
async fn a_body_over_the_bound_is_refused() {
    let server = Server::start().await;
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(70_000));
    let announced = server
        .request(Method::POST, TOKENS)
        .header("content-type", "application/json")
        .body(large.clone());
    problem(announced.send().await.unwrap(), 413, "body_too_large").await;
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(large)]);
    let chunked = server
        .request(Method::POST, TOKENS)
        .header("content-type", "application/json")
        .body(reqwest::Body::wrap_stream(chunks));
    problem(chunked.send().await.unwrap(), 413, "body_too_large").await;
    server.stop().await;
}

#[tokio::test]
async fn odd_names_in_a_path_are_not_found_and_no_fault_of_ours() {
    let server = Server::start().await;
    for name in [
        "%00",
        "%2e%2e",
        "a%2Fb",
        "%F0%9F%98%80",
        "x".repeat(5000).as_str(),
    ] {
        let response = server
            .get(&format!("/admin/v1/gateways/{name}/config"))
            .await;
        assert!(
            response.status().is_client_error(),
            "{name}: {}",
            response.status()
        );
    }
    let broken = server.get("/admin/v1/gateways/%ff/config").await;
    problem(broken, 400, "invalid_parameter").await;
    server.stop().await;
}

#[tokio::test]
async fn paths_that_are_no_text_are_the_clients_fault_everywhere() {
    let server = Server::start().await;
    for path in [
        "/assets/%ff",
        "/docs/%ff",
        "/api/v1/agents/%ff",
        "/admin/v1/gateways/%ff",
    ] {
        problem(server.get(path).await, 400, "invalid_parameter").await;
    }
    server.stop().await;
}

#[tokio::test]
async fn every_answer_carries_the_security_headers() {
    let server = Server::start().await;
    for path in [
        "/",
        "/api/v1/summary",
        "/nothing",
        "/docs/",
        "/openapi.json",
    ] {
        let response = server.get(path).await;
        let headers = response.headers();
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
    }
    assert_eq!(
        server.get("/api/v1/summary").await.headers()["cache-control"],
        "no-store"
    );
    server.stop().await;
}

#[tokio::test]
async fn an_unknown_or_repeated_query_parameter_is_refused_on_every_route() {
    let server = Server::start().await;
    let mut asked = 0;
    for route in crate::routes::table() {
        if route.documentation.is_none() {
            continue;
        }
        let path = route
            .path
            .replace("{gateway}", "edge")
            .replace("{section}", "pools")
            .replace("{name}", "chat")
            .replace("{revision}", "1")
            .replace("{id}", "x");
        let unknown = server
            .request(route.method.clone(), &format!("{path}?surprise=1"))
            .send()
            .await
            .unwrap();
        let body = problem(unknown, 400, "unknown_parameter").await;
        assert_eq!(body["errors"][0]["parameter"], "surprise", "{path}");
        asked += 1;
    }
    assert!(asked > 15, "{asked}");
    let twice = server.get("/api/v1/breaker-state?lane=a&lane=b").await;
    problem(twice, 400, "invalid_parameter").await;
    server.stop().await;
}

#[tokio::test]
async fn a_parameter_that_cannot_be_used_is_named_in_our_words() {
    let server = Server::start().await;
    for (path, parameter) in [
        ("/admin/v1/gateways/edge/revisions/-1", "revision"),
        (
            "/admin/v1/gateways/edge/revisions/99999999999999999999",
            "revision",
        ),
        ("/admin/v1/gateways/edge/revisions?limit=abc", "limit"),
        ("/api/v1/agents?limit=0", "limit"),
        ("/api/v1/agents?state=asleep", "state"),
    ] {
        let body = problem(server.get(path).await, 400, "invalid_parameter").await;
        assert_eq!(body["errors"][0]["parameter"], parameter, "{path}");
        let text = body.to_string();
        for leak in ["u64", "u32", "parse", "digit", "variant"] {
            assert!(!text.contains(leak), "{path}: {text}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_key_given_twice_is_pointed_at() {
    let server = Server::start().await;
    let refused = server
        .request(Method::POST, "/admin/v1/gateways/edge/config/validate")
        .header("content-type", "application/json")
        .body("{\"models\": {\"m\": {}, \"m\": {}}}")
        .send()
        .await
        .unwrap();
    let body = problem(refused, 400, "invalid_body").await;
    assert_eq!(pointers(&body), ["/models/m"]);
    server.stop().await;
}

#[tokio::test]
async fn a_list_of_errors_that_is_cut_says_how_many_there_were() {
    let server = Server::start().await;
    let mut document = edge();
    for number in 0..1_200 {
        document["models"][format!("m{number}")] = json!({"provider": "nobody"});
    }
    let refused = server
        .send_json(Method::POST, "/admin/v1/gateways", &document)
        .await;
    let body = problem(refused, 400, "invalid_document").await;
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains("1200 problems in all"), "{detail}");
    server.stop().await;
}

/// A path of the table with names in place of its parameters.
fn named_path(path: &str) -> String {
    path.replace("{gateway}", "edge")
        .replace("{section}", "pools")
        .replace("{name}", "chat")
        .replace("{revision}", "1")
        .replace("{id}", "x")
        .replace("{*file}", "index.css")
}

#[tokio::test]
async fn every_route_answers_head_as_get_and_tells_its_methods_and_bears_no_other_spelling() {
    let server = Server::start().await;
    server.create_edge().await;
    let mut reads = 0;
    for route in crate::routes::table() {
        let path = named_path(&route.path);
        let refused = server.request(Method::OPTIONS, &path).send().await.unwrap();
        let allowed = refused.headers()["allow"].to_str().unwrap().to_owned();
        assert!(allowed.contains(route.method.as_str()), "{path}: {allowed}");
        problem(refused, 405, "method_not_allowed").await;
        if !path.ends_with('/') {
            let slashed = server
                .request(route.method.clone(), &format!("{path}/"))
                .send()
                .await
                .unwrap();
            assert!(!slashed.status().is_success() || path == "/docs", "{path}/");
        }
        if route.method != Method::GET || path.ends_with("/stream") {
            continue;
        }
        let get = server.get(&path).await;
        let head = server.request(Method::HEAD, &path).send().await.unwrap();
        assert_eq!(head.status(), get.status(), "{path}");
        for name in ["content-type", "etag", "cache-control"] {
            assert_eq!(head.headers().get(name), get.headers().get(name), "{path}");
        }
        assert!(head.bytes().await.unwrap().is_empty(), "{path}");
        reads += 1;
    }
    assert!(reads > 20, "{reads}");
    server.stop().await;
}

#[tokio::test]
async fn what_a_client_sent_is_repeated_within_a_bound() {
    let server = Server::start().await;
    server.create_edge().await;
    let key = "k".repeat(1_000_000);
    let config = "/admin/v1/gateways/edge/config";
    for (method, path, body) in [
        (
            Method::PUT,
            config.to_owned(),
            json!({"gateway": "edge", (key.clone()): 1}),
        ),
        (
            Method::PATCH,
            config.to_owned(),
            json!({"pools": {(key.clone()): {}}}),
        ),
        (
            Method::POST,
            format!("{config}/validate"),
            json!({"gateway": key}),
        ),
        (
            Method::POST,
            "/admin/v1/tokens".to_owned(),
            json!({(key[..60_000].to_owned()): 1}),
        ),
        (
            Method::GET,
            format!("/admin/v1/gateways/{}", &key[..9_000]),
            json!({}),
        ),
        (
            Method::GET,
            format!("/api/v1/summary?{}=1", &key[..9_000]),
            json!({}),
        ),
    ] {
        let request = server.request(method, &path).header("if-match", "*");
        let answer = request.json(&body).send().await.unwrap();
        let length = answer.bytes().await.unwrap().len();
        assert!((1..20_000).contains(&length), "{}: {length}", &path[..20]);
    }
    server.stop().await;
}

#[tokio::test]
async fn reason_that_cannot_be_kept_is_named_where_it_was_given() {
    let server = Server::start().await;
    server.create_edge().await;
    let long = "m".repeat(5000);
    for message in [long.as_str(), "two%0Alines", "%00", "%1b[31m"] {
        let path = format!("/admin/v1/gateways/edge/revisions/1/rollback?message={message}");
        let refused = server.request(Method::POST, &path).send().await.unwrap();
        let body = problem(refused, 400, "invalid_parameter").await;
        assert_eq!(body["errors"][0]["parameter"], "message");
    }
    for message in [long.as_str(), "two\nlines", "\u{0}"] {
        let body = json!({"revision": 1, "message": message});
        let path = "/admin/v1/gateways/edge/rollouts";
        let refused = server.send_json(Method::POST, path, &body).await;
        let body = problem(refused, 400, "invalid_body").await;
        assert_eq!(pointers(&body), ["/message"]);
    }
    server.stop().await;
}

#[tokio::test]
async fn two_tokens_of_one_request_let_nobody_in() {
    let server = Server::start().await;
    let other = server.token(Role::Viewer, None).await.1;
    let request = server.request(Method::GET, "/api/v1/summary");
    let request = request.header("authorization", format!("Bearer {other}"));
    problem(request.send().await.unwrap(), 401, "unauthenticated").await;
    server.stop().await;
}

#[tokio::test]
async fn texts_of_people_have_no_unseen_characters() {
    let server = Server::start().await;
    server.create_edge().await;
    for unseen in [
        '\u{7}', '\u{200b}', '\u{202e}', '\u{2028}', '\u{2066}', '\u{feff}',
    ] {
        let text = format!("slow{unseen}fast");
        let name = json!({"name": text, "role": "viewer"});
        let refused = server.send_json(Method::POST, TOKENS, &name).await;
        let body = problem(refused, 400, "invalid_body").await;
        assert_eq!(pointers(&body), ["/name"], "{unseen:?}");

        let order = json!({
            "action": "drain", "lane": "fast", "reason": text, "ttl_secs": 60, "allow_empty": true
        });
        let orders = "/admin/v1/gateways/edge/overrides";
        let refused = server.send_json(Method::POST, orders, &order).await;
        let body = problem(refused, 400, "invalid_body").await;
        assert_eq!(pointers(&body), ["/reason"], "{unseen:?}");

        let message: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let path = format!("/admin/v1/gateways/edge?message={message}");
        let deletion = server.request(Method::DELETE, &path);
        let body = problem(deletion.send().await.unwrap(), 400, "invalid_parameter").await;
        assert_eq!(body["errors"][0]["parameter"], "message", "{unseen:?}");
    }
    server.stop().await;
}
