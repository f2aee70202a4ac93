//! `lanekeeper completion`

use crate::args::{Arguments, CompletionArguments};
use clap::CommandFactory;

/// Prints the script that makes a shell complete this command's words.
pub(crate) fn run(arguments: &CompletionArguments) {
    let mut command = Arguments::command();
    let name = command.get_name().to_owned();
    // Written into memory first: a reader that goes away must not end the process with a panic.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    crate::output::line(String::from_utf8_lossy(&script).trim_end());
}
