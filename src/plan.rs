//! Which arms run, with which argv: resolved and ordered, before anything is touched. Pure.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::declaration::{ArmSpec, Declaration};
use crate::record::ArmName;

/// One invocation to make, in both passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedArm {
    /// Which arm.
    pub name: ArmName,
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// A file of the repo for standard input, relative to its top; `None` is `/dev/null`.
    pub stdin: Option<PathBuf>,
    /// The verdict name that the declaration expects.
    pub expect: Option<String>,
}

/// The arms of one capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The arms, in the order in which they run.
    pub arms: Vec<PlannedArm>,
}

impl Plan {
    /// The two declared arms and the entry alone.
    pub fn of_declaration(declaration: &Declaration) -> Plan {
        let entry: Vec<OsString> = declaration.entry.iter().map(OsString::from).collect();
        let declared = |name: ArmName, arm: &ArmSpec| PlannedArm {
            name,
            argv: entry
                .iter()
                .cloned()
                .chain(arm.args.iter().map(OsString::from))
                .collect(),
            stdin: arm.stdin.as_ref().map(PathBuf::from),
            expect: Some(arm.expect.clone()),
        };
        Plan {
            arms: vec![
                declared(
                    ArmName::KnownPositive,
                    &declaration.calibration.known_positive,
                ),
                declared(
                    ArmName::KnownNegative,
                    &declaration.calibration.known_negative,
                ),
                PlannedArm {
                    name: ArmName::NoArgs,
                    argv: entry.clone(),
                    stdin: None,
                    expect: None,
                },
            ],
        }
    }

    /// One argv as it stands.
    pub fn of_command(argv: &[OsString]) -> Plan {
        let command = PlannedArm {
            name: ArmName::Command,
            argv: argv.to_vec(),
            stdin: None,
            expect: None,
        };
        Plan {
            arms: vec![command],
        }
    }
}

/// Files that an argv names and without which it cannot start, as written: the program, and for an
/// interpreter its script.
///
/// A program without a slash is looked up in PATH and is not among them.
pub fn needed_files(argv: &[OsString]) -> Vec<PathBuf> {
    let mut needed = Vec::new();
    let Some(program) = argv.first().map(Path::new) else {
        return needed;
    };
    if program.components().count() > 1 || program.is_absolute() {
        needed.push(program.to_owned());
    }
    if is_interpreter(program)
        && let Some(script) = argv.get(1)
        && !script.as_encoded_bytes().starts_with(b"-")
    {
        needed.push(PathBuf::from(script));
    }
    needed
}

/// Programs whose first plain argument is a script file.
fn is_interpreter(program: &Path) -> bool {
    const NAMES: &[&str] = &[
        "sh", "bash", "dash", "ksh", "zsh", "perl", "ruby", "node", "python", "python2", "python3",
    ];
    program
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| NAMES.contains(&name))
}

/// Folders, relative to the top, that hold a file which `argv` names; for planting canaries beside them.
pub fn entry_folders(argv: &[OsString], cwd: &Path, top: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for argument in argv {
        let path = Path::new(argument);
        let joined = match path.strip_prefix(top) {
            Ok(rest) => rest.to_owned(),
            Err(_) if path.is_relative() => cwd.join(path),
            Err(_) => continue,
        };
        if joined
            .components()
            .any(|c| !matches!(c, Component::Normal(_) | Component::CurDir))
        {
            continue;
        }
        if let Some(folder) = joined.parent() {
            let folder: PathBuf = folder
                .components()
                .filter(|c| matches!(c, Component::Normal(_)))
                .collect();
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn an_interpreter_needs_its_script_and_a_bare_name_needs_nothing() {
        let needed = |words: &[&str]| needed_files(&argv(words));
        assert_eq!(
            needed(&["sh", "scripts/a.sh", "x"]),
            [PathBuf::from("scripts/a.sh")]
        );
        assert_eq!(
            needed(&["/usr/bin/python3", "-c", "1"]),
            [PathBuf::from("/usr/bin/python3")]
        );
        assert_eq!(needed(&["./tool", "x"]), [PathBuf::from("./tool")]);
        assert_eq!(needed(&["git", "status"]), Vec::<PathBuf>::new());
    }

    #[test]
    fn folders_beside_the_entry_stay_below_the_top() {
        let top = Path::new("/r");
        let folders = |words: &[&str], cwd: &str| entry_folders(&argv(words), Path::new(cwd), top);
        assert_eq!(
            folders(&["sh", "./scripts/a.sh"], "sub"),
            [PathBuf::from("sub"), PathBuf::from("sub/scripts")]
        );
        assert_eq!(folders(&["/r/x/y/tool"], ""), [PathBuf::from("x/y")]);
        assert_eq!(
            folders(&["/usr/bin/env", "../out"], ""),
            Vec::<PathBuf>::new()
        );
    }
}
