//! The frames of a stream on their way to the caller: as they came, or translated.

use bytes::Bytes;
use lanekeeper_protocol::sse::{Frame, FrameTooLong, SseReader};
use lanekeeper_protocol::translation::{StreamError, StreamTranslation};
use std::collections::VecDeque;

/// Frames on their way to the caller.
pub(crate) struct Passage {
    reader: SseReader,
    translation: Option<Box<Translating>>,
}

struct Translating {
    stream: StreamTranslation,
    /// What it gave that was not handed out yet.
    made: Vec<u8>,
}

impl Passage {
    pub(super) fn new(translation: Option<StreamTranslation>) -> Self {
        let made = Vec::new();
        Self {
            reader: SseReader::new(),
            translation: translation.map(|stream| Box::new(Translating { stream, made })),
        }
    }

    /// True when the caller gets other frames than the lane sends.
    pub(crate) fn translates(&self) -> bool {
        self.translation.is_some()
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
        let Some(translating) = &mut self.translation else {
            self.reader.keep();
            return Ok(());
        };
        match frame.data() {
            Some(data) => {
                let Translating { stream, made } = translating.as_mut();
                stream.frame(frame.event(), &data, made)
            }
            // A comment says nothing but that the lane lives, which is the same in every dialect.
            None => {
                translating.made.extend_from_slice(&frame.raw);
                Ok(())
            }
        }
    }

    /// Lets the newest frame pass as it came, whatever it is.
    pub(crate) fn keep_raw(&mut self) {
        self.reader.keep();
    }

    /// The lane's stream has ended regularly.
    ///
    /// # Errors
    ///
    /// What is left cannot be written.
    pub(crate) fn end(&mut self) -> Result<(), StreamError> {
        match &mut self.translation {
            None => Ok(()),
            Some(translating) => {
                let Translating { stream, made } = translating.as_mut();
                stream.end(made)
            }
        }
    }

    /// The event that ends the caller's stream in failure, as it fits what went before.
    pub(crate) fn failure(&self, event: Bytes) -> Bytes {
        let translating = self.translation.as_ref();
        let fitting = translating.and_then(|translating| translating.stream.failure(&event));
        fitting.map_or(event, Bytes::from)
    }

    /// The bytes behind the newest frame, where they may pass unread.
    pub(crate) fn ahead(&self) -> &[u8] {
        if self.translates() {
            &[]
        } else {
            self.reader.ahead()
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
        if let Some(translating) = &mut self.translation
            && !translating.made.is_empty()
        {
            queue.push_back(std::mem::take(&mut translating.made).into());
        }
    }

    /// Copies what is kept, if it has no more than `most` bytes, out of the network buffer.
    pub(crate) fn detach(&mut self, most: usize) {
        self.reader.detach(most);
    }
}
