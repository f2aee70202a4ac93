//! Every route under every kind of caller.

use super::*;
use crate::auth::Access;
use crate::routes;
use lanekeeper_store::AuditOutcome;

struct Callers {
    viewer: String,
    operator: String,
    admin: String,
    expired: String,
    revoked: String,
}

impl Callers {
    async fn of(server: &Server) -> Self {
        let (row, revoked) = server.token(Role::Admin, None).await;
        server
            .store
            .revoke_token(&row.id, &by_test())
            .await
            .unwrap();
        Self {
            viewer: server.token(Role::Viewer, None).await.1,
            operator: server.token(Role::Operator, None).await.1,
            admin: server.admin.clone(),
            expired: server.token(Role::Admin, Some(clock::now_ms() - 1)).await.1,
            revoked,
        }
    }

    fn each(&self) -> [(&'static str, Option<&str>, Option<Role>); 7] {
        [
            ("none", None, None),
            ("nonsense", Some("no.such"), None),
            ("expired", Some(&self.expired), None),
            ("revoked", Some(&self.revoked), None),
            ("viewer", Some(&self.viewer), Some(Role::Viewer)),
            ("operator", Some(&self.operator), Some(Role::Operator)),
            ("admin", Some(&self.admin), Some(Role::Admin)),
        ]
    }
}

/// The status a caller meets before the handler; `None` when the handler is reached.
fn barrier(access: Access, role: Option<Role>) -> Option<u16> {
    match (access, role) {
        (Access::Public, _) => None,
        (Access::Needs(_), None) => Some(401),
        (Access::Needs(needed), Some(role)) => (role < needed).then_some(403),
    }
}

#[tokio::test]
async fn every_route_lets_through_its_role_and_those_above_and_nobody_else() {
    let server = Server::start().await;
    let callers = Callers::of(&server).await;
    let mut refused_writes = 0;
    for route in routes::table() {
        let path = route
            .path
            .replace("{gateway}", "nowhere")
            .replace("{revision}", "1")
            .replace("{section}", "pools")
            .replace("{id}", "nobody")
            .replace("{name}", "nothing")
            .replace("{*file}", "nothing");
        for (who, token, role) in callers.each() {
            let mut request = server.bare(route.method.clone(), &path);
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let line = format!("{} {path} as {who}", route.method);
            match barrier(route.access, role) {
                Some(expected) => {
                    assert_eq!(status, expected, "{line}");
                    let code = if expected == 401 {
                        "unauthenticated"
                    } else {
                        "insufficient_role"
                    };
                    assert_eq!(
                        response.headers().contains_key("www-authenticate"),
                        expected == 401
                    );
                    problem(response, expected, code).await;
                    refused_writes += u32::from(expected == 403 && route.action.is_some());
                }
                // Sign-in has its own 401, for the token in its body.
                None => assert!(
                    status != 403 && (status != 401 || path == "/session"),
                    "{line}"
                ),
            }
        }
    }
    assert!(refused_writes > 0);
    let refusals = server.store.audit_latest(None, 500).await.unwrap();
    let refusals = refusals
        .iter()
        .filter(|entry| entry.outcome == AuditOutcome::Refused)
        .filter(|entry| entry.after == Some(json!({"reason": "insufficient_role"})))
        .count();
    assert_eq!(refusals, refused_writes as usize);
    server.stop().await;
}

#[tokio::test]
async fn a_refused_write_is_in_the_audit_trail_with_who_and_what() {
    let server = Server::start().await;
    let (row, viewer) = server.token(Role::Viewer, None).await;
    let response = server
        .bare(Method::DELETE, "/admin/v1/gateways/edge")
        .bearer_auth(&viewer)
        .send()
        .await
        .unwrap();
    problem(response, 403, "insufficient_role").await;
    let trail = server.get_json("/admin/v1/audit?limit=1").await;
    let entry = &trail["entries"][0];
    assert_eq!(entry["actor"], format!("a-viewer ({})", row.id));
    assert_eq!(entry["action"], "gateway.delete");
    assert_eq!(entry["resource"], "gateways/edge");
    assert_eq!(entry["outcome"], "refused");
    server.stop().await;
}

#[tokio::test]
async fn another_authorization_scheme_is_not_let_through() {
    let server = Server::start().await;
    let response = server
        .bare(Method::GET, "/api/v1/summary")
        .basic_auth("admin", Some(&server.admin))
        .send()
        .await
        .unwrap();
    problem(response, 401, "unauthenticated").await;
    server.stop().await;
}

#[tokio::test]
async fn a_write_that_fails_for_what_it_says_is_in_the_audit_trail_too() {
    let server = Server::start().await;
    server.create_edge().await;
    let config = "/admin/v1/gateways/edge/config";
    let put = |tag: &'static str, body: Value| {
        server
            .request(Method::PUT, config)
            .header("if-match", tag)
            .json(&body)
            .send()
    };
    assert_eq!(put("\"9\"", edge()).await.unwrap().status(), 412);
    assert_eq!(put("\"1\"", json!({})).await.unwrap().status(), 400);
    let taken = server
        .send_json(Method::POST, "/admin/v1/gateways", &edge())
        .await;
    assert_eq!(taken.status(), 409);
    let missing = server
        .request(Method::DELETE, "/admin/v1/gateways/none")
        .send()
        .await
        .unwrap();
    assert_eq!(missing.status(), 404);
    // Reading and trying change nothing, so their failures are nobody's business.
    assert_eq!(server.get("/admin/v1/gateways/none").await.status(), 404);

    let trail = server.get_json("/admin/v1/audit").await;
    let seen: Vec<(&str, &str, &str)> = trail["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["outcome"] == "refused")
        .map(|entry| {
            (
                entry["action"].as_str().unwrap(),
                entry["resource"].as_str().unwrap(),
                entry["after"]["reason"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("gateway.delete", "gateways/none", "not_found"),
            ("gateway.create", "gateways", "already_exists"),
            ("config.write", "gateways/edge", "invalid_document"),
            ("config.write", "gateways/edge", "revision_mismatch"),
        ]
    );
    server.stop().await;
}
