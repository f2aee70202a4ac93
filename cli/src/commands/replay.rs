//! `lanekeeper replay`: a breaker policy tried on recorded outcomes.

use super::document;
use crate::args::{Format, ReplayArguments};
use crate::clock;
use crate::exit::{Failure, Kind};
use crate::output;
use lanekeeper_model::journal::{Journal, JournalLine};
use lanekeeper_model::replay::{
    Policy, ReplayedCell, Suggestions, Truth, Verdict, by_cell, replay, suggest, truth,
};
use lanekeeper_model::{PoolName, check_json};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

mod plot;

/// The pool that a policy without a document is put into, to be checked like any other.
const POOL: &str = "replayed";

/// What came of one cell.
#[derive(Serialize)]
struct Replayed {
    cell: ReplayedCell,
    truth: Truth,
    replay: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestions: Option<Suggestions>,
}

pub(crate) fn run(arguments: &ReplayArguments) -> Result<(), Failure> {
    let text = document::read(&arguments.file)?;
    let journal = Journal::parse(&text).map_err(|error| {
        let text = format!("{} is no journal: {error}", arguments.file.display());
        Failure::new(Kind::Invalid, text)
    })?;
    if journal.is_cut {
        output::error("the journal is cut in its last line, which is left out");
    }
    let wanted = |cell: &ReplayedCell| {
        let is = |asked: &Option<String>, has: &str| asked.as_deref().is_none_or(|it| it == has);
        is(&arguments.pool, &cell.pool) && is(&arguments.lane, &cell.lane)
    };
    let cells = by_cell(&journal.lines);
    let mut results = Vec::new();
    for (cell, lines) in cells.into_iter().filter(|(cell, _)| wanted(cell)) {
        let policy = policy(arguments, &cell.pool)?;
        results.push(play(arguments, cell, &lines, &policy));
    }
    if results.is_empty() {
        let text = "the journal has no outcome of that pool and lane";
        return Err(Failure::new(Kind::Invalid, text.to_owned()));
    }
    if let Some(file) = &arguments.plot {
        draw(file, &results)?;
    }
    match arguments.output {
        Format::Json => output::json(&to_value(&results)),
        Format::Yaml => output::yaml(&to_value(&results))?,
        Format::Table | Format::Wide => results.iter().for_each(table),
    }
    Ok(())
}

fn to_value(results: &[Replayed]) -> Value {
    serde_json::to_value(results).unwrap_or_default()
}

fn play(
    arguments: &ReplayArguments,
    cell: ReplayedCell,
    lines: &[&JournalLine],
    policy: &Arc<Policy>,
) -> Replayed {
    let origin = clock::now();
    let suggests = arguments.suggest || arguments.plot.is_some();
    Replayed {
        truth: truth(lines),
        replay: replay(policy, lines, origin),
        suggestions: suggests.then(|| suggest(policy, lines, origin)),
        cell,
    }
}

/// The policy to try: that of a document's pool, or a breaker block, or the default.
fn policy(arguments: &ReplayArguments, pool: &PoolName) -> Result<Arc<Policy>, Failure> {
    if let Some(file) = &arguments.document {
        let text = document::read(file)?;
        let checked =
            document::check(&text).map_err(|problems| document::invalid(file, &problems))?;
        let gateway = checked.gateway;
        return match gateway.pools.get(pool) {
            Some(pool) => Ok(Arc::clone(&pool.breaker)),
            None if pool.is_direct() => Ok(gateway.direct_breaker),
            None => Err(Failure::new(
                Kind::Invalid,
                format!("{} has no pool {pool}", file.display()),
            )),
        };
    }
    let block: Value = match &arguments.breaker {
        None => json!({}),
        Some(file) => {
            let text = document::read(file)?;
            serde_saphyr::from_str(&text).map_err(|error| {
                Failure::new(Kind::Invalid, format!("{}: {error}", file.display()))
            })?
        }
    };
    // A document around it, so that it is checked as any other is.
    let around = json!({
        "gateway": POOL,
        "providers": {POOL: {"protocol": "openai", "base_url": "http://127.0.0.1:9", "api_key": null}},
        "models": {"lane": {"provider": POOL}},
        "pools": {POOL: {"members": [{"target": "lane"}], "breaker": block}},
    });
    let place = format!("/pools/{POOL}/breaker");
    let checked = check_json(&around).map_err(|mut problems| {
        for problem in &mut problems {
            if let Some(inner) = problem.pointer.strip_prefix(&place) {
                problem.pointer = inner.to_owned();
            }
        }
        let file = arguments
            .breaker
            .as_deref()
            .unwrap_or(Path::new("the policy"));
        document::invalid(file, &problems)
    })?;
    let replayed = checked.gateway.pools.get(POOL);
    let replayed = replayed.map(|pool| Arc::clone(&pool.breaker));
    replayed.ok_or_else(|| Failure::new(Kind::Other, "the policy has no pool".to_owned()))
}

fn draw(file: &Path, results: &[Replayed]) -> Result<(), Failure> {
    let [only] = results else {
        let text = "--plot shows one cell: choose it by --pool and --lane";
        return Err(Failure::new(Kind::Usage, text.to_owned()));
    };
    let title = title(&only.cell);
    let empty = Suggestions::default();
    let found = only.suggestions.as_ref().unwrap_or(&empty);
    let picture = plot::svg(&title, found, &only.replay);
    std::fs::write(file, picture).map_err(|error| {
        let text = format!("cannot write {}: {error}", file.display());
        Failure::new(Kind::Other, text)
    })
}

fn title(cell: &ReplayedCell) -> String {
    let pool = match &*cell.pool {
        "" => "(direct)",
        pool => pool,
    };
    match &cell.endpoint {
        Some(endpoint) => format!("{pool}/{} {endpoint}", cell.lane),
        None => format!("{pool}/{}", cell.lane),
    }
}

fn table(it: &Replayed) {
    let (truth, replay) = (&it.truth, &it.replay);
    output::line(&title(&it.cell));
    output::line(&format!(
        "  recorded: {} good answers and {} failures in {:.0} s; opened {} times, for {:.0} s",
        truth.successes, truth.failures, truth.span_secs, truth.trips, truth.open_secs
    ));
    output::line(&format!(
        "  replayed: {} failures let through, {} spared, {} good answers refused; opened {} times, \
         for {:.0} s; {} probes, parked after {} failures",
        replay.failures_let_through,
        replay.failures_spared,
        replay.successes_refused,
        replay.trips,
        replay.open_secs,
        replay.probes,
        replay.parks
    ));
    for step in &replay.steps {
        let mut line = format!(
            "    {:>12.3}  {:<9}  {}",
            step.at_ms as f64 / 1000.0,
            step.state,
            step.reason
        );
        if let Some(secs) = step.cooldown_secs {
            // Writing to a text cannot fail.
            _ = write!(line, ", for {secs:.1} s");
        }
        output::line(&line);
    }
    let Some(found) = &it.suggestions else { return };
    output::line(&format!(
        "  of {} sets of thresholds no other beats these in both counts:",
        found.tried.len()
    ));
    output::line("    FAILURES  REFUSED  TRIPS  THRESHOLDS");
    for best in &found.best {
        let mark = match found.recommended() == Some(best) {
            true => "  <- smallest sum",
            false => "",
        };
        output::line(&format!(
            "    {:>8}  {:>7}  {:>5}  {}{mark}",
            best.failures_let_through,
            best.successes_refused,
            best.trips,
            plot::thresholds(best)
        ));
    }
}
