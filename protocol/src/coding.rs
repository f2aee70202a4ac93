//! Content codings: what a body is compressed with, and the bytes it stands for.
//!
//! Bodies come from strangers on both sides, so every decoding names the most it may give: a
//! kilobyte can stand for a gigabyte.

use std::fmt;
use std::io::Read;

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// The codings that can be read, as `accept-encoding` lists them.
pub const READABLE: &str = "gzip, deflate, br, zstd";
/// Codings of one body, applied one over the other. Nobody who means well uses more than one.
const CODINGS_MAX: usize = 2;
/// Bytes that are decoded at a time, between two looks at the bounds.
const STEP_BYTES: u64 = 64 * 1024;
/// Buffer of the Brotli reader.
const BROTLI_BUFFER_BYTES: usize = 4096;

/// One coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952, also under its old name `x-gzip`.
    Gzip,
    /// RFC 1950. The name means zlib, but raw deflate is sent under it too.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

/// The codings of one body, in the order in which they were applied. Empty for plain bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codings(Vec<Coding>);

/// A coding that cannot be read, or more of them than [`Codings`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The body's content encoding cannot be read: use one of {READABLE}")]
pub struct UnknownCoding;

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They stand for more than they may.
    #[error("the body is too large once it is decompressed")]
    TooLarge,
    /// There was no room for so much.
    #[error("there is no room for the body")]
    NoRoom,
    /// They are not what their coding says, or are cut off.
    #[error("the body cannot be decompressed")]
    Malformed,
}

impl Codings {
    /// What `content-encoding` says. `identity` and empty elements mean nothing.
    ///
    /// # Errors
    ///
    /// An unknown coding, or too many of them.
    pub fn of(headers: &HeaderMap) -> Result<Self, UnknownCoding> {
        let mut codings = Vec::new();
        for line in headers.get_all(CONTENT_ENCODING) {
            let line = line.to_str().map_err(|_| UnknownCoding)?;
            for name in line.split(',').map(str::trim) {
                if !name.is_empty() && !name.eq_ignore_ascii_case("identity") {
                    codings.push(Coding::named(name).ok_or(UnknownCoding)?);
                }
            }
        }
        if codings.len() > CODINGS_MAX {
            return Err(UnknownCoding);
        }
        Ok(Self(codings))
    }

    /// True for plain bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that `body` stands for, `most` at most. `room` is asked for each piece before the
    /// next one is made, and ends the work by `false`.
    ///
    /// # Errors
    ///
    /// More than `most`, no room, or bytes that are not in this coding or not whole.
    pub fn decode(
        &self,
        body: &[u8],
        most: usize,
        mut room: impl FnMut(usize) -> bool,
    ) -> Result<Vec<u8>, DecodeError> {
        let mut plain = body.to_vec();
        for coding in self.0.iter().rev() {
            plain = coding.decode(&plain, most, &mut room)?;
        }
        Ok(plain)
    }

    /// The beginning of what `body` stands for: up to `most` bytes, and what could be read of a
    /// body that is broken or cut off.
    #[must_use]
    pub fn beginning(&self, body: &[u8], most: usize) -> Vec<u8> {
        let mut plain = body.get(..most).unwrap_or(body).to_vec();
        let mut coded = body;
        let mut held;
        for coding in self.0.iter().rev() {
            plain = coding.beginning(coded, most);
            held = plain.clone();
            coded = &held;
        }
        plain
    }
}

impl Coding {
    fn named(name: &str) -> Option<Self> {
        let known = [
            ("gzip", Self::Gzip),
            ("x-gzip", Self::Gzip),
            ("deflate", Self::Deflate),
            ("br", Self::Brotli),
            ("zstd", Self::Zstd),
        ];
        known
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, coding)| coding)
    }

    fn decode(
        self,
        coded: &[u8],
        most: usize,
        room: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Vec<u8>, DecodeError> {
        let (plain, end) = self.read(coded, most.saturating_add(1), room);
        match end {
            _ if plain.len() > most => Err(DecodeError::TooLarge),
            Ok(()) => Ok(plain),
            Err(Unread::NoRoom) => Err(DecodeError::NoRoom),
            Err(Unread::Malformed) => Err(DecodeError::Malformed),
        }
    }

    fn beginning(self, coded: &[u8], most: usize) -> Vec<u8> {
        self.read(coded, most, &mut |_| true).0
    }

    /// What could be read up to `most` bytes, and how it ended.
    fn read(
        self,
        coded: &[u8],
        most: usize,
        room: &mut dyn FnMut(usize) -> bool,
    ) -> (Vec<u8>, Result<(), Unread>) {
        match self {
            Self::Gzip => take(flate2::read::MultiGzDecoder::new(coded), most, room),
            Self::Deflate => match take(flate2::read::ZlibDecoder::new(coded), most, room) {
                (nothing, Err(Unread::Malformed)) if nothing.is_empty() => {
                    take(flate2::read::DeflateDecoder::new(coded), most, room)
                }
                read => read,
            },
            Self::Brotli => take(
                brotli_decompressor::Decompressor::new(coded, BROTLI_BUFFER_BYTES),
                most,
                room,
            ),
            Self::Zstd => match ruzstd::decoding::StreamingDecoder::new(coded) {
                Ok(reader) => take(reader, most, room),
                Err(_) => (Vec::new(), Err(Unread::Malformed)),
            },
        }
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        })
    }
}

/// Why a reader was left before its end.
enum Unread {
    NoRoom,
    Malformed,
}

fn take(
    mut reader: impl Read,
    most: usize,
    room: &mut dyn FnMut(usize) -> bool,
) -> (Vec<u8>, Result<(), Unread>) {
    let mut plain = Vec::new();
    loop {
        let left = most.saturating_sub(plain.len()) as u64;
        let step = reader.by_ref().take(STEP_BYTES.min(left));
        match { step }.read_to_end(&mut plain) {
            Ok(0) => return (plain, Ok(())),
            Ok(read) if !room(read) => return (plain, Err(Unread::NoRoom)),
            Ok(_) => {}
            Err(_) => return (plain, Err(Unread::Malformed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::io::Write as _;

    /// A document and so many blanks behind it that each coding has something to shorten.
    const TEXT: &[u8; 64] = b"{\"model\":\"chat\",\"messages\":[]}\
        \x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\
        \x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20\x20";
    /// It, as the reference implementation of zstd writes it with a checksum.
    const ZSTD: &[u8] = &[
        40, 181, 47, 253, 36, 64, 45, 1, 0, 248, 123, 34, 109, 111, 100, 101, 108, 34, 58, 34, 99,
        104, 97, 116, 34, 44, 34, 109, 101, 115, 115, 97, 103, 101, 115, 34, 58, 91, 93, 125, 32,
        1, 0, 143, 192, 9, 235, 153, 60, 102,
    ];
    /// It, as the reference implementation of Brotli writes it.
    const BROTLI: &[u8] = &[
        27, 63, 0, 248, 29, 167, 197, 154, 19, 60, 167, 215, 32, 93, 123, 125, 139, 69, 167, 68,
        182, 186, 143, 73, 52, 241, 68, 14, 241, 74, 47, 142, 116, 143, 64, 184, 3,
    ];

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    fn raw(bytes: &[u8]) -> Vec<u8> {
        let mut writer =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    fn codings(value: &str) -> Result<Codings, UnknownCoding> {
        let value = HeaderValue::from_str(value).unwrap();
        Codings::of(&HeaderMap::from_iter([(CONTENT_ENCODING, value)]))
    }

    #[test]
    fn every_coding_that_is_announced_is_read() {
        for (name, coded) in [
            ("gzip", gzip(TEXT)),
            ("X-GZIP", gzip(TEXT)),
            ("deflate", zlib(TEXT)),
            ("deflate", raw(TEXT)),
            ("br", BROTLI.to_vec()),
            ("zstd", ZSTD.to_vec()),
            ("identity", TEXT.to_vec()),
            ("", TEXT.to_vec()),
            ("gzip, deflate", zlib(&gzip(TEXT))),
            ("identity, gzip", gzip(TEXT)),
        ] {
            let codings = codings(name).unwrap();
            let plain = codings.decode(&coded, 1024, |_| true);
            assert_eq!(plain.as_deref(), Ok(&TEXT[..]), "{name}");
            assert_eq!(codings.beginning(&coded, 1024), TEXT, "{name}");
        }
        for coding in READABLE.split(", ") {
            assert!(codings(coding).is_ok(), "{coding}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for name in ["compress", "gzip, rot13", "gzip, gzip, gzip", "gzip;q=1"] {
            assert_eq!(codings(name), Err(UnknownCoding), "{name}");
        }
    }

    #[test]
    fn the_bound_counts_what_comes_out() {
        let bomb = gzip(&vec![b'x'; 4 * 1024 * 1024]);
        assert!(bomb.len() < 64 * 1024);
        let gzip = codings("gzip").unwrap();
        assert_eq!(
            gzip.decode(&bomb, 1024, |_| true),
            Err(DecodeError::TooLarge)
        );
        assert_eq!(gzip.beginning(&bomb, 1024).len(), 1024);
        let mut room = 200 * 1024;
        let decoded = gzip.decode(&bomb, usize::MAX, |more| {
            let fits = more <= room;
            room = room.saturating_sub(more);
            fits
        });
        assert_eq!(decoded, Err(DecodeError::NoRoom));
    }

    #[test]
    fn broken_and_cut_bodies_are_malformed() {
        for (name, coded) in [
            ("gzip", gzip(TEXT)),
            ("deflate", zlib(TEXT)),
            ("br", BROTLI.to_vec()),
            ("zstd", ZSTD.to_vec()),
        ] {
            let codings = codings(name).unwrap();
            let cut = coded.get(..coded.len() - 5).unwrap();
            assert_eq!(
                codings.decode(cut, 1024, |_| true),
                Err(DecodeError::Malformed),
                "{name}"
            );
            let other = codings.decode(TEXT, 1024, |_| true);
            assert_eq!(other, Err(DecodeError::Malformed), "{name}");
            assert_eq!(
                codings.decode(b"", 1024, |_| true).ok().unwrap_or_default(),
                b"",
                "{name}"
            );
        }
    }
}
