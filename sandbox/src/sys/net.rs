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

/// sendmsg(2) with everything held as bytes: an address, data, and control messages in native layout
/// (cmsg(3)) that name descriptors of this process.
pub fn send_message(
    socket: impl AsFd,
    address: &[u8],
    data: &[u8],
    control: &[u8],
    flags: i32,
) -> io::Result<usize> {
    let mut part = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast(),
        iov_len: data.len(),
    };
    // SAFETY: `msghdr` is plain data for which all zeroes is a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    if !address.is_empty() {
        header.msg_name = address.as_ptr().cast_mut().cast();
        header.msg_namelen = address.len() as libc::socklen_t;
    }
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if !control.is_empty() {
        header.msg_control = control.as_ptr().cast_mut().cast();
        header.msg_controllen = control.len();
    }
    // SAFETY: every pointer in `header` is null or describes a slice that outlives the call; the
    // kernel only reads what they point to.
    let sent = unsafe {
        libc::sendmsg(
            socket.as_fd().as_raw_fd(),
            &raw const header,
            flags | libc::MSG_NOSIGNAL,
        )
    };
    check(sent as i64).map(|n| n as usize)
}

/// The family, type and protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketKind {
    /// `AF_*`.
    pub family: i32,
    /// `SOCK_*`.
    pub kind: i32,
    /// The protocol.
    pub protocol: i32,
}

/// What kind of socket it is (`SO_DOMAIN`, `SO_TYPE`, `SO_PROTOCOL`).
pub fn kind_of(socket: impl AsFd) -> io::Result<SocketKind> {
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
    Ok(SocketKind {
        family: option(libc::SO_DOMAIN)?,
        kind: option(libc::SO_TYPE)?,
        protocol: option(libc::SO_PROTOCOL)?,
    })
}
