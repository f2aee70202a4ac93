//! Private PostgreSQL and Redis servers for tests of any crate: real ones, on free ports of the
//! loopback interface, with their files in a temporary folder. A server goes when its value is
//! dropped, and also when the test process ends in another way, because statics are never dropped
//! and tests may be killed.
//!
//! A missing program is a panic that names the Debian package: a test that cannot find its server
//! has failed.

mod postgres;
mod process;
mod redis;

use std::time::Duration;

pub use self::postgres::{PostgresServer, SmallDisk};
pub use self::redis::RedisServer;

/// The longest a server may take to answer after its start.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks at something that is awaited.
const POLL: Duration = Duration::from_millis(10);
/// A free port may be taken by another process before the server has it; then another one is tried.
const PORT_ATTEMPTS_MAX: usize = 5;

/// Waits until a condition holds.
///
/// # Panics
/// When it does not within the time given.
pub async fn eventually(what: &str, within: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(within, async {
        while !holds().await {
            tokio::time::sleep(POLL).await;
        }
    });
    assert!(waited.await.is_ok(), "not within {within:?}: {what}");
}

/// A port that nobody listens on at the moment.
fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .expect("a free port on the loopback interface")
        .port()
}
