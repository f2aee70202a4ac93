//! Tools of free text where the lane has only functions: the text is the one parameter of a function,
//! and comes back as text, also piece by piece.

use std::borrow::Cow;

use serde::Deserialize;

use super::{CUSTOM_INPUT, HELD_MAX_BYTES, HeldTooMuch};

/// The free text within the arguments of a function that stands for such a tool. What a model wrote in
/// another form is the text itself.
#[must_use]
pub(crate) fn input(arguments: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Wrapped<'a> {
        #[serde(borrow)]
        input: Cow<'a, str>,
    }
    match serde_json::from_str::<Wrapped<'_>>(arguments) {
        Ok(wrapped) => wrapped.input,
        Err(_) => Cow::Borrowed(arguments),
    }
}

/// Takes the free text out of arguments that come in pieces.
#[derive(Debug, Default)]
pub(crate) struct InputPieces {
    state: State,
    /// Everything so far, while it is open whether it has the usual form; then an unfinished escape.
    held: String,
}

#[derive(Debug, Default)]
enum State {
    /// Before the text.
    #[default]
    Head,
    /// Within the text.
    Text,
    /// After it.
    Tail,
}

impl InputPieces {
    /// The text that a piece adds.
    ///
    /// # Errors
    ///
    /// The beginning is no usual one, and too long to be kept to the end.
    pub(crate) fn push(&mut self, piece: &str) -> Result<String, HeldTooMuch> {
        self.held.push_str(piece);
        if matches!(self.state, State::Head) {
            let Some(at) = text_start(&self.held) else {
                return match self.held.len() <= HELD_MAX_BYTES {
                    true => Ok(String::new()),
                    false => Err(HeldTooMuch),
                };
            };
            self.held.drain(..at);
            self.state = State::Text;
        }
        Ok(match self.state {
            State::Text => self.text(),
            State::Head | State::Tail => {
                self.held.clear();
                String::new()
            }
        })
    }

    /// What is left at the end.
    pub(crate) fn end(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Head if held.trim().is_empty() => String::new(),
            State::Head => input(&held).into_owned(),
            State::Text | State::Tail => String::new(),
        }
    }

    /// Decodes what is whole of the text that is held.
    fn text(&mut self) -> String {
        let mut whole = 0;
        let mut rest = self.held.as_str();
        let mut is_over = false;
        while let Some(at) = rest.find(['"', '\\']) {
            let (_, sign) = rest.split_at(at);
            if sign.starts_with('"') {
                whole += at;
                is_over = true;
                break;
            }
            let Some(length) = escape_length(sign) else {
                whole += at;
                return self.decoded(whole);
            };
            whole += at + length;
            rest = sign.get(length..).unwrap_or_default();
        }
        if is_over {
            let text = self.decoded(whole);
            self.held.clear();
            self.state = State::Tail;
            return text;
        }
        let whole = self.held.len();
        self.decoded(whole)
    }

    /// The text that the first `length` held bytes spell; they are held no longer.
    fn decoded(&mut self, length: usize) -> String {
        let rest = self.held.split_off(length);
        let spelled = std::mem::replace(&mut self.held, rest);
        // A model may write signs that JSON wants escaped: line ends in the first place.
        let spelled = spelled
            .replace('\n', "\\n")
            .replace('\r', "\\r")
            .replace('\t', "\\t");
        serde_json::from_str(&format!("\"{spelled}\"")).unwrap_or(spelled)
    }
}

/// The length of the escape at the start; `None` while it is not whole. Both halves of a pair of
/// surrogates are one.
fn escape_length(text: &str) -> Option<usize> {
    let mut signs = text.bytes().skip(1);
    if signs.next()? != b'u' {
        // Of a sign beyond ASCII the decoder makes what it can.
        return text
            .char_indices()
            .nth(2)
            .map_or(Some(text.len()), |(at, _)| Some(at));
    }
    let digits = text.get(2..6)?;
    let is_high =
        u32::from_str_radix(digits, 16).is_ok_and(|code| (0xD800..0xDC00).contains(&code));
    if !is_high {
        return Some(6);
    }
    text.get(6..12).map(|_| 12)
}

/// Where the text begins in `{"input": "text…`; `None` while that is open.
fn text_start(held: &str) -> Option<usize> {
    let mut rest = held.trim_start().strip_prefix('{')?.trim_start();
    rest = rest.strip_prefix('"')?.strip_prefix(CUSTOM_INPUT)?;
    rest = rest.strip_prefix('"')?.trim_start().strip_prefix(':')?;
    rest = rest.trim_start().strip_prefix('"')?;
    Some(held.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "*** Begin Patch\n\t\"größe\" \\ \u{1F600}\u{2028}\n*** End Patch\n";

    #[test]
    fn free_text_comes_back_as_it_was_however_it_is_cut() {
        let plain = serde_json::json!({ CUSTOM_INPUT: PATCH }).to_string();
        let mut escaped = String::new();
        for unit in plain.encode_utf16() {
            match char::from_u32(unit.into()) {
                Some(sign) if sign.is_ascii() => escaped.push(sign),
                _ => escaped.push_str(&format!("\\u{unit:04x}")),
            }
        }
        for arguments in [plain.clone(), escaped, plain.replace(':', " :\n ")] {
            assert_eq!(input(&arguments), PATCH);
            let letters: Vec<char> = arguments.chars().collect();
            for size in 1..=letters.len() {
                let mut pieces = InputPieces::default();
                let mut text = String::new();
                for piece in letters.chunks(size) {
                    let piece: String = piece.iter().collect();
                    text.push_str(&pieces.push(&piece).expect("short"));
                }
                text.push_str(&pieces.end());
                assert_eq!(text, PATCH, "in pieces of {size}: {arguments}");
            }
        }
    }

    #[test]
    fn what_a_model_wrote_in_another_form_is_the_text() {
        for (arguments, wanted) in [
            ("*** Begin Patch", "*** Begin Patch"),
            (r#"{"patch":"x"}"#, r#"{"patch":"x"}"#),
            (r#"{"why":"because","input":"x"}"#, "x"),
            ("", ""),
        ] {
            let mut pieces = InputPieces::default();
            let mut text = pieces.push(arguments).expect("short");
            text.push_str(&pieces.end());
            assert_eq!(text, wanted, "{arguments}");
            assert_eq!(input(arguments), wanted);
        }
        let mut pieces = InputPieces::default();
        let long = "x".repeat(HELD_MAX_BYTES);
        assert_eq!(pieces.push(&long), Ok(String::new()));
        assert_eq!(pieces.push("x"), Err(HeldTooMuch));
    }
}
