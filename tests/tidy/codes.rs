//! docs/troubleshooting.md has every code that the program answers or prints, and no other.

use lanekeeper_tests::repository;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The codes in the first column of the tables under a heading.
fn documented(page: &str, heading: &str) -> BTreeSet<String> {
    let start = format!("\n## {heading}\n");
    let (_, section) = page
        .split_once(&start)
        .unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let cells = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let codes = cells.flat_map(|cell| {
        cell.split('`')
            .filter(|part| !part.is_empty() && *part != ", ")
    });
    codes.map(str::to_owned).collect()
}

fn read(path: &str) -> String {
    let text = std::fs::read_to_string(repository().join(path));
    let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
    text.split("#[cfg(test)]")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Text between quotes that is a code.
fn code(text: &str) -> Option<String> {
    let inner = text.trim().strip_prefix('"')?.strip_suffix('"')?;
    let is_code = !inner.is_empty()
        && inner
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_code.then(|| inner.to_owned())
}

/// The arguments of each call of a function, by its name.
fn calls(text: &str, name: &str) -> Vec<Vec<String>> {
    let opening = format!("{name}(");
    let mut found = Vec::new();
    for (at, _) in text.match_indices(&opening) {
        let (mut depth, mut is_text, mut is_escaped) = (0_u32, false, false);
        let mut arguments = vec![String::new()];
        for c in text[at + opening.len()..].chars() {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' if is_text => is_escaped = true,
                '"' => is_text = !is_text,
                '(' | '[' | '{' if !is_text => depth += 1,
                ')' | ']' | '}' if !is_text && depth == 0 => break,
                ')' | ']' | '}' if !is_text => depth -= 1,
                ',' if !is_text && depth == 0 => {
                    arguments.push(String::new());
                    continue;
                }
                _ => {}
            }
            arguments.last_mut().expect("one").push(c);
        }
        found.push(arguments);
    }
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

fn compare(heading: &str, in_code: &BTreeSet<String>) {
    let page = read("docs/troubleshooting.md");
    let on_page = documented(&page, heading);
    let missing: Vec<_> = in_code.difference(&on_page).collect();
    let stale: Vec<_> = on_page.difference(in_code).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "docs/troubleshooting.md, {heading}: lacks {missing:?}, has too much {stale:?}"
    );
}

#[test]
fn the_codes_of_the_http_api_are_explained() {
    let text = read("dashboard-api/src/problem.rs");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let pairs = text
        .split("(StatusCode::")
        .chain(text.split("(*status"))
        .skip(1);
    let codes = pairs.filter_map(|pair| {
        let rest = pair.split_once(',')?.1;
        code(rest.split([')', ',']).next()?)
    });
    let codes: BTreeSet<String> = codes.collect();
    assert!(codes.len() > 35, "{codes:?}");
    compare("Codes of the HTTP API", &codes);
}

#[test]
fn the_codes_that_callers_see_are_explained() {
    let text = read("protocol/src/error_kind.rs");
    let (_, function) = text.split_once("fn code(&self)").expect("the function");
    let function = function.split("\n    }\n").next().unwrap_or_default();
    let codes: BTreeSet<String> = function
        .split("=>")
        .filter_map(|arm| code(arm.split([',', '\n']).next()?))
        .collect();
    assert!(codes.len() > 20, "{codes:?}");
    compare("Codes that callers see", &codes);
}

#[test]
fn the_codes_of_documents_are_explained() {
    let mut files = Vec::new();
    sources(&repository().join("model/src"), &mut files);
    let mut codes = BTreeSet::new();
    for path in files {
        if path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs") {
            continue;
        }
        let path = path
            .strip_prefix(repository())
            .expect("below")
            .display()
            .to_string();
        let text = read(&path);
        for name in ["refuse", "Problem::new"] {
            for arguments in calls(&text, name) {
                codes.extend(arguments.get(1).and_then(|argument| code(argument)));
            }
        }
    }
    assert!(codes.len() > 30, "{codes:?}");
    compare("Codes of documents", &codes);
}

#[test]
fn the_exit_codes_are_explained() {
    let text = read("cli/src/exit.rs");
    let (_, kinds) = text.split_once("enum Kind {").expect("the enum");
    let kinds = kinds.split('}').next().unwrap_or_default();
    let mut codes: BTreeSet<String> = kinds
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(_, number)| number.trim_end_matches(',').to_owned())
        .collect();
    codes.insert("0".to_owned());
    compare("Exit codes", &codes);
    // What --help says is the same list.
    for number in &codes {
        assert!(
            text.contains(&format!("\n  {number}  ")),
            "--help lacks {number}"
        );
    }
}
