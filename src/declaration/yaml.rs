//! The nested notation: from the positioned tree to written values, led by the table of keys.

use std::collections::BTreeMap;

use super::keys::{Key, Shape};
use super::model::{OnExceed, Property, PropertyClass, PropertyValue};
use super::problem::{Problems, nearest, one_of, quoted};
use super::tree::{self, Kind, Node, Pair, ScalarType};
use super::written::{Code, Spot, Value, Word, Written};
use crate::contract::Axis;

/// Reads one declaration, or a list of them.
///
/// `file` is the whole text, which a lone declaration's digest covers; `body` is the same without a
/// byte order mark.
pub(super) fn read(file: &str, body: &str, problems: &mut Problems) -> Vec<Written> {
    let Some(root) = tree::parse(body, problems) else {
        if problems.is_empty() {
            none(problems);
        }
        return Vec::new();
    };
    if problems.is_empty() {
        tree::second_opinion(body, &root, problems);
    }
    match &root.kind {
        Kind::Map(pairs) => vec![declaration(&root, pairs, file, problems)],
        Kind::List(items) if items.is_empty() => {
            none(problems);
            Vec::new()
        }
        Kind::List(items) => {
            // Ranges count characters; one table turns them into bytes, for all items.
            let mut bytes: Vec<usize> = body.char_indices().map(|(byte, _)| byte).collect();
            bytes.push(body.len());
            let byte = |index: usize| bytes.get(index).copied().unwrap_or(body.len());
            let mut all = Vec::new();
            for item in items {
                if let Some(pairs) = mapping(item, "a declaration", problems) {
                    let own = &body[byte(item.range.start)..byte(item.range.end)];
                    all.push(declaration(item, pairs, own.trim_end(), problems));
                }
            }
            all
        }
        Kind::Scalar { .. } => {
            problems.add(
                root.at,
                format!(
                    "expected a declaration or a list of them, found {}",
                    root.describe()
                ),
            );
            Vec::new()
        }
        Kind::Unread => Vec::new(),
    }
}

fn none(problems: &mut Problems) {
    problems.add(super::problem::Pos::START, "no declaration in this file");
}

fn declaration(node: &Node, pairs: &[Pair], own: &str, problems: &mut Problems) -> Written {
    let mut written = Written::new(node.at, own);
    level("", pairs, &mut written, problems);
    written
}

/// Reads the keys of one mapping; `prefix` names the mapping and ends in a point, or is empty.
fn level(prefix: &str, pairs: &[Pair], written: &mut Written, problems: &mut Problems) {
    for pair in pairs {
        let name = format!("{prefix}{}", pair.key);
        if let Some(key) = Key::by_nested(&name) {
            let value = value(key, &pair.value, problems);
            written.values.insert(
                key,
                Spot {
                    at: pair.value.at,
                    value,
                },
            );
            continue;
        }
        let below = Key::below(&name);
        if below.is_empty() {
            unknown(prefix, pair, problems);
        } else if let Some(pairs) = mapping(&pair.value, &format!("`{name}`"), problems) {
            level(&format!("{name}."), pairs, written, problems);
        } else {
            // The keys in it are not missing: their mapping is there and has been reported.
            for key in below {
                written.values.insert(
                    key,
                    Spot {
                        at: pair.value.at,
                        value: Value::Unread,
                    },
                );
            }
        }
    }
}

fn unknown(prefix: &str, pair: &Pair, problems: &mut Problems) {
    let siblings = siblings(prefix);
    let help = if let Some(key) = Key::by_flat(&pair.key).filter(|_| prefix.is_empty()) {
        format!("in YAML it is written `{}`", key.nested())
    } else if let Some(near) = nearest(&pair.key, &siblings) {
        format!("did you mean `{near}`?")
    } else {
        format!("known here: {}", one_of(&siblings).replace(" or ", ", "))
    };
    let place = match prefix.strip_suffix('.') {
        Some(parent) => format!(" in `{parent}`"),
        None => String::new(),
    };
    problems.help(
        pair.at,
        format!("unknown key {}{place}", quoted(&pair.key)),
        help,
    );
}

/// The keys that may stand in the mapping that `prefix` names, in the table's order.
fn siblings(prefix: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for key in Key::ALL {
        let Some(rest) = key.nested().strip_prefix(prefix) else {
            continue;
        };
        let name = rest.split('.').next().unwrap_or(rest);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn value(key: Key, node: &Node, problems: &mut Problems) -> Value {
    let name = key.nested();
    let read = match key.shape() {
        Shape::Text => text(node, &format!("`{name}`"), problems).map(Value::Text),
        Shape::Argv => {
            let help = "write a list of arguments; nothing is run through a shell";
            words(node, name, Some(help), problems).map(Value::Words)
        }
        Shape::List => words(node, name, None, problems).map(Value::Words),
        Shape::Codes => codes(node, name, problems).map(Value::Codes),
        Shape::Properties => properties(node, problems).map(Value::Properties),
    };
    read.unwrap_or(Value::Unread)
}

/// A string; whatever the core schema takes for something else must be quoted.
fn text(node: &Node, what: &str, problems: &mut Problems) -> Option<String> {
    match &node.kind {
        Kind::Scalar { text, plain } => {
            let found = ScalarType::of(text, *plain);
            match found {
                ScalarType::Text => return Some(text.clone()),
                ScalarType::Null => problems.add(node.at, format!("{what} has no value")),
                ScalarType::Number | ScalarType::Boolean => problems.help(
                    node.at,
                    format!(
                        "{what} must be a string, {} is {}",
                        quoted(text),
                        found.name()
                    ),
                    format!("put it between quotes: \"{text}\""),
                ),
            }
            None
        }
        Kind::Unread => None,
        Kind::List(_) | Kind::Map(_) => {
            problems.add(
                node.at,
                format!("{what} must be a string, this is {}", node.describe()),
            );
            None
        }
    }
}

/// A list of strings.
fn words(
    node: &Node,
    name: &str,
    help: Option<&str>,
    problems: &mut Problems,
) -> Option<Vec<Word>> {
    match &node.kind {
        Kind::List(items) => {
            let what = format!("an item of `{name}`");
            let word = |item: &Node| Spot {
                at: item.at,
                value: text(item, &what, problems),
            };
            Some(items.iter().map(word).collect())
        }
        Kind::Unread => None,
        Kind::Scalar { .. } | Kind::Map(_) => {
            let message = format!("`{name}` must be a list, this is {}", node.describe());
            problems.push(node.at, message, help.map(str::to_owned));
            None
        }
    }
}

fn codes(node: &Node, name: &str, problems: &mut Problems) -> Option<Vec<Code>> {
    let pairs = mapping(node, &format!("`{name}`"), problems)?;
    let code = |pair: &Pair| {
        let what = format!("the name of code {}", quoted(&pair.key));
        let verdict = text(&pair.value, &what, problems);
        Code {
            code: Spot {
                at: pair.at,
                value: pair.key.clone(),
            },
            name: verdict.map(|value| Spot {
                at: pair.value.at,
                value,
            }),
        }
    };
    Some(pairs.iter().map(code).collect())
}

const PROPERTY_KEYS: [&str; 3] = ["value", "class", "on_exceed"];

fn properties(node: &Node, problems: &mut Problems) -> Option<BTreeMap<String, Property>> {
    let pairs = mapping(node, "`properties`", problems)?;
    let mut all = BTreeMap::new();
    for pair in pairs {
        if Axis::parse(&pair.key).is_some() {
            // As a property it could be called a preference, and so slip past its own order.
            problems.help(
                pair.at,
                format!("`{}` is an axis, not a property", pair.key),
                format!("write it as `constraints.{}`", pair.key),
            );
            continue;
        }
        if let Some(property) = property(pair, problems) {
            all.insert(pair.key.clone(), property);
        }
    }
    Some(all)
}

fn property(pair: &Pair, problems: &mut Problems) -> Option<Property> {
    let name = format!("properties.{}", pair.key);
    let shown = quoted(&name);
    let pairs = mapping(&pair.value, &shown, problems)?;
    let mut value = None;
    let mut value_seen = false;
    let mut class = None;
    let mut on_exceed = None;
    for inner in pairs {
        match inner.key.as_str() {
            "value" => {
                value_seen = true;
                value = property_value(&inner.value, problems);
            }
            "class" => {
                let what = "the class of a property";
                class = choice(
                    &inner.value,
                    what,
                    PropertyClass::NAMES,
                    PropertyClass::parse,
                    problems,
                );
            }
            "on_exceed" => {
                let what = "`on_exceed`";
                on_exceed = choice(
                    &inner.value,
                    what,
                    OnExceed::NAMES,
                    OnExceed::parse,
                    problems,
                );
            }
            other => {
                let help = match nearest(other, &PROPERTY_KEYS) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "known here: {}",
                        one_of(&PROPERTY_KEYS).replace(" or ", ", ")
                    ),
                };
                problems.help(
                    inner.at,
                    format!("unknown key {} in {shown}", quoted(other)),
                    help,
                );
            }
        }
    }
    if !value_seen {
        problems.add(pair.at, format!("{shown} has no `value`"));
    }
    Some(Property {
        value: value?,
        class,
        on_exceed,
    })
}

fn property_value(node: &Node, problems: &mut Problems) -> Option<PropertyValue> {
    if let Kind::Scalar { text, plain } = &node.kind {
        match ScalarType::of(text, *plain) {
            ScalarType::Text => return Some(PropertyValue::Text(text.clone())),
            ScalarType::Number => return Some(PropertyValue::Number(text.clone())),
            ScalarType::Boolean => {
                return Some(PropertyValue::Boolean(text.eq_ignore_ascii_case("true")));
            }
            ScalarType::Null => {}
        }
    }
    if !matches!(node.kind, Kind::Unread) {
        problems.add(
            node.at,
            format!(
                "a property's value is a string, a number or a boolean, this is {}",
                node.describe()
            ),
        );
    }
    None
}

fn choice<T>(
    node: &Node,
    what: &str,
    names: &[&str],
    parse: fn(&str) -> Option<T>,
    problems: &mut Problems,
) -> Option<T> {
    let written = text(node, what, problems)?;
    let found = parse(&written);
    if found.is_none() {
        super::assemble::not_one_of(node.at, what, &written, names, problems);
    }
    found
}

/// The pairs of a mapping, or a problem that says what stands there instead.
fn mapping<'n>(node: &'n Node, what: &str, problems: &mut Problems) -> Option<&'n [Pair]> {
    match &node.kind {
        Kind::Map(pairs) => Some(pairs),
        Kind::Unread => None,
        Kind::Scalar { .. } | Kind::List(_) => {
            problems.add(
                node.at,
                format!("{what} must be a mapping, this is {}", node.describe()),
            );
            None
        }
    }
}
