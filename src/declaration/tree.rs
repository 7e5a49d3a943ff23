//! YAML as a tree with places, read strictly: what a declaration has no use for is refused.
//!
//! Anchors, aliases, merge keys and tags make a text mean something that its reader does not see;
//! a duplicate key makes it mean two things. The limits keep a hostile file cheap. Afterwards a
//! second parser, of another lineage, must read the same tree: a text on which two parsers differ
//! has no meaning to hold anybody to.

use std::collections::BTreeMap;
use std::ops::Range;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::problem::{Pos, Problems, quoted};

/// Deepest nesting that is read.
pub(super) const MAX_DEPTH: usize = 32;
/// Most nodes (scalars, lists, mappings) that are read.
pub(super) const MAX_NODES: usize = 10_000;

/// A value and its place.
pub(super) struct Node {
    pub(super) at: Pos,
    /// From its first to behind its last character, counted in characters.
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
}

/// What a node is.
pub(super) enum Kind {
    Scalar {
        text: String,
        /// Neither quoted nor a block.
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Pair>),
    /// It cannot be read, and that has been reported.
    Unread,
}

/// One key of a mapping with its value.
pub(super) struct Pair {
    pub(super) at: Pos,
    pub(super) key: String,
    pub(super) value: Node,
}

/// The type that YAML 1.2's core schema gives a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarType {
    Text,
    Number,
    Boolean,
    Null,
}

impl ScalarType {
    /// `yes` and `no` are strings, unlike in YAML 1.1.
    pub(super) fn of(text: &str, plain: bool) -> ScalarType {
        if !plain {
            return ScalarType::Text;
        }
        match text {
            "" | "~" | "null" | "Null" | "NULL" => ScalarType::Null,
            "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => ScalarType::Boolean,
            _ if is_number(text) => ScalarType::Number,
            _ => ScalarType::Text,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            ScalarType::Text => "a string",
            ScalarType::Number => "a number",
            ScalarType::Boolean => "a boolean",
            ScalarType::Null => "nothing",
        }
    }
}

fn is_number(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(text, ".nan" | ".NaN" | ".NAN") || matches!(body, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (body, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_holds = match mantissa.split_once('.') {
        Some((whole, part)) => {
            digits(whole) && digits(part) && !(whole.is_empty() && part.is_empty())
        }
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_holds = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_holds && exponent_holds
}

impl Node {
    /// What it is, for messages.
    pub(super) fn describe(&self) -> &'static str {
        match &self.kind {
            Kind::Scalar { text, plain } => ScalarType::of(text, *plain).name(),
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
            Kind::Unread => "something unreadable",
        }
    }
}

/// A collection that is still open.
enum Frame {
    List {
        at: Pos,
        start: usize,
        items: Vec<Node>,
    },
    Map {
        at: Pos,
        start: usize,
        pairs: Vec<Pair>,
        seen: BTreeMap<String, Pos>,
        key: PendingKey,
    },
}

enum PendingKey {
    /// The next node is a key.
    Awaited,
    /// The next node is this key's value.
    Read { at: Pos, text: String },
    /// The next node is the value of a key that is refused.
    Refused,
}

fn pos(marker: &Marker) -> Pos {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    // A marker that was never set has line 0.
    Pos {
        line: number(marker.line().max(1)),
        column: number(marker.col() + 1),
    }
}

/// Reads the one document of `text`, or `None` where there is none or it could not be followed.
///
/// A refused construct does not stop the reading, so that everything wrong is reported at once; a
/// syntax error and a broken limit do.
pub(super) fn parse(text: &str, problems: &mut Problems) -> Option<Node> {
    let mut reading = Reading {
        problems,
        stack: Vec::new(),
        root: None,
        end: 0,
        nodes: 0,
    };
    let mut documents = 0_u32;
    for event in Parser::new_from_str(text) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                reading
                    .problems
                    .add(pos(error.marker()), format!("not YAML: {}", error.info()));
                return None;
            }
        };
        let at = pos(&span.start);
        match event {
            Event::DocumentStart(explicit) => {
                documents += 1;
                if documents > 1 {
                    reading.problems.help(
                        at,
                        "a second document in one file",
                        "several declarations are items of one list",
                    );
                    return None;
                }
                if explicit {
                    refuse_directives(text, at, reading.problems);
                }
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            event => {
                if !reading.node_event(event, at, &(span.start.index()..span.end.index())) {
                    return None;
                }
            }
        }
    }
    reading.root
}

/// `%YAML 1.1` would turn `yes` into a boolean, `%TAG` hides what a tag means.
fn refuse_directives(text: &str, document: Pos, problems: &mut Problems) {
    for (number, line) in (1_u32..document.line).zip(text.lines()) {
        if line.starts_with('%') && line.trim_end() != "%YAML 1.2" {
            problems.add(
                Pos {
                    line: number,
                    column: 1,
                },
                format!("directive {}", quoted(line.trim_end())),
            );
        }
    }
}

struct Reading<'p> {
    problems: &'p mut Problems,
    stack: Vec<Frame>,
    root: Option<Node>,
    /// Behind the last character that belongs to a node.
    end: usize,
    nodes: usize,
}

impl Reading<'_> {
    /// Takes one event of a node; `false` when a limit is broken.
    fn node_event(&mut self, event: Event<'_>, at: Pos, range: &Range<usize>) -> bool {
        let start = range.start;
        let opens = !matches!(event, Event::SequenceEnd | Event::MappingEnd);
        if opens {
            self.nodes += 1;
            if self.nodes > MAX_NODES {
                self.problems
                    .add(at, format!("more than {MAX_NODES} values in one file"));
                return false;
            }
        }
        // The end of a block collection has no width: it lies where the next thing begins.
        self.end = self.end.max(if opens || !range.is_empty() {
            range.end
        } else {
            0
        });
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_properties(at, anchor, tag.is_some());
                if text.contains('\0') {
                    self.problems.add(at, "a NUL character in a string");
                }
                let plain = style == ScalarStyle::Plain;
                let kind = Kind::Scalar {
                    text: text.into_owned(),
                    plain,
                };
                self.close(Node {
                    at,
                    range: range.clone(),
                    kind,
                });
            }
            Event::Alias(_) => {
                self.problems.help(at, "an alias", "write the value out");
                self.close(Node {
                    at,
                    range: range.clone(),
                    kind: Kind::Unread,
                });
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_properties(at, anchor, tag.is_some());
                self.stack.push(Frame::List {
                    at,
                    start,
                    items: Vec::new(),
                });
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_properties(at, anchor, tag.is_some());
                self.stack.push(Frame::Map {
                    at,
                    start,
                    pairs: Vec::new(),
                    seen: BTreeMap::new(),
                    key: PendingKey::Awaited,
                });
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(Frame::List { at, start, items }) => {
                    let range = start..self.end.max(start);
                    self.close(Node {
                        at,
                        range,
                        kind: Kind::List(items),
                    });
                }
                Some(Frame::Map {
                    at, start, pairs, ..
                }) => {
                    let range = start..self.end.max(start);
                    self.close(Node {
                        at,
                        range,
                        kind: Kind::Map(pairs),
                    });
                }
                None => {}
            },
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
        }
        if self.stack.len() > MAX_DEPTH {
            self.problems
                .add(at, format!("nested deeper than {MAX_DEPTH} levels"));
            return false;
        }
        true
    }

    fn refuse_properties(&mut self, at: Pos, anchor: usize, tagged: bool) {
        if anchor != 0 {
            self.problems
                .help(at, "an anchor", "write the value out where it is needed");
        }
        if tagged {
            self.problems.help(
                at,
                "a tag",
                "leave it out; quotes make a string of anything",
            );
        }
    }

    /// Hands a finished node to the collection around it.
    fn close(&mut self, node: Node) {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Frame::List { items, .. }) => items.push(node),
            Some(Frame::Map {
                pairs, seen, key, ..
            }) => match std::mem::replace(key, PendingKey::Awaited) {
                PendingKey::Awaited => *key = key_of(node, seen, self.problems),
                PendingKey::Read { at, text } => {
                    pairs.push(Pair {
                        at,
                        key: text,
                        value: node,
                    });
                }
                PendingKey::Refused => {}
            },
        }
    }
}

fn key_of(node: Node, seen: &mut BTreeMap<String, Pos>, problems: &mut Problems) -> PendingKey {
    let at = node.at;
    match node.kind {
        Kind::Scalar { text, plain: true } if text == "<<" => {
            problems.help(at, "a merge key", "write the keys out");
            PendingKey::Refused
        }
        Kind::Scalar { text, .. } => match seen.get(&text) {
            Some(first) => {
                problems.add(at, format!("key {} twice, first at {first}", quoted(&text)));
                PendingKey::Refused
            }
            None => {
                seen.insert(text.clone(), at);
                PendingKey::Read { at, text }
            }
        },
        Kind::List(_) | Kind::Map(_) => {
            problems.add(at, "a key that is a list or a mapping");
            PendingKey::Refused
        }
        Kind::Unread => PendingKey::Refused,
    }
}

/// Reads `text` again with the other parser and reports where it refuses or differs.
pub(super) fn second_opinion(text: &str, root: &Node, problems: &mut Problems) {
    match serde_yaml::from_str::<serde_yaml::Value>(text) {
        Err(error) => {
            let at = error.location().map_or(Pos::START, |location| {
                let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).max(1);
                Pos {
                    line: number(location.line()),
                    column: number(location.column()),
                }
            });
            problems.add(at, format!("a second YAML parser refuses this: {error}"));
        }
        Ok(value) => compare(root, &value, problems),
    }
}

fn compare(node: &Node, value: &serde_yaml::Value, problems: &mut Problems) {
    use serde_yaml::Value;
    let same = match (&node.kind, value) {
        (Kind::Scalar { text, plain }, Value::String(other)) => {
            text == other && ScalarType::of(text, *plain) == ScalarType::Text
        }
        (Kind::Scalar { text, plain }, Value::Bool(_) | Value::Number(_) | Value::Null) => {
            ScalarType::of(text, *plain) != ScalarType::Text
        }
        (Kind::List(items), Value::Sequence(others)) if items.len() == others.len() => {
            for (item, other) in items.iter().zip(others) {
                compare(item, other, problems);
            }
            true
        }
        (Kind::Map(pairs), Value::Mapping(others)) if pairs.len() == others.len() => {
            for (pair, (key, other)) in pairs.iter().zip(others) {
                if let Value::String(key) = key
                    && *key != pair.key
                {
                    differs(pair.at, problems);
                }
                compare(&pair.value, other, problems);
            }
            true
        }
        _ => false,
    };
    if !same {
        differs(node.at, problems);
    }
}

fn differs(at: Pos, problems: &mut Problems) {
    problems.help(
        at,
        "two YAML parsers read this differently",
        "put it between quotes",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn parse_clean(text: &str) -> Node {
        let mut problems = Problems::new(Path::new("a.yaml"));
        let root = parse(text, &mut problems);
        problems.into_result(()).expect("no problem");
        root.expect("a document")
    }

    fn messages(text: &str) -> Vec<String> {
        let mut problems = Problems::new(Path::new("a.yaml"));
        if let Some(root) = parse(text, &mut problems)
            && problems.is_empty()
        {
            second_opinion(text, &root, &mut problems);
        }
        match problems.into_result(()) {
            Ok(()) => Vec::new(),
            Err(list) => list
                .iter()
                .map(|p| format!("{}:{} {}", p.line, p.column, p.message))
                .collect(),
        }
    }

    fn slice(text: &str, range: &Range<usize>) -> String {
        text.chars().skip(range.start).take(range.len()).collect()
    }

    #[test]
    fn scalars_have_the_types_of_the_core_schema() {
        for text in [
            "0", "-1", "+12", "007", "0x1F", "0o17", "1.5", ".5", "5.", "1e3", "-.inf", ".nan",
        ] {
            assert_eq!(ScalarType::of(text, true), ScalarType::Number, "{text}");
            assert_eq!(ScalarType::of(text, false), ScalarType::Text, "{text}");
        }
        for text in [
            "yes",
            "no",
            "on",
            "2026-08-02",
            "1_000",
            "0b1",
            "1e",
            ".",
            "e3",
            "0x",
            "-0x1",
        ] {
            assert_eq!(ScalarType::of(text, true), ScalarType::Text, "{text}");
        }
        assert_eq!(ScalarType::of("true", true), ScalarType::Boolean);
        assert_eq!(ScalarType::of("~", true), ScalarType::Null);
        assert_eq!(ScalarType::of("", true), ScalarType::Null);
    }

    #[test]
    fn places_and_ranges_count_characters_not_bytes() {
        let text = "- ключ: 'é' # note\n  two: [a,\n    b]\n\n# end\n- x: |\n    line\n\n";
        let Kind::List(items) = parse_clean(text).kind else {
            panic!("a list")
        };
        assert_eq!(items[0].at, Pos { line: 1, column: 3 });
        assert_eq!(
            slice(text, &items[0].range),
            "ключ: 'é' # note\n  two: [a,\n    b]"
        );
        assert_eq!(items[1].at, Pos { line: 6, column: 3 });
        assert_eq!(slice(text, &items[1].range).trim_end(), "x: |\n    line");
        let Kind::Map(pairs) = &items[0].kind else {
            panic!("a mapping")
        };
        assert_eq!(pairs[0].value.at, Pos { line: 1, column: 9 });
    }

    #[test]
    fn what_hides_meaning_is_refused_at_its_place() {
        assert_eq!(
            messages("a: &x 1\nb: *x\n"),
            ["1:4 an anchor", "2:4 an alias"]
        );
        assert_eq!(messages("a: !!str 1\n"), ["1:4 a tag"]);
        assert_eq!(messages("a: 1\n<<: {b: 2}\n"), ["2:1 a merge key"]);
        assert_eq!(
            messages("a: 1\nb: 2\n'a': 3\n"),
            ["3:1 key `a` twice, first at 1:1"]
        );
        assert_eq!(
            messages("a: 1\n---\nb: 2\n"),
            ["2:1 a second document in one file"]
        );
        assert_eq!(
            messages("? [a, b]\n: 1\n"),
            ["1:3 a key that is a list or a mapping"]
        );
        assert_eq!(
            messages("%YAML 1.1\n---\na: yes\n"),
            ["1:1 directive `%YAML 1.1`"]
        );
        assert_eq!(
            messages("a: \"x\\0y\"\n"),
            ["1:4 a NUL character in a string"]
        );
    }

    #[test]
    fn harmless_yaml_passes_both_parsers() {
        for text in [
            "---\na: yes\n...\n",
            "%YAML 1.2\n---\na: 1\n",
            "a: >-\n  folded\n  text\nb: |\n  kept\n",
            "{\"a\": [1, 2.5, true, null, \"x\"]}",
            "a:\r\n- b\r\n- c\r\n",
            "a: 'it''s'\nb: \"\\u00e9\"\n",
            "a: 2026-08-02\n'<<': x\n",
        ] {
            assert_eq!(messages(text), [] as [&str; 0], "{text:?}");
        }
    }

    #[test]
    fn a_text_that_two_parsers_read_differently_is_refused() {
        assert_eq!(
            messages("a: 0b101\n"),
            ["1:4 two YAML parsers read this differently"]
        );
        let seen = messages("a: x\u{2028}b: y\n");
        assert!(
            !seen.is_empty(),
            "a line separator breaks lines in one of them only"
        );
    }

    #[test]
    fn limits_hold() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(messages(&deep(MAX_DEPTH)), [] as [&str; 0]);
        assert_eq!(
            messages(&deep(MAX_DEPTH + 1)),
            ["1:33 nested deeper than 32 levels"]
        );
        let wide = |n: usize| "- 1\n".repeat(n);
        assert_eq!(messages(&wide(MAX_NODES - 1)), [] as [&str; 0]);
        assert_eq!(
            messages(&wide(MAX_NODES)),
            ["10000:3 more than 10000 values in one file"]
        );
    }
}
