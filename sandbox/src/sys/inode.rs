//! Inode flags, which have no portable reader.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

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
