//! The page that explains the document field by field, made from the schema: what a field means, which
//! values it takes and what it is when it is left out stand once, in the types.

use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// What stands before the generated part of the page, kept by hand.
const MARK: &str = "<!-- Made from the types; do not edit below. See CONTRIBUTING.md. -->\n";

#[test]
fn the_page_about_the_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/document.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, _) = page.split_once(MARK).expect("the page has its mark");
    let made = format!("{head}{MARK}{}", reference());
    if std::env::var_os(super::UPDATE).is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap();
    assert!(
        made == checked_in,
        "docs/document.md differs from the types; {}=1 cargo test -p lanekeeper-model --test schema \
         writes it",
        super::UPDATE
    );
}

/// Sections in the order in which people write a document.
const SECTIONS: [(&str, &str); 22] = [
    ("The document", "#"),
    ("providers.NAME", "Provider"),
    ("providers.NAME.api_key", "ApiKeys"),
    ("providers.NAME.auth", "Auth"),
    ("providers.NAME.headers.NAME", "HeaderValue"),
    ("providers.NAME.health", "Health"),
    ("providers.NAME.proxy", "Proxy"),
    ("models.NAME", "Model"),
    ("models.NAME.accepts", "Accepts"),
    ("pools.NAME", "Pool"),
    ("pools.NAME.members[]", "Member"),
    ("pools.NAME.failover", "Failover"),
    ("pools.NAME.failover.retry_budget", "RetryBudget"),
    ("pools.NAME.affinity", "Affinity"),
    ("pools.NAME.on_exhausted", "OnExhausted"),
    ("pools.NAME.fleet", "Fleet"),
    (
        "breaker (of a pool, a provider, or defaults)",
        "BreakerSpec",
    ),
    ("breaker.trip", "TripSpec"),
    ("breaker.half_open", "HalfOpenSpec"),
    ("clients[]", "Client"),
    ("routes[]", "Route"),
    ("limits, cors, defaults", "Limits+Cors+Defaults"),
];
/// Types whose values are told where they are used, or that are plain names.
const INLINE: [&str; 5] = [
    "SecretRef",
    "Queue",
    "Protocols",
    "ProxyWithCredentials",
    "Protocol",
];

fn reference() -> String {
    let schema = lanekeeper_model::json_schema();
    let definitions = schema["$defs"].as_object().unwrap();
    let mut text = String::new();
    let mut shown: Vec<&str> = INLINE.to_vec();
    for (title, names) in SECTIONS {
        write!(text, "\n## {title}\n\n").unwrap();
        for name in names.split('+') {
            shown.push(name);
            let of = if name == "#" {
                &schema
            } else {
                &definitions[name]
            };
            section(of, &schema, &mut text);
        }
    }
    // A type that has fields of its own and no section would be explained nowhere.
    for (name, definition) in definitions {
        let has_fields = definition.get("properties").is_some();
        assert!(
            !has_fields || shown.contains(&name.as_str()),
            "{name} has no section: add it to SECTIONS"
        );
    }
    text
}

fn section(of: &Value, schema: &Value, text: &mut String) {
    if let Some(description) = of["description"].as_str() {
        write!(text, "{}\n\n", line(description)).unwrap();
    }
    let choices = of
        .get("oneOf")
        .or_else(|| of.get("anyOf"))
        .and_then(Value::as_array);
    if let Some(choices) = choices {
        text.push_str("| value | meaning |\n|---|---|\n");
        for choice in choices {
            let meaning = choice["description"].as_str().unwrap_or_default();
            writeln!(text, "| {} | {} |", kind(choice, schema), cell(meaning)).unwrap();
        }
        text.push('\n');
        return;
    }
    let required: Vec<&str> = of["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    text.push_str("| field | value | left out | meaning |\n|---|---|---|---|\n");
    for (name, field) in of["properties"].as_object().unwrap() {
        let default = match field.get("default") {
            _ if required.contains(&name.as_str()) => "required".to_owned(),
            Some(Value::Object(fields)) if fields.is_empty() => "none".to_owned(),
            Some(Value::Object(_)) => "its own defaults".to_owned(),
            Some(Value::Array(items)) if items.is_empty() => "none".to_owned(),
            Some(Value::Null) | None => "-".to_owned(),
            Some(value) => format!("`{}`", value.to_string().trim_matches('"')),
        };
        let meaning = field["description"].as_str().unwrap_or_default();
        let meaning = format!("{}{}", cell(meaning), values(field, schema));
        writeln!(
            text,
            "| `{name}` | {} | {default} | {meaning} |",
            kind(field, schema)
        )
        .unwrap();
    }
    text.push('\n');
}

/// The words that a field takes, each with what it means, where it takes nothing else.
fn values(field: &Value, schema: &Value) -> String {
    let Some(choices) = target(field, schema)["oneOf"].as_array() else {
        return String::new();
    };
    if choices.iter().any(|choice| choice.get("const").is_none()) {
        return String::new();
    }
    let told = choices.iter().map(|choice| {
        let word = choice["const"].as_str().unwrap_or_default();
        let meaning = cell(choice["description"].as_str().unwrap_or_default());
        let meaning = meaning.trim_end_matches('.');
        // A name such as HTTP keeps its letters.
        let is_name = meaning.chars().nth(1).is_some_and(char::is_uppercase);
        let first = meaning.chars().next().filter(|_| !is_name);
        let meaning = match first {
            Some(first) => {
                let rest = meaning.get(first.len_utf8()..).unwrap_or_default();
                format!("{}{rest}", first.to_lowercase())
            }
            None => meaning.to_owned(),
        };
        format!("`{word}`: {meaning}")
    });
    format!(" {}.", told.collect::<Vec<_>>().join("; "))
}

/// What a field refers to.
fn target<'s>(field: &'s Value, schema: &'s Value) -> &'s Value {
    let alternatives = field["anyOf"].as_array().into_iter().flatten();
    let mut references = alternatives
        .chain([field])
        .filter_map(|it| it["$ref"].as_str());
    match references.next() {
        Some(reference) => {
            let name = reference.rsplit('/').next().unwrap_or_default();
            &schema["$defs"][name]
        }
        None => field,
    }
}

/// Which values a field takes, in few words.
fn kind(field: &Value, schema: &Value) -> String {
    if let Some(word) = field["const"].as_str() {
        return format!("`{word}`");
    }
    if let Some(reference) = field["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return named(name, &schema["$defs"][name], schema);
    }
    if let Some(alternatives) = field["anyOf"].as_array() {
        let kinds = alternatives.iter().filter(|it| it["type"] != "null");
        return kinds
            .map(|it| kind(it, schema))
            .collect::<Vec<_>>()
            .join(" or ");
    }
    let of_type = match &field["type"] {
        Value::String(one) => one.as_str(),
        Value::Array(several) => several
            .iter()
            .filter_map(Value::as_str)
            .find(|it| *it != "null")
            .unwrap_or("?"),
        _ => "?",
    };
    match of_type {
        "integer" | "number" => range(of_type, field),
        "boolean" => "true or false".to_owned(),
        "string" => "text".to_owned(),
        "array" => format!("list of {}", kind(&field["items"], schema)),
        "object" if field["properties"].is_object() => {
            let fields = field["properties"].as_object().unwrap();
            let fields = fields
                .iter()
                .map(|(name, it)| format!("{name}: {}", kind(it, schema)));
            format!(
                "`{{{}}}`",
                fields.collect::<Vec<_>>().join(", ").replace('`', "")
            )
        }
        "object" => format!("map of {}", kind(&field["additionalProperties"], schema)),
        other => other.to_owned(),
    }
}

/// A type that has a name: its words, or where it is explained.
fn named(name: &str, definition: &Value, schema: &Value) -> String {
    if let Some((title, _)) = SECTIONS
        .iter()
        .find(|(_, names)| names.split('+').any(|it| it == name))
    {
        let anchor: String = title
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => Some(c),
                _ => None,
            })
            .collect();
        let short = title.split(" (").next().unwrap_or(title);
        return format!("[{short}](#{anchor})");
    }
    if let Some(choices) = definition.get("oneOf").or_else(|| definition.get("anyOf")) {
        let kinds = choices.as_array().into_iter().flatten();
        return kinds
            .map(|it| kind(it, schema))
            .collect::<Vec<_>>()
            .join(", ");
    }
    match name {
        "GatewayName" | "ProviderName" | "LaneName" | "PoolName" => "a name".to_owned(),
        _ => kind(definition, schema),
    }
}

fn range(of_type: &str, field: &Value) -> String {
    let number = |name: &str| {
        let value = field.get(name)?.as_f64()?;
        Some(if value.fract() == 0.0 {
            format!("{value:.0}")
        } else {
            value.to_string()
        })
    };
    let what = if of_type == "integer" {
        "whole number"
    } else {
        "number"
    };
    match (
        number("minimum"),
        number("exclusiveMinimum"),
        number("maximum"),
    ) {
        (Some(low), _, Some(high)) => format!("{what}, {low} to {high}"),
        (None, Some(low), Some(high)) => format!("{what} over {low}, to {high}"),
        (Some(low), ..) => format!("{what}, at least {low}"),
        _ => what.to_owned(),
    }
}

/// A description on one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The same inside a table.
fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}
