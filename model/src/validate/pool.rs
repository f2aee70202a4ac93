//! Pools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_breaker::{Mode, Policy};

use super::{Defaults, Known, Report, breaker, headers, refuse_unknown};
use crate::gateway::{
    Affinity, Failover, Fleet, Lane, Member, OnExhausted, Pool, RetryBudget, Timeouts,
};
use crate::ids::{LaneName, PoolName};
use crate::spec::{self, AffinityMode, LastError, Preset};

/// Most members of a pool.
pub(super) const MEMBERS_MAX: usize = 1_000;

/// What a pool is checked against.
pub(super) struct Context<'c> {
    pub(super) known: &'c Known<'c>,
    pub(super) lanes: &'c BTreeMap<LaneName, Arc<Lane>>,
    /// `None` when the defaults are wrong themselves.
    pub(super) defaults: Option<&'c Defaults>,
}

pub(super) fn pool(
    name: &str,
    spec: &spec::Pool,
    context: &Context<'_>,
    place: &str,
    report: &mut Report<'_>,
) -> Option<Pool> {
    let exclusions = check_members(spec, context, place, report);
    let failover = failover(&spec.failover, exclusions, place, report);
    let affinity = affinity(&spec.affinity, place, report);
    let breaker = match &spec.breaker {
        Some(block) => {
            let policy = breaker::policy(block, &format!("{place}/breaker"), report);
            Some((Arc::new(policy), block.preset))
        }
        None => context
            .defaults
            .map(|defaults| (Arc::clone(&defaults.policy), defaults.preset)),
    };
    let preset = breaker
        .as_ref()
        .map_or(Preset::Default, |(_, preset)| *preset);
    let on_exhausted = on_exhausted(spec, preset, context.known, place, report);
    let keepalive_after = keepalive_after(spec, place, report);

    let (breaker, preset) = breaker?;
    let relays_last_error = relays_last_error(spec, preset, &breaker, &on_exhausted);
    Some(Pool {
        name: PoolName::from(name),
        members: spec
            .members
            .iter()
            .map(|member| resolve_member(member, context.lanes))
            .collect::<Option<Vec<Member>>>()?,
        strategy: spec.strategy,
        breaker,
        preset,
        failover: failover?,
        keepalive_after,
        affinity,
        relays_last_error,
        translate: spec.translate,
        state: spec.state,
        on_exhausted,
        on_auth_down: spec.on_auth_down,
        upstream_credentials: spec.upstream_credentials,
        fleet: Fleet {
            mode: spec.fleet.mode,
            quorum: spec.fleet.quorum,
            min_agents: spec.fleet.min_agents,
            max_benched: spec.fleet.max_benched,
            probe: spec.fleet.probe,
        },
    })
}

fn resolve_member(member: &spec::Member, lanes: &BTreeMap<LaneName, Arc<Lane>>) -> Option<Member> {
    let lane = lanes.get(&member.target)?;
    let own = member.attempt_timeout_ms.map(Duration::from_millis);
    let first_content = member.first_content_timeout_ms.map(Duration::from_millis);
    let of_lane = lane.timeouts;
    Some(Member {
        lane: lane.name.clone(),
        provider: lane.provider.clone(),
        weight: member.weight,
        context_max: member.context_max.or(lane.context_max),
        timeouts: Timeouts {
            streaming_headers: own.or(of_lane.streaming_headers),
            whole_headers: own.or(of_lane.whole_headers),
            first_content: first_content.or(of_lane.first_content),
            ..of_lane
        },
    })
}

/// Checks members, weights and exclusions; returns the exclusions.
fn check_members(
    spec: &spec::Pool,
    context: &Context<'_>,
    place: &str,
    report: &mut Report<'_>,
) -> BTreeSet<LaneName> {
    if spec.members.len() > MEMBERS_MAX {
        report.refuse(
            format!("{place}/members"),
            "too_many",
            format!(
                "has {} entries; at most {MEMBERS_MAX} are allowed",
                spec.members.len()
            ),
        );
    }
    let mut members = BTreeSet::new();
    for (index, member) in spec.members.iter().enumerate() {
        let target = member.target.as_str();
        let at = format!("{place}/members/{index}/target");
        if !context.known.lanes.contains(target) {
            refuse_unknown(
                "model",
                target,
                context.known.lanes.iter().copied(),
                at,
                report,
            );
        } else if members.contains(target) {
            report.refuse(at, "duplicate", format!("`{target}` is a member already"));
        }
        members.insert(target);
    }

    let mut exclusions = BTreeSet::new();
    for (index, excluded) in spec.failover.exclusions.iter().enumerate() {
        let at = format!("{place}/failover/exclusions/{index}");
        if !members.contains(excluded.as_str()) {
            report.refuse(
                at,
                "not_a_member",
                format!("`{excluded}` is not a member of this pool"),
            );
        } else if !exclusions.insert(excluded.clone()) {
            report.refuse(at, "duplicate", format!("`{excluded}` is excluded already"));
        }
    }

    if spec.members.iter().all(|member| member.weight == 0) {
        report.refuse(
            format!("{place}/members"),
            "no_usable_member",
            "all weights are 0, so that no member could be selected",
        );
    } else if spec
        .members
        .iter()
        .all(|member| member.weight == 0 || exclusions.contains(&member.target))
    {
        report.refuse(
            format!("{place}/failover/exclusions"),
            "no_usable_member",
            "every member that has a weight is excluded",
        );
    }
    exclusions
}

fn failover(
    spec: &spec::Failover,
    exclusions: BTreeSet<LaneName>,
    place: &str,
    report: &mut Report<'_>,
) -> Option<Failover> {
    let timeout = Duration::try_from_secs_f64(spec.timeout_secs).ok()?;
    let hold = Duration::from_millis(spec.hold_ms);
    if hold > timeout {
        report.refuse(
            format!("{place}/failover/hold_ms"),
            "over_budget",
            format!(
                "must not be over failover.timeout_secs ({})",
                spec.timeout_secs
            ),
        );
    }
    Some(Failover {
        timeout,
        max_hops: spec.max_hops,
        exclusions,
        hold,
        same_lane_retries: spec.same_lane_retries,
        retry_backoff: Duration::from_millis(spec.retry_backoff_ms),
        retry_budget: spec.retry_budget.ratio.map(|ratio| RetryBudget {
            ratio,
            min_per_sec: spec.retry_budget.min_per_sec,
            scope: spec.retry_budget.scope,
        }),
    })
}

/// Silence longer than the failover budget never comes.
fn keepalive_after(spec: &spec::Pool, place: &str, report: &mut Report<'_>) -> Option<Duration> {
    let secs = spec.keepalive_after_secs?;
    let budget_secs = spec.failover.timeout_secs;
    if secs > budget_secs {
        report.refuse(
            format!("{place}/keepalive_after_secs"),
            "over_budget",
            format!("must not be over failover.timeout_secs ({budget_secs})"),
        );
    }
    Duration::try_from_secs_f64(secs).ok()
}

/// What `auto` means: relayed where the caller deals with one lane, or with a breaker whose source
/// relays.
fn relays_last_error(
    spec: &spec::Pool,
    preset: Preset,
    breaker: &Policy,
    on_exhausted: &OnExhausted,
) -> bool {
    match spec.last_error {
        LastError::Own => false,
        LastError::Relay => true,
        LastError::Auto => {
            spec.members.len() == 1
                || breaker.mode == Mode::Off
                || *on_exhausted == OnExhausted::FailOpen
                || match preset {
                    Preset::Rolter | Preset::Myra | Preset::Aibridge => true,
                    Preset::Default | Preset::Busbar => false,
                }
        }
    }
}

fn affinity(spec: &spec::Affinity, place: &str, report: &mut Report<'_>) -> Option<Affinity> {
    let at = format!("{place}/affinity/header_name");
    let header_name = headers::header_name(&spec.header_name, &at, report)?;
    match spec.mode {
        AffinityMode::None => None,
        AffinityMode::Session => Some(Affinity { header_name }),
    }
}

/// The pool's own choice, or what its preset does when all lanes refuse.
fn on_exhausted(
    spec: &spec::Pool,
    preset: Preset,
    known: &Known<'_>,
    place: &str,
    report: &mut Report<'_>,
) -> OnExhausted {
    let Some(own) = &spec.on_exhausted else {
        return match preset {
            Preset::Rolter => OnExhausted::FailOpen,
            // The next pool of a chain has to be named to be known.
            Preset::Default | Preset::Busbar | Preset::Myra | Preset::Aibridge => {
                OnExhausted::Reject
            }
        };
    };
    match own {
        spec::OnExhausted::Reject => OnExhausted::Reject,
        spec::OnExhausted::LeastBad => OnExhausted::LeastBad,
        spec::OnExhausted::FailOpen => OnExhausted::FailOpen,
        spec::OnExhausted::FallbackPool(next) => {
            if !known.pools.contains(next.as_str()) {
                refuse_unknown(
                    "pool",
                    next,
                    known.pools.iter().copied(),
                    format!("{place}/on_exhausted/fallback_pool"),
                    report,
                );
            }
            OnExhausted::FallbackPool(next.clone())
        }
        spec::OnExhausted::Queue(queue) => {
            let budget_secs = spec.failover.timeout_secs;
            if queue.max_ms as f64 > budget_secs * 1000.0 {
                report.refuse(
                    format!("{place}/on_exhausted/queue/max_ms"),
                    "over_budget",
                    format!("must not be over failover.timeout_secs ({budget_secs})"),
                );
            }
            OnExhausted::Queue(Duration::from_millis(queue.max_ms))
        }
    }
}
