use super::*;

const NOW: u64 = 1_700_000_000_000;

fn rules(members: &[&str]) -> AdviceRules {
    let rules = PoolRules {
        mode: FleetMode::Act,
        quorum: 0.5,
        min_agents: 3,
        max_benched: 0.5,
        members: members.iter().map(|lane| LaneName::from(*lane)).collect(),
    };
    AdviceRules(BTreeMap::from([(PoolName::from("chat"), rules)]))
}

fn vote(opened_ago_ms: u64) -> Vote {
    Vote {
        opened_ms: NOW - opened_ago_ms,
        evidence_ms: NOW - opened_ago_ms,
        is_local: false,
        cause: Some(("status".to_owned(), Some(503))),
        failures: 5,
    }
}

fn open_on(count: u64, fresh: u64) -> Tally {
    Tally {
        votes: (0..count).map(|number| vote(10_000 - number)).collect(),
        fresh,
        ..Tally::default()
    }
}

fn cell(lane: &str) -> AdvisedCell {
    AdvisedCell {
        pool: "chat".into(),
        lane: lane.into(),
        endpoint: None,
    }
}

/// The lanes that are found, and why nobody is told of them if so.
fn found(rules: &AdviceRules, tallies: &[(&str, Tally)]) -> Vec<(String, Option<Withheld>)> {
    let tallies = { tallies.iter() }.map(|(lane, tally)| (cell(lane), tally.clone()));
    let advice = advise(rules, &tallies.collect());
    { advice.into_iter() }
        .map(|it| (it.cell.lane.to_string(), it.withheld))
        .collect()
}

fn advised(lane: &str) -> (String, Option<Withheld>) {
    (lane.to_owned(), None)
}

#[test]
fn half_of_the_agents_and_three_at_least_must_hold_a_lane_open() {
    let rules = rules(&["a", "b"]);
    for (open, fresh, stands) in [
        (2, 3, false),
        (3, 3, true),
        (3, 6, true),
        (3, 7, false),
        (4, 7, true),
        (99, 200, false),
        (100, 200, true),
        (0, 0, false),
    ] {
        let found = found(&rules, &[("a", open_on(open, fresh))]);
        assert_eq!(!found.is_empty(), stands, "{open} of {fresh}");
    }
}

#[test]
fn a_share_that_binary_numbers_cannot_say_is_not_rounded_up() {
    let mut rules = rules(&["a", "b"]).0.remove("chat").unwrap();
    rules.quorum = 0.3;
    assert_eq!(rules.votes_needed(10), 3);
    rules.quorum = 0.7;
    assert_eq!(rules.votes_needed(10), 7);
    (rules.quorum, rules.min_agents) = (1e-9, 0);
    assert_eq!(rules.votes_needed(10), 1, "nobody is nobody");
}

#[test]
fn what_is_wrong_with_one_agent_is_no_vote() {
    for kind in ["dns", "blocked", "auth", "billing"] {
        assert!(is_local_cause(kind), "{kind}");
    }
    for kind in [
        "status",
        "timeout",
        "connect",
        "reset",
        "rate_limit",
        "model_missing",
    ] {
        assert!(!is_local_cause(kind), "{kind}");
    }
    let mut tally = open_on(3, 3);
    tally.votes[0].is_local = true;
    assert!(found(&rules(&["a", "b"]), &[("a", tally)]).is_empty());
}

#[test]
fn the_last_good_member_is_never_advised_against() {
    let down = || open_on(3, 3);
    let alone = rules(&["a"]);
    assert_eq!(
        found(&alone, &[("a", down())]),
        [("a".to_owned(), Some(Withheld::LastMember))]
    );
    let two = rules(&["a", "b"]);
    assert_eq!(
        found(&two, &[("a", down()), ("b", down())]),
        [
            ("a".to_owned(), Some(Withheld::LastMember)),
            ("b".to_owned(), Some(Withheld::LastMember))
        ]
    );
    // The sibling's causes are each agent's own, but it serves nobody all the same.
    let mut unusable = down();
    unusable
        .votes
        .iter_mut()
        .for_each(|vote| vote.is_local = true);
    assert_eq!(
        found(&two, &[("a", down()), ("b", unusable)]),
        [("a".to_owned(), Some(Withheld::LastMember))]
    );
}

#[test]
fn no_more_members_are_benched_than_the_pool_allows_and_the_first_stay() {
    let four = rules(&["a", "b", "c", "d"]);
    let after = |ago: u64| Tally {
        votes: vec![vote(ago), vote(ago), vote(ago)],
        fresh: 3,
        ..Tally::default()
    };
    assert_eq!(
        found(&four, &[("a", after(1)), ("b", after(9)), ("c", after(5))]),
        [
            ("a".to_owned(), Some(Withheld::MaxBenched)),
            advised("b"),
            advised("c"),
        ]
    );
    let mut none = four;
    none.0.get_mut("chat").unwrap().max_benched = 0.0;
    assert_eq!(
        found(&none, &[("a", after(1))]),
        [("a".to_owned(), Some(Withheld::MaxBenched))]
    );
}

#[test]
fn all_members_are_never_benched_whatever_the_pool_says() {
    let mut three = rules(&["a", "b", "c"]);
    three.0.get_mut("chat").unwrap().max_benched = 1.0;
    let found = found(&three, &[("a", open_on(3, 3)), ("b", open_on(3, 3))]);
    assert_eq!(found, [advised("a"), advised("b")]);
    assert_eq!(three.0["chat"].benched_max(), 2);
}

#[test]
fn lanes_that_are_no_usable_members_and_pools_without_advice_are_passed_over() {
    let rules = rules(&["a", "b"]);
    assert!(found(&rules, &[("drained", open_on(3, 3))]).is_empty());
    let mut elsewhere = cell("a");
    elsewhere.pool = "quiet".into();
    let tallies = BTreeMap::from([(elsewhere, open_on(3, 3))]);
    assert!(advise(&rules, &tallies).is_empty());
}

#[test]
fn advice_says_since_when_and_what_telling_nobody_costs() {
    let mut tally = open_on(0, 6);
    // The quorum stands with the third; the fourth comes too soon after it to be warned.
    tally.votes = vec![
        vote(60_000),
        vote(50_000),
        vote(40_000),
        vote(39_500),
        vote(5_000),
    ];
    let tallies = BTreeMap::from([(cell("a"), tally)]);
    let advice = advise(&rules(&["a", "b"]), &tallies).remove(0);
    assert_eq!(advice.since_ms, NOW - 40_000);
    assert_eq!(advice.evidence_ms, NOW - 5_000);
    assert_eq!((advice.open, advice.fresh), (5, 6));
    assert_eq!((advice.late_agents, advice.late_attempts), (1, 5));
    assert_eq!(advice.cause, Some(("status".to_owned(), Some(503))));
    assert!(advice.is_sent());
}
