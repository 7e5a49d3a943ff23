//! Sockets: whom they reach, and what of it is the arm's own.

use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use calibrun_sandbox::{Effect, Mark, Outcome, Pass, Place, Termination};
use nix::sys::socket::{
    AddressFamily, MsgFlags, MultiHeaders, SockFlag, SockType, SockaddrIn, UnixAddr, sendmmsg,
    sendmsg, socket,
};

use crate::host::cases;
use crate::raw::{Arg, call};
use crate::stage::{Asked, Stage};
use crate::subject::say;

cases! {
    Nothing =>
        a_daemons_socket_is_delegation_however_it_is_reached
        an_absent_socket_is_absent_here
        a_name_service_is_refused_and_no_delegation
        addresses_outside_are_egress_however_they_are_given
        sockets_of_other_families_are_egress
        a_listener_on_the_hosts_loopback_is_not_reached;
    Net =>
        own_sockets_work
        a_datagram_socket_that_is_only_connected_is_a_probe
        a_probe_that_sends_is_none;
}

const BOTH: [Pass; 2] = [Pass::Denied, Pass::Contained];

/// A subject: tries to reach the daemon behind `path`, by name in every way, and by abstract name.
pub(crate) fn reach_out(path: &Path) -> io::Result<()> {
    say("stream", UnixStream::connect(path));
    say("datagram", UnixDatagram::unbound()?.connect(path));
    say("sendto", UnixDatagram::unbound()?.send_to(b"x", path));
    let unbound = UnixDatagram::unbound()?;
    let address = UnixAddr::new(path).map_err(io::Error::from)?;
    let data = [IoSlice::new(b"x")];
    let sent = sendmsg(
        unbound.as_raw_fd(),
        &data,
        &[],
        MsgFlags::empty(),
        Some(&address),
    );
    say("sendmsg", sent.map_err(io::Error::from));
    let name = SocketAddr::from_abstract_name("calibrun-test-abstract")?;
    say("abstract", UnixStream::connect_addr(&name));
    Ok(())
}

fn a_daemons_socket_is_delegation_however_it_is_reached() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let dir = tempfile::Builder::new()
            .prefix("sandbox-test-")
            .tempdir_in("/tmp")
            .expect("a short path");
        let path = dir.path().join("s");
        let daemon = UnixListener::bind(&path).expect("listen");
        daemon.set_nonblocking(true).expect("do not wait");
        let run = stage.subject("sockets", &[path.as_ref()]);
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        for word in ["stream", "datagram", "sendto", "sendmsg", "abstract"] {
            assert_ne!(run.said(word), "done", "{}", run.list());
        }
        let hidden = run.layers.mounts && !run.layers.temp_overlay;
        for attempt in run.attempts.iter().filter(|_| !hidden) {
            assert_eq!(
                (attempt.place, attempt.outcome),
                (Place::Delegated, Outcome::Denied),
                "{}",
                run.list()
            );
        }
        assert_eq!(run.count(Effect::Connect), 3, "{}", run.list());
        assert_eq!(run.count(Effect::Send), 2, "{}", run.list());
        let nobody = daemon.accept().map_err(|e| e.kind());
        assert_eq!(nobody.err(), Some(io::ErrorKind::WouldBlock));
        UnixStream::connect(&path).expect("from here it can be reached");
        daemon.accept().expect("and somebody came");
    }
}

fn an_absent_socket_is_absent_here() {
    let stage = Stage::new(Pass::Denied);
    let run = stage.subject("sockets", &["/run/calibrun-test-no-such".as_ref()]);
    let found = run.expect(
        Effect::Connect,
        Place::Delegated,
        Outcome::NoOp,
        "calibrun-test-no-such",
    );
    assert!(found.marks.contains(&Mark::AbsentHere));
    assert!(run.said("stream").starts_with("ENOENT"));
}

fn a_name_service_is_refused_and_no_delegation() {
    let stage = Stage::new(Pass::Denied);
    let run = stage.subject("sockets", &["/run/nscd/socket".as_ref()]);
    run.expect(
        Effect::Connect,
        Place::NameService,
        Outcome::Denied,
        "/run/nscd/socket",
    );
    assert!(run.said("stream").starts_with("ENOENT"));
}

/// A subject: sends and connects to addresses that are somewhere else.
pub(crate) fn send_to_addresses() -> io::Result<()> {
    // Addresses for documentation (RFC 5737, RFC 3849), multicast and broadcast.
    say(
        "tcp",
        TcpStream::connect_timeout(&address("192.0.2.1:80"), Duration::from_secs(5)),
    );
    say(
        "tcp6",
        TcpStream::connect_timeout(&address("[2001:db8::1]:80"), Duration::from_secs(5)),
    );
    // Unbound: a bound one must be local where the network is the host's.
    let udp = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let udp = UdpSocket::from(udp);
    say("connect", udp.connect("192.0.2.2:53"));
    say("sendto", udp.send_to(b"x", "192.0.2.3:53"));
    udp.set_broadcast(true)?;
    say("broadcast", udp.send_to(b"x", "255.255.255.255:9"));
    say("multicast", udp.send_to(b"x", "239.1.1.1:9"));
    say(
        "join",
        udp.join_multicast_v4(&[239, 1, 1, 1].into(), &[127, 0, 0, 1].into()),
    );
    let data = [IoSlice::new(b"x")];
    let one = SockaddrIn::new(192, 0, 2, 4, 53);
    let sent = sendmsg(udp.as_raw_fd(), &data, &[], MsgFlags::empty(), Some(&one));
    say("sendmsg", sent.map_err(io::Error::from));
    // Two messages: the second destination counts as the first does.
    let mut headers = MultiHeaders::preallocate(2, None);
    let both = [[IoSlice::new(b"x")], [IoSlice::new(b"y")]];
    let to = [
        Some(SockaddrIn::new(192, 0, 2, 5, 53)),
        Some(SockaddrIn::new(192, 0, 2, 6, 53)),
    ];
    let sent = sendmmsg(
        udp.as_raw_fd(),
        &mut headers,
        &both,
        to,
        [],
        MsgFlags::empty(),
    );
    say("sendmmsg", sent.map(drop).map_err(io::Error::from));
    // The kernel takes an address without family for a v4 address here (udp_sendmsg).
    let mut no_family = [0u8; 16];
    no_family[2..8].copy_from_slice(&[0, 53, 192, 0, 2, 7]);
    let n = |v: i64| Arg::N(v);
    // struct msghdr: the address and its length, then nothing.
    let mut header = [0u8; 56];
    header[..8].copy_from_slice(&(no_family.as_ptr() as u64).to_ne_bytes());
    header[8] = 16;
    say(
        "no-family-message",
        call(
            libc::SYS_sendmsg,
            &mut [n(udp.as_raw_fd().into()), Arg::R(&header), n(0)],
        ),
    );
    say(
        "no-family",
        call(
            libc::SYS_sendto,
            &mut [
                n(udp.as_raw_fd().into()),
                Arg::R(b"x"),
                n(1),
                n(0),
                Arg::R(&no_family),
                n(16),
            ],
        ),
    );
    Ok(())
}

fn address(text: &str) -> std::net::SocketAddr {
    text.parse().expect("an address")
}

fn addresses_outside_are_egress_however_they_are_given() {
    for pass in BOTH {
        let run = Stage::new(pass).subject("addresses", &[]);
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        for line in run.out().lines() {
            assert!(!line.ends_with(" done"), "{line}\n{}", run.list());
        }
        for (effect, end) in [
            (Effect::Connect, "192.0.2.1:80"),
            (Effect::Connect, "[2001:db8::1]:80"),
            (Effect::Connect, "192.0.2.2:53"),
            (Effect::Send, "192.0.2.3:53"),
            (Effect::Send, "255.255.255.255:9"),
            (Effect::Send, "239.1.1.1:9"),
            (Effect::Send, "setsockopt"),
            (Effect::Send, "192.0.2.4:53"),
            (Effect::Send, "192.0.2.5:53"),
            (Effect::Send, "192.0.2.6:53"),
            (Effect::Send, "192.0.2.7:53"),
        ] {
            run.expect(effect, Place::Egress, Outcome::Denied, end);
        }
        assert_eq!(run.on("192.0.2.7:53").len(), 2, "{}", run.list());
    }
}

fn sockets_of_other_families_are_egress() {
    let run = Stage::new(Pass::Denied).subject("socket-families", &[]);
    for word in ["packet", "raw", "vsock", "bluetooth", "audit"] {
        assert_ne!(run.said(word), "done", "{word}");
    }
    assert_eq!(run.attempts.len(), 5, "{}", run.list());
    for attempt in &run.attempts {
        assert_eq!(
            (attempt.effect, attempt.place, attempt.outcome),
            (Effect::Connect, Place::Egress, Outcome::Denied)
        );
    }
}

/// A subject: sockets that reach further than an address does.
pub(crate) fn open_families() -> io::Result<()> {
    let n = |v: i32| Arg::N(v.into());
    for (word, family, kind, protocol) in [
        ("packet", libc::AF_PACKET, libc::SOCK_RAW, 0),
        ("raw", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_TCP),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 1),
        (
            "audit",
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_AUDIT,
        ),
    ] {
        say(
            word,
            call(libc::SYS_socket, &mut [n(family), n(kind), n(protocol)]),
        );
    }
    Ok(())
}

/// A subject: servers and clients of its own, on every kind of address.
pub(crate) fn use_own_sockets() -> io::Result<()> {
    let talk = |server: TcpListener| -> io::Result<()> {
        let mut client = TcpStream::connect(server.local_addr()?)?;
        let (mut other, _) = server.accept()?;
        client.write_all(b"hello")?;
        let mut heard = [0u8; 5];
        other.read_exact(&mut heard)?;
        assert_eq!(&heard, b"hello");
        Ok(())
    };
    say("tcp", TcpListener::bind("127.0.0.1:0").and_then(talk));
    say("tcp6", TcpListener::bind("[::1]:0").and_then(talk));
    let udp = || -> io::Result<()> {
        let server = UdpSocket::bind("127.0.0.1:0")?;
        let client = UdpSocket::bind("127.0.0.1:0")?;
        client.send_to(b"hello", server.local_addr()?)?;
        let mut heard = [0u8; 5];
        server.recv(&mut heard)?;
        assert_eq!(&heard, b"hello");
        Ok(())
    };
    say("udp", udp());
    let unix = |path: &Path| -> io::Result<()> {
        let server = UnixListener::bind(path)?;
        let mut client = UnixStream::connect(path)?;
        client.write_all(b"hello")?;
        let mut heard = [0u8; 5];
        server.accept()?.0.read_exact(&mut heard)?;
        assert_eq!(&heard, b"hello");
        Ok(())
    };
    say("unix", unix(&std::env::temp_dir().join("s")));
    let (mut one, mut two) = UnixStream::pair()?;
    one.write_all(b"x")?;
    let mut heard = [0u8];
    say("pair", two.read_exact(&mut heard));
    Ok(())
}

fn own_sockets_work() {
    for pass in BOTH {
        let run = Stage::new(pass).subject("own-sockets", &[]);
        for word in ["tcp", "tcp6", "udp", "unix", "pair"] {
            assert_eq!(
                run.said(word),
                "done",
                "{word}: {}\n{}",
                run.list(),
                run.err()
            );
        }
        for attempt in &run.attempts {
            assert!(
                matches!(attempt.place, Place::Ipc | Place::Scratch),
                "{}",
                run.list()
            );
            assert_eq!(attempt.outcome, Outcome::Allowed);
        }
    }
}

/// A subject: connects a datagram socket to a local port that nobody has, and perhaps sends.
pub(crate) fn probe_an_address(sends: bool) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect("127.0.0.1:9")?;
    if sends {
        say("sent", socket.send(b"x"));
    }
    Ok(())
}

fn a_datagram_socket_that_is_only_connected_is_a_probe() {
    let run = Stage::new(Pass::Contained).subject("probe", &["0".as_ref()]);
    let found = run.expect(
        Effect::Connect,
        Place::Egress,
        Outcome::Allowed,
        "127.0.0.1:9",
    );
    assert_eq!(found.marks, [Mark::AddressProbe]);
}

fn a_probe_that_sends_is_none() {
    let run = Stage::new(Pass::Contained).subject("probe", &["1".as_ref()]);
    let found = run.expect(
        Effect::Connect,
        Place::Egress,
        Outcome::Allowed,
        "127.0.0.1:9",
    );
    assert!(found.marks.is_empty(), "{}", run.list());
}

fn a_listener_on_the_hosts_loopback_is_not_reached() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let server = TcpListener::bind("127.0.0.1:0").expect("listen");
        server.set_nonblocking(true).expect("do not wait");
        let port = server.local_addr().expect("its address").port();
        let run = stage.subject("connect", &[port.to_string().as_ref()]);
        assert_ne!(run.said("connect"), "done");
        run.expect(
            Effect::Connect,
            Place::Egress,
            Outcome::Denied,
            &format!("127.0.0.1:{port}"),
        );
        let nobody = server.accept().map_err(|e| e.kind());
        assert_eq!(nobody.err(), Some(io::ErrorKind::WouldBlock));
        TcpStream::connect(("127.0.0.1", port)).expect("from here it can be reached");
    }
}
