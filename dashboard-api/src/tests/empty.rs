//! A document that leaves a serving gateway without any usable pool needs `allow_empty`.

use super::*;

const CONFIG: &str = "/admin/v1/gateways/edge/config";

fn empty() -> Value {
    let mut document = edge();
    document["pools"] = json!({});
    document
}

async fn created(document: &Value) -> Server {
    let server = Server::start().await;
    let answer = server
        .send_json(Method::POST, "/admin/v1/gateways", document)
        .await;
    assert_eq!(answer.status(), 201);
    server
}

async fn send(server: &Server, method: Method, path: &str, body: &Value) -> Response {
    let request = server.request(method, path).header("if-match", "*");
    request.json(body).send().await.unwrap()
}

#[tokio::test]
async fn every_write_refuses_to_empty_a_serving_gateway_until_it_is_meant() {
    let server = created(&edge()).await;
    let patch = json!({"pools": null});
    let resource = "/admin/v1/gateways/edge/pools/chat";
    let restored = edge();
    for (method, path, body) in [
        (Method::PUT, CONFIG, empty()),
        (Method::PATCH, CONFIG, patch),
        (Method::DELETE, resource, json!({})),
    ] {
        let refused = send(&server, method.clone(), path, &body).await;
        let refused = problem(refused, 400, "empty_gateway").await;
        assert_eq!(refused["errors"][0]["pointer"], "/pools");
        let allowed = format!("{path}?allow_empty=true");
        let answer = send(&server, method, &allowed, &body).await;
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
        let back = send(&server, Method::PUT, CONFIG, &restored).await;
        assert_eq!(back.status(), 200);
    }
    let wrong = format!("{CONFIG}?allow_empty=yes");
    let refused = send(&server, Method::PUT, &wrong, &empty()).await;
    problem(refused, 400, "invalid_parameter").await;
    server.stop().await;
}

#[tokio::test]
async fn going_back_to_an_empty_document_must_be_meant_too() {
    let server = created(&empty()).await;
    let filled = send(&server, Method::PUT, CONFIG, &edge()).await;
    assert_eq!(filled.status(), 200);

    let validate = format!("{CONFIG}/validate");
    let result = send(&server, Method::POST, &validate, &empty()).await;
    let result: Value = result.json().await.unwrap();
    assert_eq!(result["errors"][0]["code"], "empty_gateway");
    let meant = format!("{validate}?allow_empty=true");
    let result = send(&server, Method::POST, &meant, &empty()).await;
    assert_eq!(result.json::<Value>().await.unwrap()["valid"], true);

    let rollouts = "/admin/v1/gateways/edge/rollouts";
    let document = json!({"document": empty()});
    let refused = send(&server, Method::POST, rollouts, &document).await;
    let refused = problem(refused, 400, "empty_gateway").await;
    assert_eq!(refused["errors"][0]["pointer"], "/document/pools");
    let start = json!({"revision": 1, "allow_empty": true});
    let started = send(&server, Method::POST, rollouts, &start).await;
    assert_eq!(started.status(), 201, "{}", started.text().await.unwrap());
    let filled = send(&server, Method::PUT, CONFIG, &edge()).await;
    assert_eq!(filled.status(), 200);

    let rollback = "/admin/v1/gateways/edge/revisions/1/rollback";
    let refused = send(&server, Method::POST, rollback, &json!({})).await;
    problem(refused, 400, "empty_gateway").await;
    let meant = format!("{rollback}?allow_empty=true");
    let answer = send(&server, Method::POST, &meant, &json!({})).await;
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    server.stop().await;
}
