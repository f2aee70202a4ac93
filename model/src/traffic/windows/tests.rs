use super::*;
use crate::traffic::{AttemptCounts, TIME_BUCKETS, Times};

const REPORT: Duration = Duration::from_secs(10);

fn traffic(ok: u64) -> PoolTraffic {
    let mut buckets = [0; TIME_BUCKETS];
    buckets[3] = ok;
    let mut traffic = PoolTraffic::default();
    traffic.totals.requests.ok = ok;
    traffic.totals.first_content = Times::new(buckets);
    let attempts = AttemptCounts {
        success: ok,
        ..AttemptCounts::default()
    };
    traffic.attempts = vec![("fast".into(), attempts)];
    traffic
}

/// Requests of `chat` over the minute and the ten minutes.
fn shown(book: &mut TrafficBook, now: Instant) -> (u64, u64) {
    let published = book.publish(now);
    let chat = published
        .gateways
        .get("edge")
        .and_then(|pools| pools.get("chat"));
    chat.map_or((0, 0), |chat| {
        (
            chat.minute.totals.requests.ok,
            chat.ten_minutes.totals.requests.ok,
        )
    })
}

#[expect(clippy::disallowed_methods, reason = "any moment will do")]
fn book() -> (TrafficBook, Instant) {
    let start = Instant::now();
    (TrafficBook::new(start), start)
}

#[test]
fn traffic_counts_for_a_minute_and_for_ten_and_is_then_forgotten() {
    let (mut book, start) = book();
    let (edge, chat) = (GatewayName::from("edge"), PoolName::from("chat"));
    for agents in 0..3 {
        let now = start + Duration::from_secs(agents);
        book.take(&edge, &chat, &traffic(100), REPORT, now);
    }
    let after = |secs| start + Duration::from_secs(secs);
    assert_eq!(shown(&mut book, after(5)), (300, 300));
    assert_eq!(shown(&mut book, after(54)), (300, 300));
    assert_eq!(shown(&mut book, after(61)), (0, 300));
    assert_eq!(shown(&mut book, after(549)), (0, 300));
    assert_eq!(shown(&mut book, after(601)), (0, 0));
    assert!(book.gateways.is_empty(), "nothing is kept of what is over");
}

#[test]
fn what_an_agent_did_while_nobody_listened_does_not_count_as_new() {
    let (mut book, start) = book();
    let (edge, chat) = (GatewayName::from("edge"), PoolName::from("chat"));
    let now = start + Duration::from_secs(700);
    let over = Duration::from_secs(600);
    book.take(&edge, &chat, &traffic(6_000), over, now);
    let (minute, ten) = shown(&mut book, now);
    assert_eq!(ten, 6_000, "all of it was within ten minutes");
    assert_eq!(minute, 600, "a tenth of it within the last");
}

#[test]
fn pieces_add_up_to_the_whole() {
    let whole = traffic(1_003);
    let mut sum = PoolTraffic::default();
    for part in 0..7 {
        sum.add(&whole.piece(part, 7));
    }
    assert_eq!(sum, whole);
}

#[test]
fn a_book_says_how_long_it_has_listened() {
    let (mut book, start) = book();
    let covered = |book: &mut TrafficBook, secs| {
        let published = book.publish(start + Duration::from_secs(secs));
        (published.minute_ms, published.ten_minutes_ms)
    };
    assert_eq!(covered(&mut book, 7), (7_000, 7_000));
    assert_eq!(covered(&mut book, 3_600), (55_000, 550_000));
}

#[test]
fn pools_beyond_the_bound_are_not_kept() {
    let (mut book, start) = book();
    let edge = GatewayName::from("edge");
    for number in 0..POOLS_MAX + 10 {
        let pool = PoolName::from(format!("p{number}"));
        book.take(&edge, &pool, &traffic(1), REPORT, start);
    }
    assert_eq!(book.publish(start).gateways["edge"].len(), POOLS_MAX);
}
