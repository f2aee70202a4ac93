//! Frames that no protocol knows, or that belong to another one: every dialect makes the same of
//! them.

use crate::caller::{Got, chat};
use crate::dialects::{ALL, COHERE, Dialect, GEMINI, OPENAI, ended};
use crate::gateway::{Agent, Document};
use crate::upstream::{DONE, Script, Step, Upstream, chunk, stream_end, stream_head};
use std::time::Duration;

/// An error as no vendor but Anthropic sends it, through servers that speak several dialects.
const ERROR_EVENT: &str = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";

/// A request to a lane that plays `script`, beside a healthy sibling.
async fn played(dialect: &Dialect, script: Script, pool: &str) -> (Got, Agent, Upstream) {
    let a = Upstream::start(script).await;
    let b = dialect.good_stream().await;
    let document = Document::new()
        .lane_at(
            "a",
            a.address,
            1,
            "idle_timeout_secs: 0.5, content_idle_timeout_secs: 0.5",
        )
        .lane("b", &b)
        .pool(pool);
    let agent = dialect.agent(&document).await;
    let got = dialect.ask(true).send(agent.address).await;
    agent.settles().await;
    (got, agent, b)
}

/// The answer broke off behind `shown`, the lane has one failure of this kind and nobody else was
/// asked.
fn broke_off(got: &Got, shown: &str, agent: &Agent, b: &Upstream, kind: &str, case: &str) {
    assert!(!got.whole, "{case}: the end must not look regular: {got:?}");
    let told = got.body.strip_prefix(shown);
    let told = told.unwrap_or_else(|| panic!("{case}: {got:?}"));
    assert_eq!(told.matches("data: ").count(), 1, "{case}: one error event");
    assert!(told.contains("rror"), "{case}: {told}");
    assert!(!told.contains("[DONE]"), "{case}: {told}");
    assert_eq!(b.hits(), 0, "{case}: no hop after content");
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (
            &cell["window"]["ok"],
            &cell["window"]["failed"],
            &cell["cause"]["kind"]
        ),
        (&0.into(), &1.into(), &kind.into()),
        "{case}: {cell}"
    );
}

#[tokio::test]
async fn comments_and_pings_after_content_are_no_life() {
    for dialect in ALL {
        for ping in [": ping\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n"] {
            let mut script = vec![
                stream_head(),
                chunk(dialect.lifecycle),
                chunk(dialect.content),
            ];
            // Longer than any bound, and then an end that would be a good one.
            for _ in 0..60 {
                script.extend([chunk(ping), Step::Pause(Duration::from_millis(100))]);
            }
            script.extend([chunk(dialect.end), stream_end()]);
            let (got, agent, b) = played(dialect, script, "").await;
            let case = format!("{} {ping:?}", dialect.protocol);
            let content = [dialect.lifecycle, dialect.content].concat();
            let pings = got.body.matches(ping).count();
            assert!((1..60).contains(&pings), "{case}: {got:?}");
            let shown = content + &ping.repeat(pings);
            broke_off(&got, &shown, &agent, &b, "stalled", &case);
        }
    }
}

#[tokio::test]
async fn frame_that_is_no_document_breaks_an_answer_off() {
    for dialect in ALL {
        for bad in ["data: {not json\n\n", "data: <html>\n\n", "data:\n\n"] {
            let frames = [
                dialect.lifecycle,
                dialect.content,
                bad,
                dialect.content,
                dialect.end,
            ];
            for script in [
                ended(&frames),
                vec![stream_head(), chunk(&frames.concat()), stream_end()],
            ] {
                let (got, agent, b) = played(dialect, script, "").await;
                let case = format!("{} {bad:?}", dialect.protocol);
                let shown = frames[..2].concat();
                broke_off(&got, &shown, &agent, &b, "bad_body", &case);
            }
        }
    }
}

#[tokio::test]
async fn closing_word_of_another_protocol_closes_no_answer() {
    for dialect in ALL {
        let case = dialect.protocol;
        let good = [dialect.lifecycle, dialect.content, dialect.end].concat();
        if dialect.protocol != OPENAI.protocol {
            let frames = [dialect.lifecycle, dialect.content, DONE];
            let (got, agent, b) = played(dialect, ended(&frames), "").await;
            let shown = frames[..2].concat();
            broke_off(&got, &shown, &agent, &b, "truncated", case);
            let (got, agent, b) = played(dialect, ended(&[dialect.lifecycle, DONE]), "").await;
            assert_eq!((&got.body, got.whole), (&good, true), "{case}: {got:?}");
            assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1, "{case}");
            assert_eq!(b.hits(), 1, "{case}");
        }
        // Alone it is nobody's answer.
        let (got, agent, b) = played(dialect, ended(&[DONE]), "").await;
        assert_eq!((&got.body, got.whole), (&good, true), "{case}: {got:?}");
        assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1, "{case}");
        assert_eq!(b.hits(), 1, "{case}");
    }
}

#[tokio::test]
async fn what_follows_the_closing_frame_changes_nothing() {
    for dialect in ALL {
        for behind in [
            DONE,
            dialect.end,
            dialect.content,
            ERROR_EVENT,
            "data: {not json\n\n",
        ] {
            let frames = [dialect.lifecycle, dialect.content, dialect.end, behind];
            let case = format!("{} {behind:?}", dialect.protocol);
            let (got, agent, b) = played(dialect, ended(&frames), "").await;
            assert_eq!((&got.body, got.whole), (&frames.concat(), true), "{case}");
            assert_eq!(agent.cell("chat", "a")["window"]["ok"], 1, "{case}");
            // The same while the answer is still held back.
            let held = "failover: {hold_ms: 2000}";
            let (got, agent, c) = played(dialect, ended(&frames), held).await;
            assert!(
                got.whole && got.body.starts_with(&frames[..3].concat()),
                "{case}: {got:?}"
            );
            assert_eq!(agent.cell("chat", "a")["window"]["ok"], 1, "{case}");
            assert_eq!((b.hits(), c.hits()), (0, 0), "{case}");
        }
    }
}

#[tokio::test]
async fn error_event_is_an_error_in_every_dialect() {
    for dialect in ALL {
        let case = dialect.protocol;
        let frames = [
            dialect.lifecycle,
            dialect.content,
            ERROR_EVENT,
            dialect.content,
            dialect.end,
        ];
        let (got, agent, b) = played(dialect, ended(&frames), "").await;
        let shown = frames[..2].concat();
        let kind = agent.cell("chat", "a")["cause"]["kind"].clone();
        let kind = kind.as_str().unwrap();
        assert!(
            ["overloaded", "error_frame"].contains(&kind),
            "{case}: {kind}"
        );
        broke_off(&got, &shown, &agent, &b, kind, case);

        let early = [dialect.lifecycle, ERROR_EVENT, dialect.content, dialect.end];
        let (got, agent, b) = played(dialect, ended(&early), "").await;
        let good = [dialect.lifecycle, dialect.content, dialect.end].concat();
        assert_eq!((&got.body, got.whole), (&good, true), "{case}: {got:?}");
        assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1, "{case}");
        assert_eq!(b.hits(), 1, "{case}");
    }
}

/// Cohere's closing frame may name an error without the reason that says so.
#[tokio::test]
async fn closing_frame_that_names_an_error_is_no_good_end() {
    let failed = "data: {\"type\":\"message-end\",\"delta\":{\"error\":\"out of luck\"}}\n\n";
    let frames = [COHERE.lifecycle, COHERE.content, failed];
    let (got, agent, _b) = played(&COHERE, ended(&frames), "").await;
    assert!(!got.whole, "{got:?}");
    assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1);
}

#[tokio::test]
async fn array_of_a_gemini_answer_is_one_whatever_the_lane_sends() {
    let path = "/v1beta/models/chat:streamGenerateContent";
    for (behind, is_whole) in [
        ([GEMINI.end, DONE], true),
        ([GEMINI.end, "data: <html>\n\n"], true),
        ([DONE, GEMINI.end], false),
        (["data: {not json\n\n", GEMINI.end], false),
        ([ERROR_EVENT, GEMINI.end], false),
    ] {
        let frames = [GEMINI.content, behind[0], behind[1]];
        let a = Upstream::start(ended(&frames)).await;
        let agent = GEMINI.agent(&Document::new().lane("a", &a)).await;
        let got = chat("chat", true).at(path).send(agent.address).await;
        assert_eq!(got.whole, is_whole, "{behind:?}: {got:?}");
        let body = if is_whole {
            got.body.clone()
        } else {
            got.body.clone() + "]"
        };
        let items: serde_json::Value = serde_json::from_str(&body).unwrap();
        let items = items.as_array().unwrap();
        assert_eq!(items.len(), 2, "{behind:?}: {got:?}");
        assert_eq!(
            items[1].get("error").is_some(),
            !is_whole,
            "{behind:?}: {got:?}"
        );
    }
}
