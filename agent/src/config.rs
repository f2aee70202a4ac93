//! What an agent is started with, and the check that reports every fault of it at once.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use lanekeeper_proto::limits::{LABELS_MAX, NAME_BYTES_MAX};
use opentelemetry_sdk::trace::SdkTracer;

/// Port of the proxy listener unless told otherwise.
pub const PROXY_PORT: u16 = 7410;
/// Port of the ops listener unless told otherwise.
pub const OPS_PORT: u16 = 7411;
/// How long an agent keeps serving after it was told to stop: load balancers need to notice first.
pub const DRAIN_PAUSE: Duration = Duration::from_secs(5);
/// How long running answers may go on once the listeners are closed.
pub const DRAIN_GRACE: Duration = Duration::from_secs(600);
/// Longest drain pause and grace that are accepted: one day.
pub const DRAIN_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Most proxy threads.
pub const WORKERS_MAX: usize = 256;
/// Longest gateway name, in characters.
const GATEWAY_NAME_MAX: usize = 63;
/// Used when the system does not tell its host name.
const UNNAMED: &str = "agent";

/// Settings of one agent process.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where callers connect. Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where probes and scrapers connect. Port 0 picks a free one.
    pub ops_listen: SocketAddr,
    /// Where the gateway document comes from.
    pub source: Source,
    /// Display name in the fleet view; several agents may share one.
    pub name: String,
    /// Labels in the fleet view.
    pub labels: BTreeMap<String, String>,
    /// Folder of the last-known-good file; `None` keeps none. Used by joined agents only.
    pub cache_dir: Option<PathBuf>,
    /// How to join the control plane; `None` for certificates from files or plaintext. Used by
    /// joined agents only.
    pub join: Option<Join>,
    /// Time between the stop order and closed listeners.
    pub drain_pause: Duration,
    /// Time that running answers get after that.
    pub drain_grace: Duration,
    /// Proxy threads; `None` is one per core.
    pub workers: Option<NonZeroUsize>,
    /// Makes a span of each request and attempt; `None` traces nothing, at no cost.
    pub tracer: Option<SdkTracer>,
}

/// What an agent joins with. It gets a certificate for it, which it keeps and renews by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// A file with a join token, or with a projected token of Kubernetes; read when a certificate
    /// is needed and none is kept.
    pub token_file: PathBuf,
    /// Authorities that may vouch for the control plane at the first contact, PEM; not needed with
    /// a join token, which names them.
    pub ca: Option<PathBuf>,
}

/// Where an agent's gateway document comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file on this machine, re-read when it changes.
    Standalone {
        /// The YAML or JSON document.
        file: PathBuf,
    },
    /// A control plane that pushes revisions.
    Joined {
        /// Address, `https://host:port`, or `http://` on loopback with `insecure`.
        control_plane: String,
        /// Name of the gateway this agent serves.
        gateway: String,
        /// Allows plaintext, and nothing but plaintext, to a loopback address.
        insecure: bool,
        /// What `https` needs.
        tls: Option<ClientTls>,
    },
}

/// Certificates of a mutually authenticated connection, in PEM files that are read at every dial,
/// so that renewed ones are picked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTls {
    /// Authorities that may have signed the control plane's certificate.
    pub ca: PathBuf,
    /// The agent's own certificate, with its chain.
    pub cert: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
}

/// One thing that is wrong with a [`Config`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The setting, named as on the command line.
    pub setting: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}: {}", self.setting, self.message)
    }
}

impl Config {
    /// Default settings around a source.
    #[must_use]
    pub fn new(source: Source) -> Self {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self {
            listen: SocketAddr::new(loopback, PROXY_PORT),
            ops_listen: SocketAddr::new(loopback, OPS_PORT),
            source,
            name: host_name(),
            labels: BTreeMap::new(),
            cache_dir: None,
            join: None,
            drain_pause: DRAIN_PAUSE,
            drain_grace: DRAIN_GRACE,
            workers: None,
            tracer: None,
        }
    }

    /// Everything that is wrong, one line each; empty when nothing is.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.check()
            .err()
            .unwrap_or_default()
            .iter()
            .map(Fault::to_string)
            .collect()
    }

    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// All faults, not only the first.
    pub fn check(&self) -> Result<(), Vec<Fault>> {
        let mut faults = Faults::default();
        if self.listen.port() != 0 && self.listen == self.ops_listen {
            faults.add("ops-listen", "is the same address as --listen");
        }
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            faults.add("name", format!("must have 1 to {NAME_BYTES_MAX} bytes"));
        }
        if self.labels.len() > LABELS_MAX {
            faults.add("label", format!("more than {LABELS_MAX} labels"));
        }
        for (key, value) in &self.labels {
            if key.is_empty() || key.len() > NAME_BYTES_MAX || value.len() > NAME_BYTES_MAX {
                faults.add(
                    "label",
                    format!("\"{key}\": key and value must have 1 to {NAME_BYTES_MAX} bytes"),
                );
            }
        }
        for (setting, value) in [
            ("drain-pause-secs", self.drain_pause),
            ("drain-grace-secs", self.drain_grace),
        ] {
            if value > DRAIN_MAX {
                faults.add(
                    setting,
                    format!("must be at most {} s", DRAIN_MAX.as_secs()),
                );
            }
        }
        if self.workers.is_some_and(|count| count.get() > WORKERS_MAX) {
            faults.add("workers", format!("must be at most {WORKERS_MAX}"));
        }
        self.source.check(self.join.as_ref(), &mut faults);
        if faults.0.is_empty() {
            Ok(())
        } else {
            Err(faults.0)
        }
    }
}

impl Source {
    fn check(&self, join: Option<&Join>, faults: &mut Faults) {
        match self {
            Self::Standalone { file } => {
                if file.as_os_str().is_empty() {
                    faults.add("config", "must name a file");
                }
            }
            Self::Joined {
                control_plane,
                gateway,
                insecure,
                tls,
            } => {
                if !is_gateway_name(gateway) {
                    faults.add(
                        "gateway",
                        format!("\"{gateway}\" must match [a-z0-9-]{{1,{GATEWAY_NAME_MAX}}}"),
                    );
                }
                if let Err(message) = check_control_plane(control_plane, *insecure) {
                    faults.add("control-plane", message);
                }
                match (insecure, tls, join) {
                    (true, Some(_), _) => {
                        faults.add("insecure", "contradicts --tls-ca, --tls-cert and --tls-key");
                    }
                    (true, None, Some(_)) => {
                        faults.add("insecure", "contradicts --join-token-file");
                    }
                    (false, Some(_), Some(_)) => {
                        faults.add("join-token-file", "contradicts --tls-cert and --tls-key");
                    }
                    (false, None, None) => faults.add(
                        "join-token-file",
                        "is needed, or --tls-ca, --tls-cert and --tls-key, or --insecure",
                    ),
                    (true, None, None) | (false, Some(_), None) | (false, None, Some(_)) => {}
                }
            }
        }
    }
}

#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, setting: &'static str, message: impl Into<String>) {
        self.0.push(Fault {
            setting,
            message: message.into(),
        });
    }
}

fn is_gateway_name(name: &str) -> bool {
    (1..=GATEWAY_NAME_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Plaintext carries reports and documents that anyone on the path could read and change, so it
/// never leaves the machine.
fn check_control_plane(address: &str, insecure: bool) -> Result<(), String> {
    let uri: Uri = address
        .parse()
        .map_err(|error| format!("\"{address}\" is no address: {error}"))?;
    let Some(host) = uri.host() else {
        return Err(format!("\"{address}\" must be https://host:port"));
    };
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(format!("\"{address}\" must have no path"));
    }
    if uri.authority().is_some_and(|it| it.as_str().contains('@')) {
        return Err("must carry no user name or password".to_owned());
    }
    match (uri.scheme_str(), insecure) {
        (Some("https"), false) => Ok(()),
        (Some("http"), true) if is_loopback(host) => Ok(()),
        (Some("http"), true) => Err(format!(
            "\"{address}\" is not on this machine: --insecure is for loopback addresses only"
        )),
        (Some("http"), false) => Err(format!(
            "\"{address}\" is plaintext: use https, or --insecure on a loopback address"
        )),
        (Some("https"), true) => Err(format!(
            "\"{address}\" is https: leave --insecure out, or use http on a loopback address"
        )),
        _ => Err(format!("\"{address}\" must begin with https://")),
    }
}

/// A name other than `localhost` could resolve to anything, so it does not count.
fn is_loopback(host: &str) -> bool {
    let host = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX)
        .unwrap_or_else(|| UNNAMED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(control_plane: &str, insecure: bool) -> Config {
        Config::new(Source::Joined {
            control_plane: control_plane.to_owned(),
            gateway: "edge".to_owned(),
            insecure,
            tls: (!insecure).then(|| ClientTls {
                ca: "ca.pem".into(),
                cert: "agent.pem".into(),
                key: "agent.key".into(),
            }),
        })
    }

    #[test]
    fn plaintext_never_leaves_the_machine() {
        for (address, insecure, good) in [
            ("http://127.0.0.1:7400", true, true),
            ("http://localhost:7400", true, true),
            ("http://[::1]:7400", true, true),
            ("http://127.0.0.1:7400", false, false),
            ("http://10.0.0.1:7400", true, false),
            ("http://control.example:7400", true, false),
            ("http://localhost.example:7400", true, false),
            ("https://control.example:7400", false, true),
            ("https://127.0.0.1:7400", true, false),
            ("ftp://127.0.0.1", true, false),
            ("127.0.0.1:7400", true, false),
            ("https://user:secret@control.example", false, false),
            ("https://control.example/path", false, false),
            ("", true, false),
        ] {
            let checked = joined(address, insecure).check();
            assert_eq!(checked.is_ok(), good, "{address} {insecure}: {checked:?}");
        }
    }

    #[test]
    fn every_fault_is_reported_at_once() {
        let mut config = joined("http://10.0.0.1:7400", true);
        config.source = Source::Joined {
            control_plane: "http://10.0.0.1:7400".to_owned(),
            gateway: "Edge!".to_owned(),
            insecure: false,
            tls: None,
        };
        config.name = String::new();
        config.labels.insert(String::new(), "x".to_owned());
        config.drain_grace = DRAIN_MAX + Duration::from_secs(1);
        config.ops_listen = config.listen;
        config.workers = NonZeroUsize::new(WORKERS_MAX + 1);
        let faults = config.check().unwrap_err();
        let settings: Vec<_> = faults.iter().map(|fault| fault.setting).collect();
        assert_eq!(
            settings,
            [
                "ops-listen",
                "name",
                "label",
                "drain-grace-secs",
                "workers",
                "gateway",
                "control-plane",
                "join-token-file"
            ]
        );
        assert_eq!(config.problems().len(), faults.len());
    }
}
