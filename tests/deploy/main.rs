//! The Kubernetes manifests.

mod alerts;
mod cluster;
mod fit;
mod joining;
mod manifests;
