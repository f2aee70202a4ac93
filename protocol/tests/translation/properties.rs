//! What holds of every answer in every dialect: a stream says what the whole answer says, however it
//! is cut.

use std::borrow::Cow;

use lanekeeper_protocol::Protocol;
use lanekeeper_protocol::ir::{
    Answer, Arguments, Event, Finish, Part, PartBody, PartStart, Reasoning, ToolCall, Usage,
};
use lanekeeper_protocol::translation::CallerFacts;
use proptest::prelude::*;

use crate::harness::{Folded, facts, frames_of, normal, translator};

const DIALECTS: &[Protocol] = &[
    Protocol::Openai,
    Protocol::Responses,
    Protocol::Anthropic,
    Protocol::Gemini,
    Protocol::Cohere,
];

/// Text with everything that JSON escapes.
fn text() -> impl Strategy<Value = String> {
    "[ab\"\\\\\n\u{2028}ö\u{1F600}]{1,12}"
}

fn part() -> impl Strategy<Value = PartBody<'static>> {
    prop_oneof![
        text().prop_map(|text| PartBody::Text(text.into())),
        text().prop_map(|text| PartBody::Reasoning(Reasoning {
            text: text.into(),
            proof: None,
        })),
        ("[a-z_]{1,8}", prop::option::of(text())).prop_map(|(name, value)| {
            let arguments = match value {
                Some(value) => serde_json::json!({"v": value, "n": 1.5}).to_string(),
                None => String::new(),
            };
            PartBody::ToolCall(ToolCall {
                id: "call_".into(),
                name: name.into(),
                arguments: Arguments(arguments.into()),
                proof: None,
                is_custom: false,
            })
        }),
    ]
}

fn answer() -> impl Strategy<Value = Answer<'static>> {
    let usage = (0..1000_u64, 0..1000_u64).prop_map(|(input, output)| Usage {
        input,
        output,
        cache_read: Some(input / 2),
        cache_write: None,
        reasoning: Some(output / 2),
    });
    let finish = prop_oneof![
        Just(Finish::Stop),
        Just(Finish::Length),
        Just(Finish::Filter)
    ];
    (prop::collection::vec(part(), 0..6), finish, usage).prop_map(|(bodies, finish, usage)| {
        let mut parts: Vec<_> = bodies.into_iter().map(Part::unplaced).collect();
        for (number, part) in parts.iter_mut().enumerate() {
            if let PartBody::ToolCall(call) = &mut part.body {
                call.id = Cow::Owned(format!("call_{number}"));
            }
        }
        Answer {
            id: "id1".into(),
            model: "m".into(),
            parts,
            finish,
            usage: Some(usage),
        }
    })
}

/// The events of an answer, its texts cut into pieces of `size` characters.
fn events(answer: &Answer<'static>, size: usize) -> Vec<Event<'static>> {
    let mut events = vec![Event::Start {
        id: answer.id.clone(),
        model: answer.model.clone(),
    }];
    for (number, part) in answer.parts.iter().enumerate() {
        let (start, text) = match &part.body {
            PartBody::Text(text) => (PartStart::Text, text),
            PartBody::Reasoning(own) => (PartStart::Reasoning, &own.text),
            PartBody::ToolCall(call) => {
                let (id, name) = (call.id.clone(), call.name.clone());
                let start = PartStart::ToolCall {
                    id,
                    name,
                    proof: None,
                };
                (start, &call.arguments.0)
            }
            other => panic!("{other:?}"),
        };
        events.push(Event::PartStart {
            part: number,
            start,
        });
        let letters: Vec<char> = text.chars().collect();
        events.extend(letters.chunks(size).map(|piece| Event::Piece {
            part: number,
            text: piece.iter().collect::<String>().into(),
        }));
        events.push(Event::PartEnd { part: number });
    }
    events.extend(answer.usage.map(Event::Usage));
    events.push(Event::Finish(answer.finish.clone()));
    events.push(Event::End);
    events
}

fn streamed(protocol: Protocol, events: Vec<Event<'static>>) -> String {
    let caller = CallerFacts {
        stream_usage: true,
        ..facts()
    };
    let mut writer = translator(protocol).stream_writer(&caller);
    let mut out = Vec::new();
    for event in events {
        writer.write(event, &mut out).expect("short");
    }
    String::from_utf8(out).expect("text")
}

/// In the dialect's order: the whole answers of some say thoughts first, then text, then calls.
fn sorted(mut lines: Vec<String>, protocol: Protocol) -> Vec<String> {
    if protocol == Protocol::Responses {
        return lines;
    }
    let end = lines.pop();
    let mut sorted = Vec::new();
    for kind in ["thought ", "text "] {
        let said: String = { lines.iter() }
            .filter_map(|line| line.strip_prefix(kind))
            .map(|text| text.strip_suffix(" None").unwrap_or(text))
            .map(|text| text.split(" Some((").next().unwrap_or_default())
            .collect();
        sorted.extend((!said.is_empty()).then(|| format!("{kind}{said}")));
    }
    lines.retain(|line| line.starts_with("call "));
    sorted.extend(lines);
    sorted.extend(end);
    sorted
}

proptest! {
    #[test]
    fn a_stream_says_what_the_whole_answer_says(answer in answer(), size in 1..6_usize) {
        for protocol in DIALECTS.iter().copied() {
            let whole = translator(protocol).write_answer(&answer, &facts());
            let whole = translator(protocol).read_answer(&whole).expect("an answer");
            let text = streamed(protocol, events(&answer, size));
            let mut reader = translator(protocol).stream_reader();
            let folded = Folded::read(reader.as_mut(), frames_of(&text).map(|(_, data)| data));
            prop_assert_eq!(&folded.id, &whole.id);
            prop_assert_eq!(&folded.model, &whole.model);
            prop_assert_eq!(
                sorted(normal(folded), protocol),
                sorted(normal(whole), protocol)
            );
        }
    }

    #[test]
    fn readers_take_anything(
        body in "[\\[\\]{}\",:a-z0-9\\\\]{0,60}",
        key in "choices|delta|type|output|item|message|content|tool_calls|usage|messages|input|tools",
        value in prop_oneof![
            Just("null"), Just("[]"), Just("{}"), Just("1"), Just("\"x\""), Just("[null]"),
            Just("[{}]"), Just("[[]]"), Just("[1]"), Just("{\"content\":[{}]}"), Just("-1"), Just("1e99"),
        ],
    ) {
        for protocol in DIALECTS.iter().copied() {
            for text in [body.clone(), format!("{{\"{key}\":{value}}}")] {
                let translator = translator(protocol);
                let _ = translator.read_request(text.as_bytes(), false);
                let _ = translator.read_answer(text.as_bytes());
                let mut reader = translator.stream_reader();
                let _ = reader.read(None, text.as_bytes(), &mut |_| {});
                reader.end(&mut |_| {});
            }
        }
    }
}
