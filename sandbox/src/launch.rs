//! The launcher: a single-threaded process that confines itself step by step and becomes the subject.
//!
//! ```text
//! supervisor -> launcher (enters namespaces, waits) -> init (mounts, drops capabilities, reaps)
//!                                                        -> subject (Landlock, filter, execute)
//! ```
//!
//! It is a process of its own because a user namespace refuses a threaded one. Init stays
//! unfiltered: it passes the listener on, reaps what the subject leaves behind and ends it on order.

mod mounts;
mod namespaces;
mod restrict;
mod subject;
pub(crate) mod wire;

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, pipe2, read};

pub(crate) use mounts::{hidden_in, temp_folders};
use namespaces::Entered;
use wire::Order;

use crate::channel::Channel;
use crate::sys::process::{Forked, close_from, fork, fork_sharing_descriptors, inherited};

/// The descriptors that a launcher starts with, besides the subject's standard three.
const CONTROL: i32 = 3;
const ORDER: i32 = 4;

/// Runs as the launcher and exits.
pub(crate) fn main() -> ! {
    // Nothing inherited from whoever started the supervisor may reach the subject.
    let closed = close_from(ORDER + 1);
    let Some(control) = inherited(CONTROL) else {
        std::process::exit(70)
    };
    let channel = Channel::new(control);
    let result = closed
        .map_err(|e| format!("close inherited descriptors: {e}"))
        .and_then(|()| launch(&channel));
    if let Err(why) = result {
        // The channel is all there is to say it on; if it is closed, nobody listens.
        let _ = channel.send(&format!("fatal {why}"), None);
    }
    std::process::exit(0)
}

fn launch(channel: &Channel) -> Result<(), String> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|e| format!("bind to the supervisor: {e}"))?;
    let order = inherited(ORDER).ok_or("no launch order")?;
    let mut bytes = Vec::new();
    let mut file = File::from(order);
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(|e| format!("read the launch order: {e}"))?;
    drop(file);
    let order = Order::decode(&bytes).map_err(|e| e.to_string())?;
    let entered = namespaces::enter(&order, channel);
    let (told, tell) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| format!("pipe: {e}"))?;
    match fork().map_err(|e| format!("fork: {e}"))? {
        Forked::Parent(pid) => {
            channel
                .send(&format!("init {pid}"), None)
                .map_err(|e| format!("report: {e}"))?;
            drop((told, tell));
            // Only init speaks from here on; the launcher keeps it company and ends with it.
            while waitpid(Pid::from_raw(pid), None) == Err(Errno::EINTR) {}
            Ok(())
        }
        Forked::Child => {
            // The supervisor must know this process before it hears from it: end of file says so.
            drop(tell);
            while read(&told, &mut [0u8]) == Err(Errno::EINTR) {}
            drop(told);
            init(&order, &entered, channel)
        }
    }
}

fn init(order: &Order, entered: &Entered, channel: &Channel) -> Result<(), String> {
    // In a private tree its death ends everybody. Elsewhere it must live on to end them one by one,
    // once the closed channel tells that the supervisor has gone.
    if entered.pid {
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(|e| format!("bind to the launcher: {e}"))?;
    }
    prctl::set_child_subreaper(true).map_err(|e| format!("become the reaper: {e}"))?;
    let mut report = Report::new(entered);
    if entered.net
        && let Err(e) = crate::sys::net::bring_loopback_up()
    {
        report.note(&format!("loopback: {e}"));
    }
    if entered.pid {
        // Where the kernel has no such file, a process of the arm's that has ended may be taken for
        // one of the host's that is hidden here: more is then left open, never less.
        let _ = namespaces::number_apart();
    }
    let mut ground = Ground::default();
    if entered.mounts {
        match mounts::build(order, entered.pid, entered.user) {
            Ok(view) => {
                ground = Ground {
                    mounts: true,
                    home: view.home,
                };
                report.set("mounts");
                if view.overlaid {
                    report.set("temp_overlay");
                }
                if view.home {
                    report.set("home_overlay");
                }
                if entered.pid && view.own_proc {
                    report.set("own_proc");
                }
                view.missing.iter().for_each(|line| report.note(line));
            }
            // Half a view is no view: what was attached so far would not be what we claim.
            Err(e) => return Err(format!("mounts: {e}")),
        }
    }
    if !entered.mounts {
        let folder = &order.shared_tmpdir;
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(folder)
            .map_err(|e| format!("make {}: {e}", folder.display()))?;
    }
    prctl::set_no_new_privs().map_err(|e| format!("no_new_privs: {e}"))?;
    report.set("no_new_privs");
    match drop_capabilities() {
        Ok(()) => report.set("capabilities"),
        Err(e) => report.note(&format!("capabilities: {e}")),
    }
    // Entering a user namespace hides /proc/PID from the supervisor; what it needs is there again.
    prctl::set_dumpable(true).map_err(|e| format!("stay readable to the supervisor: {e}"))?;
    report.send(channel)?;
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    signals
        .thread_block()
        .map_err(|e| format!("block SIGCHLD: {e}"))?;
    let subject = start_subject(order, ground, channel)?;
    reap(subject, entered, &signals, channel)
}

/// What the subject stands on.
#[derive(Clone, Copy, Debug, Default)]
struct Ground {
    /// Private mounts, the clone where the repo is.
    mounts: bool,
    /// A private HOME, which it may write.
    home: bool,
}

/// The layers in force, sent as one message before the subject starts.
struct Report {
    words: Vec<String>,
    missing: Vec<String>,
}

impl Report {
    fn new(entered: &Entered) -> Report {
        let flags = [
            (entered.user, "user"),
            (entered.net, "net"),
            (entered.uts, "uts"),
            (entered.pid, "pid"),
            (entered.ipc, "ipc"),
        ];
        let words = flags
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, name)| (*name).to_owned())
            .collect();
        Report {
            words,
            missing: entered.missing.clone(),
        }
    }

    fn set(&mut self, word: &str) {
        self.words.push(word.to_owned());
    }

    fn note(&mut self, line: &str) {
        self.missing.push(line.replace('\n', " "));
    }

    fn send(&self, channel: &Channel) -> Result<(), String> {
        for line in &self.missing {
            channel
                .send(&format!("missing {line}"), None)
                .map_err(|e| format!("report: {e}"))?;
        }
        channel
            .send(&format!("layers {}", self.words.join(" ")), None)
            .map_err(|e| format!("report: {e}"))
    }
}

/// Empties every capability set. The bounding set goes first, while CAP_SETPCAP is still there.
fn drop_capabilities() -> Result<(), String> {
    use caps::CapSet;
    let may_bound =
        caps::has_cap(None, CapSet::Effective, caps::Capability::CAP_SETPCAP).unwrap_or(false);
    if may_bound {
        caps::clear(None, CapSet::Bounding).map_err(|e| format!("bounding: {e}"))?;
    }
    // The order matters: ambient needs permitted, permitted needs effective to be within it.
    for set in [
        CapSet::Ambient,
        CapSet::Inheritable,
        CapSet::Effective,
        CapSet::Permitted,
    ] {
        caps::clear(None, set).map_err(|e| format!("{set:?}: {e}"))?;
    }
    for set in [
        CapSet::Ambient,
        CapSet::Inheritable,
        CapSet::Effective,
        CapSet::Permitted,
    ] {
        let left = caps::read(None, set).map_err(|e| format!("{set:?}: {e}"))?;
        if !left.is_empty() {
            return Err(format!("{set:?} still holds {left:?}"));
        }
    }
    Ok(())
}

/// Starts the subject, passes its listener on, and waits until it has executed.
fn start_subject(order: &Order, ground: Ground, channel: &Channel) -> Result<Pid, String> {
    let pipe = || pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| format!("pipe: {e}"));
    let (said, say) = pipe()?; // subject -> init: what happened
    let (wait, go) = pipe()?; // init -> subject: the listener has been passed on
    let subject = match fork_sharing_descriptors().map_err(|e| format!("fork the subject: {e}"))? {
        Forked::Child => subject::become_it(order, ground, &say, &wait),
        Forked::Parent(pid) => Pid::from_raw(pid),
    };
    // Until the subject unshares the descriptor table, closing here would close there.
    loop {
        let line = read_line(&said, subject)?;
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match verb {
            "layer" | "missing" => channel
                .send(&line, None)
                .map_err(|e| format!("report: {e}"))?,
            "listener" => {
                let fd: i32 = rest
                    .parse()
                    .map_err(|_| format!("bad listener number {rest:?}"))?;
                let listener = inherited(fd).ok_or("the listener is not open")?;
                let passed = channel.send("listener", Some(listener.as_fd()));
                // Closed for both: the supervisor has its own, and the subject must not hold one.
                drop(listener);
                passed.map_err(|e| format!("pass the listener on: {e}"))?;
            }
            "ready" => {
                nix::unistd::write(&go, b"g").map_err(|e| format!("release the subject: {e}"))?;
            }
            "apart" => break,
            "failed" => return Err(rest.to_owned()),
            other => {
                return Err(format!(
                    "unexpected message {other:?} from the subject's side"
                ));
            }
        }
    }
    drop((go, wait, say));
    // The subject's own copies close when it executes: end of file means that it has.
    let mut text = Vec::new();
    File::from(said)
        .read_to_end(&mut text)
        .map_err(|e| format!("wait for execution: {e}"))?;
    let verdict = if text.is_empty() {
        "executed".to_owned()
    } else {
        format!("not-executed {}", String::from_utf8_lossy(&text).trim())
    };
    // From here on the subject runs: if nobody listens any more, `reap` ends it.
    let _ = channel.send(&verdict, None);
    Ok(subject)
}

/// Reads one line, noticing when the subject dies without writing it.
fn read_line(from: &OwnedFd, subject: Pid) -> Result<String, String> {
    let mut line = Vec::new();
    loop {
        let mut polled = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::from(100u16)) {
            Ok(0) => {
                // The subject's death is no end of file here: this process holds the other end too.
                // waitpid(2) knows no WNOWAIT and refuses it.
                let left = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
                match waitid(Id::Pid(subject), left) {
                    Ok(WaitStatus::StillAlive) => continue,
                    other => {
                        return Err(format!(
                            "the subject ended before it was executed: {other:?}"
                        ));
                    }
                }
            }
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(e) => return Err(format!("wait for the subject: {e}")),
        }
        let mut byte = [0u8];
        match read(from, &mut byte) {
            Ok(1) if byte[0] == b'\n' => return Ok(String::from_utf8_lossy(&line).into_owned()),
            Ok(1) => line.push(byte[0]),
            Ok(_) => return Err("the subject closed its report".into()),
            Err(Errno::EINTR) => {}
            Err(e) => return Err(format!("read the subject's report: {e}")),
        }
    }
}

/// Reaps everything below until nothing is left, carrying out orders meanwhile.
fn reap(
    subject: Pid,
    entered: &Entered,
    signals: &SigSet,
    channel: &Channel,
) -> Result<(), String> {
    let ended = SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(|e| format!("signalfd: {e}"))?;
    let mut killing = false;
    let mut subject_ended = false;
    loop {
        loop {
            match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => break,
                // Nobody may be there to hear it any more; what is left below must still be ended.
                Ok(WaitStatus::Exited(pid, code)) if pid == subject => {
                    subject_ended = true;
                    let _ = channel.send(&format!("exited {code}"), None);
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == subject => {
                    subject_ended = true;
                    let _ = channel.send(&format!("signaled {}", signal as i32), None);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => {
                    if entered.ipc {
                        for line in ipc_left_behind() {
                            let _ = channel.send(&format!("left {line}"), None);
                        }
                    }
                    // The supervisor looks at what is left through this process, and then closes.
                    if channel.send("empty", None).is_ok() {
                        while let Ok(Some(_)) = channel.receive() {}
                    }
                    return Ok(());
                }
                Err(e) => return Err(format!("reap: {e}")),
            }
        }
        if killing {
            kill_below(entered.pid);
        }
        let timeout = if killing {
            PollTimeout::from(5u16)
        } else {
            PollTimeout::NONE
        };
        let mut polled = [
            PollFd::new(ended.as_fd(), PollFlags::POLLIN),
            PollFd::new(channel.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(format!("wait: {e}")),
        }
        let spoken = polled[1].any().unwrap_or(false);
        while let Ok(Some(_)) = ended.read_signal() {}
        if spoken && !killing {
            match channel.receive() {
                Ok(Some((order, _))) if order == "term" => {
                    if !subject_ended {
                        // It leads a session and a group of its own; ESRCH means that it has just gone.
                        let _ = kill(Pid::from_raw(-subject.as_raw()), Signal::SIGTERM);
                    }
                }
                // An order to kill, a closed channel, or anything else: end everything.
                _ => killing = true,
            }
        }
    }
}

/// System V objects of this process's ipc namespace, which only a process in it can list
/// (`/proc/sysvipc`, see proc(5)).
fn ipc_left_behind() -> Vec<String> {
    let mut left = Vec::new();
    for kind in ["shm", "sem", "msg"] {
        let text = std::fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let mut columns = line.split_whitespace();
            let (key, id) = (columns.next().unwrap_or("?"), columns.next().unwrap_or("?"));
            left.push(format!("{kind} {id} with key {key}"));
        }
    }
    left
}

/// Kills every process below this one once; orphans come here and are met the next time.
fn kill_below(private_pids: bool) {
    if private_pids {
        // In a private tree this is everybody but init; ESRCH means nobody is left.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        return;
    }
    for pid in children() {
        // A child that has gone meanwhile is what we want.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// The direct children of this process.
fn children() -> Vec<Pid> {
    let own = Pid::this();
    if let Ok(text) = std::fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        return text
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .map(Pid::from_raw)
            .collect();
    }
    // Kernels without that file: look at everybody's parent.
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str().and_then(|n| n.parse::<i32>().ok()));
    numbers
        .filter(|pid| crate::process::parent_of(Path::new("/proc"), *pid) == Some(own.as_raw()))
        .map(Pid::from_raw)
        .collect()
}

/// Writes one line to the report pipe. A report nobody reads any more is no loss.
fn say(to: BorrowedFd<'_>, line: &str) {
    let mut text = line.replace('\n', " ");
    text.push('\n');
    let _ = nix::unistd::write(to, text.as_bytes());
}
