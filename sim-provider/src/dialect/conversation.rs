//! What a request already holds: the tools it offers and the results of those that were called.

use super::Dialect;
use serde_json::Value;
use std::collections::HashSet;

/// The part of a request that a script looks at.
pub(crate) struct Conversation<'a> {
    tools: HashSet<&'a str>,
    tool_results: usize,
}

impl<'a> Conversation<'a> {
    pub(crate) fn read(dialect: Dialect, body: &'a Value) -> Self {
        let mut tools = HashSet::new();
        for tool in list(body, "tools") {
            name_tools(tool, &mut tools);
        }
        let tool_results = match dialect {
            Dialect::OpenAi | Dialect::Cohere => list(body, "messages")
                .filter(|message| is(message, "role", "tool"))
                .count(),
            Dialect::Responses => list(body, "input").filter(|item| is_output(item)).count(),
            Dialect::Anthropic => list(body, "messages")
                .flat_map(|message| list(message, "content"))
                .filter(|block| is(block, "type", "tool_result"))
                .count(),
            Dialect::Gemini => list(body, "contents")
                .flat_map(|content| list(content, "parts"))
                .filter(|part| {
                    part.get("functionResponse").is_some()
                        || part.get("function_response").is_some()
                })
                .count(),
        };
        Self {
            tools,
            tool_results,
        }
    }

    pub(crate) fn offers(&self, tool: &str) -> bool {
        self.tools.contains(tool)
    }

    pub(crate) fn tool_results(&self) -> usize {
        self.tool_results
    }
}

/// Names of one entry of `tools`: its own, or those of the functions or the namespace it holds.
fn name_tools<'a>(tool: &'a Value, names: &mut HashSet<&'a str>) {
    let own = ["/name", "/function/name", "/custom/name"];
    names.extend(
        own.iter()
            .filter_map(|place| tool.pointer(place).and_then(Value::as_str)),
    );
    for held in ["functionDeclarations", "function_declarations", "tools"] {
        let functions = list(tool, held);
        names.extend(functions.filter_map(|function| function.get("name").and_then(Value::as_str)));
    }
}

/// Whether an item of a Responses conversation is what a tool gave back: `function_call_output`,
/// `custom_tool_call_output` and the like.
fn is_output(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.ends_with("_call_output"))
}

fn is(value: &Value, field: &str, wanted: &str) -> bool {
    value.get(field).and_then(Value::as_str) == Some(wanted)
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(field)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}
