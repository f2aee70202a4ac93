//! What a pool of several protocols cannot serve.

use lanekeeper_model::Gateway;
use lanekeeper_model::gateway::{Pool, Protocol, Translate};
use lanekeeper_protocol::translation::{Feature, Take};
use lanekeeper_protocol::vendor;
use std::collections::BTreeSet;

/// A line for each pool that mixes protocols: which members are skipped for what, or that each
/// caller has its own.
pub(super) fn notes(gateway: &Gateway) -> Vec<String> {
    { gateway.pools.values() }
        .filter_map(|pool| note(gateway, pool))
        .collect()
}

fn note(gateway: &Gateway, pool: &Pool) -> Option<String> {
    let protocols: BTreeSet<Protocol> = { pool.usable_members() }
        .filter_map(|member| gateway.providers.get(&member.provider))
        .map(|provider| provider.protocols.primary())
        .collect();
    if protocols.len() < 2 {
        return None;
    }
    let name = &pool.name;
    let names: Vec<&str> = protocols.iter().map(|it| it.as_str()).collect();
    let mixes = format!("pool \"{name}\" mixes {}", names.join(", "));
    if pool.translate == Translate::Off {
        return Some(format!(
            "{mixes} and has translate: off: each caller is served only by members that speak its \
             own protocol"
        ));
    }
    let skipped: Vec<String> = protocols.into_iter().filter_map(skipped).collect();
    Some(format!(
        "{mixes}; a request of another dialect skips {}",
        skipped.join("; ")
    ))
}

/// What keeps requests of other dialects from lanes of `protocol`, in the words of refusals.
fn skipped(protocol: Protocol) -> Option<String> {
    let translator = vendor(protocol).translator()?;
    let mut refused: Vec<&str> = { Feature::ALL.iter() }
        .filter(|feature| translator.takes(**feature) == Take::Refused)
        .map(|feature| feature.name())
        .collect();
    refused.dedup();
    Some(format!(
        "{} members for {}",
        protocol.as_str(),
        refused.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes_of(pool: &str) -> Vec<String> {
        let document = format!(
            "gateway: edge\n\
             providers:\n  \
               o: {{protocol: openai, base_url: \"https://o.example/v1\", api_key: null}}\n  \
               g: {{protocol: gemini, base_url: \"https://g.example\", api_key: null}}\n\
             models:\n  a: {{provider: o}}\n  b: {{provider: o}}\n  c: {{provider: g}}\n\
             pools:\n  chat: {pool}\n"
        );
        let checked = lanekeeper_model::document::check_yaml(&document).expect("valid");
        notes(&checked.gateway)
    }

    #[test]
    fn a_mixed_pool_says_what_its_members_are_skipped_for() {
        let mixed = notes_of("{members: [{target: a}, {target: c}]}");
        assert_eq!(mixed.len(), 1);
        assert!(mixed[0].contains("mixes openai, gemini"), "{mixed:?}");
        assert!(mixed[0].contains("gemini members for n,"), "{mixed:?}");
        let apart = notes_of("{members: [{target: a}, {target: c}], translate: off}");
        assert!(apart[0].contains("translate: off"), "{apart:?}");
        assert!(notes_of("{members: [{target: a}, {target: b}]}").is_empty());
    }
}
