//! Calls that name a socket address.
//!
//! The address lies in memory that the subject can rewrite, and no lower layer stops a connection to
//! a socket file. So what is permitted is done here, with the supervisor's own copy of address and
//! socket; the kernel never looks at the subject's copy again.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use super::ledger::pathless;
use super::memory::{self, Unread};
use super::{Caller, Decision, Reply, Supervisor, unreadable};
use crate::address::{Address, open_ports};
use crate::attempt::{Attempt, Effect, FileKind, Mark, Outcome, Place};
use crate::places::is_name_service;
use crate::resolve::{Base, End};
use crate::sys::net;
use crate::sys::process::{descriptor_of, pidfd};
use crate::sys::seccomp::{Answer, Notification};

/// `struct sockaddr_storage`: no address is longer.
const LONGEST_ADDRESS: usize = 128;
/// A datagram that the supervisor sends for the arm; longer ones do not fit one anyway.
const LONGEST_DATAGRAM: usize = 1 << 16;
/// `struct msghdr` and `struct mmsghdr` on 64-bit: name pointer, name length, …
const MSGHDR: usize = 56;
const MMSGHDR: usize = 64;
/// As the kernel's UIO_MAXIOV: no call sends more messages.
const MOST_MESSAGES: u64 = 1024;

impl Supervisor {
    /// connect, bind, sendto.
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of one table row, matched where they are used"
    )]
    pub(super) fn address(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        effect: Effect,
        fd: u8,
        addr: u8,
        len: u8,
    ) -> Decision {
        let length = call.args[usize::from(len)] as i32;
        if length < 0 || length as usize > LONGEST_ADDRESS {
            return Decision::silent(Answer::Fail(libc::EINVAL));
        }
        let bytes = match memory::bytes(caller.tid, call.args[usize::from(addr)], length as usize) {
            Ok(bytes) => bytes,
            Err(Unread::Null | Unread::TooLong) => {
                return Decision::silent(Answer::Fail(libc::EFAULT));
            }
            Err(Unread::Hidden) => return unreadable(effect, name),
        };
        let address = if effect == Effect::Send {
            Address::destination(&bytes)
        } else {
            Address::parse(&bytes)
        };
        let fd = call.args[usize::from(fd)] as i32;
        if effect == Effect::Bind {
            return self.bind(caller, name, &address, &bytes, fd);
        }
        let data = if effect == Effect::Send {
            Some((call.args[1], call.args[2], call.args[3] as i32))
        } else {
            None
        };
        self.reach_out(caller, name, effect, &address, bytes, fd, data)
    }

    fn bind(
        &mut self,
        caller: &Caller,
        name: &'static str,
        address: &Address,
        bytes: &[u8],
        fd: i32,
    ) -> Decision {
        match address {
            Address::Unix(path) => {
                match self.reach_path(caller, Base::Cwd, path.clone(), End::Keep) {
                    Ok(reached) => {
                        let taken = reached.exists().then_some(nix::errno::Errno::EADDRINUSE);
                        self.settle(name, Effect::Bind, reached, None, taken)
                    }
                    Err(_) => unreadable(Effect::Bind, name),
                }
            }
            Address::Inet(_, port) => {
                if !self.world.private_net && !address.is_local() {
                    let attempt = pathless(
                        Effect::Bind,
                        Place::Egress,
                        Outcome::Denied,
                        name,
                        address.text(),
                    );
                    return Decision::one(attempt, Answer::Fail(libc::EACCES));
                }
                if *port != 0 {
                    self.asked_ports.insert(*port);
                }
                let attempt = pathless(
                    Effect::Bind,
                    Place::Ipc,
                    Outcome::Allowed,
                    name,
                    address.text(),
                );
                if self.world.private_net {
                    return Decision::one(attempt, Answer::Continue);
                }
                // On the host's own network the address must not be swapped for one that others reach.
                match self.socket_of(caller, fd) {
                    Some(socket) => Decision::one(attempt, outcome_of(net::bind(&socket, bytes))),
                    None => Decision::silent(Answer::Fail(libc::EBADF)),
                }
            }
            Address::Abstract(_) | Address::Unnamed => {
                let attempt = pathless(
                    Effect::Bind,
                    Place::Ipc,
                    Outcome::Allowed,
                    name,
                    address.text(),
                );
                Decision::one(attempt, Answer::Continue)
            }
            Address::Netlink => Decision::silent(Answer::Continue),
            Address::Unspecified | Address::Short => Decision::silent(Answer::Fail(libc::EINVAL)),
            Address::Other(_) => {
                let attempt = pathless(
                    Effect::Bind,
                    Place::Egress,
                    Outcome::Denied,
                    name,
                    address.text(),
                );
                Decision::one(attempt, Answer::Fail(libc::EAFNOSUPPORT))
            }
        }
    }

    /// connect, and sendto with its data `(pointer, length, flags)`.
    #[expect(clippy::too_many_arguments, reason = "one call's decoded arguments")]
    fn reach_out(
        &mut self,
        caller: &Caller,
        name: &'static str,
        effect: Effect,
        address: &Address,
        bytes: Vec<u8>,
        fd: i32,
        data: Option<(u64, u64, i32)>,
    ) -> Decision {
        let denied = |place, errno| {
            Decision::one(
                pathless(effect, place, Outcome::Denied, name, address.text()),
                Answer::Fail(errno),
            )
        };
        match address {
            Address::Short => Decision::silent(Answer::Fail(libc::EINVAL)),
            // Dissolving an association reaches nobody; done here, for the address could be swapped.
            Address::Unspecified | Address::Unnamed => match self.socket_of(caller, fd) {
                Some(socket) => Decision::silent(outcome_of(net::connect(&socket, &bytes))),
                None => Decision::silent(Answer::Fail(libc::EBADF)),
            },
            Address::Abstract(_) => denied(Place::Delegated, libc::ECONNREFUSED),
            Address::Other(_) => denied(Place::Egress, libc::EAFNOSUPPORT),
            Address::Netlink => self.netlink(caller, name, effect, address, bytes, fd, data),
            Address::Unix(_) => self.socket_file(caller, name, effect, address, fd, data),
            Address::Inet(_, port) => {
                let Some(socket) = self.socket_of(caller, fd) else {
                    return Decision::silent(Answer::Fail(libc::EBADF));
                };
                let datagram = matches!(net::family_and_type(&socket), Ok((_, libc::SOCK_DGRAM)));
                if !self.world.private_net {
                    return denied(Place::Egress, libc::ENETUNREACH);
                }
                if !address.is_loopback() {
                    return denied(Place::Egress, libc::ENETUNREACH);
                }
                let own = self.is_own_port(*port, datagram);
                if let Some(data) = data {
                    if !own {
                        return denied(Place::Egress, libc::ECONNREFUSED);
                    }
                    self.sent_for_arm += 1;
                    return self.send_for(caller, name, Place::Ipc, address, bytes, socket, data);
                }
                if datagram {
                    // Local and silent: a datagram connect sends nothing and cannot block.
                    let answer = outcome_of(net::connect(&socket, &bytes));
                    let place = if own { Place::Ipc } else { Place::Egress };
                    let outcome = if answer == Answer::Value(0) {
                        Outcome::Allowed
                    } else {
                        Outcome::Denied
                    };
                    let mut attempt = pathless(effect, place, outcome, name, address.text());
                    if !own && outcome == Outcome::Allowed {
                        attempt.marks.push(Mark::AddressProbe);
                    }
                    return Decision::one(attempt, answer);
                }
                if !own {
                    return denied(Place::Egress, libc::ECONNREFUSED);
                }
                self.connect_for(
                    pathless(effect, Place::Ipc, Outcome::Allowed, name, address.text()),
                    socket,
                    bytes,
                )
            }
        }
    }

    /// A port that the arm opened: one that it did not choose, or one that nobody has on the host.
    fn is_own_port(&self, port: u16, datagram: bool) -> bool {
        let tables: &[&str] = if datagram {
            &["udp", "udp6"]
        } else {
            &["tcp", "tcp6"]
        };
        let inside = PathBuf::from(format!("/proc/{}/net", self.world.init));
        if !open_ports(&inside, tables).contains(&port) {
            return false;
        }
        let outside = PathBuf::from("/proc/self/net");
        !self.asked_ports.contains(&port) || !open_ports(&outside, tables).contains(&port)
    }

    #[expect(clippy::too_many_arguments, reason = "one call's decoded arguments")]
    fn netlink(
        &mut self,
        caller: &Caller,
        name: &'static str,
        effect: Effect,
        address: &Address,
        bytes: Vec<u8>,
        fd: i32,
        data: Option<(u64, u64, i32)>,
    ) -> Decision {
        let Some(socket) = self.socket_of(caller, fd) else {
            return Decision::silent(Answer::Fail(libc::EBADF));
        };
        // Only a route socket could be made, see `socket`.
        let place = Place::Itself;
        if let Some(data) = data {
            let mut decision = self.send_for(caller, name, place, address, bytes, socket, data);
            decision
                .attempts
                .iter_mut()
                .for_each(|a| a.marks.push(Mark::RouteQuery));
            return decision;
        }
        let mut attempt = pathless(effect, place, Outcome::Allowed, name, address.text());
        attempt.marks.push(Mark::RouteQuery);
        Decision::one(attempt, outcome_of(net::connect(&socket, &bytes)))
    }

    /// A socket file: the arm's own is connected to, a name service's refused, any other is delegation.
    fn socket_file(
        &mut self,
        caller: &Caller,
        name: &'static str,
        effect: Effect,
        address: &Address,
        fd: i32,
        data: Option<(u64, u64, i32)>,
    ) -> Decision {
        let raw = address.text();
        let reached = match self.reach_path(caller, Base::Cwd, raw.clone(), End::Follow) {
            Ok(reached) => reached,
            Err(_) => return unreadable(effect, name),
        };
        let asked = address
            .path()
            .map(std::path::Path::to_path_buf)
            .unwrap_or_default();
        let mut target = reached.target();
        let listed =
            is_name_service(&asked) || target.resolved.as_deref().is_some_and(is_name_service);
        let own = target.existed == Some(FileKind::Socket)
            && matches!(target.place, Place::Scratch | Place::Ipc);
        let socket = if own {
            self.socket_of(caller, fd)
        } else {
            None
        };
        let (place, outcome, errno) = match (&socket, listed, target.existed) {
            (_, true, _) => (Place::NameService, Outcome::Denied, libc::ENOENT),
            (Some(_), _, _) => (Place::Ipc, Outcome::Allowed, 0),
            (None, _, None) => (Place::Delegated, Outcome::NoOp, libc::ENOENT),
            (None, _, Some(_)) => (Place::Delegated, Outcome::Denied, libc::EACCES),
        };
        target.place = place;
        let mut attempt = pathless(effect, place, outcome, name, raw);
        attempt.target = target;
        if place == Place::Delegated && outcome == Outcome::NoOp {
            // Whether a daemon listens there is an accident of the moment.
            attempt.marks.push(Mark::AbsentHere);
        }
        let (Some(socket), Some(object)) = (socket, reached.into_object()) else {
            return Decision::one(attempt, Answer::Fail(errno));
        };
        // By descriptor: the name could lead elsewhere by now.
        let mut bytes = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
        bytes.extend_from_slice(format!("/proc/self/fd/{}\0", object.fd.as_raw_fd()).as_bytes());
        match data {
            None => {
                let work = move || {
                    let answer = outcome_of(net::connect(&socket, &bytes));
                    drop(object);
                    answer
                };
                Decision {
                    attempts: vec![attempt],
                    reply: Reply::Later(Box::new(work)),
                }
            }
            Some(data) => match self.payload(caller, data) {
                Ok(payload) => {
                    let work = move || {
                        let answer = sent(net::send_to(&socket, &payload, data.2, &bytes));
                        drop(object);
                        answer
                    };
                    Decision {
                        attempts: vec![attempt],
                        reply: Reply::Later(Box::new(work)),
                    }
                }
                Err(answer) => Decision::one(attempt, answer),
            },
        }
    }

    fn connect_for(&self, attempt: Attempt, socket: OwnedFd, address: Vec<u8>) -> Decision {
        let work = move || outcome_of(net::connect(&socket, &address));
        Decision {
            attempts: vec![attempt],
            reply: Reply::Later(Box::new(work)),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call's decoded arguments")]
    fn send_for(
        &self,
        caller: &Caller,
        name: &'static str,
        place: Place,
        address: &Address,
        bytes: Vec<u8>,
        socket: OwnedFd,
        data: (u64, u64, i32),
    ) -> Decision {
        let attempt = pathless(Effect::Send, place, Outcome::Allowed, name, address.text());
        match self.payload(caller, data) {
            Ok(payload) => {
                let work = move || sent(net::send_to(&socket, &payload, data.2, &bytes));
                Decision {
                    attempts: vec![attempt],
                    reply: Reply::Later(Box::new(work)),
                }
            }
            Err(answer) => Decision::one(attempt, answer),
        }
    }

    fn payload(
        &self,
        caller: &Caller,
        (pointer, length, _): (u64, u64, i32),
    ) -> Result<Vec<u8>, Answer> {
        if length == 0 {
            return Ok(Vec::new());
        }
        if length > LONGEST_DATAGRAM as u64 {
            return Err(Answer::Fail(libc::EMSGSIZE));
        }
        memory::bytes(caller.tid, pointer, length as usize).map_err(|_| Answer::Fail(libc::EFAULT))
    }

    /// sendmsg (`count` is `None`) and sendmmsg: every message's destination.
    pub(super) fn messages(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        at: u8,
        count: Option<u8>,
    ) -> Decision {
        let many = count
            .map(|arg| call.args[usize::from(arg)] & 0xffff_ffff)
            .map(|n| n.min(MOST_MESSAGES));
        let step = if many.is_some() { MMSGHDR } else { MSGHDR };
        let mut attempts = Vec::new();
        for index in 0..many.unwrap_or(1) {
            let header = call.args[usize::from(at)] + index * step as u64;
            let bytes = match memory::bytes(caller.tid, header, 16) {
                Ok(bytes) => bytes,
                Err(Unread::Null | Unread::TooLong) => {
                    return Decision::silent(Answer::Fail(libc::EFAULT));
                }
                Err(Unread::Hidden) => return unreadable(Effect::Send, name),
            };
            let pointer = u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| bytes[i]));
            let length = i32::from_ne_bytes([8, 9, 10, 11].map(|i| bytes[i]));
            if pointer == 0 || length <= 0 {
                continue;
            }
            let bytes =
                match memory::bytes(caller.tid, pointer, (length as usize).min(LONGEST_ADDRESS)) {
                    Ok(bytes) => bytes,
                    Err(_) => return unreadable(Effect::Send, name),
                };
            let address = Address::destination(&bytes);
            if address == Address::Netlink {
                let mut attempt = pathless(
                    Effect::Send,
                    Place::Itself,
                    Outcome::Allowed,
                    name,
                    address.text(),
                );
                attempt.marks.push(Mark::RouteQuery);
                attempts.push(attempt);
                continue;
            }
            let place = match &address {
                Address::Unix(_) if address.path().is_some_and(is_name_service) => {
                    Place::NameService
                }
                Address::Unix(_) | Address::Abstract(_) | Address::Unnamed => Place::Delegated,
                Address::Inet(..) | Address::Netlink | Address::Other(_) => Place::Egress,
                Address::Unspecified | Address::Short => {
                    return Decision::silent(Answer::Fail(libc::EINVAL));
                }
            };
            attempts.push(pathless(
                Effect::Send,
                place,
                Outcome::Denied,
                name,
                address.text(),
            ));
        }
        if attempts.iter().any(|a| a.outcome == Outcome::Denied) {
            // One refusal refuses the call: the kernel would take the messages in one go.
            attempts
                .iter_mut()
                .for_each(|a| a.outcome = Outcome::Denied);
            return Decision {
                attempts,
                reply: Reply::Now(Answer::Fail(libc::ECONNREFUSED)),
            };
        }
        Decision {
            attempts,
            reply: Reply::Now(Answer::Continue),
        }
    }

    /// The supervisor's own copy of the caller's socket.
    fn socket_of(&self, caller: &Caller, fd: i32) -> Option<OwnedFd> {
        descriptor_of(pidfd(caller.process()).ok()?, fd).ok()
    }
}

/// A socket of a family that is not free to all. Without capabilities a route socket only asks.
pub(super) fn socket(name: &'static str, family: i32, protocol: i32) -> Decision {
    if (family, protocol) == (libc::AF_NETLINK, libc::NETLINK_ROUTE) {
        let mut attempt = pathless(
            Effect::Connect,
            Place::Itself,
            Outcome::Allowed,
            name,
            b"netlink".to_vec(),
        );
        attempt.marks.push(Mark::RouteQuery);
        return Decision::one(attempt, Answer::Continue);
    }
    let raw = format!("address family {family}").into_bytes();
    let attempt = pathless(Effect::Connect, Place::Egress, Outcome::Denied, name, raw);
    Decision::one(attempt, Answer::Fail(libc::EAFNOSUPPORT))
}

fn outcome_of(result: std::io::Result<()>) -> Answer {
    match result {
        Ok(()) => Answer::Value(0),
        Err(e) => Answer::Fail(e.raw_os_error().unwrap_or(libc::EIO)),
    }
}

fn sent(result: std::io::Result<usize>) -> Answer {
    match result {
        Ok(n) => Answer::Value(n as i64),
        Err(e) => Answer::Fail(e.raw_os_error().unwrap_or(libc::EIO)),
    }
}
