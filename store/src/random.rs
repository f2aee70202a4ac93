//! The only place of this crate that draws random numbers.

use std::fmt::Write;

/// 128 random bits in hex: unique without asking anyone.
pub(crate) fn identifier() -> String {
    hex(&rand::random::<[u8; 16]>())
}

/// 256 bits from the operating system's generator in hex: what a token proves its owner by.
pub(crate) fn secret() -> String {
    hex(&rand::random::<[u8; 32]>())
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
