//! The label sets of the agent's series.

use prometheus_client::encoding::{EncodeLabel as _, EncodeLabelSet, LabelSetEncoder};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct PoolLabels {
    pub(super) pool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct PoolOutcomeLabels {
    pub(super) pool: String,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct PoolReasonLabels {
    pub(super) pool: String,
    pub(super) reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct LaneLabels {
    pub(super) lane: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct LaneOutcomeLabels {
    pub(super) lane: String,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct MemberLabels {
    pub(super) pool: String,
    pub(super) lane: String,
}

/// The endpoint of a cell; no label at all where one cell judges every endpoint.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) struct EndpointLabel(pub(super) Option<&'static str>);

impl EncodeLabelSet for EndpointLabel {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> std::fmt::Result {
        match self.0 {
            Some(endpoint) => ("endpoint", endpoint).encode(encoder.encode_label()),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct CellLabels {
    pub(super) pool: String,
    pub(super) lane: String,
    #[prometheus(flatten)]
    pub(super) endpoint: EndpointLabel,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct CellOutcomeLabels {
    pub(super) pool: String,
    pub(super) lane: String,
    #[prometheus(flatten)]
    pub(super) endpoint: EndpointLabel,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct CellDispositionLabels {
    pub(super) pool: String,
    pub(super) lane: String,
    #[prometheus(flatten)]
    pub(super) endpoint: EndpointLabel,
    pub(super) disposition: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct TransitionLabels {
    pub(super) pool: String,
    pub(super) lane: String,
    #[prometheus(flatten)]
    pub(super) endpoint: EndpointLabel,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) reason: &'static str,
    pub(super) cause: &'static str,
    pub(super) mode: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ReasonLabels {
    pub(super) reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ProviderLabels {
    pub(super) provider: String,
    #[prometheus(flatten)]
    pub(super) endpoint: EndpointLabel,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ProviderTransitionLabels {
    pub(super) provider: String,
    #[prometheus(flatten)]
    pub(super) endpoint: EndpointLabel,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) reason: &'static str,
    pub(super) cause: &'static str,
    pub(super) mode: &'static str,
}
