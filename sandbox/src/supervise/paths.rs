//! Calls that name files: by path, by two paths, or by descriptor.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::ledger::pathless;
use super::memory::{self, Unread};
use super::{Caller, Decision, Reply, Supervisor, unreadable, wider};
use crate::attempt::{Attempt, Effect, FileKind, Mark, Outcome, Place, Target};
use crate::calls::{Dir, Last, OpenFlags};
use crate::job::Pass;
use crate::places::Located;
use crate::resolve::{Base, End, Found, Object};
use crate::sys::seccomp::{Answer, Notification};

/// One end of a call as it was found.
pub(super) struct Reached {
    raw: Vec<u8>,
    found: Found,
    located: Located,
}

impl Reached {
    pub(super) fn exists(&self) -> bool {
        self.found.object.is_some()
    }

    pub(super) fn into_object(self) -> Option<Object> {
        self.found.object
    }

    pub(super) fn target(&self) -> Target {
        Target {
            place: self.located.place,
            raw: self.raw.clone(),
            resolved: Some(self.found.path.clone()),
            existed: self.found.object.as_ref().map(Object::kind),
        }
    }
}

impl Supervisor {
    /// open, openat, creat.
    pub(super) fn open(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        dir: Dir,
        path: u8,
        flags: OpenFlags,
    ) -> Decision {
        let bits = match flags {
            OpenFlags::Arg(arg) => call.args[usize::from(arg)] as i32,
            OpenFlags::Fixed(bits) => bits,
        };
        self.open_with(call, caller, name, dir, path, bits)
    }

    /// openat2: answered "no such call", and recorded where it would have written.
    pub(super) fn open_how(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        dir: u8,
        path: u8,
        how: u8,
    ) -> Decision {
        let flags = match memory::bytes(caller.tid, call.args[usize::from(how)], 8) {
            Ok(bytes) => u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| bytes[i])),
            Err(Unread::Null | Unread::TooLong) => {
                return Decision::silent(Answer::Fail(libc::EFAULT));
            }
            Err(Unread::Hidden) => return unreadable(Effect::WriteOpen, name),
        };
        let refusal = Answer::Fail(libc::ENOSYS);
        let writes = flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64 != 0;
        if !writes && flags & libc::O_TMPFILE as u64 != libc::O_TMPFILE as u64 {
            return Decision::silent(refusal);
        }
        let mut decision = self.open_with(call, caller, name, Dir::Arg(dir), path, flags as i32);
        for attempt in &mut decision.attempts {
            if attempt.outcome == Outcome::Allowed {
                attempt.outcome = Outcome::Denied;
            }
        }
        decision.reply = Reply::Now(refusal);
        decision
    }

    /// A mapping of a file that several share. What is written through it passes no call.
    pub(super) fn mapping(&mut self, caller: &Caller, name: &'static str, fd: i32) -> Decision {
        if !is_writable(caller.tid, fd) {
            return Decision::silent(Answer::Continue);
        }
        let reached = match self.reach_descriptor(caller, fd) {
            Ok(reached) => reached,
            Err(_) => return unreadable(Effect::WriteOpen, name),
        };
        let kind = reached.found.object.as_ref().map(Object::kind);
        let own = matches!(
            reached.located.place,
            Place::Scratch | Place::Ipc | Place::Itself
        );
        if kind != Some(FileKind::File) || own {
            return Decision::silent(Answer::Continue);
        }
        // The descriptor was opened for writing, which the layers below have let pass.
        let mut target = reached.target();
        target.raw = format!("descriptor {fd}").into_bytes();
        let mut attempt = pathless(
            Effect::WriteOpen,
            target.place,
            Outcome::Allowed,
            name,
            Vec::new(),
        );
        attempt.target = target;
        attempt.marks.push(Mark::Mapped);
        Decision::one(attempt, Answer::Continue)
    }

    fn open_with(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        dir: Dir,
        path: u8,
        bits: i32,
    ) -> Decision {
        let has = |bit: i32| bits & bit == bit;
        let temporary = has(libc::O_TMPFILE);
        if has(libc::O_PATH) && !temporary {
            return Decision::silent(Answer::Continue);
        }
        let exclusive = has(libc::O_CREAT) && has(libc::O_EXCL) && !temporary;
        let end = if has(libc::O_NOFOLLOW) || exclusive {
            End::Keep
        } else {
            End::Follow
        };
        let reached = match self.reach(call, caller, dir, path, end) {
            Ok(reached) => reached,
            Err(why) => return self.unread(why, Effect::WriteOpen, name),
        };
        let writes = bits & libc::O_ACCMODE != libc::O_RDONLY;
        let Some(object) = &reached.found.object else {
            let missing = reached.found.error.unwrap_or(Errno::ENOENT);
            if has(libc::O_CREAT)
                && missing == Errno::ENOENT
                && !temporary
                && self.parent_exists(&reached)
            {
                return self.settle(name, Effect::Create, reached, None, None);
            }
            return self.settle(name, Effect::WriteOpen, reached, None, Some(missing));
        };
        let kind = object.kind();
        if temporary {
            return self.settle(name, Effect::Create, reached, None, None);
        }
        if exclusive {
            return self.settle(name, Effect::Create, reached, None, Some(Errno::EEXIST));
        }
        if kind == FileKind::Symlink {
            return self.settle(name, Effect::WriteOpen, reached, None, Some(Errno::ELOOP));
        }
        if kind == FileKind::Folder && (writes || has(libc::O_CREAT)) {
            return self.settle(name, Effect::WriteOpen, reached, None, Some(Errno::EISDIR));
        }
        if kind == FileKind::Socket {
            return self.settle(name, Effect::WriteOpen, reached, None, Some(Errno::ENXIO));
        }
        if !writes && !has(libc::O_TRUNC) {
            // O_CREAT on what exists, opened for reading: a read.
            return Decision::silent(Answer::Continue);
        }
        let mut reached = reached;
        if let Some(place) = reached
            .found
            .object
            .as_ref()
            .and_then(|o| self.world.places.special(reached.located, o))
        {
            reached.located = place.into();
        }
        let effect = if has(libc::O_TRUNC) && kind == FileKind::File {
            Effect::Truncate
        } else {
            Effect::WriteOpen
        };
        self.settle(name, effect, reached, None, None)
    }

    /// Calls that change what one path names.
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of one table row, matched where they are used"
    )]
    pub(super) fn one_path(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        effect: Effect,
        dir: Dir,
        path: u8,
        last: Last,
    ) -> Decision {
        let (flags, null_is_descriptor) = match last {
            Last::AtFlags(arg) => (call.args[usize::from(arg)] as i32, false),
            Last::AtFlagsOrFd(arg) => (call.args[usize::from(arg)] as i32, true),
            Last::FollowOrFd => (0, true),
            Last::Follow | Last::NoFollow | Last::Create => (0, false),
        };
        let empty_allowed = flags & libc::AT_EMPTY_PATH != 0;
        let address = call.args[usize::from(path)];
        if let Dir::Arg(arg) = dir
            && (null_is_descriptor && address == 0
                || empty_allowed
                    && (address == 0
                        || memory::string(caller.tid, address).is_ok_and(|s| s.is_empty())))
        {
            let fd = call.args[usize::from(arg)] as i32;
            if fd == libc::AT_FDCWD {
                return self.object(
                    name,
                    effect,
                    self.world.resolver.working_folder(caller.tid),
                    "working folder",
                );
            }
            return self.descriptor(caller, name, effect, fd);
        }
        let end = match last {
            Last::Follow | Last::FollowOrFd => End::Follow,
            Last::NoFollow | Last::Create => End::Keep,
            Last::AtFlags(_) | Last::AtFlagsOrFd(_) => {
                if flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
                    End::Keep
                } else {
                    End::Follow
                }
            }
        };
        let reached = match self.reach(call, caller, dir, path, end) {
            Ok(reached) => reached,
            Err(why) => return self.unread(why, effect, name),
        };
        let removes_folder =
            name == "rmdir" || name == "unlinkat" && call.args[2] as i32 & libc::AT_REMOVEDIR != 0;
        let no_op = match (&reached.found.object, last) {
            (Some(_), Last::Create) => Some(Errno::EEXIST),
            (None, Last::Create) => (!self.parent_exists(&reached))
                .then(|| reached.found.error.unwrap_or(Errno::ENOENT)),
            (None, _) => Some(reached.found.error.unwrap_or(Errno::ENOENT)),
            (Some(object), _) => match (effect, object.kind()) {
                (Effect::Remove, FileKind::Folder) if !removes_folder => Some(Errno::EISDIR),
                (Effect::Remove, FileKind::Folder) => {
                    (!is_empty(object)).then_some(Errno::ENOTEMPTY)
                }
                (Effect::Remove, _) if removes_folder => Some(Errno::ENOTDIR),
                (Effect::Truncate, FileKind::Folder) => Some(Errno::EISDIR),
                _ => None,
            },
        };
        self.settle(name, effect, reached, None, no_op)
    }

    /// Calls that change what a descriptor refers to.
    pub(super) fn descriptor(
        &mut self,
        caller: &Caller,
        name: &'static str,
        effect: Effect,
        fd: i32,
    ) -> Decision {
        let found = self.world.resolver.descriptor(caller.tid, fd);
        self.object(name, effect, found, &format!("descriptor {fd}"))
    }

    /// A call that acts on an object by something else than its path.
    fn object(
        &self,
        name: &'static str,
        effect: Effect,
        found: Result<(PathBuf, Object), Errno>,
        raw: &str,
    ) -> Decision {
        let (path, object) = match found {
            Ok(found) => found,
            // No such descriptor: the kernel says the same.
            Err(Errno::ENOENT) => return Decision::silent(Answer::Fail(libc::EBADF)),
            Err(_) => return unreadable(effect, name),
        };
        let owns = |pid| self.owns_inner(pid);
        let mut located = self.world.places.locate(&path, Some(&object), &owns);
        if effect == Effect::Flags
            && let Some(place) = self.world.places.special(located, &object)
        {
            located = place.into();
        }
        let reached = Reached {
            raw: raw.as_bytes().to_vec(),
            found: Found {
                path,
                object: Some(object),
                error: None,
            },
            located,
        };
        self.settle(name, effect, reached, None, None)
    }

    /// A request that is not on the list of harmless ones.
    pub(super) fn ioctl(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
    ) -> Decision {
        /// `asm/sockios.h`: the process or group that is signalled when data comes.
        const FIOSETOWN: u32 = 0x8901;
        const SIOCSPGRP: u32 = 0x8902;
        let (fd, request) = (call.args[0] as i32, call.args[1] as u32);
        if matches!(request, FIOSETOWN | SIOCSPGRP) {
            return match memory::bytes(caller.tid, call.args[2], 4) {
                Ok(bytes) => {
                    let value = i32::from_ne_bytes([0, 1, 2, 3].map(|i| bytes[i]));
                    self.owner(name, value)
                }
                Err(Unread::Null | Unread::TooLong) => Decision::silent(Answer::Fail(libc::EFAULT)),
                Err(Unread::Hidden) => unreadable(Effect::Signal, name),
            };
        }
        match self.world.resolver.descriptor(caller.tid, fd) {
            Ok((path, _)) if path.as_os_str().as_bytes().starts_with(b"socket:") => {
                // Interfaces, routes and the like.
                let raw = format!("request {request:#x} on a socket").into_bytes();
                let attempt = pathless(Effect::Kernel, Place::Outside, Outcome::Denied, name, raw);
                Decision::one(attempt, Answer::Fail(libc::EPERM))
            }
            found => self.object(name, Effect::Flags, found, &format!("descriptor {fd}")),
        }
    }

    /// rename and link, in all their forms.
    pub(super) fn two_paths(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        effect: Effect,
        ends: [(Dir, u8); 2],
        flags: Option<u8>,
    ) -> Decision {
        let flags = flags.map_or(0, |arg| call.args[usize::from(arg)] as i32);
        let from_end = if effect == Effect::Link && flags & libc::AT_SYMLINK_FOLLOW != 0 {
            End::Follow
        } else {
            End::Keep
        };
        let from = if effect == Effect::Link
            && flags & libc::AT_EMPTY_PATH != 0
            && memory::string(caller.tid, call.args[usize::from(ends[0].1)])
                .is_ok_and(|s| s.is_empty())
            && let Dir::Arg(arg) = ends[0].0
        {
            self.reach_descriptor(caller, call.args[usize::from(arg)] as i32)
        } else {
            self.reach(call, caller, ends[0].0, ends[0].1, from_end)
        };
        let to = self.reach(call, caller, ends[1].0, ends[1].1, End::Keep);
        let (from, to) = match (from, to) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(why), _) | (_, Err(why)) => return self.unread(why, effect, name),
        };
        let exchange = effect == Effect::Rename && flags & libc::RENAME_EXCHANGE as i32 != 0;
        let no_replace = effect == Effect::Rename && flags & libc::RENAME_NOREPLACE as i32 != 0;
        let no_op = match (&from.found.object, &to.found.object) {
            (None, _) => Some(from.found.error.unwrap_or(Errno::ENOENT)),
            (_, Some(_)) if effect == Effect::Link || no_replace => Some(Errno::EEXIST),
            (_, None) if exchange || !self.parent_exists(&to) => {
                Some(to.found.error.unwrap_or(Errno::ENOENT))
            }
            // Two names of one inode: rename(2) does nothing and says that it did.
            (Some(a), Some(b)) if effect == Effect::Rename && same_inode(a, b) => {
                Some(Errno::UnknownErrno)
            }
            _ => None,
        };
        self.settle(name, effect, from, Some(to), no_op)
    }

    pub(super) fn reach_descriptor(&self, caller: &Caller, fd: i32) -> Result<Reached, Unread> {
        let (path, object) = self
            .world
            .resolver
            .descriptor(caller.tid, fd)
            .map_err(|_| Unread::Hidden)?;
        let owns = |pid| self.owns_inner(pid);
        let located = self.world.places.locate(&path, Some(&object), &owns);
        Ok(Reached {
            raw: Vec::new(),
            found: Found {
                path,
                object: Some(object),
                error: None,
            },
            located,
        })
    }

    fn reach(
        &self,
        call: &Notification,
        caller: &Caller,
        dir: Dir,
        path: u8,
        end: End,
    ) -> Result<Reached, Unread> {
        let raw = memory::string(caller.tid, call.args[usize::from(path)])?;
        let base = match dir {
            Dir::Cwd => Base::Cwd,
            Dir::Arg(arg) => match call.args[usize::from(arg)] as i32 {
                libc::AT_FDCWD => Base::Cwd,
                fd => Base::Descriptor(fd),
            },
        };
        self.reach_path(caller, base, raw, end)
    }

    /// Resolves and locates a path that has been read already.
    pub(super) fn reach_path(
        &self,
        caller: &Caller,
        base: Base,
        raw: Vec<u8>,
        end: End,
    ) -> Result<Reached, Unread> {
        let found = match self.world.resolver.path(
            caller.tid,
            caller.inner(self.world.depth),
            base,
            &raw,
            end,
        ) {
            Ok(found) => found,
            // A descriptor that is not open: the kernel says EBADF, and nothing is changed.
            Err(Errno::ENOENT) => Found {
                path: PathBuf::new(),
                object: None,
                error: Some(Errno::EBADF),
            },
            Err(_) => return Err(Unread::Hidden),
        };
        let owns = |pid| self.owns_inner(pid);
        let located = self
            .world
            .places
            .locate(&found.path, found.object.as_ref(), &owns);
        Ok(Reached {
            raw,
            found,
            located,
        })
    }

    fn unread(&self, why: Unread, effect: Effect, name: &'static str) -> Decision {
        match why {
            Unread::Null => Decision::silent(Answer::Fail(libc::EFAULT)),
            Unread::TooLong => Decision::silent(Answer::Fail(libc::ENAMETOOLONG)),
            Unread::Hidden => unreadable(effect, name),
        }
    }

    /// Whether only the last name is missing.
    fn parent_exists(&self, reached: &Reached) -> bool {
        reached.found.error == Some(Errno::ENOENT)
            && reached
                .found
                .path
                .parent()
                .is_some_and(|parent| self.world.resolver.is_folder(parent))
    }

    /// Turns what was found into a record and an answer.
    ///
    /// `no_op`: the errno with which the kernel would refuse without changing anything, or
    /// `UnknownErrno` for a success that changes nothing.
    pub(super) fn settle(
        &self,
        name: &'static str,
        effect: Effect,
        from: Reached,
        to: Option<Reached>,
        no_op: Option<Errno>,
    ) -> Decision {
        let mut marks = Vec::new();
        for end in [Some(&from), to.as_ref()].into_iter().flatten() {
            marks.extend(end.located.mark);
            if end.found.object.is_none() && no_op.is_some() && self.is_missing_here_only(end) {
                marks.push(Mark::AbsentHere);
            }
        }
        let (target, to) = (from.target(), to.as_ref().map(Reached::target));
        let place = wider(&target, to.as_ref());
        let (outcome, answer) = match no_op {
            Some(errno) => {
                let refuse = !self.kernel_decides(place, effect);
                let answer = match errno {
                    Errno::UnknownErrno if refuse => Answer::Value(0),
                    errno if refuse => Answer::Fail(errno as i32),
                    _ => Answer::Continue,
                };
                (Outcome::NoOp, answer)
            }
            None if self.kernel_decides(place, effect) => (Outcome::Allowed, Answer::Continue),
            None => {
                if !self.world.mounts
                    && is_metadata(effect)
                    && !matches!(place, Place::Home | Place::Outside)
                {
                    marks.push(Mark::MetadataRefused);
                }
                let errno = match place {
                    Place::Delegated | Place::NameService | Place::Egress => libc::EACCES,
                    _ => libc::EROFS,
                };
                (Outcome::Denied, Answer::Fail(errno))
            }
        };
        marks.sort_unstable();
        marks.dedup();
        let attempt = Attempt {
            effect,
            place,
            target,
            to,
            outcome,
            marks,
            call: name,
            pid: 0,
            program: Default::default(),
            command: Vec::new(),
            count: 1,
        };
        Decision::one(attempt, answer)
    }

    /// Whether the kernel may go on: the place is writable in this pass, and should the subject swap
    /// the path meanwhile, a lower layer refuses what must not be reached.
    fn kernel_decides(&self, place: Place, effect: Effect) -> bool {
        let contained = self.world.mounts || !is_metadata(effect);
        match place {
            Place::Worktree | Place::GitDir => self.world.pass == Pass::Contained && contained,
            Place::Scratch | Place::Itself | Place::DeviceSink => contained,
            Place::Ipc => self.world.mounts,
            Place::Home => self.world.places.home_private && self.world.pass == Pass::Contained,
            Place::Outside | Place::NameService | Place::Delegated | Place::Egress => false,
        }
    }

    fn is_missing_here_only(&self, end: &Reached) -> bool {
        let path = &end.found.path;
        matches!(
            end.located.place,
            Place::Worktree | Place::GitDir | Place::Scratch
        ) && self.world.places.missing_here_only(path)
            && !path.ancestors().any(|p| self.removed.contains(p))
    }
}

/// What Landlock does not see.
fn is_metadata(effect: Effect) -> bool {
    matches!(
        effect,
        Effect::Mode | Effect::Owner | Effect::Times | Effect::Xattr | Effect::Flags
    )
}

fn same_inode(a: &Object, b: &Object) -> bool {
    (a.stat.st_dev, a.stat.st_ino) == (b.stat.st_dev, b.stat.st_ino)
}

/// Whether a folder holds nothing; one that cannot be read may be empty.
fn is_empty(folder: &Object) -> bool {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    match openat(&folder.fd, ".", flags, Mode::empty()).and_then(nix::dir::Dir::from_fd) {
        Ok(mut dir) => !dir
            .iter()
            .flatten()
            .any(|entry| !matches!(entry.file_name().to_bytes(), b"." | b"..")),
        Err(_) => true,
    }
}

/// Whether descriptor `fd` of thread `tid` was opened for writing (`flags` in proc_pid_fdinfo(5)).
fn is_writable(tid: i32, fd: i32) -> bool {
    let info = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| i32::from_str_radix(text.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}
