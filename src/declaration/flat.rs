//! The flat notation: one `key: value` a line, `#` comment lines, no nesting, nothing expanded.

use std::collections::BTreeMap;

use super::keys::{Key, Shape};
use super::problem::{Pos, Problems, nearest, one_of, quoted};
use super::words;
use super::written::{Code, Spot, Value, Written};

/// Reads the one declaration of a file. `file` is the whole text, which its digest covers; `body`
/// is the same without a byte order mark.
pub(super) fn read(file: &str, body: &str, problems: &mut Problems) -> Vec<Written> {
    let mut written: Option<Written> = None;
    let mut first: BTreeMap<String, Pos> = BTreeMap::new();
    for (number, line) in (1_u32..).zip(body.lines()) {
        let trimmed = line.trim_start();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let start = Pos {
            line: number,
            column: 1,
        };
        let indent = line.chars().count() - trimmed.chars().count();
        let at = start.right(indent);
        if indent > 0 {
            problems.help(
                at,
                "an indented line",
                "the flat notation has no nesting: each key begins its line",
            );
        }
        let Some((name, rest)) = trimmed.split_once(':') else {
            problems.help(
                at,
                format!(
                    "expected `key: value`, found {}",
                    quoted(trimmed.trim_end())
                ),
                "a comment line begins with `#`",
            );
            continue;
        };
        let written = written.get_or_insert_with(|| Written::new(at, file));
        let value = rest.trim();
        let skipped = rest.chars().take_while(|c| c.is_whitespace()).count();
        let value_at = at.right(name.chars().count() + 1 + skipped);
        if let Some(earlier) = first.get(name) {
            problems.add(
                at,
                format!("key {} twice, first at {earlier}", quoted(name)),
            );
            continue;
        }
        first.insert(name.to_owned(), at);
        let Some(key) = Key::by_flat(name) else {
            unknown(name, at, problems);
            continue;
        };
        let value = read_value(key, name, value, value_at, problems).unwrap_or(Value::Unread);
        written.values.insert(
            key,
            Spot {
                at: value_at,
                value,
            },
        );
    }
    match written {
        Some(written) => vec![written],
        None => {
            if problems.is_empty() {
                problems.add(Pos::START, "no declaration in this file");
            }
            Vec::new()
        }
    }
}

fn unknown(name: &str, at: Pos, problems: &mut Problems) {
    let known: Vec<&str> = Key::ALL.iter().filter_map(|key| key.flat()).collect();
    let below = Key::below(name);
    let below_flat: Vec<&str> = below.iter().filter_map(|key| key.flat()).collect();
    let nested = Key::by_nested(name);
    let help = if !below_flat.is_empty() {
        format!(
            "the flat notation has a key for each of its parts: {}",
            one_of(&below_flat).replace(" or ", ", ")
        )
    } else if !below.is_empty() || nested.is_some_and(|key| key.flat().is_none()) {
        "the flat notation lacks this key; write the declaration in YAML".to_owned()
    } else if let Some(flat) = nested.and_then(Key::flat) {
        format!("in the flat notation it is written `{flat}`")
    } else if name.trim() != name && Key::by_flat(name.trim()).is_some() {
        "no blank stands between the key and its colon".to_owned()
    } else if let Some(near) = nearest(name, &known) {
        format!("did you mean `{near}`?")
    } else {
        format!("known keys: {}", one_of(&known).replace(" or ", ", "))
    };
    problems.help(at, format!("unknown key {}", quoted(name)), help);
}

fn read_value(
    key: Key,
    name: &str,
    value: &str,
    at: Pos,
    problems: &mut Problems,
) -> Option<Value> {
    if value.is_empty() {
        return match key.shape() {
            // An arm with no arguments may say so; an entry is checked to have a word later.
            Shape::Argv => Some(Value::Words(Vec::new())),
            Shape::List => {
                problems.help(
                    at,
                    format!("`{name}` has no value"),
                    "an empty list is written `[]`",
                );
                None
            }
            Shape::Text | Shape::Codes | Shape::Properties => {
                problems.add(at, format!("`{name}` has no value"));
                None
            }
        };
    }
    if key.shape() == Shape::Argv {
        let words = words::split(value, at, problems)?;
        return Some(Value::Words(
            words
                .into_iter()
                .map(|value| Spot {
                    at,
                    value: Some(value),
                })
                .collect(),
        ));
    }
    // A summary is free text; anywhere else these would end up in the value unnoticed.
    if key != Key::Summary && !literal(name, value, at, problems) {
        return None;
    }
    match key.shape() {
        Shape::Text => Some(Value::Text(value.to_owned())),
        Shape::List => list(name, value, at, problems).map(known),
        Shape::Codes => codes(name, value, at, problems).map(Value::Codes),
        Shape::Argv | Shape::Properties => None,
    }
}

fn known(words: Vec<Spot<String>>) -> Value {
    let known = |word: Spot<String>| Spot {
        at: word.at,
        value: Some(word.value),
    };
    Value::Words(words.into_iter().map(known).collect())
}

/// Whether a value holds neither a trailing comment nor quotes around it.
fn literal(name: &str, value: &str, at: Pos, problems: &mut Problems) -> bool {
    let mut clean = true;
    let mut blank = true;
    for (index, c) in value.chars().enumerate() {
        if c == '#' && blank {
            problems.help(
                at.right(index),
                format!("a comment behind the value of `{name}`"),
                "a comment stands on a line of its own",
            );
            clean = false;
            break;
        }
        blank = c.is_whitespace();
    }
    if value.starts_with(['"', '\'']) {
        problems.help(
            at,
            format!("quotes around the value of `{name}`"),
            "the value is taken as it stands: leave the quotes out",
        );
        clean = false;
    }
    clean
}

/// The pieces of `text` between separators, with how many characters stand before each.
fn pieces(text: &str, separates: fn(char) -> bool) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    let mut offset = 0;
    for piece in text.split(separates) {
        let lead = piece.chars().take_while(|c| c.is_whitespace()).count();
        all.push((offset + lead, piece.trim()));
        offset += piece.chars().count() + 1;
    }
    all
}

/// `A B` or `[A, B]`.
fn list(name: &str, value: &str, at: Pos, problems: &mut Problems) -> Option<Vec<Spot<String>>> {
    let bracketed = value.strip_prefix('[');
    let inner = match bracketed {
        Some(rest) => match rest.strip_suffix(']') {
            Some(inner) => inner,
            None => {
                problems.add(at, format!("the bracket of `{name}` is not closed"));
                return None;
            }
        },
        None => value,
    };
    let mut items: Vec<Spot<String>> = Vec::new();
    let mut clean = true;
    if bracketed.is_some() {
        if inner.trim().is_empty() {
            return Some(items);
        }
        for (offset, piece) in pieces(inner, |c| c == ',') {
            let piece_at = at.right(1 + offset);
            if piece.is_empty() || piece.contains(char::is_whitespace) {
                let found = if piece.is_empty() {
                    "an empty item".to_owned()
                } else {
                    quoted(piece)
                };
                problems.help(
                    piece_at,
                    format!("{found} in `{name}`"),
                    "items between brackets are single words with commas between them",
                );
                clean = false;
            }
            items.push(Spot {
                at: piece_at,
                value: piece.to_owned(),
            });
        }
    } else {
        for (offset, piece) in pieces(inner, char::is_whitespace) {
            if !piece.is_empty() {
                items.push(Spot {
                    at: at.right(offset),
                    value: piece.to_owned(),
                });
            }
        }
    }
    for item in &items {
        if item.value.contains([',', '[', ']', '"', '\'']) {
            problems.help(
                item.at,
                format!("{} in `{name}`", quoted(&item.value)),
                "write `A B` or `[A, B]`, without quotes",
            );
            clean = false;
        }
    }
    clean.then_some(items)
}

/// `0=PASS 1=FAIL`.
fn codes(name: &str, value: &str, at: Pos, problems: &mut Problems) -> Option<Vec<Code>> {
    let mut all = Vec::new();
    let mut clean = true;
    for (offset, piece) in pieces(value, char::is_whitespace) {
        if piece.is_empty() {
            continue;
        }
        let piece_at = at.right(offset);
        match piece.split_once('=') {
            Some((code, verdict))
                if !code.is_empty()
                    && !verdict.is_empty()
                    && !verdict.contains(['=', ',', ']', '}', '"', '\'']) =>
            {
                let name_at = piece_at.right(code.chars().count() + 1);
                all.push(Code {
                    code: Spot {
                        at: piece_at,
                        value: code.to_owned(),
                    },
                    name: Some(Spot {
                        at: name_at,
                        value: verdict.to_owned(),
                    }),
                });
            }
            _ => {
                problems.help(
                    piece_at,
                    format!("{} in `{name}`", quoted(piece)),
                    "write code and name like `0=PASS 1=FAIL`",
                );
                clean = false;
            }
        }
    }
    clean.then_some(all)
}
