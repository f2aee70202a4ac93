//! The window alone: what counts, what has left, what can be taken back.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn sliding(seconds: u64) -> Window {
    Window::new(WindowKind::Sliding, seconds * SECOND)
}

fn totals(ok: u64, failed: u64) -> Totals {
    Totals { ok, failed }
}

/// Field report B85.
#[test]
fn successes_before_a_fixed_boundary_still_dilute_failures_after_it() {
    let mut window = sliding(30);
    for second in 0..=28 {
        window.record(false, second * SECOND);
    }
    for tenth in [310, 312, 314, 316, 318] {
        window.record(true, tenth * SECOND / 10);
    }
    let now = 318 * SECOND / 10;
    assert_eq!(window.totals_at(now), totals(27, 5));
}

/// Field report B85.
#[test]
fn failures_on_both_sides_of_a_fixed_boundary_count_together() {
    let mut window = sliding(30);
    for tenth in [280, 285, 290, 310, 315] {
        window.record(true, tenth * SECOND / 10);
    }
    assert_eq!(window.totals_at(315 * SECOND / 10), totals(0, 5));
}

#[test]
fn nothing_older_than_the_window_counts_and_little_younger_is_missed() {
    let slot = 30 * SECOND / 64;
    for offset in (0..64).map(|part| part * slot / 64) {
        let mut window = sliding(30);
        window.record(true, offset);
        assert_eq!(
            window.totals_at(offset + 30 * SECOND - slot).failed,
            1,
            "younger than the window by a slot"
        );
        assert_eq!(window.totals_at(offset + 30 * SECOND).failed, 0);
    }
}

#[test]
fn counts_are_not_capped_and_memory_does_not_grow() {
    let mut window = sliding(30);
    let before = size_of_val(&window);
    for number in 0..300_000_u64 {
        window.record(number.is_multiple_of(3), number * 10_000);
    }
    assert_eq!(window.totals_at(3 * SECOND), totals(200_000, 100_000));
    assert_eq!(size_of_val(&window), before);
}

#[test]
fn reading_ahead_agrees_with_moving_there() {
    for gap in [
        0,
        1,
        SECOND / 3,
        SECOND,
        10 * SECOND,
        29 * SECOND,
        31 * SECOND,
    ] {
        let mut window = sliding(30);
        for step in 0..40 {
            window.record(step % 4 == 0, step * SECOND);
        }
        let now = 39 * SECOND + gap;
        let seen = window.totals_at(now);
        let mark = window.record(false, now);
        window.withdraw(mark, now);
        assert_eq!(window.totals_at(now), seen, "after a gap of {gap} ns");
    }
}

#[test]
fn outcome_can_be_taken_back_only_while_it_counts() {
    let mut window = sliding(30);
    let early = window.record(false, 0);
    let late = window.record(false, 20 * SECOND);
    window.withdraw(early, 35 * SECOND);
    assert_eq!(window.totals_at(35 * SECOND), totals(1, 0), "it had left");
    window.withdraw(late, 35 * SECOND);
    assert_eq!(window.totals_at(35 * SECOND), totals(0, 0));
    let mark = window.record(false, 36 * SECOND);
    window.clear();
    window.record(false, 36 * SECOND);
    window.withdraw(mark, 36 * SECOND);
    assert_eq!(window.totals_at(36 * SECOND), totals(1, 0), "a new filling");
}

#[test]
fn tumbling_window_starts_with_its_first_outcome_and_ends_whole() {
    let mut window = Window::new(WindowKind::Tumbling, 10 * SECOND);
    window.record(true, 7 * SECOND);
    window.record(true, 16 * SECOND);
    assert_eq!(window.totals_at(17 * SECOND - 1), totals(0, 2));
    assert_eq!(window.totals_at(17 * SECOND), totals(0, 0));
    window.record(true, 21 * SECOND);
    assert_eq!(window.totals_at(31 * SECOND - 1), totals(0, 1));
    assert_eq!(window.totals_at(31 * SECOND), totals(0, 0));
}

#[test]
fn counter_starts_with_a_failure_and_is_not_extended_by_the_next() {
    let mut window = Window::new(WindowKind::Counter, 60 * SECOND);
    window.record(false, 0);
    assert_eq!(window.totals_at(0), totals(0, 0), "no counter yet");
    window.record(true, 50 * SECOND);
    window.record(false, 60 * SECOND);
    window.record(true, 165 * SECOND);
    assert_eq!(window.totals_at(170 * SECOND - 1), totals(1, 2));
    assert_eq!(window.totals_at(170 * SECOND), totals(0, 0));
    window.record(true, 171 * SECOND);
    assert_eq!(window.totals_at(290 * SECOND), totals(0, 1));
}

#[test]
fn another_span_keeps_what_fits_into_it() {
    let mut window = sliding(30);
    for second in 0..30 {
        window.record(second % 2 == 0, second * SECOND);
    }
    let now = 29 * SECOND;
    window.reshape(WindowKind::Sliding, 60 * SECOND, now);
    assert_eq!(window.totals_at(now), totals(15, 15));
    window.reshape(WindowKind::Sliding, 10 * SECOND, now);
    let kept = window.totals_at(now);
    assert!((9..=11).contains(&(kept.ok + kept.failed)), "{kept:?}");
    window.reshape(WindowKind::Tumbling, 10 * SECOND, now);
    assert_eq!(window.totals_at(now + 9 * SECOND), kept);
    assert_eq!(window.totals_at(now + 10 * SECOND), totals(0, 0));
    window.reshape(WindowKind::Counter, 10 * SECOND, now);
    window.reshape(WindowKind::Sliding, 30 * SECOND, now);
    assert_eq!(window.totals_at(now), kept);
}

#[test]
fn extreme_times_and_spans_do_not_overflow() {
    for kind in WindowKind::ALL {
        for span in [0, 1, u64::MAX] {
            let mut window = Window::new(*kind, span);
            for now in [0, 1, u64::MAX - 1, u64::MAX, 0] {
                let mark = window.record(true, now);
                let _ = window.totals_at(u64::MAX);
                window.withdraw(mark, u64::MAX);
                window.reshape(*kind, span / 2, now);
            }
        }
    }
}

#[test]
fn busy_slots_make_the_ring_coarse_and_lose_no_outcome() {
    let mut window = sliding(64);
    let mut now = 0;
    for slot in 0..64 {
        now = slot * SECOND;
        window.record(true, now);
    }
    for _ in 0..=FINE_MAX {
        window.record(false, now);
    }
    assert!(!window.ring.coarse, "the current slot has room for all");
    assert_eq!(window.totals_at(now), totals(FINE_MAX + 1, 64));
    // Two slots of the fine ring leave when the window moves by one of the coarse ring.
    now = 64 * SECOND;
    window.record(false, now);
    assert!(window.ring.coarse);
    assert_eq!(window.totals_at(now), totals(FINE_MAX + 2, 62));
    assert_eq!(window.totals_at(126 * SECOND), totals(1, 0));
    assert_eq!(window.totals_at(127 * SECOND), totals(1, 0));
    assert_eq!(window.totals_at(128 * SECOND), totals(0, 0));
    window.record(false, 200 * SECOND);
    assert!(!window.ring.coarse, "an empty window is fine again");
}

#[test]
fn coarse_ring_never_counts_anything_older_than_the_span() {
    for offset in [0, SECOND / 2, SECOND, 3 * SECOND / 2, 2 * SECOND - 1] {
        let mut window = sliding(64);
        let first = 10 * SECOND + offset;
        for _ in 0..100_000 {
            window.record(true, first);
        }
        let mut now = first;
        while now < first + 62 * SECOND {
            window.record(false, now);
            assert_eq!(window.totals_at(now).failed, 100_000, "{now}");
            now += SECOND / 4;
        }
        assert_eq!(window.totals_at(first + 64 * SECOND).failed, 0);
        window.record(false, first + 64 * SECOND);
        assert_eq!(window.totals_at(first + 64 * SECOND).failed, 0);
    }
}

#[test]
fn outcomes_counted_before_the_ring_became_coarse_can_be_taken_back() {
    let mut window = sliding(64);
    let marks: Vec<Mark> = (0..64)
        .map(|slot| window.record(false, slot * SECOND))
        .collect();
    for _ in 0..FINE_MAX {
        window.record(true, 63 * SECOND);
    }
    for _ in 0..2 {
        window.record(true, 63 * SECOND);
    }
    let late = window.record(true, 65 * SECOND);
    assert!(window.ring.coarse);
    assert_eq!(window.totals_at(65 * SECOND), totals(62, FINE_MAX + 3));
    for mark in marks {
        window.withdraw(mark, 65 * SECOND);
    }
    assert_eq!(window.totals_at(65 * SECOND), totals(0, FINE_MAX + 3));
    window.withdraw(late, 65 * SECOND);
    assert_eq!(window.totals_at(65 * SECOND), totals(0, FINE_MAX + 2));
}

#[test]
fn clearing_a_coarse_ring_starts_a_fine_one_at_the_same_time() {
    let mut window = sliding(64);
    for _ in 0..=FINE_MAX {
        window.record(true, 71 * SECOND);
    }
    window.record(true, 73 * SECOND);
    assert!(window.ring.coarse);
    window.clear();
    assert!(!window.ring.coarse);
    window.record(true, 73 * SECOND);
    assert_eq!(window.slot, 73);
    assert_eq!(window.totals_at(136 * SECOND), totals(0, 1));
    assert_eq!(window.totals_at(137 * SECOND), totals(0, 0));
}

#[test]
fn another_span_keeps_large_counts_whole() {
    let mut window = sliding(64);
    for slot in 0..4 {
        for _ in 0..30_000 {
            window.record(slot % 2 == 0, slot * SECOND);
        }
    }
    let now = 3 * SECOND;
    for (kind, span) in [
        (WindowKind::Sliding, 640),
        (WindowKind::Sliding, 32),
        (WindowKind::Tumbling, 32),
        (WindowKind::Sliding, 64),
    ] {
        window.reshape(kind, span * SECOND, now);
        assert_eq!(window.totals_at(now), totals(60_000, 60_000), "{kind}");
    }
}

#[test]
fn slots_that_become_one_keep_their_large_counts() {
    for start in [0, 1_000] {
        let mut window = sliding(64);
        for slot in 0..2 {
            for _ in 0..50_000 {
                window.record(true, (start + slot) * SECOND);
            }
        }
        let now = (start + 10) * SECOND;
        window.reshape(WindowKind::Sliding, 128 * SECOND, now);
        assert_eq!(window.totals_at(now), totals(0, 100_000));
        let later = now + 60 * SECOND;
        assert_eq!(window.totals_at(later), totals(0, 100_000));
        window.record(false, later);
        assert_eq!(window.totals_at(later), totals(1, 100_000));
        assert_eq!(
            window.totals_at((start + 131) * SECOND),
            totals(1, 0),
            "what is cut in one place is gone in the other"
        );
    }
}

#[test]
fn moving_by_almost_the_whole_span_keeps_the_oldest_slot() {
    let mut window = sliding(64);
    window.record(true, 0);
    window.record(true, 63 * SECOND);
    assert_eq!(window.totals_at(63 * SECOND), totals(0, 2));
    window.record(true, 64 * SECOND);
    assert_eq!(window.totals_at(64 * SECOND), totals(0, 2));
}

#[test]
fn tumbling_window_gives_back_within_its_span_only() {
    let mut window = Window::new(WindowKind::Tumbling, 10 * SECOND);
    let first = window.record(false, 0);
    let second = window.record(true, SECOND);
    window.withdraw(first, 9 * SECOND);
    assert_eq!(window.totals_at(9 * SECOND), totals(0, 1));
    window.withdraw(second, 10 * SECOND);
    window.record(true, 10 * SECOND);
    window.withdraw(second, 11 * SECOND);
    assert_eq!(window.totals_at(11 * SECOND), totals(0, 1));
}

#[test]
fn another_span_takes_each_slot_for_its_middle() {
    let tenth = SECOND / 10;
    let mut window = sliding(64);
    window.record(false, 5 * SECOND);
    window.record(true, 109 * tenth);
    // Slots of 0.6 s: the middles 5.5 and 10.5 s lie in the ninth and the seventeenth.
    window.reshape(WindowKind::Sliding, 384 * tenth, 109 * tenth);
    assert!(!window.ring.coarse, "few outcomes need no coarse ring");
    assert_eq!(window.totals_at(438 * tenth - 1), totals(1, 1));
    assert_eq!(window.totals_at(438 * tenth), totals(0, 1));
    assert_eq!(window.totals_at(486 * tenth - 1), totals(0, 1));
    assert_eq!(window.totals_at(486 * tenth), totals(0, 0));
}

#[test]
fn many_slots_that_become_one_keep_their_counts() {
    let mut window = sliding(200);
    for second in [1, 5, 9, 13] {
        for _ in 0..50_000 {
            window.record(second > 5, second * SECOND);
        }
    }
    let now = 100 * SECOND;
    window.reshape(WindowKind::Sliding, 6_400 * SECOND, now);
    assert_eq!(window.totals_at(now), totals(100_000, 100_000));
    window.record(true, 300 * SECOND);
    assert_eq!(window.totals_at(300 * SECOND), totals(100_000, 100_001));
}

#[test]
fn counts_of_another_kind_of_window_are_taken_for_new() {
    for kind in [WindowKind::Tumbling, WindowKind::Counter] {
        let mut window = Window::new(kind, 100 * SECOND);
        window.record(true, 20 * SECOND);
        window.record(false, 30 * SECOND);
        let now = 100 * SECOND;
        window.reshape(WindowKind::Sliding, 64 * SECOND, now);
        assert_eq!(window.totals_at(now), totals(1, 1), "{kind}");
        assert_eq!(window.totals_at(now + 63 * SECOND), totals(1, 1), "{kind}");
        assert_eq!(window.totals_at(now + 64 * SECOND), totals(0, 0), "{kind}");
    }
}
