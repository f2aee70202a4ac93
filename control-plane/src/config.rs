//! The settings of one control-plane process, and the refusal of those that would be unsafe.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use lanekeeper_model::FreshWindows;
use lanekeeper_model::incident::INCIDENT_QUIET_SECS_DEFAULT;
use lanekeeper_proto::limits;

use crate::Error;
use crate::enrolment::settings::{Enrolment, ServerTls};

/// Default port of the gRPC listener.
pub const GRPC_PORT: u16 = 7400;
/// Default port of the ops listener.
pub const OPS_PORT: u16 = 7402;
/// Settings of one control-plane process.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where agents dial. Default 127.0.0.1:7400; port 0 picks a free one.
    pub grpc_listen: SocketAddr,
    /// Where `/livez`, `/readyz` and `/metrics` are served. Default 127.0.0.1:7402.
    pub ops_listen: SocketAddr,
    /// How the gRPC listener is protected.
    pub transport: Transport,
    /// Sessions open at once; more are sent away with a Goodbye. Default 20,000.
    pub sessions_max: usize,
    /// Connections open at once; more wait in the kernel's backlog. Default 20,000.
    pub connections_max: usize,
    /// The times everything goes by.
    pub timing: Timing,
}

/// How the gRPC listener is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// No encryption and no identity, so agents are believed: loopback addresses only.
    Plaintext,
    /// TLS on both sides: agents are asked for a certificate.
    MutualTls(ServerTls),
    /// TLS on both sides with an authority of our own: agents join with a token and get a
    /// certificate.
    Enrolment(Enrolment),
}

/// The times everything goes by.
#[derive(Debug, Clone)]
pub struct Timing {
    /// How often agents report. Default 10 s. Silence of three intervals ends a session.
    pub report_interval: Duration,
    /// A record without a report for this long is stale. Default 30 s.
    pub stale_after: Duration,
    /// How often the configuration database is asked for newer revisions, +-20 %. Default 1 s.
    pub poll_interval: Duration,
    /// How long a new connection may stay without HTTP/2, and a new stream without a Hello.
    /// Default 10 s.
    pub hello_timeout: Duration,
    /// How long a message may wait for an agent that does not read. Default 30 s.
    pub stall_timeout: Duration,
    /// How long goodbyes and open requests may take at the end. Default 5 s.
    pub shutdown_grace: Duration,
    /// The random share of the wait agents are asked for at the end, so that they do not return
    /// at one moment. Default 5 s.
    pub reconnect_jitter: Duration,
    /// How long every fresh agent must have had a lane closed before its incident is over. Default
    /// 60 s.
    pub incident_quiet: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            report_interval: limits::REPORT_INTERVAL,
            stale_after: limits::STALE_AFTER,
            poll_interval: Duration::from_secs(1),
            hello_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(5),
            reconnect_jitter: Duration::from_secs(5),
            incident_quiet: Duration::from_secs(INCIDENT_QUIET_SECS_DEFAULT),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            grpc_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, GRPC_PORT)),
            ops_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, OPS_PORT)),
            transport: Transport::Plaintext,
            sessions_max: 20_000,
            connections_max: 20_000,
            timing: Timing::default(),
        }
    }
}

impl Config {
    /// How old reports may be.
    pub(crate) fn fresh_windows(&self) -> FreshWindows {
        let stale_after_ms = self.timing.stale_after.as_millis();
        FreshWindows {
            stale_after_ms: u64::try_from(stale_after_ms).unwrap_or(u64::MAX),
            ..FreshWindows::default()
        }
    }

    /// Refuses what would be unsafe or could not work.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] naming the field.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.transport {
            Transport::Plaintext if !self.grpc_listen.ip().is_loopback() => {
                return Err(Error::Config {
                    field: "grpc_listen",
                    reason: format!(
                        "{} is not a loopback address, which needs TLS: give certificates",
                        self.grpc_listen
                    ),
                });
            }
            Transport::Plaintext | Transport::MutualTls(_) => {}
            Transport::Enrolment(enrolment) => enrolment.check()?,
        }
        for (field, value) in [
            ("sessions_max", self.sessions_max),
            ("connections_max", self.connections_max),
        ] {
            if value == 0 {
                return Err(Error::Config {
                    field,
                    reason: "must be at least 1".to_owned(),
                });
            }
        }
        for (field, value) in [
            ("timing.report_interval", self.timing.report_interval),
            ("timing.stale_after", self.timing.stale_after),
            ("timing.poll_interval", self.timing.poll_interval),
        ] {
            if value < Duration::from_millis(1) {
                return Err(Error::Config {
                    field,
                    reason: "must be at least 1 ms".to_owned(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plaintext_beyond_loopback_is_refused() {
        for listen in ["0.0.0.0:7400", "10.0.0.1:7400", "[::]:7400"] {
            let config = Config {
                grpc_listen: listen.parse().unwrap(),
                ..Config::default()
            };
            let error = config.check().unwrap_err().to_string();
            assert!(error.starts_with("grpc_listen: "), "{error}");
        }
    }

    #[test]
    fn loopback_is_taken() {
        for listen in ["127.0.0.1:0", "[::1]:7400"] {
            let config = Config {
                grpc_listen: listen.parse().unwrap(),
                ..Config::default()
            };
            config.check().unwrap();
        }
    }
}
