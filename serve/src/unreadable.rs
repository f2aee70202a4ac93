//! Answers to requests whose head the HTTP library refuses: too large, or not readable at all.
//!
//! The library answers such a request itself, before any service hears of it: a bare 400, 414 or 431
//! without a body. Client packages look for a body in their own dialect, so the bare answer is
//! recognised on its way to the socket and a full one is written in its place.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE};
use http::{Response, StatusCode};
use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

/// What is known of a request whose head could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadHead<'a> {
    /// 431 when it is too large or has too many lines, 400 when it is no HTTP. Where heads may be
    /// larger than 64 KiB also 414, when its target is.
    pub status: StatusCode,
    /// The path as far as it was seen, without the query. Its first 256 bytes at most.
    pub path: &'a str,
}

/// Makes the answer to an unreadable head. Length, date and `connection: close` are added to it.
#[derive(Clone)]
pub struct Unreadable(Arc<Answer>);

type Answer = dyn Fn(UnreadHead<'_>) -> Response<Bytes> + Send + Sync;

impl Unreadable {
    /// Answers with what `answer` makes.
    pub fn new(answer: impl Fn(UnreadHead<'_>) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }

    /// The whole answer in place of `bare`, the library's own.
    pub(crate) fn answer(&self, bare: Bare<'_>, target: &[u8]) -> Bytes {
        let path = target.split(|byte| *byte == b'?').next();
        let head = UnreadHead {
            status: bare.status,
            path: path.map_or("", |path| valid_part(path)),
        };
        written(&(self.0)(head), bare.date)
    }
}

impl fmt::Debug for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unreadable")
    }
}

impl PartialEq for Unreadable {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Unreadable {}

fn valid_part(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => bytes
            .get(..error.valid_up_to())
            .and_then(|valid| std::str::from_utf8(valid).ok())
            .unwrap_or_default(),
    }
}

fn written(answer: &Response<Bytes>, date: &[u8]) -> Bytes {
    let status = answer.status();
    let reason = status.canonical_reason().unwrap_or("Refused");
    let mut out = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    let own = |name: &&http::HeaderName| ![CONNECTION, CONTENT_LENGTH, DATE].contains(name);
    for (name, value) in answer.headers().iter().filter(|(name, _)| own(name)) {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    let body = answer.body();
    out.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    if !date.is_empty() {
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"connection: close\r\n\r\n");
    out.extend_from_slice(body);
    Bytes::from(out)
}

/// An answer of the library's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bare<'a> {
    status: StatusCode,
    /// Its date line.
    date: &'a [u8],
}

impl<'a> Bare<'a> {
    /// Recognises it: a 4xx without a body that says nothing but that, when, and that it is the
    /// last of its connection.
    pub(crate) fn of(written: &'a [u8]) -> Option<Self> {
        let status = written.strip_prefix(b"HTTP/1.")?.get(1..)?;
        let status = status.strip_prefix(b" ")?;
        if status.first() != Some(&b'4') {
            return None;
        }
        let lines = written.strip_suffix(b"\r\n\r\n")?;
        let mut lines = lines
            .split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        lines.next()?;
        let (mut is_empty, mut date): (bool, &[u8]) = (false, &[]);
        for line in lines {
            if line.eq_ignore_ascii_case(b"content-length: 0") {
                is_empty = true;
            } else if starts_with(line, b"date: ") {
                date = line;
            } else if !line.eq_ignore_ascii_case(b"connection: close") {
                return None;
            }
        }
        let status = StatusCode::from_bytes(status.get(..3)?).ok()?;
        is_empty.then_some(Self { status, date })
    }

    /// Recognises it at the end of what is to be written; also says what comes before it.
    pub(crate) fn last_of<'b>(
        bufs: &'b [IoSlice<'a>],
    ) -> Option<(&'b [IoSlice<'a>], &'b [u8], Bare<'b>)> {
        let at = bufs.iter().rposition(|buf| !buf.is_empty())?;
        let (before, last) = bufs.split_at_checked(at)?;
        let last: &[u8] = last.first()?;
        Some((before, last, Bare::of(last)?))
    }
}

fn starts_with(line: &[u8], prefix: &[u8]) -> bool {
    line.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: &[u8] = b"HTTP/1.1 431 Request Header Fields Too Large\r\n\
        connection: close\r\ncontent-length: 0\r\ndate: Mon, 30 Nov 2026 10:00:00 GMT\r\n\r\n";

    #[test]
    fn only_an_answer_of_the_librarys_own_is_recognised() {
        let bare = Bare::of(BARE).unwrap();
        assert_eq!(bare.status, 431);
        assert_eq!(bare.date, b"date: Mon, 30 Nov 2026 10:00:00 GMT");
        assert!(Bare::of(b"HTTP/1.0 400 Bad Request\r\ncontent-length: 0\r\n\r\n").is_some());
        for other in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nx-request-id: a\r\n\r\n",
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n",
            b"HTTP/1.1 404 Not Found\r\ndate: x\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n{}",
            b"HTTP/1.1 4",
            b"data: 4\r\n\r\n",
            b"",
        ] {
            assert_eq!(Bare::of(other), None, "{other:?}");
        }
    }

    #[test]
    fn answer_carries_the_status_the_date_and_a_length() {
        let made = Unreadable::new(|head| {
            let mut answer = Response::new(Bytes::from(format!("no {}", head.path)));
            *answer.status_mut() = head.status;
            answer
        });
        let answer = made.answer(Bare::of(BARE).unwrap(), b"/v1/x?key=secret");
        assert_eq!(
            std::str::from_utf8(&answer).unwrap(),
            "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 8\r\n\
             date: Mon, 30 Nov 2026 10:00:00 GMT\r\nconnection: close\r\n\r\nno /v1/x"
        );
        let answer = made.answer(Bare::of(BARE).unwrap(), b"/\xff/y");
        assert!(answer.ends_with(b"no /"), "{answer:?}");
    }
}
