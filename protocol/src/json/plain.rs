//! How far a JSON string goes on without anything special: no quote, no escape, no control character.
//!
//! Every byte of a request and of an answer is looked at here, so several are looked at together.

/// The length of the plain run of a string that `rest` begins with.
pub(crate) fn plain_len(rest: &[u8]) -> usize {
    /// Block size the compiler turns into a few vector instructions.
    const BLOCK: usize = 32;
    // Most strings are short and end within the first words.
    let mut len = match special_within(rest, 0) {
        Ok(at) => return at,
        Err(looked) => looked,
    };
    while let Some(block) = rest.get(len..len + BLOCK) {
        if block
            .iter()
            .fold(false, |found, byte| found | is_special(*byte))
        {
            break;
        }
        len += BLOCK;
    }
    let mut at = len;
    loop {
        at = match special_within(rest, at) {
            Ok(at) => return at,
            Err(looked) if looked == at => break,
            Err(looked) => looked,
        };
    }
    let tail = rest.get(at..).unwrap_or_default();
    let special = tail.iter().position(|byte| is_special(*byte));
    at + special.unwrap_or(tail.len())
}

/// Looks at up to four words of eight bytes from `at` on: where the first special byte is, else how
/// far it has looked.
fn special_within(rest: &[u8], mut at: usize) -> Result<usize, usize> {
    let words = rest.get(at..).unwrap_or_default().chunks_exact(8).take(4);
    for word in words {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        let marks = special_marks(word);
        if marks != 0 {
            return Ok(at + marks.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    Err(at)
}

/// The high bit of every special byte of a word, and of some behind the first one.
const fn special_marks(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    const fn zeros(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word
    }
    let quote = zeros(word ^ (ONES * b'"' as u64));
    let escape = zeros(word ^ (ONES * b'\\' as u64));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | escape | control) & HIGHS
}

/// Bytes that end or break the plain run of a string.
pub(crate) const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4096))]

        #[test]
        fn plain_run_of_a_string_ends_at_its_first_special_byte(
            mut bytes in proptest::collection::vec(0x20u8..=0xff, 0..100),
            special in proptest::sample::select(vec![b'"', b'\\', 0, 0x1f, b'a', 0x7f, 0x80, 0xff]),
            place in proptest::prelude::any::<proptest::sample::Index>(),
        ) {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] = special;
            }
            let expected = bytes.iter().position(|byte| is_special(*byte)).unwrap_or(bytes.len());
            proptest::prop_assert_eq!(plain_len(&bytes), expected, "{:?}", bytes);
        }
    }
}
