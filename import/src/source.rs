//! A foreign file as a tree whose every node knows its line.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use std::fmt;

/// Longest file that is read, in bytes.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// A value and its line.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Counted from 1; 0 when it is not known.
    pub(crate) line: u64,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file.
    Map(Vec<(String, Node)>),
}

/// The documents of a YAML file.
pub(crate) fn yaml(text: &str) -> Result<Vec<Node>, String> {
    check_length(text)?;
    let mut nodes = Vec::new();
    let mut skipped = 0;
    for part in lanekeeper_model::split_documents(text) {
        // Where the part begins, for its lines are counted from its own beginning.
        let start = text.get(skipped..).and_then(|rest| rest.find(part));
        let start = skipped + start.unwrap_or_default();
        let before = text.get(..start).unwrap_or_default();
        let lines_before = u64::try_from(before.matches('\n').count()).unwrap_or_default();
        skipped = start + part.len();
        let mut node: Node = serde_saphyr::from_str(part).map_err(|error| error.to_string())?;
        node.shift(lines_before);
        nodes.push(node);
    }
    Ok(nodes)
}

/// A TOML file.
pub(crate) fn toml(text: &str) -> Result<Node, String> {
    check_length(text)?;
    let table = toml::de::DeTable::parse(text).map_err(|error| error.to_string())?;
    let lines = Lines::of(text);
    let span = table.span();
    Ok(Node {
        line: lines.at(span.start),
        kind: of_table(table.get_ref(), &lines),
    })
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    Ok(())
}

impl Node {
    fn shift(&mut self, by: u64) {
        if self.line > 0 {
            self.line += by;
        }
        match &mut self.kind {
            Kind::List(items) => items.iter_mut().for_each(|item| item.shift(by)),
            Kind::Map(entries) => entries.iter_mut().for_each(|(_, item)| item.shift(by)),
            _ => {}
        }
    }
}

/// Where the lines of a text begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(breaks).collect())
    }

    fn at(&self, offset: usize) -> u64 {
        u64::try_from(self.0.partition_point(|start| *start <= offset)).unwrap_or_default()
    }
}

fn of_table(table: &toml::de::DeTable<'_>, lines: &Lines) -> Kind {
    let mut entries: Vec<(usize, String, Node)> = table
        .iter()
        .map(|(key, value)| {
            let start = key.span().start;
            let node = Node {
                line: lines.at(value.span().start.max(start)),
                kind: of_value(value.get_ref(), lines),
            };
            (start, key.get_ref().to_string(), node)
        })
        .collect();
    entries.sort_by_key(|(start, ..)| *start);
    let entries = entries.into_iter().map(|(_, key, node)| (key, node));
    Kind::Map(entries.collect())
}

fn of_value(value: &toml::de::DeValue<'_>, lines: &Lines) -> Kind {
    use toml::de::DeValue;
    match value {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(number) => {
            let text = number.as_str();
            let whole = i64::from_str_radix(text, number.radix());
            whole.map_or_else(
                |_| Kind::Text(text.to_owned()),
                |number| Kind::Number(number as f64),
            )
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse();
            parsed.map_or_else(|_| Kind::Text(number.as_str().to_owned()), Kind::Number)
        }
        DeValue::Boolean(value) => Kind::Bool(*value),
        DeValue::Datetime(moment) => Kind::Text(moment.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| Node {
                line: lines.at(item.span().start),
                kind: of_value(item.get_ref(), lines),
            });
            Kind::List(items.collect())
        }
        DeValue::Table(table) => of_table(table, lines),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Kind>::deserialize(deserializer)?;
        Ok(Self {
            line: spanned.referenced.line(),
            kind: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindVisitor)
    }
}

struct KindVisitor;

impl<'de> Visitor<'de> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_none<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        Kind::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Kind, E> {
        Ok(Kind::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Kind, E> {
        Ok(Kind::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Kind, E> {
        Ok(Kind::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Kind, E> {
        Ok(Kind::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Kind, E> {
        Ok(Kind::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kind, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Kind::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Kind, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<Kind>, Node>()? {
            let mut value: Node = value;
            // The key's line is where a reader looks; a nested value begins on the next.
            let line = key.referenced.line();
            if line > 0 {
                value.line = line;
            }
            let key = match key.value {
                Kind::Text(text) => text,
                Kind::Number(number) => number.to_string(),
                Kind::Bool(value) => value.to_string(),
                _ => String::new(),
            };
            map.push((key, value));
        }
        Ok(Kind::Map(map))
    }
}
