//! The joined source: keeps one session with the control plane, applies what it pushes, and
//! reports what the cells do. Requests never wait for anything in here.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::Problem;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::plane::Plane;
use crate::revision::adopt::Adopter;
use crate::revision::cache::Writer;
use crate::status::{Status, Topic};

mod backoff;
mod dial;
mod endpoint;
mod identity;
pub mod link;
mod report;
mod session;
#[cfg(feature = "simulation")]
pub mod simulation;
mod tls;

pub(crate) use dial::{Dialer, Proof};
pub(crate) use endpoint::Endpoint;
pub(crate) use identity::Identity;
pub(crate) use link::{Facts, Link};

use link::Ended;

/// The agent's side of the fleet protocol.
pub(crate) struct Control {
    /// Reaches the control plane.
    pub(crate) dialer: Dialer,
    /// What is known of the control plane, from session to session.
    pub(crate) link: Link,
    /// The data plane that reports are about.
    pub(crate) plane: Plane,
    /// Facts about this process.
    pub(crate) status: Arc<Status>,
    /// Takes pushed documents.
    pub(crate) adopter: Arc<Adopter>,
    /// Keeps what was applied for the next start, if anywhere.
    pub(crate) writer: Option<Writer>,
    /// The process begins to drain: the next report says so.
    pub(crate) draining: CancellationToken,
    /// The process has drained: say goodbye and end.
    pub(crate) stop: CancellationToken,
}

impl Control {
    /// Dials until told to stop, and keeps the identity fresh meanwhile.
    pub(crate) async fn run(self) {
        let stop = self.stop.clone();
        match self.dialer.clone() {
            Dialer {
                endpoint,
                proof: Proof::Identity(identity),
            } => {
                let renewing = identity.renew(endpoint, stop);
                tokio::join!(self.keep_session(), renewing);
            }
            Dialer { .. } => self.keep_session().await,
        }
    }

    async fn keep_session(mut self) {
        while !self.stop.is_cancelled() {
            let ended = self.dial().await;
            if matches!(ended, Ended::Stopped) {
                return;
            }
            let wait = self
                .link
                .hung_up(ended.goodbye(), clock::now(), clock::jitter());
            log_end(&ended, wait);
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn dial(&mut self) -> Ended {
        let channel = tokio::select! {
            () = self.stop.cancelled() => return Ended::Stopped,
            connected = self.dialer.connect(self.link.is_troubled()) => match connected {
                Ok(channel) => channel,
                Err(error) => return error.into(),
            },
        };
        self.run_session(channel).await
    }

    fn log_verdict(&self, revision: u64, verdict: &Result<Vec<String>, Vec<Problem>>) {
        match verdict {
            Ok(problems) => {
                self.status.clear(Topic::Config);
                tracing::info!(revision, "applied a pushed revision");
                for problem in problems {
                    tracing::warn!(revision, %problem, "configuration problem");
                }
            }
            Err(errors) => {
                self.plane.config_rejected();
                self.status.raise(
                    Topic::Config,
                    format!("revision {revision} was refused ({} errors)", errors.len()),
                );
                for error in errors {
                    tracing::error!(
                        revision,
                        pointer = %error.pointer,
                        code = %error.code,
                        message = %error.message,
                        "refused a pushed revision, the running one stays"
                    );
                }
            }
        }
    }
}

fn log_end(ended: &Ended, wait: Duration) {
    let mut chain = ended.to_string();
    let mut source = ended.source();
    while let Some(error) = source {
        chain.push_str(": ");
        chain.push_str(&error.to_string());
        source = error.source();
    }
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    tracing::warn!(reason = %chain, wait_ms, "no session with the control plane");
}
