//! The journal of what arrived, newest last, within a bound.

use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Arrivals kept; the oldest goes first.
const MAX_ARRIVALS: usize = 20_000;

/// One request as it arrived.
#[derive(Debug, Clone, Serialize)]
pub struct Arrival {
    /// Counts up from 1 over the life of the process.
    pub seq: u64,
    /// Wall time of arrival, milliseconds since 1970.
    pub at_ms: u64,
    /// Path with its prefix, as received.
    pub path: String,
    /// The model asked for; empty when the body names none.
    pub model: String,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Header names in lower case with their values; of a repeated header, the last.
    pub headers: BTreeMap<String, String>,
    /// Size of the body in bytes.
    pub body_bytes: usize,
    /// The fault that happened to it.
    pub fault: Option<u64>,
}

/// A bounded list of arrivals.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    last_seq: u64,
    arrivals: VecDeque<Arrival>,
}

impl Journal {
    /// Adds an arrival under the next number.
    pub(crate) fn record(&mut self, mut arrival: Arrival) {
        self.last_seq += 1;
        arrival.seq = self.last_seq;
        if self.arrivals.len() == MAX_ARRIVALS {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(arrival);
    }

    /// Arrivals after number `after`, of `model` if one is named.
    pub(crate) fn list(&self, after: u64, model: Option<&str>) -> Vec<&Arrival> {
        self.arrivals
            .iter()
            .filter(|arrival| arrival.seq > after)
            .filter(|arrival| model.is_none_or(|model| arrival.model == model))
            .collect()
    }

    /// Forgets all arrivals and tells how many there were. Numbers go on.
    pub(crate) fn clear(&mut self) -> usize {
        std::mem::take(&mut self.arrivals).len()
    }
}
