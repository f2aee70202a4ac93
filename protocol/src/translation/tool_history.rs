//! Results find their calls.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Refusal, Translator};
use crate::ir::{PartBody, Request};

/// Gives each result the name of the tool that was called.
///
/// # Errors
///
/// A result names a call that the history does not have: what it means is unknown.
pub(super) fn name_results(
    request: &mut Request<'_>,
    caller: &dyn Translator,
) -> Result<(), Refusal> {
    let mut names: HashMap<String, String> = HashMap::new();
    for part in request.messages.iter_mut().flat_map(|it| &mut it.parts) {
        match &mut part.body {
            PartBody::ToolCall(call) => {
                let name = call.name.clone().into_owned();
                names.insert(call.id.clone().into_owned(), name);
            }
            PartBody::ToolResult(result) => match names.get(result.call_id.as_ref()) {
                Some(name) => result.name = Cow::Owned(name.clone()),
                None => {
                    let reason = format!(
                        "is a result of the call \"{}\", which no earlier message makes",
                        result.call_id.escape_debug()
                    );
                    return Err(Refusal::new(caller.place(part.at), reason));
                }
            },
            _ => {}
        }
    }
    Ok(())
}
