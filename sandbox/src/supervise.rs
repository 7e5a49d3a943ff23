//! The supervisor's half: each trapped call is decoded, located, judged for effect, and answered.
//!
//! What is recorded is what the subject asked for; what is permitted is decided by layers that the
//! subject cannot race (mounts, Landlock, the private network), or the call is refused here. A path
//! or address that the subject could still rewrite is never the only ground for letting a call pass.

mod execution;
pub(crate) mod ledger;
mod memory;
mod message;
mod paths;
mod processes;
mod sockets;

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::attempt::{Attempt, Effect, Mark, Outcome, Place, Target};
use crate::calls::{self, Decode, NATIVE};
use crate::job::{Gap, Pass};
use crate::places::{Places, width};
use crate::process;
use crate::resolve::Resolver;
use crate::sys::seccomp::{self, Answer, Notification};
use ledger::{Ledger, pathless};
use memory::Unread;

/// What the supervisor knows of one run's world.
pub(crate) struct World {
    pub pass: Pass,
    pub places: Places,
    pub resolver: Resolver,
    /// Host number of the init process, which all of the arm's processes descend from.
    pub init: i32,
    /// Host numbers of the runner's own processes.
    pub runner: Vec<i32>,
    /// Everything but clone and scratch is read-only by mount.
    pub mounts: bool,
    pub private_net: bool,
    pub private_pids: bool,
    /// How many process namespaces init is below the supervisor.
    pub depth: usize,
    pub private_ipc: bool,
}

/// Decodes, records and answers.
pub(crate) struct Supervisor {
    world: World,
    listener: Arc<OwnedFd>,
    ledger: Ledger,
    gaps: BTreeSet<Gap>,
    /// Names that the arm was let remove or move away.
    removed: HashSet<PathBuf>,
    /// Ports that the arm asked for by number.
    asked_ports: HashSet<u16>,
    /// Datagrams that the supervisor sent for the arm.
    sent_for_arm: Arc<AtomicU64>,
}

/// What to record of a call, and how to answer it.
pub(crate) struct Decision {
    attempts: Vec<Attempt>,
    reply: Reply,
}

enum Reply {
    Now(Answer),
    /// Carried out on a thread of its own, which answers.
    Later(Box<dyn FnOnce() -> Answer + Send>),
}

impl Decision {
    fn silent(answer: Answer) -> Decision {
        Decision {
            attempts: Vec::new(),
            reply: Reply::Now(answer),
        }
    }

    fn one(attempt: Attempt, answer: Answer) -> Decision {
        Decision {
            attempts: vec![attempt],
            reply: Reply::Now(answer),
        }
    }
}

/// The thread behind a notification.
pub(crate) struct Caller {
    tid: i32,
    process: OnceCell<i32>,
    inner: OnceCell<i32>,
}

impl Caller {
    fn new(tid: i32) -> Caller {
        Caller {
            tid,
            process: OnceCell::new(),
            inner: OnceCell::new(),
        }
    }

    /// Its process, as the host counts.
    fn process(&self) -> i32 {
        *self
            .process
            .get_or_init(|| process::process_of(self.tid).unwrap_or(self.tid))
    }

    /// Its process as the subject's /proc counts, at `depth` namespaces below the supervisor.
    fn inner(&self, depth: usize) -> i32 {
        *self.inner.get_or_init(|| {
            let numbers = process::numbers_of(self.tid).unwrap_or_default();
            numbers.get(depth).copied().unwrap_or(self.tid)
        })
    }

    /// Whether it is in a process namespace that the arm made, below `depth`.
    fn is_nested(&self, depth: usize) -> bool {
        process::numbers_of(self.tid).is_some_and(|numbers| numbers.len() > depth + 1)
    }
}

impl Supervisor {
    pub(crate) fn new(world: World, listener: Arc<OwnedFd>) -> Supervisor {
        Supervisor {
            world,
            listener,
            ledger: Ledger::default(),
            gaps: BTreeSet::new(),
            removed: HashSet::new(),
            asked_ports: HashSet::new(),
            sent_for_arm: Arc::default(),
        }
    }

    /// Handles one waiting notification, if there is one.
    pub(crate) fn serve(&mut self) -> io::Result<()> {
        let Some(call) = seccomp::receive(&self.listener)? else {
            return Ok(());
        };
        let caller = Caller::new(call.tid);
        let mut decision = self.decide(&call, &caller);
        if !decision.attempts.is_empty() {
            let program = process::program_of(caller.process());
            for attempt in &mut decision.attempts {
                attempt.pid = caller.process();
                attempt.program.clone_from(&program);
                if attempt.place == Place::GitDir {
                    attempt.command = process::command_of(caller.process());
                }
            }
        }
        // What was read may have been another process's, if this one died meanwhile; its call is void.
        if !seccomp::still_waits(&self.listener, call.id) {
            return Ok(());
        }
        self.record(decision.attempts);
        match decision.reply {
            Reply::Now(answer) => seccomp::answer(&self.listener, call.id, answer),
            Reply::Later(work) => {
                let listener = Arc::clone(&self.listener);
                let id = call.id;
                std::thread::Builder::new()
                    .name("calibrun-reply".into())
                    .spawn(move || {
                        // A listener that is closed by now has failed the call already.
                        let _ = seccomp::answer(&listener, id, work());
                    })
                    .map(drop)
            }
        }
    }

    fn record(&mut self, attempts: Vec<Attempt>) {
        for attempt in attempts {
            if attempt.marks.contains(&Mark::Undecodable) {
                self.gaps.insert(Gap::UndecodableEvent);
            }
            if attempt.marks.contains(&Mark::MetadataRefused) {
                self.gaps.insert(Gap::MetadataNotContained);
            }
            if attempt.outcome == Outcome::Allowed
                && matches!(attempt.effect, Effect::Remove | Effect::Rename)
                && let Some(path) = &attempt.target.resolved
            {
                self.removed.insert(path.clone());
            }
            self.ledger.add(attempt);
        }
    }

    fn decide(&mut self, call: &Notification, caller: &Caller) -> Decision {
        if call.arch != NATIVE.audit() {
            return undecodable(
                "foreign architecture",
                format!("call {} of architecture {:#x}", call.nr, call.arch),
            );
        }
        let Some(row) = u32::try_from(call.nr).ok().and_then(calls::find) else {
            return undecodable("unknown call", format!("call number {}", call.nr));
        };
        let name = row.name;
        match row.decode {
            Decode::Open { dir, path, flags } => self.open(call, caller, name, dir, path, flags),
            Decode::Path {
                effect,
                dir,
                path,
                last,
            } => self.one_path(call, caller, name, effect, dir, path, last),
            Decode::Fd { .. } if name == "ioctl" => self.ioctl(call, caller, name),
            Decode::Fd { effect, fd } => {
                self.descriptor(caller, name, effect, call.args[usize::from(fd)] as i32)
            }
            Decode::TwoPaths {
                effect,
                from_dir,
                from,
                to_dir,
                to,
                flags,
            } => self.two_paths(
                call,
                caller,
                name,
                effect,
                [(from_dir, from), (to_dir, to)],
                flags,
            ),
            Decode::Address {
                effect,
                fd,
                addr,
                len,
            } => self.address(call, caller, name, effect, fd, addr, len),
            Decode::Message { fd, msg } => self.messages(call, caller, name, fd, msg, None),
            Decode::Messages { fd, vec, count } => {
                self.messages(call, caller, name, fd, vec, Some(count))
            }
            Decode::Socket {
                family, protocol, ..
            } => {
                let arg = |n: u8| call.args[usize::from(n)] as i32;
                sockets::socket(name, arg(family), arg(protocol))
            }
            Decode::Process { effect, pid, of } => {
                self.process(call, caller, name, effect, pid, of)
            }
            Decode::Ipc { effect, of } => self.ipc(call, caller, name, effect, of),
            Decode::Refuse { effect } => refused(effect, name),
            Decode::RefuseUnlessZero { effect, at } => {
                match memory::bytes(caller.tid, call.args[usize::from(at)], 4).as_deref() {
                    Ok([0, 0, 0, 0]) => Decision::silent(Answer::Continue),
                    Err(Unread::Null) => Decision::silent(Answer::Fail(libc::EFAULT)),
                    _ => refused(effect, name),
                }
            }
            Decode::OpenHow { dir, path, how } => self.open_how(call, caller, name, dir, path, how),
            Decode::Mapping { fd } => self.mapping(caller, name, call.args[usize::from(fd)] as i32),
            Decode::Execute { dir, path, flags } => {
                self.execution(call, caller, name, dir, path, flags)
            }
            Decode::NoSuchCall => undecodable(name, name.to_owned()),
            // The filter lets it pass; a filter that asks is not the one that was built.
            Decode::Harmless(_) => undecodable(name, name.to_owned()),
        }
    }

    /// Ends the observation: attempts, gaps, and what the private network says about datagrams.
    ///
    /// `datagrams`: how many left the private network, as counted before its last process ended.
    pub(crate) fn finish(mut self, datagrams: u64) -> (Vec<Attempt>, BTreeSet<Gap>) {
        let (mut attempts, overflowed) = self.ledger.finish();
        if overflowed {
            self.gaps.insert(Gap::AttemptsDropped);
        }
        if datagrams > self.sent_for_arm.load(Ordering::Relaxed) {
            // Something was sent on a socket that had only been connected: no mere probe.
            for attempt in &mut attempts {
                attempt.marks.retain(|mark| *mark != Mark::AddressProbe);
            }
        }
        (attempts, self.gaps)
    }
}

/// An event that cannot be decoded is refused as "no such call" and is a gap in what was seen.
fn undecodable(call: &'static str, what: String) -> Decision {
    let mut attempt = pathless(
        Effect::Kernel,
        Place::Outside,
        Outcome::Unknown,
        call,
        what.into_bytes(),
    );
    attempt.marks.push(Mark::Undecodable);
    Decision::one(attempt, Answer::Fail(libc::ENOSYS))
}

/// Memory that the kernel may read and we may not: refused, and a gap.
fn unreadable(effect: Effect, call: &'static str) -> Decision {
    let mut attempt = pathless(
        effect,
        Place::Outside,
        Outcome::Unknown,
        call,
        b"(unreadable)".to_vec(),
    );
    attempt.marks.push(Mark::Undecodable);
    Decision::one(attempt, Answer::Fail(libc::EPERM))
}

fn refused(effect: Effect, call: &'static str) -> Decision {
    let place = if effect == Effect::Send {
        Place::Egress
    } else {
        Place::Outside
    };
    let attempt = pathless(
        effect,
        place,
        Outcome::Denied,
        call,
        call.as_bytes().to_vec(),
    );
    Decision::one(attempt, Answer::Fail(libc::EPERM))
}

/// The wider of two places.
fn wider(target: &Target, to: Option<&Target>) -> Place {
    match to {
        Some(to) if width(to.place) > width(target.place) => to.place,
        _ => target.place,
    }
}
