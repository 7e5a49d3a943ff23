//! Facts about other processes, read from /proc. Every reader copes with a process that is gone.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Process number of the parent of `pid`, as the procfs at `proc` counts.
pub(crate) fn parent_of(proc: &Path, pid: i32) -> Option<i32> {
    stat_field(proc, pid, 1)
}

/// Process group of `pid`.
pub(crate) fn group_of(proc: &Path, pid: i32) -> Option<i32> {
    stat_field(proc, pid, 2)
}

/// Field `index` after the command name in `stat` (0 is the state), see proc_pid_stat(5).
fn stat_field(proc: &Path, pid: i32, index: usize) -> Option<i32> {
    let text = std::fs::read(proc.join(pid.to_string()).join("stat")).ok()?;
    // The command name may hold anything, brackets and spaces too: the last `)` ends it.
    let after = text.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(&text[after + 1..]).ok()?;
    rest.split_whitespace().nth(index)?.parse().ok()
}

/// Thread group (process) of thread `tid`, as the supervisor counts.
pub(crate) fn process_of(tid: i32) -> Option<i32> {
    status_numbers(tid, "Tgid:")?.first().copied()
}

/// Numbers of `tid`'s process in each process namespace it is in, outermost first.
pub(crate) fn numbers_of(tid: i32) -> Option<Vec<i32>> {
    status_numbers(tid, "NStgid:")
}

fn status_numbers(tid: i32, key: &str) -> Option<Vec<i32>> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(
        line.split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect(),
    )
}

/// Basename of the program that `pid` runs; empty when it cannot be read.
pub(crate) fn program_of(pid: i32) -> OsString {
    let exe: PathBuf = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = exe.file_name().map(OsString::from).unwrap_or_default();
    match name.as_bytes().strip_suffix(b" (deleted)") {
        Some(short) => OsString::from_vec(short.to_vec()),
        None => name,
    }
}

/// Most arguments that are kept of a command.
const MOST_ARGUMENTS: usize = 64;

/// Path of the program that `pid` runs, then its arguments; empty when they cannot be read.
pub(crate) fn command_of(pid: i32) -> Vec<OsString> {
    let Ok(exe) = std::fs::read_link(format!("/proc/{pid}/exe")) else {
        return Vec::new();
    };
    let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else {
        return Vec::new();
    };
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let arguments = line.split(|b| *b == 0).skip(1).take(MOST_ARGUMENTS);
    std::iter::once(exe.into_os_string())
        .chain(arguments.map(|a| OsString::from_vec(a.to_vec())))
        .collect()
}

/// Whether `ancestor` is `pid` or one of its ancestors in the procfs at `proc`.
pub(crate) fn is_below(proc: &Path, pid: i32, ancestor: i32) -> bool {
    let mut current = pid;
    // Bounded: a chain read while processes come and go could otherwise run in a circle.
    for _ in 0..4096 {
        if current == ancestor {
            return true;
        }
        match parent_of(proc, current) {
            Some(parent) if parent > 0 => current = parent,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_the_parent_that_the_kernel_says() {
        let own = std::process::id() as i32;
        assert_eq!(
            parent_of(Path::new("/proc"), own),
            Some(nix::unistd::getppid().as_raw())
        );
        assert!(is_below(
            Path::new("/proc"),
            own,
            nix::unistd::getppid().as_raw()
        ));
        assert!(!is_below(
            Path::new("/proc"),
            nix::unistd::getppid().as_raw(),
            own
        ));
    }

    #[test]
    fn a_process_that_is_not_there_has_nothing() {
        assert_eq!(parent_of(Path::new("/proc"), i32::MAX), None);
        assert!(program_of(i32::MAX).is_empty());
    }
}
