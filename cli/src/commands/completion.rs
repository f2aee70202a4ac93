//! `lanekeeper completion`

use crate::args::CompletionArguments;
use crate::exit::{Failure, Kind};
use crate::output;
use clap_complete::env::Shells;

/// Prints the script that makes a shell complete this command's words, by asking the command itself:
/// names of gateways, agents, pools and lanes come from the server.
pub(crate) fn run(arguments: &CompletionArguments) -> Result<(), Failure> {
    let name = arguments.shell.to_string();
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&name) else {
        let text = format!("there is no completion for {name}");
        return Err(Failure::new(Kind::Usage, text));
    };
    // Written into memory first: a reader that goes away must not end the process with a panic.
    let mut script = Vec::new();
    shell
        .write_registration(
            "COMPLETE",
            "lanekeeper",
            "lanekeeper",
            "lanekeeper",
            &mut script,
        )
        .map_err(Failure::other)?;
    output::line(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}
