//! Calls that name a socket address, or may.
//!
//! Addresses, data and descriptors lie where the subject can change them, and no lower layer stops a
//! message to a socket file. So what is permitted is done here, with the supervisor's own copies of
//! address, data and socket; the kernel never looks at the subject's copies again.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::ledger::pathless;
use super::memory::{self, Unread};
use super::message::{self, Message};
use super::{Caller, Decision, Reply, Supervisor, unreadable};
use crate::address::{Address, open_ports};
use crate::attempt::{Attempt, Effect, FileKind, Mark, Outcome, Place, Target};
use crate::places::is_name_service;
use crate::resolve::{Base, End, Object};
use crate::sys::net::{self, SocketKind};
use crate::sys::process::{descriptor_of, pidfd};
use crate::sys::seccomp::{Answer, Notification};

/// `struct sockaddr_storage`: no address is longer.
pub(super) const LONGEST_ADDRESS: usize = 128;

/// Where a connection or a message would go.
enum Destination {
    /// It may go on, to this address of the supervisor's own.
    Open {
        place: Place,
        marks: Vec<Mark>,
        target: Option<Target>,
        address: Vec<u8>,
        /// Keeps a socket file's descriptor, which `address` names, open.
        held: Option<Object>,
    },
    /// It is refused with this errno.
    Closed {
        place: Place,
        outcome: Outcome,
        marks: Vec<Mark>,
        target: Option<Target>,
        errno: i32,
    },
}

impl Destination {
    fn closed(place: Place, errno: i32) -> Destination {
        Destination::Closed {
            place,
            outcome: Outcome::Denied,
            marks: Vec::new(),
            target: None,
            errno,
        }
    }

    fn open(place: Place, address: &[u8]) -> Destination {
        Destination::Open {
            place,
            marks: Vec::new(),
            target: None,
            address: address.to_vec(),
            held: None,
        }
    }

    /// The record of it.
    fn attempt(&self, effect: Effect, name: &'static str, address: &Address) -> Attempt {
        let (place, outcome, marks, target) = match self {
            Destination::Open {
                place,
                marks,
                target,
                ..
            } => (*place, Outcome::Allowed, marks, target),
            Destination::Closed {
                place,
                outcome,
                marks,
                target,
                ..
            } => (*place, *outcome, marks, target),
        };
        let mut attempt = pathless(effect, place, outcome, name, address.text());
        attempt.marks.clone_from(marks);
        if let Some(target) = target {
            attempt.target = target.clone();
            attempt.target.place = place;
        }
        attempt
    }
}

impl Supervisor {
    /// connect, bind, and sendto with an address.
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
        let pointer = call.args[usize::from(addr)];
        let bytes = match memory::bytes(caller.tid, pointer, length as usize) {
            Ok(bytes) => bytes,
            Err(Unread::Null | Unread::TooLong) => {
                return Decision::silent(Answer::Fail(libc::EFAULT));
            }
            Err(Unread::Hidden) => return unreadable(effect, name),
        };
        let fd = call.args[usize::from(fd)] as i32;
        match effect {
            Effect::Bind => self.bind(caller, name, &Address::parse(&bytes), &bytes, fd),
            Effect::Send => {
                let [_, data, length, flags, ..] = call.args;
                let message = match Message::of_buffer(caller.tid, data, length, bytes) {
                    Ok(message) => message,
                    Err(why) => return unsent(why, name),
                };
                self.send(caller, name, fd, vec![message], flags as i32, None)
            }
            _ => self.connect(caller, name, &Address::parse(&bytes), &bytes, fd),
        }
    }

    fn bind(
        &mut self,
        caller: &Caller,
        name: &'static str,
        address: &Address,
        bytes: &[u8],
        fd: i32,
    ) -> Decision {
        let attempt = |place, outcome| pathless(Effect::Bind, place, outcome, name, address.text());
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
                    let attempt = attempt(Place::Egress, Outcome::Denied);
                    return Decision::one(attempt, Answer::Fail(libc::EACCES));
                }
                if *port != 0 {
                    self.asked_ports.insert(*port);
                }
                let attempt = attempt(Place::Ipc, Outcome::Allowed);
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
                Decision::one(attempt(Place::Ipc, Outcome::Allowed), Answer::Continue)
            }
            Address::Netlink => Decision::silent(Answer::Continue),
            Address::Unspecified | Address::Short => Decision::silent(Answer::Fail(libc::EINVAL)),
            Address::Other(_) => Decision::one(
                attempt(Place::Egress, Outcome::Denied),
                Answer::Fail(libc::EAFNOSUPPORT),
            ),
        }
    }

    fn connect(
        &mut self,
        caller: &Caller,
        name: &'static str,
        address: &Address,
        bytes: &[u8],
        fd: i32,
    ) -> Decision {
        let Some(socket) = self.socket_of(caller, fd) else {
            return Decision::silent(Answer::Fail(libc::EBADF));
        };
        let Ok(kind) = net::kind_of(&socket) else {
            return Decision::silent(Answer::Fail(libc::ENOTSOCK));
        };
        if matches!(address, Address::Unspecified | Address::Unnamed) {
            // Dissolving an association reaches nobody; done here, for the address could be swapped.
            return Decision::silent(outcome_of(net::connect(&socket, bytes)));
        }
        let mut destination = match self.destination(caller, address, bytes, kind) {
            Ok(destination) => destination,
            Err(_) => return unreadable(Effect::Connect, name),
        };
        if let (Address::Inet(..), libc::SOCK_DGRAM) = (address, kind.kind)
            && let Destination::Closed { place, .. } = destination
            && self.world.private_net
            && address.is_loopback()
        {
            // Local and silent: a datagram connect sends nothing and cannot block.
            destination = Destination::Open {
                place,
                marks: vec![Mark::AddressProbe],
                target: None,
                address: bytes.to_vec(),
                held: None,
            };
        }
        let mut attempt = destination.attempt(Effect::Connect, name, address);
        match destination {
            Destination::Closed { errno, .. } => Decision::one(attempt, Answer::Fail(errno)),
            Destination::Open { address, held, .. } if kind.kind == libc::SOCK_DGRAM => {
                let answer = outcome_of(net::connect(&socket, &address));
                drop(held);
                if answer != Answer::Value(0) && attempt.marks.contains(&Mark::AddressProbe) {
                    // Refused after all: what it would have sent is not known.
                    attempt.marks.clear();
                    attempt.outcome = Outcome::Denied;
                }
                Decision::one(attempt, answer)
            }
            Destination::Open { address, held, .. } => {
                // May wait for a place in the other end's queue.
                let work = move || {
                    let answer = outcome_of(net::connect(&socket, &address));
                    drop(held);
                    answer
                };
                Decision {
                    attempts: vec![attempt],
                    reply: Reply::Later(Box::new(work)),
                }
            }
        }
    }

    /// Where an address leads, for a socket of `kind`.
    fn destination(
        &self,
        caller: &Caller,
        address: &Address,
        bytes: &[u8],
        kind: SocketKind,
    ) -> Result<Destination, Unread> {
        Ok(match address {
            Address::Short | Address::Unspecified | Address::Unnamed => {
                Destination::closed(Place::Itself, libc::EINVAL)
            }
            Address::Abstract(_) => Destination::closed(Place::Delegated, libc::ECONNREFUSED),
            Address::Other(_) => Destination::closed(Place::Egress, libc::EAFNOSUPPORT),
            // Only route and diagnosis sockets could be made, see `socket`.
            Address::Netlink => Destination::Open {
                place: Place::Itself,
                marks: vec![Mark::RouteQuery],
                target: None,
                address: bytes.to_vec(),
                held: None,
            },
            Address::Unix(_) => self.socket_file(caller, address)?,
            Address::Inet(_, port) => {
                if !self.world.private_net || !address.is_loopback() {
                    Destination::closed(Place::Egress, libc::ENETUNREACH)
                } else if self.is_own_port(*port, kind.kind == libc::SOCK_DGRAM) {
                    Destination::open(Place::Ipc, bytes)
                } else {
                    Destination::closed(Place::Egress, libc::ECONNREFUSED)
                }
            }
        })
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

    /// A socket file: the arm's own may be reached, a name service's is refused, any other is
    /// delegation.
    fn socket_file(&self, caller: &Caller, address: &Address) -> Result<Destination, Unread> {
        let asked = address.path().map(Path::to_path_buf).unwrap_or_default();
        let reached = self.reach_path(caller, Base::Cwd, address.text(), End::Follow)?;
        let target = reached.target();
        let listed =
            is_name_service(&asked) || target.resolved.as_deref().is_some_and(is_name_service);
        let own = target.existed == Some(FileKind::Socket)
            && matches!(target.place, Place::Scratch | Place::Ipc);
        let object = reached.into_object();
        let closed = |place, outcome, marks, errno| Destination::Closed {
            place,
            outcome,
            marks,
            target: Some(target.clone()),
            errno,
        };
        Ok(match (listed, own, object) {
            (true, _, _) => closed(Place::NameService, Outcome::Denied, vec![], libc::ENOENT),
            (false, true, Some(object)) => {
                // By descriptor: the name could lead elsewhere by now.
                let mut bytes = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
                let link = format!("/proc/self/fd/{}\0", object.fd.as_raw_fd());
                bytes.extend_from_slice(link.as_bytes());
                Destination::Open {
                    place: Place::Ipc,
                    marks: Vec::new(),
                    target: Some(target),
                    address: bytes,
                    held: Some(object),
                }
            }
            (false, _, Some(_)) => closed(Place::Delegated, Outcome::Denied, vec![], libc::EACCES),
            // Whether a daemon listens there is an accident of the moment.
            (false, _, None) => closed(
                Place::Delegated,
                Outcome::NoOp,
                vec![Mark::AbsentHere],
                libc::ENOENT,
            ),
        })
    }

    /// sendmsg (`count` is `None`) and sendmmsg.
    pub(super) fn messages(
        &mut self,
        call: &Notification,
        caller: &Caller,
        name: &'static str,
        fd: u8,
        at: u8,
        count: Option<u8>,
    ) -> Decision {
        let fd = call.args[usize::from(fd)] as i32;
        let first = call.args[usize::from(at)];
        let flags = match count {
            None => call.args[2] as i32,
            Some(_) => call.args[3] as i32,
        };
        let many = count.map(|arg| call.args[usize::from(arg)] as u32);
        match message::read_all(caller.tid, first, many) {
            Ok(messages) => {
                let lengths = many.map(|_| first);
                self.send(caller, name, fd, messages, flags, lengths)
            }
            Err(why) => unsent(why, name),
        }
    }

    /// Sends for the caller. `lengths`: the array of `struct mmsghdr` whose counts are to be filled.
    fn send(
        &mut self,
        caller: &Caller,
        name: &'static str,
        fd: i32,
        messages: Vec<Message>,
        flags: i32,
        lengths: Option<u64>,
    ) -> Decision {
        let Some(socket) = self.socket_of(caller, fd) else {
            return Decision::silent(Answer::Fail(libc::EBADF));
        };
        let Ok(kind) = net::kind_of(&socket) else {
            return Decision::silent(Answer::Fail(libc::ENOTSOCK));
        };
        let mut attempts = Vec::new();
        let mut ready = Vec::new();
        let mut refused = None;
        for mut message in messages {
            let mut held = None;
            let mut counted = false;
            if !message.address.is_empty() {
                let address = Address::destination(&message.address);
                let destination = match self.destination(caller, &address, &message.address, kind) {
                    Ok(destination) => destination,
                    Err(_) => return unreadable(Effect::Send, name),
                };
                attempts.push(destination.attempt(Effect::Send, name, &address));
                match destination {
                    Destination::Open {
                        address: bytes,
                        held: object,
                        ..
                    } => {
                        counted = matches!(address, Address::Inet(..));
                        message.address = bytes;
                        held = object;
                    }
                    Destination::Closed { errno, .. } => refused = Some(errno),
                }
            }
            if kind.family == libc::AF_NETLINK && !message::only_asks(&message.data, kind.protocol)
            {
                let raw = b"a netlink request that changes something".to_vec();
                attempts.push(pathless(
                    Effect::Kernel,
                    Place::Outside,
                    Outcome::Denied,
                    name,
                    raw,
                ));
                refused = Some(libc::EPERM);
            }
            match message.bring_descriptors(|fd| self.socket_of(caller, fd)) {
                Ok(descriptors) => ready.push((message, held, counted, descriptors)),
                Err(errno) => refused = Some(errno),
            }
        }
        if let Some(errno) = refused {
            // One refusal refuses the call: the kernel would take the messages in one go.
            attempts.iter_mut().for_each(|attempt| {
                if attempt.outcome == Outcome::Allowed {
                    attempt.outcome = Outcome::Denied;
                }
            });
            return Decision {
                attempts,
                reply: Reply::Now(Answer::Fail(errno)),
            };
        }
        let waits = flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(&socket);
        let sent_for_arm = Arc::clone(&self.sent_for_arm);
        let tid = caller.tid;
        let work = move || {
            let mut done: u32 = 0;
            let mut first = 0;
            for (index, (message, held, counted, descriptors)) in ready.into_iter().enumerate() {
                let result = message.send(&socket, flags);
                drop((held, descriptors));
                match result {
                    Ok(sent) => {
                        if counted {
                            sent_for_arm.fetch_add(1, Ordering::Relaxed);
                        }
                        if index == 0 {
                            first = sent;
                        }
                        done += 1;
                        if let Some(at) = lengths
                            && message::fill_length(tid, at, index as u64, sent).is_err()
                        {
                            return Answer::Fail(libc::EFAULT);
                        }
                    }
                    Err(errno) if done == 0 => return Answer::Fail(errno),
                    Err(_) => break,
                }
            }
            match lengths {
                None => Answer::Value(first as i64),
                Some(_) => Answer::Value(i64::from(done)),
            }
        };
        let reply = if waits {
            Reply::Later(Box::new(work))
        } else {
            Reply::Now(work())
        };
        Decision { attempts, reply }
    }

    /// The supervisor's own copy of a descriptor of the caller's.
    fn socket_of(&self, caller: &Caller, fd: i32) -> Option<OwnedFd> {
        descriptor_of(pidfd(caller.process()).ok()?, fd).ok()
    }
}

/// A socket of a family that is not free to all. Without capabilities a route socket can only ask.
pub(super) fn socket(name: &'static str, family: i32, protocol: i32) -> Decision {
    let asks = matches!(
        protocol,
        libc::NETLINK_ROUTE | libc::NETLINK_SOCK_DIAG | libc::NETLINK_KOBJECT_UEVENT
    );
    if family == libc::AF_NETLINK && asks {
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

fn unsent(why: Unread, name: &'static str) -> Decision {
    match why {
        Unread::Null => Decision::silent(Answer::Fail(libc::EFAULT)),
        Unread::TooLong => Decision::silent(Answer::Fail(libc::EMSGSIZE)),
        Unread::Hidden => unreadable(Effect::Send, name),
    }
}

/// Whether sending on it never waits.
fn is_nonblocking(socket: impl AsFd) -> bool {
    fcntl(socket, FcntlArg::F_GETFL)
        .is_ok_and(|flags| OFlag::from_bits_truncate(flags).contains(OFlag::O_NONBLOCK))
}

fn outcome_of(result: std::io::Result<()>) -> Answer {
    match result {
        Ok(()) => Answer::Value(0),
        Err(e) => Answer::Fail(e.raw_os_error().unwrap_or(libc::EIO)),
    }
}
