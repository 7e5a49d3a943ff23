//! Landlock: every write right that this kernel knows, all required.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};

/// Devices that keep nothing of what is written to them. The list is closed.
pub(crate) const SINKS: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// The least ABI that handles truncation (Linux 6.2): below it a write right is missing.
const LEAST: u32 = 3;

/// From new to old; the first that the kernel takes as a hard requirement is used.
const KNOWN: &[(ABI, u32)] = &[
    (ABI::V10, 10),
    (ABI::V9, 9),
    (ABI::V8, 8),
    (ABI::V7, 7),
    (ABI::V6, 6),
    (ABI::V5, 5),
    (ABI::V4, 4),
    (ABI::V3, 3),
];

/// Restricts the calling process to writing below `writable` and to the sinks. Returns the ABI.
pub(crate) fn apply(writable: &[PathBuf]) -> Result<u32, String> {
    for (abi, number) in KNOWN {
        match ruleset(*abi, writable) {
            Ok(()) => return Ok(*number),
            Err(Refused::Unsupported) => {}
            Err(Refused::Failed(why)) => return Err(why),
        }
    }
    Err(format!("no Landlock of ABI {LEAST} or later"))
}

enum Refused {
    /// The kernel does not know this ABI's rights.
    Unsupported,
    /// It knows them and something else went wrong.
    Failed(String),
}

/// The rights that count as writing; the same set is handled and, below writable folders, granted.
pub(crate) fn write_rights(abi: ABI) -> BitFlags<AccessFs> {
    AccessFs::from_write(abi)
}

fn ruleset(abi: ABI, writable: &[PathBuf]) -> Result<(), Refused> {
    let rights = write_rights(abi);
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset
        .handle_access(rights)
        .map_err(|_| Refused::Unsupported)?;
    let ruleset = if abi >= ABI::V6 {
        ruleset
            .scope(Scope::from_all(abi))
            .map_err(|_| Refused::Unsupported)?
    } else {
        ruleset
    };
    let failed = |what: &Path, e: &dyn std::fmt::Display| {
        Refused::Failed(format!("{}: {e}", what.display()))
    };
    let mut created = ruleset
        .create()
        .map_err(|e| failed(Path::new("ruleset"), &e))?;
    for path in writable {
        let fd = PathFd::new(path).map_err(|e| failed(path, &e))?;
        created = created
            .add_rule(PathBeneath::new(fd, rights))
            .map_err(|e| failed(path, &e))?;
    }
    for sink in SINKS {
        let path = Path::new(sink);
        let Ok(meta) = std::fs::metadata(path) else {
            continue;
        };
        if !meta.is_dir() && !meta.file_type().is_char_device() {
            continue; // something else sits at a device's name: no sink
        }
        let rights = rights & AccessFs::from_file(abi);
        let fd = PathFd::new(path).map_err(|e| failed(path, &e))?;
        created = created
            .add_rule(PathBeneath::new(fd, rights))
            .map_err(|e| failed(path, &e))?;
    }
    let status = created
        .restrict_self()
        .map_err(|e| failed(Path::new("restrict"), &e))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        other => Err(Refused::Failed(format!("ruleset is {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_means_every_right_that_changes_something() {
        let rights = write_rights(ABI::V7);
        for right in [
            AccessFs::WriteFile,
            AccessFs::RemoveDir,
            AccessFs::RemoveFile,
            AccessFs::MakeChar,
            AccessFs::MakeDir,
            AccessFs::MakeReg,
            AccessFs::MakeSock,
            AccessFs::MakeFifo,
            AccessFs::MakeBlock,
            AccessFs::MakeSym,
            AccessFs::Refer,
            AccessFs::Truncate,
            AccessFs::IoctlDev,
        ] {
            assert!(rights.contains(right), "{right:?}");
        }
        for right in [AccessFs::ReadFile, AccessFs::ReadDir, AccessFs::Execute] {
            assert!(!rights.contains(right), "{right:?}");
        }
    }
}
