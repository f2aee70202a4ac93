//! A provider that does exactly what a test wrote down, byte by byte.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// One step of an answer.
#[derive(Clone)]
pub(crate) enum Step {
    /// Bytes on the wire.
    Write(Vec<u8>),
    /// Time passes.
    Pause(Duration),
    /// Goes on when the test hands out a permit.
    Gate(Arc<Semaphore>),
    /// The connection breaks with a reset.
    Reset,
    /// The connection ends.
    Close,
    /// Nothing happens any more until the peer leaves.
    Hang,
}

pub(crate) type Script = Vec<Step>;

/// What arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(seen, _)| seen == name)
            .map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct Shared {
    scripts: Mutex<VecDeque<Script>>,
    fallback: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
    hanging: AtomicUsize,
    gone: AtomicUsize,
    written: AtomicUsize,
    decide: OnceLock<Decide>,
}

/// Chooses the script by the request.
type Decide = Box<dyn Fn(&Seen) -> Script + Send + Sync>;

/// Largest piece in which bytes are written, and so the grain of [`Upstream::written`].
const PIECE_BYTES: usize = 64 * 1024;

/// A listening provider. It stops with the test's runtime.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Upstream {
    /// A provider that gives `fallback` whenever no other script waits.
    pub(crate) async fn start(fallback: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Self {
            address: listener.local_addr().unwrap(),
            shared: Arc::default(),
        };
        upstream.always(fallback);
        let shared = Arc::clone(&upstream.shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        upstream
    }

    /// A provider whose answer depends on the request.
    pub(crate) async fn deciding(decide: impl Fn(&Seen) -> Script + Send + Sync + 'static) -> Self {
        let upstream = Self::start(Vec::new()).await;
        assert!(upstream.shared.decide.set(Box::new(decide)).is_ok());
        upstream
    }

    /// The script for the next request without one.
    pub(crate) fn next(&self, script: Script) {
        self.shared.scripts.lock().unwrap().push_back(script);
    }

    pub(crate) fn always(&self, script: Script) {
        *self.shared.fallback.lock().unwrap() = script;
    }

    /// Forgets the scripts nobody came for.
    pub(crate) fn clear(&self) {
        self.shared.scripts.lock().unwrap().clear();
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub(crate) fn hits(&self) -> usize {
        self.shared.seen.lock().unwrap().len()
    }

    /// How many scripts have come to where they hang.
    pub(crate) fn hanging(&self) -> usize {
        self.shared.hanging.load(Ordering::Relaxed)
    }

    /// How many peers have left while a script hung or wrote.
    pub(crate) fn gone(&self) -> usize {
        self.shared.gone.load(Ordering::Relaxed)
    }

    /// Bytes that the system has taken from all scripts so far.
    pub(crate) fn written(&self) -> usize {
        self.shared.written.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    while let Some(seen) = read(&mut stream).await {
        let decided = shared.decide.get().map(|decide| decide(&seen));
        shared.seen.lock().unwrap().push(seen);
        let script = decided
            .or_else(|| shared.scripts.lock().unwrap().pop_front())
            .unwrap_or_else(|| shared.fallback.lock().unwrap().clone());
        for step in script {
            match step {
                Step::Write(bytes) => {
                    for piece in bytes.chunks(PIECE_BYTES) {
                        if stream.write_all(piece).await.is_err() {
                            shared.gone.fetch_add(1, Ordering::Relaxed);
                            return;
                        }
                        shared.written.fetch_add(piece.len(), Ordering::Relaxed);
                    }
                }
                Step::Pause(time) => tokio::time::sleep(time).await,
                Step::Gate(gate) => gate.acquire().await.unwrap().forget(),
                Step::Reset => {
                    let _ = stream.set_zero_linger();
                    return;
                }
                Step::Close => return,
                Step::Hang => {
                    shared.hanging.fetch_add(1, Ordering::Relaxed);
                    let mut byte = [0u8; 1];
                    let _ = stream.read(&mut byte).await;
                    shared.gone.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let mut chunk = [0u8; 16 * 1024];
        let read = stream
            .read(&mut chunk)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = bytes[end..].to_vec();
    while body.len() < length {
        let mut chunk = vec![0u8; length - body.len()];
        let read = stream
            .read(&mut chunk)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        body.extend_from_slice(&chunk[..read]);
    }
    Some(Seen {
        path,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// A whole answer.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Script {
    let extra: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    vec![Step::Write(
        format!(
            "HTTP/1.1 {status} X\r\n{extra}content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )]
}

pub(crate) fn json(status: u16, body: &str) -> Script {
    answer(status, &[("content-type", "application/json")], body)
}

/// A good chat completion that says `text`.
pub(crate) fn completion(text: &str) -> Script {
    json(200, &completion_body(text))
}

pub(crate) fn completion_body(text: &str) -> String {
    format!(
        r#"{{"id":"c","object":"chat.completion","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}]}}"#
    )
}

/// The head of an event stream.
pub(crate) fn stream_head() -> Step {
    Step::Write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec(),
    )
}

/// One HTTP chunk.
pub(crate) fn chunk(text: &str) -> Step {
    Step::Write(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

/// The regular end of a chunked body.
pub(crate) fn stream_end() -> Step {
    Step::Write(b"0\r\n\r\n".to_vec())
}

/// A frame of a chat completion stream.
pub(crate) fn delta(text: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

pub(crate) const ROLE: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
pub(crate) const FINISH: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
pub(crate) const DONE: &str = "data: [DONE]\n\n";
pub(crate) const ERROR_FRAME: &str = "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\",\"code\":\"server_error\"}}\n\n";

/// A good stream that says each of `texts`.
pub(crate) fn stream(texts: &[&str]) -> Script {
    let mut script = vec![stream_head(), chunk(ROLE)];
    script.extend(texts.iter().map(|text| chunk(&delta(text))));
    script.extend([chunk(FINISH), chunk(DONE), stream_end()]);
    script
}
