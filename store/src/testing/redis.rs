//! A private Redis.

use std::process::Command;

use ::redis::IntoConnectionInfo;
use tokio::sync::OnceCell;

use super::process::{Folder, Process};
use super::{POLL, PORT_ATTEMPTS_MAX, READY_TIMEOUT, free_port};

/// A Redis server without persistence.
pub struct RedisServer {
    /// Goes before its folder does: fields are dropped in this order.
    process: Option<Process>,
    folder: Folder,
    port: u16,
}

impl RedisServer {
    /// The server that all tests of one program share, each under a prefix of its own. For a test
    /// that stops its server, [`start`](Self::start).
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<RedisServer> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    /// Starts a server on a free port and waits until it answers.
    ///
    /// # Panics
    /// When there is no `redis-server` (Debian package redis-server) or it does not come up.
    pub async fn start() -> Self {
        let folder = Folder::new("KILL");
        let mut server = Self {
            process: None,
            folder,
            port: 0,
        };
        for _ in 0..PORT_ATTEMPTS_MAX {
            server.port = free_port();
            if server.try_start().await {
                return server;
            }
        }
        panic!("redis-server does not come up: {}", server.folder.log());
    }

    /// The address, for [`RedisLive::connect`](crate::RedisLive::connect).
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Kills the server; everything in it is lost.
    pub fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            self.folder.end(process);
        }
    }

    /// Starts a stopped server again on the same port and waits until it answers.
    ///
    /// # Panics
    /// When it does not come up.
    pub async fn start_again(&mut self) {
        assert!(self.process.is_none(), "the server still runs");
        assert!(
            self.try_start().await,
            "redis-server does not come up: {}",
            self.folder.log()
        );
    }

    /// Stops the server's clockwork without closing anything: connections stay open and nothing
    /// answers.
    pub fn freeze(&self) {
        self.process
            .as_ref()
            .expect("a running server")
            .signal("STOP");
    }

    /// Undoes [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.process
            .as_ref()
            .expect("a running server")
            .signal("CONT");
    }

    /// Runs a command, such as `["FLUSHALL"]`.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn command(&self, words: &[&str]) {
        let client = ::redis::Client::open(self.url()).expect("an address");
        let mut connection = client
            .get_multiplexed_async_connection()
            .await
            .expect("a connection");
        let mut command = ::redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        let _: ::redis::Value = command
            .query_async(&mut connection)
            .await
            .expect("a command that can be run");
    }

    async fn try_start(&mut self) -> bool {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string()]);
        command.args(["--save", "", "--appendonly", "no"]);
        if Command::new("redis-server")
            .arg("--version")
            .output()
            .is_err()
        {
            panic!("redis-server is missing: install the Debian package redis-server");
        }
        let mut process = self.folder.start(command);
        let url = self.url();
        let ready = tokio::time::timeout(READY_TIMEOUT, async {
            while process.is_running() {
                if answers(&url).await {
                    return true;
                }
                tokio::time::sleep(POLL).await;
            }
            false
        })
        .await
        .unwrap_or(false);
        if ready {
            self.process = Some(process);
        } else {
            self.folder.end(process);
        }
        ready
    }
}

async fn answers(url: &str) -> bool {
    let ping = async {
        let client = ::redis::Client::open(url.into_connection_info()?)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        ::redis::cmd("PING")
            .query_async::<String>(&mut connection)
            .await
    };
    ping.await.is_ok()
}
