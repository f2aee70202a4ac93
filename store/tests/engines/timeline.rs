//! The timeline and incidents.

use lanekeeper_model::incident::{Incident, Sighting, Subject, SubjectKind, sightings};
use lanekeeper_model::transition::{
    EntryKind, Reporter, ShedTransitions, TimelineEntry, TransitionReport,
};
use lanekeeper_model::{AgentRecord, CellState, FreshWindows};
use lanekeeper_store::{
    IncidentFilter, IncidentPlace, StoredIncident, TimelineFilter, TimelinePlace,
};
use serde_json::json;

use crate::stores::{TestStore, change};

on_each_engine! {
    a_change_that_is_reported_twice_is_stored_once,
    missing_changes_are_counted_beside_those_that_were_stored_unheard,
    the_timeline_is_paged_and_filtered,
    the_timeline_is_bounded_in_time_and_number,
    of_replicas_that_open_an_incident_one_does,
    a_step_counts_upon_the_version_it_was_decided_on,
    incidents_are_paged_and_filtered,
    a_lease_is_held_by_one_until_its_end,
    what_operators_did_is_read_with_its_end,
}

fn reported(instance: &str, sequence: u64, at_ms: u64, lane: &str, to: CellState) -> TimelineEntry {
    let gateway = "edge".into();
    let reporter = Reporter {
        gateway: &gateway,
        instance,
        agent: "node",
        received_ms: at_ms,
    };
    let is_own = lane.is_empty();
    reporter.entry(TransitionReport {
        sequence,
        age_ms: 0,
        pool: if is_own { "" } else { "chat" }.into(),
        lane: lane.into(),
        provider: "east".into(),
        endpoint: None,
        from: CellState::Closed,
        to,
        reason: "count".to_owned(),
        failures: 3,
        samples: 5,
        cause: None,
        cooldown_ms: 10_000,
        observed: false,
    })
}

fn missing(instance: &str, first: u64, last: u64, at_ms: u64) -> TimelineEntry {
    let gateway = "edge".into();
    let reporter = Reporter {
        gateway: &gateway,
        instance,
        agent: "node",
        received_ms: at_ms,
    };
    reporter.shed(ShedTransitions {
        first,
        last,
        age_ms: 0,
    })
}

async fn all(test: &TestStore) -> Vec<TimelineEntry> {
    let filter = TimelineFilter::default();
    test.store.timeline(&filter, None, 500).await.unwrap()
}

async fn a_change_that_is_reported_twice_is_stored_once(test: TestStore) {
    let first = reported("i", 1, 1_000, "fast", CellState::Open);
    let again = reported("i", 1, 9_000, "fast", CellState::Open);
    test.store
        .record_transitions(std::slice::from_ref(&first))
        .await
        .unwrap();
    let other = test.another().await;
    let next = reported("i", 2, 9_500, "fast", CellState::Closed);
    other
        .record_transitions(&[again, next.clone()])
        .await
        .unwrap();
    assert_eq!(all(&test).await, [next, first], "as it was reported first");
}

async fn missing_changes_are_counted_beside_those_that_were_stored_unheard(test: TestStore) {
    let stored = reported("i", 3, 1_000, "fast", CellState::Open);
    test.store.record_transitions(&[stored]).await.unwrap();
    // The agent did not hear that the third was stored, and could not keep it.
    for last in [4, 6] {
        let range = missing("i", 3, last, 2_000);
        test.store.record_transitions(&[range]).await.unwrap();
    }
    let entries = all(&test).await;
    let shown: Vec<_> = entries
        .iter()
        .map(|it| (it.sequence, it.kind, it.shed()))
        .collect();
    assert_eq!(shown, [(4, EntryKind::Shed, 3), (3, EntryKind::Opened, 0)]);
}

async fn the_timeline_is_paged_and_filtered(test: TestStore) {
    let entries = [
        reported("a", 1, 1_000, "fast", CellState::Open),
        reported("b", 1, 1_000, "fast", CellState::Open),
        reported("a", 2, 2_000, "slow", CellState::HalfOpen),
        reported("b", 2, 3_000, "", CellState::Closed),
        missing("b", 3, 9, 4_000),
    ];
    test.store.record_transitions(&entries).await.unwrap();
    let latest_first: Vec<_> = entries.iter().rev().cloned().collect();
    let mut paged = Vec::new();
    let mut place = None;
    loop {
        let filter = TimelineFilter::default();
        let page = test
            .store
            .timeline(&filter, place.as_ref(), 2)
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        place = Some(TimelinePlace {
            at_ms: last.at_ms,
            gateway: last.gateway.to_string(),
            instance: last.instance.clone(),
            sequence: last.sequence,
        });
        paged.extend(page);
    }
    assert_eq!(
        paged, latest_first,
        "two at one moment are neither lost nor doubled"
    );

    let found = async |filter: TimelineFilter| {
        let found = test.store.timeline(&filter, None, 10).await.unwrap();
        let numbers = found
            .into_iter()
            .map(|it| format!("{}{}", it.instance, it.sequence));
        numbers.collect::<Vec<_>>().join(" ")
    };
    let text = |text: &str| Some(text.to_owned());
    let any = TimelineFilter::default;
    assert_eq!(
        found(TimelineFilter {
            lane: text("fast"),
            ..any()
        })
        .await,
        "b1 a1"
    );
    assert_eq!(
        found(TimelineFilter {
            agent: text("a"),
            ..any()
        })
        .await,
        "a2 a1"
    );
    assert_eq!(
        found(TimelineFilter {
            agent: text("node"),
            ..any()
        })
        .await,
        "b3 b2 a2 b1 a1"
    );
    let kind = Some(EntryKind::HalfOpened);
    assert_eq!(found(TimelineFilter { kind, ..any() }).await, "a2");
    assert_eq!(
        found(TimelineFilter {
            provider: text("east"),
            ..any()
        })
        .await,
        "b2 a2 b1 a1"
    );
    let own = TimelineFilter {
        own_cells: true,
        ..any()
    };
    assert_eq!(found(own).await, "b2");
    let span = TimelineFilter {
        from_ms: Some(2_000),
        until_ms: Some(4_000),
        ..any()
    };
    assert_eq!(found(span).await, "b2 a2", "the end is not part of it");
    let other = TimelineFilter {
        gateway: text("other"),
        pool: text("chat"),
        ..any()
    };
    assert_eq!(found(other).await, "");
}

async fn the_timeline_is_bounded_in_time_and_number(test: TestStore) {
    let entries: Vec<_> = (1..=10)
        .map(|number| reported("i", number, number * 1_000, "fast", CellState::Open))
        .collect();
    test.store.record_transitions(&entries).await.unwrap();
    assert_eq!(test.store.prune_transitions(3_000, 100).await.unwrap(), 2);
    assert_eq!(test.store.prune_transitions(3_000, 5).await.unwrap(), 3);
    assert_eq!(test.store.prune_transitions(3_000, 5).await.unwrap(), 0);
    let left: Vec<_> = all(&test).await.iter().map(|it| it.sequence).collect();
    assert_eq!(left, [10, 9, 8, 7, 6]);
}

/// An incident of a lane that an agent has open.
fn incident(gateway: &str, lane: &str, opened_ms: u64) -> Incident {
    let text = json!({
        "gateway": gateway, "instance": "i", "name": "node", "report_received_ms": opened_ms,
        "cells": [{"pool": "chat", "lane": lane, "provider": "east", "state": "open"}],
    });
    let record: AgentRecord = serde_json::from_value(text).unwrap();
    let mut seen = sightings([&record], opened_ms, FreshWindows::default());
    let seen = seen.remove(gateway).unwrap();
    let subject = Subject {
        kind: SubjectKind::Lane,
        name: lane.to_owned(),
    };
    let sighting = &seen.subjects[&subject];
    Incident::open(&gateway.into(), &subject, sighting, seen.fresh, opened_ms).unwrap()
}

/// The incident as it is once it is over.
fn over(stored: &StoredIncident, now_ms: u64) -> Incident {
    let mut incident = stored.incident.clone();
    incident.step(&Sighting::default(), 1, false, now_ms, 0);
    assert!(!incident.is_open());
    incident
}

async fn of_replicas_that_open_an_incident_one_does(test: TestStore) {
    let other = test.another().await;
    let (one, two) = tokio::join!(
        test.store
            .open_incident(incident("edge", "fast", 1_000), 1_000),
        other.open_incident(incident("edge", "fast", 1_000), 1_000)
    );
    let opened: Vec<_> = [one.unwrap(), two.unwrap()].into_iter().flatten().collect();
    assert_eq!(opened.len(), 1);
    let open = test.store.open_incidents().await.unwrap();
    assert_eq!(open, opened);
    assert_eq!(open[0].incident.id.len(), 32);
    // Another subject, and the same one once it is over.
    let slow = test
        .store
        .open_incident(incident("edge", "slow", 1_000), 1_000)
        .await;
    assert!(slow.unwrap().is_some());
    let closed = over(&open[0], 2_000);
    test.store
        .advance_incident(closed, 1, 2_000)
        .await
        .unwrap()
        .unwrap();
    let again = test
        .store
        .open_incident(incident("edge", "fast", 3_000), 3_000)
        .await;
    assert!(again.unwrap().is_some());
}

async fn a_step_counts_upon_the_version_it_was_decided_on(test: TestStore) {
    let opened = test
        .store
        .open_incident(incident("edge", "fast", 1_000), 1_000)
        .await;
    let opened = opened.unwrap().unwrap();
    let closed = over(&opened, 2_000);
    let other = test.another().await;
    let (one, two) = tokio::join!(
        test.store.advance_incident(closed.clone(), 1, 2_000),
        other.advance_incident(closed.clone(), 1, 2_000)
    );
    let written: Vec<_> = [one.unwrap(), two.unwrap()].into_iter().flatten().collect();
    assert_eq!(written.len(), 1, "closed once");
    let read = test
        .store
        .incident(&opened.incident.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((read.version, &read.incident), (2, &closed));
    let late = test
        .store
        .advance_incident(opened.incident, 2, 3_000)
        .await
        .unwrap();
    assert_eq!(late, None, "what is closed stays closed");
    assert!(test.store.open_incidents().await.unwrap().is_empty());
}

async fn incidents_are_paged_and_filtered(test: TestStore) {
    for (gateway, lane, opened_ms) in [
        ("edge", "fast", 1_000),
        ("edge", "slow", 2_000),
        ("other", "fast", 2_000),
    ] {
        let incident = incident(gateway, lane, opened_ms);
        test.store
            .open_incident(incident, opened_ms)
            .await
            .unwrap()
            .unwrap();
    }
    let all = IncidentFilter::default();
    let first = test.store.incidents(&all, None, 1).await.unwrap();
    let place = IncidentPlace {
        opened_ms: first[0].incident.opened_ms,
        id: first[0].incident.id.clone(),
    };
    let rest = test.store.incidents(&all, Some(&place), 10).await.unwrap();
    assert_eq!(rest.len(), 2);
    assert_eq!(rest[1].incident.opened_ms, 1_000, "the latest first");
    let closed = over(&rest[1], 5_000);
    test.store
        .advance_incident(closed, 1, 5_000)
        .await
        .unwrap()
        .unwrap();
    let found = async |filter: IncidentFilter| {
        let found = test.store.incidents(&filter, None, 10).await.unwrap();
        let mut names: Vec<_> = found
            .iter()
            .map(|it| format!("{}/{}", it.incident.gateway, it.incident.subject.name))
            .collect();
        names.sort();
        names.join(" ")
    };
    let any = IncidentFilter::default;
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        found(IncidentFilter {
            open: Some(false),
            ..any()
        })
        .await,
        "edge/fast"
    );
    assert_eq!(
        found(IncidentFilter {
            open: Some(true),
            ..any()
        })
        .await,
        "edge/slow other/fast"
    );
    let edge = IncidentFilter {
        gateway: text("edge"),
        name: text("slow"),
        ..any()
    };
    assert_eq!(found(edge).await, "edge/slow");
    let kind = Some(SubjectKind::Pool);
    assert_eq!(found(IncidentFilter { kind, ..any() }).await, "");
    let early = IncidentFilter {
        until_ms: Some(2_000),
        ..any()
    };
    assert_eq!(found(early).await, "edge/fast");
    assert_eq!(test.store.prune_incidents(5_000).await.unwrap(), 0);
    assert_eq!(
        test.store.prune_incidents(5_001).await.unwrap(),
        1,
        "only closed ones go"
    );
    assert_eq!(found(any()).await, "edge/slow other/fast");
}

async fn a_lease_is_held_by_one_until_its_end(test: TestStore) {
    let other = test.another().await;
    let hold = async |store: &lanekeeper_store::ConfigStore, holder: &str, now_ms, until_ms| {
        let held = store
            .hold_lease("incidents", holder, now_ms, until_ms)
            .await;
        held.unwrap()
    };
    assert!(hold(&test.store, "a", 1_000, 11_000).await);
    assert!(!hold(&other, "b", 2_000, 12_000).await);
    assert!(hold(&test.store, "a", 9_000, 19_000).await, "renewed");
    assert!(!hold(&other, "b", 11_000, 21_000).await);
    assert!(hold(&other, "b", 19_000, 29_000).await, "run out");
    assert!(!hold(&test.store, "a", 20_000, 30_000).await);
    test.store.drop_lease("incidents", "a").await.unwrap();
    assert!(
        !hold(&test.store, "a", 20_000, 30_000).await,
        "not its own to drop"
    );
    other.drop_lease("incidents", "b").await.unwrap();
    assert!(hold(&test.store, "a", 20_000, 30_000).await);
}

async fn what_operators_did_is_read_with_its_end(test: TestStore) {
    use lanekeeper_model::OverrideAction;
    use lanekeeper_store::NewOverride;

    let document = json!({ "gateway": "edge" });
    let by_ann = change("ann", 1_000);
    let created = test.store.create_gateway("edge", &document, "h1", &by_ann);
    created.await.unwrap();
    let order = NewOverride {
        action: OverrideAction::Drain,
        pool: None,
        lane: "fast".into(),
        provider: None,
        agents: [].into(),
        reason: "maintenance".to_owned(),
        expires_ms: 60_000,
    };
    let given = test
        .store
        .create_override("edge", &order, 0, &change("bob", 2_000))
        .await;
    let given = given.unwrap().unwrap();
    let context = test
        .store
        .gateway_context("edge", 1_000, 3_000)
        .await
        .unwrap();
    let shown: Vec<_> = context
        .marks
        .iter()
        .map(|mark| {
            (
                mark.id.as_str(),
                mark.actor.as_str(),
                mark.at_ms,
                mark.ended_ms,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("1", "ann", 1_000, None),
            (&*given.order.id, "bob", 2_000, None)
        ]
    );
    assert_eq!(
        context.marks[1].detail,
        "drain of lane fast in every pool: maintenance"
    );
    let later = test
        .store
        .gateway_context("edge", 1_001, 61_000)
        .await
        .unwrap();
    let ends: Vec<_> = later.marks.iter().map(|mark| mark.ended_ms).collect();
    assert_eq!(ends, [Some(60_000)], "the revision is older");
    let over = test
        .store
        .gateway_context("edge", 60_000, 61_000)
        .await
        .unwrap();
    assert!(over.marks.is_empty());
}
