//! Opens the stores that the command line names, and hands out the first token.

use crate::args::{EmbeddedOrServers, Servers};
use crate::exit::Failure;
use crate::{clock, output};
use lanekeeper_store::{ConfigStore, ExposeSecret, LiveView, MemoryLive, RedisLive, SecretString};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two attempts to reach a configuration database that is away.
const DATABASE_RETRY: Duration = Duration::from_secs(1);

/// The configuration store and the live view of one process.
#[derive(Clone)]
pub(crate) struct Storage {
    pub(crate) config: ConfigStore,
    pub(crate) live: Arc<dyn LiveView>,
}

impl Storage {
    /// Whatever is not named is embedded.
    pub(crate) async fn open(arguments: &EmbeddedOrServers) -> Result<Self, Failure> {
        let config = match &arguments.database_url {
            Some(url) => ConfigStore::connect(url).await,
            None => ConfigStore::open_embedded(&arguments.data_dir).await,
        };
        let live: Arc<dyn LiveView> = match &arguments.redis_url {
            Some(url) => Arc::new(RedisLive::connect(url).await.map_err(Failure::other)?),
            None => Arc::new(MemoryLive::new()),
        };
        Ok(Self {
            config: config.map_err(Failure::other)?,
            live,
        })
    }

    /// Both servers, for processes that run beside others.
    /// Waits for a database that is away: replicas and their database may start in any order.
    /// `None` when told to end before it came.
    pub(crate) async fn connect(
        arguments: &Servers,
        ending: &CancellationToken,
    ) -> Result<Option<Self>, Failure> {
        let mut waits = false;
        let config = loop {
            match ConfigStore::connect(&arguments.database_url).await {
                Ok(config) => break config,
                Err(error) if error.is_unavailable() => {
                    if !waits {
                        tracing::warn!(%error, "waiting for the configuration database");
                    }
                    waits = true;
                }
                Err(error) => return Err(Failure::other(error)),
            }
            tokio::select! {
                () = ending.cancelled() => return Ok(None),
                () = tokio::time::sleep(DATABASE_RETRY) => {}
            }
        };
        let live = RedisLive::connect(&arguments.redis_url).await;
        Ok(Some(Self {
            config,
            live: Arc::new(live.map_err(Failure::other)?),
        }))
    }

    /// On the first start of a database, makes the first admin token and tells it once: into the
    /// file, readable by its owner only, or on standard output.
    pub(crate) async fn bootstrap(&self, file: Option<&Path>) -> Result<(), Failure> {
        let Some(token) = self.new_token().await? else {
            return Ok(());
        };
        match file {
            Some(path) => {
                write_private(path, token.expose_secret())
                    .map_err(|error| Failure::other(error_at(path, error)))?;
                output::line(&format!(
                    "bootstrap admin token written to {}",
                    path.display()
                ));
            }
            None => output::line(&format!(
                "bootstrap admin token (shown once): {}",
                token.expose_secret()
            )),
        }
        Ok(())
    }

    /// The first admin token; `None` when the database has one already.
    pub(crate) async fn new_token(&self) -> Result<Option<SecretString>, Failure> {
        self.config
            .bootstrap_token(clock::unix_ms())
            .await
            .map_err(Failure::other)
    }
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{text}")
}

fn error_at(path: &Path, error: std::io::Error) -> anyhow::Error {
    anyhow::Error::from(error).context(format!("cannot write {}", path.display()))
}
