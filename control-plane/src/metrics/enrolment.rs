//! What is counted of joining: who was let in, whose certificates were renewed, and what they rest
//! on.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tonic::{Code, Status};

use super::result;

/// What somebody joins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// A join token.
    JoinToken,
    /// Anything else is taken for a pod's service-account token.
    ServiceAccount,
}

impl Means {
    const fn as_str(self) -> &'static str {
        match self {
            Self::JoinToken => "join_token",
            Self::ServiceAccount => "service_account",
        }
    }
}

/// The part of the metrics that is about joining.
#[derive(Debug, Default)]
pub(crate) struct EnrolmentMetrics {
    enrolments: Family<EnrolmentLabels, Counter>,
    renewals: Family<OutcomeLabels, Counter>,
    key_fetches: Family<ResultLabels, Counter>,
    /// Identities that were revoked and whose certificates have not ended.
    pub(crate) revoked: Gauge,
    /// Time to the end of the authority that signs; only where there is one.
    authority: Family<NoLabels, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EnrolmentLabels {
    by: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

impl EnrolmentMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "enrolments",
            "Requests for a first certificate",
            metrics.enrolments.clone(),
        );
        registry.register(
            "certificate_renewals",
            "Requests for a certificate in place of one",
            metrics.renewals.clone(),
        );
        registry.register(
            "cluster_key_fetches",
            "Fetches of a cluster's public keys",
            metrics.key_fetches.clone(),
        );
        registry.register(
            "identities_revoked",
            "Revoked identities whose certificates have not ended",
            metrics.revoked.clone(),
        );
        registry.register(
            "authority_expiry_seconds",
            "Time to the end of the authority that signs agents' certificates",
            metrics.authority.clone(),
        );
        metrics
    }

    /// Counts an answer to somebody who wants to join.
    pub(crate) fn enrolled<T>(&self, means: Means, answer: &Result<T, Status>) {
        let labels = EnrolmentLabels {
            by: means.as_str(),
            outcome: outcome(answer),
        };
        self.enrolments.get_or_create(&labels).inc();
    }

    /// Counts an answer to an agent that wants its certificate renewed.
    pub(crate) fn renewed<T>(&self, answer: &Result<T, Status>) {
        let outcome = outcome(answer);
        self.renewals
            .get_or_create(&OutcomeLabels { outcome })
            .inc();
    }

    /// Counts a fetch of a cluster's keys.
    pub(crate) fn keys_fetched(&self, ok: bool) {
        let result = result(ok);
        self.key_fetches
            .get_or_create(&ResultLabels { result })
            .inc();
    }

    /// Says how long the signing authority still lasts, in milliseconds.
    pub(crate) fn set_authority(&self, left_ms: u64) {
        let left_secs = i64::try_from(left_ms / 1000).unwrap_or(i64::MAX);
        self.authority.get_or_create(&NoLabels {}).set(left_secs);
    }
}

fn outcome<T>(answer: &Result<T, Status>) -> &'static str {
    match answer.as_ref().map_err(Status::code) {
        Ok(_) => "granted",
        Err(Code::Unauthenticated | Code::PermissionDenied) => "refused",
        Err(Code::ResourceExhausted) => "throttled",
        Err(Code::InvalidArgument) => "invalid",
        Err(Code::Unavailable) => "unavailable",
        Err(_) => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_one_of_a_few_outcomes() {
        for (code, wanted) in [
            (Code::Unauthenticated, "refused"),
            (Code::PermissionDenied, "refused"),
            (Code::ResourceExhausted, "throttled"),
            (Code::InvalidArgument, "invalid"),
            (Code::Unavailable, "unavailable"),
            (Code::Internal, "failed"),
            (Code::Unknown, "failed"),
        ] {
            assert_eq!(outcome::<()>(&Err(Status::new(code, "x"))), wanted);
        }
        assert_eq!(outcome(&Ok(())), "granted");
    }

    #[test]
    fn an_authority_is_shown_only_where_there_is_one() {
        let mut registry = Registry::with_prefix("lanekeeper");
        let metrics = EnrolmentMetrics::register(&mut registry);
        let printed = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
            text
        };
        let sample = "\nlanekeeper_authority_expiry_seconds";
        assert!(!printed(&registry).contains(&format!("{sample} ")));
        metrics.set_authority(90_500);
        assert!(printed(&registry).contains(&format!("{sample} 90\n")));
    }
}
