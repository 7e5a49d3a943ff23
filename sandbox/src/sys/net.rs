//! The few network calls that need raw memory.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::check;

/// Brings the loopback device of the current network namespace up.
pub fn bring_loopback_up() -> io::Result<()> {
    // SAFETY: only scalars are passed.
    let fd = check(i64::from(unsafe {
        libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)
    }))?;
    // SAFETY: the call above returned a new descriptor that nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    // SAFETY: `ifreq` is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the request reads one `ifreq`, which outlives the call.
    check(i64::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request)
    }))
    .map(drop)
}

/// connect(2) with an address held as bytes (`sockaddr` in native layout).
pub fn connect(socket: impl AsFd, address: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `address`, which outlives the call; the kernel only reads.
    check(i64::from(unsafe {
        libc::connect(
            socket.as_fd().as_raw_fd(),
            address.as_ptr().cast(),
            address.len() as libc::socklen_t,
        )
    }))
    .map(drop)
}

/// bind(2) with an address held as bytes (`sockaddr` in native layout).
pub fn bind(socket: impl AsFd, address: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length describe `address`, which outlives the call; the kernel only reads.
    check(i64::from(unsafe {
        libc::bind(
            socket.as_fd().as_raw_fd(),
            address.as_ptr().cast(),
            address.len() as libc::socklen_t,
        )
    }))
    .map(drop)
}

/// sendto(2) with an address held as bytes (`sockaddr` in native layout).
pub fn send_to(socket: impl AsFd, data: &[u8], flags: i32, address: &[u8]) -> io::Result<usize> {
    // SAFETY: both pointers and lengths describe slices that outlive the call; the kernel only reads.
    let sent = unsafe {
        libc::sendto(
            socket.as_fd().as_raw_fd(),
            data.as_ptr().cast(),
            data.len(),
            flags | libc::MSG_NOSIGNAL,
            address.as_ptr().cast(),
            address.len() as libc::socklen_t,
        )
    };
    check(sent as i64).map(|n| n as usize)
}

/// The address family of a socket (`SO_DOMAIN`) and its type (`SO_TYPE`).
pub fn family_and_type(socket: impl AsFd) -> io::Result<(i32, i32)> {
    let option = |name: i32| -> io::Result<i32> {
        let mut value: i32 = 0;
        let mut length = size_of::<i32>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `value`; both outlive the call.
        check(i64::from(unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                name,
                (&raw mut value).cast(),
                &raw mut length,
            )
        }))?;
        Ok(value)
    };
    Ok((option(libc::SO_DOMAIN)?, option(libc::SO_TYPE)?))
}
