//! Faults: what goes wrong, for whom, how often and for how long.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Faults held at once; further ones are refused.
pub(crate) const MAX_FAULTS: usize = 256;
/// Longest delay and duration that a fault may ask for (one day, in seconds).
const MAX_SECS: f64 = 86_400.0;

/// Where an answer hangs for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hang {
    /// The request is read and nothing is ever answered.
    BeforeHeaders,
    /// Status and headers arrive, the body never does.
    AfterHeaders,
}

/// One fault as `POST /faults` takes it. All that is given applies together; a field left out
/// changes nothing. The first active fault that matches a request is the one that happens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fault {
    /// Only requests for this model; null = any.
    pub model: Option<String>,
    /// Only requests whose path starts with this; null = any.
    pub path: Option<String>,
    /// Answer with this status (200 to 599) and an error body of the dialect, unless `body` is given.
    pub status: Option<u16>,
    /// Headers added to that answer, such as `retry-after`.
    pub headers: BTreeMap<String, String>,
    /// Body of that answer: a string is sent as it is, anything else as JSON.
    pub body: Option<serde_json::Value>,
    /// Hang for ever.
    pub hang: Option<Hang>,
    /// Wait this long before the headers, in milliseconds.
    pub delay_ms: u64,
    /// Break the connection behind this many content frames; 0 = behind the headers. An answer that
    /// is no stream is cut in the middle of its body.
    pub cut_after_frames: Option<usize>,
    /// Send an in-band error behind this many content frames; 0 = as the first frame.
    pub error_after_frames: Option<usize>,
    /// A well-formed answer without any text.
    pub empty: bool,
    /// Share of the matching requests that it happens to, above 0 and up to 1. Default 1.
    pub probability: Option<f64>,
    /// Ends after it happened this many times; null = never.
    pub count: Option<u64>,
    /// Ends after this many seconds; null = never.
    pub duration_secs: Option<f64>,
}

impl Fault {
    /// What is wrong with the fault as written, in words that name the field.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self
            .status
            .is_some_and(|status| !(200..=599).contains(&status))
        {
            problems.push("status: must be from 200 to 599".to_owned());
        }
        if self
            .probability
            .is_some_and(|share| !(share > 0.0 && share <= 1.0))
        {
            problems.push("probability: must be above 0 and at most 1".to_owned());
        }
        if self.count == Some(0) {
            problems.push("count: must be at least 1".to_owned());
        }
        if self
            .duration_secs
            .is_some_and(|secs| !(secs > 0.0 && secs <= MAX_SECS))
        {
            problems.push(format!(
                "duration_secs: must be above 0 and at most {MAX_SECS}"
            ));
        }
        if Duration::from_millis(self.delay_ms).as_secs_f64() > MAX_SECS {
            problems.push(format!("delay_ms: must be at most {}", MAX_SECS * 1000.0));
        }
        if self.body.is_some() && self.status.is_none() {
            problems.push("body: needs a status".to_owned());
        }
        if !self.headers.is_empty() && self.status.is_none() {
            problems.push("headers: need a status".to_owned());
        }
        for (name, value) in &self.headers {
            if http::HeaderName::try_from(name).is_err() {
                problems.push(format!("headers.{name}: not a header name"));
            }
            if http::HeaderValue::try_from(value).is_err() {
                problems.push(format!("headers.{name}: not a header value"));
            }
        }
        let acts = self.status.is_some()
            || self.hang.is_some()
            || self.delay_ms > 0
            || self.cut_after_frames.is_some()
            || self.error_after_frames.is_some()
            || self.empty;
        if !acts {
            problems.push(
                "nothing to do: give status, hang, delay_ms, cut_after_frames, \
                 error_after_frames or empty"
                    .to_owned(),
            );
        }
        problems
    }

    fn matches(&self, model: &str, path: &str) -> bool {
        self.model.as_deref().is_none_or(|wanted| wanted == model)
            && self
                .path
                .as_deref()
                .is_none_or(|prefix| path.starts_with(prefix))
    }
}

/// A fault in force.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Active {
    /// Names it in `DELETE /faults/{id}`.
    pub(crate) id: u64,
    /// Requests it happened to so far.
    pub(crate) happened: u64,
    #[serde(flatten)]
    pub(crate) fault: Fault,
    #[serde(skip)]
    until: Option<Instant>,
}

/// All faults in force, in the order they were set.
#[derive(Debug, Default)]
pub(crate) struct FaultBook {
    last_id: u64,
    active: Vec<Active>,
}

impl FaultBook {
    /// Sets a fault; `None` when the book is full.
    pub(crate) fn add(&mut self, fault: Fault, now: Instant) -> Option<Active> {
        self.expire(now);
        if self.active.len() >= MAX_FAULTS {
            return None;
        }
        self.last_id += 1;
        let until = fault
            .duration_secs
            .map(|secs| now + Duration::from_secs_f64(secs));
        let active = Active {
            id: self.last_id,
            happened: 0,
            fault,
            until,
        };
        self.active.push(active.clone());
        Some(active)
    }

    /// The fault that happens to this request, if one does. `chance` is in [0, 1).
    pub(crate) fn pick(
        &mut self,
        model: &str,
        path: &str,
        now: Instant,
        mut chance: impl FnMut() -> f64,
    ) -> Option<Active> {
        self.expire(now);
        let picked = self.active.iter_mut().find(|active| {
            active.fault.matches(model, path)
                && active
                    .fault
                    .probability
                    .is_none_or(|share| chance() < share)
        })?;
        picked.happened += 1;
        Some(picked.clone())
    }

    /// The faults in force.
    pub(crate) fn list(&mut self, now: Instant) -> &[Active] {
        self.expire(now);
        &self.active
    }

    /// Lifts one fault; false when there is none of that id.
    pub(crate) fn lift(&mut self, id: u64) -> bool {
        let before = self.active.len();
        self.active.retain(|active| active.id != id);
        self.active.len() < before
    }

    /// Lifts all faults and tells how many there were.
    pub(crate) fn clear(&mut self) -> usize {
        std::mem::take(&mut self.active).len()
    }

    fn expire(&mut self, now: Instant) {
        self.active.retain(|active| {
            active.until.is_none_or(|until| now < until)
                && active
                    .fault
                    .count
                    .is_none_or(|count| active.happened < count)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn status(status: u16) -> Fault {
        Fault {
            status: Some(status),
            ..Fault::default()
        }
    }

    #[test]
    fn a_fault_ends_after_its_count() {
        let (mut book, now) = (FaultBook::default(), clock::now());
        book.add(
            Fault {
                count: Some(2),
                ..status(503)
            },
            now,
        );
        let happened = (0..5)
            .filter(|_| book.pick("m", "/", now, || 0.0).is_some())
            .count();
        assert_eq!(happened, 2);
        assert!(book.list(now).is_empty());
    }

    #[test]
    fn a_fault_ends_after_its_duration() {
        let (mut book, now) = (FaultBook::default(), clock::now());
        book.add(
            Fault {
                duration_secs: Some(2.0),
                ..status(503)
            },
            now,
        );
        assert!(
            book.pick("m", "/", now + Duration::from_millis(1999), || 0.0)
                .is_some()
        );
        assert!(
            book.pick("m", "/", now + Duration::from_secs(2), || 0.0)
                .is_none()
        );
    }

    #[test]
    fn a_fault_happens_only_to_its_model_and_path() {
        let (mut book, now) = (FaultBook::default(), clock::now());
        let fault = Fault {
            model: Some("a".to_owned()),
            path: Some("/east".to_owned()),
            ..status(503)
        };
        book.add(fault, now);
        assert!(book.pick("a", "/east/v1/messages", now, || 0.0).is_some());
        assert!(book.pick("a", "/west/v1/messages", now, || 0.0).is_none());
        assert!(book.pick("b", "/east/v1/messages", now, || 0.0).is_none());
    }

    #[test]
    fn the_first_fault_that_matches_and_is_drawn_happens() {
        let (mut book, now) = (FaultBook::default(), clock::now());
        book.add(
            Fault {
                probability: Some(0.5),
                ..status(503)
            },
            now,
        );
        book.add(status(429), now);
        let drawn = |book: &mut FaultBook, chance| {
            book.pick("m", "/", now, || chance)
                .and_then(|active| active.fault.status)
        };
        assert_eq!(drawn(&mut book, 0.49), Some(503));
        assert_eq!(drawn(&mut book, 0.5), Some(429));
    }

    #[test]
    fn a_fault_that_does_nothing_or_is_out_of_range_is_refused() {
        assert_eq!(Fault::default().problems().len(), 1);
        let wrong = Fault {
            status: Some(99),
            probability: Some(f64::NAN),
            count: Some(0),
            duration_secs: Some(-1.0),
            ..Fault::default()
        };
        assert_eq!(wrong.problems().len(), 4, "{:?}", wrong.problems());
        assert!(status(503).problems().is_empty());
    }
}
