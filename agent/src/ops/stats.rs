//! The agent's own part of `/stats` and `/metrics`.

use std::fmt::Write as _;
use std::time::Instant;

use lanekeeper_model::ConfigSource;
use serde::Serialize;

use crate::clock;
use crate::lanes::stats::Stats;
use crate::plane::Plane;
use crate::status::{Status, VERSION};

/// The body of `/stats`.
#[derive(Serialize)]
pub(super) struct Page {
    agent: Agent,
    #[serde(flatten)]
    stats: Stats,
}

#[derive(Serialize)]
struct Agent {
    id: String,
    gateway: String,
    version: &'static str,
    revision: u64,
    config_source: Option<ConfigSource>,
    connected: bool,
    draining: bool,
    problems: Vec<String>,
    uptime_secs: f64,
}

/// The facts of this moment.
pub(super) fn page(plane: &Plane, status: &Status, now: Instant) -> Page {
    let applied = plane.applied();
    let source = applied.as_ref().map(|applied| match applied.source {
        ConfigSource::Disk if status.confirmed() => ConfigSource::Live,
        source => source,
    });
    let problems = problems(plane, status);
    let uptime_ms = now.duration_since(status.started()).as_millis();
    Page {
        agent: Agent {
            id: status.instance().to_owned(),
            gateway: status.gateway(),
            version: VERSION,
            revision: applied.map_or(0, |applied| applied.revision),
            config_source: source,
            connected: status.connected(),
            draining: status.draining(),
            problems,
            uptime_secs: uptime_ms as f64 / 1000.0,
        },
        stats: plane.stats(),
    }
}

fn problems(plane: &Plane, status: &Status) -> Vec<String> {
    let mut problems = status.problems();
    problems.extend(plane.problems());
    problems
}

/// Series about the session and the process, without the format's end mark.
pub(super) fn encode_session_metrics(plane: &Plane, status: &Status, out: &mut String) {
    let connected = u8::from(status.connected());
    let problems = problems(plane, status).len();
    let gateway = status.gateway();
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "# HELP lanekeeper_session_connected A session with the control plane is open.\n\
         # TYPE lanekeeper_session_connected gauge\n\
         lanekeeper_session_connected{{gateway=\"{gateway}\"}} {connected}\n\
         # HELP lanekeeper_sessions_opened Sessions opened with the control plane.\n\
         # TYPE lanekeeper_sessions_opened counter\n\
         lanekeeper_sessions_opened_total{{gateway=\"{gateway}\"}} {}\n\
         # HELP lanekeeper_problems What is wrong with the agent, as its page of facts lists it.\n\
         # TYPE lanekeeper_problems gauge\n\
         lanekeeper_problems{{gateway=\"{gateway}\"}} {problems}\n",
        status.sessions()
    );
    if let Some(left_secs) = status.certificate_left_secs(clock::unix_now()) {
        let _ = write!(
            out,
            "# HELP lanekeeper_certificate_expiry_seconds Time to the end of this agent's certificate.\n\
             # TYPE lanekeeper_certificate_expiry_seconds gauge\n\
             lanekeeper_certificate_expiry_seconds{{gateway=\"{gateway}\"}} {left_secs}\n",
        );
    }
}
