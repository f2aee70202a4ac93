//! The fast path against the full reader.

use super::*;
use crate::vendor::openai::read_chunk;
use FrameReading::{Content, Finish, Lifecycle};

/// Chunks whose parts are each as they should be or slightly off.
fn odd_chunk() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\"choices\":[",
        "\"choices\":null",
        "\"delta\":{",
        "\"delta\":null",
        "\"content\":\"a\"",
        "\"content\":\"\"",
        "\"role\":\"assistant\"",
        "\"text\":\"a\"",
        "\"text\":null",
        "\"finish_reason\":null",
        "\"finish_reason\":\"stop\"",
        "\"finish_reason\":\"length\"",
        "\"finish_reason\":\"error\"",
        "\"finish_reason\":1",
        "\"error\":null",
        "\"error\":{\"code\":1}",
        "\"id\":1",
    ]);
    let whole = (
        prop::collection::vec(
            prop::sample::select(vec![
                "\"role\":\"assistant\"",
                "\"content\":\"a\"",
                "\"content\":\"\"",
                "\"content\":null",
                "\"x\":[]",
                "\"x\":[1]",
            ]),
            0..3,
        ),
        prop::collection::vec(
            prop::sample::select(vec![
                "\"text\":\"a\"",
                "\"text\":\"\"",
                "\"finish_reason\":null",
                "\"finish_reason\":\"stop\"",
                "\"finish_reason\":\"tool_calls\"",
                "\"finish_reason\":\"error\"",
                "\"index\":0",
            ]),
            0..3,
        ),
        prop::collection::vec(
            prop::sample::select(vec![
                "\"error\":null",
                "\"error\":{}",
                "\"error\":\"x\"",
                "\"id\":\"c\"",
                "\"choices\":[]",
                "\"usage\":{\"a\":1}",
            ]),
            0..3,
        ),
        1usize..3,
    )
        .prop_map(|(delta, choice, top, choices)| {
            let choice = [
                vec![format!("\"delta\":{{{}}}", delta.join(","))],
                choice.iter().map(|it| (*it).to_owned()).collect(),
            ]
            .concat();
            let choice = format!("{{{}}}", choice.join(","));
            let choices = vec![choice; choices].join(",");
            let top = [
                vec![format!("\"choices\":[{choices}]")],
                top.iter().map(|it| (*it).to_owned()).collect(),
            ]
            .concat();
            format!("{{{}}}", top.join(", "))
        });
    prop_oneof![
        whole,
        prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
    ]
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4096))]

    #[test]
    fn what_a_glance_says_of_a_chunk_its_reader_says(data in odd_chunk()) {
        for operation in [Operation::Chat, Operation::Completions] {
            if let Some(reading) = chunk(operation, data.as_bytes()) {
                let full = read_chunk(operation, data.as_bytes());
                proptest::prop_assert_eq!(reading, full, "{}", data);
            }
        }
    }
}

#[test]
fn usual_chunks_are_told_at_a_glance() {
    for (stream, kind) in [
        (
            r#"{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            Lifecycle,
        ),
        (
            r#"{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}"#,
            Content,
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            Finish {
                natural: true,
                content: false,
            },
        ),
    ] {
        assert_eq!(chunk(Operation::Chat, stream.as_bytes()), Some(kind));
    }
}
