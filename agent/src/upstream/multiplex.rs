//! HTTP/2 connections of one worker, shared by its requests.
//!
//! A request takes a place on a connection that has one. When none has, one more connection is
//! opened for all who wait, by a task that outlives any of them: a caller that leaves must not
//! break off what others wait for, and a burst at a cold start is one handshake, not hundreds.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use h2::{Ping, PingPong};
use lanekeeper_model::gateway::HttpVersion;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::connect::connect;
use super::error::{Error, ErrorKind};
use super::http1;
use super::http2::{self, Channel, Driven, Lease, Load};
use super::idle::{IDLE_TIMEOUT, IdlePool};
use super::target::{Target, TargetKey};
use super::tls::{Offer, Tls};
use crate::clock;

/// HTTP/2 connections to one target that take requests; beyond their streams a request waits.
pub const MAX_CONNECTIONS_PER_TARGET: usize = 64;
/// How often a connection in use is asked whether its peer is still there, and how long the peer
/// may take to say so. An idle one is not asked: some servers count that as abuse.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Beats after which an unused connection is closed.
const IDLE_BEATS: u64 = IDLE_TIMEOUT.as_secs() / PING_INTERVAL.as_secs();
/// How long a peer that chose HTTP/1.1 is not offered anything else.
const HTTP1_MEMORY: Duration = Duration::from_secs(600);

/// The HTTP/2 connections of one worker.
#[derive(Debug)]
pub(super) struct Multiplex {
    places: Mutex<HashMap<TargetKey, Place>>,
    idle: Arc<IdlePool>,
    tls: Tls,
    /// Connections opened so far, which numbers them.
    opened: AtomicU64,
    beat: Duration,
}

/// What is known of one target.
#[derive(Debug, Default)]
struct Place {
    channels: Vec<Numbered>,
    dialing: Option<watch::Receiver<Option<Dialed>>>,
    /// Told when a stream may be free.
    room: Arc<Notify>,
    /// Since when the peer is known to speak HTTP/1.1 only.
    http1_since: Option<Instant>,
}

/// A connection and its number, counted from 1.
#[derive(Debug)]
struct Numbered {
    number: u64,
    channel: Channel,
}

type Dialed = Result<(), Error>;

/// How to send a request.
#[derive(Debug)]
pub(super) enum Way {
    /// On a stream of an open connection.
    Stream(Lease, Seen),
    /// The peer speaks HTTP/1.1: over a connection of the request's own.
    Http1,
}

/// The connections there were when a request got its place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// The one it got.
    own: u64,
    newest: u64,
}

impl Multiplex {
    pub(super) fn new(idle: Arc<IdlePool>, tls: Tls) -> Self {
        Self {
            places: Mutex::default(),
            idle,
            tls,
            opened: AtomicU64::new(0),
            beat: PING_INTERVAL,
        }
    }

    #[cfg(test)]
    pub(super) fn with_beat(idle: Arc<IdlePool>, tls: Tls, beat: Duration) -> Self {
        Self {
            beat,
            ..Self::new(idle, tls)
        }
    }

    /// Waits for a way to a target that may speak HTTP/2, over a connection that is newer than
    /// `seen`. Everyone who waits for a connection that cannot be opened gets its error.
    pub(super) async fn way(self: &Arc<Self>, target: &Target, seen: Seen) -> Result<Way, Error> {
        loop {
            let (room, dialing) = {
                let mut places = self.places.lock();
                let place = match places.get_mut(target.key()) {
                    Some(place) => place,
                    None => places.entry(target.key().clone()).or_default(),
                };
                if place.speaks_http1() {
                    return Ok(Way::Http1);
                }
                if let Some((lease, seen)) = place.lease(seen, self.opened.load(Ordering::Relaxed))
                {
                    return Ok(Way::Stream(lease, seen));
                }
                if place.dialing.is_none() && place.channels.len() < MAX_CONNECTIONS_PER_TARGET {
                    place.dialing = Some(self.dial(target.clone()));
                }
                let mut room = Box::pin(Arc::clone(&place.room).notified_owned());
                // From here on nothing is missed.
                room.as_mut().enable();
                (room, place.dialing.clone())
            };
            tokio::select! {
                () = room => {}
                dialed = outcome(dialing) => dialed?,
            }
        }
    }

    /// Sends no more requests over the connection a request got: the peer did not work on it.
    pub(super) fn retire(&self, target: &Target, seen: Seen) {
        if let Some(place) = self.places.lock().get_mut(target.key()) {
            place.remove(seen.own);
        }
    }

    /// The peer wants HTTP/1.1.
    pub(super) fn demote(&self, target: &Target) {
        self.with_place(target.key(), |place| {
            place.http1_since = Some(clock::now());
            place.channels.clear();
        });
    }

    /// Opens a connection for whoever waits, in a task.
    fn dial(self: &Arc<Self>, target: Target) -> watch::Receiver<Option<Dialed>> {
        let (sender, receiver) = watch::channel(None);
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            let sign = Dialing {
                pool: &pool,
                key: target.key(),
            };
            let opened = pool.open(&target).await;
            drop(sign);
            sender.send_replace(Some(opened));
        });
        receiver
    }

    async fn open(self: &Arc<Self>, target: &Target) -> Dialed {
        let is_fixed = target.version() == HttpVersion::Http2;
        let offer = if is_fixed { Offer::Http2 } else { Offer::Both };
        let transport = connect(target, &self.tls, offer).await?;
        let is_agreed = transport.speaks_http2() || (is_fixed && !transport.is_tls());
        if is_fixed && !is_agreed {
            let error = Error::new(ErrorKind::Protocol, "the peer does not agree to HTTP/2");
            return Err(error);
        }
        if !is_agreed {
            let link = http1::Link::open(transport).await?;
            self.with_place(target.key(), |place| {
                place.http1_since = Some(clock::now());
            });
            self.idle.put(target.key(), link);
            return Ok(());
        }
        let opened = tokio::time::timeout(target.connect_timeout(), http2::open(transport)).await;
        let (channel, connection) = opened
            .map_err(|_| Error::new(ErrorKind::Timeout, "no settings from the peer in time"))??;
        let load = channel.load();
        let number = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let room = self.with_place(target.key(), |place| {
            place.channels.push(Numbered { number, channel });
            Arc::clone(&place.room)
        });
        let seat = Seat {
            pool: Arc::downgrade(self),
            key: target.key().clone(),
            number,
            load,
            room,
        };
        tokio::spawn(drive(connection, seat, self.beat));
        Ok(())
    }

    fn with_place<T>(&self, key: &TargetKey, change: impl FnOnce(&mut Place) -> T) -> T {
        change(self.places.lock().entry(key.clone()).or_default())
    }

    /// Changes what is known of a target, and forgets the target when that is nothing.
    fn change_or_forget(&self, key: &TargetKey, change: impl FnOnce(&mut Place)) {
        let mut places = self.places.lock();
        let Some(place) = places.get_mut(key) else {
            return;
        };
        change(place);
        let is_blank =
            place.channels.is_empty() && place.dialing.is_none() && place.http1_since.is_none();
        if is_blank {
            places.remove(key);
        }
    }

    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        let mut places = self.places.lock();
        places
            .values_mut()
            .map(|place| {
                place
                    .channels
                    .retain_mut(|numbered| numbered.channel.is_live());
                place.channels.len()
            })
            .sum()
    }
}

impl Place {
    fn speaks_http1(&mut self) -> bool {
        let fresh = |since| clock::now().saturating_duration_since(since) < HTTP1_MEMORY;
        self.http1_since = self.http1_since.filter(|since| fresh(*since));
        self.http1_since.is_some()
    }

    fn lease(&mut self, seen: Seen, newest: u64) -> Option<(Lease, Seen)> {
        self.channels
            .retain_mut(|numbered| numbered.channel.is_live());
        self.channels
            .iter_mut()
            .filter(|numbered| numbered.number > seen.newest)
            .find_map(|numbered| {
                let own = numbered.number;
                let lease = numbered.channel.lease(&self.room)?;
                Some((lease, Seen { own, newest }))
            })
    }

    fn remove(&mut self, number: u64) {
        self.channels.retain(|numbered| numbered.number != number);
    }
}

/// Takes the sign down that a connection is being opened, also when the task ends by a panic.
struct Dialing<'a> {
    pool: &'a Multiplex,
    key: &'a TargetKey,
}

impl Drop for Dialing<'_> {
    fn drop(&mut self) {
        self.pool
            .change_or_forget(self.key, |place| place.dialing = None);
    }
}

/// How the opening of a connection ended; never, when none is being opened.
async fn outcome(dialing: Option<watch::Receiver<Option<Dialed>>>) -> Dialed {
    let Some(mut dialing) = dialing else {
        return std::future::pending().await;
    };
    match dialing.wait_for(Option::is_some).await {
        Ok(dialed) => dialed.clone().unwrap_or(Ok(())),
        Err(_) => Err(Error::new(ErrorKind::Connect, "connecting was broken off")),
    }
}

/// What a connection's task knows of the pool.
struct Seat {
    pool: Weak<Multiplex>,
    key: TargetKey,
    number: u64,
    load: Arc<Load>,
    room: Arc<Notify>,
}

impl Seat {
    /// No further request goes out on the connection; it ends with its last stream.
    fn leave(&self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        pool.change_or_forget(&self.key, |place| place.remove(self.number));
    }
}

/// Drives a connection until it ends, and ends it when it is idle or its peer is gone.
async fn drive(mut connection: Driven, seat: Seat, beat: Duration) {
    let mut pulse = Pulse::new(connection.ping_pong());
    let mut streams = connection.max_concurrent_send_streams();
    loop {
        let mut sleep = pin!(tokio::time::sleep(beat));
        let ended = poll_fn(|cx| {
            if Pin::new(&mut connection).poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            pulse.listen(cx);
            let now = connection.max_concurrent_send_streams();
            if std::mem::replace(&mut streams, now) < now {
                seat.room.notify_waiters();
            }
            sleep.as_mut().poll(cx).map(|()| false)
        })
        .await;
        if ended {
            break;
        }
        match pulse.beat(&seat.load) {
            Beat::Fine => {}
            Beat::Idle => seat.leave(),
            Beat::Dead => {
                tracing::debug!("a connection's peer does not answer pings");
                break;
            }
        }
    }
    // Streams that still run learn of the end before anyone waits for their places.
    drop(connection);
    seat.leave();
    seat.room.notify_waiters();
}

/// The state of a connection between two beats.
struct Pulse {
    pings: Option<PingPong>,
    /// A ping is under way.
    asked: bool,
    /// Requests up to the last beat.
    served: usize,
    /// Beats without a request.
    idle: u64,
}

enum Beat {
    Fine,
    /// Nobody has used it for as long as a connection may be kept.
    Idle,
    /// The peer did not answer a ping.
    Dead,
}

impl Pulse {
    fn new(pings: Option<PingPong>) -> Self {
        Self {
            pings,
            asked: false,
            served: 0,
            idle: 0,
        }
    }

    fn listen(&mut self, cx: &mut std::task::Context<'_>) {
        if let (Some(pings), true) = (&mut self.pings, self.asked) {
            self.asked = pings.poll_pong(cx).is_pending();
        }
    }

    fn beat(&mut self, load: &Load) -> Beat {
        if self.asked {
            return Beat::Dead;
        }
        let served = std::mem::replace(&mut self.served, load.served());
        if load.open() > 0 {
            self.idle = 0;
            if let Some(pings) = &mut self.pings {
                self.asked = pings.send_ping(Ping::opaque()).is_ok();
            }
            return Beat::Fine;
        }
        self.idle = if served == self.served {
            self.idle.saturating_add(1)
        } else {
            0
        };
        if self.idle >= IDLE_BEATS {
            Beat::Idle
        } else {
            Beat::Fine
        }
    }
}
