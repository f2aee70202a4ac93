//! What a caller asked, and what one lane is asked for it.

use super::translation::{self, Translation};
use super::{HELD_MAX_BYTES, Passage};
use crate::lanes::lane::Lane;
use bytes::Bytes;
use http::{HeaderMap, Method};
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::rewrite::{BodyChain, ModelPlaces};
use lanekeeper_protocol::state::LaneMark;

/// What the caller asked, untouched by any attempt.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) dialect: Dialect,
    /// What follows a collection in the path: empty, or with a leading slash.
    pub(crate) tail: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Where the model is named.
    pub(crate) model: ModelPlaces,
    /// The name of it.
    pub(crate) model_name: String,
    /// The lane that keeps what the request names.
    pub(crate) kept_at: Option<LaneMark>,
    /// What lanes of the caller's own protocol get in place of `body` and `model`, where `body` holds
    /// something that translations of earlier turns wrote.
    pub(crate) cleaned: Option<Box<(Bytes, ModelPlaces)>>,
    /// The caller wants an event stream.
    pub(crate) streams: bool,
    /// The caller's query.
    pub(crate) query: Option<String>,
}

impl Asked {
    /// Asking another lane cannot do the same thing twice.
    pub(crate) fn may_be_repeated(&self) -> bool {
        !self.dialect.is_collection() || matches!(self.method, Method::GET | Method::DELETE)
    }

    /// The answer is an event stream that comments may keep open.
    pub(crate) fn keeps_open(&self) -> bool {
        self.wants_events() && !self.dialect.streams_array(self.query.as_deref())
    }

    /// The answer must be an event stream. Operations that have none pay no heed to the flag.
    pub(super) fn wants_events(&self) -> bool {
        self.streams && self.dialect.can_stream()
    }
}

/// What one lane is asked.
#[derive(Clone, Copy)]
pub(crate) struct Outbound<'a> {
    pub(crate) asked: &'a Asked,
    /// What ids in the answer are marked with, to say which lane gave them out.
    pub(crate) mark: Option<LaneMark>,
    /// The request in the lane's own protocol, where that is another than the caller's.
    pub(crate) translation: Option<&'a Translation>,
    /// The caller's own credential goes along.
    pub(crate) passthrough: bool,
}

impl<'a> Outbound<'a> {
    /// What the caller asked, in its own dialect, with the gateway's credential.
    pub(crate) fn native(asked: &'a Asked) -> Self {
        Self {
            asked,
            mark: None,
            translation: None,
            passthrough: false,
        }
    }

    /// What the lane is asked in.
    pub(crate) fn dialect(&self) -> Dialect {
        { self.translation }.map_or(self.asked.dialect, |translation| translation.dialect)
    }

    /// The lane's answer must be an event stream.
    pub(super) fn wants_events(&self) -> bool {
        match self.translation {
            Some(translation) => translation.streams,
            None => self.asked.wants_events(),
        }
    }

    /// Frames of the lane's answer on their way to the caller.
    pub(super) fn passage(&self) -> Box<Passage> {
        let stream = self.translation.and_then(Translation::stream);
        Box::new(match (stream, self.mark) {
            (Some(stream), _) => Passage::translating(stream),
            (None, Some(mark)) => Passage::marking(mark, self.kept_ids()),
            (None, None) => Passage::plain(),
        })
    }

    /// How the ids begin that are marked.
    pub(super) fn kept_ids(&self) -> &'static [&'static str] {
        self.asked.dialect.vendor().kept_ids()
    }

    /// Most bytes of a whole answer that are held.
    pub(super) fn held_max(&self) -> usize {
        // A list may name ids anywhere, an answer of a model does so at its beginning.
        let lists_ids = self.mark.is_some() && self.dialect().is_judged_by_status();
        if self.translation.is_some() || lists_ids {
            translation::ANSWER_MAX_BYTES
        } else {
            HELD_MAX_BYTES
        }
    }

    pub(super) fn body(&self, lane: &Lane) -> BodyChain {
        match self.translation {
            Some(translation) => BodyChain::whole(translation.body.clone()),
            None => {
                let (body, model) = match self.asked.cleaned.as_deref() {
                    Some((body, model)) => (body, model),
                    None => (&self.asked.body, &self.asked.model),
                };
                BodyChain::with_model_at(body, model, &lane.upstream_model)
            }
        }
    }
}
