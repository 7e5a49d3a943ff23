//! Constants of the kernel's interface that the table's tests compare with.
//!
//! Written out, since libc lacks many of them; the tests compare those that it has. All have the same
//! value on x86_64 and aarch64.

use super::{Test, Value};

macro_rules! values {
    ($($name:ident = $bits:expr;)+) => {
        $(pub(super) const $name: Value = Value { name: stringify!($name), bits: $bits };)+
    };
}

values! {
    O_WRONLY = 0o1;
    O_RDWR = 0o2;
    O_CREAT = 0o100;
    O_TRUNC = 0o1000;
    __O_TMPFILE = 0o20_000_000;

    MAP_SHARED = 1;
    MAP_SHARED_VALIDATE = 3;
    MAP_ANONYMOUS = 0x20;

    F_SETOWN = 8;
    F_SETOWN_EX = 15;

    AF_UNIX = 1;
    AF_INET = 2;
    AF_INET6 = 10;
    SOCK_STREAM = 1;
    SOCK_DGRAM = 2;
    IPPROTO_IP = 0;
    IPPROTO_ICMP = 1;
    IPPROTO_TCP = 6;
    IPPROTO_UDP = 17;
    IPPROTO_IPV6 = 41;
    IPPROTO_ICMPV6 = 58;
    IPPROTO_MPTCP = 262;
    IP_ADD_MEMBERSHIP = 35;
    IP_ADD_SOURCE_MEMBERSHIP = 39;
    IPV6_ADD_MEMBERSHIP = 20;
    IPV6_JOIN_ANYCAST = 27;
    MCAST_JOIN_GROUP = 42;
    MCAST_JOIN_SOURCE_GROUP = 46;

    PRIO_PROCESS = 0;
    IOPRIO_WHO_PROCESS = 1;
    PR_SCHED_CORE = 62;
    PR_SCHED_CORE_GET = 0;

    IPC_PRIVATE = 0;
    IPC_CREAT = 0o1000;
    IPC_STAT = 2;
    IPC_INFO = 3;
    SHM_RDONLY = 0o10_000;
    SHM_STAT = 13;
    SHM_INFO = 14;
    SHM_STAT_ANY = 15;
    GETPID = 11;
    GETVAL = 12;
    GETALL = 13;
    GETNCNT = 14;
    GETZCNT = 15;
    SEM_STAT = 18;
    SEM_INFO = 19;
    SEM_STAT_ANY = 20;
    MSG_STAT = 11;
    MSG_INFO = 12;
    MSG_STAT_ANY = 13;

    OPEN_TREE_CLONE = 1;

    Q_SYNC = 0x80_0001 << 8;
    Q_GETFMT = 0x80_0004 << 8;
    Q_GETINFO = 0x80_0005 << 8;
    Q_GETQUOTA = 0x80_0007 << 8;
    Q_GETNEXTQUOTA = 0x80_0009 << 8;
    Q_XGETQUOTA = 0x5803 << 8;
    Q_XGETQSTAT = 0x5805 << 8;
    Q_XGETQSTATV = 0x5808 << 8;
    Q_XGETNEXTQUOTA = 0x5809 << 8;

    SYSLOG_ACTION_CLOSE = 0;
    SYSLOG_ACTION_OPEN = 1;
    SYSLOG_ACTION_READ_ALL = 3;
    SYSLOG_ACTION_SIZE_UNREAD = 9;
    SYSLOG_ACTION_SIZE_BUFFER = 10;

    KEYCTL_GET_KEYRING_ID = 0;
    KEYCTL_DESCRIBE = 6;
    KEYCTL_SEARCH = 10;
    KEYCTL_READ = 11;
    KEYCTL_GET_SECURITY = 17;
    KEYCTL_CAPABILITIES = 31;
}

/// What creat(2) stands for.
pub(super) const CREAT_FLAGS: i32 = (O_CREAT.bits | O_WRONLY.bits | O_TRUNC.bits) as i32;

/// A quota command without the kind of quota in its low byte.
pub(super) const QUOTA_COMMAND: u32 = 0xFFFF_FF00;

pub(super) const SHM_READS: &[Value] = &[IPC_STAT, IPC_INFO, SHM_STAT, SHM_INFO, SHM_STAT_ANY];
pub(super) const SEM_READS: &[Value] = &[
    IPC_STAT,
    IPC_INFO,
    GETPID,
    GETVAL,
    GETALL,
    GETNCNT,
    GETZCNT,
    SEM_STAT,
    SEM_INFO,
    SEM_STAT_ANY,
];
pub(super) const MSG_READS: &[Value] = &[IPC_STAT, IPC_INFO, MSG_STAT, MSG_INFO, MSG_STAT_ANY];
pub(super) const QUOTA_READS: &[Value] = &[
    Q_SYNC,
    Q_GETFMT,
    Q_GETINFO,
    Q_GETQUOTA,
    Q_GETNEXTQUOTA,
    Q_XGETQUOTA,
    Q_XGETQSTAT,
    Q_XGETQSTATV,
    Q_XGETNEXTQUOTA,
];
pub(super) const SYSLOG_READS: &[Value] = &[
    SYSLOG_ACTION_CLOSE,
    SYSLOG_ACTION_OPEN,
    SYSLOG_ACTION_READ_ALL,
    SYSLOG_ACTION_SIZE_UNREAD,
    SYSLOG_ACTION_SIZE_BUFFER,
];

const INET: &[Value] = &[AF_INET, AF_INET6];

/// Everything but unix sockets, and of the inet ones everything but streams and datagrams of protocols
/// that reach nobody without connect, bind or an address.
pub(super) const SOCKET: &[&[Test]] = &[
    &[is_not(0, &[AF_UNIX, AF_INET, AF_INET6])],
    &[
        is(0, INET),
        Test::NotIn {
            arg: 1,
            mask: SOCK_TYPE_MASK,
            values: &[SOCK_STREAM, SOCK_DGRAM],
        },
    ],
    &[
        is(0, INET),
        is_not(
            2,
            &[
                IPPROTO_IP,
                IPPROTO_ICMP,
                IPPROTO_TCP,
                IPPROTO_UDP,
                IPPROTO_ICMPV6,
                IPPROTO_MPTCP,
            ],
        ),
    ],
];

/// A mapping of a file that several share; the type of a mapping is in its low four bits.
pub(super) const SHARED_FILE: &[&[Test]] = &[&[
    Test::In {
        arg: 3,
        mask: 0xF,
        values: &[MAP_SHARED, MAP_SHARED_VALIDATE],
    },
    Test::NotIn {
        arg: 3,
        mask: 0x20,
        values: &[MAP_ANONYMOUS],
    },
]];

/// A socket type without `SOCK_CLOEXEC` and `SOCK_NONBLOCK` (`linux/net.h`).
const SOCK_TYPE_MASK: u32 = 0xF;

/// Socket options that join a multicast or anycast group.
pub(super) const JOIN: &[&[Test]] = &[
    &[
        is(1, &[IPPROTO_IP]),
        is(
            2,
            &[
                IP_ADD_MEMBERSHIP,
                IP_ADD_SOURCE_MEMBERSHIP,
                MCAST_JOIN_GROUP,
                MCAST_JOIN_SOURCE_GROUP,
            ],
        ),
    ],
    &[
        is(1, &[IPPROTO_IPV6]),
        is(
            2,
            &[
                IPV6_ADD_MEMBERSHIP,
                IPV6_JOIN_ANYCAST,
                MCAST_JOIN_GROUP,
                MCAST_JOIN_SOURCE_GROUP,
            ],
        ),
    ],
];

/// Everything but reading; getting an id must not create, a search must not link what it finds.
pub(super) const KEYCTL: &[&[Test]] = &[
    &[is_not(
        0,
        &[
            KEYCTL_GET_KEYRING_ID,
            KEYCTL_DESCRIBE,
            KEYCTL_SEARCH,
            KEYCTL_READ,
            KEYCTL_GET_SECURITY,
            KEYCTL_CAPABILITIES,
        ],
    )],
    &[is(0, &[KEYCTL_GET_KEYRING_ID]), Test::NonZero { arg: 2 }],
    &[is(0, &[KEYCTL_SEARCH]), Test::NonZero { arg: 4 }],
];

/// An open that can change anything. The access mode is a number of two bits in which 3 also means
/// writing, so either bit will do; an open can make or cut a file whatever its access mode is.
pub(super) const fn writes(arg: u8) -> Test {
    Test::AnyBit {
        arg,
        flags: &[O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, __O_TMPFILE],
    }
}

pub(super) const fn is(arg: u8, values: &'static [Value]) -> Test {
    Test::In {
        arg,
        mask: u32::MAX,
        values,
    }
}

pub(super) const fn is_not(arg: u8, values: &'static [Value]) -> Test {
    Test::NotIn {
        arg,
        mask: u32::MAX,
        values,
    }
}
