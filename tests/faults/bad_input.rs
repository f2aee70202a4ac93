//! Strangers at the doors of a control plane and an API: each is refused in the right shape, holds
//! no memory, and nobody else notices.

use futures_util::future::{self, join_all};
use lanekeeper_tests::{Cluster, History, Process, Written, eventually};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const BACK: Duration = Duration::from_secs(45);
/// Memory that all strangers together may cost.
const GROWTH_MAX_MIB: u64 = 64;
const SESSIONS: &str = "lanekeeper_sessions";

/// Follows a process's memory until `harm` is over; the highest growth.
async fn growth_during(process: &Process, harm: impl Future<Output = ()>) -> u64 {
    let before = process.resident_mib();
    let most = AtomicU64::new(before);
    let watch = async {
        loop {
            most.fetch_max(process.resident_mib(), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = watch => {}
        () = harm => {}
    }
    most.fetch_max(process.resident_mib(), Ordering::Relaxed);
    most.into_inner() - before
}

/// What came in answer, and whether the other end closed the connection.
struct Answer {
    bytes: Vec<u8>,
    is_closed: bool,
}

/// Sends bytes and reads what comes until the other end closes or is silent for a while.
async fn exchange(address: &str, parts: &[&[u8]]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let write = async {
        for part in parts {
            // The server may have answered and closed before it received everything.
            if writer.write_all(part).await.is_err() {
                return;
            }
        }
    };
    let read = async {
        let (mut bytes, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
        loop {
            let next = tokio::time::timeout(Duration::from_secs(3), reader.read(&mut chunk));
            match next.await {
                Ok(Ok(length @ 1..)) => bytes.extend_from_slice(&chunk[..length]),
                ended => {
                    let is_closed = ended.is_ok();
                    return Answer { bytes, is_closed };
                }
            }
        }
    };
    let bound = Duration::from_secs(20);
    let ((), answer) = tokio::time::timeout(bound, future::join(write, read))
        .await
        .expect("an end");
    answer
}

/// Asserts that an answer of HTTP/1.1 has this status, and a problem as its body.
fn refused(what: &str, answer: &Answer, status: u16) {
    let text = String::from_utf8_lossy(&answer.bytes);
    assert!(
        text.starts_with(&format!("HTTP/1.1 {status}")),
        "{what}: {text}"
    );
    let is_problem = text
        .to_ascii_lowercase()
        .contains("content-type: application/problem+json");
    assert!(is_problem, "{what}: {text}");
}

fn gzip_bomb() -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&vec![b' '; 16 << 20]).unwrap();
    // Members may follow each other: a gibibyte unpacked.
    encoder.finish().unwrap().repeat(64)
}

#[tokio::test]
async fn the_api_refuses_bombs_floods_and_slow_bodies_and_answers_others_meanwhile() {
    /// Requests that never come to their end.
    const SLOW: usize = 200;
    let cluster = Cluster::start(1, 1).await.unwrap();
    let history = cluster.watch();
    let api = &cluster.apis[0];
    let address = api.address("http");
    let head = |more: &str| {
        format!(
            "PUT /admin/v1/gateways/edge/config HTTP/1.1\r\nhost: api\r\nconnection: close\r\n\
             authorization: Bearer {}\r\nif-match: *\r\ncontent-type: application/json\r\n{more}\r\n",
            cluster.token
        )
    };
    let harm = async {
        let bomb = gzip_bomb();
        let zipped = head(&format!(
            "content-encoding: gzip\r\ncontent-length: {}\r\n",
            bomb.len()
        ));
        let answer = exchange(address, &[zipped.as_bytes(), &bomb]).await;
        refused("a gzip bomb", &answer, 415);

        let long = head(&format!("x-long: {}\r\n", "y".repeat(256 << 10)));
        refused(
            "a long header",
            &exchange(address, &[long.as_bytes()]).await,
            431,
        );
        let many = head(&"x-many: y\r\n".repeat(2_000));
        refused(
            "many headers",
            &exchange(address, &[many.as_bytes()]).await,
            431,
        );

        let garbage = exchange(address, &[b"\x16\x03\x01\x02\x00\x01\r\n\r\n"]).await;
        refused("no HTTP", &garbage, 400);

        let deep = vec![b'['; 4 << 20];
        let deep_head = head(&format!("content-length: {}\r\n", deep.len()));
        let answer = exchange(address, &[deep_head.as_bytes(), &deep]).await;
        refused("deep JSON", &answer, 400);

        let huge = head(&format!("content-length: {}\r\n", 1_u64 << 40));
        let answer = exchange(address, &[huge.as_bytes()]).await;
        refused("a stated length of a tebibyte", &answer, 413);
        // No length: it grows until somebody says stop.
        let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 1 << 16], b"\r\n"].concat();
        let mut parts = vec![head("transfer-encoding: chunked\r\n").into_bytes()];
        parts.extend(std::iter::repeat_n(chunk, 512));
        let parts: Vec<_> = parts.iter().map(Vec::as_slice).collect();
        refused("endless chunks", &exchange(address, &parts).await, 413);

        // Many heads and bodies that never come to their end.
        let started = head("content-length: 1000\r\n");
        let slow = join_all((0..SLOW).map(|number| {
            let started = &started;
            async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let bytes = if number % 2 == 0 {
                    started.as_bytes()
                } else {
                    &started.as_bytes()[..40]
                };
                stream.write_all(bytes).await.unwrap();
                stream
            }
        }))
        .await;
        assert_eq!(
            cluster.commit(&history, 0, &cluster.document(2)).await,
            Written::Confirmed(2)
        );
        drop(slow);
        // Each of these strangers has the right to write, and so an entry of its own if it got so
        // far.
        for _ in 0..SLOW + 6 {
            history.wrote(&Written::Unknown);
        }
    };
    let growth = growth_during(api, harm).await;
    println!("{growth} MiB more at most");
    assert!(growth <= GROWTH_MAX_MIB, "{growth} MiB");
    history.judge(&cluster).await;
}

/// HTTP/2 by hand (RFC 9113), to say what no library would.
mod frames {
    pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PING: u8 = 6;
    pub(super) const CONTINUATION: u8 = 9;
    pub(super) const END_STREAM: u8 = 1;
    pub(super) const END_HEADERS: u8 = 4;

    pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [length[1], length[2], length[3], kind, flags];
        [&head[..], &stream.to_be_bytes(), payload].concat()
    }

    /// A field without indexing or compression (RFC 7541, 6.2.2); lengths below 127.
    fn field(name: &str, value: &str) -> Vec<u8> {
        let length = |text: &str| u8::try_from(text.len()).unwrap();
        let (name_length, value_length) = (length(name), length(value));
        assert!(
            name_length < 127 && value_length < 127,
            "longer than a byte can count"
        );
        [
            &[0, name_length],
            name.as_bytes(),
            &[value_length],
            value.as_bytes(),
        ]
        .concat()
    }

    pub(super) fn fields(of: &[(&str, &str)]) -> Vec<u8> {
        of.iter()
            .flat_map(|(name, value)| field(name, value))
            .collect()
    }

    /// What begins a session.
    pub(super) fn call(more: &[(&str, &str)]) -> Vec<u8> {
        let usual = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/lanekeeper.fleet.v1.Fleet/Session"),
            (":authority", "plane"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        [fields(&usual), fields(more)].concat()
    }

    /// The kinds, flags and streams of the frames that came.
    pub(super) fn kinds(mut bytes: &[u8]) -> Vec<(u8, u8, u32)> {
        let mut kinds = Vec::new();
        while let [a, b, c, kind, flags, s, t, u, v, rest @ ..] = bytes {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            kinds.push((*kind, *flags, u32::from_be_bytes([*s, *t, *u, *v])));
            bytes = rest.get(length..).unwrap_or_default();
        }
        kinds
    }
}

/// Each stranger by name, what it says at first, and what it says again and again.
fn floods() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    use frames::*;
    let reset: Vec<u8> = (0..500_u32)
        .flat_map(|number| {
            let stream = number * 2 + 1;
            let open = frame(HEADERS, END_HEADERS, stream, &call(&[]));
            [open, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
        })
        .collect();
    let many = vec![("x", "y"); 500];
    let unending = frame(HEADERS, 0, 1, &call(&[]));
    vec![
        ("rapid resets", reset, Vec::new()),
        (
            "settings",
            Vec::new(),
            frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]).repeat(1000),
        ),
        ("pings", Vec::new(), frame(PING, 0, 0, &[0; 8]).repeat(1000)),
        (
            "headers without end",
            unending,
            frame(CONTINUATION, 0, 1, &fields(&many)),
        ),
        (
            "empty data",
            frame(HEADERS, END_HEADERS, 1, &call(&[])),
            frame(DATA, 0, 1, &[]).repeat(1000),
        ),
    ]
}

/// What came of a flood.
#[derive(Debug)]
struct Flooded {
    /// Bytes that the other end took, or that wait in the sockets.
    said: u64,
    /// The other end broke the connection off.
    is_lost: bool,
}

/// Says it until the other end has enough or the time is over; `listens` says whether the answers
/// are read meanwhile.
async fn flood(
    address: &str,
    first: &[u8],
    again: &[u8],
    listens: bool,
    until: Instant,
) -> Flooded {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut said = 0;
    let talk = async {
        let start = [
            frames::PREFACE,
            &frames::frame(frames::SETTINGS, 0, 0, &[]),
            first,
        ]
        .concat();
        writer.write_all(&start).await?;
        while !again.is_empty() {
            writer.write_all(again).await?;
            said += again.len() as u64;
            tokio::task::yield_now().await;
        }
        // Somebody waits for what comes of it.
        future::pending::<std::io::Result<()>>().await
    };
    let mut chunk = vec![0; 64 * 1024];
    let listen = async {
        while listens && matches!(reader.read(&mut chunk).await, Ok(1..)) {}
        if !listens {
            future::pending::<()>().await;
        }
    };
    let until = tokio::time::Instant::from_std(until);
    let is_broken = tokio::select! {
        _ = talk => true,
        () = listen => true,
        () = tokio::time::sleep_until(until) => false,
    };
    let rest = async { while let Ok(1..) = reader.read(&mut chunk).await {} };
    let ended = tokio::time::timeout(Duration::from_secs(1), rest).await;
    let is_lost = is_broken || ended.is_ok();
    Flooded { said, is_lost }
}

/// Floods addresses in every way, some listening and some not, one way after the other; each flood
/// must be broken off, and a revision get through meanwhile.
async fn flooded(cluster: &Cluster, history: &History, addresses: &[&str], weight: u64) {
    for (number, (what, first, again)) in floods().into_iter().enumerate() {
        let until = Instant::now() + Duration::from_secs(1);
        let all = addresses
            .iter()
            .flat_map(|address| [false, false, true, true].map(|listens| (address, listens)))
            .map(|(address, listens)| flood(address, &first, &again, listens, until));
        let weight = weight + number as u64;
        let (all, ()) = future::join(join_all(all), unaffected(cluster, history, weight)).await;
        let said = all.iter().map(|it| it.said).max();
        println!("{what}: broken off after {said:?} bytes at most");
        for flooded in all {
            assert!(flooded.is_lost, "{what}: {flooded:?}");
        }
    }
}

async fn unaffected(cluster: &Cluster, history: &History, weight: u64) {
    let document = cluster.document(weight);
    let written = cluster.commit(history, 0, &document).await;
    assert_eq!(written, Written::Confirmed(weight));
    let took = cluster.converged(weight, BACK).await;
    println!("meanwhile revision {weight} was everywhere after {took:?}");
}

#[tokio::test]
async fn the_grpc_port_ends_malformed_calls_and_floods_and_agents_keep_their_sessions() {
    use frames::*;
    let cluster = Cluster::start(1, 2).await.unwrap();
    cluster.all_live(BACK).await;
    let history = cluster.watch();
    let plane = &cluster.control_planes[0];
    let address = plane.address("grpc");
    let harm = async {
        // What is no HTTP/2 at all, or an attack on it, loses its connection.
        let attack = |wanted: &str| {
            let mut floods = floods().into_iter();
            let (what, first, again) = floods.find(|(what, ..)| *what == wanted).unwrap();
            let start = frame(SETTINGS, 0, 0, &[]);
            (what, [PREFACE, &start, &first, &again.repeat(200)].concat())
        };
        for (what, bytes) in [
            attack("rapid resets"),
            attack("headers without end"),
            (
                "HTTP/1.1",
                b"GET / HTTP/1.1\r\nhost: plane\r\n\r\n".to_vec(),
            ),
            (
                "noise",
                (0..100_000_u32).map(|it| (it * 31 % 251) as u8).collect(),
            ),
            (
                "a frame larger than agreed",
                [
                    PREFACE,
                    &frame(SETTINGS, 0, 0, &[]),
                    &frame(DATA, 0, 1, &vec![0; 1 << 20]),
                ]
                .concat(),
            ),
        ] {
            let answer = exchange(address, &[&bytes]).await;
            let frames = kinds(&answer.bytes);
            assert!(answer.is_closed, "{what}: {frames:?}");
        }
        // Calls that are HTTP/2 and no calls of ours: the stream ends, the connection stays.
        let (huge, packed) = ([0, 0xff, 0xff, 0xff, 0xff], [1, 0, 0, 0, 3, 1, 2, 3]);
        let noise = [0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff];
        let many: Vec<_> = (0..600)
            .map(|_| ("x-many", "a value of thirty-two characters"))
            .collect();
        let ended = |what: &'static str, head: Vec<u8>, data: Vec<u8>| async move {
            let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
            let parts: Vec<_> = head.chunks(16_000).collect();
            for (number, part) in parts.iter().enumerate() {
                let is_last = number + 1 == parts.len();
                let kind = if number == 0 { HEADERS } else { CONTINUATION };
                bytes.extend(frame(kind, if is_last { END_HEADERS } else { 0 }, 1, part));
            }
            if !data.is_empty() {
                bytes.extend(frame(DATA, 0, 1, &data));
            }
            let answer = exchange(address, &[&bytes]).await;
            let frames = kinds(&answer.bytes);
            let is_ended = frames.iter().any(|(kind, flags, stream)| {
                let ends = *kind == RST_STREAM || *kind == HEADERS && flags & END_STREAM != 0;
                *stream == 1 && ends
            });
            assert!(is_ended && !answer.is_closed, "{what}: {frames:?}");
        };
        tokio::join!(
            ended("a message of 4 GiB", call(&[]), huge.to_vec()),
            ended(
                "a message said to be compressed",
                call(&[("grpc-encoding", "gzip")]),
                packed.to_vec(),
            ),
            ended("no protobuf", call(&[]), noise.to_vec()),
            ended("too many headers", call(&many), Vec::new()),
        );
        unaffected(&cluster, &history, 2).await;
        flooded(&cluster, &history, &[address], 3).await;
    };
    let growth = growth_during(plane, harm).await;
    println!("{growth} MiB more at most");
    assert!(growth <= GROWTH_MAX_MIB, "{growth} MiB");
    eventually("only the agents are left", BACK, || async {
        match cluster.metric(plane, SESSIONS).await {
            Ok(2.0) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
    cluster.all_live(BACK).await;
    history.judge(&cluster).await;
}

#[tokio::test]
async fn floods_of_http2_lose_their_connection_at_every_http_port() {
    let cluster = Cluster::start(1, 2).await.unwrap();
    let history = cluster.watch();
    let (api, plane, agent) = (
        &cluster.apis[0],
        &cluster.control_planes[0],
        &cluster.agents[0],
    );
    let addresses = [
        api.address("http"),
        plane.address("ops"),
        agent.address("proxy"),
        agent.address("ops"),
    ];
    let processes = [api, plane, agent];
    let before = processes.map(Process::resident_mib);
    let harm = flooded(&cluster, &history, &addresses, 2);
    let growth = growth_during(agent, harm).await;
    let growths = processes
        .iter()
        .zip(before)
        .map(|(process, before)| process.resident_mib().saturating_sub(before));
    let most = growths.chain([growth]).max().unwrap_or(0);
    println!("{most} MiB more at most");
    assert!(most <= GROWTH_MAX_MIB, "{most} MiB");
    history.judge(&cluster).await;
}
