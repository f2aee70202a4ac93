//! How many further attempts a pool may make: a share of the first ones, so that calls that all
//! fail over at once do not multiply the load on the sibling.

use std::collections::VecDeque;
use std::time::Instant;

/// Seconds that the bucket holds.
const SPAN_SECS: u64 = 10;

/// The attempts of the last ten seconds: what first ones paid in, and what further ones took out.
/// What is not taken within the span is lost.
#[derive(Debug, Default)]
pub(crate) struct RetryBucket {
    origin: Option<Instant>,
    /// One for each second of the span in which there were attempts, the earliest first.
    seconds: VecDeque<Second>,
    first: u64,
    further: u64,
}

#[derive(Debug, Clone, Copy)]
struct Second {
    number: u64,
    first: u64,
    further: u64,
}

impl RetryBucket {
    /// A call makes its first attempt.
    pub(crate) fn pay_in(&mut self, now: Instant) {
        self.count(1, 0, now);
    }

    /// Takes a further attempt out of what `ratio` of the first ones and `min_per_sec` leave. False
    /// when the bucket is empty.
    pub(crate) fn take(&mut self, ratio: f64, min_per_sec: f64, now: Instant) -> bool {
        let number = self.number(now);
        self.forget_before(number);
        let allowed = ratio * self.first as f64 + min_per_sec * SPAN_SECS as f64;
        // The tolerance lets 0.2 of five first attempts be one.
        let has_one = self.further.saturating_add(1) as f64 <= allowed + 1e-9;
        if has_one {
            self.count(0, 1, now);
        }
        has_one
    }

    fn count(&mut self, first: u64, further: u64, now: Instant) {
        let number = self.number(now);
        self.forget_before(number);
        self.first += first;
        self.further += further;
        match self.seconds.back_mut() {
            // A clock read on another thread may be a moment behind.
            Some(latest) if latest.number >= number => {
                latest.first += first;
                latest.further += further;
            }
            Some(_) | None => self.seconds.push_back(Second {
                number,
                first,
                further,
            }),
        }
    }

    fn number(&mut self, now: Instant) -> u64 {
        let origin = *self.origin.get_or_insert(now);
        now.saturating_duration_since(origin).as_secs()
    }

    fn forget_before(&mut self, number: u64) {
        let is_old = |second: &Second| second.number + SPAN_SECS <= number;
        while let Some(oldest) = self.seconds.front().copied().filter(is_old) {
            self.first -= oldest.first;
            self.further -= oldest.further;
            self.seconds.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use std::time::Duration;

    fn taken(bucket: &mut RetryBucket, ratio: f64, min_per_sec: f64, now: Instant) -> u32 {
        (0..1000)
            .take_while(|_| bucket.take(ratio, min_per_sec, now))
            .count() as u32
    }

    #[test]
    fn further_attempts_are_a_share_of_the_first_of_the_last_ten_seconds() {
        let start = clock::now();
        let mut bucket = RetryBucket::default();
        for number in 0..100_u32 {
            bucket.pay_in(start + number * Duration::from_millis(50));
        }
        let now = start + Duration::from_secs(5);
        assert_eq!(taken(&mut bucket, 0.2, 0.0, now), 20);
        assert!(!bucket.take(0.2, 0.0, now));
        bucket.pay_in(now);
        assert!(!bucket.take(0.2, 0.0, now));
        for _ in 0..4 {
            bucket.pay_in(now);
        }
        assert!(bucket.take(0.2, 0.0, now), "five more pay for one");
        assert!(!bucket.take(0.2, 0.0, now));
    }

    #[test]
    fn what_is_not_taken_within_ten_seconds_is_lost_and_what_was_taken_is_forgotten() {
        let start = clock::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let mut bucket = RetryBucket::default();
        for _ in 0..50 {
            bucket.pay_in(at(0));
        }
        assert_eq!(taken(&mut bucket, 0.2, 0.0, at(9)), 10);
        assert_eq!(taken(&mut bucket, 0.2, 0.0, at(10)), 0);
        assert_eq!(
            taken(&mut bucket, 0.2, 1.0, at(10)),
            0,
            "ten were just taken"
        );
        assert_eq!(taken(&mut bucket, 0.2, 1.0, at(19)), 10);
        assert!(bucket.seconds.len() <= SPAN_SECS as usize);
    }

    #[test]
    fn some_a_second_are_always_allowed_and_a_clock_that_lags_is_harmless() {
        let start = clock::now();
        let now = start + Duration::from_secs(60);
        let mut bucket = RetryBucket::default();
        bucket.pay_in(start);
        assert_eq!(taken(&mut bucket, 0.1, 2.0, now), 20);
        bucket.pay_in(now - Duration::from_secs(3));
        assert_eq!(taken(&mut bucket, 1.0, 2.0, now), 1);
    }
}
