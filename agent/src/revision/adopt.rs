//! The one way a document becomes the running configuration, whichever source it came from:
//! hash, validation, gateway name, compilation, each fault collected and no panic let through.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lanekeeper_model::{
    Checked, ConfigSource, Gateway, Problem, check_json, check_yaml, content_hash,
};
use serde_json::Value;

use crate::plane::{Applied, Plane};
use crate::status::Status;

type Apply = dyn Fn(Gateway, Applied) -> Vec<String> + Send + Sync;

/// Hands checked documents to the data plane.
pub(crate) struct Adopter {
    apply: Box<Apply>,
    status: Arc<Status>,
}

/// A document that is running now.
#[derive(Debug)]
pub(crate) struct Adopted {
    /// The document as given.
    pub(crate) document: Value,
    /// Its content hash.
    pub(crate) hash: String,
    /// What is wrong without having prevented it.
    pub(crate) problems: Vec<String>,
}

/// What a document is expected to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// The gateway it must be for.
    pub(crate) gateway: &'a str,
    /// The hash it must have.
    pub(crate) hash: &'a str,
    /// Its revision.
    pub(crate) revision: u64,
    /// Where it came from.
    pub(crate) source: ConfigSource,
}

impl Adopter {
    /// Adopts into `plane`.
    pub(crate) fn new(plane: Plane, status: Arc<Status>) -> Self {
        Self::with(status, move |gateway, meta| plane.apply(gateway, meta))
    }

    /// Adopts by calling `apply`.
    pub(crate) fn with(
        status: Arc<Status>,
        apply: impl Fn(Gateway, Applied) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            apply: Box::new(apply),
            status,
        }
    }

    /// Adopts the JSON text of a document.
    ///
    /// # Errors
    ///
    /// Every fault found. The running configuration is untouched then.
    pub(crate) fn adopt_json(
        &self,
        text: &[u8],
        expected: Expected<'_>,
    ) -> Result<Adopted, Vec<Problem>> {
        let document = parse_json(text)?;
        self.adopt_value(&document, expected)
    }

    /// Adopts a parsed document, like [`Self::adopt_json`].
    pub(crate) fn adopt_value(
        &self,
        document: &Value,
        expected: Expected<'_>,
    ) -> Result<Adopted, Vec<Problem>> {
        let hash = guarded(|| Ok(content_hash(document)))?;
        if hash != expected.hash {
            return Err(vec![problem(
                "hash_mismatch",
                format!(
                    "the document's content hash is {hash}, announced was {}",
                    expected.hash
                ),
            )]);
        }
        let checked = guarded(|| check_json(document))?;
        let name: &str = &checked.gateway.name;
        if name != expected.gateway {
            return Err(vec![Problem {
                pointer: "/gateway".to_owned(),
                code: "wrong_gateway".to_owned(),
                message: format!(
                    "is \"{name}\", but this agent serves \"{}\"",
                    expected.gateway
                ),
            }]);
        }
        let meta = Applied {
            revision: expected.revision,
            hash,
            source: expected.source,
        };
        self.swap(checked, meta)
    }

    /// Adopts a checked document of any gateway.
    ///
    /// # Errors
    ///
    /// A panic of the compilation; the running configuration is untouched then.
    pub(crate) fn adopt_checked(
        &self,
        checked: Checked,
        hash: String,
        revision: u64,
        source: ConfigSource,
    ) -> Result<Adopted, Vec<Problem>> {
        let meta = Applied {
            revision,
            hash,
            source,
        };
        self.swap(checked, meta)
    }

    fn swap(&self, checked: Checked, meta: Applied) -> Result<Adopted, Vec<Problem>> {
        let Checked { document, gateway } = checked;
        let name = gateway.name.to_string();
        let hash = meta.hash.clone();
        let problems = guarded(|| Ok((self.apply)(gateway, meta)))?;
        self.status.set_gateway(&name);
        Ok(Adopted {
            document,
            hash,
            problems,
        })
    }
}

/// Checks the text of a document, JSON or YAML.
///
/// # Errors
///
/// Every fault found.
pub(crate) fn check_text(text: &str, json: bool) -> Result<Checked, Vec<Problem>> {
    if json {
        let document = parse_json(text.as_bytes())?;
        guarded(|| check_json(&document))
    } else {
        guarded(|| check_yaml(text))
    }
}

fn parse_json(text: &[u8]) -> Result<Value, Vec<Problem>> {
    serde_json::from_slice(text)
        .map_err(|error| vec![problem("syntax", format!("is not JSON: {error}"))])
}

/// A revision that makes the validator or the compiler panic must cost that revision, not the
/// agent.
fn guarded<T>(work: impl FnOnce() -> Result<T, Vec<Problem>>) -> Result<T, Vec<Problem>> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(vec![problem(
            "internal",
            "the document made the agent fail; its log has more",
        )])
    })
}

fn problem(code: &str, message: impl Into<String>) -> Problem {
    Problem {
        pointer: String::new(),
        code: code.to_owned(),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use parking_lot::Mutex;
    use serde_json::json;

    fn document() -> Value {
        json!({
            "gateway": "edge",
            "providers": {"p": {"protocol": "openai", "base_url": "http://127.0.0.1:9", "api_key": null}},
            "models": {"m": {"provider": "p"}},
            "pools": {"chat": {"members": [{"target": "m"}]}}
        })
    }

    fn expected(hash: &str) -> Expected<'_> {
        Expected {
            gateway: "edge",
            hash,
            revision: 4,
            source: ConfigSource::Live,
        }
    }

    fn status() -> Arc<Status> {
        Arc::new(Status::new(clock::now()))
    }

    #[test]
    fn a_good_document_reaches_the_data_plane_with_its_facts() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (status, sink) = (status(), Arc::clone(&seen));
        let adopter = Adopter::with(Arc::clone(&status), move |gateway, meta| {
            sink.lock().push((gateway.name.to_string(), meta));
            vec!["MISSING_KEY is not set".to_owned()]
        });
        let hash = content_hash(&document());
        let text = serde_json::to_vec(&document()).unwrap();
        let adopted = adopter.adopt_json(&text, expected(&hash)).unwrap();
        assert_eq!(adopted.problems, ["MISSING_KEY is not set"]);
        assert_eq!(adopted.document, document());
        let seen = seen.lock();
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].0.as_str(), seen[0].1.revision), ("edge", 4));
        assert_eq!(seen[0].1.hash, hash);
        assert_eq!(status.gateway(), "edge");
    }

    #[test]
    fn nothing_doubtful_reaches_the_data_plane() {
        let adopter = Adopter::with(status(), |_, _| panic!("reached"));
        let good = content_hash(&document());
        let mut other = document();
        other["gateway"] = json!("other");
        let other_hash = content_hash(&other);
        for (text, hash, code) in [
            (json!([1, 2]).to_string(), "0", "hash_mismatch"),
            ("{".to_owned(), &*good, "syntax"),
            (document().to_string(), &*"0".repeat(64), "hash_mismatch"),
            (other.to_string(), &*other_hash, "wrong_gateway"),
        ] {
            let errors = adopter
                .adopt_json(text.as_bytes(), expected(hash))
                .unwrap_err();
            assert_eq!(errors[0].code, code, "{text}");
        }
    }

    #[test]
    fn a_panic_of_the_compiler_refuses_the_revision_and_no_more() {
        let adopter = Adopter::with(status(), |_, _| panic!("a bug in the compiler"));
        let hash = content_hash(&document());
        let errors = adopter
            .adopt_value(&document(), expected(&hash))
            .unwrap_err();
        assert_eq!(errors[0].code, "internal");
        assert!(!errors[0].message.contains("a bug in the compiler"));
    }
}
