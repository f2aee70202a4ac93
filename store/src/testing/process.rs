//! A server process together with a watchdog that ends it when the test process is gone.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Waits for a line or for the end of its input. A line means that the server was ended properly;
/// the end of input without one means that the test process is gone, and the server has to go too.
/// A process that has ended but that no one has asked after has no `exe` any more.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
if ! read -r word; then
  kill -"$3" "$1" 2>/dev/null
  while [ -e "/proc/$1/exe" ]; do sleep 0.05; done
  word=remove
fi
if [ "$word" = remove ]; then rm -rf "$2"; fi
"#;

/// A running server.
pub(super) struct Process {
    server: Child,
    watchdog: Child,
    lifeline: Option<ChildStdin>,
    /// The signal, without `SIG`, that ends this server at once.
    end_signal: &'static str,
}

impl Process {
    /// Starts a server whose output goes to a file in its folder.
    pub(super) fn start(mut command: Command, folder: &Path, end_signal: &'static str) -> Self {
        let log = File::options()
            .create(true)
            .append(true)
            .open(log_path(folder))
            .expect("a log file in the server's folder");
        let server = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle of the log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let mut watchdog = Command::new("/bin/sh")
            .args(["-c", WATCHDOG, "watchdog", &server.id().to_string()])
            .arg(folder)
            .arg(end_signal)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let lifeline = watchdog.stdin.take();
        Self {
            server,
            watchdog,
            lifeline,
            end_signal,
        }
    }

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.server.try_wait(), Ok(None))
    }

    /// Sends a signal by its name without `SIG`.
    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("/bin/sh")
            .args([
                "-c",
                "kill -\"$1\" \"$2\"",
                "kill",
                name,
                &self.server.id().to_string(),
            ])
            .status()
            .expect("a shell");
        assert!(sent.success(), "signal {name} was not sent");
    }

    /// Ends the server at once, as a crash would, and waits until it is gone.
    pub(super) fn end(mut self, folder_too: bool) {
        if self.is_running() {
            self.signal(self.end_signal);
        }
        let _ = self.server.wait();
        if let Some(mut lifeline) = self.lifeline.take() {
            let word: &[u8] = if folder_too { b"remove\n" } else { b"keep\n" };
            lifeline.write_all(word).expect("the watchdog listens");
        }
        let _ = self.watchdog.wait();
    }
}

/// What the server said, for a panic's message.
pub(super) fn log_of(folder: &Path) -> String {
    std::fs::read_to_string(log_path(folder)).unwrap_or_default()
}

/// A new folder that outlives this process unless a [`Process`] removes it.
pub(super) fn folder() -> PathBuf {
    tempfile::Builder::new()
        .prefix("lanekeeper-")
        .tempdir()
        .expect("a temporary folder")
        .keep()
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}
