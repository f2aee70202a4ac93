//! Results find their calls: Gemini's parts may have no ids.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::translation::ids;

/// The calls of a conversation that wait for their results.
#[derive(Debug, Default)]
pub(super) struct Calls<'a> {
    waiting: VecDeque<Waiting<'a>>,
}

#[derive(Debug)]
struct Waiting<'a> {
    name: Cow<'a, str>,
    id: Cow<'a, str>,
}

impl<'a> Calls<'a> {
    /// A call at its place. Gives the id that it has from now on, which is the same on every agent.
    pub(super) fn made(
        &mut self,
        id: Option<Cow<'a, str>>,
        name: &Cow<'a, str>,
        arguments: &str,
        (content, part): (usize, usize),
    ) -> Cow<'a, str> {
        let id = { id.filter(|id| !id.is_empty()) }
            .unwrap_or_else(|| Cow::Owned(ids::made_id(content, part, name, arguments)));
        self.waiting.push_back(Waiting {
            name: name.clone(),
            id: id.clone(),
        });
        id
    }

    /// The model's turn comes again: nothing answers the calls before it any more.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// The id of the call that a result answers: the one that it names, else the first of its
    /// function's that waits.
    pub(super) fn answered(&mut self, id: Option<&str>, name: &str) -> Option<Cow<'a, str>> {
        let named = id.and_then(|id| self.waiting.iter().position(|call| call.id == id));
        let at = named.or_else(|| self.waiting.iter().position(|call| call.name == name))?;
        self.waiting.remove(at).map(|call| call.id)
    }
}
