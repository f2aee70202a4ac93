//! What became of a cell's attempts, as an agent keeps it and as a file has it: one JSON object a
//! line, the earliest first. A line that is cut off at the end of a file is left out, with words.

use serde::{Deserialize, Serialize};

use crate::ids::{LaneName, PoolName};

/// Outcomes that an agent keeps of one cell.
pub const OUTCOMES_MAX: usize = 1024;
/// Memory that an agent gives to the outcomes of one cell, in bytes.
pub const JOURNAL_BYTES_MAX: usize = 32 * 1024;
/// Longest journal that is read, in lines.
pub const LINES_MAX: usize = 5_000_000;

/// What an attempt proved, or what the cell did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recorded {
    /// A good answer.
    Success,
    /// A failure that time may heal.
    Transient,
    /// A failure of the credential or the account.
    HardDown,
    /// The cell opened.
    Opened,
    /// The cell closed.
    Closed,
}

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalLine {
    /// The pool; empty for direct routes.
    pub pool: PoolName,
    /// The lane.
    pub lane: LaneName,
    /// The endpoint, where the policy keeps a cell for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// When it happened, in milliseconds since any one moment.
    pub at_ms: u64,
    /// What happened.
    pub outcome: Recorded,
    /// Why it failed, in snake case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The HTTP status, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the server asked to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// From the attempt's beginning to its end.
    #[serde(default)]
    pub took_ms: u64,
}

/// A journal that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Its lines, sorted by time.
    pub lines: Vec<JournalLine>,
    /// The last line was cut off and left out.
    pub is_cut: bool,
}

/// Why a journal cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// A line in the middle is no entry.
    #[error("line {line}: {reason}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing in it.
    #[error("there is no outcome in it")]
    Empty,
    /// It is longer than what is read.
    #[error("more than {LINES_MAX} lines")]
    TooLong,
}

impl Journal {
    /// Reads a text.
    ///
    /// # Errors
    ///
    /// [`JournalError`].
    pub fn parse(text: &str) -> Result<Self, JournalError> {
        let mut journal = Self::default();
        let mut lines = text.lines().enumerate().peekable();
        while let Some((index, line)) = lines.next() {
            if index >= LINES_MAX {
                return Err(JournalError::TooLong);
            }
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str(line) {
                Ok(line) => journal.lines.push(line),
                // A file that is still written, or was cut, ends anywhere.
                Err(_) if lines.peek().is_none() && !text.ends_with('\n') => journal.is_cut = true,
                Err(error) => {
                    return Err(JournalError::Line {
                        line: index + 1,
                        reason: error.to_string(),
                    });
                }
            }
        }
        if journal.lines.is_empty() {
            return Err(JournalError::Empty);
        }
        journal.lines.sort_by_key(|line| line.at_ms);
        Ok(journal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"pool":"chat","lane":"a","at_ms":20,"outcome":"success","took_ms":5}
{"pool":"chat","lane":"a","at_ms":10,"outcome":"transient","cause":"status","status":503}
"#;

    #[test]
    fn lines_are_read_and_sorted_by_time() {
        let journal = Journal::parse(GOOD).unwrap();
        let times: Vec<u64> = journal.lines.iter().map(|line| line.at_ms).collect();
        assert_eq!(times, [10, 20]);
        assert_eq!(journal.lines[0].status, Some(503));
        assert!(!journal.is_cut);
        for line in &journal.lines {
            let text = serde_json::to_string(line).unwrap();
            assert_eq!(&Journal::parse(&text).unwrap().lines[0], line);
        }
    }

    #[test]
    fn a_cut_end_is_left_out_with_words_and_a_broken_middle_is_refused() {
        let cut = &GOOD[..GOOD.len() - 10];
        let journal = Journal::parse(cut).unwrap();
        assert!(journal.is_cut);
        assert_eq!(journal.lines.len(), 1);
        let broken = format!("{{\"pool\": 1}}\n{GOOD}");
        let error = Journal::parse(&broken).unwrap_err().to_string();
        assert!(error.starts_with("line 1: "), "{error}");
        let unknown = GOOD.replace("transient", "meh");
        assert!(
            Journal::parse(&unknown)
                .unwrap_err()
                .to_string()
                .starts_with("line 2: ")
        );
        assert_eq!(Journal::parse("\n\n"), Err(JournalError::Empty));
    }
}
