//! `lanekeeper own-folder`: a volume that the kubelet or Docker made belongs to root, and the image has
//! no other program that could give it away.

use crate::args::OwnFolderArguments;
use crate::exit::{Failure, Kind};

pub(crate) fn run(arguments: &OwnFolderArguments) -> Result<(), Failure> {
    let (user, group) = arguments.owner;
    for folder in &arguments.folders {
        let cannot = |error: std::io::Error| {
            let text = format!(
                "{} cannot be given to {user}:{group}: {error}",
                folder.display()
            );
            Failure::new(Kind::Other, text)
        };
        std::fs::create_dir_all(folder).map_err(cannot)?;
        std::os::unix::fs::chown(folder, Some(user), Some(group)).map_err(cannot)?;
    }
    Ok(())
}
