//! Several documents in one text.

/// The documents of a text, which `---` lines part as YAML has it; empty ones are left out, unless
/// all are.
#[must_use]
pub fn split_documents(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_mark = line.strip_prefix("---").is_some_and(|rest| {
            let rest = rest.trim_end();
            rest.is_empty() || rest.trim_start().starts_with('#') && rest.starts_with([' ', '\t'])
        });
        if is_mark {
            parts.extend(text.get(start..at));
            start = at + line.len();
        }
        at += line.len();
    }
    parts.extend(text.get(start..));
    let is_empty = |part: &&str| {
        let mut lines = part.lines().map(str::trim);
        lines.all(|line| line.is_empty() || line.starts_with('#') || line == "...")
    };
    if parts.iter().all(is_empty) {
        return vec![text];
    }
    parts.retain(|part| !is_empty(part));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_parted_where_yaml_parts_them() {
        for (text, parts) in [
            ("a: 1\n", vec!["a: 1\n"]),
            ("---\na: 1\n", vec!["a: 1\n"]),
            ("a: 1\n---\nb: 2\n", vec!["a: 1\n", "b: 2\n"]),
            ("a: 1\r\n--- # next\r\nb: 2", vec!["a: 1\r\n", "b: 2"]),
            (
                "# head\n---\na: 1\n---\n\n---\nb: 2\n",
                vec!["a: 1\n", "b: 2\n"],
            ),
            ("a: |\n  ---\n  x\n", vec!["a: |\n  ---\n  x\n"]),
            ("a: '----'\n----\n", vec!["a: '----'\n----\n"]),
            ("{\"a\": 1}", vec!["{\"a\": 1}"]),
            ("", vec![""]),
            ("---\n", vec!["---\n"]),
        ] {
            assert_eq!(split_documents(text), parts, "{text:?}");
        }
    }
}
