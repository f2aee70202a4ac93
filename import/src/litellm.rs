//! LiteLLM's `config.yaml`.

mod deployments;
mod settings;

pub(crate) use settings::failover;

use crate::draft::Draft;
use crate::ledger::{Verdict, View};

/// Blocks of the file that are about other things than routing.
const BLOCKS: &[(&str, Verdict, &str)] = &[
    (
        "include",
        Verdict::Lost,
        "give the files it names to this command too",
    ),
    ("mcp_servers", Verdict::Lost, "tools are not served"),
    ("mcp_tools", Verdict::Lost, "tools are not served"),
    ("guardrails", Verdict::Lost, "contents are not inspected"),
    ("vector_store_registry", Verdict::Lost, "not served"),
    ("search_tools", Verdict::Lost, "not served"),
    (
        "files_settings",
        Verdict::Lost,
        "the provider of the pool keeps files",
    ),
    ("finetune_settings", Verdict::Lost, "not served"),
    (
        "credential_list",
        Verdict::Lost,
        "name each provider's key by api_key",
    ),
    ("assistant_settings", Verdict::Lost, "not served"),
    ("prompts", Verdict::Lost, "prompts are the caller's"),
    (
        "environment_variables",
        Verdict::Dropped,
        "set them for the agents; a document holds no values",
    ),
    ("callback_settings", Verdict::Lost, "there are no callbacks"),
];

pub(crate) fn read(views: &[View<'_>], draft: &mut Draft) {
    let mut groups = deployments::Groups::default();
    for view in views {
        if let Some(list) = view.get("model_list") {
            for deployment in list.items() {
                deployments::read(&deployment, draft, &mut groups);
            }
        }
        view.note(BLOCKS);
    }
    groups.into_pools(draft);
    for view in views {
        settings::read(view, draft);
    }
}
