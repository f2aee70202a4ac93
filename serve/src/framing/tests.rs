//! Heads found in every split of the bytes, and in generated pipelines of requests.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// What is found when the bytes come in pieces of `size`.
fn found(bytes: &[u8], size: usize) -> Option<u64> {
    let mut framing = Framing::default();
    bytes.chunks(size).find_map(|piece| framing.read(piece))
}

#[test]
fn requests_that_state_their_length_twice_are_found_in_every_split() {
    let cases: &[(&str, Option<u64>)] = &[
        ("GET / HTTP/1.1\r\nhost: a\r\n\r\n", None),
        ("POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc", None),
        (
            "POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            Some(1),
        ),
        (
            "POST / HTTP/1.1\r\nTRANSFER-Encoding:chunked\r\nhost: a\r\nContent-LENGTH:   3\r\n\r\n",
            Some(1),
        ),
        // Blank lines before a request, and lines without carriage returns.
        (
            "\r\n\r\nPOST / HTTP/1.1\ncontent-length: 0\ntransfer-encoding: chunked\n\n",
            Some(1),
        ),
        // The length skips what only looks like a head.
        (
            "POST / HTTP/1.1\r\ncontent-length: 57\r\n\r\nX / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: c\r\n\r\n",
            None,
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nhiPOST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            Some(2),
        ),
        // Extensions, capital digits and trailers of a chunked body.
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nA;x=\"1\"\r\n0123456789\r\n0\r\ncontent-length: 5\r\ntransfer-encoding: x\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            Some(2),
        ),
        // Names that only begin or end like the two.
        (
            "POST / HTTP/1.1\r\ncontent-lengths: 3\r\nx-content-length: 3\r\ncontent-type: a\r\ntransfer-encodingx: 1\r\nte: x\r\nt: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            None,
        ),
        // A request line is no header.
        (
            "content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            None,
        ),
    ];
    for (bytes, expected) in cases {
        for size in 1..=bytes.len() {
            assert_eq!(
                found(bytes.as_bytes(), size),
                *expected,
                "pieces of {size}: {bytes:?}"
            );
        }
    }
}

#[test]
fn target_of_the_latest_request_is_known_in_every_split() {
    let bytes: &[u8] =
        b"POST /a HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi\r\nGET /b?c=d HTTP/1.1\r\nhost: a";
    for size in 1..=bytes.len() {
        let mut framing = Framing::default();
        for piece in bytes.chunks(size) {
            framing.read(piece);
        }
        assert_eq!(framing.target(), b"/b?c=d", "pieces of {size}");
    }
    let mut framing = Framing::default();
    assert_eq!(framing.target(), b"");
    framing.read(b"GET /");
    framing.read(&[b'x'; 1000]);
    assert_eq!(
        framing.target().len(),
        REQUEST_LINE_MAX_BYTES - "GET ".len()
    );
}

#[test]
fn nothing_is_found_twice() {
    let request = b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut framing = Framing::default();
    assert_eq!(framing.read(request), Some(1));
    assert_eq!(framing.read(request), None);
}

/// A request as the generator makes it.
#[derive(Debug, Clone)]
enum Request {
    Plain(Vec<u8>),
    Chunked(Vec<Vec<u8>>),
    Twice,
}

impl Request {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"POST /x HTTP/1.1\r\nhost: a\r\ncookie: c\r\n");
        match self {
            Self::Plain(body) => {
                out.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
                out.extend_from_slice(body);
            }
            Self::Chunked(chunks) => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\naccept: */*\r\n\r\n");
                for chunk in chunks {
                    out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    out.extend_from_slice(chunk);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"0\r\n\r\n");
            }
            Self::Twice => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n");
            }
        }
    }
}

fn body(least: usize) -> impl Strategy<Value = Vec<u8>> {
    // Made of what a reader could mistake for structure.
    let pieces = vec(
        prop::sample::select(vec![
            "\r\n\r\n",
            "\n",
            "0\r\n\r\n",
            "content-length: 1\r\n",
            "transfer-encoding: chunked\r\n",
            "POST / HTTP/1.1\r\n",
            "x",
        ]),
        least..6,
    );
    pieces.prop_map(|pieces| pieces.concat().into_bytes())
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        4 => body(0).prop_map(Request::Plain),
        4 => vec(body(1), 0..4).prop_map(Request::Chunked),
        1 => Just(Request::Twice),
    ]
}

proptest! {
    #[test]
    fn first_request_that_states_its_length_twice_is_found_whatever_stands_before_it(
        requests in vec(request(), 1..8),
        cuts in vec(1usize..40, 1..40),
    ) {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| request.write(&mut bytes));
        let expected = requests
            .iter()
            .position(|request| matches!(request, Request::Twice))
            .map(|at| at as u64 + 1);
        let mut framing = Framing::default();
        let mut rest = bytes.as_slice();
        let mut results = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            results.extend(framing.read(piece));
            rest = after;
        }
        prop_assert_eq!(results.first().copied(), expected);
        prop_assert!(results.len() <= 1);
    }
}

proptest! {
    /// Whole lines are read in one step and cut ones byte by byte: both must see the same.
    #[test]
    fn how_the_bytes_are_cut_changes_nothing(
        parts in vec(proptest::sample::select(vec![
            "content-length", "Transfer-Encoding", ":", " ", "\r", "\n", "\r\n", "3", "0", "a",
            "POST / HTTP/1.1\r\n", "chunked", "content-length: 2\r\n", "\r\n\r\n",
        ]), 0..40),
        size in 1usize..64,
    ) {
        let bytes = parts.concat();
        prop_assert_eq!(found(bytes.as_bytes(), size), found(bytes.as_bytes(), 1));
    }
}
