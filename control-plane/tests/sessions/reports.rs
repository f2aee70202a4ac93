//! Reports are taken in order, and a session's end says what it means.

use std::time::Duration;

use lanekeeper_model::AgentState;
use lanekeeper_model::fleet::{FreshWindows, agent_state};
use lanekeeper_proto::message::{FromAgent, FromServer, GoodbyeReason};
use lanekeeper_proto::wire;
use lanekeeper_store::testing::eventually;

use crate::scripted::{Agent, PATIENCE, Plane, hello, report};

#[tokio::test]
async fn older_report_is_dropped() {
    let plane = Plane::start().await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    agent.send(FromAgent::Report(report(2, &["sonnet"]))).await;
    assert_eq!(agent.ack().await.seq, 2);
    agent.send(FromAgent::Report(report(1, &[]))).await;
    assert_eq!(agent.ack().await.seq, 1, "it is answered all the same");
    agent.send(FromAgent::Report(report(2, &[]))).await;
    assert_eq!(agent.ack().await.seq, 2);
    let record = plane
        .until_record("one", "the report is stored", |record| record.seq == 2)
        .await;
    assert_eq!(record.cells.len(), 1);
    assert_eq!(&*record.cells[0].lane, "sonnet");
    assert!(record.report_received_ms.is_some());
    let dropped = "lanekeeper_reports_total{result=\"older\"}";
    assert_eq!(plane.metric(dropped).await, 2.0);
    plane.stop().await;
}

#[tokio::test]
async fn report_that_cannot_be_read_is_refused_in_band() {
    let plane = Plane::start().await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    let mut bad = wire::Report::from(report(1, &["sonnet"]));
    bad.cells[0].state = 77;
    let message = wire::agent_message::Message::Report(bad);
    let envelope = wire::AgentMessage {
        message: Some(message),
    };
    agent.outbound.send(envelope).await.unwrap();
    let refused = agent.ack().await.refused.unwrap();
    assert_eq!(refused, "report.cells[0].state: value 77 is not known");
    let record = plane
        .until_record("one", "the refusal is shown", |record| {
            !record.problems.is_empty()
        })
        .await;
    assert_eq!(record.report_received_ms, None);
    agent.send(FromAgent::Report(report(2, &["sonnet"]))).await;
    assert_eq!(agent.ack().await.refused, None, "the session goes on");
    plane.stop().await;
}

#[tokio::test]
async fn agent_that_says_bye_is_gone_at_once() {
    let plane = Plane::start().await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    agent.send(FromAgent::Report(report(1, &[]))).await;
    agent.ack().await;
    agent.bye().await;
    assert_eq!(agent.end_or_next().await.unwrap(), None);
    let record = plane
        .until_record("one", "the agent has left", |record| record.left)
        .await;
    let now_ms = record.report_received_ms.unwrap();
    assert_eq!(
        agent_state(&record, now_ms, FreshWindows::default()),
        AgentState::Gone
    );
    plane.stop().await;
}

#[tokio::test]
async fn silent_agent_is_left_and_never_recorded_as_having_left() {
    let plane = Plane::start_with(|config| {
        config.timing.report_interval = Duration::from_millis(200);
    })
    .await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    agent.send(FromAgent::Report(report(1, &["sonnet"]))).await;
    agent.ack().await;
    assert_eq!(agent.goodbye().await.reason, GoodbyeReason::Silent);
    let record = plane.record("one").await.unwrap();
    assert!(!record.left);
    assert_eq!(record.cells.len(), 1);
    // Three intervals passed since, in which nothing was heard of it.
    eventually(
        "when it was last heard of is recorded",
        PATIENCE,
        async || {
            let facts = plane.store.agent_facts(Some("edge")).await.unwrap();
            facts
                .iter()
                .any(|it| Some(it.last_seen_ms) == record.report_received_ms)
        },
    )
    .await;
    plane.stop().await;
}

#[tokio::test]
async fn lost_connection_leaves_the_record_to_age() {
    let plane = Plane::start().await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    agent.send(FromAgent::Report(report(1, &["sonnet"]))).await;
    agent.ack().await;
    drop(agent);
    eventually("the session is over", PATIENCE, async || {
        plane.metric("lanekeeper_sessions").await == 0.0
    })
    .await;
    let record = plane.record("one").await.unwrap();
    assert!(!record.left);
    eventually("its end is recorded", PATIENCE, async || {
        let facts = plane.store.agent_facts(Some("edge")).await.unwrap();
        facts
            .iter()
            .any(|it| Some(it.last_seen_ms) == record.report_received_ms)
    })
    .await;
    let stale_ms = record.report_received_ms.unwrap() + 31_000;
    assert_eq!(
        agent_state(&record, stale_ms, FreshWindows::default()),
        AgentState::Stale
    );
    plane.stop().await;
}

#[tokio::test]
async fn replicas_of_one_name_are_two_records() {
    let plane = Plane::start().await;
    let mut agents = Vec::new();
    for instance in ["one", "two"] {
        let mut twin = hello("edge", instance);
        twin.name = "twin".into();
        let (agent, _) = Agent::join(plane.addresses.grpc, twin).await;
        agents.push(agent);
    }
    for instance in ["one", "two"] {
        plane
            .until_record(instance, "both are recorded", |record| {
                record.name == "twin"
            })
            .await;
    }
    plane.stop().await;
}

#[tokio::test]
async fn two_hundred_agents_at_once_all_get_their_revision_and_their_acks() {
    const AGENTS: usize = 200;
    let plane = Plane::start().await;
    plane.create("edge").await;
    let address = plane.addresses.grpc;
    let mut scripts = tokio::task::JoinSet::new();
    for number in 0..AGENTS {
        scripts.spawn(async move {
            let instance = format!("agent-{number}");
            let (mut agent, welcome) = Agent::join(address, hello("edge", &instance)).await;
            let push = agent.push().await;
            agent.apply(&push).await;
            for seq in 1..=3 {
                agent
                    .send(FromAgent::Report(report(seq, &["sonnet"])))
                    .await;
                assert_eq!(agent.ack().await.seq, seq);
            }
            (agent, welcome.session_epoch)
        });
    }
    let mut agents = Vec::new();
    let mut epochs = std::collections::BTreeSet::new();
    while let Some(script) = scripts.join_next().await {
        let (agent, epoch) = script.unwrap();
        agents.push(agent);
        epochs.insert(epoch);
    }
    assert_eq!(epochs.len(), AGENTS, "no two sessions share an epoch");
    assert_eq!(plane.metric("lanekeeper_sessions").await, 200.0);
    eventually("all records are written", PATIENCE, async || {
        let records = plane.live.records(Some("edge")).await.unwrap();
        let done = |record: &&lanekeeper_model::AgentRecord| {
            record.seq == 3 && record.applied_revision == 1
        };
        records.iter().filter(done).count() == AGENTS
    })
    .await;

    plane.write("edge", 1).await;
    for agent in &mut agents {
        assert_eq!(agent.push().await.revision, 2);
    }
    plane.begin_stop();
    for agent in &mut agents {
        let goodbye = agent.next().await;
        assert!(
            matches!(&goodbye, FromServer::Goodbye(it) if it.reason == GoodbyeReason::Shutdown),
            "{goodbye:?}"
        );
    }
    plane.stop().await;
}
