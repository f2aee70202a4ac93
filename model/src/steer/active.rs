//! Overrides as they are in the configuration database, and what follows from several of them:
//! which agents each is for, which one a cell obeys, and which pools would be left without a
//! member.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Override, OverrideAction};
use crate::gateway::{Gateway, Member, Pool};
use crate::ids::{CellOwner, LaneName, PoolName, ProviderName};

/// An override with everything that decides whom it is for and how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveOverride {
    /// Identifies the override.
    pub id: String,
    /// Overrides of one gateway are numbered; a later one has the larger number.
    pub number: u64,
    /// What to do.
    pub action: OverrideAction,
    /// The pool whose cells are meant, the empty name for direct routes; `None` = all of them.
    pub pool: Option<PoolName>,
    /// The lane; empty when a provider's own cell is meant.
    pub lane: LaneName,
    /// The provider whose own cell is meant; `None` = the lane's cells are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderName>,
    /// Labels an agent must have; empty = every agent.
    #[serde(default)]
    pub agents: BTreeMap<String, String>,
    /// When it ends by itself, unix milliseconds by the server's clock.
    pub expires_ms: u64,
}

impl ActiveOverride {
    /// True for an agent with these labels.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.agents
            .iter()
            .all(|(label, value)| labels.get(label) == Some(value))
    }

    /// The override as an agent gets it; `None` when its time is over.
    pub fn at(&self, now_ms: u64) -> Option<Override> {
        let remaining_ms = self.expires_ms.checked_sub(now_ms).filter(|ms| *ms > 0)?;
        Some(Override {
            id: self.id.clone(),
            pool: self.pool.clone(),
            lane: self.lane.clone(),
            provider: self.provider.clone(),
            action: self.action,
            remaining_ms,
        })
    }

    /// True when the override keeps new attempts away.
    fn refuses(&self) -> bool {
        matches!(
            self.action,
            OverrideAction::ForceOpen | OverrideAction::Drain
        )
    }

    /// True when it is about the cells of this owner.
    pub fn concerns(&self, owner: &CellOwner) -> bool {
        match (owner, &self.provider) {
            (CellOwner::Provider(provider), Some(meant)) => provider == meant,
            (CellOwner::Member { pool, lane }, None) => {
                self.lane == *lane && self.pool.as_ref().is_none_or(|it| it == pool)
            }
            (CellOwner::Provider(_), None) | (CellOwner::Member { .. }, Some(_)) => false,
        }
    }

    /// True when a cell that both are about obeys this one: an override that names the pool holds
    /// before one for all pools, and of two alike the later one holds.
    pub fn takes_precedence_over(&self, other: &Self) -> bool {
        (self.pool.is_some(), self.number) > (other.pool.is_some(), other.number)
    }

    /// True when some agent may be selected by both.
    fn may_meet(&self, other: &Self) -> bool {
        self.agents.iter().all(|(label, value)| {
            other
                .agents
                .get(label)
                .is_none_or(|other_value| other_value == value)
        })
    }

    /// True when every agent that `other` selects is selected by this one too.
    fn covers(&self, other: &Self) -> bool {
        self.agents
            .iter()
            .all(|(label, value)| other.agents.get(label) == Some(value))
    }
}

/// The pools that a new override may leave without a usable member on some agent, by name. A member
/// is usable when its weight is above 0, it is not excluded and no override keeps attempts away
/// from it or from its provider.
///
/// Errs on the side of the callers: labels that do not exclude each other are taken to meet on one
/// agent, whatever labels the agents have now.
pub fn emptied_pools(
    gateway: &Gateway,
    active: &[ActiveOverride],
    new: &ActiveOverride,
) -> Vec<PoolName> {
    if !new.refuses() {
        return Vec::new();
    }
    let meeting: Vec<&ActiveOverride> = active.iter().filter(|it| it.may_meet(new)).collect();
    let together: Vec<&ActiveOverride> = meeting.iter().copied().chain([new]).collect();
    gateway
        .pools
        .values()
        .filter(|pool| {
            let mut judged = pool
                .usable_members()
                .flat_map(|it| owners(gateway, pool, it));
            judged.any(|owner| new.concerns(&owner))
                && pool.usable_members().all(|member| {
                    let mut owners = owners(gateway, pool, member);
                    owners.any(|owner| is_kept_away(&together, &owner))
                })
        })
        .map(|pool| pool.name.clone())
        .collect()
}

/// Whose cells an attempt on a member must pass: the member's, and its provider's own where it has
/// a breaker.
fn owners(gateway: &Gateway, pool: &Pool, member: &Member) -> impl Iterator<Item = CellOwner> {
    let provider = gateway.providers.get(&member.provider);
    let own = provider
        .filter(|it| it.breaker.is_some())
        .map(|it| CellOwner::Provider(it.name.clone()));
    let member = CellOwner::Member {
        pool: pool.name.clone(),
        lane: member.lane.clone(),
    };
    std::iter::once(member).chain(own)
}

/// True when, on some agent, an override that keeps attempts away is not outdone by one that lets
/// them through.
fn is_kept_away(together: &[&ActiveOverride], owner: &CellOwner) -> bool {
    let about = || together.iter().filter(|it| it.concerns(owner));
    about().filter(|it| it.refuses()).any(|refusing| {
        !about().any(|other| {
            other.action == OverrideAction::ForceClose
                && other.takes_precedence_over(refusing)
                && other.covers(refusing)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_json;
    use serde_json::json;

    fn gateway() -> Gateway {
        let document = json!({
            "gateway": "edge",
            "providers": {"p": {"protocol": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key": null}},
            "models": {"a": {"provider": "p"}, "b": {"provider": "p"}, "spare": {"provider": "p"}},
            "pools": {
                "chat": {"members": [{"target": "a"}, {"target": "b"}, {"target": "spare", "weight": 0}]},
                "alone": {"members": [{"target": "a"}]},
            },
        });
        check_json(&document).unwrap().gateway
    }

    fn override_(
        number: u64,
        action: OverrideAction,
        pool: Option<&str>,
        lane: &str,
    ) -> ActiveOverride {
        ActiveOverride {
            id: format!("o{number}"),
            number,
            action,
            pool: pool.map(PoolName::from),
            lane: lane.into(),
            provider: None,
            agents: BTreeMap::new(),
            expires_ms: 10_000,
        }
    }

    fn on(mut it: ActiveOverride, label: &str, value: &str) -> ActiveOverride {
        it.agents.insert(label.to_owned(), value.to_owned());
        it
    }

    fn emptied(active: &[ActiveOverride], new: &ActiveOverride) -> Vec<String> {
        emptied_pools(&gateway(), active, new)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    use OverrideAction::{Drain, ForceClose, ForceOpen, Reset};

    #[test]
    fn last_usable_member_of_each_pool_is_found() {
        let open = override_(2, ForceOpen, None, "a");
        assert_eq!(emptied(&[], &open), ["alone"]);
        let b_open = override_(1, Drain, Some("chat"), "b");
        assert_eq!(
            emptied(std::slice::from_ref(&b_open), &open),
            ["alone", "chat"]
        );
        let in_chat = override_(2, ForceOpen, Some("chat"), "a");
        assert_eq!(emptied(&[], &in_chat), [""; 0], "b is left");
        assert_eq!(emptied(&[b_open], &in_chat), ["chat"]);
    }

    #[test]
    fn member_of_weight_zero_neither_saves_a_pool_nor_empties_it() {
        let b_open = override_(1, ForceOpen, None, "b");
        assert_eq!(
            emptied(&[b_open], &override_(2, ForceOpen, Some("chat"), "spare")),
            [""; 0]
        );
    }

    #[test]
    fn only_overrides_that_refuse_empty_a_pool() {
        for action in [ForceClose, Reset] {
            assert_eq!(emptied(&[], &override_(1, action, None, "a")), [""; 0]);
        }
        let direct = override_(1, ForceOpen, Some(""), "a");
        assert_eq!(emptied(&[], &direct), [""; 0], "a direct route is no pool");
    }

    #[test]
    fn selections_that_exclude_each_other_do_not_add_up() {
        let b_in_east = on(override_(1, ForceOpen, Some("chat"), "b"), "zone", "east");
        let a = override_(2, ForceOpen, Some("chat"), "a");
        let active = [b_in_east];
        assert_eq!(emptied(&active, &on(a.clone(), "zone", "west")), [""; 0]);
        assert_eq!(emptied(&active, &on(a.clone(), "zone", "east")), ["chat"]);
        assert_eq!(
            emptied(&active, &on(a.clone(), "rack", "4")),
            ["chat"],
            "may meet"
        );
        assert_eq!(emptied(&active, &a), ["chat"]);
    }

    #[test]
    fn later_force_close_for_the_same_agents_gives_a_member_back() {
        let a = override_(9, ForceOpen, Some("chat"), "a");
        let b_open = override_(1, ForceOpen, Some("chat"), "b");
        let closes = override_(2, ForceClose, Some("chat"), "b");
        assert_eq!(emptied(&[b_open.clone(), closes.clone()], &a), [""; 0]);
        let somewhere = on(closes, "zone", "east");
        assert_eq!(emptied(&[b_open.clone(), somewhere], &a), ["chat"]);
        let for_all_pools = override_(2, ForceClose, None, "b");
        assert_eq!(
            emptied(&[b_open, for_all_pools], &a),
            ["chat"],
            "the pool's override holds"
        );
    }

    fn on_provider(number: u64, action: OverrideAction, provider: &str) -> ActiveOverride {
        ActiveOverride {
            provider: Some(provider.into()),
            ..override_(number, action, None, "")
        }
    }

    #[test]
    fn override_of_a_provider_is_about_its_own_cell_alone() {
        let lane = |pool: &str, lane: &str| CellOwner::Member {
            pool: pool.into(),
            lane: lane.into(),
        };
        let own = |provider: &str| CellOwner::Provider(provider.into());
        let of_provider = on_provider(1, ForceOpen, "p");
        assert!(of_provider.concerns(&own("p")));
        assert!(!of_provider.concerns(&own("q")));
        assert!(!of_provider.concerns(&lane("", "a")) && !of_provider.concerns(&lane("", "")));
        let of_lane = override_(1, ForceOpen, None, "a");
        assert!(of_lane.concerns(&lane("chat", "a")));
        assert!(!of_lane.concerns(&own("a")));
        assert_eq!(
            of_provider.at(0).and_then(|it| it.provider),
            Some("p".into())
        );
    }

    #[test]
    fn provider_that_is_kept_away_empties_the_pools_that_have_no_other() {
        let document = json!({
            "gateway": "edge",
            "providers": {
                "p": {"protocol": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key": null,
                    "breaker": {}},
                "q": {"protocol": "openai", "base_url": "http://127.0.0.1:2/v1", "api_key": null},
            },
            "models": {"a": {"provider": "p"}, "b": {"provider": "p"}, "c": {"provider": "q"}},
            "pools": {
                "one": {"members": [{"target": "a"}, {"target": "b"}]},
                "two": {"members": [{"target": "a"}, {"target": "c"}]},
            },
        });
        let gateway = check_json(&document).unwrap().gateway;
        let emptied = |active: &[ActiveOverride], new: &ActiveOverride| -> Vec<String> {
            let emptied = emptied_pools(&gateway, active, new);
            emptied.iter().map(ToString::to_string).collect()
        };
        let p = on_provider(9, ForceOpen, "p");
        assert_eq!(emptied(&[], &p), ["one"]);
        let c = override_(1, Drain, Some("two"), "c");
        assert_eq!(emptied(std::slice::from_ref(&c), &p), ["one", "two"]);
        assert_eq!(
            emptied(std::slice::from_ref(&p), &c),
            ["two"],
            "whichever comes first"
        );
        let lanes_closed = ["a", "b"].map(|lane| override_(10, ForceClose, None, lane));
        assert_eq!(
            emptied(&lanes_closed, &p),
            ["one"],
            "a lane's cell cannot speak for its provider's"
        );
        assert_eq!(emptied(&[on_provider(10, ForceClose, "p")], &p), [""; 0]);
        assert_eq!(
            emptied(&[c], &on_provider(9, ForceOpen, "q")),
            [""; 0],
            "q has no cell of its own"
        );
    }

    #[test]
    fn agent_is_selected_by_all_its_labels_and_an_override_ends() {
        let selected = on(
            on(override_(1, Drain, None, "a"), "zone", "east"),
            "rack",
            "4",
        );
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        assert!(selected.selects(&labels(&[("zone", "east"), ("rack", "4"), ("x", "y")])));
        assert!(!selected.selects(&labels(&[("zone", "east")])));
        assert!(!selected.selects(&labels(&[("zone", "east"), ("rack", "5")])));
        assert!(override_(1, Drain, None, "a").selects(&BTreeMap::new()));
        assert_eq!(selected.at(4_000).map(|it| it.remaining_ms), Some(6_000));
        assert_eq!(selected.at(10_000), None);
    }
}
