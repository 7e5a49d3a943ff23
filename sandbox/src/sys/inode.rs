//! Inode flags, which have no portable reader.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::check;

/// The inode flags of an open file or folder (`FS_IOC_GETFLAGS`, see ioctl_iflags(2)).
///
/// `None` where the file system has none.
pub fn flags(file: &File) -> io::Result<Option<u32>> {
    let mut value: libc::c_long = 0;
    // SAFETY: the request writes at most one long, into `value`, which outlives the call; the
    // descriptor is borrowed from an open `File`.
    let ret = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &mut value) };
    if ret == 0 {
        // The kernel stores an int whatever the request's declared size.
        return Ok(Some(value as u32));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOTTY | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS) => Ok(None),
        _ => Err(error),
    }
}

/// Sets the inode flags of an open file or folder (`FS_IOC_SETFLAGS`).
pub fn set_flags(file: &File, flags: u32) -> io::Result<()> {
    let value = libc::c_long::from(flags as i32);
    // SAFETY: the request reads at most one long, from `value`, which outlives the call.
    check(i64::from(unsafe {
        libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &value)
    }))
    .map(drop)
}

/// Sets an extended attribute of what `path` leads to (setxattr(2)).
pub fn set_xattr(path: &Path, name: &CStr, value: &[u8]) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: both strings are NUL-terminated, `value` is a slice of the given length, and all three
    // outlive the call; the kernel only reads them.
    let ret = unsafe {
        libc::setxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    check(i64::from(ret)).map(drop)
}

/// Whether what `path` leads to has an extended attribute of that name (getxattr(2)).
pub fn has_xattr(path: &Path, name: &CStr) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: both strings are NUL-terminated and outlive the call; a length of 0 asks for the size
    // alone, and nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) >= 0 }
}
