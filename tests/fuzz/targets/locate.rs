//! The locator and a full JSON parser see the same request, before and after the name is changed.

#![no_main]

use bytes::Bytes;
use lanekeeper_protocol::locate::{LocateError, locate};
use lanekeeper_protocol::rewrite::BodyChain;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    let parsed = serde_json::from_slice::<Value>(body);
    match locate(body) {
        Ok(located) => {
            if let Ok(value) = &parsed {
                assert_eq!(value["model"], Value::from(&*located.model_name));
                assert_eq!(value["stream"] == Value::Bool(true), located.stream);
            }
            let chain = BodyChain::with_model(
                &Bytes::copy_from_slice(body),
                located.model.clone(),
                "other \"name\"\n",
            );
            let expected = body.len() - located.model.len() + r#"other \"name\"\n"#.len();
            assert_eq!(chain.len(), expected as u64);
        }
        Err(
            LocateError::Malformed { .. }
            | LocateError::Truncated { .. }
            | LocateError::TrailingData { .. }
            | LocateError::Empty,
        ) => assert!(parsed.is_err(), "a parser takes what the locator refuses"),
        Err(_) => {}
    }
});
