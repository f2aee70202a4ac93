//! Strategies beside round robin.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Script, Step, Upstream, completion};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

fn slowed(by: Duration, text: &str) -> Script {
    let mut script = vec![Step::Pause(by)];
    script.extend(completion(text));
    script
}

#[tokio::test]
async fn fastest_measures_every_member_once_and_then_prefers_the_quickest() {
    let a = Upstream::start(slowed(Duration::from_millis(120), "a")).await;
    let b = Upstream::start(completion("b")).await;
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .pool("strategy: fastest");
    let agent = Agent::start(&document.yaml()).await;
    for _ in 0..12 {
        assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    }
    assert_eq!((a.hits(), b.hits()), (1, 11));
}

#[tokio::test]
async fn least_loaded_goes_where_the_fewest_run_for_their_weight() {
    let gate = Arc::new(Semaphore::new(0));
    let mut waiting = vec![Step::Gate(Arc::clone(&gate))];
    waiting.extend(completion("hello"));
    let (a, b) = (
        Upstream::start(waiting.clone()).await,
        Upstream::start(waiting).await,
    );
    let document = Document::new()
        .lane_at("a", a.address, 2, "")
        .lane_at("b", b.address, 1, "")
        .pool("strategy: least_loaded");
    let agent = Agent::start(&document.yaml()).await;
    let address = agent.address;
    let mut callers = Vec::new();
    for sent in 1..=9 {
        callers.push(tokio::spawn(async move {
            chat("chat", false).send(address).await
        }));
        eventually("it is under way", || a.hits() + b.hits() == sent).await;
    }
    assert_eq!((a.hits(), b.hits()), (6, 3));
    gate.add_permits(9);
    for caller in callers {
        assert_eq!(caller.await.unwrap().status, 200);
    }
}
