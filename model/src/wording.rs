//! What texts of people may hold: they are shown in terminals, logs and pages, where an unseen
//! character could pretend to be something else.

/// Whether a character steers what shows it, or cannot be seen: control characters, line and paragraph
/// separators, marks of writing direction, and characters without width.
///
/// # Examples
///
/// ```
/// use lanekeeper_model::wording::is_unseen;
/// assert!("slow\u{202e}tsaf".contains(is_unseen));
/// assert!(!"Käthe › 中 👍".contains(is_unseen));
/// ```
#[must_use]
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
}
