//! Every command that a page names is one that this program takes.

use super::Arguments;
use clap::CommandFactory;
use clap::error::ErrorKind;
use std::path::Path;

/// The commands of a page: those in shell blocks, and those in the text between backticks.
fn commands(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut block: Option<(bool, String)> = None;
    for line in text.lines() {
        match (&mut block, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => block = Some((language.starts_with("sh"), String::new())),
            (Some((is_shell, lines)), Some(_)) => {
                if *is_shell {
                    // A line that goes on.
                    let whole = lines.replace("\\\n", " ");
                    for line in whole.lines() {
                        found.extend(pieces(line).into_iter().map(|it| (it, true)));
                    }
                }
                block = None;
            }
            (Some((_, lines)), None) => {
                lines.push_str(line);
                lines.push('\n');
            }
            (None, None) => {
                let quoted = line.split('`').skip(1).step_by(2);
                found.extend(quoted.flat_map(pieces).map(|it| (it, false)));
            }
        }
    }
    found
}

/// The calls of this program in a line of shell.
fn pieces(line: &str) -> Vec<String> {
    let line = line.split(" # ").next().unwrap_or_default();
    let parts = line.split(['|', ';', '>', '&', '(', ')']);
    let calls = parts.filter_map(|part| {
        let at = part.find("lanekeeper ")?;
        let before = part.get(..at)?.trim_end();
        // A path or a name that only ends so, or an argument of another command.
        let is_call = before.is_empty()
            || before.ends_with("exec")
            || before.ends_with("sudo")
            || before.split(' ').all(|word| word.contains('='));
        is_call.then(|| part.get(at..).unwrap_or_default().trim().to_owned())
    });
    calls.collect()
}

/// The words of a call, placeholders made values that fit anywhere.
fn words(call: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in call.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, ' ') => {
                words.push(std::mem::take(&mut word));
            }
            (_, c) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    for word in &mut words {
        let is_placeholder = word
            .chars()
            .all(|c| c.is_ascii_uppercase() || c == '_' || c == '-');
        if is_placeholder && word.chars().any(|c| c.is_ascii_uppercase()) {
            "1".clone_into(word);
        }
    }
    words
}

#[test]
fn every_command_in_the_pages_is_one_that_is_taken() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    let entries = std::fs::read_dir(root.join("docs")).unwrap();
    pages.extend(
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "md")),
    );
    let mut checked = 0;
    let mut wrong = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for (call, is_whole) in commands(&text) {
            // Lists of choices and things left out.
            if call.contains(['…', '[', '<', '\\'])
                || call.contains("...")
                || call.contains("COMMAND")
            {
                continue;
            }
            checked += 1;
            let Err(error) = Arguments::command().try_get_matches_from(words(&call)) else {
                continue;
            };
            let is_fine = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
                // The text may name a command without all that it wants.
                ErrorKind::MissingRequiredArgument
                | ErrorKind::MissingSubcommand
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !is_whole,
                _ => false,
            };
            if !is_fine {
                let page = page.strip_prefix(root).unwrap().display();
                wrong.push(format!("{page}: {call}: {}", error.kind()));
            }
        }
    }
    assert!(checked > 60, "{checked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
