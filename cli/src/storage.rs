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

/// First wait between two attempts to reach a configuration database that is away. It doubles...
const RETRY_MIN: Duration = Duration::from_millis(250);
/// ...up to this.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// The configuration store and the live view of one process.
#[derive(Clone)]
pub(crate) struct Storage {
    pub(crate) config: ConfigStore,
    pub(crate) live: Arc<dyn LiveView>,
}

impl Storage {
    /// Everything in this process and its data folder.
    pub(crate) async fn embedded(data_dir: &Path) -> Result<Self, Failure> {
        let config = ConfigStore::open_embedded(data_dir).await;
        Ok(Self {
            config: config.map_err(Failure::other)?,
            live: Arc::new(MemoryLive::new()),
        })
    }

    /// Whatever is not named is embedded. Waits for a database that is away, as
    /// [`Storage::connect`].
    pub(crate) async fn open(
        arguments: &EmbeddedOrServers,
        ending: &CancellationToken,
    ) -> Result<Option<Self>, Failure> {
        let mut storage = match &arguments.database_url {
            None => Self::embedded(&arguments.data_dir).await?,
            Some(url) => match reach(url, ending).await? {
                Some(config) => Self {
                    config,
                    live: Arc::new(MemoryLive::new()),
                },
                None => return Ok(None),
            },
        };
        if let Some(url) = &arguments.redis_url {
            storage.live = redis(url).await?;
        }
        Ok(Some(storage))
    }

    /// Both servers, for processes that run beside others. Waits for a database that is away:
    /// replicas and their database may start in any order. `None` when told to end before it came.
    pub(crate) async fn connect(
        arguments: &Servers,
        ending: &CancellationToken,
    ) -> Result<Option<Self>, Failure> {
        let Some(config) = reach(&arguments.database_url, ending).await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            config,
            live: redis(&arguments.redis_url).await?,
        }))
    }

    /// The two parts, as the services take them.
    pub(crate) fn parts(self) -> (ConfigStore, Arc<dyn LiveView>) {
        (self.config, self.live)
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

async fn redis(url: &str) -> Result<Arc<dyn LiveView>, Failure> {
    let live = RedisLive::connect(url).await;
    Ok(Arc::new(live.map_err(Failure::other)?))
}

/// Connects to the configuration database as soon as it is there; `None` when told to end before.
/// What keeps it away is logged once for each reason. A refused user or password is final: a process
/// that ends says so louder than one that waits.
async fn reach(url: &str, ending: &CancellationToken) -> Result<Option<ConfigStore>, Failure> {
    let mut wait = RETRY_MIN;
    let mut told = None;
    loop {
        let connected = tokio::select! {
            () = ending.cancelled() => return Ok(None),
            connected = ConfigStore::connect(url) => connected,
        };
        match connected {
            Ok(config) => {
                if told.is_some() {
                    tracing::info!("the configuration database is available");
                }
                return Ok(Some(config));
            }
            Err(error) if error.is_unavailable() => {
                let reason = Failure::other(error).to_string();
                if told.as_ref() != Some(&reason) {
                    tracing::warn!(reason, "waiting for the configuration database");
                    told = Some(reason);
                }
            }
            Err(error) => return Err(Failure::other(error)),
        }
        tokio::select! {
            () = ending.cancelled() => return Ok(None),
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(RETRY_MAX);
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
