//! The body that starts a rollout.

use crate::admin::empty::Emptying;
use crate::error::{Error, Fault};
use crate::input::body::escape;
use lanekeeper_model::Problem;
use lanekeeper_model::rollout::RolloutPlan;
use serde_json::{Map, Value};

const FIELDS: &[&str] = &["plan", "revision", "document", "message", "allow_empty"];

/// What to roll out: a document, or an earlier revision's content.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes the body to readers of the API")]
pub(crate) struct StartForm {
    /// How; left out = as the gateway's plan says.
    #[schema(value_type = Option<Object>)]
    plan: Option<Value>,
    /// The earlier revision whose content is rolled out as a new one.
    revision: Option<u64>,
    /// The gateway document to roll out, in place of `revision`.
    #[schema(value_type = Option<Object>)]
    document: Option<Value>,
    /// Why; kept with the revision and in the audit trail.
    message: Option<String>,
    /// True takes the content also when it leaves a gateway that serves without any usable pool.
    allow_empty: Option<bool>,
}

/// A rollout to start.
pub(super) struct Start {
    pub(super) plan: Option<RolloutPlan>,
    pub(super) content: Content,
    pub(super) message: Option<String>,
    pub(super) emptying: Emptying,
}

/// What is to be rolled out.
pub(super) enum Content {
    Document(Value),
    Revision(u64),
}

/// Reads the body, with all that is wrong with it at once.
pub(super) fn read(body: Value) -> Result<Start, Error> {
    let Value::Object(mut given) = body else {
        let fault = Fault::at("", "not_an_object", "must be an object");
        return Err(Error::InvalidBody(vec![fault]));
    };
    let unknown = given.keys().filter(|key| !FIELDS.contains(&key.as_str()));
    let mut faults: Vec<Fault> = unknown
        .map(|key| {
            let message = format!("unknown field; known: {}", FIELDS.join(", "));
            Fault::at(format!("/{}", escape(key)), "unknown_key", message)
        })
        .collect();
    let take = |given: &mut Map<String, Value>, name: &str| {
        given.remove(name).filter(|value| !value.is_null())
    };
    let plan = take(&mut given, "plan").and_then(|value| {
        RolloutPlan::check(&value)
            .map_err(|problems| {
                let faults_of_plan = problems.into_iter().map(|it| below("/plan", it));
                faults.extend(faults_of_plan.map(Fault::from));
            })
            .ok()
    });
    let message = take(&mut given, "message").and_then(|value| match value {
        Value::String(text) => Some(text),
        _ => {
            faults.push(Fault::at("/message", "wrong_type", "must be a string"));
            None
        }
    });
    let emptying = match take(&mut given, "allow_empty") {
        None => Emptying::Refused,
        Some(Value::Bool(is_allowed)) => is_allowed.into(),
        Some(_) => {
            faults.push(Fault::at(
                "/allow_empty",
                "wrong_type",
                "must be true or false",
            ));
            Emptying::Refused
        }
    };
    let document = take(&mut given, "document");
    let content = match (document, take(&mut given, "revision")) {
        (Some(document), None) => Some(Content::Document(document)),
        (None, Some(number)) => {
            let number = number.as_u64();
            if number.is_none() {
                let message = "must be a whole number, not negative";
                faults.push(Fault::at("/revision", "wrong_type", message));
            }
            number.map(Content::Revision)
        }
        (None, None) | (Some(_), Some(_)) => {
            let message = "either document or revision must be given";
            faults.push(Fault::at("/document", "invalid_value", message));
            None
        }
    };
    match content {
        Some(content) if faults.is_empty() => Ok(Start {
            plan,
            content,
            message,
            emptying,
        }),
        Some(_) | None => Err(Error::InvalidBody(faults)),
    }
}

/// What is wrong with a text that other routes take as a parameter and this one in its body.
pub(super) fn in_body(error: Error) -> Error {
    match error {
        Error::InvalidParameter { name, reason } => {
            Error::InvalidBody(vec![Fault::at(format!("/{name}"), "invalid_value", reason)])
        }
        other => other,
    }
}

/// What is wrong with the document, seen from the body it came in.
pub(super) fn in_document(error: Error) -> Error {
    match error {
        Error::InvalidDocument(problems) => Error::InvalidDocument(
            problems
                .into_iter()
                .map(|problem| below("/document", problem))
                .collect(),
        ),
        Error::EmptyGateway { .. } => Error::EmptyGateway {
            pointer: "/document/pools",
        },
        other => other,
    }
}

fn below(place: &str, problem: Problem) -> Problem {
    Problem {
        pointer: format!("{place}{}", problem.pointer),
        ..problem
    }
}
