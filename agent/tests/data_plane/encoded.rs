//! Answers in a content coding that nobody asked for: they are judged like any other, and whoever
//! gets them gets them as they came.

use crate::caller::Got;
use crate::dialects::{ALL, Dialect, OPENAI};
use crate::gateway::{Agent, Document};
use crate::upstream::{Script, Step, Upstream, completion_body, json};
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use std::io::Write as _;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

fn gzip(plain: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn zlib(plain: &str) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(plain: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn encoded(kind: &str, coding: &str, body: &[u8]) -> Script {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-encoding: {coding}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    vec![Step::Write([head.as_bytes(), body].concat())]
}

/// A lane with this answer beside a good one.
async fn two(dialect: &Dialect, script: Script, good: Script) -> (Agent, Upstream) {
    let a = Upstream::start(script).await;
    let b = Upstream::start(good).await;
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_requests: 100")
        .lane("b", &b);
    (dialect.agent(&document).await, b)
}

/// The sibling answered, and the first lane was found at fault.
fn moved_on(got: &Got, agent: &Agent, kind: &str, case: &str) {
    assert_eq!((got.status.as_u16(), got.whole), (200, true), "{case}");
    assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{case}");
    let cell = agent.cell("chat", "a");
    assert_eq!(cell["window"]["failed"], 1, "{case}: {cell}");
    assert_eq!(cell["cause"]["kind"], kind, "{case}: {cell}");
}

#[tokio::test]
async fn error_in_a_compressed_200_goes_to_the_sibling() {
    for dialect in ALL {
        let error = dialect.whole_error;
        for (coding, body) in [
            ("gzip", gzip(error)),
            ("deflate", zlib(error)),
            ("deflate", raw_deflate(error)),
        ] {
            let case = format!("{} {coding}", dialect.protocol);
            let script = encoded(JSON, coding, &body);
            let (agent, _b) = two(dialect, script, json(200, dialect.whole)).await;
            let got = dialect.ask(false).send(agent.address).await;
            assert_eq!(got.body, dialect.whole, "{case}");
            agent.settles().await;
            let kind = agent.cell("chat", "a")["cause"]["kind"].clone();
            moved_on(&got, &agent, kind.as_str().unwrap(), &case);
            assert_ne!(kind, "bad_body", "{case}: the error was read");
        }
    }
}

#[tokio::test]
async fn compressed_answer_passes_byte_for_byte() {
    // Longer than errors are read, and longer than answers are held.
    let long = completion_body(&"x".repeat(200 * 1024));
    let noise: String = (0u32..300_000)
        .map(|at| char::from(b' ' + (at.wrapping_mul(2_654_435_761) >> 25) as u8 % 90))
        .filter(|letter| !matches!(letter, '"' | '\\'))
        .collect();
    let noisy = completion_body(&noise);
    for plain in [OPENAI.whole, &long, &noisy] {
        for (coding, body) in [("gzip", gzip(plain)), ("deflate", zlib(plain))] {
            let script = encoded(JSON, coding, &body);
            let (agent, b) = two(&OPENAI, script, json(503, "{}")).await;
            let answer = OPENAI.ask(false).begin(agent.address).await;
            assert!(answer.rest_of_bytes().await == body, "{coding}");
            agent.settles().await;
            assert_eq!((b.hits(), agent.lane("a")["ok"].clone()), (0, 1.into()));
        }
    }
}

/// A few hundred kilobytes that grow to 64 MiB are decoded up to the bound and no further.
#[tokio::test]
async fn bomb_is_not_blown_up() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let spaces = vec![b' '; 1 << 20];
    for _ in 0..64 {
        encoder.write_all(&spaces).unwrap();
    }
    let body = encoder.finish().unwrap();
    let (agent, _b) = two(&OPENAI, encoded(JSON, "gzip", &body), json(503, "{}")).await;
    let answer = OPENAI.ask(false).begin(agent.address).await;
    assert!(answer.rest_of_bytes().await == body);
}

#[tokio::test]
async fn what_cannot_be_decoded_is_a_bad_body() {
    let cut = &gzip(OPENAI.whole)[..40];
    let long = "notgzip".repeat(100_000);
    for (coding, body) in [
        ("gzip", &b"notgzip"[..]),
        ("gzip", long.as_bytes()),
        ("gzip", cut),
        ("deflate", b"notdeflate"),
        ("br", b"abcde"),
        ("zstd", b"(\xb5/\xfd"),
    ] {
        let script = encoded(JSON, coding, body);
        let (agent, _b) = two(&OPENAI, script, json(200, OPENAI.whole)).await;
        let got = OPENAI.ask(false).send(agent.address).await;
        agent.settles().await;
        moved_on(&got, &agent, "bad_body", coding);
    }
}

#[tokio::test]
async fn compressed_event_stream_is_a_bad_body() {
    for dialect in ALL {
        let frames = [dialect.lifecycle, dialect.content, dialect.end].concat();
        for body in [gzip(&frames), b"notgzip".to_vec()] {
            let script = encoded(EVENTS, "gzip", &body);
            let good = crate::dialects::ended(&[&frames]);
            let (agent, _b) = two(dialect, script, good).await;
            let got = dialect.ask(true).send(agent.address).await;
            assert_eq!(got.body, frames, "{}", dialect.protocol);
            agent.settles().await;
            moved_on(&got, &agent, "bad_body", dialect.protocol);
        }
    }
}

/// A document in a coding that nobody knows cannot be judged, and passes.
#[tokio::test]
async fn unknown_coding_of_a_document_passes_unjudged() {
    for dialect in ALL {
        let (agent, b) = two(dialect, encoded(JSON, "x-odd", b"???"), json(503, "{}")).await;
        let got = dialect.ask(false).send(agent.address).await;
        assert_eq!((got.status.as_u16(), &*got.body), (200, "???"), "{got:?}");
        assert_eq!(got.header("content-encoding"), Some("x-odd"));
        agent.settles().await;
        assert_eq!((b.hits(), agent.lane("a")["ok"].clone()), (0, 1.into()));
    }
}

/// Proxies and frameworks label event streams as they like.
#[tokio::test]
async fn event_stream_is_one_by_its_bytes_whatever_its_label() {
    for dialect in ALL {
        let frames = [dialect.lifecycle, dialect.content, dialect.end].concat();
        for (label, before) in [
            ("content-type: text/plain\r\n", ""),
            ("content-type: application/json\r\n", ": ping\n\n"),
            ("", "\n\n"),
        ] {
            {
                let body = format!("{before}{frames}");
                let head = format!(
                    "HTTP/1.1 200 OK\r\n{label}content-length: {}\r\n\r\n",
                    body.len()
                );
                let script = vec![Step::Write([head.as_bytes(), body.as_bytes()].concat())];
                let (agent, b) = two(dialect, script, json(503, "{}")).await;
                let got = dialect.ask(true).send(agent.address).await;
                let case = format!("{} {label:?}: {got:?}", dialect.protocol);
                assert_eq!((got.status.as_u16(), got.whole), (200, true), "{case}");
                assert_eq!(got.header("content-type"), Some(EVENTS), "{case}");
                assert!(got.body.ends_with(&frames), "{case}");
                agent.settles().await;
                let ok = agent.lane("a")["ok"].clone();
                assert_eq!((b.hits(), ok), (0, 1.into()), "{case}");
            }
        }
    }
}
