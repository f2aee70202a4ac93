//! Agents of other releases: what they say is checked in byte by byte, and this server gets on with
//! them, or tells them in-band that it cannot, and they stay away.

use std::time::Duration;

use bytes::Bytes;
use lanekeeper_model::CellState;
use lanekeeper_proto::message::{ConfigPush, FromServer, Goodbye, GoodbyeReason, ReportAck};
use lanekeeper_proto::testing::{fixture, session};
use lanekeeper_proto::wire;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::overrides::understanding;
use crate::scripted::{Agent, PATIENCE, Plane, by_test, channel};

/// Agents that are told to stay away longer than this do not storm a server.
const AWAY: Duration = Duration::from_secs(30);

/// A control plane with gateway `edge` at revision 1, whose hash is the one that the checked-in
/// answers name.
async fn start() -> Plane {
    let plane = Plane::start().await;
    let (document, hash) = (serde_json::json!({"name": "edge"}), "ab".repeat(32));
    let change = by_test();
    let created = plane
        .store
        .create_gateway("edge", &document, &hash, &change);
    created.await.unwrap();
    plane
}

/// An agent's end of a stream, in bytes on the way out.
struct Peer {
    outbound: mpsc::Sender<Bytes>,
    inbound: Streaming<wire::ServerMessage>,
}

impl Peer {
    /// Opens a stream and says one of the checked-in greetings.
    async fn greet(plane: &Plane, hello: &str) -> Self {
        let (outbound, said) = mpsc::channel(16);
        outbound.send(fixture(hello)).await.unwrap();
        let channel = channel(plane.addresses.grpc).await;
        let inbound = session(channel, ReceiverStream::new(said)).await.unwrap();
        Self { outbound, inbound }
    }

    async fn say(&self, name: &str) {
        self.outbound.send(fixture(name)).await.unwrap();
    }

    /// The next message; `None` at the orderly end.
    async fn hear(&mut self) -> Option<FromServer> {
        let message = tokio::time::timeout(PATIENCE, self.inbound.message());
        let message = message.await.expect("something from the server in time");
        message
            .unwrap()
            .map(|message| FromServer::try_from(message).unwrap())
    }

    async fn welcomed(&mut self) -> u32 {
        match self.hear().await {
            Some(FromServer::Welcome(welcome)) => welcome.protocol,
            other => panic!("no welcome: {other:?}"),
        }
    }

    async fn push(&mut self) -> ConfigPush {
        match self.hear().await {
            Some(FromServer::ConfigPush(push)) => push,
            other => panic!("no push: {other:?}"),
        }
    }

    async fn ack(&mut self) -> ReportAck {
        match self.hear().await {
            Some(FromServer::ReportAck(ack)) => ack,
            other => panic!("no acknowledgement: {other:?}"),
        }
    }

    async fn goodbye(mut self) -> Goodbye {
        let Some(FromServer::Goodbye(goodbye)) = self.hear().await else {
            panic!("no goodbye")
        };
        assert_eq!(self.hear().await, None, "nothing follows a goodbye");
        goodbye
    }
}

#[tokio::test]
async fn an_agent_of_the_first_form_is_configured_and_not_told_what_came_later() {
    let plane = start().await;
    plane.order("sonnet", &[]).await;
    plane
        .store
        .drain_agent("edge", "first-1", &["first-1", "another"], &by_test())
        .await
        .unwrap();
    let mut first = Peer::greet(&plane, "0.0/agent/hello").await;
    assert_eq!(first.welcomed().await, 1);
    assert_eq!(first.push().await.revision, 1);
    first.say("0.0/agent/config_result_applied").await;
    first.say("0.0/agent/report").await;
    let ack = first.ack().await;
    assert_eq!((ack.seq, ack.refused, ack.want_dense), (1, None, false));
    let record = plane
        .until_record("first-1", "it applied and reported", |record| {
            record.applied_revision == 1 && record.seq == 1
        })
        .await;
    assert_eq!(record.cells[0].state, CellState::Open);
    assert!(!record.overrides.understood);

    // By then the server has read the orders and who is drained.
    let (mut present, _) = Agent::join(plane.addresses.grpc, understanding("present")).await;
    present.overrides().await;
    plane
        .until_record("first-1", "its release is the problem", |record| {
            let text = record.problems.join("\n");
            text.contains("does not understand")
        })
        .await;
    plane.write("edge", 1).await;
    assert_eq!(first.push().await.revision, 2, "and nothing before it");
    first.say("0.0/agent/bye").await;
    assert_eq!(first.hear().await, None);
    plane
        .until_record("first-1", "it has left", |record| record.left)
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn a_refusal_of_the_first_form_is_kept_and_the_next_revision_tried() {
    let plane = start().await;
    let mut first = Peer::greet(&plane, "0.0/agent/hello").await;
    first.welcomed().await;
    first.push().await;
    first.say("0.0/agent/config_result_rejected").await;
    let record = plane
        .until_record("first-1", "the refusal is known", |record| {
            record.last_error.is_some()
        })
        .await;
    let rejected = record.last_error.unwrap();
    assert_eq!(rejected.errors[0].code, "unknown_reference");
    plane.write("edge", 1).await;
    assert_eq!(first.push().await.revision, 2);
    plane.stop().await;
}

#[tokio::test]
async fn an_agent_of_a_next_form_is_served_as_far_as_it_is_understood() {
    let plane = start().await;
    let row = plane.order("sonnet", &[]).await;
    let mut next = Peer::greet(&plane, "next/agent/hello").await;
    assert_eq!(next.welcomed().await, 1, "the highest that both speak");
    let (mut pushed, mut told) = (false, false);
    while !(pushed && told) {
        match next.hear().await {
            Some(FromServer::ConfigPush(push)) => pushed = push.revision == 1,
            Some(FromServer::Overrides(set)) => told = set.entries[0].id == row.order.id,
            other => panic!("{other:?}"),
        }
    }
    next.say("next/agent/unheard_of").await;
    next.say("next/agent/config_result_applied").await;
    next.say("next/agent/report").await;
    let ack = next.ack().await;
    assert_eq!((ack.seq, ack.refused), (1, None));
    let record = plane
        .until_record("next-1", "it applied and reported", |record| {
            record.applied_revision == 1 && record.seq == 1
        })
        .await;
    assert_eq!(record.version, "0.2.0");

    // A state without a name would show a cell as what it is not.
    next.say("next/agent/report_unknown_state").await;
    let refused = next.ack().await;
    let reason = "report.cells[0].state: value 9 is not known";
    assert_eq!((refused.seq, refused.refused.as_deref()), (2, Some(reason)));
    assert!(refused.want_dense);
    plane
        .until_record("next-1", "the refusal is shown", |record| {
            record.problems.join("\n").contains(reason) && record.seq == 1
        })
        .await;
    next.say("next/agent/bye").await;
    assert_eq!(next.hear().await, None, "in order, in one session");
    assert_eq!(plane.metric("lanekeeper_sessions").await, 0.0);
    plane.stop().await;
}

#[tokio::test]
async fn an_answer_without_a_meaning_refuses_its_revision_and_no_later_one() {
    let plane = start().await;
    let mut next = Peer::greet(&plane, "next/agent/hello").await;
    next.welcomed().await;
    while !matches!(next.hear().await, Some(FromServer::ConfigPush(_))) {}
    next.say("next/agent/config_result_unknown_outcome").await;
    let record = plane
        .until_record("next-1", "the answer is judged", |record| {
            record.last_error.is_some()
        })
        .await;
    let rejected = record.last_error.unwrap();
    assert_eq!(rejected.revision, 1);
    let text = &rejected.errors[0].message;
    assert!(text.contains("config_result.outcome: value 9"), "{text}");
    plane.write("edge", 1).await;
    loop {
        match next.hear().await {
            Some(FromServer::ConfigPush(push)) => break assert_eq!(push.revision, 2),
            Some(FromServer::Overrides(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    plane.stop().await;
}

#[tokio::test]
async fn agents_that_cannot_be_served_are_told_why_and_to_stay_away() {
    let plane = start().await;
    for (hello, why) in [
        (
            "next/agent/hello_without_this",
            "protocol 1 to 1, the agent 2 to 3",
        ),
        (
            "next/agent/hello_unknown_source",
            "hello.config_source: value 9",
        ),
    ] {
        let goodbye = Peer::greet(&plane, hello).await.goodbye().await;
        assert_eq!(goodbye.reason, GoodbyeReason::Protocol);
        assert!(goodbye.detail.contains(why), "{}", goodbye.detail);
        assert!(goodbye.reconnect_after > AWAY, "{hello}");
    }
    plane.stop().await;
}
