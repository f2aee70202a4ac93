//! The API's description, generated from the route table, and the page that shows it.
//!
//! Types of this crate describe themselves to utoipa. Types of the model know JSON Schema only,
//! which OpenAPI 3.1 takes as it is, so their schemas are added to the finished document.

mod bounds;

use crate::auth::Access;
use crate::error::Error;
use crate::input::Path;
use crate::page::PAGE_CSP;
use crate::problem::ProblemDocument;
use crate::route::Route;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use lanekeeper_store::{IDEMPOTENCY_KEY_MAX, Role};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::sync::{Arc, LazyLock};
use utoipa::ToSchema;
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApiBuilder, Paths};
use utoipa_swagger_ui::Config;

/// Where schemas of components live in the document.
const COMPONENTS: &str = "/components/schemas";

/// What an If-Match may be: ETags of configurations, or any.
const TAGS: &str = r#"^(\*|"[0-9]+"( *, *"[0-9]+")*)$"#;

static GATEWAY_SCHEMA: LazyLock<String> =
    LazyLock::new(|| lanekeeper_model::json_schema().to_string());
static SWAGGER: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    Arc::new(
        Config::from("/openapi.json")
            .try_it_out_enabled(true)
            .use_base_layout(),
    )
});

/// The OpenAPI 3.1 document of a route table as text, with a line end.
///
/// # Errors
///
/// When the document cannot be serialised, which is a fault of this program.
pub(crate) fn render(table: Vec<Route>) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(&document(table)?)?;
    text.push('\n');
    Ok(text)
}

fn document(table: Vec<Route>) -> Result<Value, serde_json::Error> {
    let mut paths = Paths::new();
    let mut components = ComponentsBuilder::new().schema(
        ProblemDocument::name(),
        <ProblemDocument as utoipa::PartialSchema>::schema(),
    );
    let mut roles = Vec::new();
    let mut writes = Vec::new();
    for route in table {
        let Some((schemas, operations)) = route.documentation else {
            continue;
        };
        if route.action.is_some() {
            writes.push((route.path.clone(), route.method.clone()));
        }
        if let Access::Needs(role) = route.access {
            roles.push((route.path, route.method, role));
        }
        components = components.schemas_from_iter(schemas);
        for (path, item) in operations.paths {
            match paths.paths.get_mut(&path) {
                Some(known) => known.merge_operations(item),
                None => {
                    paths.paths.insert(path, item);
                }
            }
        }
    }
    let info = InfoBuilder::new()
        .title("Lanekeeper")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Reads the state of the fleet's breakers and configures its gateways. Errors are \
             application/problem+json (RFC 9457). Lists are paged by opaque cursors. \
             Unknown parameters and fields are rejected.",
        ))
        .build();
    let api = OpenApiBuilder::new()
        .info(info)
        .paths(paths)
        .components(Some(components.build()))
        .build();
    let mut document = serde_json::to_value(api)?;
    add_tags(&mut document);
    add_security(&mut document);
    add_common_refusals(&mut document);
    for (path, method, role) in roles {
        if let Some(operation) = operation(&mut document, &path, &method) {
            add_role(operation, role);
        }
    }
    for (path, method) in writes {
        if let Some(operation) = operation(&mut document, &path, &method) {
            add_idempotency_key(operation);
        }
    }
    add_model_schemas(&mut document);
    bounds::add(&mut document);
    Ok(document)
}

fn operation<'a>(
    document: &'a mut Value,
    path: &str,
    method: &http::Method,
) -> Option<&'a mut Map<String, Value>> {
    let method = method.as_str().to_ascii_lowercase();
    document
        .get_mut("paths")?
        .get_mut(path)?
        .get_mut(&method)?
        .as_object_mut()
}

/// Every write may be repeated under a key.
fn add_idempotency_key(operation: &mut Map<String, Value>) {
    let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
    if let Some(parameters) = parameters.as_array_mut() {
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": "Identifies this write: a repeat with the same key within a day is not \
                            applied again, and gets the original response with \
                            Idempotency-Replayed: true",
            "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_MAX,
                       "pattern": "^[ -~]+$"}
        }));
    }
    if let Some(responses) = operation
        .get_mut("responses")
        .and_then(Value::as_object_mut)
    {
        responses.insert(
            "422".to_owned(),
            refusal("This Idempotency-Key was already used for a different request"),
        );
        responses.entry("409").or_insert_with(|| {
            refusal(
                "A write with this key was already made, and its response is no longer available",
            )
        });
    }
}

/// What each group of operations is about, in the order in which they are shown.
const GROUPS: [(&str, &str); 11] = [
    ("fleet", "What the fleet sees: breakers, agents, counts"),
    ("gateways", "Gateways: named configurations"),
    ("config", "A gateway's document"),
    ("revisions", "A gateway's history"),
    ("rollouts", "How revisions reach the agents"),
    ("overrides", "Operators' overrides on breakers"),
    ("agents", "Agents taken out of service, or forgotten"),
    (
        "enrolment",
        "Who may join: join tokens, identities, authorities",
    ),
    ("tokens", "API tokens"),
    ("audit", "Who did or tried what"),
    ("session", "Signing in with a browser"),
];

/// Describes the groups that operations name.
fn add_tags(document: &mut Value) {
    let groups = GROUPS.iter();
    let groups = groups.map(|(name, text)| json!({"name": name, "description": text}));
    if let Some(root) = document.as_object_mut() {
        root.insert("tags".to_owned(), groups.collect());
    }
}

fn add_security(document: &mut Value) {
    let Some(root) = document.as_object_mut() else {
        return;
    };
    root.insert(
        "security".to_owned(),
        json!([{"token": []}, {"session": []}]),
    );
    if let Some(components) = root.get_mut("components").and_then(Value::as_object_mut) {
        components.insert(
            "securitySchemes".to_owned(),
            json!({
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API token, `id.secret`"
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "lanekeeper_session",
                    "description": "Set by POST /session; writes must come from a page of this server"
                }
            }),
        );
    }
}

/// A response with a problem document.
fn refusal(description: &str) -> Value {
    json!({"description": description, "content": problem_content()})
}

/// The body of every error. Operations name their statuses only; this is added to each.
fn problem_content() -> Value {
    json!({
        "application/problem+json": {
            "schema": {"$ref": "#/components/schemas/ProblemDocument"}
        }
    })
}

/// Says how the layers that all operations share refuse, where an operation says nothing of its own.
fn add_common_refusals(document: &mut Value) {
    let operations = document
        .get_mut("paths")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(|paths| paths.values_mut())
        .filter_map(Value::as_object_mut)
        .flat_map(|methods| methods.values_mut())
        .filter_map(Value::as_object_mut);
    for operation in operations {
        let has_body = operation.contains_key("requestBody");
        if let Some(body) = operation
            .get_mut("requestBody")
            .and_then(Value::as_object_mut)
        {
            // No operation that takes a body does without.
            body.insert("required".to_owned(), json!(true));
        }
        let parameters = operation
            .get_mut("parameters")
            .and_then(Value::as_array_mut)
            .map_or(&mut [][..], Vec::as_mut_slice);
        let mut has_path = false;
        for parameter in parameters {
            has_path |= parameter.get("in").is_some_and(|place| place == "path");
            if parameter.get("name").is_some_and(|name| name == "If-Match")
                && let Some(schema) = parameter.get_mut("schema").and_then(Value::as_object_mut)
            {
                schema.insert("pattern".to_owned(), json!(TAGS));
            }
        }
        let Some(responses) = operation
            .get_mut("responses")
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        for (status, response) in responses.iter_mut() {
            if status.starts_with(['4', '5'])
                && let Some(response) = response.as_object_mut()
            {
                response.entry("content").or_insert_with(problem_content);
            }
        }
        let mut add = |status: &str, description: &str| {
            responses
                .entry(status)
                .or_insert_with(|| refusal(description));
        };
        add("400", "Invalid parameter or body");
        add(
            "503",
            "A store is unavailable; retry after the Retry-After delay",
        );
        if has_path {
            add("404", "Not found");
        }
        if has_body {
            add("408", "The body was not received in time");
            add("413", "The body is too large");
            add("415", "Unsupported media type");
        }
    }
}

/// Says what role an operation needs, and how it refuses.
fn add_role(operation: &mut Map<String, Value>, role: Role) {
    operation.insert("x-required-role".to_owned(), json!(role.as_str()));
    if let Some(responses) = operation
        .get_mut("responses")
        .and_then(Value::as_object_mut)
    {
        responses.insert("401".to_owned(), refusal("Invalid or expired token"));
        let description = format!("Requires the role '{}'", role.as_str());
        responses.insert("403".to_owned(), refusal(&description));
    }
}

fn add_model_schemas(document: &mut Value) {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.definitions_path = COMPONENTS.into();
            settings.meta_schema = None;
        })
        .into_generator();
    generator.subschema_for::<lanekeeper_model::spec::Document>();
    generator.subschema_for::<lanekeeper_model::FleetView>();
    generator.subschema_for::<lanekeeper_model::fleet::Summary>();
    generator.subschema_for::<crate::fleet::agents::AgentPage>();
    generator.subschema_for::<crate::fleet::pools::PoolPage>();
    generator.subschema_for::<crate::fleet_view::change::Change>();
    generator.subschema_for::<crate::fleet::timeline::TimelinePage>();
    generator.subschema_for::<crate::fleet::incidents::IncidentPage>();
    generator.subschema_for::<lanekeeper_model::incident::IncidentDetail>();
    generator.subschema_for::<crate::event_hub::PageSnapshot>();
    generator.subschema_for::<crate::event_hub::CellsEvent>();
    generator.subschema_for::<crate::event_hub::AgentsEvent>();
    generator.subschema_for::<crate::event_hub::IncidentsEvent>();
    generator.subschema_for::<crate::event_hub::RolloutEvent>();
    generator.subschema_for::<crate::event_hub::OverridesEvent>();
    generator.subschema_for::<crate::event_hub::AcknowledgementsEvent>();
    generator.subschema_for::<crate::event_hub::ResetEvent>();
    generator.subschema_for::<crate::admin::rollouts::view::RolloutPage>();
    generator.subschema_for::<crate::admin::rollouts::view::RolloutDetail>();
    let definitions: Map<String, Value> = generator.take_definitions(true);
    if let Some(schemas) = document
        .pointer_mut(COMPONENTS)
        .and_then(Value::as_object_mut)
    {
        schemas.extend(definitions);
    }
}

/// `GET /schemas/gateway.json`: for editors that complete and check documents.
pub(crate) async fn gateway_schema() -> Response {
    (
        [(CONTENT_TYPE, "application/schema+json")],
        GATEWAY_SCHEMA.as_str(),
    )
        .into_response()
}

/// `GET /docs`: the page's own links are relative to its folder.
pub(crate) async fn docs_root() -> Redirect {
    Redirect::permanent("/docs/")
}

/// `GET /docs/`.
pub(crate) async fn docs_index() -> Result<Response, Error> {
    docs("")
}

/// `GET /docs/{file}`.
pub(crate) async fn docs_file(Path(file): Path<String>) -> Result<Response, Error> {
    docs(&file)
}

fn docs(file: &str) -> Result<Response, Error> {
    let found = utoipa_swagger_ui::serve(file, Arc::clone(&SWAGGER))
        .map_err(|error| Error::Internal(error.to_string().into()))?
        .ok_or(Error::UnknownRoute)?;
    let mut response = (
        [
            (CONTENT_TYPE, found.content_type),
            (CACHE_CONTROL, "no-cache".to_owned()),
            (CONTENT_SECURITY_POLICY, PAGE_CSP.to_owned()),
        ],
        found.bytes.into_owned(),
    )
        .into_response();
    if found.gzpipped {
        response
            .headers_mut()
            .insert(CONTENT_ENCODING, http::HeaderValue::from_static("gzip"));
    }
    Ok(response)
}
