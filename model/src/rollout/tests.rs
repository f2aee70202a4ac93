//! The rules of a rollout, by tables and by random fleets.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fleet::{FreshWindows, Rejected};
use crate::report::{CellReport, CellState};

const SECOND: u64 = 1000;

fn agent(name: &str) -> AgentRecord {
    serde_json::from_value(json!({
        "gateway": "edge", "instance": format!("instance-of-{name}"), "name": name,
        "connected_ms": 0, "report_received_ms": 0, "applied_revision": 1, "applied_hash": "old",
    }))
    .unwrap()
}

fn fleet(size: usize) -> Vec<AgentRecord> {
    (0..size)
        .map(|number| agent(&format!("node-{number}")))
        .collect()
}

fn rollout(plan: serde_json::Value) -> Rollout {
    let new = NewRollout {
        gateway: "edge".into(),
        revision: (2, "new".to_owned()),
        base: (1, "old".to_owned()),
        author: "ann".to_owned(),
        message: "because".to_owned(),
        cells_per_agent: 4,
    };
    Rollout::new(new, RolloutPlan::check(&plan).unwrap(), 0)
}

/// A canary of 10 %, then half, then all; ten seconds each.
fn staged() -> Rollout {
    rollout(json!({
        "strategy": "staged", "canary": {"percent": 10}, "percents": [50], "hold_secs": 10,
    }))
}

/// A rollout, its agents and the time, moved together.
struct Bench {
    rollout: Rollout,
    agents: Vec<AgentRecord>,
    now_ms: u64,
}

impl Bench {
    fn new(rollout: Rollout, size: usize) -> Self {
        Self {
            rollout,
            agents: fleet(size),
            now_ms: 0,
        }
    }

    /// Lets time pass with every agent reporting, then takes a step.
    fn after(&mut self, secs: u64) -> Option<Transition> {
        self.now_ms += secs * SECOND;
        for agent in &mut self.agents {
            agent.report_received_ms = Some(self.now_ms);
        }
        self.step()
    }

    fn step(&mut self) -> Option<Transition> {
        let transition = self
            .rollout
            .step(&self.agents, FreshWindows::default(), self.now_ms);
        transition.filter(|transition| *transition != Transition::Noted)
    }

    fn reached(&self) -> Vec<usize> {
        let reaches =
            |agent: &AgentRecord| self.rollout.stage_of(&agent.name, &agent.labels).is_some();
        (0..self.agents.len())
            .filter(|number| reaches(&self.agents[*number]))
            .collect()
    }

    /// Every agent serves what it is to serve.
    fn obey(&mut self) {
        for agent in &mut self.agents {
            let (revision, hash) = self.rollout.target_of(&agent.name, &agent.labels);
            if revision > agent.applied_revision {
                agent.applied_revision = revision;
                agent.applied_hash = hash.to_owned();
            }
        }
    }

    fn stop(&self) -> &Stop {
        assert_eq!(self.rollout.state, RolloutState::Stopped);
        self.rollout.stop.as_ref().unwrap()
    }

    fn one_reached(&mut self) -> &mut AgentRecord {
        let number = self.reached()[0];
        &mut self.agents[number]
    }

    /// Begins the canary stage.
    fn canary(size: usize) -> Self {
        let mut bench = Self::new(staged(), size);
        assert_eq!(bench.after(1), Some(Transition::Began { stage: 0 }));
        bench
    }
}

#[test]
fn stages_follow_one_another_when_each_is_whole_and_was_watched() {
    let mut bench = Bench::canary(20);
    assert_eq!(bench.reached().len(), 2);
    assert_eq!(bench.after(1), None, "nobody has applied it");
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
    assert_eq!(bench.after(9), None, "it is watched for ten seconds");
    assert_eq!(bench.after(1), Some(Transition::Began { stage: 1 }));
    assert_eq!(bench.reached().len(), 10);
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
    assert_eq!(bench.after(10), Some(Transition::Began { stage: 2 }));
    assert_eq!(bench.reached().len(), 20);
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
    assert_eq!(bench.after(10), Some(Transition::Done));
    assert_eq!(bench.rollout.state, RolloutState::Done);
    assert_eq!(bench.after(10), None);
}

#[test]
fn share_is_of_whole_agents_and_never_of_none() {
    for (size, reached) in [(1, 1), (3, 1), (10, 1), (11, 2), (40, 4)] {
        assert_eq!(Bench::canary(size).reached().len(), reached, "of {size}");
    }
}

#[test]
fn stage_without_a_live_agent_waits() {
    let mut bench = Bench::new(staged(), 0);
    assert_eq!(bench.after(1), None);
    assert_eq!(bench.after(1000), None, "an empty view proves nothing");
    bench.agents = fleet(1);
    assert_eq!(bench.after(1), Some(Transition::Began { stage: 0 }));
}

#[test]
fn canary_by_labels_reaches_those_that_carry_them_all() {
    let plan = json!({"strategy": "staged", "canary": {"labels": {"tier": "canary", "zone": "a"}}});
    let mut bench = Bench::new(rollout(plan), 3);
    assert_eq!(bench.after(1), None, "nobody carries them");
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    bench.agents[0].labels.extend([label("tier", "canary")]);
    bench.agents[1]
        .labels
        .extend([label("tier", "canary"), label("zone", "a")]);
    assert_eq!(bench.after(1), Some(Transition::Began { stage: 0 }));
    assert_eq!(bench.reached(), [1]);
    let newcomer = agent("late");
    assert_eq!(
        bench.rollout.target_of("late", &newcomer.labels),
        (1, "old")
    );
    assert_eq!(
        bench.rollout.target_of("late", &bench.agents[1].labels),
        (2, "new")
    );
}

#[test]
fn refusal_in_the_stage_stops_and_one_outside_does_not() {
    let mut bench = Bench::canary(20);
    let rejected = |revision| {
        Some(Rejected {
            revision,
            errors: vec![Problem::new("/pools", "unknown_reference", "no such lane")],
        })
    };
    let reached = bench.reached();
    let outside = (0..20).find(|number| !reached.contains(number)).unwrap();
    bench.agents[outside].last_error = rejected(2);
    assert_eq!(bench.after(1), None);
    bench.one_reached().last_error = rejected(1);
    assert_eq!(bench.after(1), None, "an older revision's refusal");
    bench.one_reached().last_error = rejected(2);
    assert_eq!(
        bench.after(1),
        Some(Transition::Stopped { roll_back: false })
    );
    let stop = bench.stop();
    assert_eq!(stop.kind, StopKind::Rejected);
    assert_eq!(stop.errors[0].code, "unknown_reference");
    assert_eq!(
        stop.agent.as_deref(),
        Some(bench.agents[reached[0]].name.as_str())
    );
    assert_eq!(bench.reached().len(), 2, "it stays where it is");
}

#[test]
fn plan_says_whether_a_stop_goes_back() {
    let plan = json!({"strategy": "staged", "auto_rollback": true});
    let mut bench = Bench::new(rollout(plan), 1);
    bench.after(1);
    bench.agents[0].last_error = Some(Rejected {
        revision: 2,
        errors: Vec::new(),
    });
    assert_eq!(
        bench.after(1),
        Some(Transition::Stopped { roll_back: true })
    );
}

#[test]
fn agent_that_does_not_answer_in_time_stops_the_stage() {
    let mut bench = Bench::canary(20);
    for _ in 0..12 {
        assert_eq!(bench.after(5), None);
    }
    assert_eq!(
        bench.after(5),
        Some(Transition::Stopped { roll_back: false })
    );
    assert_eq!(bench.stop().kind, StopKind::Unanswered);
}

#[test]
fn agent_that_the_revision_killed_is_waited_for_and_not_forgotten() {
    let mut bench = Bench::canary(20);
    let dead = bench.reached()[0];
    let heard_ms = bench.agents[dead].report_received_ms;
    let last = loop {
        bench.now_ms += 5 * SECOND;
        for (number, agent) in bench.agents.iter_mut().enumerate() {
            if number != dead {
                agent.report_received_ms = Some(bench.now_ms);
            }
        }
        bench.obey();
        bench.agents[dead].applied_revision = 1;
        bench.agents[dead].applied_hash = "old".to_owned();
        bench.agents[dead].report_received_ms = heard_ms;
        if let Some(transition) = bench.step() {
            break transition;
        }
        assert!(bench.now_ms < 100 * SECOND);
    };
    assert_eq!(last, Transition::Stopped { roll_back: false });
    assert_eq!(bench.stop().kind, StopKind::Unanswered);
}

#[test]
fn agent_that_says_goodbye_is_not_waited_for() {
    let mut bench = Bench::canary(20);
    bench.obey();
    bench.one_reached().left = true;
    bench.one_reached().applied_revision = 1;
    assert_eq!(bench.after(1), Some(Transition::Whole));
    let gone = bench.reached()[0];
    bench.agents.remove(gone);
    assert_eq!(bench.after(9), None, "and its record goes unnoticed");
    assert_eq!(bench.after(1), Some(Transition::Began { stage: 1 }));
}

#[test]
fn records_that_vanish_are_no_proof() {
    let mut bench = Bench::canary(20);
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
    let agents = std::mem::take(&mut bench.agents);
    assert_eq!(bench.after(1), Some(Transition::Unwhole));
    assert_eq!(bench.after(10), None);
    assert_eq!(bench.after(10), None);
    bench.agents = agents;
    assert_eq!(bench.after(1), Some(Transition::Whole));
}

#[test]
fn agents_that_stay_away_stop_the_stage() {
    let mut bench = Bench::canary(20);
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
    bench.agents.clear();
    assert_eq!(bench.after(1), Some(Transition::Unwhole));
    for _ in 0..12 {
        assert_eq!(bench.after(5), None);
    }
    assert!(bench.after(5).is_some());
    assert_eq!(bench.stop().kind, StopKind::Lost);
}

#[test]
fn nothing_that_happened_while_nobody_looked_is_held_against_an_agent() {
    let mut bench = Bench::canary(20);
    // The control plane is away for ten minutes, and sees the old records first.
    bench.now_ms += 600 * SECOND;
    assert_eq!(bench.step(), None);
    assert_eq!(bench.after(20), None);
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
}

#[test]
fn newcomer_of_the_stage_is_waited_for_and_one_outside_is_not() {
    let mut bench = Bench::canary(20);
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
    let names: Vec<String> = (0..200).map(|number| format!("surge-{number}")).collect();
    let reaches = |name: &&String| bench.rollout.stage_of(name, &BTreeMap::new()).is_some();
    let (inside, outside) = (
        names.iter().find(reaches).unwrap(),
        names.iter().find(|name| !reaches(name)).unwrap(),
    );
    let mut newcomers = [agent(inside), agent(outside)];
    for newcomer in &mut newcomers {
        newcomer.connected_ms = bench.now_ms;
    }
    let [inside, outside] = newcomers;
    bench.agents.push(outside);
    assert_eq!(bench.after(5), None);
    bench.agents.push(inside);
    assert_eq!(bench.after(1), Some(Transition::Unwhole));
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
}

#[test]
fn fleet_that_comes_back_one_by_one_does_not_begin_a_stage() {
    let mut bench = Bench::canary(20);
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
    let canaries: BTreeSet<usize> = bench.reached().into_iter().collect();
    let mut number = 0;
    let mut away = Vec::new();
    bench.agents.retain(|agent| {
        number += 1;
        let stays = canaries.contains(&(number - 1));
        if !stays {
            away.push(agent.clone());
        }
        stays
    });
    assert_eq!(bench.after(11), None, "two of twenty are back");
    bench.agents.extend(away.drain(..9));
    assert_eq!(bench.after(1), Some(Transition::Began { stage: 1 }));
}

fn cell(state: CellState, override_action: Option<&str>) -> CellReport {
    serde_json::from_value(json!({
        "pool": "chat", "lane": "a", "provider": "p", "state": state,
        "override_action": override_action,
    }))
    .unwrap()
}

#[test]
fn open_cells_beyond_the_bound_stop_the_stage() {
    let mut bench = Bench::canary(20);
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
    // Two canaries of four cells: one open is 0.125, two are 0.25.
    let ordered = cell(CellState::Open, Some("force_open"));
    bench.one_reached().cells = vec![ordered.clone(), ordered];
    assert_eq!(bench.after(1), None, "an operator opened them");
    bench.one_reached().cells = vec![cell(CellState::Open, None)];
    assert_eq!(bench.after(1), None);
    bench.one_reached().cells = vec![cell(CellState::Open, None); 2];
    assert!(bench.after(1).is_some());
    assert_eq!(bench.stop().kind, StopKind::OpenShare);
    assert_eq!(
        bench.stop().detail,
        "25.0 % of the stage's cells are open, 0.0 % were before it"
    );
}

#[test]
fn cells_that_were_open_before_are_not_held_against_the_stage() {
    let mut bench = Bench::new(staged(), 20);
    for agent in &mut bench.agents {
        agent.cells = vec![cell(CellState::Open, None); 3];
    }
    assert_eq!(bench.after(1), Some(Transition::Began { stage: 0 }));
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
}

#[test]
fn exhausted_requests_beyond_the_bound_stop_the_stage_once_there_are_enough() {
    let mut bench = Bench::new(staged(), 20);
    for agent in &mut bench.agents {
        agent.totals.requests = 10_000;
        agent.totals.exhausted = 100;
    }
    assert_eq!(bench.after(1), Some(Transition::Began { stage: 0 }));
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
    bench.one_reached().totals.requests += 19;
    bench.one_reached().totals.exhausted += 19;
    assert_eq!(bench.after(1), None, "too few to judge");
    bench.one_reached().totals.requests += 481;
    assert_eq!(bench.after(1), None, "3.8 % after 1 %");
    bench.one_reached().totals.exhausted += 20;
    assert!(bench.after(1).is_some());
    assert_eq!(bench.stop().kind, StopKind::ExhaustedShare);
}

const MISSING: &str = "providers.openai: OPENAI_API_KEY is not set";

fn troubled(agent: &mut AgentRecord, problems: &[&str]) {
    agent.problems = problems.iter().map(|text| (*text).to_owned()).collect();
}

/// A share of 10 % first, with so many agents to bear whose problems are new.
fn bearing(new_problem_share_max: f64, size: usize) -> Bench {
    let plan = json!({"strategy": "staged", "percents": [10], "hold_secs": 10,
        "new_problem_share_max": new_problem_share_max});
    let mut bench = Bench::new(rollout(plan), size);
    for agent in &mut bench.agents {
        troubled(agent, &["the disk is full"]);
    }
    assert_eq!(bench.after(1), Some(Transition::Began { stage: 0 }));
    bench.obey();
    bench
}

#[test]
fn agents_whose_problems_are_new_with_the_revision_stop_the_stage() {
    let mut bench = bearing(0.05, 20);
    assert_eq!(
        bench.after(1),
        Some(Transition::Whole),
        "old problems are none"
    );
    let reached = bench.reached();
    let outside = (0..20).find(|number| !reached.contains(number)).unwrap();
    troubled(&mut bench.agents[outside], &[MISSING]);
    assert_eq!(bench.after(1), None, "it does not serve the revision");
    troubled(bench.one_reached(), &["the disk is full", MISSING]);
    let name = bench.one_reached().name.clone();
    assert_eq!(
        bench.after(1),
        Some(Transition::Stopped { roll_back: false })
    );
    let stop = bench.stop();
    assert_eq!(stop.kind, StopKind::Problems);
    assert_eq!(
        stop.detail,
        format!(
            "1 of 2 compared agents have problems that are new with the revision; agent {name}: \
             {MISSING}"
        )
    );
    assert_eq!(stop.agent.as_ref(), Some(&name));
    assert_eq!(stop.errors.len(), 1, "the old problem is no reason");
    assert_eq!(stop.errors[0].message, MISSING);
    let rollout = bench.rollout.clone();
    assert_eq!(rollout.new_problems_of(bench.one_reached()), [MISSING]);
}

#[test]
fn bound_of_the_plan_says_how_many_agents_may_have_new_problems() {
    for (bound, troubled_agents, stops) in [
        (0.0, 0, false),
        (0.0, 1, true),
        (0.2, 1, false),
        (0.2, 2, false),
        (0.2, 3, true),
        (1.0, 10, false),
    ] {
        let mut bench = bearing(bound, 100);
        for number in bench.reached().into_iter().take(troubled_agents) {
            troubled(&mut bench.agents[number], &[MISSING]);
        }
        bench.after(1);
        let case = format!("{troubled_agents} of 10 under {bound}");
        assert_eq!(
            bench.rollout.state == RolloutState::Stopped,
            stops,
            "{case}"
        );
    }
}

#[test]
fn newcomer_is_measured_by_what_troubled_the_others_before() {
    for (problem, stops) in [("the disk is full", false), (MISSING, true)] {
        let mut bench = bearing(0.05, 20);
        let reaches = |name: &String| bench.rollout.stage_of(name, &BTreeMap::new()).is_some();
        let inside = { (0..200).map(|number| format!("surge-{number}")) }
            .find(reaches)
            .unwrap();
        let mut newcomer = agent(&inside);
        newcomer.connected_ms = bench.now_ms;
        troubled(&mut newcomer, &[problem]);
        bench.agents.push(newcomer);
        bench.obey();
        bench.after(1);
        assert_eq!(
            bench.rollout.state == RolloutState::Stopped,
            stops,
            "{problem}"
        );
    }
}

#[test]
fn agent_that_starts_anew_is_measured_by_its_predecessor() {
    let mut bench = bearing(0.05, 20);
    let now_ms = bench.now_ms;
    let own = "providers.openai: only here";
    let number = bench.reached()[0];
    let sample_name = bench.agents[number].name.clone();
    bench.rollout.progress.baseline = None;
    troubled(&mut bench.agents[number], &[own]);
    bench.after(1);
    bench.agents[number].left = true;
    let mut successor = bench.agents[number].clone();
    successor.instance = format!("again-{sample_name}");
    successor.left = false;
    successor.connected_ms = now_ms + 1;
    bench.agents.push(successor);
    assert_eq!(bench.after(1), Some(Transition::Whole));
    assert_eq!(bench.rollout.state, RolloutState::Running);
}

#[test]
fn what_a_stage_bore_is_still_new_in_the_next_and_old_once_an_operator_resumes() {
    let mut bench = bearing(0.5, 20);
    troubled(bench.one_reached(), &[MISSING]);
    assert_eq!(
        bench.after(1),
        Some(Transition::Whole),
        "one of two is borne"
    );
    assert_eq!(bench.after(10), Some(Transition::Began { stage: 1 }));
    bench.obey();
    for agent in bench.agents.iter_mut().take(11) {
        troubled(agent, &[MISSING]);
    }
    let first = bench.reached()[0];
    troubled(&mut bench.agents[first], &[MISSING]);
    assert_eq!(
        bench.after(1),
        Some(Transition::Stopped { roll_back: false }),
        "the canary's trouble counts with the others'"
    );
    let now_ms = bench.now_ms;
    bench
        .rollout
        .order(RolloutOrder::Resume, "ann", now_ms)
        .unwrap();
    assert_eq!(bench.after(1), None);
    assert_eq!(bench.after(1), Some(Transition::Whole));
    assert_eq!(bench.after(10), Some(Transition::Done));
}

#[test]
fn plan_that_was_stored_before_a_field_was_there_has_its_default() {
    let stored = json!({"strategy": "staged", "canary": null, "percents": [10], "hold_secs": 30});
    let plan: RolloutPlan = serde_json::from_value(stored).unwrap();
    assert_eq!(plan, RolloutPlan::Staged(StagedPlan::default()));
}

#[test]
fn paused_rollout_does_nothing_and_resumes_with_clocks_anew() {
    let mut bench = Bench::canary(20);
    bench.rollout.order(RolloutOrder::Pause, "ann", 0).unwrap();
    assert_eq!(bench.after(600), None);
    assert_eq!(bench.reached().len(), 2, "the canaries keep what they have");
    let now_ms = bench.now_ms;
    bench
        .rollout
        .order(RolloutOrder::Resume, "ann", now_ms)
        .unwrap();
    assert_eq!(bench.after(30), None, "no one is late yet");
    bench.obey();
    assert_eq!(bench.after(1), Some(Transition::Whole));
}

#[test]
fn each_order_is_taken_only_where_it_makes_sense() {
    use RolloutOrder::{Pause, Resume, Stop};
    use RolloutState::{Done, Paused, RolledBack, Running, Stopped, Superseded};
    for (state, taken) in [
        (Running, vec![Pause, Stop]),
        (Paused, vec![Resume, Stop]),
        (Stopped, vec![Resume]),
        (Done, vec![]),
        (RolledBack, vec![]),
        (Superseded, vec![]),
    ] {
        for order in [Pause, Resume, Stop] {
            let mut rollout = staged();
            rollout.state = state;
            let answer = rollout.order(order, "ann", 0);
            let expected = taken.contains(&order);
            assert_eq!(answer.is_ok(), expected, "{order:?} in {state:?}");
            assert_eq!(rollout.state != state, expected);
        }
    }
}

#[test]
fn every_problem_of_a_plan_is_listed_at_once() {
    let plan = json!({
        "strategy": "staged", "canary": {"percent": 30}, "percents": [20, 120, "x"],
        "hold_secs": -1, "answer_timeout_secs": 1, "open_share_rise_max": 2,
        "new_problem_share_max": -0.1, "auto_rollback": "yes", "hold": 3,
    });
    let problems = RolloutPlan::check(&plan).unwrap_err();
    let pointers: Vec<&str> = problems
        .iter()
        .map(|problem| problem.pointer.as_str())
        .collect();
    assert_eq!(
        pointers,
        [
            "/hold",
            "/percents/0",
            "/percents/1",
            "/percents/2",
            "/hold_secs",
            "/answer_timeout_secs",
            "/open_share_rise_max",
            "/new_problem_share_max",
            "/auto_rollback",
        ]
    );
    for (plan, pointer) in [
        (json!(3), ""),
        (json!({}), "/strategy"),
        (
            json!({"strategy": "all_at_once", "percents": [1]}),
            "/percents",
        ),
        (
            json!({"strategy": "staged", "canary": {"labels": {}}}),
            "/canary/labels",
        ),
        (
            json!({"strategy": "staged", "canary": {"labels": {"a": 1}}}),
            "/canary/labels/a",
        ),
        (json!({"strategy": "staged", "canary": {}}), "/canary"),
    ] {
        let problems = RolloutPlan::check(&plan).unwrap_err();
        assert_eq!(problems[0].pointer, pointer, "{plan}");
    }
}

#[test]
fn plan_without_words_gets_the_defaults() {
    let plan = RolloutPlan::check(&json!({"strategy": "staged"})).unwrap();
    assert_eq!(plan, RolloutPlan::Staged(StagedPlan::default()));
    assert_eq!(plan.stages(), [Stage::Percent(10), Stage::All]);
    let plan = json!({"strategy": "staged", "canary": {"percent": 20}});
    let plan = RolloutPlan::check(&plan).unwrap();
    assert_eq!(plan.stages(), [Stage::Percent(20), Stage::All]);
    let text = serde_json::to_value(&plan).unwrap();
    assert_eq!(
        RolloutPlan::check(&text),
        Ok(plan),
        "it reads what it writes"
    );
}

#[test]
fn what_is_stored_is_what_was_there() {
    let mut bench = Bench::canary(20);
    bench.obey();
    bench.after(1);
    let text = serde_json::to_string(&bench.rollout).unwrap();
    assert_eq!(
        serde_json::from_str::<Rollout>(&text).unwrap(),
        bench.rollout
    );
}

#[test]
fn places_are_spread_evenly_over_names_that_differ_in_their_ends() {
    let below_tenth = (0..1000)
        .filter(|number| place(&format!("gateway-7d9f-{number}")) < PLACES / 10)
        .count();
    assert!((70..=130).contains(&below_tenth), "{below_tenth}");
}

/// What may happen to a fleet between two steps.
#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Obey(usize),
    Refuse(usize),
    Join(usize),
    Leave(usize),
    Vanish,
    Pause,
    Resume,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (1_u64..15).prop_map(Event::Pass),
        6 => (0_usize..12).prop_map(Event::Obey),
        1 => (0_usize..12).prop_map(Event::Refuse),
        2 => (0_usize..100).prop_map(Event::Join),
        1 => (0_usize..12).prop_map(Event::Leave),
        1 => Just(Event::Vanish),
        1 => Just(Event::Pause),
        1 => Just(Event::Resume),
    ];
    proptest::collection::vec(event, 1..120)
}

proptest! {
    #[test]
    fn no_stage_begins_before_the_one_before_is_whole_and_nobody_outside_gets_the_revision(
        size in 1_usize..12,
        events in events(),
    ) {
        let mut bench = Bench::new(staged(), size);
        let mut ever_reached = BTreeSet::new();
        for event in events {
            let now_ms = bench.now_ms;
            match event {
                Event::Pass(secs) => {
                    let before = bench.rollout.clone();
                    let had = bench.reached();
                    let transition = bench.after(secs);
                    if let Some(Transition::Began { stage }) = transition && stage > 0 {
                        let since_ms = before.progress.whole_since_ms;
                        prop_assert!(since_ms.is_some_and(|since| bench.now_ms >= since + 10_000));
                        for number in had {
                            let agent = &bench.agents[number];
                            prop_assert!(agent.left || bench.rollout.is_applied_by(agent));
                        }
                    }
                }
                Event::Obey(number) => {
                    let rollout = &bench.rollout;
                    if let Some(agent) = bench.agents.get_mut(number) {
                        let (revision, hash) = rollout.target_of(&agent.name, &agent.labels);
                        if revision > agent.applied_revision {
                            agent.applied_revision = revision;
                            agent.applied_hash = hash.to_owned();
                        }
                    }
                }
                Event::Refuse(number) => {
                    if let Some(agent) = bench.agents.get_mut(number) {
                        agent.last_error = Some(Rejected { revision: 2, errors: Vec::new() });
                    }
                }
                Event::Join(number) => {
                    let mut newcomer = agent(&format!("surge-{number}"));
                    newcomer.instance = format!("surge-{number}-{now_ms}-{}", bench.agents.len());
                    newcomer.connected_ms = now_ms;
                    bench.agents.push(newcomer);
                }
                Event::Leave(number) => {
                    if let Some(agent) = bench.agents.get_mut(number) {
                        agent.left = true;
                    }
                }
                Event::Vanish => bench.agents.clear(),
                Event::Pause => drop(bench.rollout.order(RolloutOrder::Pause, "ann", now_ms)),
                Event::Resume => drop(bench.rollout.order(RolloutOrder::Resume, "ann", now_ms)),
            }
            for agent in &bench.agents {
                let is_reached = bench.rollout.stage_of(&agent.name, &agent.labels).is_some();
                if is_reached {
                    ever_reached.insert(agent.name.clone());
                }
                prop_assert!(is_reached || !ever_reached.contains(&agent.name), "flipped");
                prop_assert!(is_reached || agent.applied_revision < 2, "got it unreached");
            }
        }
    }
}
