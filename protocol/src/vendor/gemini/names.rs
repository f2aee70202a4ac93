//! Finds the model names that a Gemini body repeats.
//!
//! Gemini's requests carry the model in the path, and some carry it in the body as well: each part
//! of a batch of embeddings, a request to be counted. Google refuses a body that names another
//! model than the path, so they change together.

use std::ops::Range;

use crate::json::scan::{LocateError, MAX_MODEL_BYTES, Scan, decode, is_same_but_for_case};

/// What stands before a name in a body.
const COLLECTION: &[u8] = b"models/";

const MODEL: &str = "model";
const REQUESTS: &str = "requests";
/// The fields of a body that name a model, or have one below them. `generate_content_request` is
/// the same field by protobuf's JSON, which takes both spellings.
const TOP: [&str; 4] = [
    MODEL,
    REQUESTS,
    "generateContentRequest",
    "generate_content_request",
];

/// The fields of one object that were met, each of which may stand there once and in its own case.
#[derive(Default)]
struct Seen(Vec<&'static str>);

impl Seen {
    /// Which of the fields a key is.
    fn take(
        &mut self,
        key: &str,
        fields: &[&'static str],
    ) -> Result<Option<&'static str>, LocateError> {
        let same = |field: &&&'static str| is_same_but_for_case(key, field);
        let Some(field) = fields.iter().find(same).copied() else {
            return Ok(None);
        };
        if key != field {
            return Err(LocateError::OtherCase { field });
        }
        if self.0.contains(&field) {
            return Err(LocateError::Duplicate { field });
        }
        self.0.push(field);
        Ok(Some(field))
    }
}

/// Where the body names its model: as a field of the body itself, of each of its `requests`, and of
/// its `generateContentRequest`. The ranges are in order and leave `models/` out.
///
/// # Errors
///
/// Anything but one JSON object; see [`LocateError`].
pub(super) fn model_names(body: &[u8]) -> Result<Vec<Range<usize>>, LocateError> {
    let mut scan = Scan::open(body)?;
    let mut names = Vec::new();
    let mut seen = Seen::default();
    scan.members(1, &mut |scan, key, depth| match seen.take(key, &TOP)? {
        Some(MODEL) => scan.name(&mut names),
        Some(REQUESTS) => scan.items(depth, &mut |scan, depth| scan.named(depth, &mut names)),
        Some(_) => scan.named(depth, &mut names),
        None => scan.value(depth),
    })?;
    scan.end()?;
    Ok(names)
}

impl Scan<'_> {
    /// Walks the members of an object behind its opening bracket. `each` takes the value of the
    /// member it is given the name of; `depth` levels are open around that value.
    fn members(
        &mut self,
        depth: u32,
        each: &mut impl FnMut(&mut Self, &str, u32) -> Result<(), LocateError>,
    ) -> Result<(), LocateError> {
        self.white_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.white_space();
            self.expect(b':')?;
            self.white_space();
            let body = self.body;
            let name = decode(body, key).unwrap_or_default();
            each(self, &name, depth)?;
            self.white_space();
            match self.next()? {
                b',' => self.white_space(),
                b'}' => return Ok(()),
                _ => return Err(self.malformed_before()),
            }
        }
    }

    /// Walks the items of an array, or takes whatever else the value is.
    fn items(
        &mut self,
        depth: u32,
        each: &mut impl FnMut(&mut Self, u32) -> Result<(), LocateError>,
    ) -> Result<(), LocateError> {
        if self.peek() != Some(b'[') {
            return self.value(depth);
        }
        self.at += 1;
        self.white_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.white_space();
            each(self, depth + 1)?;
            self.white_space();
            match self.next()? {
                b',' => {}
                b']' => return Ok(()),
                _ => return Err(self.malformed_before()),
            }
        }
    }

    /// Takes one value and the model names directly in it, if it is an object.
    fn named(&mut self, depth: u32, names: &mut Vec<Range<usize>>) -> Result<(), LocateError> {
        if self.peek() != Some(b'{') {
            return self.value(depth);
        }
        self.at += 1;
        let mut seen = Seen::default();
        self.members(
            depth + 1,
            &mut |scan, key, depth| match seen.take(key, &[MODEL])? {
                Some(_) => scan.name(names),
                None => scan.value(depth),
            },
        )
    }

    /// Takes the value of `model`.
    fn name(&mut self, names: &mut Vec<Range<usize>>) -> Result<(), LocateError> {
        if self.peek() != Some(b'"') {
            return Err(LocateError::BadModel);
        }
        let token = self.string()?;
        let raw = self.body.get(token.clone()).unwrap_or_default();
        if raw.is_empty() || raw.len() > MAX_MODEL_BYTES {
            return Err(LocateError::BadModel);
        }
        let skipped = if raw.starts_with(COLLECTION) {
            COLLECTION.len()
        } else {
            0
        };
        names.push(token.start + skipped..token.end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> Result<Vec<&str>, LocateError> {
        let names = model_names(body.as_bytes())?;
        Ok(names.into_iter().map(|range| &body[range]).collect())
    }

    #[test]
    fn names_are_found_where_gemini_repeats_them() {
        for (body, names) in [
            ("{}", vec![]),
            (r#"{"contents":[{"parts":[{"text":"model"}]}]}"#, vec![]),
            (r#"{"model":"models/a","content":{}}"#, vec!["a"]),
            (r#"{"mod\u0065l":"a"}"#, vec!["a"]),
            (
                r#"{"requests" : [ {"model":"models/a"} , {"content":{"model":"no"},"model":"b"}]}"#,
                vec!["a", "b"],
            ),
            (
                r#"{"requests":[],"generateContentRequest":{"model":"c"}}"#,
                vec!["c"],
            ),
            (
                r#"{"requests":{"model":"no"},"contents":[{"model":"no"}]}"#,
                vec![],
            ),
            (r#"{"requests":[1,null,[{"model":"no"}]]}"#, vec![]),
        ] {
            assert_eq!(found(body), Ok(names), "{body}");
        }
    }

    #[test]
    fn names_in_another_case_or_given_twice_are_refused() {
        let other = |field| Err(LocateError::OtherCase { field });
        let twice = |field| Err(LocateError::Duplicate { field });
        for (body, expected) in [
            (r#"{"Model":"a"}"#, other("model")),
            (r#"{"model":"a","MODEL":"b"}"#, other("model")),
            (r#"{"model":"a","mod\u0065l":"b"}"#, twice("model")),
            (r#"{"Requests":[]}"#, other("requests")),
            ("{\"request\u{17f}\":[]}", other("requests")),
            (r#"{"requests":[],"requests":[]}"#, twice("requests")),
            (r#"{"requests":[{"modeL":"a"}]}"#, other("model")),
            (
                r#"{"requests":[{"model":"a"},{"model":"a","model":"b"}]}"#,
                twice("model"),
            ),
            (
                r#"{"generatecontentrequest":{}}"#,
                other("generateContentRequest"),
            ),
            (
                r#"{"generateContentRequest":{"Model":"a"}}"#,
                other("model"),
            ),
            (
                r#"{"generate_content_request":{"Model":"a"}}"#,
                other("model"),
            ),
        ] {
            assert_eq!(found(body), expected, "{body}");
        }
        for body in [
            r#"{"contents":[{"Model":"a"}],"requests":[{"content":{"Model":"a"}}]}"#,
            r#"{"Stream":true,"stream":false}"#,
        ] {
            assert_eq!(found(body), Ok(vec![]), "{body}");
        }
        let body = r#"{"generate_content_request":{"model":"models/a"}}"#;
        assert_eq!(found(body), Ok(vec!["a"]));
    }

    #[test]
    fn whatever_is_no_json_object_is_refused() {
        for body in [
            "",
            "[]",
            "{",
            "{} x",
            r#"{"requests":[}"#,
            r#"{"requests":[{"model":"a"]}"#,
            r#"{"requests":[{}{}]}"#,
            r#"{"model":"a",}"#,
            r#"{"model":1}"#,
            r#"{"model":""}"#,
        ] {
            assert!(found(body).is_err(), "{body}");
        }
        assert_eq!(
            model_names(b"{\"contents\":\"\xff\"}"),
            Err(LocateError::NotUtf8 { offset: 13 })
        );
        let deep = format!(r#"{{"requests":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
        assert!(matches!(found(&deep), Err(LocateError::TooDeep { .. })));
    }
}
