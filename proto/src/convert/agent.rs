//! What agents send, but for the report's insides.

use std::collections::BTreeMap;

use lanekeeper_model::{ConfigSource, PoolReport, Problem, Report};

use super::bounds::{at_most, gateway, name, required, text, texts, unknown};
use super::pools;
use crate::error::{Unfit, WireError};
use crate::limits::{CAPABILITIES_MAX, LABELS_MAX, PROBLEMS_MAX};
use crate::message::{
    AppliedRevision, Bye, ConfigOutcome, ConfigResult, FromAgent, Hello, OverridesResult,
    ProbeLeaseRequest,
};
use crate::wire;
use crate::wire::agent_message::Message;

impl TryFrom<wire::AgentMessage> for FromAgent {
    type Error = Unfit;

    fn try_from(envelope: wire::AgentMessage) -> Result<Self, Unfit> {
        let message = envelope.message.ok_or(WireError::Empty)?;
        match message {
            Message::Hello(hello) => {
                let hello = Hello::try_from(hello).map_err(|error| error.within("hello"))?;
                Ok(Self::Hello(hello))
            }
            Message::ConfigResult(result) => {
                let nonce = result.nonce;
                ConfigResult::try_from(result)
                    .map(Self::ConfigResult)
                    .map_err(|error| Unfit {
                        report_seq: None,
                        push_nonce: Some(nonce),
                        error: error.within("config_result"),
                    })
            }
            Message::Report(report) => {
                let seq = report.seq;
                Report::try_from(report)
                    .map(Self::Report)
                    .map_err(|error| Unfit {
                        report_seq: Some(seq),
                        push_nonce: None,
                        error: error.within("report"),
                    })
            }
            Message::Bye(bye) => Ok(Self::Bye(Bye {
                reason: text(bye.reason, "bye.reason")?,
            })),
            Message::ProbeLeaseRequest(request) => {
                let request = ProbeLeaseRequest::try_from(request)
                    .map_err(|error| error.within("probe_lease_request"))?;
                Ok(Self::ProbeLeases(request))
            }
            Message::OverridesResult(result) => {
                let result = OverridesResult::try_from(result)
                    .map_err(|error| error.within("overrides_result"))?;
                Ok(Self::OverridesResult(result))
            }
        }
    }
}

impl From<FromAgent> for wire::AgentMessage {
    fn from(message: FromAgent) -> Self {
        let message = match message {
            FromAgent::Hello(hello) => Message::Hello(hello.into()),
            FromAgent::ConfigResult(result) => Message::ConfigResult(result.into()),
            FromAgent::Report(report) => Message::Report(report.into()),
            FromAgent::Bye(bye) => Message::Bye(wire::Bye { reason: bye.reason }),
            FromAgent::ProbeLeases(request) => Message::ProbeLeaseRequest(request.into()),
            FromAgent::OverridesResult(result) => Message::OverridesResult(result.into()),
        };
        Self {
            message: Some(message),
        }
    }
}

impl TryFrom<wire::Hello> for Hello {
    type Error = WireError;

    fn try_from(hello: wire::Hello) -> Result<Self, WireError> {
        at_most(hello.capabilities.len(), "capabilities", CAPABILITIES_MAX)?;
        let applied = applied(
            hello.applied_revision,
            hello.applied_hash,
            hello.config_source,
            hello.control_epoch,
        )?;
        Ok(Self {
            protocol_min: hello.protocol_min,
            protocol_max: hello.protocol_max,
            agent_version: name(hello.agent_version, "agent_version")?,
            gateway: gateway(hello.gateway, "gateway")?,
            name: required(hello.name, "name")?,
            labels: labels(hello.labels)?,
            instance: required(hello.instance, "instance")?,
            applied,
            wall_ms: hello.wall_ms,
            previous_session_epoch: (hello.previous_session_epoch != 0)
                .then_some(hello.previous_session_epoch),
            capabilities: hello
                .capabilities
                .into_iter()
                .map(|ability| name(ability, "capabilities"))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// An agent that serves from nothing names neither source, nor hash, nor revision.
fn applied(
    revision: u64,
    hash: String,
    source: i32,
    control_epoch: String,
) -> Result<Option<AppliedRevision>, WireError> {
    let source = match wire::ConfigSource::try_from(source) {
        Ok(wire::ConfigSource::Live) => ConfigSource::Live,
        Ok(wire::ConfigSource::Disk) => ConfigSource::Disk,
        Ok(wire::ConfigSource::File) => ConfigSource::File,
        Ok(wire::ConfigSource::Unspecified) if revision == 0 && hash.is_empty() => {
            return Ok(None);
        }
        Ok(wire::ConfigSource::Unspecified) | Err(_) => {
            return Err(unknown("config_source", source));
        }
    };
    let control_epoch = name(control_epoch, "control_epoch")?;
    Ok(Some(AppliedRevision {
        revision,
        hash: required(hash, "applied_hash")?,
        source,
        control_epoch: (!control_epoch.is_empty()).then_some(control_epoch),
    }))
}

fn labels(labels: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, WireError> {
    at_most(labels.len(), "labels", LABELS_MAX)?;
    labels
        .into_iter()
        .map(|(key, value)| Ok((required(key, "labels")?, name(value, "labels")?)))
        .collect()
}

impl From<Hello> for wire::Hello {
    fn from(hello: Hello) -> Self {
        let mut message = Self {
            protocol_min: hello.protocol_min,
            protocol_max: hello.protocol_max,
            agent_version: hello.agent_version,
            gateway: hello.gateway,
            name: hello.name,
            labels: hello.labels,
            instance: hello.instance,
            wall_ms: hello.wall_ms,
            previous_session_epoch: hello.previous_session_epoch.unwrap_or(0),
            capabilities: hello.capabilities,
            ..Self::default()
        };
        if let Some(applied) = hello.applied {
            message.applied_revision = applied.revision;
            message.applied_hash = applied.hash;
            message.control_epoch = applied.control_epoch.unwrap_or_default();
            message.set_config_source(match applied.source {
                ConfigSource::Live => wire::ConfigSource::Live,
                ConfigSource::Disk => wire::ConfigSource::Disk,
                ConfigSource::File => wire::ConfigSource::File,
            });
        }
        message
    }
}

impl TryFrom<wire::ConfigResult> for ConfigResult {
    type Error = WireError;

    fn try_from(result: wire::ConfigResult) -> Result<Self, WireError> {
        let outcome = match wire::ConfigOutcome::try_from(result.outcome) {
            Ok(wire::ConfigOutcome::Applied) => ConfigOutcome::Applied {
                problems: texts(result.problems, "problems")?,
            },
            Ok(wire::ConfigOutcome::Rejected) => {
                at_most(result.errors.len(), "errors", PROBLEMS_MAX)?;
                ConfigOutcome::Rejected {
                    errors: result
                        .errors
                        .into_iter()
                        .enumerate()
                        .map(|(index, error)| {
                            problem(error).map_err(|e| e.within(&format!("errors[{index}]")))
                        })
                        .collect::<Result<_, _>>()?,
                }
            }
            Ok(wire::ConfigOutcome::Unspecified) | Err(_) => {
                return Err(unknown("outcome", result.outcome));
            }
        };
        Ok(Self {
            nonce: result.nonce,
            outcome,
            revision: result.revision,
            hash: name(result.hash, "hash")?,
            pools: { pools::read(result.pools, 0)?.into_iter() }
                .map(|pool| pool.usability)
                .collect(),
        })
    }
}

impl From<ConfigResult> for wire::ConfigResult {
    fn from(result: ConfigResult) -> Self {
        let mut message = Self {
            nonce: result.nonce,
            revision: result.revision,
            hash: result.hash,
            pools: { result.pools.into_iter() }
                .map(|usability| {
                    wire::Pool::from(PoolReport {
                        usability,
                        ..PoolReport::default()
                    })
                })
                .collect(),
            ..Self::default()
        };
        match result.outcome {
            ConfigOutcome::Applied { problems } => {
                message.set_outcome(wire::ConfigOutcome::Applied);
                message.problems = problems;
            }
            ConfigOutcome::Rejected { errors } => {
                message.set_outcome(wire::ConfigOutcome::Rejected);
                message.errors = errors
                    .into_iter()
                    .map(|error| wire::Problem {
                        pointer: error.pointer,
                        code: error.code,
                        message: error.message,
                    })
                    .collect();
            }
        }
        message
    }
}

fn problem(problem: wire::Problem) -> Result<Problem, WireError> {
    Ok(Problem {
        pointer: text(problem.pointer, "pointer")?,
        code: name(problem.code, "code")?,
        message: text(problem.message, "message")?,
    })
}
