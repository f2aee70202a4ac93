//! A provider that answers like the real ones and fails on command.
//!
//! Demonstrations, tests and drills need an upstream whose faults are exact: this status for that
//! model three times, a hang after the headers, a stream cut behind its second frame. The simulated
//! provider speaks the dialects of OpenAI (Responses too), Anthropic, Gemini and Cohere below any
//! path prefix (so one process can play several providers), plays scripted turns with tool calls, takes faults at `POST /faults` and lists
//! what reached it at `GET /requests`.

mod answer;
mod clock;
mod dialect;
mod fault;
mod journal;
mod script;
mod service;

pub use fault::{Fault, Hang};
pub use journal::Arrival;
pub use script::{Script, ScriptError};

use lanekeeper_serve::Limits;
use service::Provider;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Connections open at once; hung requests hold theirs, so the bound is generous.
const MAX_CONNECTIONS: usize = 16_384;
/// Idle keep-alive, above the 50 s after which the agent drops its idle upstream connections.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// How the simulated provider listens and answers.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address of its only listener. Default 127.0.0.1:7500; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Words of an answer, and so content frames of a stream, unless the request's `max_tokens`
    /// (or `max_completion_tokens`) says less. Default 8.
    pub words: usize,
    /// Pause before the headers of a good answer. Default zero.
    pub latency: Duration,
    /// Pause between two content frames of a stream. Default zero: all frames are ready at once.
    pub frame_interval: Duration,
    /// Turns to play to callers that offer the tools it calls. Default none.
    pub script: Option<Script>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7500)),
            words: 8,
            latency: Duration::ZERO,
            frame_interval: Duration::ZERO,
            script: None,
        }
    }
}

/// Why the simulated provider stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] io::Error),
    /// Its listener broke while serving.
    #[error(transparent)]
    Serve(#[from] lanekeeper_serve::Error),
}

/// Runs until `shutdown` is cancelled; `ready` is told the bound address.
///
/// # Errors
///
/// [`Error`] when the address is taken or the listener breaks.
pub async fn run(
    config: Config,
    shutdown: CancellationToken,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let listener = lanekeeper_serve::bind(config.listen, false)?;
    let address = listener.local_addr()?;
    let listener = TcpListener::from_std(listener)?;
    let limits = Limits {
        max_connections: MAX_CONNECTIONS,
        header_read_timeout: KEEP_ALIVE,
        ..Limits::default()
    };
    ready(address);
    let provider = Provider::new(config);
    Ok(lanekeeper_serve::serve(listener, limits, provider, shutdown, Duration::ZERO).await?)
}
