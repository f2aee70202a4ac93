//! Streams of the shapes the vendors send, frame by frame.

use bytes::Bytes;
use std::collections::BTreeMap;

use lanekeeper_model::gateway::ErrorMeaning;

use super::*;
use crate::sse::SseReader;
use crate::verdict::Disposition;

const NO_MAP: &BTreeMap<String, ErrorMeaning> = &BTreeMap::new();

fn rules(vendor: &'static dyn Vendor) -> Rules<'static> {
    Rules {
        vendor,
        error_map: NO_MAP,
        passthrough: false,
    }
}

fn frames(stream: &str) -> Vec<Frame> {
    let mut reader = SseReader::new();
    reader.push(Bytes::copy_from_slice(stream.as_bytes()));
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push(frame);
    }
    frames.extend(reader.finish());
    frames
}

fn classified(dialect: Dialect, stream: &str) -> Vec<FrameKind> {
    let rules = rules(dialect.vendor());
    frames(stream)
        .iter()
        .map(|frame| classify(rules, dialect, frame))
        .collect()
}

fn watched(dialect: Dialect, stream: &str) -> Vec<FrameKind> {
    let rules = rules(dialect.vendor());
    frames(stream)
        .iter()
        .map(|frame| watch(rules, dialect, frame))
        .collect()
}

use FrameKind::{Content, Error, Lifecycle, Ping};

const TERMINAL: FrameKind = FrameKind::Terminal { content: false };

const fn finish(natural: bool, content: bool) -> FrameKind {
    FrameKind::Finish { natural, content }
}

const OPENAI: &str = concat!(
    ": OPENROUTER PROCESSING\n\n",
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":0}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" \\\"error\\\" \"},\"finish_reason\": null}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n",
    "data: [DONE]\n\n",
);

/// Field report B51.
#[test]
fn an_openai_stream_is_held_until_its_first_content() {
    assert_eq!(
        classified(Dialect::OPENAI_CHAT, OPENAI),
        [
            Ping,
            Lifecycle,
            Lifecycle,
            Content,
            Content,
            finish(true, false),
            Lifecycle,
            TERMINAL
        ]
    );
    assert_eq!(
        watched(Dialect::OPENAI_CHAT, OPENAI).split_off(3),
        [Content, Content, finish(true, false), Lifecycle, TERMINAL]
    );
}

#[test]
fn everything_a_delta_can_carry_is_content() {
    for delta in [
        r#"{"content":"x"}"#,
        r#"{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":""}}]}"#,
        r#"{"refusal":"I cannot"}"#,
        r#"{"reasoning_content":"hm"}"#,
        r#"{"reasoning":"hm"}"#,
        r#"{"audio":{"id":"a"}}"#,
        r#"{"role":"assistant","content":"x"}"#,
    ] {
        let stream = format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
        assert_eq!(
            classified(Dialect::OPENAI_CHAT, &stream),
            [Content],
            "{delta}"
        );
    }
    for delta in [
        r#"{"role":"assistant"}"#,
        r#"{"role":"assistant","content":null}"#,
        r#"{"role":"assistant","content":"","tool_calls":[]}"#,
        "{}",
        "null",
    ] {
        let stream = format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
        assert_eq!(
            classified(Dialect::OPENAI_CHAT, &stream),
            [Lifecycle],
            "{delta}"
        );
    }
}

/// Field reports B48, B49: a stop without content says nothing; every other end is an answer.
#[test]
fn ends_are_told_apart() {
    for (reason, natural) in [
        ("stop", true),
        ("length", false),
        ("content_filter", false),
        ("tool_calls", false),
        ("function_call", false),
    ] {
        let stream = format!(
            "data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n"
        );
        assert_eq!(
            classified(Dialect::OPENAI_CHAT, &stream),
            [finish(natural, false)]
        );
        assert_eq!(
            watched(Dialect::OPENAI_CHAT, &stream),
            [finish(natural, false)]
        );
    }
    let both =
        "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(classified(Dialect::OPENAI_CHAT, both), [finish(true, true)]);
    let text = "data: {\"choices\":[{\"text\":\"x\",\"finish_reason\":null}]}\n\n";
    assert_eq!(classified(Dialect::OPENAI_COMPLETIONS, text), [Content]);
}

fn only_error(kinds: &[FrameKind]) -> &Verdict {
    match kinds {
        [Error(verdict)] => verdict,
        other => panic!("expected one error, found {other:?}"),
    }
}

/// Field reports B40, B44: an error is an error before and after content, in every line form.
#[test]
fn openai_errors_in_the_stream_are_seen() {
    let cases = [
        (
            "{\"error\":{\"code\":502,\"message\":\"x\"},\"choices\":[{\"finish_reason\":\"error\",\"delta\":{}}]}",
            Some(502),
        ),
        (
            "{\"error\":{\"message\":\"slow\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}",
            Some(429),
        ),
        ("{\"error\":\"busy\"}", Some(502)),
        (
            "{\"choices\":[{\"finish_reason\":\"error\",\"delta\":{}}]}",
            None,
        ),
        ("null", None),
        ("[]", None),
        ("upstream busy", None),
        ("{\"choices\":[{\"delta\":{\"content\":\"half", None),
    ];
    for (data, status) in cases {
        for stream in [
            format!("data: {data}\n\n"),
            format!("data:{data}\r\n\r\n"),
            format!("data: {data}\r\r"),
            format!("data: {data}"),
            format!("data: {data}\nevent: error\n\n"),
        ] {
            let kinds = classified(Dialect::OPENAI_CHAT, &stream);
            let verdict = only_error(&kinds);
            assert_eq!(verdict.disposition, Disposition::Transient, "{stream:?}");
            assert_eq!(verdict.status, status, "{stream:?}");
            if data.starts_with('{') {
                assert!(
                    matches!(watched(Dialect::OPENAI_CHAT, &stream)[..], [Error(_)]),
                    "{stream:?}"
                );
            }
        }
    }
    let fine = "data: {\"error\":null,\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n";
    assert_eq!(classified(Dialect::OPENAI_CHAT, fine), [Content]);
    assert_eq!(watched(Dialect::OPENAI_CHAT, fine), [Content]);
}

const ANTHROPIC: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"claude\",\"stop_reason\":null,\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello \\\"error\\\"\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\"\"}}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":15}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

#[test]
fn an_anthropic_stream_is_held_until_its_first_content() {
    let wanted = [
        Lifecycle,
        Lifecycle,
        Ping,
        Content,
        Lifecycle,
        Content,
        Content,
        finish(false, false),
        TERMINAL,
    ];
    assert_eq!(classified(Dialect::ANTHROPIC, ANTHROPIC), wanted);
    assert_eq!(watched(Dialect::ANTHROPIC, ANTHROPIC), wanted);
    // Some relays leave the event names out.
    let unnamed: String = ANTHROPIC
        .lines()
        .filter(|line| !line.starts_with("event:"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(classified(Dialect::ANTHROPIC, &unnamed), wanted);
    assert_eq!(watched(Dialect::ANTHROPIC, &unnamed), wanted);
}

#[test]
fn thinking_is_content_and_its_beginning_is_not() {
    let stream = concat!(
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\"}}\n\n",
        "data: {\"type\":\"some_future_event\"}\n\n",
    );
    assert_eq!(
        classified(Dialect::ANTHROPIC, stream),
        [
            Lifecycle,
            Content,
            finish(true, false),
            finish(false, false),
            Lifecycle
        ]
    );
}

/// Field reports B40, B52.
#[test]
fn anthropic_errors_in_the_stream_are_seen() {
    let rows = [
        (
            "overloaded_error",
            Disposition::Transient,
            CauseKind::Overloaded,
            529,
        ),
        (
            "rate_limit_error",
            Disposition::Transient,
            CauseKind::RateLimit,
            429,
        ),
        (
            "api_error",
            Disposition::Transient,
            CauseKind::ErrorFrame,
            500,
        ),
        (
            "timeout_error",
            Disposition::Transient,
            CauseKind::ErrorFrame,
            504,
        ),
        (
            "authentication_error",
            Disposition::HardDownAuth,
            CauseKind::Auth,
            401,
        ),
        (
            "permission_error",
            Disposition::HardDownAuth,
            CauseKind::Auth,
            403,
        ),
        (
            "billing_error",
            Disposition::HardDownBilling,
            CauseKind::Billing,
            402,
        ),
        (
            "invalid_request_error",
            Disposition::ClientFault,
            CauseKind::ErrorFrame,
            400,
        ),
        (
            "unheard_of",
            Disposition::Transient,
            CauseKind::ErrorFrame,
            502,
        ),
    ];
    for (kind, disposition, cause, status) in rows {
        let data =
            format!("{{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"m\"}}}}");
        for stream in [
            format!("event: error\ndata: {data}\n\n"),
            format!("data: {data}\r\nevent: error\r\n\r\n"),
            format!("data:{data}\n\n"),
        ] {
            for kinds in [
                classified(Dialect::ANTHROPIC, &stream),
                watched(Dialect::ANTHROPIC, &stream),
            ] {
                let verdict = only_error(&kinds);
                assert_eq!(verdict.disposition, disposition, "{stream:?}");
                assert_eq!((verdict.cause.kind, verdict.status), (cause, Some(status)));
            }
        }
    }
    for data in ["null", "[]", "<html>", "{}"] {
        let kinds = classified(Dialect::ANTHROPIC, &format!("data: {data}\n\n"));
        assert_eq!(
            only_error(&kinds).disposition,
            Disposition::Transient,
            "{data}"
        );
    }
}

/// Field reports B41, B42, B51.
#[test]
fn a_responses_stream_ends_and_fails_by_event() {
    let stream = concat!(
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"status\":\"in_progress\",\"error\":null}}\n\n",
        "event: response.in_progress\ndata: {\"type\":\"response.in_progress\"}\n\n",
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
    );
    assert_eq!(
        classified(Dialect::RESPONSES, stream),
        [Lifecycle, Lifecycle, Content, TERMINAL]
    );
    assert_eq!(
        watched(Dialect::RESPONSES, stream),
        [Lifecycle, Lifecycle, Content, TERMINAL]
    );
    for (stream, disposition) in [
        (
            "event: error\ndata: {\"type\":\"error\",\"code\":\"insufficient_quota\",\"message\":\"m\"}\n\n",
            Disposition::HardDownBilling,
        ),
        (
            "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"m\"}}}\n\n",
            Disposition::Transient,
        ),
    ] {
        for kinds in [
            classified(Dialect::RESPONSES, stream),
            watched(Dialect::RESPONSES, stream),
        ] {
            assert_eq!(only_error(&kinds).disposition, disposition);
        }
    }
}

/// Field reports B42, B48: a limit is an answer, and nothing said at all is none.
#[test]
fn closing_frames_tell_what_they_themselves_say() {
    let rows = [
        (
            Dialect::RESPONSES,
            r#"{"type":"response.incomplete","response":{"status":"incomplete","output":[]}}"#,
            true,
        ),
        (
            Dialect::RESPONSES,
            r#"{"type":"response.completed","response":{"output":[{"type":"function_call"}]}}"#,
            true,
        ),
        (
            Dialect::RESPONSES,
            r#"{"type":"response.completed","response":{"output":[{"type":"reasoning"}]}}"#,
            false,
        ),
        (
            Dialect::RESPONSES,
            r#"{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":""}]}]}}"#,
            false,
        ),
        (
            Dialect::COHERE,
            r#"{"type":"message-end","delta":{"finish_reason":"MAX_TOKENS"}}"#,
            true,
        ),
        (
            Dialect::COHERE,
            r#"{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}"#,
            false,
        ),
        (Dialect::COHERE, r#"{"type":"message-end"}"#, false),
    ];
    for (dialect, data, content) in rows {
        let stream = format!("data: {data}\n\n");
        let wanted = [FrameKind::Terminal { content }];
        assert_eq!(classified(dialect, &stream), wanted, "{data}");
        assert_eq!(watched(dialect, &stream), wanted, "{data}");
    }
}

/// Field reports B49, B51.
#[test]
fn a_gemini_stream_ends_with_its_finish_reason() {
    let stream = concat!(
        "data: {\"usageMetadata\":{\"promptTokenCount\":3}}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}],\"role\":\"model\"}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}],\"role\":\"model\"}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\"}}]},\"finishReason\":\"STOP\"}]}\n\n",
        "data: {\"candidates\":[{\"finishReason\":\"MAX_TOKENS\"}]}\n\n",
        "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n",
    );
    assert_eq!(
        classified(Dialect::GEMINI_STREAM, stream),
        [
            Lifecycle,
            Lifecycle,
            Content,
            finish(true, true),
            finish(false, false),
            finish(false, false)
        ]
    );
    let failed = "data: {\"error\":{\"code\":503,\"message\":\"overloaded\",\"status\":\"UNAVAILABLE\"}}\n\n";
    for kinds in [
        classified(Dialect::GEMINI_STREAM, failed),
        watched(Dialect::GEMINI_STREAM, failed),
    ] {
        assert_eq!(only_error(&kinds).status, Some(503));
    }
}

#[test]
fn a_cohere_stream_ends_and_fails_with_message_end() {
    let stream = concat!(
        "event: message-start\ndata: {\"id\":\"1\",\"type\":\"message-start\",\"delta\":{\"message\":{\"role\":\"assistant\"}}}\n\n",
        "event: content-start\ndata: {\"type\":\"content-start\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"type\":\"text\",\"text\":\"\"}}}}\n\n",
        "event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"Hi\"}}}}\n\n",
        "event: content-end\ndata: {\"type\":\"content-end\",\"index\":0}\n\n",
        "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\"}}\n\n",
    );
    let wanted = [Lifecycle, Lifecycle, Content, Lifecycle, TERMINAL];
    assert_eq!(classified(Dialect::COHERE, stream), wanted);
    assert_eq!(watched(Dialect::COHERE, stream), wanted);
    let failed = "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\"}}\n\n";
    for kinds in [
        classified(Dialect::COHERE, failed),
        watched(Dialect::COHERE, failed),
    ] {
        assert_eq!(only_error(&kinds).disposition, Disposition::Transient);
    }
}

proptest::proptest! {
    #[test]
    fn cut_streams_classify_the_same(cuts in proptest::collection::vec(0usize..5000, 0..6)) {
        for (dialect, stream) in [(Dialect::OPENAI_CHAT, OPENAI), (Dialect::ANTHROPIC, ANTHROPIC)] {
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
            ends.sort_unstable();
            ends.push(stream.len());
            let mut reader = SseReader::new();
            let mut kinds = Vec::new();
            let mut from = 0;
            for end in ends {
                reader.push(Bytes::copy_from_slice(&stream.as_bytes()[from..end]));
                from = end;
                while let Some(frame) = reader.next_frame().unwrap() {
                    kinds.push(classify(rules(dialect.vendor()), dialect, &frame));
                }
            }
            proptest::prop_assert_eq!(kinds, classified(dialect, stream));
        }
    }

    #[test]
    fn no_frame_panics(raw in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let frame = Frame { raw: [b"data: ".as_slice(), &raw].concat().into() };
        for dialect in [
            Dialect::OPENAI_CHAT, Dialect::ANTHROPIC, Dialect::RESPONSES, Dialect::GEMINI_STREAM, Dialect::COHERE,
        ] {
            let _ = classify(rules(dialect.vendor()), dialect, &frame);
            let _ = watch(rules(dialect.vendor()), dialect, &frame);
        }
    }
}

/// One dialect's frames, each whole: a piece of text, the end of a good answer, and an end that
/// belongs to another dialect.
struct Shapes {
    dialect: Dialect,
    content: &'static str,
    end: &'static str,
    foreign_end: &'static str,
}

const MESSAGE_STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

const SHAPES: [Shapes; 5] = [
    Shapes {
        dialect: Dialect::OPENAI_CHAT,
        content: "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n",
        end: "data: [DONE]\n\n",
        foreign_end: MESSAGE_STOP,
    },
    Shapes {
        dialect: Dialect::ANTHROPIC,
        content: "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"a\"}}\n\n",
        end: MESSAGE_STOP,
        foreign_end: "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\"}}\n\n",
    },
    Shapes {
        dialect: Dialect::RESPONSES,
        content: "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n",
        end: "data: {\"type\":\"response.completed\",\"response\":{\"output\":[]}}\n\n",
        foreign_end: MESSAGE_STOP,
    },
    Shapes {
        dialect: Dialect::GEMINI_STREAM,
        content: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n",
        end: "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n",
        foreign_end: MESSAGE_STOP,
    },
    Shapes {
        dialect: Dialect::COHERE,
        content: "data: {\"type\":\"content-delta\",\"delta\":{\"message\":{\"content\":{\"text\":\"a\"}}}}\n\n",
        end: "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\"}}\n\n",
        foreign_end: MESSAGE_STOP,
    },
];

/// What a row of the table expects of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    Ping,
    Lifecycle,
    Content,
    /// The end of the answer.
    End,
    /// The lane's own error.
    Told,
    /// No error that the lane told, but one all the same, of this kind.
    Broken(CauseKind),
}

fn is_as_wanted(kind: &FrameKind, wanted: Wanted) -> bool {
    match (wanted, kind) {
        (Wanted::Ping, Ping)
        | (Wanted::Lifecycle, Lifecycle)
        | (Wanted::Content, Content)
        | (Wanted::End, FrameKind::Finish { .. } | FrameKind::Terminal { .. }) => true,
        (Wanted::Told, Error(verdict)) => verdict.status.is_some(),
        (Wanted::Broken(cause), Error(verdict)) => {
            verdict.status.is_none() && verdict.cause.kind == cause
        }
        _ => false,
    }
}

/// Frames that no dialect may judge in a way of its own.
#[test]
fn dialects_agree_about_what_is_nobodys_frame() {
    use CauseKind::{BadBody, ErrorFrame, Truncated};
    let rows = [
        (": ping\n\n", Wanted::Ping),
        (": ping\r\n: pong\r\n\r\n", Wanted::Ping),
        ("event: ping\n\n", Wanted::Ping),
        ("id: 7\nretry: 5\n\n", Wanted::Ping),
        ("event: error\n\n", Wanted::Ping),
        ("event: ping\ndata: {\"type\":\"ping\"}\n\n", Wanted::Ping),
        (
            "event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n",
            Wanted::Ping,
        ),
        (
            "event: some.future\ndata: {\"type\":\"some.future\"}\n\n",
            Wanted::Lifecycle,
        ),
        ("data: {\"type\":\"some-future\"}\n\n", Wanted::Lifecycle),
        ("data:\n\n", Wanted::Broken(BadBody)),
        ("data: \r\n\r\n", Wanted::Broken(BadBody)),
        ("data: {not json\n\n", Wanted::Broken(BadBody)),
        ("data: {not json}\n\n", Wanted::Broken(BadBody)),
        ("data: <html>\n\n", Wanted::Broken(BadBody)),
        ("data: null\n\n", Wanted::Broken(ErrorFrame)),
        ("data: []\n\n", Wanted::Broken(ErrorFrame)),
        (
            "data: [null,null,null,null]\n\n",
            Wanted::Broken(ErrorFrame),
        ),
        ("event: error\ndata: boom\n\n", Wanted::Broken(BadBody)),
        ("event: error\ndata: [DONE]\n\n", Wanted::Broken(BadBody)),
        (
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n",
            Wanted::Told,
        ),
        (
            "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n",
            Wanted::Told,
        ),
        (
            "data: {\"error\":{\"message\":\"m\",\"code\":500}}\nevent: some.future\n\n",
            Wanted::Told,
        ),
        (
            "data: {\"error\":{\"message\":\"m\",\"code\":500}}\n\n",
            Wanted::Told,
        ),
        ("event: error\ndata: {\"message\":\"m\"}\n\n", Wanted::Told),
    ];
    for shapes in SHAPES {
        let dialect = shapes.dialect;
        let done = if dialect == Dialect::OPENAI_CHAT {
            Wanted::End
        } else {
            Wanted::Broken(Truncated)
        };
        // Half a frame that a cut left behind, whatever its beginning says.
        let half = &shapes.content[..shapes.content.find("\"a\"").unwrap() + 2];
        let own = [
            ("data: [DONE]\n\n", done),
            (shapes.foreign_end, Wanted::Lifecycle),
            (shapes.end, Wanted::End),
            (shapes.content, Wanted::Content),
            (half, Wanted::Broken(BadBody)),
        ];
        for (stream, wanted) in rows.into_iter().chain(own) {
            let judged = [
                ("before", classified(dialect, stream)),
                ("after", watched(dialect, stream)),
            ];
            for (when, kinds) in judged {
                assert!(
                    matches!(&kinds[..], [kind] if is_as_wanted(kind, wanted)),
                    "{dialect:?} {when} content: {stream:?} is {kinds:?}, not {wanted:?}"
                );
            }
            if !stream.ends_with('\n') {
                continue;
            }
            let plain = format!("{}{stream}{}", shapes.content, shapes.content);
            let run = plain_run(dialect.vendor(), plain.as_bytes());
            let passed = if stream == shapes.content {
                plain.len()
            } else {
                shapes.content.len()
            };
            assert!(run <= passed, "{dialect:?}: {stream:?} passes unread");
        }
        let text = shapes.content.repeat(3);
        assert_eq!(
            plain_run(dialect.vendor(), text.as_bytes()),
            text.len(),
            "{dialect:?}: text passes unread"
        );
    }
}

/// Streams of the usual frames and of all that could be taken for one.
fn odd_stream() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let piece = prop::sample::select(vec![
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\": null}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"b \\\\n\"},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"error\"},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"\\\\\"finish_reason\"},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"\\\\\"error\\\\\"\"},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\",\"finish_reason\":null}]}\n\n",
        "data: {\"content\":\"",
        "finish_reason\":\"x\",\"finish_reason\":null}\n\n",
        "error\":{},\"finish_reason\":null}\n\n",
        "a\\",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{}}\n\n",
        "data: {\"type\":\"response.output_text.delta\"}\n\n",
        "data: {\"type\":\"content-delta\"}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}]}\n\n",
        "data: {\"candidates\":",
        "data: {not json}\n\n",
        "data:\n\n",
        "data: [DONE]\n\n",
        ": ping\n\n",
        "event: error\n",
        "event: ping\n",
        "event: x\n",
        "event: \"finish_reason\":null\n",
        "id: 1\n",
        "data: ",
        "data:{\"finish_reason\":null}",
        "\"finish_reason\"",
        "\"finish_reason\":",
        "\"error\"",
        "\"finishReason\"",
        "\"blockReason\"",
        "null",
        "{\"type\":\"message_stop\"}",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\u{feff}",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

const STREAMED: [Dialect; 5] = [
    Dialect::OPENAI_CHAT,
    Dialect::ANTHROPIC,
    Dialect::RESPONSES,
    Dialect::GEMINI_STREAM,
    Dialect::COHERE,
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4096))]

    #[test]
    fn run_of_plain_frames_is_what_watching_each_says(stream in odd_stream()) {
        for dialect in STREAMED {
            let run = plain_run(dialect.vendor(), stream.as_bytes());
            let (plain, _) = stream.split_at(run);
            let mut reader = SseReader::new();
            reader.push(Bytes::copy_from_slice(plain.as_bytes()));
            let mut whole = 0;
            while let Some(frame) = reader.next_frame().unwrap() {
                whole += frame.raw.len();
                let kind = watch(rules(dialect.vendor()), dialect, &frame);
                proptest::prop_assert_eq!(kind, Content, "{:?} of {:?}", frame, stream);
            }
            proptest::prop_assert_eq!(whole, run, "{}", stream);
        }
    }

    /// Whoever passes runs unread judges the rest as whoever reads every frame.
    #[test]
    fn skipping_runs_changes_no_judgement(
        stream in odd_stream(),
        cuts in proptest::collection::vec(0usize..5000, 0..4),
    ) {
        let bytes = stream.as_bytes();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        ends.sort_unstable();
        ends.push(bytes.len());
        for dialect in STREAMED {
            let rules = rules(dialect.vendor());
            let (mut plain, mut quick) = (Vec::new(), Vec::new());
            for (kinds, skips) in [(&mut plain, false), (&mut quick, true)] {
                let mut reader = SseReader::new();
                let mut out = std::collections::VecDeque::new();
                let mut from = 0;
                for &end in &ends {
                    reader.push(Bytes::copy_from_slice(&bytes[from..end]));
                    from = end;
                    loop {
                        let run = plain_run(dialect.vendor(), reader.ahead());
                        if skips && run > 0 {
                            reader.keep_ahead(run);
                        }
                        let Some(frame) = reader.next_frame().unwrap() else {
                            break;
                        };
                        kinds.push(watch(rules, dialect, &frame));
                        reader.keep();
                    }
                    reader.hand_out(&mut out);
                }
                if let Some(frame) = reader.finish() {
                    kinds.push(watch(rules, dialect, &frame));
                    reader.keep();
                }
                reader.hand_out(&mut out);
                proptest::prop_assert_eq!(Vec::from(out).concat(), bytes);
                kinds.retain(|kind| *kind != Content);
            }
            proptest::prop_assert_eq!(plain, quick, "{}", stream);
        }
    }
}

#[test]
fn frames_of_text_pass_in_one_run() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n";
    let stream = format!("{text}{text}{text}data: [DONE]\n\n");
    assert_eq!(
        plain_run(Dialect::OPENAI_CHAT.vendor(), stream.as_bytes()),
        3 * text.len()
    );
    let part = &stream[..2 * text.len() + 9];
    assert_eq!(
        plain_run(Dialect::OPENAI_CHAT.vendor(), part.as_bytes()),
        2 * text.len()
    );
    let text = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\"}\n\n";
    let stream = format!("{text}{text}event: ping\ndata: {{\"type\": \"ping\"}}\n\n");
    assert_eq!(
        plain_run(Dialect::ANTHROPIC.vendor(), stream.as_bytes()),
        2 * text.len()
    );
}

/// Ends and errors that the usual look of a plain frame would hide.
#[test]
fn watching_misses_no_end_and_no_error_that_stands_in_an_odd_place() {
    let cases = [
        (
            Dialect::OPENAI_CHAT,
            r#"data: {"choices":[{"finish_reason":null},{"finish_reason":"stop"}]}"#,
        ),
        (
            Dialect::OPENAI_CHAT,
            r#"data: {"choices":[{"finish_reason":"stop","x":{"finish_reason":null}}]}"#,
        ),
        (
            Dialect::OPENAI_CHAT,
            r#"data: {"choices":[{"finish_reason" : "stop"}],"x":{"finish_reason":null}}"#,
        ),
        (
            Dialect::OPENAI_CHAT,
            "event: error\ndata: {\"choices\":[{\"finish_reason\":null}]}",
        ),
        (
            Dialect::OPENAI_CHAT,
            "data: {\"choices\":[{\"finish_reason\":null}]}\nevent: error",
        ),
        (
            Dialect::ANTHROPIC,
            r#"data: {"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"content_block_delta"}}"#,
        ),
        (
            Dialect::ANTHROPIC,
            "event: error\ndata: {\"type\":\"content_block_delta\"}",
        ),
        (
            Dialect::RESPONSES,
            r#"data: {"type":"response.completed","response":{"metadata":{"k.delta":"x"}}}"#,
        ),
        (
            Dialect::GEMINI_STREAM,
            r#"data: {"promptFeedback":{"blockReason":"SAFETY"}}"#,
        ),
        (
            Dialect::COHERE,
            r#"data: {"type":"message-end","delta":{"finish_reason":"COMPLETE","tool":"content-delta"}}"#,
        ),
    ];
    for (dialect, text) in cases {
        let rules = rules(dialect.vendor());
        let frame = Frame {
            raw: format!("{text}\n\n").into(),
        };
        let full = classify(rules, dialect, &frame);
        assert!(
            matches!(
                full,
                Error(_) | FrameKind::Finish { .. } | FrameKind::Terminal { .. }
            ),
            "{text}: {full:?}"
        );
        assert_eq!(watch(rules, dialect, &frame), full, "{text}");
    }
}
