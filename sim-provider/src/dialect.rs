//! What a request asks for and how each dialect words the answer.

mod anthropic;
mod cohere;
pub(crate) mod conversation;
mod gemini;
mod openai;
mod played;
mod responses;

use crate::script::Script;
use conversation::Conversation;
use played::{Manner, Played};
use serde_json::{Value, json};

/// Most words that one answer may have, whatever the request says.
const MAX_WORDS: usize = 100_000;
/// Most vectors that one answer may have.
const MAX_VECTORS: usize = 2_048;
/// The prompt's tokens are not counted; every prompt is this long.
const PROMPT_TOKENS: usize = 10;
/// The vector that stands for every text, exact in 32 bits.
const VECTOR: [f64; 3] = [0.25, -0.5, 1.0];
/// [`VECTOR`] as little-endian 32-bit numbers in base64.
const VECTOR_BASE64: &str = "AACAPgAAAL8AAIA/";
/// What an error within an answer says.
pub(crate) const FAILED_WITHIN: &str = "The simulated provider failed within its answer.";

/// A dialect the provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Responses,
    Anthropic,
    Gemini,
    Cohere,
}

/// What is asked of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An answer to a conversation.
    Chat,
    /// The continuation of a text: OpenAI's older way.
    Completion,
    /// One vector for each text.
    Embed,
    /// Gemini's list of single requests, each with a vector of its own.
    EmbedEach,
    /// The length of a prompt.
    CountTokens,
}

/// How the frames of a stream are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON array that grows: what Gemini sends without `alt=sse`.
    Array,
}

/// What a path and its query ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) dialect: Dialect,
    operation: Operation,
    /// Gemini names model and streaming in the path, the others in the body.
    in_path: Option<(String, bool)>,
    framing: Framing,
}

/// A call for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) dialect: Dialect,
    operation: Operation,
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) framing: Framing,
    /// Whether the caller wants a usage chunk at the end (OpenAI's `stream_options`).
    include_usage: bool,
    /// Whether vectors are wanted in base64 (OpenAI's `encoding_format`).
    in_base64: bool,
    /// Texts to turn into vectors.
    inputs: usize,
    pub(crate) words: usize,
    /// The turn of a script that is the answer, if one is.
    played: Option<Box<Played>>,
}

impl Route {
    /// What a path asks for, whatever stands before it.
    pub(crate) fn of(path: &str, query: &str) -> Option<Self> {
        let (dialect, operation) = if path.ends_with("/chat/completions") {
            (Dialect::OpenAi, Operation::Chat)
        } else if path.ends_with("/completions") {
            (Dialect::OpenAi, Operation::Completion)
        } else if path.ends_with("/embeddings") {
            (Dialect::OpenAi, Operation::Embed)
        } else if path.ends_with("/responses") {
            (Dialect::Responses, Operation::Chat)
        } else if path.ends_with("/v1/messages") {
            (Dialect::Anthropic, Operation::Chat)
        } else if path.ends_with("/v1/messages/count_tokens") {
            (Dialect::Anthropic, Operation::CountTokens)
        } else if path.ends_with("/v2/chat") {
            (Dialect::Cohere, Operation::Chat)
        } else {
            return Self::of_gemini(path, query);
        };
        Some(Self {
            dialect,
            operation,
            in_path: None,
            framing: Framing::Events,
        })
    }

    fn of_gemini(path: &str, query: &str) -> Option<Self> {
        let (before, verb) = path.rsplit_once(':')?;
        let (_, model) = before.rsplit_once("/models/")?;
        let (operation, streams) = match verb {
            "generateContent" => (Operation::Chat, false),
            "streamGenerateContent" => (Operation::Chat, true),
            "countTokens" => (Operation::CountTokens, false),
            "embedContent" => (Operation::Embed, false),
            "batchEmbedContents" => (Operation::EmbedEach, false),
            _ => return None,
        };
        let asks_events = query.split('&').any(|pair| pair == "alt=sse");
        Some(Self {
            dialect: Dialect::Gemini,
            operation,
            in_path: Some((model.to_owned(), streams)),
            framing: if asks_events {
                Framing::Events
            } else {
                Framing::Array
            },
        })
    }

    /// Reads a call from its body; the error says what is wrong with it.
    pub(crate) fn read_call(&self, body: &[u8], default_words: usize) -> Result<Call, String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let (model, stream) = match &self.in_path {
            Some(named) => named.clone(),
            None => (
                body.get("model")
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
                body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            ),
        };
        if model.is_empty() {
            return Err("model: a non-empty string is required".to_owned());
        }
        self.check(&body, &model)?;
        let listed = |field: &str| {
            body.get(field)
                .and_then(Value::as_array)
                .map_or(1, Vec::len)
        };
        Ok(Call {
            dialect: self.dialect,
            operation: self.operation,
            model,
            stream: stream && matches!(self.operation, Operation::Chat | Operation::Completion),
            framing: self.framing,
            include_usage: body.pointer("/stream_options/include_usage") == Some(&json!(true)),
            in_base64: body.get("encoding_format") == Some(&json!("base64")),
            inputs: match self.operation {
                Operation::EmbedEach => listed("requests"),
                _ => listed("input"),
            }
            .clamp(1, MAX_VECTORS),
            words: self.words(&body, default_words),
            played: None,
        })
    }

    /// The field a call cannot do without, and the names that must agree with the path's.
    fn check(&self, body: &Value, model: &str) -> Result<(), String> {
        let field = match (self.dialect, self.operation) {
            (Dialect::Gemini, Operation::Chat) => "contents",
            (Dialect::Gemini, Operation::CountTokens) => {
                let inner = body.get("generateContentRequest");
                return same_model(inner.unwrap_or(&Value::Null), model);
            }
            (Dialect::Gemini, Operation::Embed) => {
                same_model(body, model)?;
                "content"
            }
            (_, Operation::EmbedEach) => {
                let requests = body.get("requests").and_then(Value::as_array);
                for request in requests.into_iter().flatten() {
                    same_model(request, model)?;
                }
                "requests"
            }
            (Dialect::Responses, _) | (_, Operation::Embed) => "input",
            (_, Operation::Completion) => "prompt",
            _ => "messages",
        };
        let filled = match body.get(field) {
            Some(Value::Array(items)) => !items.is_empty(),
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(_)) => field == "content",
            _ => false,
        };
        let lists_only = matches!(field, "messages" | "contents" | "requests");
        if filled && (!lists_only || body.get(field).is_some_and(Value::is_array)) {
            Ok(())
        } else {
            Err(format!("{field}: a non-empty value is required"))
        }
    }

    fn words(&self, body: &Value, default_words: usize) -> usize {
        let wanted = [
            "/max_completion_tokens",
            "/max_tokens",
            "/max_output_tokens",
            "/generationConfig/maxOutputTokens",
        ]
        .iter()
        .find_map(|field| body.pointer(field).and_then(Value::as_u64))
        .map(|tokens| usize::try_from(tokens).unwrap_or(MAX_WORDS));
        let words = match (self.dialect, wanted) {
            // Anthropic requires max_tokens, so it is a bound and no wish for that many words.
            (Dialect::Anthropic, Some(most)) => default_words.min(most),
            (_, Some(words)) => words,
            (_, None) => default_words,
        };
        words.clamp(1, MAX_WORDS)
    }
}

/// Gemini refuses a body that names another model than the path.
fn same_model(request: &Value, model: &str) -> Result<(), String> {
    match request.get("model").and_then(Value::as_str) {
        Some(name) if name.strip_prefix("models/").unwrap_or(name) != model => Err(format!(
            "model: the body names {name}, and the path {model}"
        )),
        _ => Ok(()),
    }
}

impl Dialect {
    /// An error body of the dialect for a status.
    pub(crate) fn error_body(self, status: u16, message: &str) -> Value {
        match self {
            Self::OpenAi | Self::Responses => openai::error(status, message),
            Self::Anthropic => anthropic::error(status, message),
            Self::Gemini => gemini::error(status, message),
            Self::Cohere => cohere::error(message),
        }
    }

    /// The one model that every list of models holds.
    pub(crate) fn models(self) -> Value {
        match self {
            Self::Anthropic => anthropic::models(),
            Self::Gemini => gemini::models(),
            _ => openai::models(),
        }
    }
}

impl Call {
    /// Makes a turn of `script` the answer, if the request (`body`) is one that the script is for.
    pub(crate) fn play(&mut self, script: &Script, body: &[u8]) {
        if self.operation != Operation::Chat {
            return;
        }
        let body = serde_json::from_slice(body).unwrap_or_default();
        let manner = Manner {
            model: &self.model,
            framing: self.framing,
            include_usage: self.include_usage,
        };
        let conversation = Conversation::read(self.dialect, &body);
        let offers = |tool: &str| conversation.offers(tool);
        if let Some(cue) = script.turn(offers, conversation.tool_results()) {
            let played = played::play(self.dialect, cue, &manner);
            self.words = played.content.len();
            self.played = Some(Box::new(played));
        }
    }

    /// The whole answer, for a call that is no stream.
    pub(crate) fn answer(&self, words: usize) -> Value {
        if let Some(played) = &self.played {
            return played.whole.clone();
        }
        let (model, text) = (self.model.as_str(), text(words));
        match (self.dialect, self.operation) {
            (Dialect::OpenAi, Operation::Completion) => openai::completion(model, &text, words),
            (Dialect::OpenAi, Operation::Embed) => {
                openai::embeddings(model, self.inputs, self.in_base64)
            }
            (Dialect::OpenAi, _) => openai::answer(model, &text, words),
            (Dialect::Responses, _) => responses::answer(model, &text, words),
            (Dialect::Anthropic, Operation::CountTokens) => json!({"input_tokens": PROMPT_TOKENS}),
            (Dialect::Anthropic, _) => anthropic::answer(model, &text, words),
            (Dialect::Gemini, Operation::CountTokens) => gemini::count(),
            (Dialect::Gemini, Operation::Embed) => gemini::embedding(),
            (Dialect::Gemini, Operation::EmbedEach) => gemini::embeddings(self.inputs),
            (Dialect::Gemini, _) => gemini::answer(model, &text, words),
            (Dialect::Cohere, _) => cohere::answer(&text, words),
        }
    }

    /// Frames before the first content. Gemini has none.
    pub(crate) fn opening(&self) -> String {
        if let Some(played) = &self.played {
            return played.opening.clone();
        }
        match self.dialect {
            Dialect::OpenAi if self.operation == Operation::Completion => String::new(),
            Dialect::OpenAi => openai::opening(&self.model),
            Dialect::Responses => responses::opening(&self.model),
            Dialect::Anthropic => anthropic::opening(&self.model),
            Dialect::Gemini => String::new(),
            Dialect::Cohere => cohere::opening(),
        }
    }

    /// The content frame of word number `index`.
    pub(crate) fn content(&self, index: usize) -> String {
        if let Some(played) = &self.played {
            return played.content.get(index).cloned().unwrap_or_default();
        }
        let word = word(index);
        match self.dialect {
            Dialect::OpenAi if self.operation == Operation::Completion => {
                openai::completion_content(&self.model, word)
            }
            Dialect::OpenAi => openai::content(&self.model, word),
            Dialect::Responses => responses::content(word, index),
            Dialect::Anthropic => anthropic::content(word),
            Dialect::Gemini => gemini::content(&self.model, word, index, self.framing),
            Dialect::Cohere => cohere::content(word),
        }
    }

    /// Frames behind the last content, the terminal signal included.
    pub(crate) fn closing(&self, words: usize) -> String {
        if let Some(played) = &self.played {
            return played.closing.clone();
        }
        match self.dialect {
            Dialect::OpenAi if self.operation == Operation::Completion => {
                openai::completion_closing(&self.model, words, self.include_usage)
            }
            Dialect::OpenAi => openai::closing(&self.model, words, self.include_usage),
            Dialect::Responses => responses::closing(&self.model, &text(words), words),
            Dialect::Anthropic => anthropic::closing(words),
            Dialect::Gemini => gemini::closing(&self.model, words, self.framing),
            Dialect::Cohere => cohere::closing(words),
        }
    }

    /// An in-band error frame behind `sent` content frames.
    pub(crate) fn error_frame(&self, sent: usize) -> String {
        match self.dialect {
            Dialect::OpenAi => openai::error_frame(),
            Dialect::Responses => responses::error_frame(sent),
            Dialect::Anthropic => anthropic::error_frame(),
            Dialect::Gemini => gemini::error_frame(sent, self.framing),
            Dialect::Cohere => cohere::error_frame(),
        }
    }
}

/// A server-sent event with a name.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// Words of the text that every answer is made of.
const TEXT: [&str; 8] = [
    "A ", "lane ", "that ", "holds ", "is ", "a ", "lane ", "kept. ",
];

fn word(index: usize) -> &'static str {
    TEXT.get(index % TEXT.len()).copied().unwrap_or_default()
}

fn text(words: usize) -> String {
    (0..words).map(word).collect()
}

#[cfg(test)]
mod tests;
