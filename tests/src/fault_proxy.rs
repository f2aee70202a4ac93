//! A relay between two processes that does to their TCP connections what networks do: delays bytes,
//! holds them back without a word, cuts connections.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Bytes taken in one go.
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks of one direction that may be on their way; more wait in the sockets.
const UNDERWAY_MAX: usize = 256;

/// What happens to the bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Condition {
    held: bool,
    delay: Duration,
    /// Grows with each cut: connections of an earlier number end.
    cuts: u64,
}

/// A running relay; it ends when this is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: String,
    condition: watch::Sender<Condition>,
    accepted: Arc<Mutex<Vec<Instant>>>,
    _relaying: JoinSet<()>,
}

impl FaultProxy {
    /// Listens on a free port for connections to `upstream`, which is dialled anew for each.
    ///
    /// # Errors
    ///
    /// When there is no free port.
    pub async fn start(upstream: &str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (condition, seen) = watch::channel(Condition::default());
        let accepted = Arc::<Mutex<Vec<Instant>>>::default();
        let (book, upstream) = (Arc::clone(&accepted), upstream.to_owned());
        let mut relaying = JoinSet::new();
        relaying.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let times = &mut book.lock().unwrap_or_else(PoisonError::into_inner);
                times.push(Instant::now());
                connections.spawn(relay(near, upstream.clone(), seen.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            condition,
            accepted,
            _relaying: relaying,
        })
    }

    /// Where to dial instead of the upstream.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Passes nothing on from now, neither bytes nor ends, while all connections stay.
    pub fn hold(&self) {
        self.condition
            .send_modify(|condition| condition.held = true);
    }

    /// Undoes [`FaultProxy::hold`]; what was held back goes on its way.
    pub fn release(&self) {
        self.condition
            .send_modify(|condition| condition.held = false);
    }

    /// Lets every byte take this long.
    pub fn delay(&self, delay: Duration) {
        self.condition
            .send_modify(|condition| condition.delay = delay);
    }

    /// Resets every connection, at both ends.
    pub fn cut(&self) {
        self.condition.send_modify(|condition| condition.cuts += 1);
    }

    /// When connections were accepted, in order.
    #[must_use]
    pub fn accepted(&self) -> Vec<Instant> {
        let times = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        times.clone()
    }
}

async fn relay(mut near: TcpStream, upstream: String, condition: watch::Receiver<Condition>) {
    let cuts = condition.borrow().cuts;
    let mut cut = condition.clone();
    let Ok(mut far) = TcpStream::connect(upstream).await else {
        return;
    };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let is_cut = {
        let (near_read, near_write) = near.split();
        let (far_read, far_write) = far.split();
        let both = async {
            tokio::join!(
                pump(near_read, far_write, condition.clone()),
                pump(far_read, near_write, condition.clone())
            )
        };
        tokio::select! {
            _ = both => false,
            _ = cut.wait_for(|condition| condition.cuts > cuts) => true,
        }
    };
    if is_cut {
        // Closed so, a connection is reset and not ended.
        let _ = (near.set_zero_linger(), far.set_zero_linger());
    }
}

/// Carries one direction until its end.
async fn pump(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    condition: watch::Receiver<Condition>,
) {
    let (sender, receiver) = mpsc::channel(UNDERWAY_MAX);
    tokio::join!(
        take_in(from, sender, condition.clone()),
        pass_on(receiver, to, condition)
    );
}

async fn take_in(
    mut from: impl AsyncRead + Unpin,
    sender: mpsc::Sender<(Instant, Vec<u8>)>,
    mut condition: watch::Receiver<Condition>,
) {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let Ok(length @ 1..) = from.read(&mut chunk).await else {
            return;
        };
        chunk.truncate(length);
        let Ok(delay) = condition
            .wait_for(|now| !now.held)
            .await
            .map(|now| now.delay)
        else {
            return;
        };
        if sender.send((Instant::now() + delay, chunk)).await.is_err() {
            return;
        }
    }
}

async fn pass_on(
    mut receiver: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut to: impl AsyncWrite + Unpin,
    mut condition: watch::Receiver<Condition>,
) {
    while let Some((due, chunk)) = receiver.recv().await {
        tokio::time::sleep_until(due.into()).await;
        if condition.wait_for(|now| !now.held).await.is_err() || to.write_all(&chunk).await.is_err()
        {
            return;
        }
    }
    if condition.wait_for(|now| !now.held).await.is_ok() {
        let _ = to.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// Both ends of a connection through a relay.
    async fn connected() -> (FaultProxy, TcpStream, TcpStream) {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = FaultProxy::start(&server.local_addr().unwrap().to_string())
            .await
            .unwrap();
        let client = TcpStream::connect(proxy.address()).await.unwrap();
        let (served, _) = server.accept().await.unwrap();
        (proxy, client, served)
    }

    async fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 64];
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut bytes));
        let length = read.await.map_err(|_| io::ErrorKind::TimedOut)??;
        bytes.truncate(length);
        Ok(bytes)
    }

    #[tokio::test]
    async fn what_is_held_comes_later_and_whole() {
        let (proxy, mut client, mut served) = connected().await;
        client.write_all(b"one").await.unwrap();
        assert_eq!(read(&mut served).await.unwrap(), b"one");
        proxy.hold();
        client.write_all(b"two").await.unwrap();
        drop(client);
        let silent = tokio::time::timeout(Duration::from_millis(200), read(&mut served)).await;
        assert!(silent.is_err(), "neither bytes nor the end");
        proxy.release();
        assert_eq!(read(&mut served).await.unwrap(), b"two");
        assert_eq!(read(&mut served).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn delayed_bytes_take_their_time_and_a_cut_is_a_reset() {
        let (proxy, mut client, mut served) = connected().await;
        let delay = Duration::from_millis(150);
        proxy.delay(delay);
        let sent = Instant::now();
        client.write_all(b"late").await.unwrap();
        assert_eq!(read(&mut served).await.unwrap(), b"late");
        assert!(sent.elapsed() >= delay);
        proxy.cut();
        for end in [&mut client, &mut served] {
            let error = read(end).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        assert_eq!(proxy.accepted().len(), 1);
    }
}
