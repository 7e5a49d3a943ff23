//! The control channel between supervisor and launcher: short text messages, one descriptor at most.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::sys::process::received;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// One end of a sequenced-packet socket pair.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    /// Longest message, in bytes; a longer one is cut.
    const LONGEST: usize = 4096;

    pub(crate) fn new(socket: OwnedFd) -> Channel {
        Channel(socket)
    }

    pub(crate) fn send(&self, text: &str, descriptor: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let mut end = text.len().min(Self::LONGEST);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let parts = [IoSlice::new(&text.as_bytes()[..end])];
        let raw = descriptor.map(|fd| [fd.as_raw_fd()]);
        let rights = raw.as_ref().map(|fds| [ControlMessage::ScmRights(fds)]);
        let control: &[ControlMessage<'_>] = rights.as_ref().map_or(&[], |list| list);
        loop {
            match sendmsg::<()>(
                self.0.as_raw_fd(),
                &parts,
                control,
                MsgFlags::MSG_NOSIGNAL,
                None,
            ) {
                Err(Errno::EINTR) => {}
                other => return other.map(drop),
            }
        }
    }

    /// The next message; `None` when the other end is closed.
    pub(crate) fn receive(&self) -> Result<Option<(String, Option<OwnedFd>)>, Errno> {
        let mut buffer = [0u8; Self::LONGEST];
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
        let (bytes, descriptor) = loop {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let message =
                match recvmsg::<()>(self.0.as_raw_fd(), &mut parts, Some(&mut space), flags) {
                    Err(Errno::EINTR) => continue,
                    Err(Errno::ECONNRESET) => return Ok(None),
                    other => other?,
                };
            let mut descriptor = None;
            for control in message.cmsgs()? {
                if let ControlMessageOwned::ScmRights(fds) = control {
                    descriptor = fds.first().map(|fd| received(*fd));
                }
            }
            break (message.bytes, descriptor);
        };
        if bytes == 0 {
            return Ok(None);
        }
        Ok(Some((
            String::from_utf8_lossy(&buffer[..bytes]).into_owned(),
            descriptor,
        )))
    }
}
