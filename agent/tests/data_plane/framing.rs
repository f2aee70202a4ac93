//! How frames travel: in whatever form they are written, one by one, and no faster than the caller
//! reads.

use crate::dialects::{ANTHROPIC, Dialect, OPENAI, ended};
use crate::gateway::{Agent, Document, timed};
use crate::upstream::{Script, Step, Upstream, chunk, stream_end, stream_head};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The same frames in the forms that the standard for event streams allows.
fn forms(frames: &str) -> Vec<(&'static str, String)> {
    let swapped: Vec<String> = frames
        .split_terminator("\n\n")
        .map(|frame| match frame.split_once('\n') {
            Some((event, data)) => format!("{data}\n{event}\n\n"),
            None => format!("{frame}\n\n"),
        })
        .collect();
    vec![
        ("LF", frames.to_owned()),
        ("CR LF", frames.replace('\n', "\r\n")),
        ("CR", frames.replace('\n', "\r")),
        (
            "no space",
            frames
                .replace("data: ", "data:")
                .replace("event: ", "event:"),
        ),
        ("byte order mark", format!("\u{feff}{frames}")),
        ("data before event", swapped.concat()),
        (
            "two data lines",
            frames.replace("data: {", "data: {\ndata: "),
        ),
        ("no blank line at the end", frames.trim_end().to_owned()),
    ]
}

/// Every byte in a chunk of its own, so that a CR and its LF come apart too.
fn byte_by_byte(text: &str) -> Script {
    let mut script = vec![stream_head()];
    script.extend(text.chars().map(|byte| chunk(&byte.to_string())));
    script.push(stream_end());
    script
}

async fn two(dialect: &Dialect, script: Script) -> (Upstream, Agent) {
    let a = Upstream::start(script).await;
    let b = dialect.good_stream().await;
    let document = Document::new().lane("a", &a).lane("b", &b);
    (b, dialect.agent(&document).await)
}

/// Field report B63.
#[tokio::test]
async fn every_form_of_frames_passes_unchanged_and_hides_no_error() {
    for dialect in [&OPENAI, &ANTHROPIC] {
        let good = [dialect.lifecycle, dialect.content, dialect.end].concat();
        for (form, text) in forms(&good) {
            for script in [ended(&[&text]), byte_by_byte(&text)] {
                let (_b, agent) = two(dialect, script).await;
                let got = dialect.ask(true).send(agent.address).await;
                assert!(got.whole, "{form}, {}: {got:?}", dialect.protocol);
                assert_eq!(got.body, text, "{form}, {}", dialect.protocol);
                assert_eq!(got.header("x-lanekeeper-lane"), Some("a"), "{form}");
                agent.settles().await;
                assert_eq!(agent.lane("a")["ok"], 1, "{form}");
            }
        }
        for (form, text) in forms(&[dialect.lifecycle, dialect.error].concat()) {
            let (_b, agent) = two(dialect, ended(&[&text])).await;
            let got = dialect.ask(true).send(agent.address).await;
            assert_eq!(
                got.header("x-lanekeeper-lane"),
                Some("b"),
                "{form}: {got:?}"
            );
            assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1, "{form}");
        }
        for (form, text) in forms(&[dialect.content, dialect.error].concat()) {
            let (b, agent) = two(dialect, ended(&[&text])).await;
            let got = dialect.ask(true).send(agent.address).await;
            assert!(!got.whole, "{form}: {got:?}");
            agent.settles().await;
            assert_eq!(b.hits(), 0, "{form}");
            assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1, "{form}");
        }
    }
}

/// Field report B64: the next frame is sent when the one before has arrived, so none is withheld.
#[tokio::test]
async fn frames_are_passed_on_one_by_one() {
    const FRAMES: usize = 20;
    let gate = Arc::new(Semaphore::new(0));
    let mut script = vec![stream_head()];
    for _ in 0..FRAMES {
        script.extend([Step::Gate(Arc::clone(&gate)), chunk(OPENAI.content)]);
    }
    script.extend([chunk(OPENAI.end), stream_end()]);
    let a = Upstream::start(script).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    gate.add_permits(1);
    let mut answer = OPENAI.ask(true).begin(agent.address).await;
    for received in 1..FRAMES {
        answer.until(&OPENAI.content.repeat(received)).await;
        gate.add_permits(1);
    }
    let got = answer.rest().await;
    assert!(got.whole && got.body.ends_with(OPENAI.end));
}

/// Field report B58: a comment and a long pause are no answer and no end.
#[tokio::test]
async fn comment_before_a_slow_answer_neither_starts_nor_ends_it() {
    let a = Upstream::start(vec![
        stream_head(),
        chunk(": keep-alive\n\n"),
        Step::Pause(Duration::from_millis(600)),
        chunk(&[OPENAI.content, OPENAI.end].concat()),
        stream_end(),
    ])
    .await;
    // Neither the bound on headers nor the one on silence in mid-stream is about this pause.
    let bounds = "attempt_timeout_ms: 300, idle_timeout_secs: 0.3";
    let document = Document::new().lane_at("a", a.address, 1, bounds);
    let agent = Agent::start(&document.yaml()).await;
    let got = OPENAI.ask(true).send(agent.address).await;
    assert!(got.whole && got.body.starts_with(": keep-alive"), "{got:?}");
    agent.settles().await;
    assert_eq!(agent.lane("a")["ok"], 1);
}

/// Field report B57: pings of either kind are no progress, lifecycle frames are.
#[tokio::test]
async fn pings_do_not_keep_a_stalled_answer_alive() {
    const EVENT: &str = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    for ping in [EVENT, ": ping\n\n"] {
        let mut script = vec![stream_head(), chunk(ANTHROPIC.content)];
        for _ in 0..60 {
            script.extend([chunk(ping), Step::Pause(Duration::from_millis(50))]);
        }
        let a = Upstream::start(script).await;
        let document = Document::new().lane_at("a", a.address, 1, "content_idle_timeout_secs: 0.4");
        let agent = ANTHROPIC.agent(&document).await;
        let (got, took) = timed(ANTHROPIC.ask(true).send(agent.address)).await;
        assert!(
            !got.whole && got.body.contains(ANTHROPIC.error_event),
            "{got:?}"
        );
        assert!(took < Duration::from_secs(2), "{took:?}");
        agent.settles().await;
        assert_eq!(agent.cell("chat", "a")["cause"]["kind"], "stalled");
    }
}

/// Field report B59: a caller that does not read stops the lane, costs no memory and blames nobody.
#[tokio::test]
async fn caller_that_does_not_read_holds_the_lane_back() {
    const FRAME_BYTES: usize = 1024 * 1024;
    const FRAMES: usize = 64;
    /// What the system's buffers on both connections and one frame here may take.
    const MOST_BYTES: usize = 32 * 1024 * 1024;
    let long = OPENAI.content.replace("hello", &"x".repeat(FRAME_BYTES));
    let mut script = vec![stream_head()];
    script.extend(std::iter::repeat_n(chunk(&long), FRAMES));
    script.extend([chunk(OPENAI.end), stream_end()]);
    let a = Upstream::start(script).await;
    let document = Document::new().lane_at("a", a.address, 1, "idle_timeout_secs: 0.3");
    let agent = Agent::start(&document.yaml()).await;
    let answer = OPENAI.ask(true).begin(agent.address).await;
    // Until nothing has moved for twice the time a silent lane gets.
    let (mut before, mut still) = (0, 0);
    while still < 6 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        still = if a.written() == before { still + 1 } else { 0 };
        before = a.written();
    }
    assert!(before < MOST_BYTES, "{before} bytes are on their way");
    assert_eq!(
        agent.lane("a")["inflight"],
        1,
        "the permit is held meanwhile"
    );
    let got = answer.rest().await;
    assert!(got.whole && got.body.len() > FRAMES * FRAME_BYTES);
    agent.settles().await;
    assert_eq!(
        (
            agent.lane("a")["ok"].clone(),
            agent.lane("a")["failed"].clone()
        ),
        (1.into(), 0.into())
    );
}
