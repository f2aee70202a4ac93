//! Lanes that send more than anyone asked for: faster than the rest of a thread can bear, or behind
//! the end of their answers.

use crate::dialects::{ALL, Dialect};
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Step, Upstream, chunk, delta, stream_head};
use lanekeeper_agent::plane::{Applied, DrainSignal, Plane};
use lanekeeper_model::ConfigSource;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Calls beside the flood.
const CALLS: usize = 9;
/// What the flood may advance while one of them waits, in the middle of all. Without a bound on one
/// stretch it is 15 MB.
const ADVANCE_MAX_BYTES: u64 = 2_000_000;

/// A provider on a thread of its own whose one answer never ends: one frame in each HTTP chunk, and
/// each chunk written by itself. The barrier is for when nobody takes any more of it.
fn endless(full: Arc<Barrier>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        let steps = [stream_head(), chunk(&delta("x"))];
        let [Step::Write(head), Step::Write(frame)] = &steps else {
            panic!("two writes");
        };
        stream.set_nodelay(true).unwrap();
        stream.write_all(head).unwrap();
        stream.set_nonblocking(true).unwrap();
        let written = loop {
            match stream.write(frame) {
                Ok(written) if written == frame.len() => {}
                Ok(written) => break written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break 0,
                Err(error) => panic!("{error}"),
            }
        };
        full.wait();
        stream.set_nonblocking(false).unwrap();
        stream.write_all(&frame[written..]).unwrap();
        while stream.write_all(frame).is_ok() {}
    });
    address
}

/// An agent of one worker, on a thread of its own.
fn worker(document: &str) -> SocketAddr {
    let listener = lanekeeper_serve::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    let address = listener.local_addr().unwrap();
    let plane = Plane::new();
    let applied = Applied {
        revision: 1,
        hash: String::new(),
        source: ConfigSource::File,
    };
    let checked = lanekeeper_model::document::check_yaml(document).unwrap();
    plane.apply(checked.gateway, applied);
    let drain = DrainSignal {
        retiring: CancellationToken::new(),
        closing: CancellationToken::new(),
        grace: Duration::ZERO,
    };
    thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(plane.serve(listener, drain));
    });
    address
}

/// A caller of the flood. Dropping it leaves, which ends the flood.
#[derive(Default)]
struct Swallower {
    swallowed: Arc<AtomicU64>,
    leaves: Arc<AtomicBool>,
}

impl Swallower {
    /// Reads the flood as fast as it comes once all buffers are full of it.
    fn start(agent: SocketAddr, full: Arc<Barrier>) -> Self {
        let this = Self::default();
        let (swallowed, leaves) = (Arc::clone(&this.swallowed), Arc::clone(&this.leaves));
        thread::spawn(move || {
            let body = r#"{"model":"a","stream":true,"messages":[]}"#;
            let request = format!(
                "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let mut stream = TcpStream::connect(agent).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            full.wait();
            let mut piece = vec![0; 1 << 20];
            while !leaves.load(Ordering::Relaxed) {
                let read = stream.read(&mut piece).unwrap();
                swallowed.fetch_add(read as u64, Ordering::Relaxed);
            }
        });
        this
    }

    fn passed(&self) -> u64 {
        self.swallowed.load(Ordering::Relaxed)
    }
}

impl Drop for Swallower {
    fn drop(&mut self) {
        self.leaves.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn stream_that_is_always_ready_leaves_others_their_turn() {
    let full = Arc::new(Barrier::new(2));
    let lane = endless(Arc::clone(&full));
    let agent = worker(&Document::new().lane_at("a", lane, 1, "").yaml());
    let flood = Swallower::start(agent, full);
    eventually("the flood runs", || flood.passed() > 10_000_000).await;
    let mut advances = Vec::new();
    for _ in 0..CALLS {
        let before = flood.passed();
        let mut stream = TcpStream::connect(agent).unwrap();
        stream
            .write_all(b"GET /v1/models/a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        advances.push(flood.passed() - before);
    }
    advances.sort_unstable();
    assert!(advances[CALLS / 2] < ADVANCE_MAX_BYTES, "{advances:?}");
}

/// The caller has the content, and `behind` follows the end of the answer.
async fn after_the_end(dialect: &Dialect, behind: Vec<Step>) -> (crate::caller::Got, Upstream) {
    let gate = Arc::new(Semaphore::new(0));
    let mut script = vec![
        stream_head(),
        chunk(&[dialect.lifecycle, dialect.content].concat()),
        Step::Gate(Arc::clone(&gate)),
        chunk(dialect.end),
    ];
    script.extend(behind);
    script.push(Step::Hang);
    let a = Upstream::start(script).await;
    let agent: Agent = dialect.agent(&Document::new().lane("a", &a)).await;
    let mut answer = dialect.ask(true).begin(agent.address).await;
    answer.until(dialect.content).await;
    gate.add_permits(1);
    let got = answer.rest().await;
    assert!(got.whole, "{}: the answer was whole", dialect.protocol);
    agent.settles().await;
    let lane = agent.lane("a");
    assert_eq!(
        (&lane["ok"], &lane["failed"]),
        (&1.into(), &0.into()),
        "{}: {lane}",
        dialect.protocol
    );
    (got, a)
}

#[tokio::test]
async fn flood_behind_the_closing_frame_is_cut_off_and_the_answer_is_whole() {
    for dialect in ALL {
        let proper = [dialect.lifecycle, dialect.content, dialect.end].concat();
        // Gemini has no closing frame: other candidates may go on behind the end of one.
        let (filling, most) = if dialect.protocol == "gemini" {
            ("x".repeat(60_000), 16 * 1024 * 1024)
        } else {
            (String::new(), 16 * 1024)
        };
        let frame = dialect
            .content
            .replace("hello", &format!("after {filling}"));
        let flood = chunk(&frame.repeat(64 * 1024 / frame.len() + 1));
        let (got, a) = after_the_end(dialect, vec![flood; 300]).await;
        assert!(got.body.starts_with(&proper), "{}", dialect.protocol);
        assert!(
            got.body.len() <= proper.len() + most,
            "{}: {}",
            dialect.protocol,
            got.body.len()
        );
        assert!(got.body.ends_with("\n\n"), "{}", dialect.protocol);
        eventually("the lane is left", || a.gone() == 1).await;
    }
}

/// A line without an end is held, not passed, and must not be held for ever either.
#[tokio::test]
async fn endless_line_behind_the_closing_frame_is_cut_off() {
    let line = chunk(&"x".repeat(64 * 1024));
    let behind = [vec![chunk("data: ")], vec![line; 30]].concat();
    for dialect in ALL.into_iter().filter(|d| d.protocol != "gemini") {
        let (got, a) = after_the_end(dialect, behind.clone()).await;
        assert!(got.body.ends_with(dialect.end), "{}", dialect.protocol);
        eventually("the lane is left", || a.gone() == 1).await;
    }
}

/// The time behind the closing frame is one, however it is filled.
#[tokio::test]
async fn trickle_behind_the_closing_frame_does_not_keep_the_answer_open() {
    let dialect = ALL[0];
    let trickle = [
        chunk(dialect.content),
        Step::Pause(Duration::from_millis(250)),
    ];
    let behind = trickle.into_iter().cycle().take(2 * 60).collect();
    let (got, a) = after_the_end(dialect, behind).await;
    let passed = got.body.matches(dialect.content).count();
    assert!((2..50).contains(&passed), "{passed}");
    eventually("the lane is left", || a.gone() == 1).await;
}
