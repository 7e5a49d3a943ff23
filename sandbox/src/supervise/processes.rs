//! Calls that act on other processes, and on System V and POSIX ipc.

use std::path::{Path, PathBuf};

use super::ledger::pathless;
use super::memory::{self, Unread};
use super::{Caller, Decision, Supervisor, unreadable};
use crate::attempt::{Effect, Mark, Outcome, Place};
use crate::calls::{IpcArg, ProcessArg};
use crate::job::Pass;
use crate::process::{group_of, is_below, process_of};
use crate::sys::seccomp::{Answer, Notification};

/// Whom a call means.
enum Whom {
    /// The arm's own processes.
    Own,
    /// One of the runner's.
    Runner,
    /// Somebody else, who exists.
    Other,
    /// Nobody of that number.
    Nobody,
    /// Nobody in the private tree, somebody on the host.
    HiddenHere,
}

const F_SETOWN_EX: i32 = 15;

impl Supervisor {
    pub(super) fn process(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        effect: Effect,
        pid: u8,
        of: ProcessArg,
    ) -> Decision {
        let value = call.args[usize::from(pid)] as i32;
        let arg = |n: u8| call.args[usize::from(n)] as i32;
        let whom = match of {
            // Whom it can name there, the arm made; only a descriptor may come from elsewhere.
            ProcessArg::PidOrGroup | ProcessArg::Pid | ProcessArg::Tid
                if self.world.private_pids && caller.is_nested(self.world.depth) =>
            {
                Whom::Own
            }
            ProcessArg::PidOrGroup => match value {
                0 => self.group(self.own_group(caller)),
                -1 => self.everybody(),
                group if group < -1 => self.inner_group(-group),
                pid => self.whom(pid),
            },
            ProcessArg::Pid | ProcessArg::Tid if value == 0 => Whom::Own,
            ProcessArg::Pid | ProcessArg::Tid => self.whom(value),
            ProcessArg::PidFd if value < 0 => Whom::Own,
            ProcessArg::PidFd => self.behind(caller, value),
            ProcessArg::Priority { which } => self.by_class(caller, arg(which), value),
            // The same three classes, counted from 1.
            ProcessArg::IoPriority { which } => self.by_class(caller, arg(which) - 1, value),
            ProcessArg::Owner { command } if arg(command) == F_SETOWN_EX => {
                match memory::bytes(caller.tid, call.args[usize::from(pid)], 8) {
                    Ok(bytes) => {
                        let number =
                            |at: usize| i32::from_ne_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
                        match (number(0), number(4)) {
                            (2, group) => self.inner_group(group),
                            (_, pid) => self.whom(pid),
                        }
                    }
                    Err(Unread::Null | Unread::TooLong) => {
                        return Decision::silent(Answer::Fail(libc::EFAULT));
                    }
                    Err(Unread::Hidden) => return unreadable(effect, name),
                }
            }
            ProcessArg::Owner { .. } => self.owner_of(value),
        };
        let benign = effect == Effect::Signal && is_ignored_by_default(signal_of(call, name));
        let raw = format!("process {value}").into_bytes();
        towards(name, effect, raw, whom, benign)
    }

    /// Whom a descriptor shall signal: a process, below 0 a group, 0 nobody.
    pub(super) fn owner(&self, name: &'static str, value: i32) -> Decision {
        let whom = self.owner_of(value);
        let raw = format!("process {value}").into_bytes();
        towards(name, Effect::Signal, raw, whom, false)
    }

    fn owner_of(&self, value: i32) -> Whom {
        match value {
            0 => Whom::Own,
            group if group < 0 => self.inner_group(group.saturating_neg()),
            pid => self.whom(pid),
        }
    }

    /// The procfs that shows the numbers which the arm's processes use.
    fn inner_proc(&self) -> PathBuf {
        if self.world.private_pids {
            PathBuf::from(format!("/proc/{}/root/proc", self.world.init))
        } else {
            PathBuf::from("/proc")
        }
    }

    /// Whether process `pid`, as the arm counts, is one of its own.
    pub(super) fn owns_inner(&self, pid: i32) -> bool {
        matches!(self.whom(pid), Whom::Own)
    }

    fn whom(&self, pid: i32) -> Whom {
        let proc = self.inner_proc();
        let exists = proc.join(pid.to_string()).exists();
        if self.world.private_pids {
            return match (pid, exists) {
                (1, _) => Whom::Runner,
                (_, true) => Whom::Own,
                _ if Path::new("/proc").join(pid.to_string()).exists() => Whom::HiddenHere,
                _ => Whom::Nobody,
            };
        }
        if !exists {
            return Whom::Nobody;
        }
        let leader = process_of(pid).unwrap_or(pid);
        if self.world.runner.contains(&leader) {
            Whom::Runner
        } else if is_below(&proc, leader, self.world.init) {
            Whom::Own
        } else {
            Whom::Other
        }
    }

    fn everybody(&self) -> Whom {
        // In a private tree everybody is the arm's own, but for init, which such a signal never reaches.
        if self.world.private_pids {
            Whom::Own
        } else {
            Whom::Other
        }
    }

    fn own_group(&self, caller: &Caller) -> i32 {
        group_of(Path::new("/proc"), caller.process()).unwrap_or(0)
    }

    /// A process group by its host number: own only if all of its members are.
    fn group(&self, group: i32) -> Whom {
        self.group_in(Path::new("/proc"), group, |pid| {
            let leader = process_of(pid).unwrap_or(pid);
            is_below(Path::new("/proc"), leader, self.world.init) && leader != self.world.init
        })
    }

    /// A process group by the number that the arm uses.
    fn inner_group(&self, group: i32) -> Whom {
        let proc = self.inner_proc();
        match self.group_in(&proc, group, |pid| matches!(self.whom(pid), Whom::Own)) {
            Whom::Nobody if self.world.private_pids => {
                match self.group_in(Path::new("/proc"), group, |_| false) {
                    Whom::Nobody => Whom::Nobody,
                    _ => Whom::HiddenHere,
                }
            }
            whom => whom,
        }
    }

    fn group_in(&self, proc: &Path, group: i32, owns: impl Fn(i32) -> bool) -> Whom {
        let Ok(entries) = std::fs::read_dir(proc) else {
            return Whom::Other;
        };
        let pids = entries
            .flatten()
            .filter_map(|e| e.file_name().to_str().and_then(|n| n.parse::<i32>().ok()));
        let mut whom = Whom::Nobody;
        for pid in pids.filter(|pid| group_of(proc, *pid) == Some(group)) {
            if !owns(pid) {
                return Whom::Other;
            }
            whom = Whom::Own;
        }
        whom
    }

    /// `PRIO_PROCESS`, `PRIO_PGRP`, `PRIO_USER` and the like.
    fn by_class(&self, caller: &Caller, class: i32, value: i32) -> Whom {
        match (class, value) {
            (0, 0) => Whom::Own,
            (0, pid) => self.whom(pid),
            (1, 0) => self.group(self.own_group(caller)),
            (1, group) => self.inner_group(group),
            // A user's processes are more than the arm's.
            _ => Whom::Other,
        }
    }

    /// The process behind a pidfd or a `/proc/PID` folder of the caller's.
    fn behind(&self, caller: &Caller, fd: i32) -> Whom {
        let info = std::fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", caller.tid))
            .unwrap_or_default();
        let pid = info
            .lines()
            .find_map(|line| line.strip_prefix("Pid:"))
            .and_then(|n| n.trim().parse::<i32>().ok());
        match pid {
            // As this procfs counts: the host's numbers.
            Some(pid) if pid > 0 => {
                if self.world.runner.contains(&pid) {
                    Whom::Runner
                } else if is_below(Path::new("/proc"), pid, self.world.init) {
                    Whom::Own
                } else {
                    Whom::Other
                }
            }
            Some(_) => Whom::Nobody,
            // No pidfd: the kernel says EBADF, or it is a folder of /proc.
            None => match self.world.resolver.descriptor(caller.tid, fd) {
                Ok((path, _)) => match path
                    .strip_prefix("/proc")
                    .ok()
                    .and_then(|p| p.to_str()?.parse::<i32>().ok())
                {
                    Some(pid) => self.whom(pid),
                    None => Whom::Other,
                },
                Err(_) => Whom::Nobody,
            },
        }
    }

    /// Shared memory, semaphores and queues: private in the contained pass, the host's in the denied one.
    pub(super) fn ipc(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        effect: Effect,
        of: IpcArg,
    ) -> Decision {
        let arg = |n: u8| call.args[usize::from(n)] as i32;
        let mut effect = effect;
        let (raw, changes_existing) = match of {
            IpcArg::Key { key, flags, .. } => {
                let makes = arg(key) == libc::IPC_PRIVATE || arg(flags) & libc::IPC_CREAT != 0;
                if !makes {
                    return Decision::silent(Answer::Continue);
                }
                (format!("key {}", arg(key)).into_bytes(), false)
            }
            IpcArg::Id { id, .. } => (format!("id {}", arg(id)).into_bytes(), true),
            IpcArg::Control { id, command, .. } => {
                effect = match arg(command) & 0xff {
                    libc::IPC_RMID => Effect::Remove,
                    libc::IPC_SET => Effect::Mode,
                    _ => effect,
                };
                (format!("id {}", arg(id)).into_bytes(), true)
            }
            IpcArg::Name {
                name: pointer,
                flags,
            } => {
                let text = match memory::string(caller.tid, call.args[usize::from(pointer)]) {
                    Ok(text) => text,
                    Err(Unread::Null) => return Decision::silent(Answer::Fail(libc::EFAULT)),
                    Err(Unread::TooLong) => {
                        return Decision::silent(Answer::Fail(libc::ENAMETOOLONG));
                    }
                    Err(Unread::Hidden) => return unreadable(effect, name),
                };
                let makes = flags.is_some_and(|f| arg(f) & libc::O_CREAT != 0);
                (text, !makes)
            }
        };
        if self.world.private_ipc {
            let attempt = pathless(effect, Place::Ipc, Outcome::Allowed, name, raw);
            return Decision::one(attempt, Answer::Continue);
        }
        // The host's own objects: what exists belongs to somebody; what is new would stay behind.
        let place = if changes_existing {
            Place::Outside
        } else {
            Place::Ipc
        };
        let attempt = pathless(effect, place, Outcome::Denied, name, raw);
        let errno = if self.world.pass == Pass::Denied && !changes_existing {
            libc::ENOSPC
        } else {
            libc::EPERM
        };
        Decision::one(attempt, Answer::Fail(errno))
    }
}

/// The record of acting on `whom`, and the answer.
///
/// `benign`: a signal that does nothing to who does not wait for it. Any other to the runner's own
/// processes would, in real life, have met the caller.
fn towards(name: &'static str, effect: Effect, raw: Vec<u8>, whom: Whom, benign: bool) -> Decision {
    let mut attempt = pathless(effect, Place::Outside, Outcome::Denied, name, raw);
    let errno = match whom {
        Whom::Own => {
            attempt.place = Place::Itself;
            attempt.target.place = Place::Itself;
            attempt.outcome = Outcome::Allowed;
            return Decision::one(attempt, Answer::Continue);
        }
        Whom::Runner => {
            attempt.marks.push(if benign {
                Mark::Runner
            } else {
                Mark::AbsentHere
            });
            libc::EPERM
        }
        Whom::Other => libc::EPERM,
        Whom::Nobody => {
            attempt.outcome = Outcome::NoOp;
            libc::ESRCH
        }
        Whom::HiddenHere => {
            attempt.outcome = Outcome::NoOp;
            attempt.marks.push(Mark::AbsentHere);
            libc::ESRCH
        }
    };
    Decision::one(attempt, Answer::Fail(errno))
}

/// The signal that a call sends; 0 where it sends none.
fn signal_of(call: &Notification, name: &str) -> i32 {
    let argument = match name {
        "kill" | "tkill" | "rt_sigqueueinfo" | "pidfd_send_signal" => 1,
        "tgkill" | "rt_tgsigqueueinfo" => 2,
        _ => return 0,
    };
    call.args[argument] as i32
}

/// Signals whose default is to be ignored, or to go on (signal(7)).
fn is_ignored_by_default(signal: i32) -> bool {
    matches!(
        signal,
        libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT
    )
}
