//! Every field report that a test names stands on `docs/field-reports.md`.

use super::{shown, sources};
use lanekeeper_tests::repository;
use std::collections::{BTreeMap, BTreeSet};

/// The numbers of field reports in a text: a capital letter and two or three digits.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !sign.is_ascii_alphanumeric())
        .filter(|word| {
            let digits = word.strip_prefix('B').or_else(|| word.strip_prefix('R'));
            digits.is_some_and(|digits| {
                (2..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
            })
        })
}

#[test]
fn every_field_report_that_tests_name_is_on_its_page() {
    let page = std::fs::read_to_string(repository().join("docs/field-reports.md"))
        .expect("docs/field-reports.md");
    let listed: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with("| "))
        .flat_map(numbers)
        .collect();
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        for line in text
            .lines()
            .filter(|line| line.trim_start().starts_with("//"))
        {
            for number in numbers(line) {
                named
                    .entry(number.to_owned())
                    .or_insert_with(|| shown(&path));
            }
        }
    }
    assert!(
        named.len() > 50,
        "only {} field reports are named",
        named.len()
    );
    let missing: Vec<_> = named
        .iter()
        .filter(|(number, _)| !listed.contains(number.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/field-reports.md lacks {missing:?}"
    );
}
