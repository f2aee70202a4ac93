//! Turns the schema validator's errors into problems that name what would be right. The validator's
//! own messages are not used: they repeat the value, and a value may be a secret.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use crate::nearest::nearest;
use crate::problem::{Problem, pointer};

/// Explains all errors.
pub(super) fn explain<'a>(
    schema: &Value,
    errors: impl Iterator<Item = ValidationError<'a>>,
) -> Vec<Problem> {
    let mut explainer = Explainer {
        schema,
        problems: Vec::new(),
    };
    for error in errors {
        explainer.error(&error);
    }
    explainer.problems
}

struct Explainer<'s> {
    schema: &'s Value,
    problems: Vec<Problem>,
}

impl<'s> Explainer<'s> {
    fn refuse(&mut self, at: &str, code: &str, message: String) {
        self.problems.push(Problem::new(at, code, message));
    }

    fn error(&mut self, error: &ValidationError<'_>) {
        let at = error.instance_path().as_str();
        if let Some(secret) = secret_location(at) {
            self.secret(&secret, at, error.instance());
            return;
        }
        let found = type_name(error.instance());
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                for key in unexpected {
                    self.unknown_key(error, at, key);
                }
            }
            ValidationErrorKind::Required { property } => {
                let key = property.as_str().unwrap_or_default();
                self.refuse(at, "missing_key", format!("the key `{key}` is missing"));
            }
            ValidationErrorKind::Type { kind } => {
                let expected = type_words(kind);
                self.refuse(at, "wrong_type", wrong_type(&expected, found));
            }
            ValidationErrorKind::AnyOf { context }
            | ValidationErrorKind::OneOfNotValid { context } => {
                self.choice(error, at, context);
            }
            ValidationErrorKind::Enum { .. } | ValidationErrorKind::Constant { .. } => {
                let options = self.options_at(error.schema_path().as_str());
                self.unknown_value(at, error.instance(), &options);
            }
            ValidationErrorKind::Minimum { limit } => {
                self.refuse(at, "out_of_range", format!("must be at least {limit}"));
            }
            ValidationErrorKind::Maximum { limit } => {
                self.refuse(at, "out_of_range", format!("must be at most {limit}"));
            }
            ValidationErrorKind::ExclusiveMinimum { limit } => {
                self.refuse(at, "out_of_range", format!("must be more than {limit}"));
            }
            ValidationErrorKind::ExclusiveMaximum { limit } => {
                self.refuse(at, "out_of_range", format!("must be less than {limit}"));
            }
            ValidationErrorKind::MinItems { limit } => {
                let message = format!("must have at least {limit} {}", entries(*limit));
                self.refuse(at, "too_few", message);
            }
            ValidationErrorKind::MaxItems { limit } => {
                let message = format!("must have at most {limit} {}", entries(*limit));
                self.refuse(at, "too_many", message);
            }
            ValidationErrorKind::MinLength { limit: 1 } => {
                self.refuse(at, "empty", "must not be empty".to_owned());
            }
            ValidationErrorKind::MinLength { limit } => {
                let message = format!("must have at least {limit} characters");
                self.refuse(at, "too_short", message);
            }
            ValidationErrorKind::MaxLength { limit } => {
                let message = format!("must have at most {limit} characters");
                self.refuse(at, "too_long", message);
            }
            // The schema uses no other keyword; a test walks it to keep that so.
            other => {
                let message = format!("does not satisfy `{}` of the schema", other.keyword());
                self.refuse(at, "invalid", message);
            }
        }
    }

    fn unknown_key(&mut self, error: &ValidationError<'_>, at: &str, key: &str) {
        let place = if at.is_empty() { "the document" } else { at };
        let mut message = format!("unknown key `{key}` in {place}");
        let known = self
            .parent_schema(error.schema_path().as_str())
            .and_then(|schema| schema.get("properties"))
            .and_then(Value::as_object);
        if let Some(known) = known {
            match nearest(key, known.keys().map(String::as_str)) {
                Some(near) => message.push_str(&format!("; the nearest known key is `{near}`")),
                None => {
                    let all: Vec<&str> = known.keys().map(String::as_str).collect();
                    message.push_str(&format!("; known are {}", all.join(", ")));
                }
            }
        }
        let pointer = format!("{at}{}", pointer([key]));
        self.refuse(&pointer, "unknown_key", message);
    }

    /// A value none of several forms fits. If one form is clearly meant, what is wrong with that
    /// form is said; otherwise the forms are listed.
    fn choice(
        &mut self,
        error: &ValidationError<'_>,
        at: &str,
        branches: &[Vec<ValidationError<'static>>],
    ) {
        let here = |error: &ValidationError<'_>| error.instance_path().as_str() == at;
        let meant = |branch: &&Vec<ValidationError<'static>>| {
            let other_form = |error: &ValidationError<'_>| {
                matches!(
                    error.kind(),
                    ValidationErrorKind::Type { .. }
                        | ValidationErrorKind::Constant { .. }
                        | ValidationErrorKind::Enum { .. }
                )
            };
            !branch.iter().any(|error| here(error) && other_form(error))
        };
        let mut candidates: Vec<&Vec<ValidationError<'static>>> =
            branches.iter().filter(meant).collect();
        if candidates.len() > 1 {
            candidates.retain(|branch| !branch.iter().any(here));
        }
        if let [only] = candidates.as_slice() {
            for error in *only {
                self.error(error);
            }
            return;
        }
        let options = self.options_at(error.schema_path().as_str());
        self.unknown_value(at, error.instance(), &options);
    }

    fn unknown_value(&mut self, at: &str, value: &Value, options: &[Form<'s>]) {
        let words: Vec<&str> = options
            .iter()
            .filter_map(|form| match form {
                Form::Word(word) => Some(*word),
                Form::Object(_) | Form::Type(_) => None,
            })
            .collect();
        let spelled: Vec<String> = options.iter().map(Form::to_string).collect();
        let expected = one_of(&spelled);
        match value.as_str() {
            Some(given) if !words.is_empty() => {
                let near = nearest(given, words.into_iter())
                    .map(|near| format!("; the nearest is `{near}`"))
                    .unwrap_or_default();
                self.refuse(at, "unknown_value", format!("must be {expected}{near}"));
            }
            Some(_) | None => {
                self.refuse(at, "wrong_type", wrong_type(&expected, type_name(value)));
            }
        }
    }

    /// A reference to a secret that is none. Neither value nor keys are repeated: in
    /// `{sk-…}` the secret is a key.
    fn secret(&mut self, secret: &str, at: &str, value: &Value) {
        const FORMS: &str = "{env: NAME} or {file: /path}";
        let problem = if secret == at && value.is_string() {
            Problem::new(
                secret,
                "literal_secret",
                format!("must be {FORMS}: a document never holds a key itself"),
            )
        } else {
            Problem::new(
                secret,
                "invalid_secret_ref",
                format!("must be {FORMS}, or null to send no key"),
            )
        };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The schema object whose keyword a schema path names.
    fn parent_schema(&self, schema_path: &str) -> Option<&'s Value> {
        let (parent, _) = schema_path.rsplit_once('/')?;
        self.schema.pointer(parent)
    }

    /// The forms that the keyword at a schema path admits.
    fn options_at(&self, schema_path: &str) -> Vec<Form<'s>> {
        let mut forms = Vec::new();
        match self.schema.pointer(schema_path) {
            Some(Value::Array(branches)) => {
                for branch in branches {
                    self.forms(branch, &mut forms, 0);
                }
            }
            Some(_) | None => {
                if let Some(schema) = self.parent_schema(schema_path) {
                    self.forms(schema, &mut forms, 0);
                }
            }
        }
        forms
    }

    fn forms(&self, schema: &'s Value, forms: &mut Vec<Form<'s>>, depth: usize) {
        /// Deeper than any choice of the schema nests.
        const NESTING_MAX: usize = 8;
        if depth > NESTING_MAX {
            return;
        }
        if let Some(word) = schema.as_str() {
            forms.push(Form::Word(word));
        } else if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            if let Some(schema) = self.schema.pointer(target.trim_start_matches('#')) {
                self.forms(schema, forms, depth + 1);
            }
        } else if let Some(word) = schema.get("const").and_then(Value::as_str) {
            forms.push(Form::Word(word));
        } else if let Some(Value::Array(branches)) = ["enum", "oneOf", "anyOf"]
            .into_iter()
            .find_map(|keyword| schema.get(keyword))
        {
            for branch in branches {
                self.forms(branch, forms, depth + 1);
            }
        } else if let Some([Value::String(key)]) = schema
            .get("required")
            .and_then(Value::as_array)
            .filter(|_| schema.get("additionalProperties") == Some(&Value::Bool(false)))
            .filter(|_| schema.get("title").is_none() && schema.get("properties").is_some())
            .map(Vec::as_slice)
        {
            forms.push(Form::Object(key));
        } else if let Some(name) = schema.get("type").and_then(Value::as_str) {
            forms.push(Form::Type(name));
        }
    }
}

/// One of several forms a value may have.
enum Form<'s> {
    Word(&'s str),
    Object(&'s str),
    Type(&'s str),
}

impl std::fmt::Display for Form<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Object(key) => write!(f, "{{{key}: …}}"),
            Self::Type(name) => f.write_str(with_article(name)),
        }
    }
}

/// The pointer of the secret reference that a location lies in.
fn secret_location(at: &str) -> Option<String> {
    let mut parts = at.split('/').skip(1);
    let (section, name, field) = (parts.next()?, parts.next()?, parts.next()?);
    let place = format!("/{section}/{name}/{field}");
    let inner = parts.next();
    match (section, field, inner) {
        ("providers", "api_key", None) => Some(place),
        ("providers", "api_key", Some(key)) if key.bytes().all(|b| b.is_ascii_digit()) => {
            Some(format!("{place}/{key}"))
        }
        ("providers", "api_key", Some(_)) => Some(place),
        ("providers", "headers", Some(header)) => Some(format!("{place}/{header}")),
        ("providers", "proxy", Some("credentials")) => Some(format!("{place}/credentials")),
        _ => None,
    }
}

fn wrong_type(expected: &str, found: &str) -> String {
    format!("must be {expected}, is {}", with_article(found))
}

fn type_words(kind: &TypeKind) -> String {
    let name = |kind: JsonType| with_article(kind.as_str()).to_owned();
    match kind {
        TypeKind::Single(kind) => name(*kind),
        TypeKind::Multiple(kinds) => one_of(&kinds.iter().map(name).collect::<Vec<_>>()),
    }
}

fn one_of(options: &[String]) -> String {
    match options {
        [] => "something else".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn with_article(name: &str) -> &'static str {
    match name {
        "null" => "null",
        "boolean" => "true or false",
        "number" => "a number",
        "integer" => "an integer",
        "string" => "a string",
        "array" => "a list",
        "object" => "a map",
        _ => "something else",
    }
}

fn entries(count: u64) -> &'static str {
    if count == 1 { "entry" } else { "entries" }
}
