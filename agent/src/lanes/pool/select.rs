//! Choosing one member and taking what the attempt needs.

mod stricter;

use super::exhaustion::Exhaustion;
use super::{Member, Pool, affinity};
use crate::lanes::attempt_guard::AttemptGuard;
use crate::lanes::cells::CellSlot;
use lanekeeper_breaker::{Admission, Refusal, Selectable, State};
use lanekeeper_model::gateway::{Strategy, UpstreamCredentials};
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::state::LaneMark;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stricter::stricter;

/// What a request asks of a member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand<'a> {
    /// What the caller speaks.
    pub(crate) dialect: Dialect,
    /// Lanes that do not speak it may serve in translation.
    pub(crate) translates: bool,
    /// The lane that keeps what the request names.
    pub(crate) kept_at: Option<LaneMark>,
    /// Lanes tried in this request, by their number in the snapshot.
    pub(crate) tried: &'a [u32],
    /// A lane with this many tokens of context said the request is too long for it.
    pub(crate) larger_than: Option<u64>,
    /// The session, when the pool keeps sessions on one member.
    pub(crate) session: Option<&'a [u8]>,
    /// The operation the caller asks for, where cells are kept for each.
    pub(crate) endpoint: &'static str,
    /// The request waited in the queue and its turn has come.
    pub(crate) in_turn: bool,
}

/// The members by what cheap reads say about them.
struct Survey {
    ready: Vec<Candidate>,
    /// The fleet waits for their probes: they come first.
    leased: Vec<Candidate>,
    /// Parked softly or advised against: only when no other can be had.
    parked: Vec<Candidate>,
    /// Those of them that only the fleet's advice keeps back.
    advised: Vec<Candidate>,
    exhaustion: Exhaustion,
}

/// A member that may be chosen, by position, with the weight it has now.
type Candidate = (usize, f64);

impl Pool {
    /// Chooses a member and takes its permit, budget and tickets.
    ///
    /// # Errors
    ///
    /// Why no member could be chosen, for the answer to the caller or the queue.
    pub(crate) fn select(&self, demand: &Demand<'_>, now: Instant) -> Result<Chosen, Exhaustion> {
        let Survey {
            mut ready,
            mut leased,
            mut parked,
            advised,
            mut exhaustion,
        } = self.survey(demand, now);
        let offered = total_weight(&ready);
        let tiers = [
            (false, &mut leased),
            (true, &mut ready),
            (false, &mut parked),
        ];
        for (is_ready, candidates) in tiers {
            while let Some(position) = self.pick(candidates, demand, now) {
                candidates.retain(|(candidate, _)| *candidate != position);
                let Some(member) = self.members.get(position) else {
                    continue;
                };
                match member.claim(demand.endpoint, demand.in_turn, now) {
                    Ok(guard) => {
                        if is_ready {
                            self.spare(&advised, offered, demand.endpoint);
                        }
                        return Ok(Chosen { position, guard });
                    }
                    Err(Denied::Saturated) => exhaustion.saturate(),
                    Err(Denied::Spent) => {}
                    Err(Denied::Refused(refusal, by)) => {
                        by.count_reject();
                        exhaustion.refuse(refusal);
                    }
                }
            }
        }
        Err(exhaustion)
    }

    /// When this request could be served, for the answer that says it cannot be now.
    pub(crate) fn outlook(&self, demand: &Demand<'_>, now: Instant) -> Exhaustion {
        let mut survey = self.survey(demand, now);
        let has_one = [&survey.ready, &survey.leased, &survey.parked];
        if has_one.iter().any(|candidates| !candidates.is_empty()) {
            survey.exhaustion.wait(Duration::ZERO);
        }
        survey.exhaustion
    }

    /// Judges every member by cheap reads.
    fn survey(&self, demand: &Demand<'_>, now: Instant) -> Survey {
        let mut exhaustion = Exhaustion::default();
        let mut ready: Vec<Candidate> = Vec::with_capacity(self.members.len());
        let mut leased: Vec<Candidate> = Vec::new();
        let mut parked: Vec<Candidate> = Vec::new();
        let mut advised: Vec<Candidate> = Vec::new();
        for (position, member) in self.members.iter().enumerate() {
            if !self.may_serve(member, demand) {
                continue;
            }
            let tried = demand.tried.contains(&member.lane.number);
            let (selectable, factor) = member.selectable(demand.endpoint, now);
            let list = match selectable {
                Selectable::Probe if !tried && member.is_leased(demand.endpoint, now) => {
                    &mut leased
                }
                Selectable::Yes | Selectable::Probe if !tried => &mut ready,
                Selectable::SoftParked | Selectable::Advised if !tried => &mut parked,
                Selectable::Yes | Selectable::Advised | Selectable::Probe => continue,
                Selectable::SoftParked => {
                    exhaustion.wait(member.cell(demand.endpoint).view(now).parked_remaining);
                    continue;
                }
                Selectable::No { retry_in, reason } => {
                    exhaustion.refuse(Refusal { retry_in, reason });
                    if !tried {
                        member.count_rejects(demand.endpoint, now);
                    }
                    continue;
                }
            };
            if demand.in_turn || member.lane.state.has_permit() {
                list.push((position, member.weight * factor));
                if selectable == Selectable::Advised {
                    advised.push((position, member.weight * factor));
                }
            } else {
                exhaustion.saturate();
            }
        }
        Survey {
            ready,
            leased,
            parked,
            advised,
            exhaustion,
        }
    }

    /// Books the share of an attempt that each member would have had but for the fleet's advice.
    fn spare(&self, advised: &[Candidate], offered: f64, endpoint: &str) {
        if advised.is_empty() {
            return;
        }
        let all = offered + total_weight(advised);
        for (position, weight) in advised {
            if let Some(member) = self.members.get(*position) {
                member.cell(endpoint).spare(weight / all);
            }
        }
    }

    /// Chooses among members their cells refuse: the one whose wait ends soonest.
    pub(crate) fn select_least_bad(&self, demand: &Demand<'_>, now: Instant) -> Option<Chosen> {
        let mut candidates: Vec<(usize, Duration)> = self
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| self.may_be_forced(member, demand))
            .map(|(position, member)| (position, member.bench_left(demand.endpoint, now)))
            .collect();
        candidates.sort_by_key(|(_, wait)| *wait);
        candidates
            .into_iter()
            .find_map(|(position, _)| self.force(position, demand.endpoint, now))
    }

    /// Chooses by strategy as if every cell were closed. A half-open member whose probe runs is
    /// left alone while another can be had.
    pub(crate) fn select_fail_open(&self, demand: &Demand<'_>, now: Instant) -> Option<Chosen> {
        let (mut free, mut probing): (Vec<Candidate>, Vec<Candidate>) = (Vec::new(), Vec::new());
        for (position, member) in self.members.iter().enumerate() {
            if !self.may_be_forced(member, demand) {
                continue;
            }
            if member.is_half_open(demand.endpoint, now) {
                &mut probing
            } else {
                &mut free
            }
            .push((position, member.weight));
        }
        for candidates in [&mut free, &mut probing] {
            while let Some(position) = self.pick(candidates, demand, now) {
                candidates.retain(|(candidate, _)| *candidate != position);
                if let Some(chosen) = self.force(position, demand.endpoint, now) {
                    return Some(chosen);
                }
            }
        }
        None
    }

    /// The lanes whose freed permit would let this request go on.
    pub(crate) fn queue_for(&self, demand: &Demand<'_>, now: Instant) -> Vec<&Member> {
        self.members
            .iter()
            .filter(|member| {
                self.may_be_forced(member, demand)
                    && !matches!(
                        member.selectable(demand.endpoint, now).0,
                        Selectable::No { .. }
                    )
            })
            .collect()
    }

    /// Everything but the cell and the permit.
    fn may_serve(&self, member: &Member, demand: &Demand<'_>) -> bool {
        member.weight > 0.0
            && !member.excluded
            && demand.kept_at.is_none_or(|mark| mark == member.lane.mark)
            && member.is_understood(demand)
            && member.large_enough(demand.larger_than)
            && member.lane.state.has_budget()
            && member
                .lane
                .provider
                .is_usable(self.upstream_credentials == UpstreamCredentials::Passthrough)
    }

    fn may_be_forced(&self, member: &Member, demand: &Demand<'_>) -> bool {
        self.may_serve(member, demand) && !demand.tried.contains(&member.lane.number)
    }

    fn force(&self, position: usize, endpoint: &str, now: Instant) -> Option<Chosen> {
        let member = self.members.get(position)?;
        let guard = member.claim_degraded(endpoint, now)?;
        Some(Chosen { position, guard })
    }

    fn pick(&self, candidates: &[Candidate], demand: &Demand<'_>, now: Instant) -> Option<usize> {
        if candidates.is_empty() {
            return None;
        }
        if let Some(session) = demand.session {
            return self.pinned(candidates, session);
        }
        match self.strategy {
            Strategy::Weighted => self.rotation.lock().pick(candidates),
            Strategy::LeastLoaded => self.lowest(candidates, |member, weight| {
                f64::from(member.lane.state.inflight()) / weight
            }),
            Strategy::Fastest => {
                let chosen = self.fastest(candidates, demand.endpoint, now)?;
                if let Some(member) = self.members.get(chosen)
                    && member.cell(demand.endpoint).latency(now).is_none()
                {
                    member.cell(demand.endpoint).explore(now);
                }
                Some(chosen)
            }
        }
    }

    /// The member this session belongs to among those that can serve.
    fn pinned(&self, candidates: &[Candidate], session: &[u8]) -> Option<usize> {
        candidates
            .iter()
            .filter_map(|&(position, weight)| {
                let member = self.members.get(position)?;
                Some((
                    position,
                    affinity::score(session, member.lane.name(), weight),
                ))
            })
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(position, _)| position)
    }

    /// The member that answers soonest. While it ramps it gets its part only, and the next one the
    /// rest.
    fn fastest(&self, candidates: &[Candidate], endpoint: &str, now: Instant) -> Option<usize> {
        let time = |member: &Member, _: f64| {
            let known = member.cell(endpoint).latency(now);
            known.map_or(0.0, |time| time.as_secs_f64())
        };
        let first = self.lowest(candidates, time)?;
        let weight = |wanted: usize| {
            let found = candidates.iter().find(|(position, _)| *position == wanted);
            found.map_or(0.0, |(_, weight)| *weight)
        };
        let part = weight(first) / self.members.get(first)?.weight;
        if part >= 1.0 {
            return Some(first);
        }
        let others: Vec<Candidate> = candidates
            .iter()
            .copied()
            .filter(|(position, _)| *position != first)
            .collect();
        let Some(next) = self.lowest(&others, time) else {
            return Some(first);
        };
        let shared = [(first, part), (next, 1.0 - part)];
        self.rotation.lock().pick(&shared)
    }

    /// The candidates with the lowest score share by weight.
    fn lowest(
        &self,
        candidates: &[Candidate],
        score: impl Fn(&Member, f64) -> f64,
    ) -> Option<usize> {
        let scored: Vec<(Candidate, f64)> = candidates
            .iter()
            .filter_map(|&(position, weight)| {
                let member = self.members.get(position)?;
                Some(((position, weight), score(member, weight)))
            })
            .collect();
        let best = scored
            .iter()
            .map(|(_, score)| *score)
            .min_by(f64::total_cmp)?;
        let tied: Vec<Candidate> = scored
            .into_iter()
            .filter(|(_, score)| *score <= best)
            .map(|(candidate, _)| candidate)
            .collect();
        self.rotation.lock().pick(&tied)
    }
}

/// A member, by its position, and what its attempt holds.
pub(crate) struct Chosen {
    pub(crate) position: usize,
    /// On the heap, because it passes through several futures that would each hold it.
    pub(crate) guard: Box<AttemptGuard>,
}

/// Why a chosen member could not be had after all.
enum Denied<'a> {
    Saturated,
    Spent,
    /// With the cell that refuses.
    Refused(Refusal, &'a CellSlot),
}

impl Member {
    /// The lane speaks the caller's protocol, or may be asked in translation.
    fn is_understood(&self, demand: &Demand<'_>) -> bool {
        self.lane
            .provider
            .protocols
            .speaks(demand.dialect.protocol())
            || (demand.translates && self.lane.is_reached_by(demand.dialect))
    }

    /// The pool's cell and the provider's own, the stricter of the two.
    fn selectable(&self, endpoint: &str, now: Instant) -> (Selectable, f64) {
        let (own, factor) = self.cell(endpoint).selectable(now);
        let Some(provider) = self.lane.provider.cell(endpoint) else {
            return (own, factor);
        };
        let (theirs, their_factor) = provider.selectable(now);
        (stricter(own, theirs), factor.min(their_factor))
    }

    /// Counts a request that found the member refused, on each cell that refuses.
    fn count_rejects(&self, endpoint: &str, now: Instant) {
        let refusing = self
            .cells_for(endpoint)
            .filter(|cell| matches!(cell.selectable(now).0, Selectable::No { .. }));
        refusing.for_each(|cell| cell.count_reject());
    }

    /// How long the cells keep the member away yet.
    fn bench_left(&self, endpoint: &str, now: Instant) -> Duration {
        self.cells_for(endpoint)
            .map(|cell| cell.view(now))
            .map(|view| view.cooldown_remaining.max(view.parked_remaining))
            .max()
            .unwrap_or_default()
    }

    /// The fleet waits for a probe that this member's next request is to be.
    fn is_leased(&self, endpoint: &str, now: Instant) -> bool {
        self.cell(endpoint).is_leased(now)
    }

    fn is_half_open(&self, endpoint: &str, now: Instant) -> bool {
        self.cells_for(endpoint)
            .any(|cell| cell.view(now).state == State::HalfOpen)
    }

    /// The pool's cell, and the provider's own where there is one.
    fn cells_for(&self, endpoint: &str) -> impl Iterator<Item = &Arc<CellSlot>> {
        std::iter::once(self.cell(endpoint)).chain(self.lane.provider.cell(endpoint))
    }

    fn large_enough(&self, larger_than: Option<u64>) -> bool {
        match (larger_than, self.context_max) {
            (Some(too_small), Some(context_max)) => context_max > too_small,
            (None, _) | (_, None) => true,
        }
    }

    /// A further guard for a lane that this request has just failed on.
    pub(crate) fn claim_again(&self, endpoint: &str, now: Instant) -> Option<Box<AttemptGuard>> {
        self.claim(endpoint, false, now).ok()
    }

    fn claim(
        &self,
        endpoint: &str,
        in_turn: bool,
        now: Instant,
    ) -> Result<Box<AttemptGuard>, Denied<'_>> {
        let permit = self.permit(in_turn).ok_or(Denied::Saturated)?;
        if !self.lane.state.try_spend() {
            return Err(Denied::Spent);
        }
        // From here on the guard gives back whatever was taken, whichever step fails.
        let cell = self.cell(endpoint);
        let guard = AttemptGuard::new(Arc::clone(&self.lane), Arc::clone(cell), permit);
        let mut guard = Box::new(guard);
        if let Some(provider) = self.lane.provider.cell(endpoint) {
            match provider.admit(now, self.lease()) {
                Admission::Pass(ticket) | Admission::Probe(ticket, _) => {
                    guard.hold_provider(provider, ticket);
                }
                Admission::Refuse(refusal) => return Err(Denied::Refused(refusal, provider)),
            }
        }
        match cell.admit(now, self.lease()) {
            Admission::Pass(ticket) | Admission::Probe(ticket, _) => guard.hold(ticket),
            Admission::Refuse(refusal) => return Err(Denied::Refused(refusal, cell)),
        }
        Ok(guard)
    }

    /// Like [`Member::claim`] for an attempt that goes out although the cells would refuse it; its
    /// result does not move a cell that does.
    fn claim_degraded(&self, endpoint: &str, now: Instant) -> Option<Box<AttemptGuard>> {
        let permit = self.permit(false)?;
        if !self.lane.state.try_spend() {
            return None;
        }
        let cell = self.cell(endpoint);
        let guard = AttemptGuard::new(Arc::clone(&self.lane), Arc::clone(cell), permit);
        let mut guard = Box::new(guard);
        if let Some(provider) = self.lane.provider.cell(endpoint) {
            match provider.admit_degraded(now, self.lease()) {
                Admission::Pass(ticket) | Admission::Probe(ticket, _) => {
                    guard.hold_provider(provider, ticket);
                }
                Admission::Refuse(_) => return None,
            }
        }
        // Only an operator's override still refuses.
        match cell.admit_degraded(now, self.lease()) {
            Admission::Pass(ticket) | Admission::Probe(ticket, _) => guard.hold(ticket),
            Admission::Refuse(_) => return None,
        }
        Some(guard)
    }
}

fn total_weight(candidates: &[Candidate]) -> f64 {
    candidates.iter().map(|(_, weight)| weight).sum()
}
