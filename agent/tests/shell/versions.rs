//! Control planes of other releases: what they say is checked in byte by byte, and the agent serves
//! what it can make of it in one session, or keeps away as it is told.

use std::time::{Duration, Instant};

use lanekeeper_proto::message::{ConfigOutcome, ConfigResult, FromAgent, Hello};
use lanekeeper_proto::testing::fixture;

use crate::agent::{Agent, eventually, joined};
use crate::scripted::{Peer, Scripted};

/// Answers a Hello with checked-in words.
async fn welcome(peer: &mut Peer, name: &str) -> Hello {
    let hello = peer.hello().await;
    say(peer, name).await;
    hello
}

async fn say(peer: &Peer, name: &str) {
    peer.send_bytes(fixture(name)).await;
}

fn errors(result: ConfigResult) -> Vec<(String, String)> {
    let ConfigOutcome::Rejected { errors } = result.outcome else {
        panic!("taken: {result:?}")
    };
    let errors = errors.into_iter();
    errors.map(|error| (error.pointer, error.code)).collect()
}

#[tokio::test]
async fn a_server_of_the_first_form_is_reported_to_and_obeyed() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    let hello = welcome(&mut peer, "0.0/server/welcome").await;
    assert!(hello.protocol_min <= 1 && hello.protocol_max >= 1);
    let Some(FromAgent::Report(first)) = peer.next().await else {
        panic!("no report at first")
    };
    assert!(first.dense, "it has never heard of doing without");
    say(&peer, "0.0/server/report_ack").await;
    say(&peer, "0.0/server/config_push").await;
    let result = peer.result().await;
    assert!(matches!(result.outcome, ConfigOutcome::Applied { .. }));
    assert_eq!((result.nonce, agent.revision().await), (1, 1));
    let said = Instant::now();
    say(&peer, "0.0/server/goodbye").await;
    drop(peer);
    server.peer().await.hello().await;
    assert!(said.elapsed() >= Duration::from_secs(2), "as it was told");
    agent.stop().await;
}

#[tokio::test]
async fn a_server_of_a_next_form_is_obeyed_as_far_as_it_is_understood() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    say(&peer, "next/server/unheard_of").await;
    welcome(&mut peer, "next/server/welcome").await;
    say(&peer, "next/server/unheard_of").await;
    say(&peer, "next/server/report_ack").await;
    say(&peer, "next/server/config_push").await;
    let result = peer.result().await;
    assert!(matches!(result.outcome, ConfigOutcome::Applied { .. }));

    // What a document says that has no meaning here refuses the whole revision, with the place.
    for (name, pointer) in [
        (
            "next/server/config_push_unknown_enum",
            "/pools/chat/strategy",
        ),
        ("next/server/config_push_unknown_field", "/pools/chat/moon"),
    ] {
        say(&peer, name).await;
        let errors = errors(peer.result().await);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].0, pointer, "{errors:?}");
    }
    assert_eq!(agent.revision().await, 1);

    // An order of an unknown kind does not keep the others.
    say(&peer, "next/server/overrides").await;
    let answer = loop {
        match peer.next().await {
            Some(FromAgent::OverridesResult(answer)) => break answer,
            Some(FromAgent::Report(_)) => say(&peer, "next/server/report_ack").await,
            other => panic!("no answer: {other:?}"),
        }
    };
    assert_eq!(answer.applied, ["o3"]);
    assert_eq!(answer.refused[0].reason, "action: value 9 is not known");

    say(&peer, "next/server/drain").await;
    eventually(async || agent.ask("GET", "/readyz").await.status == 503).await;
    assert_eq!(agent.stats().await["agent"]["connected"], true);
    agent.stop().await;
}

#[tokio::test]
async fn a_farewell_for_a_reason_without_a_name_is_obeyed() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    welcome(&mut peer, "next/server/welcome").await;
    let said = Instant::now();
    say(&peer, "next/server/goodbye").await;
    drop(peer);
    server.peer().await.hello().await;
    assert!(said.elapsed() >= Duration::from_secs(2), "as it was told");
    agent.stop().await;
}

#[tokio::test]
async fn a_server_that_chooses_an_unknown_protocol_is_left_without_a_storm() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let window = Instant::now();
    let mut dialled = 0;
    while window.elapsed() < Duration::from_secs(4) {
        let Ok(mut peer) = tokio::time::timeout(Duration::from_secs(4), server.peer()).await else {
            break;
        };
        welcome(&mut peer, "next/server/welcome_protocol_2").await;
        assert_eq!(peer.next().await, None, "the agent leaves");
        dialled += 1;
    }
    assert!((1..=12).contains(&dialled), "{dialled}");
    assert_eq!(agent.stats().await["agent"]["connected"], false);
    agent.stop().await;
}
