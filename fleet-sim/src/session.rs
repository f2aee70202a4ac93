//! One session over one connection: waits for the socket and the script, calls the agent's own
//! link, and times the answers.

use crate::agent::Agent;
use crate::clock;
use crate::ended::{Ended, Fault};
use lanekeeper_agent::session_client::{Effect, Numbered, OPEN_TIMEOUT, Outgoing, Received};
use lanekeeper_model::{Problem, Report, digest};
use lanekeeper_proto::FleetClient;
use lanekeeper_proto::limits::MESSAGE_BYTES_MAX;
use lanekeeper_proto::message::{Bye, ConfigPush, FromAgent};
use lanekeeper_proto::wire::{AgentMessage, ServerMessage};
use prost::Message;
use rand::RngExt;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

/// How long the last message gets to leave the machine.
const BYE_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages that wait for the network.
const OUTBOUND_MAX: usize = 2;

/// Both directions of a stream.
struct Stream {
    queue: mpsc::Sender<AgentMessage>,
    inbound: Streaming<ServerMessage>,
    /// When its session opened.
    opened: Option<Instant>,
}

impl Agent {
    /// Runs one session to its end.
    pub(crate) async fn run_session(&mut self, channel: Channel) -> Ended {
        let stop = self.swarm.stop.clone();
        let opened = tokio::select! {
            () = stop.cancelled() => Err(Ended::Stopped),
            opened = self.open(channel) => opened,
        };
        let mut stream = match opened {
            Ok(opened) => opened,
            Err(ended) => return ended,
        };
        let ended = self.converse(&mut stream).await;
        if stream.opened.is_some() {
            self.swarm.tally.closed();
        }
        if matches!(ended, Ended::Stopped) {
            say_bye(stream).await;
        }
        ended
    }

    async fn open(&mut self, channel: Channel) -> Result<Stream, Ended> {
        let (queue, messages) = mpsc::channel(OUTBOUND_MAX);
        let mut client = FleetClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let hello = self.link.dialled(clock::unix_ms(), clock::now());
        let hello = self.encode(FromAgent::Hello(hello));
        if queue.try_send(hello).is_err() {
            return Err(Ended::Fault(Fault::Stream, "the stream is gone".to_owned()));
        }
        let response = timeout(OPEN_TIMEOUT, client.session(ReceiverStream::new(messages)))
            .await
            .map_err(|_| {
                let text = "the stream was not opened in time";
                Ended::Fault(Fault::Silence, text.to_owned())
            })?
            .map_err(|status| Ended::broken(&status))?;
        Ok(Stream {
            queue,
            inbound: response.into_inner(),
            opened: None,
        })
    }

    async fn converse(&mut self, stream: &mut Stream) -> Ended {
        let stop = self.swarm.stop.clone();
        loop {
            let now = clock::now();
            if self.link.is_open() && self.script.advance(now) {
                self.swarm.tally.transition();
                self.link.stir(now);
            }
            let sending = match self.link.due(now) {
                Ok(sending) => sending,
                Err(leave) => return leave.into(),
            };
            match self.link.next_held(now) {
                Ok(Some(effect)) => {
                    self.follow(effect, stream).await;
                    continue;
                }
                Ok(None) => {}
                Err(leave) => return leave.into(),
            }
            let wake = self.link.wake_at().unwrap_or(now);
            let transition = self.script.next().filter(|_| self.link.is_open());
            let wake = transition.map_or(wake, |next| wake.min(next));
            let received = tokio::select! {
                biased;
                () = stop.cancelled() => return Ended::Stopped,
                place = stream.queue.reserve(), if sending => {
                    let Ok(place) = place else {
                        return Ended::Fault(Fault::Stream, "the stream is gone".to_owned());
                    };
                    if let Some(message) = self.next_message(clock::now()) {
                        place.send(self.encode(message));
                    }
                    continue;
                }
                received = stream.inbound.message(), if self.link.reads() => received,
                () = sleep_until(wake.into()) => continue,
            };
            let message = match received {
                Ok(Some(message)) => message,
                Ok(None) => {
                    let text = "the server closed the stream without a goodbye";
                    return Ended::Fault(Fault::Stream, text.to_owned());
                }
                Err(status) => return Ended::broken(&status),
            };
            self.swarm.tally.received(message.encoded_len());
            let received = Received::read(message);
            match received.and_then(|it| self.link.receive(it, clock::now())) {
                Ok(effect) => self.follow(effect, stream).await,
                Err(leave) => return leave.into(),
            }
        }
    }

    async fn follow(&mut self, effect: Effect, stream: &mut Stream) {
        let tally = &self.swarm.tally;
        match effect {
            Effect::Opened { .. } => {
                let now = clock::now();
                let lost = self.lost.take();
                tally.opened(lost.map(|lost| now.saturating_duration_since(lost)));
                stream.opened = Some(now);
            }
            Effect::Acknowledged { took, refused, .. } => {
                tally.acknowledged(took, refused.as_deref());
            }
            Effect::Try(push) => self.adopt(&push, stream.opened).await,
            Effect::RefusedOlder | Effect::RefusedUnreadable(_) => tally.fault(Fault::Rejected),
            Effect::None
            | Effect::Override(_)
            | Effect::Advise(_)
            | Effect::Leases(_)
            | Effect::OutOfService(_) => {}
        }
    }

    fn next_message(&mut self, now: Instant) -> Option<FromAgent> {
        match self.link.next(now, self.rng.random())? {
            Outgoing::Answer(answer) => Some(answer),
            Outgoing::Report(Numbered { seq, dense, .. }, _) => {
                let cells = self.script.report(&self.cells, dense, now);
                self.swarm.tally.reported();
                Some(FromAgent::Report(Report {
                    seq,
                    dense,
                    digest: Some(digest(&cells)),
                    cells,
                    revision: self.link.applied().map_or(0, |applied| applied.revision),
                    ..Report::default()
                }))
            }
        }
    }

    async fn adopt(&mut self, push: &ConfigPush, opened: Option<Instant>) {
        let tally = &self.swarm.tally;
        let first_seen = tally.pushed(push.revision, push.document.len());
        let checked = self.swarm.revisions.check(push).await;
        let verdict: Result<Vec<String>, Vec<Problem>> = if checked.errors.is_empty() {
            self.cells = checked.cells.clone();
            let since = opened.map_or(first_seen, |opened| first_seen.max(opened));
            let took = clock::now().saturating_duration_since(since);
            tally.applied(push.revision, took);
            Ok(Vec::new())
        } else {
            tally.fault(Fault::Rejected);
            Err(checked.errors.clone())
        };
        self.link.tried(verdict);
    }

    fn encode(&self, message: FromAgent) -> AgentMessage {
        let message = AgentMessage::from(message);
        self.swarm.tally.sent(message.encoded_len());
        message
    }
}

/// Says goodbye and waits until the server has closed its side, so that it arrives.
async fn say_bye(stream: Stream) {
    let Stream {
        queue, mut inbound, ..
    } = stream;
    let bye = FromAgent::Bye(Bye {
        reason: "the run is over".to_owned(),
    });
    let goodbye = async {
        if queue.send(bye.into()).await.is_ok() {
            drop(queue);
            while let Ok(Some(_)) = inbound.message().await {}
        }
    };
    // An agent that cannot send it in time is noticed as silent.
    let _ = timeout(BYE_TIMEOUT, goodbye).await;
}
