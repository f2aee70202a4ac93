//! The frames of a stream on their way to the caller: as they came, translated, or with ids marked.

use bytes::Bytes;
use lanekeeper_protocol::sse::{Frame, FrameTooLong, SseReader};
use lanekeeper_protocol::state::{self, LaneMark};
use lanekeeper_protocol::translation::{StreamError, StreamTranslation};
use std::collections::VecDeque;

/// Frames on their way to the caller.
pub(crate) struct Passage {
    reader: SseReader,
    change: Option<Box<Change>>,
}

/// What becomes of the frames, and what came of them that was not handed out yet.
struct Change {
    kind: Kind,
    made: Vec<u8>,
}

enum Kind {
    Translated(Box<StreamTranslation>),
    Marked(LaneMark, &'static [&'static str]),
}

impl Passage {
    /// Frames pass as they come.
    pub(super) fn plain() -> Self {
        Self {
            reader: SseReader::new(),
            change: None,
        }
    }

    /// The caller gets frames of its own dialect.
    pub(super) fn translating(stream: StreamTranslation) -> Self {
        Self::changing(Kind::Translated(Box::new(stream)))
    }

    /// Ids that begin with one of `prefixes` say which lane gave them out.
    pub(super) fn marking(mark: LaneMark, prefixes: &'static [&'static str]) -> Self {
        Self::changing(Kind::Marked(mark, prefixes))
    }

    fn changing(kind: Kind) -> Self {
        let made = Vec::new();
        Self {
            reader: SseReader::new(),
            change: Some(Box::new(Change { kind, made })),
        }
    }

    /// True when the caller gets another dialect than the lane speaks.
    pub(crate) fn translates(&self) -> bool {
        matches!(&self.change, Some(change) if matches!(change.kind, Kind::Translated(_)))
    }

    /// Takes the next chunk of the lane.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.reader.push(chunk);
    }

    /// The next whole frame.
    ///
    /// # Errors
    ///
    /// It is too long.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, FrameTooLong> {
        self.reader.next_frame()
    }

    /// A last frame without its blank line.
    pub(crate) fn last_frame(&mut self) -> Option<Frame> {
        self.reader.finish()
    }

    /// Lets `frame`, the newest one, pass.
    ///
    /// # Errors
    ///
    /// It cannot be translated.
    pub(crate) fn keep(&mut self, frame: &Frame) -> Result<(), StreamError> {
        match &mut self.change {
            None => {
                self.reader.keep();
                Ok(())
            }
            Some(change) => change.take(frame),
        }
    }

    /// Lets `frame`, an error of the lane's, pass in its own dialect.
    pub(crate) fn keep_error(&mut self, frame: &Frame) {
        match &mut self.change {
            None => self.reader.keep(),
            Some(change) => change.made.extend_from_slice(&frame.raw),
        }
    }

    /// The lane's stream has ended regularly.
    ///
    /// # Errors
    ///
    /// What is left cannot be written.
    pub(crate) fn end(&mut self) -> Result<(), StreamError> {
        match self.change.as_deref_mut() {
            Some(Change {
                kind: Kind::Translated(stream),
                made,
            }) => stream.end(made),
            _ => Ok(()),
        }
    }

    /// The event that ends the caller's stream in failure, as it fits what went before.
    pub(crate) fn failure(&self, event: Bytes) -> Bytes {
        let fitting = match self.change.as_deref() {
            Some(Change {
                kind: Kind::Translated(stream),
                ..
            }) => stream.failure(&event),
            _ => None,
        };
        fitting.map_or(event, Bytes::from)
    }

    /// The bytes behind the newest frame, where they may pass unread.
    pub(crate) fn ahead(&self) -> &[u8] {
        match self.change {
            None => self.reader.ahead(),
            Some(_) => &[],
        }
    }

    /// Lets so many bytes of [`Self::ahead`] pass.
    pub(crate) fn keep_ahead(&mut self, len: usize) {
        self.reader.keep_ahead(len);
    }

    /// Bytes of the frame that is not whole yet.
    pub(crate) fn held_bytes(&self) -> usize {
        self.reader.held_bytes()
    }

    /// Moves what may pass behind `queue`.
    pub(crate) fn hand_out(&mut self, queue: &mut VecDeque<Bytes>) {
        self.reader.hand_out(queue);
        if let Some(change) = &mut self.change
            && !change.made.is_empty()
        {
            queue.push_back(std::mem::take(&mut change.made).into());
        }
    }

    /// Copies what is kept, if it has no more than `most` bytes, out of the network buffer.
    pub(crate) fn detach(&mut self, most: usize) {
        self.reader.detach(most);
    }
}

impl Change {
    fn take(&mut self, frame: &Frame) -> Result<(), StreamError> {
        let Self { kind, made } = self;
        match (kind, frame.data()) {
            (Kind::Translated(stream), Some(data)) => stream.frame(frame.event(), &data, made),
            (Kind::Marked(mark, prefixes), _) => {
                made.extend_from_slice(&state::with_marks(&frame.raw, *mark, prefixes));
                Ok(())
            }
            // A comment says nothing but that the lane lives, which is the same in every dialect.
            (Kind::Translated(_), None) => {
                made.extend_from_slice(&frame.raw);
                Ok(())
            }
        }
    }
}
