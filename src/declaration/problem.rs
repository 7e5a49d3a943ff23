//! Something wrong in a declaration file: its place, what it is, and what would help.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a text; both numbers begin at 1, columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pos {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Pos {
    pub(super) const START: Pos = Pos { line: 1, column: 1 };

    /// The place `columns` characters further on the same line.
    pub(super) fn right(self, columns: usize) -> Pos {
        let columns = u32::try_from(columns).unwrap_or(u32::MAX);
        Pos {
            line: self.line,
            column: self.column.saturating_add(columns),
        }
    }
}

impl fmt::Display for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One thing that is wrong in a declaration file.
///
/// Displayed as `file:line:column: message`, and where there is help, `  help: …` on a second line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, as it was named.
    pub path: PathBuf,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong: a fragment in lower case, without a full stop.
    pub message: String,
    /// What would help, in the same form.
    pub help: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = printable(&self.path.to_string_lossy());
        write!(f, "{path}:{}:{}: {}", self.line, self.column, self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

/// Collects the problems of one file.
pub(super) struct Problems {
    path: PathBuf,
    list: Vec<Problem>,
}

impl Problems {
    pub(super) fn new(path: &Path) -> Problems {
        Problems {
            path: path.to_owned(),
            list: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, at: Pos, message: impl Into<String>) {
        self.push(at, message.into(), None);
    }

    pub(super) fn help(&mut self, at: Pos, message: impl Into<String>, help: impl Into<String>) {
        self.push(at, message.into(), Some(help.into()));
    }

    pub(super) fn push(&mut self, at: Pos, message: String, help: Option<String>) {
        self.list.push(Problem {
            path: self.path.clone(),
            line: at.line,
            column: at.column,
            message,
            help,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn into_result<T>(mut self, value: T) -> Result<T, Vec<Problem>> {
        if self.list.is_empty() {
            return Ok(value);
        }
        self.list.sort();
        self.list.dedup();
        Err(self.list)
    }
}

/// Longest piece of a file that a message repeats, in characters.
const QUOTED: usize = 60;

/// A piece of the file between backticks, cut when long, with nothing that could drive a terminal.
pub(super) fn quoted(text: &str) -> String {
    let mut shown: String = printable(text).chars().take(QUOTED).collect();
    if shown.chars().count() == QUOTED {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// Control and direction-changing characters escaped.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// `a`, `b` or `c`, each between backticks.
pub(super) fn one_of(names: &[&str]) -> String {
    let mut out = String::new();
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            out.push_str(if index + 1 == names.len() {
                " or "
            } else {
                ", "
            });
        }
        out.push_str(&format!("`{name}`"));
    }
    out
}

/// The candidate that `word` was likely meant to be.
///
/// Case and the difference between `-` and `_` weigh nothing; beyond that a third of the word may
/// differ. Only ever shown, never acted on.
pub(super) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    const LONGEST: usize = 64;
    let fold = |text: &str| -> Vec<char> {
        text.to_lowercase()
            .chars()
            .map(|c| if c == '-' { '_' } else { c })
            .collect()
    };
    let word = fold(word);
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    candidates
        .iter()
        .map(|candidate| {
            let folded = fold(candidate);
            let allowed = (word.len().max(folded.len()) / 3).max(1);
            (
                distance(&word, &folded),
                allowed.min(folded.len().saturating_sub(1)),
                *candidate,
            )
        })
        .filter(|(distance, allowed, _)| distance <= allowed)
        .min_by_key(|(distance, _, _)| *distance)
        .map(|(_, _, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours between two words.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = last;
        last = row;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_found_and_a_far_one_is_not() {
        let keys = ["id", "entry", "requires_cwd", "verdict"];
        assert_eq!(nearest("entyr", &keys), Some("entry"));
        assert_eq!(nearest("requires-cwd", &keys), Some("requires_cwd"));
        assert_eq!(nearest("VERDICT", &keys), Some("verdict"));
        assert_eq!(nearest("ids", &keys), Some("id"));
        assert_eq!(nearest("license", &keys), None);
        assert_eq!(nearest("", &keys), None);
        assert_eq!(nearest("x", &keys), None);
    }

    #[test]
    fn quoted_text_is_cut_and_cannot_drive_a_terminal() {
        assert_eq!(quoted("a\u{1b}[2Jb\u{202e}"), "`a\\u{1b}[2Jb\\u{202e}`");
        assert_eq!(quoted(&"x".repeat(500)).chars().count(), QUOTED + 3);
    }

    #[test]
    fn a_problem_shows_its_place_and_its_help_on_a_line_of_its_own() {
        let problem = Problem {
            path: PathBuf::from("a.cap"),
            line: 3,
            column: 7,
            message: "unknown key `x`".to_owned(),
            help: Some("did you mean `y`?".to_owned()),
        };
        assert_eq!(
            problem.to_string(),
            "a.cap:3:7: unknown key `x`\n  help: did you mean `y`?"
        );
    }
}
