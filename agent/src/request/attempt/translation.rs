//! What a lane of another protocol than the caller's is asked, and how its answers come back.

use super::{Answer, AnswerBody, Asked, Attempted};
use crate::clock;
use crate::lanes::lane::Lane;
use crate::request::reply::RequestId;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::response;
use lanekeeper_breaker::CauseKind;
use lanekeeper_protocol::coding::Codings;
use lanekeeper_protocol::translation::embeddings::{self, EmbeddingExchange, TranslatedEmbeddings};
use lanekeeper_protocol::translation::{
    self, CallerFacts, Exchange, LaneFacts, Losses, Refusal, StreamTranslation, Translated,
};
use lanekeeper_protocol::verdict::{Disposition, Verdict};
use lanekeeper_protocol::{Dialect, Operation, Vendor, error_body, relayed_error, vendor};

/// Longest whole answer that is translated: as much as the largest vendors let a model write, with
/// pictures.
pub(super) const ANSWER_MAX_BYTES: usize = 16 * 1024 * 1024;

/// One request in a lane's protocol.
pub(crate) struct Translation {
    /// What the lane is asked.
    pub(crate) dialect: Dialect,
    pub(crate) body: Bytes,
    /// An event stream is wanted.
    pub(crate) streams: bool,
    /// What was left out or changed, as a header of the answer.
    pub(crate) dropped: Option<HeaderValue>,
    way: Way,
    /// What the caller wrote.
    asked: Bytes,
    caller: Dialect,
    request_id: RequestId,
}

/// What brings an answer back.
enum Way {
    Chat(Exchange),
    Embeddings(EmbeddingExchange),
}

impl Way {
    fn answer(&self, body: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Chat(exchange) => exchange.answer(body),
            Self::Embeddings(exchange) => exchange.answer(body),
        }
    }
}

impl Translation {
    /// The request for `lane`; `None` where the lane speaks the caller's own protocol.
    ///
    /// # Errors
    ///
    /// The lane's protocol cannot say what is asked for.
    pub(crate) fn of(
        asked: &Asked,
        lane: &Lane,
        request_id: &RequestId,
    ) -> Result<Option<Box<Self>>, Refusal> {
        let protocols = &lane.provider.protocols;
        if protocols.speaks(asked.dialect.protocol()) {
            return Ok(None);
        }
        let spoken = vendor(protocols.primary());
        let is_chat = matches!(
            asked.dialect.operation(),
            Operation::Chat | Operation::ChatStream
        );
        let translation = if is_chat || asked.dialect.counts_tokens() {
            Self::of_chat(asked, lane, spoken, request_id)?
        } else {
            Self::of_embeddings(asked, lane, spoken, request_id)?
        };
        Ok(Some(Box::new(translation)))
    }

    fn of_chat(
        asked: &Asked,
        lane: &Lane,
        spoken: &'static dyn Vendor,
        request_id: &RequestId,
    ) -> Result<Self, Refusal> {
        let from = asked.dialect.vendor().translator();
        let (Some(from), Some(to)) = (from, spoken.translator()) else {
            return Err(Refusal::untranslatable("model"));
        };
        let facts = CallerFacts {
            model: asked.model_name.clone(),
            created: clock::unix_now().as_secs(),
            unique: unique(),
            ..CallerFacts::default()
        };
        let lane_facts = LaneFacts {
            model: &lane.upstream_model,
            accepts: lane.accepts,
            max_output_tokens: lane.max_output_tokens,
        };
        let Translated {
            body,
            streams,
            losses,
            exchange,
        } = if asked.dialect.counts_tokens() {
            translation::count_tokens(from, to, &asked.body, &lane_facts)
        } else {
            translation::request(from, to, &asked.body, asked.streams, facts, &lane_facts)
        }?;
        let operation = if asked.dialect.counts_tokens() {
            spoken.count_operation()
        } else if streams && spoken.has_model_in_path() {
            Operation::ChatStream
        } else {
            Operation::Chat
        };
        Ok(Self {
            dialect: Dialect::new(spoken, operation),
            body: body.into(),
            streams,
            dropped: header(&losses),
            way: Way::Chat(exchange),
            asked: asked.body.clone(),
            caller: asked.dialect,
            request_id: request_id.clone(),
        })
    }

    fn of_embeddings(
        asked: &Asked,
        lane: &Lane,
        spoken: &'static dyn Vendor,
        request_id: &RequestId,
    ) -> Result<Self, Refusal> {
        let from = asked.dialect.vendor().embedder();
        let (Some(from), Some(to)) = (from, spoken.embedder()) else {
            return Err(Refusal::untranslatable("model"));
        };
        let TranslatedEmbeddings {
            body,
            losses,
            exchange,
        } = embeddings::embeddings(
            from,
            to,
            &asked.body,
            asked.model_name.clone(),
            unique(),
            &lane.upstream_model,
        )?;
        // The form for several texts, where there are two.
        let batch = Operation::EmbeddingsBatch;
        let operation = if spoken.operations().contains(&batch) {
            batch
        } else {
            Operation::Embeddings
        };
        Ok(Self {
            dialect: Dialect::new(spoken, operation),
            body: body.into(),
            streams: false,
            dropped: header(&losses),
            way: Way::Embeddings(exchange),
            asked: asked.body.clone(),
            caller: asked.dialect,
            request_id: request_id.clone(),
        })
    }

    /// The caller's stream, at its start.
    pub(super) fn stream(&self) -> Option<StreamTranslation> {
        match &self.way {
            Way::Chat(exchange) => Some(exchange.stream()),
            Way::Embeddings(_) => None,
        }
    }

    /// What a lane's answer is to the caller. Streams were translated frame by frame.
    pub(super) fn back(&self, attempted: Attempted) -> Attempted {
        match attempted {
            Attempted::Content(answer) => self.whole(answer, Attempted::Content),
            Attempted::Empty(answer) => self.whole(answer, Attempted::Empty),
            Attempted::Failed(mut verdict, answer) => {
                let is_ours = |answer: &Answer| self.is_about_our_own(&verdict, answer);
                if answer.as_ref().is_some_and(is_ours) {
                    verdict.disposition = Disposition::Misunderstood;
                }
                Attempted::Failed(verdict, answer.map(|answer| self.error(answer)))
            }
        }
    }

    fn whole(&self, answer: Answer, became: fn(Answer) -> Attempted) -> Attempted {
        let Answer { head, body } = answer;
        if self.streams {
            return became(Answer { head, body });
        }
        let AnswerBody::Whole(bytes) = body else {
            tracing::debug!("an answer is longer than is translated");
            return Attempted::Failed(Verdict::transient(CauseKind::BadBody), None);
        };
        let translated = plain(&head, bytes).and_then(|plain| self.way.answer(&plain));
        match translated {
            Some(translated) => became(Answer {
                head: json(head),
                body: AnswerBody::Whole(translated.into()),
            }),
            None => Attempted::Failed(Verdict::transient(CauseKind::BadBody), None),
        }
    }

    /// True when the lane refuses a field that the caller did not write: a default of the
    /// translation's, or a name it was given. That is nobody's fault but the agent's.
    fn is_about_our_own(&self, verdict: &Verdict, answer: &Answer) -> bool {
        let is_refusal = verdict.disposition == Disposition::ClientFault
            && matches!(answer.head.status.as_u16(), 400 | 422);
        let AnswerBody::Whole(text) = &answer.body else {
            return false;
        };
        let field = relayed_error::refused_field(self.dialect.vendor(), text);
        let Some(field) = field.filter(|_| is_refusal) else {
            return false;
        };
        let is_ours = memchr::memmem::find(&self.asked, field.as_bytes()).is_none();
        if is_ours {
            let spoken = self.dialect.protocol().as_str();
            tracing::warn!(
                field,
                protocol = spoken,
                "a lane refuses a field that its caller did not write"
            );
        }
        is_ours
    }

    /// A lane's error in the caller's words.
    fn error(&self, answer: Answer) -> Answer {
        let Answer { mut head, body } = answer;
        let text = match body {
            AnswerBody::Whole(bytes) => bytes,
            AnswerBody::Running(_) => Bytes::new(),
        };
        let lane = self.dialect.vendor();
        let kind = relayed_error::of_body(lane, self.caller, head.status, &head.headers, &text);
        let id = self.request_id.as_str();
        let (status, headers, body) = error_body::render(self.caller, &kind, id);
        head.status = status;
        head = json(head);
        head.headers.extend(headers);
        Answer {
            head,
            body: AnswerBody::Whole(body),
        }
    }
}

fn header(losses: &Losses) -> Option<HeaderValue> {
    (!losses.is_empty()).then(|| HeaderValue::try_from(losses.header()).ok())?
}

/// The document without its content coding; `None` when it cannot be read.
fn plain(head: &response::Parts, bytes: Bytes) -> Option<Bytes> {
    let codings = Codings::of(&head.headers).ok()?;
    if codings.is_empty() {
        return Some(bytes);
    }
    let plain = codings.decode(&bytes, ANSWER_MAX_BYTES, |_| true).ok()?;
    Some(plain.into())
}

/// The head of a document that the agent wrote.
fn json(mut head: response::Parts) -> response::Parts {
    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove(CONTENT_ENCODING);
    let json = HeaderValue::from_static("application/json");
    head.headers.insert(CONTENT_TYPE, json);
    head
}

/// An id that no other answer has.
fn unique() -> String {
    let id = uuid::Builder::from_u128(rand::random()).into_uuid();
    id.simple().to_string()
}
