//! One session over one connection: says what an agent says, and times the answers.

use crate::agent::Agent;
use crate::clock;
use crate::schedule::Schedule;
use crate::tally::Fault;
use lanekeeper_model::{ConfigSource, Report, Totals, digest};
use lanekeeper_proto::FleetClient;
use lanekeeper_proto::limits::{MESSAGE_BYTES_MAX, PROTOCOL_MAX, PROTOCOL_MIN};
use lanekeeper_proto::message::{
    AppliedRevision, Bye, ConfigOutcome, ConfigPush, ConfigResult, FromAgent, FromServer, Goodbye,
    Hello, Welcome,
};
use lanekeeper_proto::wire::{AgentMessage, ServerMessage};
use prost::Message;
use rand::RngExt;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

/// How long the server may take to open the stream, and then to answer the Hello.
const WELCOME_PATIENCE: Duration = Duration::from_secs(10);
/// How long a message may wait for the network.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the last message gets to leave the machine.
const BYE_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages that wait for the network.
const OUTBOUND_MAX: usize = 2;

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The run is over.
    #[error("the run is over")]
    Stopped,
    /// The server left in-band.
    #[error("the server said goodbye ({}): {}", .0.reason.as_str(), .0.detail)]
    Goodbye(Goodbye),
    /// Something went wrong.
    #[error("{1}")]
    Fault(Fault, String),
}

impl Ended {
    pub(crate) fn goodbye(&self) -> Option<&Goodbye> {
        match self {
            Self::Goodbye(goodbye) => Some(goodbye),
            Self::Stopped | Self::Fault(..) => None,
        }
    }

    fn broken(status: &tonic::Status) -> Self {
        Self::Fault(Fault::Stream, status.message().to_owned())
    }
}

/// Both directions of a stream.
struct Stream {
    queue: mpsc::Sender<AgentMessage>,
    inbound: Streaming<ServerMessage>,
}

impl Agent {
    /// Runs one session to its end. `lasted` is told how long it was open.
    pub(crate) async fn run_session(&mut self, channel: Channel, lasted: &mut Duration) -> Ended {
        let stop = self.swarm.stop.clone();
        let opened = tokio::select! {
            () = stop.cancelled() => Err(Ended::Stopped),
            opened = self.open(channel) => opened,
        };
        let (mut stream, welcome) = match opened {
            Ok(opened) => opened,
            Err(ended) => return ended,
        };
        let since = clock::now();
        let lost = self.lost.take();
        self.swarm
            .tally
            .opened(lost.map(|lost| since.saturating_duration_since(lost)));
        let mut schedule = Schedule::new(&welcome, since);
        self.session_epoch = Some(welcome.session_epoch);
        let ended = self.converse(&mut stream, &welcome, &mut schedule).await;
        *lasted = clock::now().saturating_duration_since(since);
        self.swarm.tally.closed();
        if matches!(ended, Ended::Stopped) {
            say_bye(stream).await;
        }
        ended
    }

    async fn open(&mut self, channel: Channel) -> Result<(Stream, Welcome), Ended> {
        let (queue, messages) = mpsc::channel(OUTBOUND_MAX);
        let mut client = FleetClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let slow = |what: &str| Ended::Fault(Fault::Silence, what.to_owned());
        send(self, &queue, FromAgent::Hello(self.hello())).await?;
        let response = timeout(
            WELCOME_PATIENCE,
            client.session(ReceiverStream::new(messages)),
        )
        .await
        .map_err(|_| slow("the stream was not opened in time"))?
        .map_err(|status| Ended::broken(&status))?;
        let mut stream = Stream {
            queue,
            inbound: response.into_inner(),
        };
        let first = timeout(WELCOME_PATIENCE, self.next(&mut stream.inbound))
            .await
            .map_err(|_| slow("no Welcome in time"))??;
        match first {
            FromServer::Welcome(welcome) => Ok((stream, welcome)),
            FromServer::Goodbye(goodbye) => Err(Ended::Goodbye(goodbye)),
            _ => Err(Ended::Fault(
                Fault::Protocol,
                "no Welcome at first".to_owned(),
            )),
        }
    }

    fn hello(&self) -> Hello {
        Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            gateway: self.swarm.config.gateway.clone(),
            name: self.name.clone(),
            labels: [("simulated".to_owned(), "true".to_owned())].into(),
            instance: self.instance.clone(),
            applied: self.applied.clone(),
            wall_ms: clock::unix_ms(),
            previous_session_epoch: self.session_epoch,
            capabilities: Vec::new(),
        }
    }

    /// The next message of a kind this build knows.
    async fn next(&self, inbound: &mut Streaming<ServerMessage>) -> Result<FromServer, Ended> {
        loop {
            let message = inbound.message().await;
            let Some(message) = message.map_err(|status| Ended::broken(&status))? else {
                let text = "the server closed the stream without a word".to_owned();
                return Err(Ended::Fault(Fault::Stream, text));
            };
            self.swarm.tally.received(message.encoded_len());
            match FromServer::try_from(message) {
                Ok(message) => return Ok(message),
                Err(lanekeeper_proto::WireError::Empty) => {}
                Err(error) => return Err(Ended::Fault(Fault::Protocol, error.to_string())),
            }
        }
    }

    async fn converse(
        &mut self,
        stream: &mut Stream,
        welcome: &Welcome,
        schedule: &mut Schedule,
    ) -> Ended {
        let stop = self.swarm.stop.clone();
        let since = clock::now();
        loop {
            let now = clock::now();
            if self.script.advance(now) {
                self.swarm.tally.transition();
                schedule.stir(now);
            }
            if now >= schedule.patience_ends() {
                let text = "reports were not acknowledged".to_owned();
                return Ended::Fault(Fault::Silence, text);
            }
            if now >= schedule.next_report() {
                if let Err(ended) = self.report(stream, schedule, now).await {
                    return ended;
                }
                continue;
            }
            let wake = schedule.next_report().min(schedule.patience_ends());
            let wake = self.script.next().map_or(wake, |next| wake.min(next));
            let received = tokio::select! {
                () = stop.cancelled() => return Ended::Stopped,
                () = sleep_until(wake.into()) => continue,
                received = self.next(&mut stream.inbound) => received,
            };
            let taken = match received {
                Ok(FromServer::ReportAck(ack)) => {
                    let took = schedule.acknowledged(&ack, clock::now());
                    self.swarm.tally.acknowledged(took, ack.refused.as_deref());
                    Ok(())
                }
                Ok(FromServer::ConfigPush(push)) => self.adopt(stream, welcome, &push, since).await,
                Ok(FromServer::Goodbye(goodbye)) => Err(Ended::Goodbye(goodbye)),
                Ok(FromServer::Welcome(_)) => {
                    Err(Ended::Fault(Fault::Protocol, "a second Welcome".to_owned()))
                }
                // Orders concern the data plane, which is not simulated.
                Ok(_) => Ok(()),
                Err(ended) => Err(ended),
            };
            if let Err(ended) = taken {
                return ended;
            }
        }
    }

    async fn report(
        &mut self,
        stream: &Stream,
        schedule: &mut Schedule,
        now: Instant,
    ) -> Result<(), Ended> {
        let (seq, dense) = schedule.number(now, self.rng.random());
        let cells = self.script.report(&self.cells, dense, now);
        let report = Report {
            seq,
            dense,
            digest: Some(digest(&cells)),
            cells,
            totals: Totals::default(),
            revision: self.applied.as_ref().map_or(0, |applied| applied.revision),
            problems: Vec::new(),
            draining: false,
        };
        send(self, &stream.queue, FromAgent::Report(report)).await?;
        self.swarm.tally.reported();
        Ok(())
    }

    async fn adopt(
        &mut self,
        stream: &Stream,
        welcome: &Welcome,
        push: &ConfigPush,
        since: Instant,
    ) -> Result<(), Ended> {
        let tally = &self.swarm.tally;
        let first_seen = tally.pushed(push.revision, push.document.len());
        let checked = self.swarm.revisions.check(push).await;
        let outcome = if checked.errors.is_empty() {
            self.cells = checked.cells.clone();
            self.applied = Some(AppliedRevision {
                revision: push.revision,
                hash: push.hash.clone(),
                source: ConfigSource::Live,
                control_epoch: Some(welcome.control_epoch.clone()),
            });
            let took = clock::now().saturating_duration_since(first_seen.max(since));
            tally.applied(push.revision, took);
            ConfigOutcome::Applied {
                problems: Vec::new(),
            }
        } else {
            tally.fault(Fault::Rejected);
            ConfigOutcome::Rejected {
                errors: checked.errors.clone(),
            }
        };
        let serving = self.applied.as_ref();
        let result = ConfigResult {
            nonce: push.nonce,
            outcome,
            revision: serving.map_or(0, |applied| applied.revision),
            hash: serving
                .map(|applied| applied.hash.clone())
                .unwrap_or_default(),
        };
        send(self, &stream.queue, FromAgent::ConfigResult(result)).await
    }
}

async fn send(
    agent: &Agent,
    queue: &mpsc::Sender<AgentMessage>,
    message: FromAgent,
) -> Result<(), Ended> {
    let message = AgentMessage::from(message);
    agent.swarm.tally.sent(message.encoded_len());
    match timeout(STALL_TIMEOUT, queue.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Ended::Fault(Fault::Stream, "the stream is gone".to_owned())),
        Err(_) => Err(Ended::Fault(
            Fault::Silence,
            "nothing could be sent".to_owned(),
        )),
    }
}

/// Says goodbye and waits until the server has closed its side, so that the word arrives.
async fn say_bye(stream: Stream) {
    let Stream { queue, mut inbound } = stream;
    let bye = FromAgent::Bye(Bye {
        reason: "the run is over".to_owned(),
    });
    let farewell = async {
        if queue.send(bye.into()).await.is_ok() {
            drop(queue);
            while let Ok(Some(_)) = inbound.message().await {}
        }
    };
    // An agent that cannot say it in time is noticed as silent.
    let _ = timeout(BYE_TIMEOUT, farewell).await;
}
