//! Starting the launcher, capturing what the subject prints, and seeing the launcher off.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::pipe2;

use super::{BURIAL, RunError, launcher};
use crate::channel::Channel;
use crate::job::{Job, Output};
use crate::launch::wire::Order;
use crate::roles;
use crate::sys::process::inherit_at_three;

/// The launcher and the supervisor's ends of everything it was given.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) channel: Channel,
    pub(super) stdout: Stream,
    pub(super) stderr: Stream,
}

/// One captured stream; `pipe` is gone once it has ended.
pub(super) struct Stream {
    pub(super) pipe: Option<File>,
    pub(super) output: Output,
    cap: usize,
}

impl Stream {
    fn new(pipe: OwnedFd, cap: usize) -> Stream {
        Stream {
            pipe: Some(File::from(pipe)),
            output: Output::default(),
            cap,
        }
    }

    /// Reads what is there without waiting.
    pub(super) fn drain(&mut self) {
        let mut buffer = [0u8; 1 << 16];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(n) => {
                    let room = self.cap.saturating_sub(self.output.bytes.len()).min(n);
                    self.output.bytes.extend_from_slice(&buffer[..room]);
                    self.output.dropped += (n - room) as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}

impl Started {
    pub(super) fn start(job: &Job, order: &Order) -> Result<Started, RunError> {
        let pipe = || {
            pipe2(OFlag::O_CLOEXEC)
                .map_err(io::Error::from)
                .map_err(launcher("make a pipe"))
        };
        let (stdout, out) = pipe()?;
        let (stderr, err) = pipe()?;
        for end in [&stdout, &stderr] {
            nix::fcntl::fcntl(end, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
                .map_err(io::Error::from)
                .map_err(launcher("set up a pipe"))?;
        }
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .map_err(io::Error::from)
        .map_err(launcher("make the control channel"))?;
        let message = memfd_create(c"calibrun-order", MFdFlags::MFD_CLOEXEC)
            .map_err(io::Error::from)
            .map_err(launcher("make the launch order"))?;
        let mut message = File::from(message);
        message
            .write_all(&order.encode())
            .map_err(launcher("write the launch order"))?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("calibrun-launcher")
            .arg(roles::LAUNCHER)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        inherit_at_three(&mut command, &[theirs.as_raw_fd(), message.as_raw_fd()]);
        let child = command.spawn().map_err(launcher("execute it"))?;
        let cap = job.limits.output_cap;
        Ok(Started {
            child,
            channel: Channel::new(ours),
            stdout: Stream::new(stdout, cap),
            stderr: Stream::new(stderr, cap),
        })
    }
}

/// Waits for the launcher, which ends with everything below it once the channel is closed.
pub(super) fn bury(child: &mut Child) {
    let deadline = Instant::now() + BURIAL;
    loop {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => return,
            Ok(None) if Instant::now() > deadline => {
                // In a private tree its death takes init and everybody else along.
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
