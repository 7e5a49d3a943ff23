//! What a registrant wrote, as written: the model, its two notations, and what is wrong with a file.
//!
//! ```text
//! text -> (YAML tree | flat lines) -> written values with places -> one set of rules -> Declaration
//! ```
//!
//! Both notations meet in `written.rs`, so that each rule exists once and says its place in either.
//! Nothing here judges a claim: [`Declaration`] keeps what was declared, and nothing is guessed.

mod assemble;
mod files;
mod flat;
mod keys;
mod model;
mod problem;
mod tree;
mod words;
mod written;
mod yaml;

pub use files::{ReadError, find, read};
pub use keys::{Key, Required, keys_table};
pub use model::{
    ArmSpec, Calibration, Channel, Constraints, Cwd, Declaration, Input, InputStdin, NameClass,
    Notation, OnExceed, Property, PropertyClass, PropertyValue, ReservedName, Source, VerdictSpec,
};
pub use problem::Problem;

use std::collections::BTreeMap;
use std::path::Path;

use problem::{Pos, Problems};

/// Most bytes that a declaration file may have.
pub const MAX_BYTES: usize = 1 << 20;

const TOO_LONG: &str = "the file is longer than the 1048576 bytes that are read";

/// The problem of a file that is longer than [`MAX_BYTES`].
fn too_long(path: &Path) -> Problem {
    Problem {
        path: path.to_owned(),
        line: 1,
        column: 1,
        message: TOO_LONG.to_owned(),
        help: None,
    }
}

/// Reads every declaration of one file's text. Pure: `path` only names the file, its extension
/// chooses the notation.
///
/// # Errors
/// Every problem of the text, sorted by place. There is no partial result: a file with one bad
/// declaration gives none.
pub fn read_str(path: &Path, text: &str) -> Result<Vec<Declaration>, Vec<Problem>> {
    let mut problems = Problems::new(path);
    let declarations = read_all(path, text, &mut problems);
    problems.into_result(declarations)
}

fn read_all(path: &Path, text: &str, problems: &mut Problems) -> Vec<Declaration> {
    let Some(notation) = Notation::of(path) else {
        problems.help(
            Pos::START,
            "the notation cannot be told from the file's name",
            "declarations end in `.cap`, `.yaml` or `.yml`",
        );
        return Vec::new();
    };
    if text.len() > MAX_BYTES {
        problems.add(Pos::START, TOO_LONG.to_owned());
        return Vec::new();
    }
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some((at, c)) = first_control(body) {
        // A YAML parser may take NUL for the end of its input and read a shorter file than the one
        // that a person sees; no other control character has a business in a declaration either.
        problems.add(at, format!("control character U+{:04X}", u32::from(c)));
        return Vec::new();
    }
    let written = match notation {
        Notation::Yaml => yaml::read(text, body, problems),
        Notation::Flat => flat::read(text, body, problems),
    };
    let mut first_ids: BTreeMap<String, Pos> = BTreeMap::new();
    let mut declarations = Vec::new();
    for one in written {
        let id_at = one.place_of(Key::Id);
        let Some(declaration) = assemble::assemble(path, notation, one, problems) else {
            debug_assert!(
                !problems.is_empty(),
                "a declaration is dropped only for a problem"
            );
            continue;
        };
        match first_ids.get(&declaration.id) {
            Some(first) => problems.add(
                id_at,
                format!(
                    "id {} is declared twice, first at {first}",
                    problem::quoted(&declaration.id)
                ),
            ),
            None => {
                first_ids.insert(declaration.id.clone(), id_at);
            }
        }
        declarations.push(declaration);
    }
    declarations
}

/// The first character that no declaration may hold: a control character but tab, LF and CRLF, or
/// a Unicode line or paragraph separator.
fn first_control(text: &str) -> Option<(Pos, char)> {
    let mut at = Pos::START;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let line_end = c == '\n' || (c == '\r' && chars.peek() == Some(&'\n'));
        // Some readers break lines at these two, others do not.
        let separator = matches!(c, '\u{2028}' | '\u{2029}');
        if separator || (c.is_control() && c != '\t' && !line_end) {
            return Some((at, c));
        }
        if c == '\n' {
            at = Pos {
                line: at.line + 1,
                column: 1,
            };
        } else {
            at.column += 1;
        }
    }
    None
}
