//! Whole Responses answers, written for a caller: as a document, and within the events of a stream.

use serde::Serialize;

use super::item::{Counts, Item, RESPONSE_PREFIX, Said, Status, encrypted};
use crate::ir::{Answer, Finish, Part, PartBody, Usage};
use crate::translation::{CallerFacts, custom, writing};
use crate::vendor::openai::translation::wording::prefixed;

/// An answer. What it repeats of a request has the value that says nothing.
#[derive(Serialize)]
pub(super) struct Response<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    status: Status,
    background: bool,
    error: Option<()>,
    incomplete_details: Option<Incomplete>,
    instructions: Option<()>,
    max_output_tokens: Option<()>,
    model: &'a str,
    output: Vec<Item<'a>>,
    parallel_tool_calls: bool,
    previous_response_id: Option<()>,
    reasoning: NoReasoning,
    store: bool,
    temperature: Option<()>,
    text: Text,
    tool_choice: &'static str,
    tools: [(); 0],
    top_p: Option<()>,
    truncation: &'static str,
    usage: Option<Counts>,
    user: Option<()>,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Incomplete {
    reason: &'static str,
}

#[derive(Serialize)]
struct NoReasoning {
    effort: Option<()>,
    summary: Option<()>,
}

#[derive(Serialize)]
struct Text {
    format: Format,
}

#[derive(Serialize)]
struct Format {
    r#type: &'static str,
}

#[derive(Serialize)]
struct Metadata {}

/// What stays the same from the first event of an answer to the last.
#[derive(Clone, Debug, Default)]
pub(super) struct Identity {
    id: String,
    model: String,
    created: u64,
}

impl Identity {
    pub(super) fn new(id: &str, answered: &str, caller: &CallerFacts) -> Self {
        let model = if answered.is_empty() {
            &caller.model
        } else {
            answered
        };
        Self {
            id: prefixed(RESPONSE_PREFIX, id),
            model: model.to_owned(),
            created: caller.created,
        }
    }

    /// The answer as it is so far; `end` says how it ended.
    pub(super) fn response<'a>(
        &'a self,
        output: Vec<Item<'a>>,
        end: Option<&End>,
        usage: Option<Usage>,
    ) -> Response<'a> {
        Response {
            id: &self.id,
            object: "response",
            created_at: self.created,
            status: end.map_or(Status::InProgress, |end| end.status()),
            background: false,
            error: None,
            incomplete_details: { end.and_then(|end| end.0) }.map(|reason| Incomplete { reason }),
            instructions: None,
            max_output_tokens: None,
            model: &self.model,
            output,
            parallel_tool_calls: true,
            previous_response_id: None,
            reasoning: NoReasoning {
                effort: None,
                summary: None,
            },
            store: false,
            temperature: None,
            text: Text {
                format: Format { r#type: "text" },
            },
            tool_choice: "auto",
            tools: [],
            top_p: None,
            truncation: "disabled",
            usage: usage.map(Counts::from),
            user: None,
            metadata: Metadata {},
        }
    }
}

/// How an answer ended: why it is incomplete, if it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct End(Option<&'static str>);

impl End {
    /// A refusal in words is an ordinary end; one without is a filter's.
    pub(super) const fn of(finish: &Finish<'_>, has_refusal: bool) -> Self {
        Self(match finish {
            Finish::Length => Some("max_output_tokens"),
            Finish::Refusal if has_refusal => None,
            Finish::Filter | Finish::Refusal => Some("content_filter"),
            Finish::Stop | Finish::StopSequence(_) | Finish::ToolCalls | Finish::Other(_) => None,
        })
    }

    pub(super) const fn status(self) -> Status {
        match self.0 {
            None => Status::Completed,
            Some(_) => Status::Incomplete,
        }
    }
}

pub(super) fn write(answer: &Answer<'_>, caller: &CallerFacts) -> Vec<u8> {
    let said: Vec<_> = { answer.parts.iter() }
        .filter_map(|part| said(part, caller))
        .collect();
    let ids: Vec<_> = { said.iter().enumerate() }
        .map(|(index, said)| said.id(&caller.unique, index))
        .collect();
    let has_refusal = said.iter().any(|said| matches!(said, Said::Refusal(_)));
    let end = End::of(&answer.finish, has_refusal);
    let output = { said.iter().zip(&ids) }
        .map(|(said, id)| said.item(id, Status::Completed))
        .collect();
    let identity = Identity::new(&answer.id, &answer.model, caller);
    // A whole answer always counts.
    let usage = answer.usage.unwrap_or_default();
    writing::document(&identity.response(output, Some(&end), Some(usage)))
}

fn said(part: &Part<'_>, caller: &CallerFacts) -> Option<Said> {
    Some(match &part.body {
        PartBody::Text(text) => Said::Text(text.clone().into_owned()),
        PartBody::Refusal(text) => Said::Refusal(text.clone().into_owned()),
        PartBody::Reasoning(reasoning) => Said::Reasoning {
            text: reasoning.text.clone().into_owned(),
            proof: reasoning.proof.as_ref().map(encrypted),
        },
        PartBody::ToolCall(call) => {
            let (call_id, name) = (call.id.clone().into_owned(), call.name.clone().into_owned());
            let arguments = call.arguments.as_text();
            if caller.custom_tools.contains(&name) {
                let input = custom::input(arguments).into_owned();
                Said::Custom {
                    call_id,
                    name,
                    input,
                }
            } else {
                let arguments = arguments.to_owned();
                Said::Function {
                    call_id,
                    name,
                    arguments,
                }
            }
        }
        _ => return None,
    })
}
