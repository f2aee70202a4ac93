//! A private PostgreSQL.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::OnceCell;

use super::process::{Folder, Process};
use super::{POLL, PORT_ATTEMPTS_MAX, READY_TIMEOUT, free_port};
use crate::random;

/// Where Debian keeps the server's programs, a folder per major version.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";
/// Speed instead of safety where only a power cut tells the difference. Commits stay synchronous: a
/// test that crashes the server counts on them.
const SETTINGS: [&str; 7] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "full_page_writes=off",
    "max_connections=300",
    "shared_buffers=32MB",
    "max_wal_size=256MB",
];

/// Mounts a disk that only the server sees and that goes with it, and runs the rest there.
const MOUNT: &str = r#"mount -t tmpfs -o "size=$1m,mode=1777" tmpfs "$2" && shift 2 && exec "$@""#;
/// Makes a cluster and serves it.
const MAKE_AND_SERVE: &str = r#"
programs=$1 data=$2; shift 2
"$programs/initdb" --pgdata "$data" --username=postgres --auth=trust --encoding=UTF8 --locale=C \
  --no-sync && exec "$programs/postgres" -D "$data" "$@""#;

/// A PostgreSQL server with a cluster of its own.
pub struct PostgresServer {
    /// Goes before its folder does: fields are dropped in this order.
    process: Option<Process>,
    folder: Folder,
    port: u16,
}

/// The disk of a server that has one of its own, as it is seen from outside.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Starts a server whose files are on a disk of so many MiB; they go when it is stopped. Unless
    /// root asks, the system must let everybody make user namespaces.
    ///
    /// # Panics
    /// When there is no PostgreSQL or it does not come up.
    pub async fn start(mib: u32) -> (PostgresServer, Self) {
        let folder = Folder::new("QUIT");
        let disk = folder.path().join("disk");
        std::fs::create_dir(&disk).expect("a folder in the server's folder");
        let mut unshare = Command::new("unshare");
        let user = server_user();
        if let Some((user, group)) = user {
            chown(folder.path(), Some(user), Some(group))
                .expect("the folder can be given to postgres");
        } else {
            unshare.args(["--user", "--map-root-user"]);
        }
        unshare
            .args(["--mount", "sh", "-c", MOUNT, "mount", &mib.to_string()])
            .arg(&disk);
        match user {
            Some((user, group)) => unshare.args([
                "setpriv".to_owned(),
                format!("--reuid={user}"),
                format!("--regid={group}"),
                "--clear-groups".to_owned(),
            ]),
            None => unshare.args(["unshare", "--user", "--map-user=1000", "--map-group=1000"]),
        };
        let mut server = PostgresServer {
            process: None,
            folder,
            port: free_port(),
        };
        unshare
            .args(["sh", "-c", MAKE_AND_SERVE, "postgres"])
            .arg(programs_folder())
            .arg(disk.join("data"))
            .args(server.arguments());
        assert!(
            server.comes_up(unshare).await,
            "postgres does not come up: {}",
            server.folder.log()
        );
        let id = server.running().id();
        let seen = disk.strip_prefix("/").expect("an absolute path");
        let root = Path::new("/proc").join(id.to_string()).join("root");
        (server, Self(root.join(seen)))
    }

    /// Uses up all the room that is left.
    ///
    /// # Panics
    /// When the disk is not within reach.
    pub fn fill(&self) {
        let mut ballast = File::create(self.ballast()).expect("a file on the disk");
        for size in [1 << 20, 4096] {
            while ballast.write_all(&vec![1; size]).is_ok() {}
        }
    }

    /// Undoes [`fill`](Self::fill).
    ///
    /// # Panics
    /// When the disk was not filled.
    pub fn clear(&self) {
        std::fs::remove_file(self.ballast()).expect("the file that filled the disk");
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl PostgresServer {
    /// The server that all tests of one program share. For a test that stops its server,
    /// [`start`](Self::start).
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<PostgresServer> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    /// Makes a cluster, starts a server on a free port and waits until it answers.
    ///
    /// # Panics
    /// When there is no PostgreSQL (Debian package postgresql) or it does not come up.
    pub async fn start() -> Self {
        let folder = Folder::new("QUIT");
        if let Some((user, group)) = server_user() {
            chown(folder.path(), Some(user), Some(group))
                .expect("the folder can be given to postgres");
        }
        let made = command("initdb")
            .arg("--pgdata")
            .arg(data(folder.path()))
            .args([
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ])
            .current_dir(folder.path())
            .output()
            .expect("initdb runs");
        assert!(
            made.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let mut server = Self {
            process: None,
            folder,
            port: 0,
        };
        for _ in 0..PORT_ATTEMPTS_MAX {
            server.port = free_port();
            if server.try_start().await {
                return server;
            }
        }
        panic!("postgres does not come up: {}", server.folder.log());
    }

    /// Makes an empty database and answers with its address, for
    /// [`ConfigStore::connect`](crate::ConfigStore::connect).
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn create_database(&self) -> String {
        let name = format!("test_{}", random::identifier());
        let mut connection = PgConnection::connect(&self.url("postgres"))
            .await
            .expect("a connection");
        // The name is made of our own digits.
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}")))
            .execute(&mut connection)
            .await
            .expect("a new database");
        self.url(&name)
    }

    /// Ends the server at once, as a crash would; what was committed stays.
    pub fn stop(&mut self) {
        if let Some(process) = self.process.take() {
            self.folder.end(process);
        }
    }

    /// Starts a stopped server again on the same port and waits until it answers.
    ///
    /// # Panics
    /// When it does not come up.
    pub async fn start_again(&mut self) {
        assert!(self.process.is_none(), "the server still runs");
        assert!(
            self.try_start().await,
            "postgres does not come up: {}",
            self.folder.log()
        );
    }

    /// Stops the clockwork of the server and of all its sessions: connections stay open and nothing
    /// answers.
    pub fn freeze(&self) {
        self.running().signal_all("STOP");
    }

    /// Undoes [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.running().signal_all("CONT");
    }

    /// Runs statements in a database, by its address.
    ///
    /// # Panics
    /// When the server refuses one.
    pub async fn execute(&self, database: &str, statements: &str) {
        let mut connection = PgConnection::connect(database).await.expect("a connection");
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))
            .execute(&mut connection)
            .await
            .expect("statements that can be run");
    }

    /// What a backup of a database holds.
    ///
    /// # Panics
    /// When `pg_dump` fails.
    #[must_use]
    pub fn back_up(&self, database: &str) -> Vec<u8> {
        let dump = command("pg_dump")
            .args(["--no-owner", "--dbname", database])
            .current_dir(self.folder.path())
            .output()
            .expect("pg_dump runs");
        let said = String::from_utf8_lossy(&dump.stderr);
        assert!(dump.status.success(), "pg_dump failed: {said}");
        dump.stdout
    }

    /// Puts a backup in the place of all that is in a database, while others are connected to it.
    ///
    /// # Panics
    /// When `psql` fails.
    pub fn restore(&self, database: &str, backup: &[u8]) {
        let file = self.folder.path().join("restore.sql");
        let mut script = b"DROP SCHEMA public CASCADE; CREATE SCHEMA public;\n".to_vec();
        script.extend_from_slice(backup);
        std::fs::write(&file, script).expect("a file in the server's folder");
        let done = command("psql")
            .args(["--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1"])
            .args(["--dbname", database, "--file"])
            .arg(&file)
            .current_dir(self.folder.path())
            .output()
            .expect("psql runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "psql failed: {said}");
    }

    fn running(&self) -> &Process {
        self.process.as_ref().expect("a running server")
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    async fn try_start(&mut self) -> bool {
        let mut command = command("postgres");
        command
            .arg("-D")
            .arg(data(self.folder.path()))
            .args(self.arguments());
        self.comes_up(command).await
    }

    fn arguments(&self) -> Vec<String> {
        let port = ["-p".to_owned(), self.port.to_string()];
        let settings = SETTINGS.iter().flat_map(|it| ["-c", *it]);
        port.into_iter()
            .chain(settings.map(str::to_owned))
            .collect()
    }

    async fn comes_up(&mut self, command: Command) -> bool {
        // The immediate shutdown: no farewell to clients, recovery at the next start.
        let mut process = self.folder.start(command);
        let url = self.url("postgres");
        let ready = tokio::time::timeout(READY_TIMEOUT, async {
            while process.is_running() {
                if PgConnection::connect(&url).await.is_ok() {
                    return true;
                }
                tokio::time::sleep(POLL).await;
            }
            false
        })
        .await
        .unwrap_or(false);
        if ready {
            self.process = Some(process);
        } else {
            self.folder.end(process);
        }
        ready
    }
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// One of the server's programs, to be run as a user that it accepts.
fn command(program: &str) -> Command {
    let mut command = Command::new(programs_folder().join(program));
    if let Some((user, group)) = server_user() {
        command.uid(user).gid(group);
    }
    command
}

/// The programs of the newest version installed.
fn programs_folder() -> PathBuf {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(DEBIAN_FOLDER)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse().ok()?,
                entry.path().join("bin"),
            ))
        })
        .filter(|(_, programs)| programs.join("initdb").exists())
        .collect();
    versions.sort();
    let Some((_, programs)) = versions.pop() else {
        panic!(
            "PostgreSQL is missing under {DEBIAN_FOLDER}: install the Debian package postgresql"
        );
    };
    programs
}

/// PostgreSQL refuses to run as root; tests that do give way to its own user. `None` when nothing
/// has to change.
fn server_user() -> Option<(u32, u32)> {
    if std::fs::metadata("/proc/self")
        .expect("a mounted /proc")
        .uid()
        != 0
    {
        return None;
    }
    let accounts = std::fs::read_to_string("/etc/passwd").expect("the list of accounts");
    let user = accounts.lines().find_map(|line| {
        let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    Some(user.expect("the user postgres: install the Debian package postgresql"))
}
