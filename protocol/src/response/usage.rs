//! Which model answered and how many tokens it took, as far as an answer or a frame tells.
//!
//! Only traces ask for it: nothing here decides about a lane, and an answer that cannot be read
//! just tells nothing.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::dialect::Vendor;
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::vendor::ALL;

/// What an answer tells about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The model that answered, in the provider's words.
    pub model: Option<String>,
    /// Tokens of the prompt, cached ones included.
    pub input_tokens: Option<u64>,
    /// Tokens of the answer, reasoning included.
    pub output_tokens: Option<u64>,
}

impl Told {
    /// Takes over what `later` knows. Vendors repeat and correct themselves: the last word counts.
    pub fn update(&mut self, later: Self) {
        self.model = later.model.or(self.model.take());
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
    }
}

/// True when a frame may count tokens, without parsing it.
#[must_use]
pub fn may_tell_usage(frame: &[u8]) -> bool {
    static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"usage"));
    USAGE.find(frame).is_some()
}

/// True when a frame may name the model, without parsing it.
#[must_use]
pub fn may_tell_model(frame: &[u8]) -> bool {
    static MODEL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"model"));
    MODEL.find(frame).is_some()
}

/// Reads a document or the data of one frame. The names of every vendor are read: servers that speak
/// one vendor's protocol often count as another does.
#[must_use]
pub fn read(vendor: &dyn Vendor, json: &[u8]) -> Told {
    let mut told = Told::default();
    let Ok(top) = serde_json::from_slice::<Fields<'_>>(json) else {
        return told;
    };
    let names = Names::of(vendor);
    told.update(scope(&names, &top));
    for name in &names.scopes {
        if let Some(inner) = parsed::<Fields<'_>>(top.get(name)) {
            told.update(scope(&names, &inner));
        }
    }
    told
}

/// The names of one vendor and of all others, each name once, so that nothing counts twice.
#[derive(Default)]
struct Names {
    scopes: Vec<&'static str>,
    model: Vec<&'static str>,
    usage: Vec<&'static str>,
    tokens: Vec<&'static str>,
    input: Vec<&'static str>,
    output: Vec<&'static str>,
}

impl Names {
    fn of(vendor: &dyn Vendor) -> Self {
        let mut names = Self::default();
        let every = std::iter::once(vendor).chain(ALL.iter().copied());
        for one in every.map(|vendor| vendor.usage()) {
            add(&mut names.scopes, one.scopes);
            add(&mut names.model, &[one.model]);
            add(&mut names.usage, &[one.usage]);
            add(&mut names.tokens, one.tokens.as_slice());
            add(&mut names.input, one.input);
            add(&mut names.output, one.output);
        }
        names
    }
}

fn add(known: &mut Vec<&'static str>, names: &[&'static str]) {
    for name in names {
        if !known.contains(name) {
            known.push(name);
        }
    }
}

fn scope(names: &Names, fields: &Fields<'_>) -> Told {
    let first = |names: &[&str]| names.iter().find_map(|name| fields.get(name));
    let usage = parsed::<Fields<'_>>(first(&names.usage)).unwrap_or_default();
    let tokens = { names.tokens.iter() }.find_map(|name| parsed::<Fields<'_>>(usage.get(name)));
    let usage = tokens.unwrap_or(usage);
    let count = |names: &[&str]| {
        let mut counts = { names.iter() }.filter_map(|name| parsed::<u64>(usage.get(name)));
        counts
            .next()
            .map(|first| counts.fold(first, u64::saturating_add))
    };
    Told {
        model: parsed::<Cow<'_, str>>(first(&names.model)).map(Cow::into_owned),
        input_tokens: count(&names.input),
        output_tokens: count(&names.output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    fn told(model: &str, input: u64, output: u64) -> Told {
        Told {
            model: Some(model.to_owned()),
            input_tokens: Some(input),
            output_tokens: Some(output),
        }
    }

    #[test]
    fn every_vendors_way_to_count_is_read() {
        let cases: [(&str, Told); 5] = [
            (
                r#"{"model":"gpt","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}"#,
                told("gpt", 9, 3),
            ),
            (
                r#"{"type":"message","model":"claude","content":[],"usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":null,"output_tokens":7}}"#,
                told("claude", 25, 7),
            ),
            (
                r#"{"type":"response.completed","response":{"model":"o","usage":{"input_tokens":1,"output_tokens":2}}}"#,
                told("o", 1, 2),
            ),
            (
                r#"{"candidates":[],"modelVersion":"gemini","usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":5,"thoughtsTokenCount":6}}"#,
                told("gemini", 4, 11),
            ),
            (
                r#"{"type":"message-end","model":"command","delta":{"usage":{"billed_units":{"input_tokens":1},"tokens":{"input_tokens":8,"output_tokens":9}}}}"#,
                told("command", 8, 9),
            ),
        ];
        for (json, wanted) in cases {
            // Whatever protocol a server speaks, it may count as another vendor does.
            for vendor in ALL {
                assert_eq!(read(*vendor, json.as_bytes()), wanted, "{vendor:?} {json}");
            }
            assert!(may_tell_usage(json.as_bytes()) && may_tell_model(json.as_bytes()));
        }
    }

    #[test]
    fn frames_of_one_answer_add_up() {
        let claude = Dialect::ANTHROPIC.vendor();
        let mut sum = read(
            claude,
            br#"{"type":"message_start","message":{"model":"claude","usage":{"input_tokens":5,"output_tokens":1}}}"#,
        );
        sum.update(read(claude, br#"{"type":"ping"}"#));
        sum.update(read(
            claude,
            br#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":12}}"#,
        ));
        assert_eq!(sum, told("claude", 5, 12));
    }

    #[test]
    fn what_cannot_be_read_tells_nothing() {
        let claude = Dialect::ANTHROPIC.vendor();
        for json in [
            "",
            "null",
            "[]",
            r#"{"model":7,"usage":"many","message":"hello"}"#,
            r#"{"usage":{"prompt_tokens":-1,"completion_tokens":1.5}}"#,
        ] {
            assert_eq!(read(claude, json.as_bytes()), Told::default(), "{json}");
        }
    }
}
