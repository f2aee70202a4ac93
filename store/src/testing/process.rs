//! A server process, and the folder of its files with a watchdog that clears up when the test process
//! is gone.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Reads the id of the process that is to be watched, or an empty line while there is none. The end of
/// the input means that the folder is no longer needed, or that the test process is gone: then whatever
/// still runs goes, and the folder as well. A process that has ended but that no one has asked after has
/// no `exe` any more.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
process=
while read -r line; do process=$line; done
if [ -n "$process" ]; then
  kill -"$2" "$process" 2>/dev/null
  while [ -e "/proc/$process/exe" ]; do sleep 0.05; done
fi
rm -rf "$1"
"#;

/// A new folder for one server, gone when this value or the test process is.
pub(super) struct Folder {
    path: PathBuf,
    watchdog: Child,
    lifeline: Option<ChildStdin>,
    /// The signal, without `SIG`, that ends the server at once.
    end_signal: &'static str,
}

impl Folder {
    pub(super) fn new(end_signal: &'static str) -> Self {
        let path = tempfile::Builder::new()
            .prefix("lanekeeper-")
            .tempdir()
            .expect("a temporary folder")
            .keep();
        let mut watchdog = Command::new("/bin/sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(&path)
            .arg(end_signal)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let lifeline = watchdog.stdin.take();
        Self {
            path,
            watchdog,
            lifeline,
            end_signal,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the server said, for a panic's message.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Starts the server; what it says goes to a file of the folder.
    pub(super) fn start(&mut self, mut command: Command) -> Process {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("a log file in the server's folder");
        let server = command
            .current_dir(&self.path)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle of the log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        self.watch(&server.id().to_string());
        Process {
            server,
            end_signal: self.end_signal,
        }
    }

    /// Ends the server at once, as a crash would.
    pub(super) fn end(&mut self, process: Process) {
        drop(process);
        self.watch("");
    }

    fn watch(&mut self, process: &str) {
        let lifeline = self.lifeline.as_mut().expect("open until the drop");
        writeln!(lifeline, "{process}").expect("the watchdog listens");
    }

    fn log_path(&self) -> PathBuf {
        self.path.join("server.log")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.lifeline = None;
        let _ = self.watchdog.wait();
    }
}

/// A running server; dropping it ends it at once.
pub(super) struct Process {
    server: Child,
    end_signal: &'static str,
}

impl Process {
    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.server.try_wait(), Ok(None))
    }

    pub(super) fn id(&self) -> u32 {
        self.server.id()
    }

    /// Sends a signal by its name without `SIG`.
    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("/bin/sh")
            .args(["-c", "kill -\"$1\" \"$2\"", "kill", name])
            .arg(self.server.id().to_string())
            .status()
            .expect("a shell");
        assert!(sent.success(), "signal {name} was not sent");
    }
}

impl Process {
    /// Sends a signal to the server and to every process that it has started.
    pub(super) fn signal_all(&self, name: &str) {
        let sent = Command::new("/bin/sh")
            .args([
                "-c",
                "kill -\"$1\" \"$2\"; for child in $(cat \"/proc/$2/task/$2/children\"); do \
                 kill -\"$1\" \"$child\" 2>/dev/null; done; true",
                "kill",
                name,
            ])
            .arg(self.server.id().to_string())
            .status()
            .expect("a shell");
        assert!(sent.success(), "signal {name} was not sent");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_running() {
            self.signal(self.end_signal);
        }
        let _ = self.server.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::Folder;

    #[test]
    fn what_still_runs_when_the_lifeline_is_cut_goes_with_its_folder() {
        let mut folder = Folder::new("KILL");
        let mut ended = Command::new("sleep");
        ended.arg("600");
        let ended = folder.start(ended);
        folder.end(ended);
        let mut left = Command::new("sleep");
        left.arg("600");
        let mut left = folder.start(left);
        let path = folder.path().to_owned();
        assert!(left.is_running() && path.exists());
        // What also happens when this process is killed.
        drop(folder);
        assert!(!left.is_running());
        assert!(!path.exists());
    }
}
