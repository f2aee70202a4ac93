//! Lanes.

use std::time::Duration;

use super::{Known, Report, refuse_unknown};
use crate::gateway::{Lane, Timeouts};
use crate::ids::LaneName;
use crate::spec;
use crate::spec::defaults::{MAX_OUTPUT_TOKENS, STREAM_ATTEMPT_TIMEOUT_MS};

pub(super) fn lane(
    name: &str,
    spec: &spec::Model,
    known: &Known<'_>,
    place: &str,
    report: &mut Report<'_>,
) -> Option<Lane> {
    if !known.providers.contains(spec.provider.as_str()) {
        refuse_unknown(
            "provider",
            &spec.provider,
            known.providers.iter().copied(),
            format!("{place}/provider"),
            report,
        );
    }
    let upstream_model = spec.upstream_model.as_deref().unwrap_or(name);
    if upstream_model.contains(char::is_control) {
        report.refuse(
            format!("{place}/upstream_model"),
            "invalid_name",
            "must not contain control characters",
        );
    }
    Some(Lane {
        name: LaneName::from(name),
        provider: spec.provider.clone(),
        upstream_model: upstream_model.to_owned(),
        max_concurrent: spec.max_concurrent,
        max_requests: spec.max_requests,
        context_max: spec.context_max,
        timeouts: timeouts(spec)?,
        accepts: spec.accepts,
        max_output_tokens: spec.max_output_tokens.unwrap_or(MAX_OUTPUT_TOKENS),
    })
}

fn timeouts(spec: &spec::Model) -> Option<Timeouts> {
    let attempt = spec.attempt_timeout_ms.map(Duration::from_millis);
    Some(Timeouts {
        streaming_headers: attempt.or(Some(Duration::from_millis(STREAM_ATTEMPT_TIMEOUT_MS))),
        whole_headers: attempt,
        first_content: spec.first_content_timeout_ms.map(Duration::from_millis),
        idle: Duration::try_from_secs_f64(spec.idle_timeout_secs).ok()?,
        content_idle: Duration::try_from_secs_f64(spec.content_idle_timeout_secs).ok()?,
    })
}
