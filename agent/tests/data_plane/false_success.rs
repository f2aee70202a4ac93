//! Status 200 is no success by itself: what the body says decides, in every protocol.

use crate::caller::chat;
use crate::dialects::{ALL, ANTHROPIC, Dialect, GEMINI, OPENAI, RESPONSES, cut, ended};
use crate::gateway::{Agent, Document};
use crate::upstream::{
    DONE, FINISH, ROLE, Script, Step, Upstream, answer, completion, json, stream,
};

/// The cell of the pool and this lane has seen these successes and failures.
fn counted(agent: &Agent, lane: &str, ok: u64, failed: u64, case: &str) {
    let cell = agent.cell("chat", lane);
    assert_eq!(
        (&cell["window"]["ok"], &cell["window"]["failed"]),
        (&ok.into(), &failed.into()),
        "{case}: {cell}"
    );
}

async fn two(dialect: &Dialect, a: Script, b: &Upstream) -> (Upstream, Agent) {
    let a = Upstream::start(a).await;
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_requests: 100")
        .lane("b", b);
    let agent = dialect.agent(&document).await;
    (a, agent)
}

/// Field reports B40, B41, B52: nothing has reached the caller before the first content.
#[tokio::test]
async fn error_before_content_goes_to_the_sibling_and_is_refunded() {
    for dialect in ALL {
        for frames in [vec![dialect.error], vec![dialect.lifecycle, dialect.error]] {
            let case = format!("{} {}", dialect.protocol, frames.len());
            let b = dialect.good_stream().await;
            let (a, agent) = two(dialect, ended(&frames), &b).await;
            let got = dialect.ask(true).send(agent.address).await;
            assert_eq!((got.status.as_u16(), got.whole), (200, true), "{case}");
            let expected = [dialect.lifecycle, dialect.content, dialect.end].concat();
            assert_eq!(got.body, expected, "{case}: only the sibling's frames");
            agent.settles().await;
            assert_eq!((a.hits(), b.hits()), (1, 1), "{case}");
            assert_eq!(agent.lane("a")["requests_spent"], 0, "{case}: refunded");
            counted(&agent, "a", 0, 1, &case);
            counted(&agent, "b", 1, 0, &case);
        }
    }
}

/// Field report B41: lifecycle events commit to nothing, and the account without money is out at
/// once.
#[tokio::test]
async fn quota_error_behind_lifecycle_events_is_a_hard_down_and_never_shown() {
    for error in [
        "event: error\ndata: {\"type\":\"error\",\"code\":\"insufficient_quota\",\"message\":\"pay your bill\"}\n\n",
        "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"insufficient_quota\",\"message\":\"pay your bill\"}}}\n\n",
    ] {
        let b = RESPONSES.good_stream().await;
        let (_a, agent) = two(&RESPONSES, ended(&[RESPONSES.lifecycle, error]), &b).await;
        let got = RESPONSES.ask(true).send(agent.address).await;
        assert!(got.whole && !got.body.contains("bill"), "{got:?}");
        agent.settles().await;
        let cell = agent.cell("chat", "a");
        assert_eq!(
            (&cell["state"], &cell["cause"]["kind"]),
            (&"open".into(), &"billing".into())
        );
        assert!(cell["cooldown_remaining_s"].as_f64().unwrap() > 1500.0);
    }
}

/// Field reports B40, B42, B44, B53: after content the caller gets one error in its own dialect,
/// and the frames of a good end behind it count for nothing.
#[tokio::test]
async fn error_after_content_ends_the_answer_in_the_callers_dialect() {
    for dialect in ALL {
        let b = dialect.good_stream().await;
        let frames = [
            dialect.lifecycle,
            dialect.content,
            dialect.content,
            dialect.error,
            dialect.end,
        ];
        let (_a, agent) = two(dialect, ended(&frames), &b).await;
        let got = dialect.ask(true).send(agent.address).await;
        let case = dialect.protocol;
        assert_eq!(
            (got.status.as_u16(), got.whole),
            (200, false),
            "{case}: {got:?}"
        );
        let error = got
            .body
            .strip_prefix(&frames[..3].concat())
            .unwrap_or_else(|| panic!("{case}: {got:?}"));
        assert!(error.starts_with(dialect.error_event), "{case}: {error}");
        assert_eq!(error.matches("data: ").count(), 1, "{case}: {error}");
        assert!(
            error.to_lowercase().contains("overloaded"),
            "{case}: {error}"
        );
        agent.settles().await;
        assert_eq!(b.hits(), 0, "{case}: no hop after content");
        counted(&agent, "a", 0, 1, case);
        assert_eq!(agent.lane("a")["requests_spent"], 1, "{case}: delivered");
    }
}

/// A package that reads events finds none in a document: its stream would be over without a word
/// and without an error. What the document says of an error is heard all the same.
#[tokio::test]
async fn document_for_a_call_that_wants_a_stream_is_no_answer() {
    for dialect in ALL {
        let long = dialect.whole.replace("hello", &"x".repeat(400 * 1024));
        for (document, kind) in [(dialect.whole, "bad_body"), (long.as_str(), "bad_body")] {
            let b = dialect.good_stream().await;
            let (a, agent) = two(dialect, json(200, document), &b).await;
            let got = dialect.ask(true).send(agent.address).await;
            let case = dialect.protocol;
            let expected = [dialect.lifecycle, dialect.content, dialect.end].concat();
            assert_eq!((got.body, got.whole), (expected, true), "{case}");
            agent.settles().await;
            assert_eq!((a.hits(), b.hits()), (1, 1), "{case}");
            assert_eq!(agent.cell("chat", "a")["cause"]["kind"], kind, "{case}");
            assert_eq!(agent.lane("a")["requests_spent"], 0, "{case}: refunded");
            counted(&agent, "a", 0, 1, case);
        }
    }
    let quota = r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#;
    let b = OPENAI.good_stream().await;
    let (_a, agent) = two(&OPENAI, json(200, quota), &b).await;
    let got = OPENAI.ask(true).send(agent.address).await;
    assert!(
        got.whole && got.header("x-lanekeeper-lane") == Some("b"),
        "{got:?}"
    );
    assert_eq!(agent.cell("chat", "a")["cause"]["kind"], "billing");
}

/// Operations without streams pay no heed to the wish for one.
#[tokio::test]
async fn document_is_an_answer_where_there_are_no_streams() {
    let embeddings = r#"{"object":"list","data":[{"embedding":[0.5]}]}"#;
    let a = Upstream::start(json(200, embeddings)).await;
    let agent = OPENAI.agent(&Document::new().lane("a", &a)).await;
    let ask = chat("chat", true).at("/v1/embeddings");
    let got = ask.send(agent.address).await;
    assert_eq!((got.status.as_u16(), got.body.as_str()), (200, embeddings));
    counted(&agent, "a", 1, 0, "embeddings");
}

/// Field reports B53, B51: a connection that is gone ends in an error the caller's client
/// understands.
#[tokio::test]
async fn cut_after_content_is_told_in_the_callers_dialect() {
    for dialect in ALL {
        let b = dialect.good_stream().await;
        let frames = [dialect.lifecycle, dialect.content];
        for (way, script) in [("cut", cut(&frames)), ("clean", ended(&frames))] {
            let case = format!("{} {way}", dialect.protocol);
            let (a, agent) = two(dialect, script, &b).await;
            let got = dialect.ask(true).send(agent.address).await;
            assert!(!got.whole, "{case}: {got:?}");
            let error = got
                .body
                .strip_prefix(&frames.concat())
                .unwrap_or_else(|| panic!("{case}: {got:?}"));
            assert!(error.starts_with(dialect.error_event), "{case}: {error}");
            assert_eq!(error.matches("data: ").count(), 1, "{case}: {error}");
            assert!(
                !error.contains(&a.address.to_string()) && !error.contains("p-a"),
                "{case}: {error}"
            );
            agent.settles().await;
            counted(&agent, "a", 0, 1, &case);
        }
    }
}

/// Field reports B51, and the opposite of B42: each protocol has an end of its own, with or without
/// `[DONE]`, and a full answer is one too when the length limit ended it.
#[tokio::test]
async fn each_protocols_own_end_is_a_success() {
    const UNCLOSED: &str = FINISH;
    for dialect in ALL {
        let content = [dialect.lifecycle, dialect.content];
        let mut ends = vec![
            vec![content[0], content[1], dialect.end],
            vec![content[0], content[1], dialect.capped_end],
            vec![content[0], dialect.capped_end],
        ];
        if dialect.protocol == OPENAI.protocol {
            ends.push(vec![content[0], content[1], UNCLOSED]);
        }
        for frames in ends {
            let case = format!("{} {:?}", dialect.protocol, frames.last());
            let b = dialect.good_stream().await;
            let (_a, agent) = two(dialect, ended(&frames), &b).await;
            let got = dialect.ask(true).send(agent.address).await;
            assert_eq!((got.status.as_u16(), got.whole), (200, true), "{case}");
            assert_eq!(got.body, frames.concat(), "{case}");
            agent.settles().await;
            counted(&agent, "a", 1, 0, &case);
            assert_eq!(b.hits(), 0, "{case}");
        }
    }
}

/// The opposite of field report B51: Anthropic's answer is whole with its closing frame only, and
/// Gemini's with its finish, even if the connection breaks behind it.
#[tokio::test]
async fn answer_is_whole_by_its_own_protocols_closing_frame() {
    let (delta, _) = ANTHROPIC
        .end
        .split_at(ANTHROPIC.end.find("event: message_stop").unwrap());
    let anthropic = [ANTHROPIC.lifecycle, ANTHROPIC.content, delta];
    let gemini = [GEMINI.lifecycle, GEMINI.content, GEMINI.end];
    for (dialect, script, is_good) in [
        (&ANTHROPIC, ended(&anthropic), false),
        (&GEMINI, cut(&gemini), true),
    ] {
        let case = dialect.protocol;
        let b = dialect.good_stream().await;
        let (_a, agent) = two(dialect, script, &b).await;
        let got = dialect.ask(true).send(agent.address).await;
        assert_eq!(got.whole, is_good, "{case}: {got:?}");
        agent.settles().await;
        counted(&agent, "a", u64::from(is_good), u64::from(!is_good), case);
    }
}

/// Field report B42: a failed answer under status 200 does not keep its session.
#[tokio::test]
async fn session_is_free_to_leave_a_lane_whose_answer_failed() {
    let failed = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"too many\"}}}\n\n";
    let (a, b) = (RESPONSES.good_stream().await, RESPONSES.good_stream().await);
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .pool("affinity: {mode: session, header_name: x-session-id}");
    let agent = RESPONSES.agent(&document).await;
    let ask = || {
        RESPONSES
            .ask(true)
            .with("x-session-id", "s-1")
            .send(agent.address)
    };
    let home = ask().await.header("x-lanekeeper-lane").unwrap().to_owned();
    let (pinned, other) = if home == "a" { (&a, "b") } else { (&b, "a") };
    pinned.next(ended(&[RESPONSES.lifecycle, RESPONSES.content, failed]));
    let got = ask().await;
    assert_eq!(got.header("x-lanekeeper-lane"), Some(home.as_str()));
    assert!(got.body.ends_with(failed) && !got.whole, "{got:?}");
    agent.settles().await;
    assert_eq!(agent.cell("chat", &home)["cause"]["kind"], "rate_limit");
    assert_eq!(ask().await.header("x-lanekeeper-lane"), Some(other));
}

/// Field reports B42, B45: an error in one piece goes to the sibling; without one it has a status
/// of its own.
#[tokio::test]
async fn error_object_under_status_200_is_never_relayed_as_a_success() {
    for dialect in ALL {
        let case = dialect.protocol;
        let b = Upstream::start(json(200, dialect.whole)).await;
        let (_a, agent) = two(dialect, json(200, dialect.whole_error), &b).await;
        let got = dialect.ask(false).send(agent.address).await;
        assert_eq!(
            (got.status.as_u16(), got.body.as_str()),
            (200, dialect.whole),
            "{case}"
        );
        counted(&agent, "a", 0, 1, case);
        assert_eq!(agent.lane("a")["requests_spent"], 0, "{case}: refunded");
    }
    for (error, status, failed) in [
        (r#"{"message":"x","code":"rate_limit_exceeded"}"#, 429, 1),
        (r#"{"message":"x","code":"server_error"}"#, 503, 1),
        (r#"{"message":"x","code":503}"#, 503, 1),
        (r#""busy""#, 503, 1),
        (r#"{"message":"x","type":"invalid_request_error"}"#, 400, 0),
    ] {
        let a = Upstream::start(json(200, &format!("{{\"error\":{error}}}"))).await;
        let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.status, status, "{error}: {got:?}");
        assert!(got.json()["error"].is_object(), "{error}: {got:?}");
        counted(&agent, "a", 0, failed, error);
    }
}

/// Field reports B45, B52: when no lane is left, the failure has a status and a body that the
/// caller's client understands, however far the frames had come.
#[tokio::test]
async fn failure_of_every_lane_before_content_is_an_error_of_the_callers_dialect() {
    for dialect in ALL {
        for (streams, script) in [
            (true, ended(&[dialect.error])),
            (true, ended(&[dialect.lifecycle, dialect.error])),
            (true, cut(&[dialect.lifecycle])),
            (true, json(200, dialect.whole_error)),
            (false, json(200, dialect.whole_error)),
            (false, json(200, "null")),
        ] {
            let a = Upstream::start(script).await;
            let document = Document::new().lane("a", &a).lane("b", &a);
            let agent = dialect.agent(&document).await;
            let got = dialect.ask(streams).send(agent.address).await;
            let case = format!("{} {streams}: {got:?}", dialect.protocol);
            assert!(matches!(got.status.as_u16(), 429 | 503), "{case}");
            assert!(got.whole && got.header("retry-after").is_some(), "{case}");
            assert_eq!(
                got.header("content-type"),
                Some("application/json"),
                "{case}"
            );
            let body = got.json();
            match dialect.protocol {
                "anthropic" => assert_eq!(body["type"], "error", "{case}"),
                "cohere" => assert!(body["message"].is_string(), "{case}"),
                _ => assert!(body["error"]["message"].is_string(), "{case}"),
            }
            assert_eq!(a.hits(), 2, "{case}");
            for lane in ["a", "b"] {
                assert_eq!(agent.lane(lane)["requests_spent"], 0, "{case}");
            }
        }
    }
}

/// Field reports B46, B47: whatever is no answer of the protocol is a failure of the lane.
#[tokio::test]
async fn body_that_is_no_answer_goes_to_the_sibling() {
    let mut rows: Vec<(&Dialect, Script)> = vec![
        (
            &OPENAI,
            answer(200, &[("content-type", "text/html")], "<html>Log in</html>"),
        ),
        (
            &OPENAI,
            answer(200, &[("content-type", "text/plain")], "upstream busy"),
        ),
        (
            &OPENAI,
            vec![
                Step::Write(
                    format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n{}",
                        OPENAI.whole
                    )
                    .into_bytes(),
                ),
                Step::Close,
            ],
        ),
    ];
    for body in [
        "null",
        "[]",
        "\"x\"",
        "{}",
        r#"{"choices":null}"#,
        r#"{"choices":[]}"#,
        "upstream busy",
        r#"{"choices":[{"message":{"content":"cut"#,
    ] {
        rows.push((&OPENAI, json(200, body)));
    }
    for dialect in ALL {
        for body in ["{}", "null", ""] {
            rows.push((dialect, json(200, body)));
        }
        // Also as the only frame of a stream.
        rows.push((dialect, ended(&["data: null\n\n"])));
        rows.push((dialect, ended(&[])));
    }
    for (row, (dialect, script)) in rows.into_iter().enumerate() {
        let case = format!("row {row} {}", dialect.protocol);
        let b = Upstream::start(json(200, dialect.whole)).await;
        let (_a, agent) = two(dialect, script, &b).await;
        let got = dialect.ask(false).send(agent.address).await;
        assert_eq!(
            (got.status.as_u16(), got.body.as_str()),
            (200, dialect.whole),
            "{case}"
        );
        counted(&agent, "a", 0, 1, &case);
        counted(&agent, "b", 1, 0, &case);
        assert_eq!(agent.lane("a")["requests_spent"], 0, "{case}: refunded");
    }
}

/// Field report B46: an answer too long to be held is on its way when it breaks off.
#[tokio::test]
async fn short_read_of_a_long_answer_is_no_success() {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900000\r\n\r\n";
    let body = format!(r#"{{"choices":["{}"#, "x".repeat(400 * 1024));
    let b = Upstream::start(completion("other")).await;
    let script = vec![
        Step::Write(format!("{head}{body}").into_bytes()),
        Step::Close,
    ];
    let (_a, agent) = two(&OPENAI, script, &b).await;
    let got = OPENAI.ask(false).send(agent.address).await;
    assert!(!got.whole && got.body == body, "{}", got.body.len());
    agent.settles().await;
    counted(&agent, "a", 0, 1, "short read");
    assert_eq!((agent.lane("a")["ok"].clone(), b.hits()), (0.into(), 0));
}

fn tool_call() -> Script {
    ended(&[
        ROLE,
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},\"finish_reason\":null}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
        DONE,
    ])
}

/// Field report B48: an answer without output is no good news; a tool call is.
#[tokio::test]
async fn empty_answer_neither_clears_a_streak_nor_closes_a_half_open_cell() {
    let silent =
        r#"{"choices":[{"message":{"role":"assistant","content":null},"finish_reason":"stop"}]}"#;
    let calling = r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    for (streams, empty, useful) in [
        (true, stream(&[]), tool_call()),
        (false, json(200, silent), json(200, calling)),
    ] {
        let a = Upstream::start(json(503, "")).await;
        let document = Document::new().lane("a", &a).breaker(
            "{trip: {mode: consecutive, consecutive_n: 2}, base_cooldown_secs: 0.05, \
             max_cooldown_secs: 0.05, jitter_ratio: 0, jitter_floor_secs: 0, park_secs: 0}",
        );
        let agent = Agent::start(&document.yaml()).await;
        let ask = || chat("chat", streams).send(agent.address);
        ask().await;
        a.next(empty.clone());
        assert_eq!(ask().await.status, 200);
        agent.settles().await;
        assert_eq!(agent.cell("chat", "a")["streak"], 1, "streams: {streams}");
        ask().await;
        assert_eq!(agent.cell("chat", "a")["state"], "open");
        agent.cooled("chat", "a").await;
        for _ in 0..2 {
            a.next(empty.clone());
            assert_eq!(ask().await.status, 200, "the slot is free again");
            agent.settles().await;
            assert_eq!(agent.cell("chat", "a")["state"], "half_open");
        }
        a.next(useful);
        assert_eq!(ask().await.status, 200);
        agent.settles().await;
        let cell = agent.cell("chat", "a");
        assert_eq!(
            (&cell["state"], &cell["streak"]),
            (&"closed".into(), &0.into()),
            "streams: {streams}"
        );
    }
}

/// Field report B49: models that have nothing to say, and filters, are no failures of a lane.
#[tokio::test]
async fn quiet_models_and_refusals_never_bench_a_lane() {
    let rows: [(&Dialect, &str); 6] = [
        (&GEMINI, r#"{"candidates":[{"finishReason":"STOP"}]}"#),
        (&GEMINI, r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#),
        (&GEMINI, r#"{"candidates":[{"finishReason":"SAFETY"}]}"#),
        (
            &OPENAI,
            r#"{"choices":[{"message":{"role":"assistant","content":null,"refusal":"I cannot"},"finish_reason":"stop"}]}"#,
        ),
        (
            &OPENAI,
            r#"{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"content_filter"}]}"#,
        ),
        (
            &ANTHROPIC,
            r#"{"type":"message","content":[],"stop_reason":"refusal"}"#,
        ),
    ];
    for (dialect, body) in rows {
        for streams in [false, true] {
            if streams && dialect.protocol != GEMINI.protocol {
                continue;
            }
            let script = if streams {
                ended(&[&format!("data: {body}\n\n")])
            } else {
                json(200, body)
            };
            let b = if streams {
                dialect.good_stream().await
            } else {
                Upstream::start(json(200, dialect.whole)).await
            };
            let (a, agent) = two(dialect, script, &b).await;
            for _ in 0..20 {
                let got = dialect.ask(streams).send(agent.address).await;
                assert_eq!((got.status.as_u16(), got.whole), (200, true), "{body}");
            }
            agent.settles().await;
            assert_eq!((a.hits(), b.hits()), (10, 10), "{body}: nobody is benched");
            let cell = agent.cell("chat", "a");
            assert_eq!(
                (
                    &cell["state"],
                    &cell["window"]["failed"],
                    &cell["parked_remaining_s"]
                ),
                (&"closed".into(), &0.into(), &0.0.into()),
                "{body}: {cell}"
            );
        }
    }
}
