//! The agents' last known facts.

use lanekeeper_model::fleet::Rejected;
use lanekeeper_model::{ConfigSource, Problem};
use lanekeeper_store::{AgentFacts, Error, NewIdentity, Renewal};

use crate::stores::{TestStore, change};

fn facts(gateway: &str, instance: &str, session_epoch: u64, now_ms: u64) -> AgentFacts {
    AgentFacts {
        gateway: gateway.into(),
        instance: instance.to_owned(),
        name: "node-7".to_owned(),
        labels: [("zone".to_owned(), "b".to_owned())].into(),
        version: "0.1.0".to_owned(),
        session_epoch,
        applied_revision: 3,
        applied_hash: "h3".to_owned(),
        config_source: ConfigSource::Live,
        problems: vec!["OPENAI_API_KEY is not set".to_owned()],
        rejected: None,
        first_seen_ms: now_ms,
        last_seen_ms: now_ms,
        left_ms: None,
        identity: None,
    }
}

on_each_engine! {
    facts_survive_and_follow_the_agent,
    facts_of_many_agents_are_recorded_at_once_or_not_at_all,
    an_earlier_session_does_not_speak_over_a_later_one,
    a_goodbye_is_remembered,
    two_processes_of_one_name_are_two_rows,
    agents_are_forgotten_by_order_and_by_age,
    forgetting_an_agent_revokes_what_it_came_with,
    forgetting_an_earlier_process_that_is_over_leaves_the_later_its_identity,
    forgetting_a_living_process_takes_the_identity_from_its_copies_too,
    an_agent_whose_identity_was_revoked_has_left,
}

async fn facts_of_many_agents_are_recorded_at_once_or_not_at_all(test: TestStore) {
    let later = facts("edge", "i-2", 5, 10);
    test.store.record_agent(&later).await.unwrap();
    let all = [
        facts("edge", "i-3", 1, 12),
        facts("edge", "i-2", 4, 11),
        facts("core", "i-1", 1, 11),
    ];
    let all: Vec<&AgentFacts> = all.iter().collect();
    test.store.record_agents(&all).await.unwrap();
    let known = test.store.agent_facts(None).await.unwrap();
    assert_eq!(known, [all[0].clone(), all[2].clone(), later]);

    let unfit = facts("edge", "i\0", 1, 20);
    let fit = facts("edge", "i-4", 1, 20);
    let refused = test.store.record_agents(&[&fit, &unfit]).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    assert_eq!(test.store.agent_facts(None).await.unwrap(), known);
}

async fn facts_survive_and_follow_the_agent(test: TestStore) {
    let first = facts("edge", "i-1", 1, 10);
    test.store.record_agent(&first).await.unwrap();
    assert_eq!(
        test.another().await.agent_facts(None).await.unwrap(),
        std::slice::from_ref(&first)
    );

    let rejected = Rejected {
        revision: 4,
        errors: vec![Problem::new(
            "/pools/chat",
            "unknown_reference",
            "no lane of that name",
        )],
    };
    let second = AgentFacts {
        rejected: Some(rejected),
        first_seen_ms: 20,
        last_seen_ms: 20,
        ..first
    };
    test.store.record_agent(&second).await.unwrap();
    let known = test.store.agent_facts(Some("edge")).await.unwrap();
    assert_eq!(
        known,
        [AgentFacts {
            first_seen_ms: 10,
            ..second
        }]
    );
}

async fn an_earlier_session_does_not_speak_over_a_later_one(test: TestStore) {
    let later = facts("edge", "i-1", 7, 20);
    test.store.record_agent(&later).await.unwrap();
    test.store
        .record_agent(&AgentFacts {
            applied_revision: 1,
            ..facts("edge", "i-1", 6, 30)
        })
        .await
        .unwrap();
    assert_eq!(test.store.agent_facts(None).await.unwrap(), [later]);
}

async fn a_goodbye_is_remembered(test: TestStore) {
    let here = facts("edge", "i-1", 1, 10);
    test.store.record_agent(&here).await.unwrap();
    let left = AgentFacts {
        last_seen_ms: 20,
        left_ms: Some(20),
        ..here
    };
    test.store.record_agent(&left).await.unwrap();
    let known = test.another().await.agent_facts(None).await.unwrap();
    assert_eq!(known, [left]);
}

async fn two_processes_of_one_name_are_two_rows(test: TestStore) {
    for (gateway, instance, now_ms) in [("edge", "i-1", 1), ("edge", "i-2", 2), ("core", "i-1", 3)]
    {
        test.store
            .record_agent(&facts(gateway, instance, 1, now_ms))
            .await
            .unwrap();
    }
    let keys = |known: Vec<AgentFacts>| {
        known
            .into_iter()
            .map(|f| format!("{}/{}", f.gateway, f.instance))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        keys(test.store.agent_facts(None).await.unwrap()),
        ["core/i-1", "edge/i-2", "edge/i-1"]
    );
    assert_eq!(
        keys(test.store.agent_facts(Some("edge")).await.unwrap()),
        ["edge/i-2", "edge/i-1"]
    );
}

async fn agents_are_forgotten_by_order_and_by_age(test: TestStore) {
    for (instance, now_ms) in [("i-1", 10), ("i-2", 20), ("i-3", 30)] {
        test.store
            .record_agent(&facts("edge", instance, 1, now_ms))
            .await
            .unwrap();
    }
    test.store
        .forget_agent("i-3", true, &change("ann", 40))
        .await
        .unwrap();
    let error = test
        .store
        .forget_agent("i-3", true, &change("ann", 41))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    assert_eq!(test.store.prune_agents(20).await.unwrap(), 1);
    let known = test.store.agent_facts(None).await.unwrap();
    assert_eq!(
        known
            .iter()
            .map(|f| f.instance.as_str())
            .collect::<Vec<_>>(),
        ["i-2"]
    );
    let entries = test.store.audit(None, 10).await.unwrap();
    assert_eq!(
        entries
            .iter()
            .map(|e| e.resource.as_str())
            .collect::<Vec<_>>(),
        ["agents/i-3"]
    );
}

/// Enrols an agent; its certificate lasts until 1,000.
async fn enrolled(test: &TestStore, id: &str) {
    let identity = NewIdentity {
        id: id.to_owned(),
        gateway: "edge".to_owned(),
        name: "node-7".to_owned(),
        expires_ms: 1_000,
    };
    let origin = "kubernetes/default/agent";
    let order = change("ann", 1);
    let granted = test.store.enrol_vouched(&identity, origin, &order);
    assert_eq!(granted.await.unwrap(), Renewal::Granted);
}

fn identified(instance: &str, session_epoch: u64, identity: &str) -> AgentFacts {
    AgentFacts {
        identity: Some(identity.to_owned()),
        ..facts("edge", instance, session_epoch, session_epoch)
    }
}

async fn forgetting_an_agent_revokes_what_it_came_with(test: TestStore) {
    enrolled(&test, "a").await;
    enrolled(&test, "b").await;
    for known in [identified("i-1", 10, "a"), identified("i-2", 11, "b")] {
        test.store.record_agent(&known).await.unwrap();
    }
    let before = test.store.enrolment_changes().await.unwrap();
    let forget = async |instance: &str| {
        let change = change("ann", 20);
        test.store
            .forget_agent(instance, true, &change)
            .await
            .unwrap()
    };
    assert!(forget("i-1").await);
    assert_eq!(test.store.revoked_identities(30).await.unwrap(), ["a"]);
    assert!(test.store.enrolment_changes().await.unwrap() > before);
    let renewal = test.store.renew_identity("a", "edge", 2_000, 40).await;
    assert_eq!(renewal.unwrap(), Renewal::Refused);
    let entries = test.store.audit(None, 100).await.unwrap();
    let entry = entries.iter().find(|it| it.action == "agent.forget");
    let entry = entry.unwrap();
    let after = entry.after.as_ref().unwrap();
    assert_eq!(after["revoked_identities"], serde_json::json!(["a"]));

    // Its last words come late.
    let late = identified("i-1", 10, "a");
    test.store.record_agent(&late).await.unwrap();
    let known = test.store.agent_facts(None).await.unwrap();
    assert_eq!(known, [identified("i-2", 11, "b")]);

    let plain = facts("edge", "i-3", 12, 12);
    test.store.record_agent(&plain).await.unwrap();
    assert!(!forget("i-3").await, "nothing to revoke");
    assert_eq!(test.store.revoked_identities(30).await.unwrap(), ["a"]);
}

async fn forgetting_an_earlier_process_that_is_over_leaves_the_later_its_identity(test: TestStore) {
    enrolled(&test, "a").await;
    for known in [identified("i-1", 10, "a"), identified("i-2", 11, "a")] {
        test.store.record_agent(&known).await.unwrap();
    }
    let order = change("ann", 20);
    let forget = |instance| test.store.forget_agent(instance, true, &order);
    assert!(!forget("i-1").await.unwrap());
    assert_eq!(
        test.store.revoked_identities(30).await.unwrap(),
        [] as [&str; 0]
    );
    assert!(forget("i-2").await.unwrap(), "the one that holds it");
}

async fn forgetting_a_living_process_takes_the_identity_from_its_copies_too(test: TestStore) {
    enrolled(&test, "a").await;
    let copy = identified("i-2", 11, "a");
    for known in [&identified("i-1", 10, "a"), &copy] {
        test.store.record_agent(known).await.unwrap();
    }
    let order = change("ann", 20);
    assert!(test.store.forget_agent("i-1", false, &order).await.unwrap());
    assert_eq!(test.store.revoked_identities(30).await.unwrap(), ["a"]);
    for late in [&identified("i-1", 12, "a"), &identified("i-2", 13, "a")] {
        test.store.record_agent(late).await.unwrap();
    }
    let sent_away = AgentFacts {
        left_ms: Some(20),
        ..copy
    };
    assert_eq!(test.store.agent_facts(None).await.unwrap(), [sent_away]);
}

async fn an_agent_whose_identity_was_revoked_has_left(test: TestStore) {
    enrolled(&test, "a").await;
    enrolled(&test, "b").await;
    for known in [identified("i-1", 10, "a"), identified("i-2", 11, "b")] {
        test.store.record_agent(&known).await.unwrap();
    }
    let order = change("ann", 20);
    test.store.revoke_identity("a", &order).await.unwrap();
    let left = async || -> Vec<Option<u64>> {
        let known = test.store.agent_facts(None).await.unwrap();
        known.iter().map(|facts| facts.left_ms).collect()
    };
    assert_eq!(left().await, [None, Some(20)]);
    // It joined anew.
    let again = identified("i-1", 12, "b");
    test.store.record_agent(&again).await.unwrap();
    assert_eq!(left().await, [None, None]);
}
