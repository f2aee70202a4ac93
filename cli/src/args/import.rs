//! Flags of `import`.

use super::pair;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// Whose configuration it is
    pub(crate) system: ForeignSystem,
    /// Its files; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Name of the gateway
    #[arg(long, default_value = "edge")]
    pub(crate) gateway: String,
    /// Value of a variable that the files name where a document has no reference, NAME=VALUE: an
    /// address, or a callers' key, of which only the digest is written. May be given several times
    #[arg(long = "set", value_parser = pair, value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<(String, String)>,
    /// End well although entries without a counterpart are missing from the document
    #[arg(long)]
    pub(crate) lossy: bool,
    /// How the result is printed: the document alone, with its report on standard error, or one JSON
    /// object with both
    #[arg(short, long, default_value = "yaml")]
    pub(crate) output: ImportFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForeignSystem {
    /// LiteLLM's proxy: config.yaml
    Litellm,
    /// Busbar: config.yaml and providers.yaml
    Busbar,
    /// Rolter: rolter.toml
    Rolter,
    /// Envoy AI Gateway: its Kubernetes objects
    EnvoyAi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// The document
    Yaml,
    /// Document and report
    Json,
}
