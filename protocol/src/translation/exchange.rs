//! One request on its way to a lane of another protocol, and the way back of its answer.

use std::borrow::Cow;

use super::names::Names;
use super::{CallerFacts, LaneFacts, Losses, Refusal, StreamTranslation, Translator};
use super::{fit, ids, proofs, tool_history};
use crate::ir::{Finish, Part, PartBody, Request, Tool};

/// A request as the lane takes it.
#[derive(Debug)]
pub struct Translated {
    /// The lane's document.
    pub body: Vec<u8>,
    /// An event stream is wanted.
    pub streams: bool,
    /// What was left out or changed.
    pub losses: Losses,
    /// What brings the answer back.
    pub exchange: Exchange,
}

/// What brings an answer back to its caller.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub(super) caller: &'static dyn Translator,
    pub(super) lane: &'static dyn Translator,
    pub(super) facts: CallerFacts,
    pub(super) names: Names,
    /// The tool that the writer of the request made up: a call of it is the answer's text.
    pub(super) answer_tool: Option<String>,
    /// The answer is a count of tokens.
    pub(super) counts: bool,
}

/// Translates a chat request. `streams` is true when the path asks for a stream; `facts` are completed
/// by what the request says.
///
/// # Errors
///
/// The lane's protocol cannot say what is asked for, or the request breaks a rule of its own.
pub fn request(
    caller: &'static dyn Translator,
    lane: &'static dyn Translator,
    body: &[u8],
    streams: bool,
    mut facts: CallerFacts,
    lane_facts: &LaneFacts<'_>,
) -> Result<Translated, Refusal> {
    let mut losses = Losses::default();
    let mut request = caller.read_request(body, streams)?;
    facts.stream_usage = request.stream_usage;
    facts.custom_tools = { request.tools.iter() }
        .filter_map(|tool| match tool {
            Tool::Custom(custom) => Some(custom.name.clone().into_owned()),
            _ => None,
        })
        .collect();
    let names = prepare(&mut request, caller, lane, lane_facts, &mut losses)?;
    let written = lane.write_request(&request, lane_facts, &mut losses)?;
    Ok(Translated {
        streams: request.streams,
        losses,
        body: written.body,
        exchange: Exchange {
            caller,
            lane,
            facts,
            names,
            answer_tool: written.answer_tool,
            counts: false,
        },
    })
}

/// Translates a request that asks how many tokens a chat request has. Only a lane's own measure
/// counts: nothing is ever estimated.
///
/// # Errors
///
/// As [`request`]; and the lane's protocol cannot count.
pub fn count_tokens(
    caller: &'static dyn Translator,
    lane: &'static dyn Translator,
    body: &[u8],
    lane_facts: &LaneFacts<'_>,
) -> Result<Translated, Refusal> {
    let mut losses = Losses::default();
    let mut request = caller.read_count(body)?;
    let names = prepare(&mut request, caller, lane, lane_facts, &mut losses)?;
    Ok(Translated {
        body: lane.write_count(&request, lane_facts, &mut losses)?,
        streams: false,
        losses,
        exchange: Exchange {
            caller,
            lane,
            facts: CallerFacts::default(),
            names,
            answer_tool: None,
            counts: true,
        },
    })
}

/// Makes a caller's request one that the lane's protocol can say.
fn prepare(
    request: &mut Request<'_>,
    caller: &'static dyn Translator,
    lane: &'static dyn Translator,
    lane_facts: &LaneFacts<'_>,
    losses: &mut Losses,
) -> Result<Names, Refusal> {
    tool_history::name_results(request, caller)?;
    fit::fit(request, caller, lane, lane_facts, losses)?;
    ids::to_lane(request, lane.id_rule(), lane.protocol());
    if !lane.has_proofs_on_calls() {
        proofs::off_calls(request);
    }
    Ok(Names::to_lane(request, lane.name_rule()))
}

impl Exchange {
    /// A lane's whole answer for its caller. `None` when it is none.
    #[must_use]
    pub fn answer(&self, body: &[u8]) -> Option<Vec<u8>> {
        if self.counts {
            let tokens = self.lane.read_counted(body)?;
            return Some(self.caller.write_counted(tokens));
        }
        let mut answer = self.lane.read_answer(body)?;
        if answer.id.is_empty() {
            answer.id = Cow::Borrowed(&self.facts.unique);
        }
        self.take_form(&mut answer.parts, &mut answer.finish);
        if !self.caller.keeps_proofs() {
            proofs::onto_calls(&mut answer.parts);
        }
        let calls = { answer.parts.iter_mut() }.filter_map(|part| match &mut part.body {
            PartBody::ToolCall(call) => Some(call),
            _ => None,
        });
        for (number, call) in calls.enumerate() {
            let rule = self.caller.id_rule();
            ids::to_caller(call, rule, &self.facts.unique, number);
            call.name = self.names.to_caller(std::mem::take(&mut call.name));
        }
        Some(self.caller.write_answer(&answer, &self.facts))
    }

    /// A translation of the lane's stream for its caller, at its start.
    #[must_use]
    pub fn stream(&self) -> StreamTranslation {
        StreamTranslation::new(self.clone())
    }

    /// Puts the call of a made-up tool in its place as the answer's text.
    fn take_form(&self, parts: &mut Vec<Part<'_>>, finish: &mut Finish<'_>) {
        let Some(tool) = &self.answer_tool else {
            return;
        };
        let is_form =
            |part: &Part<'_>| matches!(&part.body, PartBody::ToolCall(call) if call.name == *tool);
        if !parts.iter().any(is_form) {
            return;
        }
        // What the model says beside its answer would make it unreadable.
        parts.retain(|part| !matches!(part.body, PartBody::Text(_)));
        for part in parts.iter_mut() {
            let text = match &mut part.body {
                PartBody::ToolCall(call) if call.name == *tool => {
                    std::mem::take(&mut call.arguments.0)
                }
                _ => continue,
            };
            part.body = PartBody::Text(text);
        }
        let calls = |part: &Part<'_>| matches!(part.body, PartBody::ToolCall(_));
        if *finish == Finish::ToolCalls && !parts.iter().any(calls) {
            *finish = Finish::Stop;
        }
    }
}
