//! The route table: every method and path of the listener, who may use it, and its handler.
//!
//! The router and the OpenAPI document are both built from it, so nothing is served that is not
//! listed here, and nothing listed here is served without its guard.

use crate::app::App;
use crate::auth::{Access, Guard, guard, session};
use crate::error::Error;
use crate::fleet::{agents, breaker_state, stream};
use crate::input::body::refuse_any;
use crate::{admin, envelope, openapi, page, probes};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get};
use http::Method;
use lanekeeper_store::Role;
use std::sync::Arc;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem, Paths};
use utoipa::openapi::schema::Schema;
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

/// Schemas that an operation refers to, by name.
pub(crate) type Schemas = Vec<(String, RefOr<Schema>)>;

/// One line of the table.
pub(crate) struct Route {
    /// The method.
    pub(crate) method: Method,
    /// The path, with `{parameters}`.
    pub(crate) path: String,
    /// Who may use it.
    pub(crate) access: Access,
    /// What a refused attempt is called in the audit trail; `None` for what changes nothing.
    pub(crate) action: Option<&'static str>,
    /// The operation's documentation; `None` for pages and probes.
    pub(crate) documentation: Option<(Schemas, Paths)>,
    handler: MethodRouter<App>,
}

const VIEWER: Access = Access::Needs(Role::Viewer);
const OPERATOR: Access = Access::Needs(Role::Operator);
const ADMIN: Access = Access::Needs(Role::Admin);

/// The table.
pub(crate) fn table() -> Vec<Route> {
    let fleet = [
        read(VIEWER, routes!(breaker_state::show)),
        read(VIEWER, routes!(stream::follow)),
        read(VIEWER, routes!(breaker_state::count)),
        read(VIEWER, routes!(agents::list)),
        read(VIEWER, routes!(agents::show)),
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
    let open = [
        public("/", get(page::index)),
        public("/assets/{name}", get(page::asset)),
        public("/docs", get(openapi::docs_root)),
        public("/docs/", get(openapi::docs_index)),
        public("/docs/{*file}", get(openapi::docs_file)),
        public("/openapi.json", get(openapi::show)),
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
        .chain(open)
        .collect()
}

impl Route {
    /// The names of the query parameters it documents; `None` for pages and probes.
    pub(crate) fn parameters(&self) -> Option<Arc<[String]>> {
        let (_, paths) = self.documentation.as_ref()?;
        let operations = paths.paths.values().flat_map(operations_of);
        let parameters = operations.filter_map(|operation| operation.parameters.as_ref());
        let names = parameters
            .flatten()
            .filter_map(|parameter| match parameter {
                RefOr::T(parameter) => Some(parameter),
                RefOr::Ref(_) => None,
            })
            .filter(|parameter| parameter.parameter_in == ParameterIn::Query)
            .map(|parameter| parameter.name.clone());
        Some(names.collect())
    }

    /// Whether a body means anything to it: it changes something and documents one. Bodies of reads
    /// are left alone.
    fn takes_body(&self) -> bool {
        let Some((_, paths)) = &self.documentation else {
            return true;
        };
        let mut operations = paths.paths.values().flat_map(operations_of);
        self.method.is_safe() || operations.any(|operation| operation.request_body.is_some())
    }
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
        .with_state(app)
}

/// What is served until the stores are there.
pub(crate) fn waiting() -> Router {
    Router::new()
        .route("/livez", get(probes::live))
        .fallback(async || Error::NoDatabaseYet)
        .layer(from_fn(envelope::wrap))
}

fn read(access: Access, routes: UtoipaMethodRouter<App>) -> Route {
    documented(access, None, routes)
}

fn write(access: Access, action: &'static str, routes: UtoipaMethodRouter<App>) -> Route {
    documented(access, Some(action), routes)
}

fn documented(
    access: Access,
    action: Option<&'static str>,
    (schemas, paths, handler): UtoipaMethodRouter<App>,
) -> Route {
    let (path, method) = paths
        .paths
        .iter()
        .find_map(|(path, item)| Some((path.clone(), method_of(item)?)))
        .unwrap_or_default();
    Route {
        method,
        path,
        access,
        action,
        documentation: Some((schemas, paths)),
        handler,
    }
}

fn public(path: &str, handler: MethodRouter<App>) -> Route {
    Route {
        method: Method::GET,
        path: path.to_owned(),
        access: Access::Public,
        action: None,
        documentation: None,
        handler,
    }
}

/// The one method that an operation documents.
fn method_of(item: &PathItem) -> Option<Method> {
    methods_of(item).find_map(|(method, operation)| operation.as_ref().map(|_| method))
}

fn operations_of(item: &PathItem) -> impl Iterator<Item = &Operation> {
    methods_of(item).filter_map(|(_, operation)| operation.as_ref())
}

fn methods_of(item: &PathItem) -> impl Iterator<Item = (Method, &Option<Operation>)> {
    [
        (Method::GET, &item.get),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::DELETE, &item.delete),
        (Method::PATCH, &item.patch),
    ]
    .into_iter()
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
