//! Messages as the kernel would take them from the subject, copied whole.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use nix::unistd::Pid;

use super::memory::{self, Unread};
use super::sockets::LONGEST_ADDRESS;
use crate::sys::net;

/// Sizes on 64-bit: `struct msghdr`, `struct mmsghdr`, `struct iovec`, `struct cmsghdr`.
const MSGHDR: usize = 56;
const MMSGHDR: usize = 64;
const IOVEC: usize = 16;
const CMSGHDR: usize = 16;
/// `UIO_MAXIOV`: no call takes more parts or messages.
const MOST: u64 = 1024;
/// Data of one message that is copied. A stream takes the rest with the next call.
const MOST_DATA: usize = 1 << 20;
/// Control data of one message (`net.core.optmem_max` is less by default).
const MOST_CONTROL: usize = 1 << 16;

/// One message, out of the subject's reach.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// Empty when there is none.
    pub address: Vec<u8>,
    pub data: Vec<u8>,
    control: Vec<u8>,
    /// There was more data than is copied.
    cut: bool,
}

impl Message {
    /// The message of sendto(2).
    pub(super) fn of_buffer(
        tid: i32,
        at: u64,
        length: u64,
        address: Vec<u8>,
    ) -> Result<Message, Unread> {
        let mut message = Message {
            address,
            ..Message::default()
        };
        message.take(tid, at, length)?;
        Ok(message)
    }

    fn take(&mut self, tid: i32, at: u64, length: u64) -> Result<(), Unread> {
        let room = MOST_DATA - self.data.len();
        let taken = usize::try_from(length).unwrap_or(usize::MAX).min(room);
        self.cut |= taken as u64 != length;
        if taken > 0 {
            self.data.extend(memory::bytes(tid, at, taken)?);
        }
        Ok(())
    }

    /// Replaces the numbers of passed descriptors (`SCM_RIGHTS`) by those of the supervisor's own copies,
    /// which must be held until the message is sent.
    ///
    /// `Err` is an errno: control data that cannot be passed on, or a descriptor that is not open.
    pub(super) fn bring_descriptors(
        &mut self,
        copy: impl Fn(i32) -> Option<OwnedFd>,
    ) -> Result<Vec<OwnedFd>, i32> {
        let mut held = Vec::new();
        let mut at = 0;
        while at + CMSGHDR <= self.control.len() {
            let length = u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| self.control[at + i]));
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let (level, kind) = (self.number(at + 8), self.number(at + 12));
            let end = at
                .checked_add(length)
                .filter(|end| *end <= self.control.len());
            let Some(end) = end.filter(|_| length >= CMSGHDR) else {
                return Err(libc::EINVAL);
            };
            if level == libc::SOL_SOCKET {
                // Credentials would be the supervisor's, not the subject's.
                if kind != libc::SCM_RIGHTS {
                    return Err(libc::EPERM);
                }
                for from in (at + CMSGHDR..end)
                    .step_by(4)
                    .filter(|from| from + 4 <= end)
                {
                    let own = copy(self.number(from)).ok_or(libc::EBADF)?;
                    self.control[from..from + 4].copy_from_slice(&own.as_raw_fd().to_ne_bytes());
                    held.push(own);
                }
            }
            at = end.next_multiple_of(8);
        }
        Ok(held)
    }

    fn number(&self, from: usize) -> i32 {
        i32::from_ne_bytes([0, 1, 2, 3].map(|i| self.control[from + i]))
    }

    /// Sends it; the result as the kernel would give it.
    pub(super) fn send(&self, socket: impl AsFd, flags: i32) -> Result<usize, i32> {
        if self.cut && !net::kind_of(&socket).is_ok_and(|kind| kind.kind == libc::SOCK_STREAM) {
            return Err(libc::EMSGSIZE);
        }
        net::send_message(socket, &self.address, &self.data, &self.control, flags)
            .map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Reads the message of sendmsg(2), or with `many` those of sendmmsg(2).
pub(super) fn read_all(tid: i32, first: u64, many: Option<u32>) -> Result<Vec<Message>, Unread> {
    match many {
        None => Ok(vec![read(tid, first)?]),
        Some(count) => {
            let count = u64::from(count).min(MOST);
            (0..count)
                .map(|index| read(tid, first + index * MMSGHDR as u64))
                .collect()
        }
    }
}

fn read(tid: i32, at: u64) -> Result<Message, Unread> {
    let header = memory::bytes(tid, at, MSGHDR)?;
    let long = |from: usize| u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| header[from + i]));
    let (name, name_length) = (long(0), long(8) as u32 as i32);
    let (parts, count) = (long(16), long(24));
    let (control, control_length) = (long(32), long(40));
    let mut message = Message::default();
    if name != 0 && name_length > 0 {
        let length = (name_length as usize).min(LONGEST_ADDRESS);
        message.address = memory::bytes(tid, name, length)?;
    }
    if count > MOST {
        return Err(Unread::TooLong);
    }
    if count > 0 {
        let list = memory::bytes(tid, parts, count as usize * IOVEC)?;
        for part in list.chunks_exact(IOVEC) {
            let long =
                |from: usize| u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| part[from + i]));
            message.take(tid, long(0), long(8))?;
        }
    }
    if control != 0 && control_length > 0 {
        let length = usize::try_from(control_length).unwrap_or(usize::MAX);
        if length > MOST_CONTROL {
            return Err(Unread::TooLong);
        }
        message.control = memory::bytes(tid, control, length)?;
    }
    Ok(message)
}

/// Writes how much of message `index` was sent into the caller's `struct mmsghdr`.
pub(super) fn fill_length(
    tid: i32,
    first: u64,
    index: u64,
    sent: usize,
) -> Result<(), nix::errno::Errno> {
    let bytes = (sent as u32).to_ne_bytes();
    let remote = RemoteIoVec {
        base: (first + index * MMSGHDR as u64) as usize + MSGHDR,
        len: bytes.len(),
    };
    process_vm_writev(Pid::from_raw(tid), &[IoSlice::new(&bytes)], &[remote]).map(drop)
}

/// Whether every netlink request in `data` only asks (netlink(7), rtnetlink(7), sock_diag(7)).
pub(super) fn only_asks(data: &[u8], protocol: i32) -> bool {
    /// `struct nlmsghdr`.
    const HEADER: usize = 16;
    /// Control messages of netlink itself are below.
    const FIRST_REQUEST: u16 = 16;
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    let mut rest = data;
    while rest.len() >= HEADER {
        let length = u32::from_ne_bytes([0, 1, 2, 3].map(|i| rest[i])) as usize;
        let kind = u16::from_ne_bytes([rest[4], rest[5]]);
        let asks = kind < FIRST_REQUEST
            || match protocol {
                // The two low bits of a route request: new, delete, get, set.
                libc::NETLINK_ROUTE => kind & 3 == 2,
                libc::NETLINK_SOCK_DIAG => kind == SOCK_DIAG_BY_FAMILY,
                _ => false,
            };
        if !asks {
            return false;
        }
        if length < HEADER {
            return true; // the kernel stops reading here
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: u16, length: u32) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.resize(length.max(16) as usize, 0);
        bytes
    }

    #[test]
    fn requests_that_change_something_are_told_from_those_that_ask() {
        let (get_link, set_link, new_route) = (18, 19, 24);
        let asks = |data: &[u8]| only_asks(data, libc::NETLINK_ROUTE);
        assert!(asks(&request(get_link, 32)));
        assert!(!asks(&request(set_link, 32)));
        assert!(!asks(&request(new_route, 20)));
        // Behind one that asks, and after odd lengths.
        assert!(!asks(
            &[request(get_link, 17), vec![0; 3], request(set_link, 16)].concat()
        ));
        assert!(asks(
            &[request(get_link, 16), request(get_link, 16)].concat()
        ));
        assert!(only_asks(&request(20, 16), libc::NETLINK_SOCK_DIAG));
        assert!(
            !only_asks(&request(21, 16), libc::NETLINK_SOCK_DIAG),
            "destroys a socket"
        );
        assert!(!only_asks(&request(18, 16), libc::NETLINK_KOBJECT_UEVENT));
        assert!(asks(b"") && asks(&[1; 8]));
    }

    #[test]
    fn passed_descriptors_become_copies() {
        let mut control = (20u64).to_ne_bytes().to_vec();
        control.extend(libc::SOL_SOCKET.to_ne_bytes());
        control.extend(libc::SCM_RIGHTS.to_ne_bytes());
        control.extend(7i32.to_ne_bytes());
        let mut message = Message {
            control: control.clone(),
            ..Message::default()
        };
        let file = std::fs::File::open("/dev/null").unwrap();
        let held = message
            .bring_descriptors(|fd| (fd == 7).then(|| file.try_clone().unwrap().into()))
            .unwrap();
        assert_eq!(held.len(), 1);
        assert_eq!(message.control[16..20], held[0].as_raw_fd().to_ne_bytes());
        let mut closed = Message {
            control: control.clone(),
            ..Message::default()
        };
        assert_eq!(closed.bring_descriptors(|_| None).unwrap_err(), libc::EBADF);
        // Credentials, and lengths that lie.
        let mut credentials = control.clone();
        credentials[12] = 2;
        let mut long = control.clone();
        long[0] = 200;
        for (control, errno) in [(credentials, libc::EPERM), (long, libc::EINVAL)] {
            let mut message = Message {
                control,
                ..Message::default()
            };
            assert_eq!(message.bring_descriptors(|_| None).unwrap_err(), errno);
        }
    }
}
