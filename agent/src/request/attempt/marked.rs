//! Answers that name what an account keeps: their ids say which lane gave them out.

use super::{Answer, AnswerBody, Attempted, join};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use lanekeeper_protocol::headers;
use lanekeeper_protocol::state::{self, LaneMark};

/// A document with the ids in it marked. The frames of streams were, one by one.
pub(super) fn answer(attempted: Attempted, mark: LaneMark, prefixes: &[&str]) -> Attempted {
    let with_marks = |mut answer: Answer| {
        if headers::is_event_stream(&answer.head.headers) {
            return answer;
        }
        answer.head.headers.remove(CONTENT_LENGTH);
        match &mut answer.body {
            AnswerBody::Whole(bytes) => *bytes = state::with_marks(bytes, mark, prefixes),
            AnswerBody::Running(running) => {
                let held = std::mem::take(&mut running.held);
                let len = held.iter().map(Bytes::len).sum();
                let beginning = join(held, len);
                running
                    .held
                    .push_back(state::with_marks(&beginning, mark, prefixes));
            }
        }
        answer
    };
    match attempted {
        Attempted::Content(answer) => Attempted::Content(with_marks(answer)),
        Attempted::Empty(answer) => Attempted::Empty(with_marks(answer)),
        Attempted::Failed(verdict, answer) => Attempted::Failed(verdict, answer),
    }
}
