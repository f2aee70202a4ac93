//! The sending half of a stream: hands over what waits as the connection takes it, and notices an
//! agent that does not read.

use std::time::{Duration, Instant};

use lanekeeper_proto::message::FromServer;
use lanekeeper_proto::wire;
use tokio::sync::mpsc;
use tonic::Status;

use crate::clock;
use crate::hosting::outgoing::Outgoing;

/// Messages between a session and its connection; more wait in [`Outgoing`], where they coalesce.
pub(crate) const STREAM_BUFFER: usize = 1;

/// What the response stream is fed with.
pub(crate) type Item = Result<wire::ServerMessage, Status>;

/// The agent has not read for too long.
pub(crate) struct Stalled;

/// The sending half of a stream, with what waits for it.
pub(crate) struct Writer {
    writer: mpsc::Sender<Item>,
    outgoing: Outgoing,
    /// When something was last taken by the connection, or began to wait.
    progress: Instant,
    stall_timeout: Duration,
}

impl Writer {
    /// A writer that gives up once the connection has taken nothing for `stall_timeout`.
    pub(crate) fn new(writer: mpsc::Sender<Item>, stall_timeout: Duration) -> Self {
        Self {
            writer,
            outgoing: Outgoing::default(),
            progress: clock::now(),
            stall_timeout,
        }
    }

    /// Something waits to be written.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Queues a message.
    pub(crate) fn put(&mut self, message: FromServer) {
        if self.outgoing.is_empty() {
            self.progress = clock::now();
        }
        self.outgoing.put(message);
    }

    /// Hands one message over. Safe to be dropped half-way: nothing is taken before there is room.
    pub(crate) async fn write(&mut self) -> Result<(), Stalled> {
        let deadline = self.progress + self.stall_timeout;
        match tokio::time::timeout_at(deadline.into(), self.writer.reserve()).await {
            Ok(Ok(room)) => {
                if let Some(message) = self.outgoing.take() {
                    room.send(Ok(message.into()));
                }
                self.progress = clock::now();
                Ok(())
            }
            Ok(Err(_)) => {
                // The stream is gone, which its reading half shows too.
                self.outgoing = Outgoing::default();
                Ok(())
            }
            Err(_) => Err(Stalled),
        }
    }

    /// Hands over everything that waits.
    pub(crate) async fn finish(&mut self) -> Result<(), Stalled> {
        while !self.outgoing.is_empty() {
            self.write().await?;
        }
        Ok(())
    }

    /// Ends the stream with an error.
    pub(crate) async fn fail(&mut self, status: Status) -> Result<(), Stalled> {
        let sent = self.writer.send(Err(status));
        match tokio::time::timeout(self.stall_timeout, sent).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Stalled),
        }
    }
}
