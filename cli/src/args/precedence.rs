//! A flag wins over an environment variable, also over that of another flag it cannot stand beside:
//! who writes `--token-file` means it, whatever the shell's profile says of tokens.

use super::Arguments;
use clap::builder::Resettable;
use clap::{Command, CommandFactory, FromArgMatches};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

/// The command line and environment of this process. Ends it with a message when they are wrong.
pub(crate) fn parse() -> Arguments {
    let given: Vec<OsString> = std::env::args_os().collect();
    let command = without_outdone_variables(Arguments::command(), &given);
    let matches = command.get_matches_from(given);
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
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
