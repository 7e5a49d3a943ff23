//! seccomp user notification: installing the filter, receiving and answering.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use super::check;

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` (linux/seccomp.h, Linux 6.6).
const SYNC_WAKE_UP: u64 = 1;

/// Installs `program` for this process and returns the number of the listener's descriptor.
///
/// `WAIT_KILLABLE_RECV` (Linux 5.19) is used where the kernel has it: without it a signal makes a
/// trapped call start again. The caller must have set no_new_privs.
pub fn install_listener(program: &[libc::sock_filter]) -> io::Result<RawFd> {
    let header = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    let install = |flags: u64| {
        // SAFETY: `header` describes `program`; both outlive the call, and the kernel copies them.
        check(unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const header,
            )
        })
    };
    let plain = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let fd = match install(plain | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => install(plain)?,
        other => other?,
    };
    Ok(fd as RawFd)
}

/// Asks for a synchronous switch between subject and supervisor (Linux 6.6); `false` where there is none.
pub fn wake_synchronously(listener: impl AsFd) -> bool {
    // SAFETY: the argument of this request is a value, not a pointer.
    unsafe {
        libc::ioctl(
            listener.as_fd().as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
            SYNC_WAKE_UP,
        ) == 0
    }
}

/// One trapped call.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// Its cookie.
    pub id: u64,
    /// The thread that made it, as numbered in the supervisor's namespace.
    pub tid: i32,
    /// `AUDIT_ARCH_*`.
    pub arch: u32,
    /// The call's number in that architecture.
    pub nr: i32,
    /// Its arguments, untyped.
    pub args: [u64; 6],
}

/// Receives one notification; `None` when the caller died or was interrupted meanwhile.
pub fn receive(listener: impl AsFd) -> io::Result<Option<Notification>> {
    // SAFETY: plain data; the kernel demands that it be all zeroes.
    let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes one `seccomp_notif` into `raw`, which outlives the call.
    let ret = unsafe {
        libc::ioctl(
            listener.as_fd().as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            &raw mut raw,
        )
    };
    match check(i64::from(ret)) {
        Ok(_) => Ok(Some(Notification {
            id: raw.id,
            tid: raw.pid as i32,
            arch: raw.data.arch,
            nr: raw.data.nr,
            args: raw.data.args,
        })),
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether the call behind `id` still waits. What was read of its process before is only then its own.
pub fn still_waits(listener: impl AsFd, id: u64) -> bool {
    // SAFETY: the request reads one u64, which outlives the call.
    unsafe {
        libc::ioctl(
            listener.as_fd().as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw const id,
        ) == 0
    }
}

/// What the trapped call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The kernel carries it out, and the layers below decide.
    Continue,
    /// It fails with this errno.
    Fail(i32),
    /// It returns this value; the supervisor has done the work.
    Value(i64),
}

/// Answers a notification. A caller that died meanwhile is no error.
pub fn answer(listener: impl AsFd, id: u64, answer: Answer) -> io::Result<()> {
    let (val, error, flags) = match answer {
        Answer::Continue => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        Answer::Fail(errno) => (0, -errno, 0),
        Answer::Value(value) => (value, 0, 0),
    };
    let response = libc::seccomp_notif_resp {
        id,
        val,
        error,
        flags,
    };
    // SAFETY: the request reads one `seccomp_notif_resp`, which outlives the call.
    let ret = unsafe {
        libc::ioctl(
            listener.as_fd().as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw const response,
        )
    };
    match check(i64::from(ret)) {
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other.map(drop),
    }
}
