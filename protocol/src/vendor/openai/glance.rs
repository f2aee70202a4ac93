//! The fast path: tells the usual answer, and the usual frame of one, in one pass.
//!
//! Nearly every answer is one object whose choices hold something. That much is seen while the
//! grammar is checked, without taking the document apart and its parts again. Whatever is not
//! definitely what it seems is left to the full readers, which agree with it wherever it answers (a
//! test). It is worth its lines because every frame before the commit point and every whole answer
//! passes here: it allocates nothing, where the full readers build a list of members.

use crate::dialect::Operation;
use crate::json::filled::is_filled;
use crate::json::scan::Scan;
use crate::reading::FrameReading;

/// What a chunk that is about no error definitely is; `None` for all that needs a closer look.
pub(super) fn chunk(operation: Operation, data: &[u8]) -> Option<FrameReading> {
    let mut scan = Scan::open(data).ok()?;
    let (mut choices, mut error) = (false, false);
    let mut content = false;
    let mut reason = None;
    members(&mut scan, &mut |scan, key| match key {
        b"error" => {
            first(&mut error)?;
            (!is_filled(value(scan, 1)?)).then_some(())
        }
        b"choices" => {
            first(&mut choices)?;
            list(scan, b"delta", &mut |choice| {
                content |= match operation {
                    Operation::Completions => choice.text,
                    _ => choice.object,
                };
                reason = reason.or(choice.reason);
            })
        }
        _ => value(scan, 1).map(|_| ()),
    })?;
    scan.end().ok()?;
    Some(match reason {
        Some(reason) => FrameReading::Finish {
            natural: reason == Reason::Stop,
            content,
        },
        None if content => FrameReading::Content,
        None => FrameReading::Lifecycle,
    })
}

/// Whether any choice says something; `None` for all that needs a closer look.
pub(super) fn choices_say(body: &[u8]) -> Option<bool> {
    let mut scan = Scan::open(body).ok()?;
    let (mut choices, mut says) = (false, false);
    members(&mut scan, &mut |scan, key| match key {
        b"error" => (!is_filled(value(scan, 1)?)).then_some(()),
        b"type" => (value(scan, 1)? != b"\"error\"").then_some(()),
        b"status" => (value(scan, 1)? != b"\"failed\"").then_some(()),
        b"choices" => {
            first(&mut choices)?;
            list(scan, b"message", &mut |choice| {
                says |= choice.object || choice.text || choice.reason == Some(Reason::Other);
            })
        }
        _ => value(scan, 1).map(|_| ()),
    })?;
    scan.end().ok()?;
    Some(says)
}

/// What a choice holds.
struct Choice {
    /// Its message or delta holds something, but for the role.
    object: bool,
    /// Its text holds something.
    text: bool,
    reason: Option<Reason>,
}

/// Why a choice ended.
#[derive(Clone, Copy, PartialEq)]
enum Reason {
    Stop,
    Other,
}

/// Walks a list that has choices; `name` is that of the object which holds what a choice says.
fn list(scan: &mut Scan<'_>, name: &[u8], each: &mut impl FnMut(Choice)) -> Option<()> {
    scan.expect(b'[').ok()?;
    loop {
        scan.white_space();
        scan.expect(b'{').ok()?;
        each(choice(scan, name)?);
        scan.white_space();
        match scan.next().ok()? {
            b',' => {}
            b']' => return Some(()),
            _ => return None,
        }
    }
}

fn choice(scan: &mut Scan<'_>, name: &[u8]) -> Option<Choice> {
    let (mut has_object, mut has_text, mut has_reason) = (false, false, false);
    let mut seen = Choice {
        object: false,
        text: false,
        reason: None,
    };
    members(scan, &mut |scan, key| {
        match key {
            key if key == name => {
                first(&mut has_object)?;
                if scan.peek() == Some(b'{') {
                    scan.expect(b'{').ok()?;
                    seen.object = holds_something(scan)?;
                } else if value(scan, 3)? != b"null" {
                    return None;
                }
            }
            b"text" => {
                first(&mut has_text)?;
                seen.text = is_filled(value(scan, 3)?);
            }
            b"finish_reason" => {
                first(&mut has_reason)?;
                seen.reason = match value(scan, 3)? {
                    b"null" => None,
                    b"\"error\"" => return None,
                    b"\"stop\"" => Some(Reason::Stop),
                    [b'"', word @ ..] if !word.contains(&b'\\') => Some(Reason::Other),
                    _ => return None,
                };
            }
            _ => {
                value(scan, 3)?;
            }
        }
        Some(())
    })?;
    Some(seen)
}

/// A field that stands twice makes an object unreadable, or means what the last one says.
fn first(seen: &mut bool) -> Option<()> {
    (!std::mem::replace(seen, true)).then_some(())
}

/// True when a member of the object holds something, but for the role.
fn holds_something(scan: &mut Scan<'_>) -> Option<bool> {
    let mut holds = false;
    members(scan, &mut |scan, key| {
        holds |= is_filled(value(scan, 4)?) && key != b"role";
        Some(())
    })?;
    Some(holds)
}

/// Walks the members of an object behind its opening bracket. `each` takes the value of the member
/// it is given the name of. Names in escapes are not read.
fn members<'a>(
    scan: &mut Scan<'a>,
    each: &mut impl FnMut(&mut Scan<'a>, &[u8]) -> Option<()>,
) -> Option<()> {
    scan.white_space();
    if scan.peek() == Some(b'}') {
        return scan.expect(b'}').ok();
    }
    loop {
        let key = scan.string().ok()?;
        let key = scan.text(key);
        if key.contains(&b'\\') {
            return None;
        }
        scan.white_space();
        scan.expect(b':').ok()?;
        scan.white_space();
        each(scan, key)?;
        scan.white_space();
        match scan.next().ok()? {
            b',' => scan.white_space(),
            b'}' => return Some(()),
            _ => return None,
        }
    }
}

/// The bytes of the value that begins here; `depth` levels are open around it.
fn value<'a>(scan: &mut Scan<'a>, depth: u32) -> Option<&'a [u8]> {
    scan.taken(|scan| scan.value(depth)).ok()
}

#[cfg(test)]
mod tests;
