//! Takes off a request what translations of earlier turns put there, before a lane of the caller's
//! own protocol sees it: the one exception to "bytes pass".

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

use super::ids::{self, ENCODED_MARK, MARK};
use crate::json::fields::Fields;

/// Documents nested deeper than this are left as they are: the parser refuses them as well.
const DEPTH_MAX: usize = 128;

/// `body` without proofs of other vendors: they are cut off ids, and thoughts that only they prove
/// are left out. Whatever holds none keeps its bytes, which one search finds out.
#[must_use]
pub fn taken_off(body: &Bytes) -> Bytes {
    if !holds_mark(body) {
        return body.clone();
    }
    let Ok(document) = serde_json::from_slice::<&RawValue>(body) else {
        return body.clone();
    };
    let mut cleaned = String::with_capacity(body.len());
    write(document, &mut cleaned, DEPTH_MAX);
    cleaned.into()
}

fn holds_mark(text: &[u8]) -> bool {
    [MARK, ENCODED_MARK]
        .iter()
        .any(|mark| memmem::find(text, mark.as_bytes()).is_some())
}

/// Appends `value` without proofs.
fn write(value: &RawValue, out: &mut String, depth: usize) {
    let text = value.get();
    let holds = holds_mark(text.as_bytes());
    let Some(depth) = depth.checked_sub(1).filter(|_| holds) else {
        out.push_str(text);
        return;
    };
    match text.as_bytes().first() {
        Some(b'{') => write_object(text, out, depth),
        Some(b'[') => write_array(text, out, depth),
        _ => write_text(text, out),
    }
}

fn write_object(text: &str, out: &mut String, depth: usize) {
    let Ok(fields) = serde_json::from_str::<Fields<'_>>(text) else {
        out.push_str(text);
        return;
    };
    let mut separator = "{";
    for (name, value) in fields.iter() {
        if is_proof(name) && holds_proof(value) {
            continue;
        }
        out.push_str(separator);
        out.push_str(&quoted(name));
        out.push(':');
        write(value, out, depth);
        separator = ",";
    }
    out.push_str(if separator == "{" { "{}" } else { "}" });
}

fn write_array(text: &str, out: &mut String, depth: usize) {
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(text) else {
        out.push_str(text);
        return;
    };
    let mut separator = "[";
    for item in items.into_iter().filter(|item| !is_proved_thought(item)) {
        out.push_str(separator);
        write(item, out, depth);
        separator = ",";
    }
    out.push_str(if separator == "[" { "[]" } else { "]" });
}

fn write_text(text: &str, out: &mut String) {
    match serde_json::from_str::<Cow<'_, str>>(text) {
        Ok(id) if ids::parted(&id).1.is_some() => out.push_str(&quoted(ids::parted(&id).0)),
        _ => out.push_str(text),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Members in which dialects carry proofs.
fn is_proof(name: &str) -> bool {
    matches!(
        name,
        "signature" | "encrypted_content" | "thoughtSignature" | "thought_signature" | "data"
    )
}

fn holds_proof(value: &RawValue) -> bool {
    let text = serde_json::from_str::<Cow<'_, str>>(value.get());
    text.is_ok_and(|text| ids::is_marked(&text) || text.starts_with(ENCODED_MARK))
}

/// A thought that another vendor proves: without its proof it is of no use to anybody.
fn is_proved_thought(item: &RawValue) -> bool {
    let Ok(fields) = serde_json::from_str::<Fields<'_>>(item.get()) else {
        return false;
    };
    let kind = fields.get("type").map(RawValue::get);
    matches!(
        kind,
        Some("\"thinking\"" | "\"redacted_thinking\"" | "\"reasoning\"")
    ) && fields
        .iter()
        .any(|(name, value)| is_proof(name) && holds_proof(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Proof;
    use lanekeeper_model::gateway::Protocol;
    use serde_json::{Value, json};

    #[test]
    fn a_lane_of_the_callers_protocol_sees_nothing_that_a_translation_wrote() {
        let proof = ids::seal(&Proof {
            protocol: Protocol::Gemini,
            text: "c2lnLTE=".into(),
            is_redacted: false,
        });
        let id = format!("toolu_1_{proof}");
        let body = json!({"model": "m", "messages": [
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "plan", "signature": proof},
                {"type": "redacted_thinking", "data": proof},
                {"type": "thinking", "thinking": "plan", "signature": ids::signature(None)},
                {"type": "thinking", "thinking": "own", "signature": "ErUB"},
                {"type": "tool_use", "id": id, "name": "f", "input": {}},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id}]},
        ]});
        let expected = json!({"model": "m", "messages": [
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "own", "signature": "ErUB"},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]},
        ]});
        let cleaned = taken_off(&body.to_string().into());
        let cleaned: Value = serde_json::from_slice(&cleaned).expect("JSON");
        assert_eq!(cleaned, expected);
        let digits = format!("{{\"z\": {{\"n\":  1.50}},\"id\":\"{id}\",\"a\":1e400}}");
        let kept = "{\"z\":{\"n\":  1.50},\"id\":\"toolu_1\",\"a\":1e400}";
        assert_eq!(taken_off(&digits.into()), kept);
    }

    #[test]
    fn every_other_body_keeps_its_bytes() {
        for body in [
            "{\"b\": 1.50, \"a\":1e2}",
            "",
            "lkproof1",
            "{\"x\": \"lkproof1\"",
        ] {
            assert_eq!(taken_off(&Bytes::from_static(body.as_bytes())), body);
        }
    }
}
