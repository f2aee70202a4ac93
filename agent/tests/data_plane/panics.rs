//! A panic in the middle of a request ends that request and nothing else.

use crate::caller::chat;
use crate::dialects::{ALL, cut, ended};
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Step, Upstream, completion};
use std::fmt::Debug;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The line a failed attempt writes while it holds everything it can.
const ATTEMPT_FAILED: &str = "attempt got no answer";
/// The line a cell writes when it opens, here at the death of a stream.
const CELL_OPENED: &str = "closed->open";

/// Panics where the agent writes this line.
struct Trap(&'static str);

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Trap {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lanekeeper_agent")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        assert!(!message.0.contains(self.0), "the trap of this test");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn panic_in_a_handler_gives_back_permit_budget_probe_and_place() {
    let a = Upstream::start(completion("a")).await;
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_concurrent: 1, max_requests: 2")
        .breaker(
            "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.1, \
             max_cooldown_secs: 0.1, jitter_ratio: 0, jitter_floor_secs: 0}",
        );
    let agent = Agent::start(&document.yaml()).await;
    let address = agent.address;
    // The cell is due: the request that panics is its probe.
    a.next(vec![Step::Reset]);
    chat("chat", false).send(address).await;
    eventually("the cooldown is over", || {
        let cell = agent.cell("chat", "a");
        cell["state"] == "open" && cell["cooldown_remaining_s"] == 0.0
    })
    .await;
    a.next(vec![Step::Reset]);
    let hits = a.hits();
    {
        let _trap = tracing::subscriber::set_default(Trap(ATTEMPT_FAILED));
        let got = chat("chat", false)
            .with("x-request-id", "r-1")
            .send(address)
            .await;
        assert_eq!((got.status.as_u16(), got.whole), (500, true), "{got:?}");
        assert_eq!(got.json()["error"]["code"], "internal_error");
        assert_eq!(got.header("x-request-id"), Some("r-1"));
    }
    assert_eq!(a.hits(), hits + 1);
    agent.settles().await;
    let lane = agent.lane("a");
    assert_eq!(
        (&lane["permits_available"], &lane["requests_spent"]),
        (&1.into(), &0.into()),
        "{lane:#}"
    );
    assert_eq!(
        agent.plane.totals().failed,
        2,
        "it counts as a failed request"
    );
    assert!(agent.metrics().contains("lanekeeper_panics_total 1\n"));
    // The slot of the half-open cell is free at once, and the agent serves on.
    assert_eq!(chat("chat", false).send(address).await.status, 200);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

#[tokio::test]
async fn panic_in_a_probe_ends_only_that_probe() {
    let a = Upstream::start(vec![Step::Reset]).await;
    let yaml = Document::new().lane("a", &a).yaml().replace(
        "api_key: null",
        "api_key: null, health: {mode: active, interval_secs: 0.1}",
    );
    let trap = tracing::subscriber::set_default(Trap(ATTEMPT_FAILED));
    let agent = Agent::start(&yaml).await;
    eventually("two probes met the trap", || a.hits() >= 2).await;
    drop(trap);
    assert_eq!(agent.lane("a")["failed"], 0);
    a.always(completion("a"));
    eventually("probes go on", || agent.lane("a")["ok"] != 0).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
}

#[tokio::test]
async fn panic_before_the_answer_is_an_error_of_the_callers_dialect() {
    for dialect in ALL {
        let a = Upstream::start(vec![Step::Reset]).await;
        let agent = dialect.agent(&Document::new().lane("a", &a)).await;
        let _trap = tracing::subscriber::set_default(Trap(ATTEMPT_FAILED));
        let got = dialect.ask(true).send(agent.address).await;
        assert_eq!((got.status.as_u16(), got.whole), (500, true), "{got:?}");
        let told = got.json();
        let message = match dialect.protocol {
            "cohere" => &told["message"],
            _ => &told["error"]["message"],
        };
        assert!(message.is_string(), "{told}");
        assert!(!got.body.contains("trap"), "{}", got.body);
        agent.settles().await;
    }
}

#[tokio::test]
async fn panic_in_a_relay_ends_its_answer_with_an_error_event() {
    let breaker = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.1, \
                   max_cooldown_secs: 0.1, jitter_ratio: 0, jitter_floor_secs: 0}";
    for dialect in ALL {
        let a = Upstream::start(cut(&[dialect.lifecycle, dialect.content])).await;
        let document = Document::new()
            .lane_at("a", a.address, 1, "max_concurrent: 1")
            .breaker(breaker);
        let agent = dialect.agent(&document).await;
        let trap = tracing::subscriber::set_default(Trap(CELL_OPENED));
        let got = dialect.ask(true).send(agent.address).await;
        drop(trap);
        let told = got.body.rsplit_once(dialect.content).unwrap().1;
        assert!(
            !got.whole && told.starts_with(dialect.error_event),
            "{got:?}"
        );
        agent.settles().await;
        assert_eq!(agent.lane("a")["permits_available"], 1);
        assert!(agent.metrics().contains("lanekeeper_panics_total 1\n"));
        let totals = agent.plane.totals();
        assert_eq!((totals.ok, totals.failed), (0, 1), "{}", dialect.protocol);
        agent.cooled("chat", "a").await;
        a.always(ended(&[dialect.lifecycle, dialect.content, dialect.end]));
        assert!(dialect.ask(true).send(agent.address).await.whole);
    }
}
