//! Source files are short, say what they own, are named for it, and switch no test off.

use super::{is_test, shown, sources, today};

/// Lines of a source file before its tests.
const MAX_LINES: usize = 500;

/// Columns of a line that is a comment; rustfmt keeps code at the same width.
const MAX_COMMENT_COLUMNS: usize = 100;

#[test]
fn files_are_short_and_say_what_they_own() {
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        if is_test(&path) {
            continue;
        }
        let lines = text
            .lines()
            .take_while(|line| *line != "#[cfg(test)]")
            .count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines", path.display());
        let opening = text.lines().next().unwrap_or_default();
        assert!(
            opening.starts_with("//!"),
            "{} does not open with //!",
            path.display()
        );
    }
}

#[test]
fn no_file_is_named_for_nothing() {
    let banned = [
        "mod.rs",
        "utils.rs",
        "util.rs",
        "common.rs",
        "helpers.rs",
        "manager.rs",
    ];
    for path in sources() {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        assert!(!banned.contains(&name), "{}", path.display());
    }
}

#[test]
fn no_test_is_switched_off() {
    // Written in two parts, or this file would find itself.
    let switch = ["#[ign", "ore"].concat();
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        assert!(!text.contains(&switch), "{} ignores a test", path.display());
    }
}

#[test]
fn comments_fit_a_screen() {
    let mut wide = Vec::new();
    for path in sources() {
        let name = shown(&path);
        if today::WIDE_COMMENTS
            .iter()
            .any(|part| name.starts_with(part))
        {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if line.trim_start().starts_with("//") && columns > MAX_COMMENT_COLUMNS {
                wide.push(format!("{name}:{}: {columns} columns", number + 1));
            }
        }
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}
