//! One vocabulary: words that renamed a standard term are refused, in names, comments, texts and
//! docs.
//!
//! Why, and the terms in their place: `docs/adr/0008-one-vocabulary.md`.

use super::{files, shown, today};

/// What is refused, in small letters, and what to write. A word is matched alone and as a part of a
/// name (`visit` in `VisitGuard` and in `visit_guard`); several words in this sequence on one line.
const BANNED: &[(&str, &str)] = &[
    ("a token that is not good", "invalid or expired token"),
    ("an order", "an override"),
    ("dear", "expensive"),
    ("dearer", "more expensive"),
    ("deed", "action, fault"),
    ("deeds", "actions, faults"),
    ("each order", "each override"),
    ("every order", "every override"),
    ("farewell", "goodbye"),
    ("grant", "attempt guard, permission"),
    ("grants", "attempt guards, allows"),
    ("in passing", "transiently"),
    ("operator s order", "override"),
    ("orders", "overrides"),
    ("purse", "balance"),
    ("shall", "must, will"),
    ("shelf", "queue, state"),
    ("shelves", "queues, states"),
    ("standing", "active, in force; authorization"),
    ("straggle", "settle late"),
    ("straggler", "late result"),
    ("stragglers", "late results"),
    ("straggling", "late"),
    ("surely", "definitely"),
    ("tells", "publishes, reports, shows"),
    ("there is no such thing", "not found"),
    ("told", "published, reported, informed"),
    ("visit", "request guard"),
    ("visits", "request guards"),
    ("weather", "store health"),
    ("wish", "Retry-After hint, requested delay"),
    ("wished", "requested"),
    ("wishes", "requests"),
];

/// Where a refused word is right: the file's name, the word, and why.
const EXEMPT: &[(&str, &str, &str)] = &[
    ("docs/adr/0008-one-vocabulary.md", "", "it is the table"),
    ("tests/e2e/overrides.rs", "orders", "a file's name on disk"),
    (
        "tests/e2e/overrides.rs",
        "standing",
        "a state's name in the API",
    ),
    ("tests/tidy/words.rs", "", "it is the table"),
];

/// Names that other libraries, SQL and protocols gave: a trait's methods that begin like this.
const FOREIGN: &[&str] = &[
    "GRANT",
    "Visit",
    "visit_bool",
    "visit_borrowed_str",
    "visit_bytes",
    "visit_f64",
    "visit_i64",
    "visit_map",
    "visit_newtype_struct",
    "visit_none",
    "visit_seq",
    "visit_some",
    "visit_str",
    "visit_string",
    "visit_u64",
    "visit_unit",
];

/// The kinds of files that people read.
const ENDINGS: &[&str] = &[
    ".css",
    ".html",
    ".js",
    ".mjs",
    ".ts",
    ".tsx",
    ".md",
    ".proto",
    ".py",
    ".rs",
    ".sh",
    ".toml",
    ".yaml",
    ".yml",
    "gateway.schema.json",
    "openapi.json",
    "Dockerfile",
    "Makefile",
];

/// A line's words in small letters, those of names apart.
fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let names = line
        .split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_')
        .filter(|name| !FOREIGN.contains(name));
    for part in names.flat_map(|name| name.split(|sign: char| !sign.is_ascii_alphabetic())) {
        let (mut word, mut low) = (String::new(), false);
        for letter in part.chars() {
            if low && letter.is_ascii_uppercase() {
                found.push(std::mem::take(&mut word));
            }
            low = letter.is_ascii_lowercase();
            word.push(letter.to_ascii_lowercase());
        }
        found.push(word);
    }
    found.retain(|word| !word.is_empty());
    found
}

/// The refused words of a line, each with what to write.
fn refused(line: &str) -> Vec<(&'static str, &'static str)> {
    let words = words(line);
    let holds = |phrase: &str| {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        words.windows(phrase.len()).any(|found| found == phrase)
    };
    BANNED
        .iter()
        .filter(|(word, _)| holds(word))
        .copied()
        .collect()
}

#[test]
fn one_word_per_idea() {
    let mut failures = Vec::new();
    for path in files(ENDINGS) {
        let name = shown(&path);
        if today::WORDS.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a file can be read");
        for (number, line) in text.lines().enumerate() {
            for (word, instead) in refused(line) {
                let exempt = |(file, what, _): &(&str, &str, &str)| {
                    name == *file && (what.is_empty() || *what == word)
                };
                if !EXEMPT.iter().any(exempt) {
                    failures.push(format!("{name}:{}: {word}: rather {instead}", number + 1));
                }
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} lines with words of another vocabulary:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn parts_of_names_are_words_and_foreign_names_are_none() {
    let found = |line| {
        refused(line)
            .iter()
            .map(|(word, _)| *word)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("struct VisitGuard { open_grant: u8 }"),
        ["grant", "visit"]
    );
    assert_eq!(
        found("// an order, told In passing"),
        ["an order", "in passing", "told"]
    );
    assert!(found("fn visit_str(granted) in order; ORDER BY outstanding // GRANT").is_empty());
}
