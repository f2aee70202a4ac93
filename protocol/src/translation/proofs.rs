//! Proofs of thoughts on their way through dialects that have no place for them: the next tool call
//! carries them in its id, and on the way back they return to the thought.

use crate::ir::{Event, Part, PartBody, PartStart, Proof, Reasoning, Request};

/// Moves the proofs of an answer's thoughts onto the calls that follow them. One that no call follows
/// is not needed again.
pub(super) fn onto_calls(parts: &mut [Part<'_>]) {
    let mut waiting = None;
    for part in parts {
        match &mut part.body {
            PartBody::Reasoning(reasoning) => waiting = reasoning.proof.take().or(waiting),
            PartBody::ToolCall(call) if call.proof.is_none() => call.proof = waiting.take(),
            _ => {}
        }
    }
}

/// As [`onto_calls`], event by event.
#[derive(Debug, Default)]
pub(super) struct Riding {
    waiting: Option<Proof<'static>>,
}

impl Riding {
    /// The event as it goes on; `None` for one that waits.
    pub(super) fn pass<'a>(&mut self, event: Event<'a>) -> Option<Event<'a>> {
        match event {
            Event::Proof { proof, .. } => {
                self.waiting = Some(proof.into_owned());
                None
            }
            Event::PartStart {
                part,
                start: PartStart::ToolCall { id, name, proof },
            } => {
                let proof = proof.or_else(|| self.waiting.take());
                let start = PartStart::ToolCall { id, name, proof };
                Some(Event::PartStart { part, start })
            }
            event => Some(event),
        }
    }
}

/// Gives the proofs that came with calls back to the thoughts before them.
pub(super) fn off_calls(request: &mut Request<'_>) {
    for message in &mut request.messages {
        let mut at = 0;
        while let Some(part) = message.parts.get_mut(at) {
            let place = part.at;
            if let PartBody::ToolCall(call) = &mut part.body
                && let Some(proof) = call.proof.take()
            {
                let before = at.checked_sub(1).and_then(|at| message.parts.get_mut(at));
                match before.map(|part| &mut part.body) {
                    Some(PartBody::Reasoning(reasoning)) => {
                        reasoning.proof.get_or_insert(proof);
                    }
                    _ => {
                        let body = PartBody::Reasoning(Reasoning {
                            proof: Some(proof),
                            ..Reasoning::default()
                        });
                        message.parts.insert(at, Part::new(body, place));
                        at += 1;
                    }
                }
            }
            at += 1;
        }
    }
}
