//! How much the model thinks, within what the API allows: thoughts go with neither a forced tool nor
//! a prefill nor a history of calls that nobody thought about, and a budget must leave room.

use lanekeeper_model::gateway::ReasoningForm;
use serde::Serialize;

use crate::dialect::Protocol;
use crate::ir::{Effort, Message, Part, PartBody, Proof, ReasoningBudget, Request, Role};
use crate::translation::{Feature, Losses};

/// The smallest budget that the API takes.
const BUDGET_MIN_TOKENS: u64 = 1_024;

/// The field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Thinking {
    /// Within a budget.
    Enabled { budget_tokens: u64 },
    /// As much as the model sees fit, within an effort.
    Adaptive {
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<&'static str>,
    },
    /// Not at all.
    Disabled,
}

/// What the request asks for, as far as it can be had, and the effort of a model that takes one.
/// `None` when it asks for nothing.
pub(super) fn thinking(
    request: &Request<'_>,
    max_tokens: u64,
    form: ReasoningForm,
    is_forced: bool,
    losses: &mut Losses,
) -> Option<(Thinking, Option<&'static str>)> {
    let budget = request.reasoning.budget?;
    let wanted = match budget {
        ReasoningBudget::Off => return Some((Thinking::Disabled, None)),
        // Newer models think as they see fit unless something is said, and older ones know no word
        // for it.
        ReasoningBudget::Dynamic if form == ReasoningForm::Budget => return None,
        ReasoningBudget::Dynamic => 0,
        ReasoningBudget::Effort(effort) => tokens(effort),
        ReasoningBudget::Tokens(tokens) => tokens,
    };
    if is_forced || ends_with_prefill(request) || has_thoughtless_calls(&request.messages) {
        losses.name(Feature::ReasoningBudget.name());
        return Some((Thinking::Disabled, None));
    }
    if form == ReasoningForm::Effort {
        let shows = request.reasoning.shows_thoughts == Some(true);
        let display = shows.then_some("summarized");
        return Some((Thinking::Adaptive { display }, effort(budget)));
    }
    let Some(budget_tokens) = fitted(wanted, max_tokens) else {
        losses.name(Feature::ReasoningBudget.name());
        return Some((Thinking::Disabled, None));
    };
    if matches!(budget, ReasoningBudget::Tokens(_)) && budget_tokens != wanted {
        losses.name(Feature::ReasoningBudget.name());
    }
    Some((Thinking::Enabled { budget_tokens }, None))
}

/// The effort for a budget, as the API spells it.
fn effort(budget: ReasoningBudget) -> Option<&'static str> {
    Some(match budget.as_effort()? {
        Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::XHigh => "xhigh",
    })
}

/// The budget for an effort: about what the vendors that translate efforts themselves take.
const fn tokens(effort: Effort) -> u64 {
    match effort {
        Effort::Minimal => BUDGET_MIN_TOKENS,
        Effort::Low => 2_048,
        Effort::Medium => 8_192,
        Effort::High => 16_384,
        Effort::XHigh => 32_768,
    }
}

/// The budget, at most three quarters of the limit so that an answer has room behind the thoughts.
fn fitted(wanted: u64, max_tokens: u64) -> Option<u64> {
    let most = (max_tokens / 4).saturating_mul(3).max(BUDGET_MIN_TOKENS);
    let budget = wanted.clamp(BUDGET_MIN_TOKENS, most);
    (budget < max_tokens).then_some(budget)
}

fn ends_with_prefill(request: &Request<'_>) -> bool {
    { request.messages.last() }.is_some_and(|last| last.role == Role::Assistant)
}

/// True when the tool loop that is running has a turn whose calls do not come behind thoughts of
/// Anthropic's own: the API refuses to go on with it while thinking.
fn has_thoughtless_calls(mut rest: &[Message<'_>]) -> bool {
    let is_assistant = |message: &Message<'_>| message.role == Role::Assistant;
    loop {
        let end = { rest.iter().rposition(is_assistant) }.map_or(0, |last| last + 1);
        let (before, results) = rest.split_at(end);
        if !results.iter().any(|message| message.role == Role::Tool) {
            return false;
        }
        let others = before.iter().rposition(|message| !is_assistant(message));
        let (earlier, turn) = before.split_at(others.map_or(0, |last| last + 1));
        if is_thoughtless(turn) {
            return true;
        }
        rest = earlier;
    }
}

fn is_thoughtless(turn: &[Message<'_>]) -> bool {
    let mut parts = turn.iter().flat_map(|message| &message.parts);
    let first = parts.clone().next();
    if first.is_some_and(|part| is_own_thought(&part.body)) {
        return false;
    }
    let is_call = |part: &Part<'_>| matches!(part.body, PartBody::ToolCall(_));
    let carries_thought = |part: &Part<'_>| match &part.body {
        PartBody::ToolCall(call) => call.proof.as_ref().is_some_and(is_own),
        _ => false,
    };
    parts.clone().any(is_call) && !parts.any(carries_thought)
}

fn is_own_thought(body: &PartBody<'_>) -> bool {
    matches!(body, PartBody::Reasoning(reasoning)
        if reasoning.proof.as_ref().is_some_and(is_own))
}

fn is_own(proof: &Proof<'_>) -> bool {
    proof.protocol == Protocol::Anthropic
}
