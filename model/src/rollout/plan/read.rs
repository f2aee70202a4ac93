//! Reads a rollout plan from JSON and collects everything that is wrong with it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    ANSWER_TIMEOUT_SECS_MAX, ANSWER_TIMEOUT_SECS_MIN, Canary, HOLD_SECS_MAX, LABEL_LEN_MAX,
    LABELS_MAX, PERCENTS_MAX, RolloutPlan, StagedPlan,
};
use crate::problem::{Problem, pointer};

const STAGED_FIELDS: &[&str] = &[
    "strategy",
    "canary",
    "percents",
    "hold_secs",
    "answer_timeout_secs",
    "open_share_rise_max",
    "exhausted_share_rise_max",
    "exhausted_requests_min",
    "new_problem_share_max",
    "auto_rollback",
];

pub(super) fn plan(value: &Value) -> Result<RolloutPlan, Vec<Problem>> {
    let mut reader = Reader::default();
    let plan = reader.plan(value);
    match plan {
        Some(plan) if reader.problems.is_empty() => Ok(plan),
        Some(_) | None => Err(reader.problems),
    }
}

/// What was found wrong so far.
#[derive(Default)]
struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    fn refuse(&mut self, path: &[&str], code: &str, message: impl Into<String>) {
        let pointer = pointer(path.iter().copied());
        self.problems.push(Problem::new(pointer, code, message));
    }

    fn plan(&mut self, value: &Value) -> Option<RolloutPlan> {
        let Some(fields) = value.as_object() else {
            self.refuse(&[], "wrong_type", "must be an object");
            return None;
        };
        match fields.get("strategy").and_then(Value::as_str) {
            Some("all_at_once") => {
                self.check_names(fields, &["strategy"]);
                Some(RolloutPlan::AllAtOnce)
            }
            Some("staged") => {
                self.check_names(fields, STAGED_FIELDS);
                Some(RolloutPlan::Staged(self.staged(fields)))
            }
            Some(_) | None => {
                let message = "must be all_at_once or staged";
                self.refuse(&["strategy"], "invalid_value", message);
                None
            }
        }
    }

    fn check_names(&mut self, fields: &Map<String, Value>, known: &[&str]) {
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            let message = format!("unknown field; known: {}", known.join(", "));
            self.refuse(&[name], "unknown_key", message);
        }
    }

    fn staged(&mut self, fields: &Map<String, Value>) -> StagedPlan {
        let plan = StagedPlan::default();
        let canary = given(fields, "canary").and_then(|value| self.canary(value));
        let percents = match given(fields, "percents") {
            Some(value) => self.percents(value, canary.as_ref()),
            None => rising_after(&plan.percents, canary.as_ref()),
        };
        StagedPlan {
            percents,
            canary,
            hold_secs: self.whole(fields, "hold_secs", plan.hold_secs, (0, HOLD_SECS_MAX)),
            answer_timeout_secs: self.whole(
                fields,
                "answer_timeout_secs",
                plan.answer_timeout_secs,
                (ANSWER_TIMEOUT_SECS_MIN, ANSWER_TIMEOUT_SECS_MAX),
            ),
            open_share_rise_max: self.share(
                fields,
                "open_share_rise_max",
                plan.open_share_rise_max,
            ),
            exhausted_share_rise_max: self.share(
                fields,
                "exhausted_share_rise_max",
                plan.exhausted_share_rise_max,
            ),
            exhausted_requests_min: self.whole(
                fields,
                "exhausted_requests_min",
                plan.exhausted_requests_min,
                (1, u64::from(u32::MAX)),
            ),
            new_problem_share_max: self.share(
                fields,
                "new_problem_share_max",
                plan.new_problem_share_max,
            ),
            auto_rollback: self.flag(fields, "auto_rollback", plan.auto_rollback),
        }
    }

    fn canary(&mut self, value: &Value) -> Option<Canary> {
        let fields = value.as_object().filter(|fields| fields.len() == 1);
        match fields.and_then(|fields| fields.iter().next()) {
            Some((name, value)) if name == "percent" => self
                .percent(value, &["canary", "percent"])
                .map(Canary::Percent),
            Some((name, value)) if name == "labels" => self.labels(value).map(Canary::Labels),
            Some(_) | None => {
                let message = "must be {\"labels\": {…}} or {\"percent\": 1 to 99}";
                self.refuse(&["canary"], "invalid_value", message);
                None
            }
        }
    }

    fn labels(&mut self, value: &Value) -> Option<BTreeMap<String, String>> {
        let path = ["canary", "labels"];
        let Some(fields) = value.as_object() else {
            self.refuse(&path, "wrong_type", "must be an object of strings");
            return None;
        };
        if fields.is_empty() || fields.len() > LABELS_MAX {
            let message = format!("must have 1 to {LABELS_MAX} labels");
            self.refuse(&path, "out_of_range", message);
        }
        let mut labels = BTreeMap::new();
        for (key, value) in fields.iter().take(LABELS_MAX) {
            let fits = |text: &str| {
                (1..=LABEL_LEN_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
            };
            match value.as_str() {
                Some(text) if fits(key) && fits(text) => {
                    labels.insert(key.clone(), text.to_owned());
                }
                Some(_) | None => {
                    let message =
                        format!("key and value must be texts of 1 to {LABEL_LEN_MAX} bytes");
                    self.refuse(&["canary", "labels", key], "invalid_value", message);
                }
            }
        }
        Some(labels)
    }

    fn percents(&mut self, value: &Value, canary: Option<&Canary>) -> Vec<u8> {
        let Some(items) = value.as_array() else {
            self.refuse(&["percents"], "wrong_type", "must be a list of numbers");
            return Vec::new();
        };
        if items.len() > PERCENTS_MAX {
            let message = format!("must have at most {PERCENTS_MAX} entries");
            self.refuse(&["percents"], "out_of_range", message);
        }
        let mut percents = Vec::new();
        let mut least = floor(canary);
        for (index, item) in items.iter().take(PERCENTS_MAX).enumerate() {
            let index = index.to_string();
            let Some(percent) = self.percent(item, &["percents", &index]) else {
                continue;
            };
            if percent <= least {
                let message = format!("must be more than the stage before it, which has {least}");
                self.refuse(&["percents", &index], "out_of_range", message);
            }
            least = percent;
            percents.push(percent);
        }
        percents
    }

    fn percent(&mut self, value: &Value, path: &[&str]) -> Option<u8> {
        let percent = value
            .as_u64()
            .and_then(|percent| u8::try_from(percent).ok())
            .filter(|percent| (1..=99).contains(percent));
        if percent.is_none() {
            self.refuse(path, "out_of_range", "must be a whole number from 1 to 99");
        }
        percent
    }

    fn whole(
        &mut self,
        fields: &Map<String, Value>,
        name: &str,
        default: u64,
        (least, most): (u64, u64),
    ) -> u64 {
        let Some(value) = given(fields, name) else {
            return default;
        };
        match value.as_u64() {
            Some(number) if (least..=most).contains(&number) => number,
            Some(_) | None => {
                let message = format!("must be a whole number from {least} to {most}");
                self.refuse(&[name], "out_of_range", message);
                default
            }
        }
    }

    fn share(&mut self, fields: &Map<String, Value>, name: &str, default: f64) -> f64 {
        let Some(value) = given(fields, name) else {
            return default;
        };
        match value.as_f64() {
            Some(share) if (0.0..=1.0).contains(&share) => share,
            Some(_) | None => {
                self.refuse(&[name], "out_of_range", "must be a number from 0 to 1");
                default
            }
        }
    }

    fn flag(&mut self, fields: &Map<String, Value>, name: &str, default: bool) -> bool {
        match given(fields, name) {
            None => default,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.refuse(&[name], "wrong_type", "must be true or false");
                default
            }
        }
    }
}

/// A field that is there and not null.
fn given<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

/// What the first share must be more than.
fn floor(canary: Option<&Canary>) -> u8 {
    match canary {
        Some(Canary::Percent(percent)) => *percent,
        Some(Canary::Labels(_)) | None => 0,
    }
}

/// The default shares that are more than the canary's.
fn rising_after(percents: &[u8], canary: Option<&Canary>) -> Vec<u8> {
    let least = floor(canary);
    let rising = percents.iter().copied().filter(|percent| *percent > least);
    rising.collect()
}
