//! Reading a caller's document: leniently where vendors are (null is absent), and by naming the
//! member where it breaks the dialect.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Refusal;
use crate::json::fields::Fields;
use crate::json::filled::is_filled;

/// Where a value stands in the document. It is spelled out only for a refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'p> {
    /// It is the document.
    Root,
    /// A member of an object.
    Member(&'p At<'p>, &'p str),
    /// An item of a list.
    Item(&'p At<'p>, usize),
}

impl At<'_> {
    /// A refusal of the value, because of `reason`.
    pub(crate) fn refuse(&self, reason: impl Into<String>) -> Refusal {
        Refusal::new(self.to_string(), reason)
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => formatter.write_str("body"),
            Self::Member(Self::Root, name) => write!(formatter, "{name}"),
            Self::Member(parent, name) => write!(formatter, "{parent}.{name}"),
            Self::Item(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

/// An object of the document.
#[derive(Debug)]
pub(crate) struct Object<'a, 'p> {
    fields: Fields<'a>,
    at: At<'p>,
}

impl<'a, 'p> Object<'a, 'p> {
    /// The whole document.
    pub(crate) fn document(body: &'a [u8]) -> Result<Self, Refusal> {
        match serde_json::from_slice(body) {
            Ok(fields) => Ok(Self {
                fields,
                at: At::Root,
            }),
            Err(_) => Err(At::Root.refuse("must be one JSON object")),
        }
    }

    /// The object that `value` is.
    pub(crate) fn of(value: &'a RawValue, at: At<'p>) -> Result<Self, Refusal> {
        match serde_json::from_str(value.get()) {
            Ok(fields) => Ok(Self { fields, at }),
            Err(_) => Err(at.refuse("must be an object")),
        }
    }

    /// Where it stands.
    pub(crate) const fn at(&self) -> At<'p> {
        self.at
    }

    /// A refusal of its member, because of `reason`.
    pub(crate) fn refuse(&self, name: &str, reason: impl Into<String>) -> Refusal {
        At::Member(&self.at, name).refuse(reason)
    }

    /// The path of a member.
    pub(crate) fn path(&self, name: &str) -> String {
        At::Member(&self.at, name).to_string()
    }

    /// A member; `None` when it is absent or null.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        { self.fields.get(name) }.filter(|value| value.get() != "null")
    }

    /// True when a member is there and says anything.
    pub(crate) fn says(&self, name: &str) -> bool {
        { self.raw(name) }.is_some_and(|value| is_filled(value.get().as_bytes()))
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<Cow<'a, str>>, Refusal> {
        let Some(value) = self.raw(name) else {
            return Ok(None);
        };
        match text(value) {
            Some(text) => Ok(Some(text)),
            None => Err(self.refuse(name, "must be a string")),
        }
    }

    /// A text that must be there.
    pub(crate) fn needed_text(&self, name: &str) -> Result<Cow<'a, str>, Refusal> {
        { self.text(name)? }.ok_or_else(|| self.refuse(name, "is required"))
    }

    /// A value of another type; `what` says which, as in "must be a number".
    pub(crate) fn value<T: Deserialize<'a>>(
        &self,
        name: &str,
        what: &str,
    ) -> Result<Option<T>, Refusal> {
        let Some(value) = self.raw(name) else {
            return Ok(None);
        };
        match serde_json::from_str(value.get()) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.refuse(name, format!("must be {what}"))),
        }
    }

    /// A finite number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Refusal> {
        self.value(name, "a number")
    }

    /// A count.
    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let number: Option<f64> = self.number(name)?;
        let Some(number) = number else {
            return Ok(None);
        };
        if let Some(whole) = { self.raw(name) }.and_then(|raw| raw.get().parse().ok()) {
            return Ok(Some(whole));
        }
        // Some packages write whole numbers as floats.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole and within the range"
        )]
        let whole = number as u64;
        if (0.0..1e15).contains(&number) && number.fract() == 0.0 {
            Ok(Some(whole))
        } else {
            Err(self.refuse(name, "must be a whole number of at least 0"))
        }
    }

    /// True or false.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        self.value(name, "true or false")
    }

    /// A list.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<&'a RawValue>, Refusal> {
        Ok(self.value(name, "a list")?.unwrap_or_default())
    }

    /// The members that say something and are not among `known`.
    pub(crate) fn others(&self, known: &[&str]) -> impl Iterator<Item = String> {
        self.fields
            .iter()
            .filter(|(name, value)| is_filled(value.get().as_bytes()) && !known.contains(name))
            .map(|(name, _)| name.to_owned())
            .collect::<Vec<_>>()
            .into_iter()
    }
}

/// A string; `None` for anything else. A lone surrogate, which JSON can spell and UTF-8 cannot,
/// becomes U+FFFD.
pub(crate) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

    let spelled = value.get();
    if !spelled.starts_with('"') {
        return None;
    }
    match serde_json::from_str::<Text<'_>>(spelled) {
        Ok(text) => Some(text.0),
        Err(_) => serde_json::from_str(&without_lone_surrogates(spelled)).ok(),
    }
}

/// A JSON string's spelling with `\ufffd` for each lone surrogate.
fn without_lone_surrogates(spelled: &str) -> String {
    let mut out = String::with_capacity(spelled.len());
    let mut rest = spelled;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = match surrogate(escape) {
            Some(high) if high < 0xDC00 => {
                let low = escape.get(6..).and_then(surrogate);
                if low.is_some_and(|low| low >= 0xDC00) {
                    out.push_str(escape.get(..12).unwrap_or_default());
                    12
                } else {
                    out.push_str("\\ufffd");
                    6
                }
            }
            Some(_) => {
                out.push_str("\\ufffd");
                6
            }
            None => {
                // Both characters of another escape, so that `\\u` is not taken for one.
                let length = 1 + escape.chars().nth(1).map_or(0, char::len_utf8);
                out.push_str(escape.get(..length).unwrap_or_default());
                length
            }
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// The surrogate that `escape` begins with.
fn surrogate(escape: &str) -> Option<u32> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    let code = u32::from_str_radix(digits, 16).ok()?;
    (0xD800..0xE000).contains(&code).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<String> {
        let raw: &RawValue = serde_json::from_str(json).expect("JSON");
        text(raw).map(Cow::into_owned)
    }

    #[test]
    fn text_survives_whatever_json_can_spell() {
        for (json, wanted) in [
            (r#""a""#, "a"),
            (r#""\ud83d\ude00""#, "\u{1F600}"),
            (r#""x\ud83d""#, "x\u{FFFD}"),
            (r#""\ude00y""#, "\u{FFFD}y"),
            (r#""\ud83d\ud83d\ude00""#, "\u{FFFD}\u{1F600}"),
            (r#""\\ud83d \ud83d""#, "\\ud83d \u{FFFD}"),
            (r#""\u0000\u2028\/ö""#, "\0\u{2028}/ö"),
        ] {
            assert_eq!(read(json).as_deref(), Some(wanted), "{json}");
        }
        for json in ["null", "1", "[\"a\"]", "{}"] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn a_refusal_names_the_member_by_its_path() {
        let body = br#"{"a":[{"b":{"c":7}}],"n":-1,"f":3.0,"x":null}"#;
        let root = Object::document(body).expect("an object");
        let (list, at) = (root.list("a").expect("a list"), root.at());
        let member = At::Member(&at, "a");
        let item = Object::of(list[0], At::Item(&member, 0)).expect("an object");
        let at = item.at();
        let inner = item.raw("b").expect("a member");
        let inner = Object::of(inner, At::Member(&at, "b")).expect("an object");
        let refusal = inner.text("c").expect_err("a number");
        assert_eq!(refusal.to_string(), "a[0].b.c: must be a string");
        assert!(root.count("n").is_err());
        assert_eq!(root.count("f"), Ok(Some(3)));
        assert_eq!(root.text("x"), Ok(None));
        assert_eq!(root.others(&["a", "x"]).collect::<Vec<_>>(), ["n", "f"]);
    }
}
