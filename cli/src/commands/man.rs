//! `lanekeeper man`: a manual page for the command and each of its subcommands.

use crate::args::{Arguments, ManArguments};
use crate::exit::Failure;
use clap::CommandFactory;

pub(crate) fn run(arguments: &ManArguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let cannot = |error: std::io::Error| {
        Failure::other(error).about(&format!("cannot write to {}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(cannot)?;
    let command = Arguments::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder).map_err(cannot)
}
