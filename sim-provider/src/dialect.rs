//! What a request asks for and how each dialect words the answer.

mod anthropic;
mod openai;

use serde_json::Value;

/// Most words that one answer may have, whatever the request says.
const MAX_WORDS: usize = 100_000;

/// A dialect the provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `POST …/v1/chat/completions`
    OpenAi,
    /// `POST …/v1/messages`
    Anthropic,
}

/// A call for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) dialect: Dialect,
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// Whether the caller wants a usage chunk at the end (OpenAI's `stream_options`).
    pub(crate) include_usage: bool,
    pub(crate) words: usize,
}

impl Dialect {
    /// The dialect of a path, whatever stands before it.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            Some(Self::OpenAi)
        } else if path.ends_with("/v1/messages") {
            Some(Self::Anthropic)
        } else {
            None
        }
    }

    /// Reads a call from its body; the error says what is wrong with it.
    pub(crate) fn read_call(self, body: &[u8], default_words: usize) -> Result<Call, String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let model = match body.get("model").and_then(Value::as_str) {
            Some(model) if !model.is_empty() => model.to_owned(),
            _ => return Err("model: a non-empty string is required".to_owned()),
        };
        if body
            .get("messages")
            .and_then(Value::as_array)
            .is_none_or(Vec::is_empty)
        {
            return Err("messages: a non-empty array is required".to_owned());
        }
        let wanted = ["max_completion_tokens", "max_tokens"]
            .iter()
            .find_map(|field| body.get(field).and_then(Value::as_u64));
        let include_usage = body
            .pointer("/stream_options/include_usage")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        let words = match (self, wanted) {
            // Anthropic requires max_tokens, so it is a bound and no wish for that many words.
            (Self::Anthropic, Some(most)) => default_words.min(to_words(most)),
            (_, Some(words)) => to_words(words),
            (_, None) => default_words,
        };
        Ok(Call {
            dialect: self,
            model,
            stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            include_usage,
            words: words.clamp(1, MAX_WORDS),
        })
    }

    /// An error body of the dialect for a status.
    pub(crate) fn error_body(self, status: u16, message: &str) -> Value {
        match self {
            Self::OpenAi => openai::error(status, message),
            Self::Anthropic => anthropic::error(status, message),
        }
    }
}

impl Call {
    /// The whole answer, for a call that is no stream.
    pub(crate) fn answer(&self, words: usize) -> Value {
        match self.dialect {
            Dialect::OpenAi => openai::answer(&self.model, &text(words), words),
            Dialect::Anthropic => anthropic::answer(&self.model, &text(words), words),
        }
    }

    /// Frames before the first content.
    pub(crate) fn opening(&self) -> String {
        match self.dialect {
            Dialect::OpenAi => openai::opening(&self.model),
            Dialect::Anthropic => anthropic::opening(&self.model),
        }
    }

    /// The content frame of word number `index`.
    pub(crate) fn content(&self, index: usize) -> String {
        match self.dialect {
            Dialect::OpenAi => openai::content(&self.model, word(index)),
            Dialect::Anthropic => anthropic::content(word(index)),
        }
    }

    /// Frames behind the last content, the terminal signal included.
    pub(crate) fn closing(&self, words: usize) -> String {
        match self.dialect {
            Dialect::OpenAi => openai::closing(&self.model, words, self.include_usage),
            Dialect::Anthropic => anthropic::closing(words),
        }
    }

    /// An in-band error frame.
    pub(crate) fn error_frame(&self) -> String {
        match self.dialect {
            Dialect::OpenAi => openai::error_frame(),
            Dialect::Anthropic => anthropic::error_frame(),
        }
    }
}

fn to_words(tokens: u64) -> usize {
    usize::try_from(tokens).unwrap_or(MAX_WORDS)
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
