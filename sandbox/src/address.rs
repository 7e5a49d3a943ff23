//! Socket addresses as the kernel lays them out, in canonical form.

use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A decoded `sockaddr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A socket file, by the bytes before the first NUL.
    Unix(Vec<u8>),
    /// An abstract name, all its bytes.
    Abstract(Vec<u8>),
    /// An unnamed unix address.
    Unnamed,
    /// An inet address; a v4 address mapped into v6 is given as v4.
    Inet(IpAddr, u16),
    /// Netlink.
    Netlink,
    /// `AF_UNSPEC`: dissolves an association.
    Unspecified,
    /// Any other family.
    Other(u16),
    /// Too short to hold what its family needs.
    Short,
}

impl Address {
    pub(crate) fn parse(bytes: &[u8]) -> Address {
        let Some(family) = bytes.get(..2).map(|b| u16::from_ne_bytes([b[0], b[1]])) else {
            return Address::Short;
        };
        let rest = &bytes[2..];
        match i32::from(family) {
            libc::AF_UNSPEC => Address::Unspecified,
            libc::AF_UNIX => match rest {
                [] => Address::Unnamed,
                [0, name @ ..] => Address::Abstract(name.to_vec()),
                path => Address::Unix(path.split(|b| *b == 0).next().unwrap_or_default().to_vec()),
            },
            libc::AF_INET => match rest {
                [p0, p1, a, b, c, d, ..] => Address::Inet(
                    Ipv4Addr::new(*a, *b, *c, *d).into(),
                    u16::from_be_bytes([*p0, *p1]),
                ),
                _ => Address::Short,
            },
            libc::AF_INET6 => match (rest.get(..2), rest.get(6..22)) {
                (Some(port), Some(ip)) => {
                    let mut octets = [0u8; 16];
                    octets.copy_from_slice(ip);
                    let ip = Ipv6Addr::from(octets).to_canonical();
                    Address::Inet(ip, u16::from_be_bytes([port[0], port[1]]))
                }
                _ => Address::Short,
            },
            libc::AF_NETLINK => Address::Netlink,
            _ => Address::Other(family),
        }
    }

    /// The destination of a datagram: without a family the kernel takes it for a v4 address
    /// (`udp_sendmsg`), where connect(2) would dissolve an association.
    pub(crate) fn destination(bytes: &[u8]) -> Address {
        let parsed = Address::parse(bytes);
        if parsed != Address::Unspecified {
            return parsed;
        }
        let mut named = bytes.to_vec();
        named[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        Address::parse(&named)
    }

    /// Whether it can only lead back into the same network namespace.
    pub(crate) fn is_loopback(&self) -> bool {
        match self {
            Address::Inet(ip, _) => ip.is_loopback() || ip.is_unspecified(),
            _ => false,
        }
    }

    /// Whether only this host can reach it.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Address::Inet(ip, _) if ip.is_loopback())
    }

    /// The bytes for the record.
    pub(crate) fn text(&self) -> Vec<u8> {
        match self {
            Address::Unix(path) => path.clone(),
            Address::Abstract(name) => [b"@", name.as_slice()].concat(),
            other => other.to_string().into_bytes(),
        }
    }

    /// Its path, when it is a socket file.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Address::Unix(path) => Some(Path::new(OsStr::from_bytes(path))),
            _ => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "{}", String::from_utf8_lossy(path)),
            Address::Abstract(name) => write!(f, "@{}", String::from_utf8_lossy(name)),
            Address::Unnamed => f.write_str("unnamed unix socket"),
            Address::Inet(ip, port) => write!(f, "{}", std::net::SocketAddr::new(*ip, *port)),
            Address::Netlink => f.write_str("netlink"),
            Address::Unspecified => f.write_str("unspecified"),
            Address::Other(family) => write!(f, "address family {family}"),
            Address::Short => f.write_str("a malformed address"),
        }
    }
}

/// Local ports of the sockets in `net` (a `/proc/PID/net` folder) in `table` (`tcp`, `udp`, …).
///
/// For TCP only listening ones. See proc_pid_net(5) for the columns.
pub(crate) fn open_ports(net: &Path, tables: &[&str]) -> Vec<u16> {
    const LISTENING: &str = "0A";
    let mut ports = Vec::new();
    for table in tables {
        let Ok(text) = std::fs::read_to_string(net.join(table)) else {
            continue;
        };
        for line in text.lines().skip(1) {
            let mut columns = line.split_whitespace();
            let (Some(local), Some(state)) = (columns.nth(1), columns.nth(1)) else {
                continue;
            };
            if table.starts_with("tcp") && state != LISTENING {
                continue;
            }
            let port = local
                .rsplit(':')
                .next()
                .and_then(|p| u16::from_str_radix(p, 16).ok());
            ports.extend(port);
        }
    }
    ports
}

/// How many UDP datagrams left sockets of the network namespace behind `net`.
pub(crate) fn datagrams_sent(net: &Path) -> u64 {
    let mut sent = 0;
    if let Ok(text) = std::fs::read_to_string(net.join("snmp")) {
        let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
        if let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let column = names
                .split_whitespace()
                .position(|name| name == "OutDatagrams");
            sent += column
                .and_then(|c| values.split_whitespace().nth(c))
                .and_then(|n| n.parse().ok())
                .unwrap_or(0);
        }
    }
    if let Ok(text) = std::fs::read_to_string(net.join("snmp6")) {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Udp6OutDatagrams"));
        sent += line.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_canonical() {
        let v4 = [2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            Address::parse(&v4),
            Address::Inet([127, 0, 0, 1].into(), 80)
        );
        let mut mapped = vec![10, 0, 0, 80, 0, 0, 0, 0];
        mapped.extend(Ipv4Addr::new(127, 0, 0, 1).to_ipv6_mapped().octets());
        mapped.extend([0; 4]);
        assert_eq!(Address::parse(&mapped), Address::parse(&v4));
        assert!(Address::parse(&mapped).is_loopback());
        assert_eq!(
            Address::parse(b"\x01\0/run/x\0rubbish"),
            Address::Unix(b"/run/x".to_vec())
        );
        assert_eq!(
            Address::parse(b"\x01\0\0name"),
            Address::Abstract(b"name".to_vec())
        );
        assert_eq!(Address::parse(b"\x01\0"), Address::Unnamed);
        assert_eq!(Address::parse(b"\x02\0\0"), Address::Short);
        assert_eq!(Address::parse(b""), Address::Short);
        assert_eq!(Address::parse(&[40, 0, 1, 2]), Address::Other(40));
    }

    #[test]
    fn a_listening_port_is_found_and_a_closed_one_is_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let net = Path::new("/proc/self/net");
        assert!(open_ports(net, &["tcp", "tcp6"]).contains(&port));
        drop(listener);
        assert!(!open_ports(net, &["tcp", "tcp6"]).contains(&port));
    }

    #[test]
    fn sent_datagrams_are_counted() {
        let net = Path::new("/proc/self/net");
        let before = datagrams_sent(net);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert!(datagrams_sent(net) > before);
    }
}
