//! System calls for which no typed wrapper exists. The only module with `unsafe` in it.
//!
//! Every function here is safe to call: it owns what it passes to the kernel, checks the return
//! value, and hands descriptors back as owned.

pub mod inode;
pub mod mount;
pub mod net;
pub mod process;
pub mod seccomp;

use std::io;

/// Turns a raw return value into a result, reading errno at once.
fn check(ret: libc::c_long) -> io::Result<libc::c_long> {
    if ret < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(ret)
    }
}
