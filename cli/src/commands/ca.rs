//! `lanekeeper ca`: the authority that agents' certificates come from.

use crate::args::{CaAction, CaArguments};
use crate::exit::Failure;
use crate::{clock, output};

pub(crate) fn run(arguments: &CaArguments) -> Result<(), Failure> {
    let CaAction::Rotate(files) = &arguments.action;
    let fingerprint = lanekeeper_control_plane::rotate_authority(&files.files(), clock::unix_ms())
        .map_err(Failure::other)?;
    output::line(&fingerprint);
    output::hint("earlier authorities stay trusted until their certificates expire");
    Ok(())
}
