//! Printing: results to standard output, words for people to standard error.

use crate::exit::{Failure, Kind};
use lanekeeper_model::wording::is_unseen;
use serde_json::Value;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::OnceLock;

/// Why a result could not be written, the first time.
static UNWRITTEN: OnceLock<io::Error> = OnceLock::new();

/// Whether something was written. A reader that went away is no reason to fail; a full disk is, at
/// the end of the command.
fn is_written(written: io::Result<()>) -> bool {
    match written {
        Ok(()) => true,
        Err(error) => {
            if error.kind() != ErrorKind::BrokenPipe {
                // The first reason is the one told.
                _ = UNWRITTEN.set(error);
            }
            false
        }
    }
}

/// Fails when a part of the results could not be written: who keeps them must not take them for
/// whole.
pub(crate) fn end() -> Result<(), Failure> {
    is_written(stdout().flush());
    match UNWRITTEN.get() {
        Some(error) => {
            let text = format!("the output could not be written: {error}");
            Err(Failure::new(Kind::Other, text))
        }
        None => Ok(()),
    }
}

/// One line of a result.
pub(crate) fn line(text: &str) {
    is_written(writeln!(stdout(), "{text}"));
}

/// The same, for a command that goes on by itself: false when nobody reads any more.
pub(crate) fn try_line(text: &str) -> bool {
    let mut stdout = stdout();
    is_written(writeln!(stdout, "{text}").and_then(|()| stdout.flush()))
}

/// Hands over what was written: false when nobody reads any more.
pub(crate) fn try_flush() -> bool {
    is_written(stdout().flush()) && UNWRITTEN.get().is_none()
}

/// Whether results go to a terminal.
pub(crate) fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Empties the terminal.
pub(crate) fn clear() {
    is_written(write!(stdout(), "\u{1b}[H\u{1b}[2J"));
}

/// A line for the person at the terminal; nothing when nobody is there to read it.
pub(crate) fn hint(text: &str) {
    if stderr().is_terminal() {
        _ = writeln!(stderr(), "{text}");
    }
}

/// What a person should read beside a result that goes elsewhere.
pub(crate) fn report(text: &str) {
    _ = writeln!(stderr(), "{text}");
}

/// What went wrong.
pub(crate) fn error(text: &str) {
    _ = writeln!(stderr(), "lanekeeper: {text}");
}

/// A value as indented JSON.
pub(crate) fn json(value: &Value) {
    line(&format!("{value:#}"));
}

/// A value as YAML.
pub(crate) fn yaml(value: &Value) -> Result<(), Failure> {
    line(
        serde_saphyr::to_string(value)
            .map_err(Failure::other)?
            .trim_end(),
    );
    Ok(())
}

/// The same text with control and invisible characters written out: what others named must not steer a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().fold(String::new(), |mut plain, c| {
        if is_unseen(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
        plain
    })
}

/// Rows under a heading, columns as wide as their widest entry.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|entry| plain(entry)).collect())
        .collect();
    let mut widths: Vec<usize> = heading.iter().map(|name| name.chars().count()).collect();
    for row in &rows {
        for (width, entry) in widths.iter_mut().zip(row) {
            *width = (*width).max(entry.chars().count());
        }
    }
    let print = |entries: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (entry, width) in entries.zip(&widths) {
            text += &format!("{entry:<width$}  ");
        }
        line(text.trim_end());
    };
    print(&mut heading.iter().copied());
    for row in &rows {
        print(&mut row.iter().map(String::as_str));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        let shown = plain("red\u{1b}[31m\nnext\u{9b}\t\u{7f}");
        assert_eq!(shown, "red\\u{1b}[31m\\nnext\\u{9b}\\t\\u{7f}");
        assert_eq!(plain("a\u{202e}b\u{feff}"), "a\\u{202e}b\\u{feff}");
        assert_eq!(plain("Käthe › 中"), "Käthe › 中");
    }
}
