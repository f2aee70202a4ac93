//! A flag wins over an environment variable, also over that of another flag it cannot stand beside:
//! who writes `--token-file` means it, whatever the shell's profile says of tokens.

use super::Arguments;
use clap::builder::Resettable;
use clap::{Command, CommandFactory, FromArgMatches};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

/// The command line and environment of this process. Ends it with a message when they are wrong.
pub(crate) fn parse() -> Arguments {
    let given = behind_the_command(std::env::args_os().collect());
    let command = without_outdone_variables(Arguments::command(), &given);
    let matches = command.get_matches_from(given);
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Flags that say where the API is and who asks, and take a value.
const API_FLAGS: [&str; 4] = ["--url", "--token", "--token-file", "--cacert"];

/// Flags of every command that take a value and stand where they are.
const LOG_FLAGS: [&str; 2] = ["--log", "--log-format"];

/// The words with such flags behind the command, for people who put them before it.
fn behind_the_command(given: Vec<OsString>) -> Vec<OsString> {
    let mut words = given.into_iter();
    let mut front: Vec<OsString> = words.next().into_iter().collect();
    let mut moved = Vec::new();
    let mut rest = Vec::new();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let name = text.split_once('=').map_or(&*text, |(name, _)| name);
        if API_FLAGS.contains(&name) {
            let takes_next = !text.contains('=');
            moved.push(word);
            if takes_next {
                moved.extend(words.next());
            }
        } else if text.starts_with('-') && text != "--" {
            let takes_next = LOG_FLAGS.contains(&&*text);
            front.push(word);
            if takes_next {
                front.extend(words.next());
            }
        } else {
            rest.push(word);
            rest.extend(words);
            break;
        }
    }
    let end = rest.iter().position(|word| word == "--");
    let behind = end.map(|end| rest.split_off(end)).unwrap_or_default();
    front
        .into_iter()
        .chain(rest)
        .chain(moved)
        .chain(behind)
        .collect()
}

/// The command without the environment variables of flags that conflict with a flag that was given.
fn without_outdone_variables(mut command: Command, given: &[OsString]) -> Command {
    let flags: BTreeSet<&str> = given
        .iter()
        .filter_map(|word| OsStr::to_str(word)?.strip_prefix("--"))
        .map(|word| word.split_once('=').map_or(word, |(flag, _)| flag))
        .collect();
    // Conflicts are known once the command is built, and can be changed only before.
    let mut built = command.clone();
    built.build();
    for subcommand in built.get_subcommands() {
        let is_given = |arg: &clap::Arg| arg.get_long().is_some_and(|long| flags.contains(long));
        let stated: Vec<&clap::Arg> = subcommand
            .get_arguments()
            .filter(|arg| is_given(arg))
            .collect();
        let outdone: Vec<clap::Id> = subcommand
            .get_arguments()
            .filter(|rival| rival.get_env().is_some() && !is_given(rival))
            .filter(|rival| {
                let conflict = |a: &clap::Arg, b: &clap::Arg| {
                    subcommand
                        .get_arg_conflicts_with(a)
                        .iter()
                        .any(|other| other.get_id() == b.get_id())
                };
                stated
                    .iter()
                    .any(|arg| conflict(arg, rival) || conflict(rival, arg))
            })
            .map(|rival| rival.get_id().clone())
            .collect();
        for id in outdone {
            command = command.mut_subcommand(subcommand.get_name(), |subcommand| {
                subcommand.mut_arg(id, |arg| arg.env(Resettable::<clap::builder::OsStr>::Reset))
            });
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a flag's variable still counts beside these words.
    fn counts(words: &[&str], subcommand: &str, flag: &str) -> bool {
        let given: Vec<OsString> = words.iter().map(OsString::from).collect();
        let command = without_outdone_variables(Arguments::command(), &given);
        let subcommand = command.find_subcommand(subcommand).unwrap();
        let arg = subcommand
            .get_arguments()
            .find(|arg| arg.get_long() == Some(flag))
            .unwrap();
        arg.get_env().is_some()
    }

    #[test]
    fn the_flags_of_the_api_may_stand_before_the_command() {
        for (given, expected) in [
            ("lk --url X get agents", "lk get agents --url X"),
            (
                "lk --log debug --url X get agents",
                "lk --log debug get agents --url X",
            ),
            (
                "lk --url=X --token-file F get agents -- a",
                "lk get agents --url=X --token-file F -- a",
            ),
            ("lk get agents --url X", "lk get agents --url X"),
            ("lk --help", "lk --help"),
        ] {
            let words = given.split(' ').map(OsString::from).collect();
            let expected: Vec<OsString> = expected.split(' ').map(OsString::from).collect();
            assert_eq!(behind_the_command(words), expected, "{given}");
        }
    }

    #[test]
    fn a_flag_outdoes_the_variables_of_its_rivals_and_no_others() {
        let get = ["lanekeeper", "get", "gateways"];
        assert!(counts(&get, "get", "token"));
        for file in [&["--token-file", "f"][..], &["--token-file=f"]] {
            let words: Vec<&str> = get.iter().chain(file).copied().collect();
            assert!(!counts(&words, "get", "token"), "{words:?}");
            assert!(counts(&words, "get", "token-file"));
            assert!(counts(&words, "get", "url"));
        }
        let token = ["lanekeeper", "get", "gateways", "--token", "a.b"];
        assert!(!counts(&token, "get", "token-file"));
        let standalone = ["lanekeeper", "agent", "--config", "f"];
        assert!(!counts(&standalone, "agent", "control-plane"));
        assert!(!counts(&standalone, "agent", "gateway"));
        assert!(counts(&standalone, "agent", "name"));
    }
}
