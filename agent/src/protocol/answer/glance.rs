//! Tells the usual answer in one pass.
//!
//! Nearly every answer is one object whose choices hold something. That much is seen while the
//! grammar is checked, without taking the document apart and its parts again. Whatever is not
//! surely good is left to the reader that knows the rest.

use super::super::Dialect;
use super::super::frames::is_filled;
use super::super::locate::Scan;

/// True when [`super::inspect`] surely calls the body good.
pub(super) fn is_surely_good(dialect: Dialect, body: &[u8]) -> bool {
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiCompletions => {
            choices_say(body).is_some_and(|says| says)
        }
        _ => false,
    }
}

/// Whether any choice says something; `None` for all that needs a closer look.
fn choices_say(body: &[u8]) -> Option<bool> {
    let mut scan = Scan::open(body).ok()?;
    let mut says = None;
    members(&mut scan, &mut |scan, key| match key {
        b"error" => (!is_filled(value(scan, 1)?)).then_some(()),
        b"type" => (value(scan, 1)? != b"\"error\"").then_some(()),
        b"status" => (value(scan, 1)? != b"\"failed\"").then_some(()),
        b"choices" => {
            // Of two lists the last one counts.
            let one = says.is_none();
            says = Some(list_says(scan)?);
            one.then_some(())
        }
        _ => value(scan, 1).map(|_| ()),
    })?;
    scan.end().ok()?;
    says
}

fn list_says(scan: &mut Scan<'_>) -> Option<bool> {
    scan.expect(b'[').ok()?;
    let mut says = false;
    loop {
        scan.white_space();
        scan.expect(b'{').ok()?;
        says |= choice_says(scan)?;
        scan.white_space();
        match scan.next().ok()? {
            b',' => {}
            b']' => return Some(says),
            _ => return None,
        }
    }
}

fn choice_says(scan: &mut Scan<'_>) -> Option<bool> {
    let mut says = false;
    let (mut message, mut text, mut reason) = (false, false, false);
    // A field that stands twice makes the object unreadable.
    let first = |seen: &mut bool| (!std::mem::replace(seen, true)).then_some(());
    members(scan, &mut |scan, key| {
        match key {
            b"message" => {
                first(&mut message)?;
                if scan.peek() == Some(b'{') {
                    scan.expect(b'{').ok()?;
                    says |= message_says(scan)?;
                } else if value(scan, 3)? != b"null" {
                    return None;
                }
            }
            b"text" => {
                first(&mut text)?;
                says |= is_filled(value(scan, 3)?);
            }
            b"finish_reason" => {
                first(&mut reason)?;
                match value(scan, 3)? {
                    b"null" | b"\"stop\"" => {}
                    b"\"error\"" => return None,
                    [b'"', word @ ..] if !word.contains(&b'\\') => says = true,
                    _ => return None,
                }
            }
            _ => {
                value(scan, 3)?;
            }
        }
        Some(())
    })?;
    Some(says)
}

fn message_says(scan: &mut Scan<'_>) -> Option<bool> {
    let mut says = false;
    members(scan, &mut |scan, key| {
        says |= is_filled(value(scan, 4)?) && key != b"role";
        Some(())
    })?;
    Some(says)
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
