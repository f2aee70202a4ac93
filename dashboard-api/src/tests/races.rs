//! Writers of one configuration at one moment: none is lost, and who said what the change is based on
//! is told when it no longer holds.

use super::*;
use futures_util::future::join_all;

const CONFIG: &str = "/admin/v1/gateways/edge/config";
/// As many as a change is made anew for.
const WRITERS: usize = 8;

fn lane(number: usize) -> String {
    format!("lane-{number}")
}

/// A change of one writer, by the way it is made.
fn change(server: &Server, way: &str, number: usize) -> RequestBuilder {
    let resource = json!({"provider": "east"});
    match way {
        "PATCH" => server
            .request(Method::PATCH, CONFIG)
            .json(&json!({"models": {lane(number): resource}})),
        "PUT of a resource" => {
            let path = format!("/admin/v1/gateways/edge/models/{}", lane(number));
            server.request(Method::PUT, &path).json(&resource)
        }
        "DELETE of a resource" => {
            let path = format!("/admin/v1/gateways/edge/models/{}", lane(number));
            server.request(Method::DELETE, &path)
        }
        other => panic!("{other}"),
    }
}

async fn lanes(server: &Server) -> Vec<bool> {
    let document = server.get_json(CONFIG).await;
    (0..WRITERS)
        .map(|number| document["models"].get(lane(number)).is_some())
        .collect()
}

#[tokio::test]
async fn changes_of_whatever_is_current_are_all_made() {
    let server = Server::start().await;
    server.create_edge().await;
    for (way, there) in [
        ("PATCH", true),
        ("DELETE of a resource", false),
        ("PUT of a resource", true),
    ] {
        let writers = (0..WRITERS).map(|number| {
            let request = change(&server, way, number);
            request.header("if-match", "*").send()
        });
        for answer in join_all(writers).await {
            let answer = answer.unwrap();
            assert_eq!(
                answer.status(),
                200,
                "{way}: {}",
                answer.text().await.unwrap()
            );
        }
        assert_eq!(lanes(&server).await, [there; WRITERS], "{way}");
    }
    let revision = server.get_json("/admin/v1/gateways/edge").await["revision"].clone();
    assert_eq!(revision, 1 + 3 * WRITERS, "one revision for each");
    server.stop().await;
}

#[tokio::test]
async fn whole_documents_over_whatever_is_current_never_meet_a_conflict() {
    let server = Server::start().await;
    server.create_edge().await;
    let mut numbers = Vec::new();
    let writers = (0..2 * WRITERS).map(|number| {
        let mut document = edge();
        document["pools"]["chat"]["members"][0]["weight"] = json!(number + 10);
        let request = match number % 2 {
            0 => server.request(Method::PUT, CONFIG).json(&document),
            _ => server
                .request(Method::POST, "/admin/v1/gateways/edge/rollouts")
                .json(&json!({"document": document})),
        };
        request.header("if-match", "*").send()
    });
    for answer in join_all(writers).await {
        let answer = answer.unwrap();
        assert!(
            answer.status().is_success(),
            "{}",
            answer.text().await.unwrap()
        );
        numbers.push(
            answer.json::<Value>().await.unwrap()["revision"]
                .as_u64()
                .unwrap(),
        );
    }
    numbers.sort_unstable();
    let expected: Vec<u64> = (2..).take(2 * WRITERS).collect();
    assert_eq!(numbers, expected);
    server.stop().await;
}

#[tokio::test]
async fn of_changes_based_on_one_revision_one_is_made_and_the_others_are_told() {
    let server = Server::start().await;
    server.create_edge().await;
    for (way, tag) in [("PATCH", "\"1\""), ("PUT of a resource", "\"2\"")] {
        let writers = (0..WRITERS).map(|number| {
            // The second round must not ask for what the first has made.
            let number = if way == "PATCH" {
                number
            } else {
                WRITERS + number
            };
            change(&server, way, number).header("if-match", tag).send()
        });
        let mut made = 0;
        for answer in join_all(writers).await {
            let answer = answer.unwrap();
            if answer.status() == 200 {
                made += 1;
            } else {
                assert_ne!(answer.headers()["etag"], tag, "the current one is named");
                problem(answer, 412, "revision_mismatch").await;
            }
        }
        assert_eq!(made, 1, "{way}");
    }
    server.stop().await;
}

#[tokio::test]
async fn precondition_that_names_several_revisions_holds_of_each_of_them() {
    let server = Server::start().await;
    server.create_edge().await;
    let writers = (0..3).map(|number| {
        let request = change(&server, "PATCH", number);
        request.header("if-match", "\"1\", \"2\"").send()
    });
    let mut statuses = Vec::new();
    for answer in join_all(writers).await {
        statuses.push(answer.unwrap().status().as_u16());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 412]);
    server.stop().await;
}
