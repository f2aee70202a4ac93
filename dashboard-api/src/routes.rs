//! The route table: every method and path of the listener, who may use it, and its handler.
//!
//! The router and the OpenAPI document are both built from it, so nothing is served that is not
//! listed here, and nothing listed here is served without its guard.

use crate::app::App;
use crate::auth::{Access, Guard, guard, session};
use crate::error::Error;
use crate::fleet::{agents, breaker_state, events, incidents, pools, stream, timeline};
use crate::input::body::refuse_any;
use crate::route::{Route, public, read, write};
use crate::{admin, envelope, openapi, page, probes};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use lanekeeper_store::Role;
use std::sync::LazyLock;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, NotForContentType, Predicate as _, SizeAbove};
use utoipa_axum::routes;

/// An answer of this many bytes costs one packet either way.
const COMPRESSED_FROM_BYTES: u64 = 1024;

const VIEWER: Access = Access::Needs(Role::Viewer);
const OPERATOR: Access = Access::Needs(Role::Operator);
const ADMIN: Access = Access::Needs(Role::Admin);

/// The OpenAPI document, rendered when it is first asked for.
static DESCRIPTION: LazyLock<Result<String, String>> =
    LazyLock::new(|| describe().map_err(|error| error.to_string()));

/// The OpenAPI 3.1 document of the table as text, with a line end.
///
/// # Errors
///
/// When the document cannot be serialised, which is a fault of this program.
pub(crate) fn describe() -> Result<String, serde_json::Error> {
    openapi::render(table())
}

/// `GET /openapi.json`.
async fn show_description() -> Result<Response, Error> {
    match &*DESCRIPTION {
        Ok(text) => Ok(([(CONTENT_TYPE, "application/json")], text.as_str()).into_response()),
        Err(error) => Err(Error::Internal(error.as_str().into())),
    }
}

/// The table.
pub(crate) fn table() -> Vec<Route> {
    let fleet = [
        read(VIEWER, routes!(breaker_state::show)),
        read(VIEWER, routes!(stream::follow)),
        read(VIEWER, routes!(breaker_state::count)),
        read(VIEWER, routes!(pools::list)),
        read(VIEWER, routes!(pools::show)),
        read(VIEWER, routes!(agents::list)),
        read(VIEWER, routes!(agents::show)),
        read(VIEWER, routes!(timeline::list)),
        read(VIEWER, routes!(incidents::list)),
        read(VIEWER, routes!(incidents::show)),
        read(VIEWER, routes!(events::follow)),
    ];
    let gateways = [
        read(VIEWER, routes!(admin::gateways::list)),
        write(ADMIN, "gateway.create", routes!(admin::gateways::create)),
        read(VIEWER, routes!(admin::gateways::show)),
        write(ADMIN, "gateway.delete", routes!(admin::gateways::delete)),
        read(VIEWER, routes!(admin::circuit_breaker::show)),
        read(VIEWER, routes!(admin::config::read)),
        write(ADMIN, "config.write", routes!(admin::config::replace)),
        write(ADMIN, "config.write", routes!(admin::config::patch)),
        write(ADMIN, "config.write", routes!(admin::resources::put)),
        write(ADMIN, "config.write", routes!(admin::resources::remove)),
        read(VIEWER, routes!(admin::config::validate)),
        read(VIEWER, routes!(admin::config::diff)),
        read(VIEWER, routes!(admin::revisions::list)),
        read(VIEWER, routes!(admin::revisions::read)),
        write(ADMIN, "config.write", routes!(admin::revisions::roll_back)),
    ];
    let rollouts = [
        read(VIEWER, routes!(admin::rollouts::read_plan)),
        write(
            ADMIN,
            "rollout_plan.write",
            routes!(admin::rollouts::replace_plan),
        ),
        read(VIEWER, routes!(admin::rollouts::list)),
        write(ADMIN, "rollout.start", routes!(admin::rollouts::start)),
        read(VIEWER, routes!(admin::rollouts::show)),
        write(ADMIN, "rollout.pause", routes!(admin::rollouts::pause)),
        write(ADMIN, "rollout.resume", routes!(admin::rollouts::resume)),
        write(ADMIN, "rollout.abort", routes!(admin::rollouts::abort)),
    ];
    let overrides = [
        read(VIEWER, routes!(admin::overrides::list)),
        write(
            OPERATOR,
            "override.create",
            routes!(admin::overrides::create),
        ),
        read(VIEWER, routes!(admin::overrides::show)),
        write(
            OPERATOR,
            "override.release",
            routes!(admin::overrides::release),
        ),
    ];
    let agents = [
        write(
            ADMIN,
            "control_epoch.renew",
            routes!(admin::control_epoch::renew),
        ),
        write(OPERATOR, "agent.drain", routes!(admin::agents::drain)),
        write(OPERATOR, "agent.undrain", routes!(admin::agents::undrain)),
        write(ADMIN, "agent.forget", routes!(admin::agents::forget)),
    ];
    let access = [
        read(ADMIN, routes!(admin::tokens::list)),
        write(ADMIN, "token.create", routes!(admin::tokens::create)),
        write(ADMIN, "token.revoke", routes!(admin::tokens::revoke)),
        read(ADMIN, routes!(admin::join_tokens::list)),
        write(
            ADMIN,
            "join_token.create",
            routes!(admin::join_tokens::create),
        ),
        write(
            ADMIN,
            "join_token.revoke",
            routes!(admin::join_tokens::revoke),
        ),
        read(ADMIN, routes!(admin::identities::list)),
        write(ADMIN, "identity.revoke", routes!(admin::identities::revoke)),
        read(VIEWER, routes!(admin::identities::authorities)),
        write(
            ADMIN,
            "authority.retire",
            routes!(admin::identities::retire_authority),
        ),
        read(ADMIN, routes!(admin::audit::list)),
        read(ADMIN, routes!(admin::audit::verify)),
        read(VIEWER, routes!(session::show)),
        read(Access::Public, routes!(session::sign_in)),
        read(Access::Public, routes!(session::sign_out)),
    ];
    let addresses = page::ADDRESSES.map(|address| public(address, get(page::document)));
    let open = [
        public("/assets/{name}", get(page::asset)),
        public("/icon.svg", get(page::icon)),
        public("/docs", get(openapi::docs_root)),
        public("/docs/", get(openapi::docs_index)),
        public("/docs/{*file}", get(openapi::docs_file)),
        public("/openapi.json", get(show_description)),
        public("/schemas/gateway.json", get(openapi::gateway_schema)),
        public("/livez", get(probes::live)),
        public("/readyz", get(probes::ready)),
    ];
    fleet
        .into_iter()
        .chain(gateways)
        .chain(agents)
        .chain(rollouts)
        .chain(overrides)
        .chain(access)
        .chain(addresses)
        .chain(open)
        .collect()
}

/// The router of the whole listener.
pub(crate) fn router(app: App) -> Router {
    let mut router = Router::new();
    for route in table() {
        let takes_body = route.takes_body();
        let rule = Guard {
            app: app.clone(),
            access: route.access,
            action: route.action,
            parameters: route.parameters(),
        };
        let mut handler = route.handler;
        if !takes_body {
            handler = handler.route_layer(from_fn(refuse_any));
        }
        let guarded = handler.route_layer(from_fn_with_state(rule, guard));
        router = router.route(&route.path, guarded);
    }
    router
        .fallback(async || Error::UnknownRoute)
        .layer(from_fn(envelope::wrap))
        .layer(compression())
        .with_state(app)
}

/// Answers of more than [`COMPRESSED_FROM_BYTES`] are compressed for who takes it. Event streams are
/// not: a compressor would hold their events back.
fn compression() -> CompressionLayer<And<SizeAbove, NotForContentType>> {
    let worth_it = SizeAbove::new(COMPRESSED_FROM_BYTES).and(NotForContentType::SSE);
    CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(worth_it)
}

/// What is served until the stores are there.
pub(crate) fn waiting() -> Router {
    Router::new()
        .route("/livez", get(probes::live))
        .fallback(async || Error::NoDatabaseYet)
        .layer(from_fn(envelope::wrap))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_method_and_path_is_listed_twice() {
        let mut seen = BTreeSet::new();
        for route in table() {
            assert!(route.path.starts_with('/'), "{} is no path", route.path);
            let line = format!("{} {}", route.method, route.path);
            assert!(seen.insert(line.clone()), "{line} is listed twice");
        }
    }

    #[test]
    fn every_write_of_the_admin_api_needs_more_than_a_viewer_and_is_audited() {
        for route in table() {
            let tries_only = route.path.ends_with("/validate") || route.path.ends_with("/diff");
            if route.path.starts_with("/admin/") && !route.method.is_safe() && !tries_only {
                let line = format!("{} {}", route.method, route.path);
                assert!(
                    route.action.is_some(),
                    "{line} leaves no trace of a refusal"
                );
                assert!(
                    matches!(route.access, Access::Needs(role) if role > Role::Viewer),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn nothing_of_the_api_is_public() {
        for route in table() {
            let is_api = route.path.starts_with("/api/") || route.path.starts_with("/admin/");
            assert!(
                !(is_api && route.access == Access::Public),
                "{}",
                route.path
            );
        }
    }
}
