//! `docs/translation.md`: its tables are made from those that the code uses.
//!
//! `UPDATE_TRANSLATION=1 cargo test -p lanekeeper-protocol --test translation page` writes them.

use lanekeeper_protocol::Protocol;
use lanekeeper_protocol::ir::{Answer, Arguments, Finish, Part, PartBody, ToolCall};
use lanekeeper_protocol::translation::{Feature, Take};
use serde_json::Value;

use crate::harness::{facts, translator};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/translation.md");
const BEGIN: &str = "<!-- made by the tests of lanekeeper-protocol: begin -->\n";
const END: &str = "<!-- end -->\n";

/// Every protocol with its column's head.
const LANES: &[(Protocol, &str)] = &[
    (Protocol::Openai, "openai"),
    (Protocol::Responses, "responses"),
    (Protocol::Anthropic, "anthropic"),
    (Protocol::Gemini, "gemini"),
    (Protocol::Cohere, "cohere"),
];

fn row(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<_> = cells.into_iter().collect();
    format!("| {} |\n", cells.join(" | "))
}

fn head(first: &[&str]) -> String {
    let names = first
        .iter()
        .copied()
        .chain(LANES.iter().map(|(_, name)| *name));
    let names: Vec<_> = names.map(str::to_owned).collect();
    let rule = names.iter().map(|_| "---".to_owned()).collect::<Vec<_>>();
    row(names) + &row(rule)
}

fn features() -> String {
    let mut table = head(&["feature", "name in messages"]);
    for feature in Feature::ALL {
        let words = format!("{feature:?}");
        let takes = LANES.iter().map(|(lane, _)| {
            match translator(*lane).takes(*feature) {
                Take::Carried => "carried",
                Take::Cut => "cut",
                Take::Dropped => "dropped",
                Take::Refused => "refused",
            }
            .to_owned()
        });
        table += &row([spaced(&words), format!("`{}`", feature.name())]
            .into_iter()
            .chain(takes));
    }
    table
}

/// `HighTemperature` as "high temperature".
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

fn names() -> String {
    let mut table = head(&["what"]);
    let rules = LANES.iter().map(|(lane, _)| translator(*lane));
    let ids = rules.clone().map(|lane| match lane.id_rule().is_plain {
        true => format!(
            "{} bytes of letters, digits, `_`, `-`",
            lane.id_rule().max_bytes
        ),
        false => format!("{} bytes", lane.id_rule().max_bytes),
    });
    table += &row(std::iter::once("ids of tool calls".to_owned()).chain(ids));
    let names = rules.map(|lane| {
        let rule = lane.name_rule();
        let others: String = { rule.others.iter() }
            .map(|byte| format!(", `{}`", char::from(*byte)))
            .collect();
        format!(
            "{} bytes of letters, digits, `_`, `-`{others}",
            rule.max_bytes
        )
    });
    table + &row(std::iter::once("names of tools".to_owned()).chain(names))
}

/// The members that say why an answer ended.
fn reason(document: &Value) -> String {
    let texts = [
        &document["choices"][0]["finish_reason"],
        &document["stop_reason"],
        &document["candidates"][0]["finishReason"],
        &document["incomplete_details"]["reason"],
        &document["finish_reason"],
        &document["status"],
    ];
    let text = texts.into_iter().find_map(Value::as_str);
    text.map_or_else(|| "-".to_owned(), |text| format!("`{text}`"))
}

fn finishes() -> String {
    let mut table = head(&["the answer ended because"]);
    let declined = || PartBody::Refusal("no".into());
    let called = || {
        PartBody::ToolCall(ToolCall {
            id: "c".into(),
            name: "f".into(),
            arguments: Arguments("{}".into()),
            proof: None,
            is_custom: false,
        })
    };
    for (why, finish, body) in [
        ("the model was done", Finish::Stop, None),
        ("a stop sequence came", Finish::StopSequence(None), None),
        ("of the limit on tokens", Finish::Length, None),
        ("of a call of a tool", Finish::ToolCalls, Some(called())),
        ("of a filter", Finish::Filter, None),
        ("the model declined without a word", Finish::Refusal, None),
        (
            "the model declined in words",
            Finish::Refusal,
            Some(declined()),
        ),
        ("of something else", Finish::Other("else".into()), None),
    ] {
        let answer = Answer {
            finish,
            parts: body.into_iter().map(Part::unplaced).collect(),
            ..Answer::default()
        };
        let said = LANES.iter().map(|(caller, _)| {
            let written = translator(*caller).write_answer(&answer, &facts());
            reason(&serde_json::from_slice(&written).expect("JSON"))
        });
        table += &row(std::iter::once(why.to_owned()).chain(said));
    }
    table
}

#[test]
fn the_page_on_translation_says_what_the_code_does() {
    let made = format!(
        "## What a lane does with a request\n\n{}\n## Ids and names\n\n{}\n## Why an answer ended, as the caller reads it\n\n{}",
        features(),
        names(),
        finishes()
    );
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let (before, rest) = page.split_once(BEGIN).expect("where the tables begin");
    let (own, after) = rest.split_once(END).expect("where the tables end");
    if std::env::var_os("UPDATE_TRANSLATION").is_some() {
        let page = format!("{before}{BEGIN}\n{made}\n{END}{after}");
        std::fs::write(PAGE, page).expect("the page can be written");
        return;
    }
    assert_eq!(
        own.trim(),
        made.trim(),
        "UPDATE_TRANSLATION=1 cargo test -p lanekeeper-protocol --test translation page"
    );
}
