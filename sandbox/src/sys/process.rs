//! Forking, executing, and reading another process.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::check;

/// Which side of a fork one is on.
pub enum Forked {
    /// In the parent; the child's process number.
    Parent(i32),
    /// In the child.
    Child,
}

fn clone(flags: libc::c_long) -> io::Result<Forked> {
    // SAFETY: without CLONE_VM the child has its own copy of memory, so no Rust aliasing is broken.
    // Callers are the launcher's processes, which are single-threaded: no lock can be held by a
    // thread that the child lacks.
    let pid = check(unsafe {
        libc::syscall(
            libc::SYS_clone,
            flags | i64::from(libc::SIGCHLD),
            0,
            0,
            0,
            0,
        )
    })?;
    Ok(if pid == 0 {
        Forked::Child
    } else {
        Forked::Parent(pid as i32)
    })
}

/// fork(2), for single-threaded callers.
pub fn fork() -> io::Result<Forked> {
    clone(0)
}

/// A fork whose child shares the descriptor table until it executes or unshares it.
///
/// The parent can then pass on a descriptor that the child opened when the child may no longer send.
pub fn fork_sharing_descriptors() -> io::Result<Forked> {
    clone(i64::from(libc::CLONE_FILES))
}

/// Stops sharing the descriptor table and marks every descriptor from `first` on close-on-exec.
pub fn close_from_on_exec(first: RawFd) -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: only scalars are passed; descriptors stay open until an exec.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) }).map(drop)
}

/// Closes every descriptor from `first` on.
///
/// For a process that has just been executed and owns none of them.
pub fn close_from(first: RawFd) -> io::Result<()> {
    // SAFETY: only scalars are passed. Called first thing in a role of its own, where no Rust object
    // holds a descriptor from `first` on.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}

/// Takes ownership of an inherited descriptor; `None` when it is not open.
pub fn inherited(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: F_GETFD reads no memory.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: it is open, and roles call this once per number, before anything else could own it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets `command`'s child start with `fds[i]` at number `3 + i`.
pub fn inherit_at_three(command: &mut Command, fds: &[RawFd]) {
    let fds = fds.to_vec();
    let base = 3 + fds.len() as RawFd;
    let place = move || {
        // First out of the way of the final numbers, then to them: no dup2 overwrites a source.
        for (i, fd) in fds.iter().enumerate() {
            // SAFETY: only scalars; both calls are async-signal-safe.
            check(i64::from(unsafe {
                libc::fcntl(*fd, libc::F_DUPFD, base + 16 + i as RawFd)
            }))
            .and_then(|copy| {
                // SAFETY: as above. The copy has no CLOEXEC flag, and neither has what dup2 makes.
                check(i64::from(unsafe {
                    libc::dup2(copy as RawFd, base + i as RawFd)
                }))
            })?;
        }
        for i in 0..fds.len() as RawFd {
            // SAFETY: as above.
            check(i64::from(unsafe { libc::dup2(base + i, 3 + i) }))?;
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec in a possibly threaded parent; it only makes
    // async-signal-safe calls and touches memory that was allocated before.
    unsafe { command.pre_exec(place) };
}

/// execve(2); returns only on failure.
pub fn execute(path: &CString, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |list: &[CString]| {
        let mut v: Vec<*const libc::c_char> = list.iter().map(|s| s.as_ptr()).collect();
        v.push(std::ptr::null());
        v
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end in NULL and point to NUL-terminated strings that outlive the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Gives every signal its default action and an empty mask, as a fresh process has.
pub fn reset_signals() {
    // The kernel's own call and structure: the C library refuses the two signals it keeps for itself,
    // and they would stay ignored. Handler, flags, restorer and mask, of 8 bytes each.
    let default = [0u64; 4];
    for signal in 1..=64 {
        // SAFETY: the kernel reads `default`, which outlives the call; SIG_DFL (0) installs no code of
        // ours; numbers that cannot be set are refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null::<u64>(),
                8,
            );
        }
    }
    // SAFETY: `set` is initialised by sigemptyset before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// A descriptor that stands for process `pid` (pidfd_open(2)).
pub fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: only scalars are passed.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// A copy of descriptor `fd` of the process behind `pidfd` (pidfd_getfd(2)).
pub fn descriptor_of(pidfd: impl AsFd, fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only scalars and a borrowed descriptor are passed.
    let fd =
        check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_fd().as_raw_fd(), fd, 0) })?;
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Takes ownership of a descriptor that has just arrived in a control message.
pub fn received(fd: RawFd) -> OwnedFd {
    // SAFETY: the kernel installed it in this process for the receiver, and nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Sets the priority of `pid` to what it is (setpriority(2)).
pub fn same_priority(pid: i32) -> io::Result<()> {
    // SAFETY: only scalars are passed.
    let priority = unsafe { libc::getpriority(libc::PRIO_PROCESS, pid as libc::id_t) };
    // SAFETY: only scalars are passed.
    check(i64::from(unsafe {
        libc::setpriority(libc::PRIO_PROCESS, pid as libc::id_t, priority)
    }))
    .map(drop)
}
