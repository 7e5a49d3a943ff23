//! Declarations on disk: which files hold them, and reading them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use saphyr_parser::{Event, Parser};
use walkdir::WalkDir;

use super::model::{Declaration, Notation};
use super::problem::Problem;
use super::{MAX_BYTES, read_str, too_long};

/// Why declarations could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The path could not be looked at.
    #[error("cannot look at {path}")]
    Stat {
        /// What was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder could not be searched.
    #[error("cannot search {path}")]
    Search {
        /// The folder that was named.
        path: PathBuf,
        /// What the search met.
        source: walkdir::Error,
    },
    /// A file could not be opened.
    #[error("cannot open {path}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be read to its end.
    #[error("cannot read {path}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Neither a file nor a folder.
    #[error("{path} is neither a file nor a folder")]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// A Markdown file was named.
    #[error(
        "{path} is Markdown, and registries in Markdown are not read; name a `.cap`, `.yaml` or `.yml` file"
    )]
    Markdown {
        /// The file.
        path: PathBuf,
    },
    /// The file's extension stands for no notation.
    #[error("{path} has no extension that declarations have: `.cap`, `.yaml` or `.yml`")]
    Extension {
        /// The file.
        path: PathBuf,
    },
    /// The folder holds no declaration.
    #[error("no declaration in {path}: neither a `.cap` file nor YAML with `id` and `entry`")]
    NoneFound {
        /// The folder that was searched.
        path: PathBuf,
    },
    /// Files were read, and something in them is wrong.
    #[error("{}", listed(.0))]
    Invalid(
        /// Every problem of every file, sorted by file and place; never empty.
        Vec<Problem>,
    ),
}

fn listed(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

/// YAML of another tool whose items also have `id` and `entry`.
const FOREIGN: [&str; 2] = [".pre-commit-hooks.yaml", ".pre-commit-hooks.yml"];

/// The declaration files that `path` stands for, sorted.
///
/// A file stands for itself. A folder is searched, without its `.git` folders and without following
/// links to folders, for `*.cap` and for YAML with `id` and `entry` in its top mapping or in a
/// mapping of its top list. It may hold none: then the list is empty.
///
/// # Errors
/// When the path or something below it cannot be looked at, or a file is of no known notation.
pub fn find(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let named = |source| ReadError::Stat {
        path: path.to_owned(),
        source,
    };
    let meta = fs::metadata(path).map_err(named)?;
    if meta.is_file() {
        let extension = path
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        if ["md", "markdown"]
            .iter()
            .any(|md| extension.eq_ignore_ascii_case(md))
        {
            return Err(ReadError::Markdown {
                path: path.to_owned(),
            });
        }
        if Notation::of(path).is_none() {
            return Err(ReadError::Extension {
                path: path.to_owned(),
            });
        }
        return Ok(vec![path.to_owned()]);
    }
    if !meta.is_dir() {
        return Err(ReadError::NotAFile {
            path: path.to_owned(),
        });
    }
    // By the real file, so that a link beside its target is not a second declaration.
    let mut found: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let walk = WalkDir::new(path).sort_by_file_name().into_iter();
    for entry in walk.filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git") {
        let entry = entry.map_err(|source| ReadError::Search {
            path: path.to_owned(),
            source,
        })?;
        let Some(notation) = Notation::of(entry.path()) else {
            continue;
        };
        let linked = entry.path_is_symlink();
        // A link that leads nowhere is no file, whatever its name.
        if !fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file()) {
            continue;
        }
        let foreign = FOREIGN.iter().any(|name| entry.file_name() == *name);
        let holds = match notation {
            Notation::Flat => true,
            Notation::Yaml => !foreign && holds_declaration(&bounded(entry.path())?),
        };
        if holds {
            let real = fs::canonicalize(entry.path()).map_err(|source| ReadError::Stat {
                path: entry.path().to_owned(),
                source,
            })?;
            if linked {
                found.entry(real).or_insert_with(|| entry.path().to_owned());
            } else {
                found.insert(real, entry.path().to_owned());
            }
        }
    }
    let mut files: Vec<PathBuf> = found.into_values().collect();
    files.sort();
    Ok(files)
}

/// Reads every declaration that `path` stands for (see [`find`]), in the order of files and places.
///
/// # Errors
/// When a file cannot be found or read, when there is none, or with all that is wrong in all files:
/// one bad declaration gives no partial result.
pub fn read(path: &Path) -> Result<Vec<Declaration>, ReadError> {
    let files = find(path)?;
    if files.is_empty() {
        return Err(ReadError::NoneFound {
            path: path.to_owned(),
        });
    }
    let mut declarations = Vec::new();
    let mut problems = Vec::new();
    for file in files {
        let bytes = bounded(&file)?;
        let result = if bytes.len() > MAX_BYTES {
            Err(vec![too_long(&file)])
        } else {
            match String::from_utf8(bytes) {
                Ok(text) => read_str(&file, &text),
                Err(error) => {
                    let valid = error.utf8_error().valid_up_to();
                    Err(vec![not_utf8(&file, error.as_bytes(), valid)])
                }
            }
        };
        match result {
            Ok(mut list) => declarations.append(&mut list),
            Err(mut list) => problems.append(&mut list),
        }
    }
    if problems.is_empty() {
        Ok(declarations)
    } else {
        Err(ReadError::Invalid(problems))
    }
}

/// A file's bytes, cut one byte beyond what is read of a declaration.
fn bounded(path: &Path) -> Result<Vec<u8>, ReadError> {
    let open = |source| ReadError::Open {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(open)?;
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|source| ReadError::Content {
            path: path.to_owned(),
            source,
        })?;
    Ok(bytes)
}

fn not_utf8(path: &Path, bytes: &[u8], valid: usize) -> Problem {
    let before = String::from_utf8_lossy(&bytes[..valid]);
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    Problem {
        path: path.to_owned(),
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
        message: format!("byte 0x{:02x} is not UTF-8", bytes[valid]),
        help: None,
    }
}

/// Whether YAML looks like a declaration: `id` and `entry` are keys of one mapping that is the top
/// of a document or an item of its top list.
///
/// Text that cannot be followed to its end as YAML is judged by its lines: a broken declaration must
/// be reported, not passed over.
fn holds_declaration(bytes: &[u8]) -> bool {
    if bytes.len() > MAX_BYTES {
        return false;
    }
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    by_events(text).unwrap_or_else(|| by_lines(text))
}

/// `None` where the text is not YAML.
fn by_events(text: &str) -> Option<bool> {
    struct Open {
        is_map: bool,
        /// In a mapping: the next node is a key.
        key_next: bool,
        id: bool,
        entry: bool,
    }
    let mut stack: Vec<Open> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, _) = event.ok()?;
        let opens = matches!(event, Event::MappingStart(..) | Event::SequenceStart(..));
        let closes = matches!(event, Event::MappingEnd | Event::SequenceEnd);
        if closes {
            stack.pop();
        }
        if opens || closes || matches!(event, Event::Scalar(..) | Event::Alias(_)) {
            let top_map = match stack.as_slice() {
                [map] => map.is_map,
                [list, map] => !list.is_map && map.is_map,
                _ => false,
            };
            // A collection is a node once: when it closes.
            if let Some(open) = stack.last_mut().filter(|open| open.is_map && !opens) {
                if open.key_next
                    && let Event::Scalar(text, ..) = &event
                {
                    open.id |= text == "id";
                    open.entry |= text == "entry";
                }
                open.key_next = !open.key_next;
                if top_map && open.id && open.entry {
                    return Some(true);
                }
            }
        }
        if opens {
            let is_map = matches!(event, Event::MappingStart(..));
            stack.push(Open {
                is_map,
                key_next: true,
                id: false,
                entry: false,
            });
        }
    }
    Some(false)
}

/// Lines that begin with `id:` and `entry:`, perhaps as an item of a list.
fn by_lines(text: &str) -> bool {
    let begins = |key: &str| {
        text.lines().any(|line| {
            let line = line.trim_start();
            let line = line.strip_prefix("- ").unwrap_or(line).trim_start();
            line.strip_prefix(key)
                .is_some_and(|rest| rest.trim_start().starts_with(':'))
        })
    };
    begins("id") && begins("entry")
}

#[cfg(test)]
mod tests {
    use super::holds_declaration;

    #[test]
    fn yaml_with_id_and_entry_at_its_top_is_a_declaration() {
        for text in [
            "id: a\nentry: [b]\n",
            "entry: x\nother: {deep: [1]}\nid: y\n",
            "- id: a\n  entry: [b]\n",
            "- {name: x}\n- {entry: [a], id: b}\n",
            "{\"id\": 1, \"entry\": 2}",
            "\u{feff}id: a\nentry: b\n",
        ] {
            assert!(holds_declaration(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn other_yaml_is_not() {
        for text in [
            "",
            "id: a\n",
            "a: id\nb: entry\n",
            "jobs:\n  id: a\n  entry: b\n",
            "- id: a\n- entry: b\n",
            "- - id: a\n    entry: b\n",
            "x: {id: 1}\nentry: 2\n",
            "repos:\n- hooks:\n  - id: a\n    entry: b\n",
        ] {
            assert!(!holds_declaration(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn broken_yaml_is_judged_by_its_lines() {
        assert!(holds_declaration(b"id: a\nentry: [b\nverdict: }\n"));
        assert!(holds_declaration(b"- id: a\n  entry: 'b\n"));
        assert!(!holds_declaration(b"metadata: {{ .Values.x }}\nid: [\n"));
    }
}
