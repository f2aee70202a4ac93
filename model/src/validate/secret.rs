//! References to secrets. A key pasted where a name or path belongs is refused like any literal key,
//! without repeating it.

use super::Report;
use crate::spec::SecretRef;

/// Longest path of a secret file, in bytes.
const PATH_LEN_MAX: usize = 4096;
/// Longest name of an environment variable, in bytes.
const NAME_LEN_MAX: usize = 128;

pub(super) fn check(secret: &SecretRef, place: &str, report: &mut Report<'_>) {
    match secret {
        SecretRef::Env(name) => {
            let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !(starts_well && name.len() <= NAME_LEN_MAX && name.chars().all(good)) {
                report.refuse(
                    format!("{place}/env"),
                    "invalid_secret_ref",
                    "must be the name of an environment variable: letters, digits and underscores",
                );
            }
        }
        SecretRef::File(path) => {
            let good = path.starts_with('/')
                && path.len() <= PATH_LEN_MAX
                && !path.contains(char::is_control);
            if !good {
                report.refuse(
                    format!("{place}/file"),
                    "invalid_secret_ref",
                    "must be the absolute path of a file",
                );
            }
        }
    }
}

/// The keys of a provider: each by a reference of its own.
pub(super) fn keys(
    keys: Option<&crate::spec::ApiKeys>,
    place: &str,
    report: &mut Report<'_>,
) -> Vec<SecretRef> {
    use crate::spec::ApiKeys;

    let at = format!("{place}/api_key");
    let mut checked: Vec<SecretRef> = Vec::new();
    match keys {
        None => {}
        Some(ApiKeys::One(key)) => {
            check(key, &at, report);
            checked.push(key.clone());
        }
        Some(ApiKeys::Many(keys)) => {
            for (index, key) in keys.iter().enumerate() {
                let at = format!("{at}/{index}");
                check(key, &at, report);
                if checked.contains(key) {
                    report.refuse(at, "duplicate", "is the same reference as one before");
                } else {
                    checked.push(key.clone());
                }
            }
        }
    }
    checked
}
