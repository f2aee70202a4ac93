//! The Kubernetes manifests.

mod alerts;
mod chart;
mod cluster;
mod compose;
mod fit;
mod joining;
mod manifests;
mod package;
