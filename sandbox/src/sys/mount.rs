//! The descriptor-based mount calls (open_tree(2), move_mount(2), mount_setattr(2), fsopen(2)).

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::check;

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "path holds a NUL byte"))
}

fn owned(fd: libc::c_long) -> OwnedFd {
    // SAFETY: only called with the non-negative result of a call that returns a new descriptor,
    // which nothing else owns yet.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// A detached copy of the mounts at and below `path`.
pub fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as u32;
    // SAFETY: `path` is a NUL-terminated string that outlives the call; no other memory is passed.
    check(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })
        .map(owned)
}

/// Attaches a detached mount at `target`, over whatever is there.
pub fn attach(tree: impl AsFd, target: &Path) -> io::Result<()> {
    let target = c_path(target)?;
    let from = tree.as_fd().as_raw_fd();
    // SAFETY: both paths are NUL-terminated and outlive the call; the descriptor is borrowed.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            from,
            c"".as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    })
    .map(drop)
}

fn set_attributes(dir: i32, path: &CStr, flags: u32, set: u64) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: `path` and `attributes` outlive the call, and the size passed is that of the struct.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir,
            path.as_ptr(),
            flags,
            &attributes,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Makes every mount at and below the mount point `path` read-only.
pub fn make_read_only_below(path: &Path) -> io::Result<()> {
    set_attributes(
        libc::AT_FDCWD,
        &c_path(path)?,
        libc::AT_RECURSIVE as u32,
        libc::MOUNT_ATTR_RDONLY,
    )
}

/// Makes a detached mount, and what is mounted below it, read-only.
pub fn make_tree_read_only(tree: impl AsFd) -> io::Result<()> {
    let flags = (libc::AT_EMPTY_PATH | libc::AT_RECURSIVE) as u32;
    set_attributes(
        tree.as_fd().as_raw_fd(),
        c"",
        flags,
        libc::MOUNT_ATTR_RDONLY,
    )
}

/// A new, detached instance of a file system. Keys without a value are flags.
pub fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, Option<&CStr>)],
    attributes: u64,
) -> io::Result<OwnedFd> {
    // SAFETY: `kind` is NUL-terminated and outlives the call.
    let context =
        check(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), libc::FSOPEN_CLOEXEC) })
            .map(owned)?;
    for (key, value) in options {
        let (command, value) = match value {
            Some(value) => (libc::FSCONFIG_SET_STRING, value.as_ptr()),
            None => (libc::FSCONFIG_SET_FLAG, std::ptr::null()),
        };
        // SAFETY: key and value are NUL-terminated and outlive the call; a flag has no value.
        check(unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                command,
                key.as_ptr(),
                value,
                0,
            )
        })?;
    }
    let null = std::ptr::null::<libc::c_char>();
    // SAFETY: the command takes neither key nor value.
    check(unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            libc::FSCONFIG_CMD_CREATE,
            null,
            null,
            0,
        )
    })?;
    // SAFETY: only scalars and a borrowed descriptor are passed.
    check(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            libc::FSMOUNT_CLOEXEC,
            attributes,
        )
    })
    .map(owned)
}

/// Mount attributes for a private temp folder: no set-user-id programs, no devices.
pub const PRIVATE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
