//! Programs that would run with rights which the sandbox does not let them have.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid};

use super::ledger::pathless;
use super::memory::{self, Unread};
use super::{Caller, Decision, Supervisor};
use crate::attempt::{Effect, FileKind, Outcome, Place};
use crate::calls::Dir;
use crate::resolve::{Base, End, Object};
use crate::sys::inode;
use crate::sys::seccomp::{Answer, Notification};

/// Longest first line of a script that the kernel reads (`BINPRM_BUF_SIZE`).
const FIRST_LINE: usize = 256;

impl Supervisor {
    /// execve, execveat. Always goes on: no_new_privs holds whatever is executed.
    pub(super) fn execution(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        dir: Dir,
        path: u8,
        flags: Option<u8>,
    ) -> Decision {
        let go_on = Decision::silent(Answer::Continue);
        let flags = flags.map_or(0, |arg| call.args[usize::from(arg)] as i32);
        let raw = match memory::string(caller.tid, call.args[usize::from(path)]) {
            Ok(raw) => raw,
            Err(Unread::Null | Unread::TooLong) => return go_on,
            // What is executed is not known; that it gets no rights is.
            Err(Unread::Hidden) => return delegated(name, b"(unreadable)".to_vec()),
        };
        let base = match dir {
            Dir::Cwd => Base::Cwd,
            Dir::Arg(arg) => match call.args[usize::from(arg)] as i32 {
                libc::AT_FDCWD => Base::Cwd,
                fd => Base::Descriptor(fd),
            },
        };
        let object = match base {
            Base::Descriptor(fd) if raw.is_empty() && flags & libc::AT_EMPTY_PATH != 0 => self
                .world
                .resolver
                .descriptor(caller.tid, fd)
                .ok()
                .map(|(_, object)| object),
            _ => self
                .reach_path(caller, base, raw.clone(), End::Follow)
                .ok()
                .and_then(super::paths::Reached::into_object),
        };
        let Some(object) = object else { return go_on };
        if gives_rights(&object) {
            return delegated(name, raw);
        }
        let Some(interpreter) = interpreter_of(&object) else {
            return go_on;
        };
        let reached = self
            .reach_path(caller, Base::Cwd, interpreter, End::Follow)
            .ok();
        match reached.and_then(super::paths::Reached::into_object) {
            Some(interpreter) if gives_rights(&interpreter) => delegated(name, raw),
            _ => go_on,
        }
    }
}

fn delegated(name: &'static str, raw: Vec<u8>) -> Decision {
    let attempt = pathless(Effect::Kernel, Place::Delegated, Outcome::Denied, name, raw);
    Decision::one(attempt, Answer::Continue)
}

/// Whether executing it outside would add rights: set-user-id of somebody else, set-group-id, or file
/// capabilities, which root has anyway.
fn gives_rights(object: &Object) -> bool {
    if object.kind() != FileKind::File {
        return false;
    }
    let bits = Mode::from_bits_truncate(object.stat.st_mode);
    let user = bits.contains(Mode::S_ISUID) && object.stat.st_uid != Uid::effective().as_raw();
    let group = bits.contains(Mode::S_ISGID | Mode::S_IXGRP)
        && object.stat.st_gid != Gid::effective().as_raw();
    user || group
        || !Uid::effective().is_root()
            && inode::has_xattr(link_of(object).as_ref(), c"security.capability")
}

/// A path of the supervisor's own to an object that is held open.
fn link_of(object: &Object) -> std::path::PathBuf {
    Path::new("/proc/self/fd").join(object.fd.as_raw_fd().to_string())
}

/// The interpreter that a script names in its first line.
fn interpreter_of(object: &Object) -> Option<Vec<u8>> {
    if object.kind() != FileKind::File {
        return None;
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = open(link_of(object).as_path(), flags, Mode::empty()).ok()?;
    let mut line = Vec::with_capacity(FIRST_LINE);
    File::from(file)
        .take(FIRST_LINE as u64)
        .read_to_end(&mut line)
        .ok()?;
    let line = line.strip_prefix(b"#!")?;
    let line = line.split(|b| *b == b'\n').next()?;
    let word = line
        .split(|b| matches!(b, b' ' | b'\t'))
        .find(|word| !word.is_empty())?;
    Some(word.to_vec())
}
