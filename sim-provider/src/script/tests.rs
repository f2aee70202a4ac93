//! Which turn a request gets, and which scripts are refused.

use super::*;
use crate::dialect::Dialect;
use crate::dialect::conversation::Conversation;
use serde_json::json;

fn script() -> Script {
    let script = json!({"turns": [
        {"text": "Two looks.", "tool_calls": [
            {"name": "look", "arguments": {"at": "the first"}}, {"name": "look"},
        ]},
        {"tool_calls": [{"name": "note", "arguments": {"text": "é"}}]},
        {"text": "Done."},
    ]});
    Script::from_json(script.to_string().as_bytes()).unwrap()
}

/// A request of each dialect that offers `look` and `note` and holds `results` tool results.
fn request(dialect: Dialect, results: usize) -> Value {
    let functions = json!([{"name": "look"}, {"name": "note"}]);
    let nested = json!([
        {"type": "function", "function": {"name": "look"}},
        {"type": "function", "function": {"name": "note"}},
    ]);
    let results = |result: Value| vec![result; results];
    match dialect {
        Dialect::OpenAi | Dialect::Cohere => json!({
            "tools": nested, "messages": results(json!({"role": "tool", "content": "seen"})),
        }),
        Dialect::Responses => json!({
            "tools": [{"type": "namespace", "name": "eyes", "tools": [{"name": "look"}]},
                {"type": "function", "name": "note"}],
            "input": results(json!({"type": "function_call_output", "output": "seen"})),
        }),
        Dialect::Anthropic => json!({
            "tools": functions,
            "messages": [{"role": "user", "content": results(json!({"type": "tool_result"}))}],
        }),
        Dialect::Gemini => json!({
            "tools": [{"functionDeclarations": functions}],
            "contents": [{"parts": results(json!({"functionResponse": {"name": "look"}}))}],
        }),
    }
}

fn turn_of<'a>(script: &'a Script, dialect: Dialect, body: &Value) -> Option<Cue<'a>> {
    let conversation = Conversation::read(dialect, body);
    script.turn(
        |tool| conversation.offers(tool),
        conversation.tool_results(),
    )
}

const DIALECTS: [Dialect; 5] = [
    Dialect::OpenAi,
    Dialect::Responses,
    Dialect::Anthropic,
    Dialect::Gemini,
    Dialect::Cohere,
];

#[test]
fn the_tool_results_choose_the_turn_in_every_dialect() {
    let script = script();
    for dialect in DIALECTS {
        for (results, (turn, earlier)) in [(0, 0), (0, 0), (1, 2), (2, 3), (2, 3)]
            .into_iter()
            .enumerate()
        {
            let request = request(dialect, results);
            let cue = turn_of(&script, dialect, &request).unwrap();
            assert_eq!(*cue.turn, script.turns[turn], "{dialect:?} {results}");
            assert_eq!(cue.earlier_calls, earlier, "{dialect:?} {results}");
        }
    }
}

#[test]
fn requests_without_the_tools_of_the_script_get_no_turn() {
    for dialect in DIALECTS {
        let mut without = request(dialect, 0);
        without["tools"] = json!([{"name": "look"}]);
        assert!(turn_of(&script(), dialect, &without).is_none());
        assert!(turn_of(&script(), dialect, &json!({})).is_none());
    }
}

#[test]
fn a_script_is_refused_with_everything_that_is_wrong() {
    let wrong = json!({"turns": [
        {"text": "No tool."},
        {"tool_calls": [{"name": ""}]},
        {"tool_calls": [{"name": "look"}]},
    ]});
    let refused = Script::from_json(wrong.to_string().as_bytes()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the script is not valid: \
         turns[0].tool_calls: every turn but the last needs one; \
         turns[1].tool_calls[0].name: must not be empty; \
         turns[2].tool_calls: the last turn calls no tools; \
         turns[2].text: the last turn needs one"
    );
    for wrong in [
        "{}",
        "[]",
        r#"{"turns": [], "loop": true}"#,
        r#"{"turns": []}"#,
    ] {
        assert!(Script::from_json(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn pieces_of_arguments_make_the_whole_again() {
    for (_, call) in (Cue {
        turn: &script().turns[1],
        earlier_calls: 0,
    })
    .numbered_calls()
    {
        assert_eq!(call.argument_pieces().concat(), call.arguments_text());
    }
}
