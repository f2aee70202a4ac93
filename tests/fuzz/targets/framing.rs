//! The reader of a connection's bytes finds the request that states its length twice: the same one
//! that a parser of whole heads finds, however the network cut the bytes.

#![no_main]

use httparse::{Status, parse_chunk_size};
use lanekeeper_serve::framing::Framing;
use libfuzzer_sys::fuzz_target;

/// What the parser says of a connection.
#[derive(Debug, PartialEq)]
enum Seen {
    /// This request, counted from 1, states its length twice.
    Twice(u64),
    /// No request that is here whole does.
    None,
    /// Something is no HTTP, or in doubt: the server ends such a connection.
    Unsure,
}

fn digits(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let are_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| text.parse().ok()).flatten()
}

fn parsed(mut bytes: &[u8]) -> Seen {
    let mut count = 0;
    loop {
        let mut room = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut room);
        let head = match request.parse(bytes) {
            Ok(Status::Complete(head)) => head,
            Ok(Status::Partial) => return Seen::None,
            Err(_) => return Seen::Unsure,
        };
        count += 1;
        let values = |name: &str| -> Vec<&[u8]> {
            let headers = request.headers.iter();
            let named = headers.filter(|header| header.name.eq_ignore_ascii_case(name));
            named.map(|header| header.value).collect()
        };
        let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
        if !lengths.is_empty() && !codings.is_empty() {
            return Seen::Twice(count);
        }
        bytes = &bytes[head..];
        if let Some(first) = lengths.first() {
            let (Some(length), true) = (
                digits(first),
                lengths.windows(2).all(|two| two[0] == two[1]),
            ) else {
                return Seen::Unsure;
            };
            match usize::try_from(length)
                .ok()
                .and_then(|length| bytes.get(length..))
            {
                Some(after) => bytes = after,
                None => return Seen::None,
            }
        } else if !codings.is_empty() {
            if codings.len() > 1 || !codings[0].eq_ignore_ascii_case(b"chunked") {
                return Seen::Unsure;
            }
            match skip_chunks(bytes) {
                Ok(Some(after)) => bytes = after,
                Ok(None) => return Seen::None,
                Err(()) => return Seen::Unsure,
            }
        }
    }
}

/// What follows a chunked body; `None` when its end is not here.
fn skip_chunks(mut bytes: &[u8]) -> Result<Option<&[u8]>, ()> {
    loop {
        let (line, size) = match parse_chunk_size(bytes) {
            Ok(Status::Complete(found)) => found,
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err(()),
        };
        bytes = &bytes[line..];
        if size == 0 {
            let mut room = [httparse::EMPTY_HEADER; 8];
            return match httparse::parse_headers(bytes, &mut room) {
                Ok(Status::Complete((trailer, _))) => Ok(Some(&bytes[trailer..])),
                Ok(Status::Partial) => Ok(None),
                Err(_) => Err(()),
            };
        }
        let Some(after) = usize::try_from(size)
            .ok()
            .and_then(|size| bytes.get(size..))
        else {
            return Ok(None);
        };
        match after {
            [b'\r', b'\n', rest @ ..] => bytes = rest,
            [] | [b'\r'] => return Ok(None),
            _ => return Err(()),
        }
    }
}

fn found(chunks: &[&[u8]]) -> Option<u64> {
    let mut framing = Framing::default();
    chunks.iter().find_map(|chunk| framing.read(chunk))
}

fuzz_target!(|bytes: &[u8]| {
    let whole = found(&[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(
        found(&single),
        whole,
        "the cuts of the network decide nothing"
    );
    for cut in 1..bytes.len().min(256) {
        let (first, second) = bytes.split_at(cut);
        assert_eq!(found(&[first, second]), whole, "cut at {cut}");
    }
    match parsed(bytes) {
        Seen::Twice(request) => assert_eq!(whole, Some(request)),
        Seen::None => assert_eq!(whole, None),
        // Up to the doubtful place both saw the same; beyond it nothing is served.
        Seen::Unsure => {}
    }
});
