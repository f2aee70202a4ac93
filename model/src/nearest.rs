//! "Did you mean": the known word nearest to a mistyped one.

/// Similarity (Jaro-Winkler, 0 to 1) from which a word is worth naming.
const SIMILARITY_MIN: f64 = 0.75;
/// Longest word compared, in bytes: the comparison is quadratic.
const WORD_LEN_MAX: usize = 256;

/// The known word most like the given one, if any is like it. The first of equals wins.
pub(crate) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if given.len() > WORD_LEN_MAX {
        return None;
    }
    let mut best: Option<(&str, f64)> = None;
    for word in known.filter(|word| word.len() <= WORD_LEN_MAX) {
        let similarity = strsim::jaro_winkler(given, word);
        if similarity >= SIMILARITY_MIN && best.is_none_or(|(_, most)| similarity > most) {
            best = Some((word, similarity));
        }
    }
    best.map(|(word, _)| word)
}
