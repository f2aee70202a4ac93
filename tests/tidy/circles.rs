//! No two top modules of a crate import each other, directly or through others.
//!
//! Read from the text: `crate::x`, `use crate::{a, b}` and `super::` that ends at the crate's root.
//! What the root exports counts as the module that it comes from. Tests are left out.

use super::{is_test, sources, today};
use lanekeeper_tests::repository;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Who imports whom: for each pair of top modules, one place that does.
type Imports = BTreeMap<(String, String), String>;

/// The text in tokens: words, `::` and single signs, without comments, strings and items under
/// `#[cfg(test)]`; each with its line.
fn tokens(text: &str) -> Vec<(String, usize)> {
    let signs: Vec<char> = text.chars().collect();
    let (mut found, mut place, mut line) = (Vec::new(), 0, 1);
    let at = |place: usize| signs.get(place).copied().unwrap_or('\0');
    while place < signs.len() {
        let start = place;
        match at(place) {
            '/' if at(place + 1) == '/' => {
                while place < signs.len() && at(place) != '\n' {
                    place += 1;
                }
            }
            'r' if raw_hashes(&signs, place).is_some() => {
                let hashes = raw_hashes(&signs, place).unwrap_or_default();
                place += hashes + 2;
                while place < signs.len()
                    && !(at(place) == '"' && (1..=hashes).all(|more| at(place + more) == '#'))
                {
                    place += 1;
                }
                place += hashes + 1;
            }
            '"' => {
                place += 1;
                while place < signs.len() && at(place) != '"' {
                    place += if at(place) == '\\' { 2 } else { 1 };
                }
                place += 1;
            }
            '\'' if at(place + 1) == '\\' => {
                place += 3;
                while place < signs.len() && at(place) != '\'' {
                    place += 1;
                }
                place += 1;
            }
            '\'' if at(place + 2) == '\'' => place += 3,
            ':' if at(place + 1) == ':' => {
                found.push(("::".to_owned(), line));
                place += 2;
            }
            sign if sign.is_alphanumeric() || sign == '_' => {
                while at(place).is_alphanumeric() || at(place) == '_' {
                    place += 1;
                }
                found.push((signs[start..place].iter().collect(), line));
            }
            sign => {
                if !sign.is_whitespace() {
                    found.push((sign.to_string(), line));
                }
                place += 1;
            }
        }
        let end = place.min(signs.len());
        line += signs[start..end]
            .iter()
            .filter(|sign| **sign == '\n')
            .count();
    }
    found
}

/// The number of `#` of a raw string that starts here, when one does.
fn raw_hashes(signs: &[char], start: usize) -> Option<usize> {
    let before = start.checked_sub(1).and_then(|before| signs.get(before));
    if before.is_some_and(|sign| (sign.is_alphanumeric() && *sign != 'b') || *sign == '_') {
        return None;
    }
    let hashes = signs[start + 1..]
        .iter()
        .take_while(|sign| **sign == '#')
        .count();
    (signs.get(start + 1 + hashes) == Some(&'"')).then_some(hashes)
}

const TEST_ONLY: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// Splits what only tests see off: the rest, and the names of the modules that only tests have.
fn without_tests(tokens: &[(String, usize)]) -> (Vec<(String, usize)>, Vec<String>) {
    let (mut kept, mut modules, mut place) = (Vec::new(), Vec::new(), 0);
    while let Some(token) = tokens.get(place) {
        let starts = TEST_ONLY
            .iter()
            .zip(&tokens[place..])
            .filter(|(wanted, (found, _))| *wanted == found)
            .count();
        if starts < TEST_ONLY.len() {
            kept.push(token.clone());
            place += 1;
            continue;
        }
        place += TEST_ONLY.len();
        let (item, mut depth) = (place, 0_usize);
        while let Some((token, _)) = tokens.get(place) {
            place += 1;
            match token.as_str() {
                "{" | "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.saturating_sub(1),
                "}" if depth <= 1 => break,
                "}" => depth -= 1,
                ";" | "," if depth == 0 => break,
                _ => {}
            }
        }
        let item = &tokens[item..place];
        if let Some(name) = item.iter().position(|(token, _)| token == "mod") {
            modules.extend(item.get(name + 1).map(|(name, _)| name.clone()));
        }
    }
    (kept, modules)
}

/// The first names of a path or of a list of paths that starts at `place`.
fn first_names(tokens: &[(String, usize)], mut place: usize) -> Vec<String> {
    let text = |place: usize| tokens.get(place).map_or("", |(token, _)| token.as_str());
    if text(place) != "{" {
        return vec![text(place).to_owned()];
    }
    let (mut names, mut depth) = (Vec::new(), 0);
    loop {
        match text(place) {
            "" => return names,
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return names;
        }
        if depth == 1 && ["{", ","].contains(&text(place)) {
            names.push(text(place + 1).to_owned());
        }
        place += 1;
    }
}

/// What paths of a file at `depth` below the root lead to from the root: name and line.
fn from_root(tokens: &[(String, usize)], depth: usize) -> Vec<(String, usize)> {
    let text = |place: usize| tokens.get(place).map_or("", |(token, _)| token.as_str());
    let mut found = Vec::new();
    for place in 0..tokens.len() {
        let before = place.checked_sub(1).map_or("", text);
        let after = match text(place) {
            // `pub(in crate::x)` says who may see an item and imports nothing.
            "crate" if text(place + 1) == "::" && before != "in" => place + 2,
            "super" if before != "::" && before != "in" => {
                let mut steps = 0;
                while text(place + 2 * steps) == "super" && text(place + 2 * steps + 1) == "::" {
                    steps += 1;
                }
                if steps != depth || depth == 0 {
                    continue;
                }
                place + 2 * steps
            }
            _ => continue,
        };
        let line = tokens[place].1;
        found.extend(
            first_names(tokens, after)
                .into_iter()
                .map(|name| (name, line)),
        );
    }
    found
}

/// Which module each name comes from that the root takes from one: `pub use module::{A, b::C as
/// D}`.
fn exports(tokens: &[(String, usize)], modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let statements = tokens.split(|(token, _)| token == ";");
    for statement in statements {
        let Some(start) = statement.iter().position(|(token, _)| token == "use") else {
            continue;
        };
        let path: Vec<&str> = statement[start + 1..]
            .iter()
            .map(|(token, _)| token.as_str())
            .filter(|token| !["crate", "self"].contains(token))
            .skip_while(|token| *token == "::")
            .collect();
        let Some(module) = path.first().filter(|module| modules.contains(**module)) else {
            continue;
        };
        for pair in path.windows(2) {
            if pair[1] != "::" && pair[1] != "as" && pair[0] != *module {
                found.insert(pair[0].to_owned(), (*module).to_owned());
            }
        }
        if let Some(last) = path.last() {
            found.insert((*last).to_owned(), (*module).to_owned());
        }
    }
    found
}

/// The imports among the top modules of the crate in `folder`.
fn imports(folder: &Path) -> Imports {
    let source = folder.join("src");
    let mut files: BTreeMap<PathBuf, Vec<(String, usize)>> = BTreeMap::new();
    let mut test_only = Vec::new();
    for path in sources()
        .into_iter()
        .filter(|path| path.starts_with(&source))
    {
        if is_test(path.strip_prefix(folder).expect("below its crate")) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        let (tokens, modules) = without_tests(&tokens(&text));
        let below = match path.file_stem().and_then(|name| name.to_str()) {
            Some("lib" | "main") => source.clone(),
            _ => path.with_extension(""),
        };
        test_only.extend(modules.iter().map(|name| below.join(name)));
        files.insert(path, tokens);
    }
    files.retain(|path, _| {
        !test_only
            .iter()
            .any(|module| path.with_extension("").starts_with(module))
    });

    let top = |path: &Path| -> Vec<String> {
        let inside = path
            .strip_prefix(&source)
            .expect("below src")
            .with_extension("");
        inside
            .components()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect()
    };
    let modules: BTreeSet<String> = files.keys().map(|path| top(path).swap_remove(0)).collect();
    let root = files
        .iter()
        .find(|(path, _)| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs"));
    let exports = root.map_or_else(BTreeMap::new, |(_, tokens)| exports(tokens, &modules));

    let mut found = Imports::new();
    for (path, tokens) in &files {
        let inside = top(path);
        if inside == ["lib"] || inside == ["main"] {
            continue;
        }
        for (name, line) in from_root(tokens, inside.len()) {
            let Some(used) = modules.get(&name).or_else(|| exports.get(&name)) else {
                continue;
            };
            if *used != inside[0] {
                let place = format!("{}:{line}", super::shown(path));
                found
                    .entry((inside[0].clone(), used.clone()))
                    .or_insert(place);
            }
        }
    }
    found
}

/// The imports that lie on a circle: those whose target leads back to where they start.
fn circles(imports: &Imports) -> Vec<String> {
    let leads = |from: &str, to: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            if module == to {
                return true;
            }
            if seen.insert(module) {
                let next = imports.keys().filter(|(start, _)| start == module);
                open.extend(next.map(|(_, target)| target.as_str()));
            }
        }
        false
    };
    imports
        .iter()
        .filter(|((from, to), _)| leads(to, from))
        .map(|((from, to), place)| format!("  {from} uses {to} ({place})"))
        .collect()
}

#[test]
fn no_top_modules_import_each_other_in_a_circle() {
    let mut failures = Vec::new();
    let mut crates = 0;
    for entry in std::fs::read_dir(repository()).expect("the folder can be read") {
        let folder = entry.expect("an entry").path();
        let name = super::shown(&folder);
        if !folder.join("Cargo.toml").is_file() || today::CIRCLES.contains(&name.as_str()) {
            continue;
        }
        crates += 1;
        let found = circles(&imports(&folder));
        if !found.is_empty() {
            failures.push(format!(
                "in {name} these imports close circles:\n{}",
                found.join("\n")
            ));
        }
    }
    assert!(crates > 5, "only {crates} crates found");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn circles_are_found_and_what_is_none_is_not() {
    let text = "use crate::{a::{x, y}, b as c, self};\n// crate::no\nfn f() { crate::d::g(\"crate::no\"); }\n\
                pub(in crate::no) fn h() {}\n#[cfg(test)]\nmod tests { use crate::no; }\n\
                use super::super::e;\nuse super::no;";
    let (tokens, modules) = without_tests(&tokens(text));
    assert_eq!(modules, ["tests"]);
    let names: Vec<String> = from_root(&tokens, 2)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["a", "b", "self", "d", "e"]);

    let pair = |from: &str, to: &str| ((from.to_owned(), to.to_owned()), "here".to_owned());
    assert!(
        circles(&Imports::from([
            pair("a", "b"),
            pair("a", "c"),
            pair("b", "c")
        ]))
        .is_empty()
    );
    let round = Imports::from([
        pair("a", "b"),
        pair("b", "c"),
        pair("c", "a"),
        pair("a", "d"),
    ]);
    assert_eq!(circles(&round).len(), 3);
}
