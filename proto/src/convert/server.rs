//! What the control plane sends.

use std::time::Duration;

use super::advisories::{entries, wire_entries};
use super::bounds::{at_most, millis, name, required, text};
use crate::error::WireError;
use crate::limits::{CAPABILITIES_MAX, DOCUMENT_BYTES_MAX};
use crate::message::{
    ConfigPush, FromServer, Goodbye, GoodbyeReason, Limits, Overrides, ProbeLease, ReportAck,
    Welcome,
};
use crate::wire;
use crate::wire::server_message::Message;

impl TryFrom<wire::ServerMessage> for FromServer {
    type Error = WireError;

    fn try_from(envelope: wire::ServerMessage) -> Result<Self, WireError> {
        match envelope.message.ok_or(WireError::Empty)? {
            Message::Welcome(welcome) => Welcome::try_from(welcome)
                .map(Self::Welcome)
                .map_err(|error| error.within("welcome")),
            Message::ConfigPush(push) => ConfigPush::try_from(push)
                .map(Self::ConfigPush)
                .map_err(|error| error.within("config_push")),
            Message::ReportAck(ack) => ReportAck::try_from(ack)
                .map(Self::ReportAck)
                .map_err(|error| error.within("report_ack")),
            Message::Goodbye(goodbye) => Goodbye::try_from(goodbye)
                .map(Self::Goodbye)
                .map_err(|error| error.within("goodbye")),
            Message::Drain(drain) => Ok(Self::Drain(drain.active)),
            Message::Advisories(advisories) => entries(advisories)
                .map(Self::Advisories)
                .map_err(|error| error.within("advisories")),
            Message::ProbeLease(lease) => ProbeLease::try_from(lease)
                .map(Self::ProbeLeases)
                .map_err(|error| error.within("probe_lease")),
            Message::Overrides(overrides) => Overrides::try_from(overrides)
                .map(Self::Overrides)
                .map_err(|error| error.within("overrides")),
        }
    }
}

impl From<FromServer> for wire::ServerMessage {
    fn from(message: FromServer) -> Self {
        let message = match message {
            FromServer::Welcome(welcome) => Message::Welcome(welcome.into()),
            FromServer::ConfigPush(push) => Message::ConfigPush(push.into()),
            FromServer::ReportAck(ack) => Message::ReportAck(ack.into()),
            FromServer::Goodbye(goodbye) => Message::Goodbye(goodbye.into()),
            FromServer::Overrides(overrides) => Message::Overrides(overrides.into()),
            FromServer::Advisories(entries) => Message::Advisories(wire_entries(entries)),
            FromServer::ProbeLeases(lease) => Message::ProbeLease(lease.into()),
            FromServer::Drain(active) => Message::Drain(wire::Drain { active }),
        };
        Self {
            message: Some(message),
        }
    }
}

impl TryFrom<wire::Welcome> for Welcome {
    type Error = WireError;

    fn try_from(welcome: wire::Welcome) -> Result<Self, WireError> {
        at_most(welcome.capabilities.len(), "capabilities", CAPABILITIES_MAX)?;
        let limits = welcome.limits.ok_or_else(|| WireError::Missing {
            field: "limits".to_owned(),
        })?;
        Ok(Self {
            session_epoch: welcome.session_epoch,
            control_epoch: required(welcome.control_epoch, "control_epoch")?,
            report_interval: nonzero(welcome.report_interval_ms, "report_interval_ms")?,
            report_phase: Duration::from_millis(u64::from(welcome.report_phase_ms)),
            stale_after: nonzero(welcome.stale_after_ms, "stale_after_ms")?,
            target_revision: welcome.target_revision,
            protocol: welcome.protocol,
            gateway_exists: welcome.gateway_exists,
            limits: Limits {
                message_bytes: limits.message_bytes,
                report_cells: limits.report_cells,
            },
            capabilities: welcome
                .capabilities
                .into_iter()
                .map(|ability| name(ability, "capabilities"))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl From<Welcome> for wire::Welcome {
    fn from(welcome: Welcome) -> Self {
        Self {
            session_epoch: welcome.session_epoch,
            control_epoch: welcome.control_epoch,
            report_interval_ms: millis(welcome.report_interval),
            report_phase_ms: millis(welcome.report_phase),
            stale_after_ms: millis(welcome.stale_after),
            target_revision: welcome.target_revision,
            protocol: welcome.protocol,
            gateway_exists: welcome.gateway_exists,
            limits: Some(wire::Limits {
                message_bytes: welcome.limits.message_bytes,
                report_cells: welcome.limits.report_cells,
            }),
            capabilities: welcome.capabilities,
        }
    }
}

impl TryFrom<wire::ConfigPush> for ConfigPush {
    type Error = WireError;

    fn try_from(push: wire::ConfigPush) -> Result<Self, WireError> {
        if push.revision == 0 {
            return Err(WireError::Missing {
                field: "revision".to_owned(),
            });
        }
        if push.document.len() > DOCUMENT_BYTES_MAX {
            return Err(WireError::TooLong {
                field: "document".to_owned(),
                limit: DOCUMENT_BYTES_MAX,
            });
        }
        Ok(Self {
            nonce: push.nonce,
            revision: push.revision,
            document: push.document,
            hash: required(push.hash, "hash")?,
        })
    }
}

impl From<ConfigPush> for wire::ConfigPush {
    fn from(push: ConfigPush) -> Self {
        Self {
            nonce: push.nonce,
            revision: push.revision,
            document: push.document,
            hash: push.hash,
        }
    }
}

impl TryFrom<wire::ReportAck> for ReportAck {
    type Error = WireError;

    fn try_from(ack: wire::ReportAck) -> Result<Self, WireError> {
        let refused = text(ack.refused, "refused")?;
        Ok(Self {
            seq: ack.seq,
            want_dense: ack.want_dense,
            next_interval: (ack.next_interval_ms != 0)
                .then(|| Duration::from_millis(u64::from(ack.next_interval_ms))),
            refused: (!refused.is_empty()).then_some(refused),
            transitions_stored: ack.transitions_stored,
        })
    }
}

impl From<ReportAck> for wire::ReportAck {
    fn from(ack: ReportAck) -> Self {
        Self {
            seq: ack.seq,
            want_dense: ack.want_dense,
            next_interval_ms: ack.next_interval.map_or(0, millis),
            refused: ack.refused.unwrap_or_default(),
            transitions_stored: ack.transitions_stored,
        }
    }
}

impl TryFrom<wire::Goodbye> for Goodbye {
    type Error = WireError;

    fn try_from(goodbye: wire::Goodbye) -> Result<Self, WireError> {
        let reason = match wire::GoodbyeReason::try_from(goodbye.reason) {
            Ok(wire::GoodbyeReason::Shutdown) => GoodbyeReason::Shutdown,
            Ok(wire::GoodbyeReason::Protocol) => GoodbyeReason::Protocol,
            Ok(wire::GoodbyeReason::Replaced) => GoodbyeReason::Replaced,
            Ok(wire::GoodbyeReason::Overloaded) => GoodbyeReason::Overloaded,
            Ok(wire::GoodbyeReason::Silent) => GoodbyeReason::Silent,
            Ok(wire::GoodbyeReason::Restored) => GoodbyeReason::Restored,
            Ok(wire::GoodbyeReason::Duplicate) => GoodbyeReason::Duplicate,
            Ok(wire::GoodbyeReason::Unspecified) | Err(_) => GoodbyeReason::Other,
        };
        Ok(Self {
            reason,
            detail: text(goodbye.detail, "detail")?,
            reconnect_after: Duration::from_millis(u64::from(goodbye.reconnect_after_ms)),
            jitter: Duration::from_millis(u64::from(goodbye.jitter_ms)),
        })
    }
}

impl From<Goodbye> for wire::Goodbye {
    fn from(goodbye: Goodbye) -> Self {
        let reason = match goodbye.reason {
            GoodbyeReason::Shutdown => wire::GoodbyeReason::Shutdown,
            GoodbyeReason::Protocol => wire::GoodbyeReason::Protocol,
            GoodbyeReason::Replaced => wire::GoodbyeReason::Replaced,
            GoodbyeReason::Overloaded => wire::GoodbyeReason::Overloaded,
            GoodbyeReason::Silent => wire::GoodbyeReason::Silent,
            GoodbyeReason::Restored => wire::GoodbyeReason::Restored,
            GoodbyeReason::Duplicate => wire::GoodbyeReason::Duplicate,
            GoodbyeReason::Other => wire::GoodbyeReason::Unspecified,
        };
        Self {
            reason: reason.into(),
            detail: goodbye.detail,
            reconnect_after_ms: millis(goodbye.reconnect_after),
            jitter_ms: millis(goodbye.jitter),
        }
    }
}

fn nonzero(value_ms: u32, field: &str) -> Result<Duration, WireError> {
    if value_ms == 0 {
        return Err(WireError::Missing {
            field: field.to_owned(),
        });
    }
    Ok(Duration::from_millis(u64::from(value_ms)))
}
