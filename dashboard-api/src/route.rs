//! One line of the route table: method, path, access, handler and documentation.

use crate::app::App;
use crate::auth::Access;
use axum::routing::MethodRouter;
use http::Method;
use std::sync::Arc;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem, Paths};
use utoipa::openapi::schema::Schema;
use utoipa_axum::router::UtoipaMethodRouter;

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
    /// What answers.
    pub(crate) handler: MethodRouter<App>,
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
    pub(crate) fn takes_body(&self) -> bool {
        let Some((_, paths)) = &self.documentation else {
            return true;
        };
        let mut operations = paths.paths.values().flat_map(operations_of);
        self.method.is_safe() || operations.any(|operation| operation.request_body.is_some())
    }
}

/// A route that changes nothing, or whose refusal is not audited.
pub(crate) fn read(access: Access, routes: UtoipaMethodRouter<App>) -> Route {
    documented(access, None, routes)
}

/// A route that changes something; its refusals are audited as `action`.
pub(crate) fn write(
    access: Access,
    action: &'static str,
    routes: UtoipaMethodRouter<App>,
) -> Route {
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

/// A page or probe, open to anyone.
pub(crate) fn public(path: &str, handler: MethodRouter<App>) -> Route {
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
