//! The one table of system calls: the filter, the decoder and the docs page all read it.
//!
//! ```text
//! table (name, numbers, trap, decode, why) -> filter::program   when the kernel asks the supervisor
//!                                          -> supervisor        how the arguments are read
//!                                          -> calls_page        what the docs say
//! ```
//!
//! Every call of the kernel has a row, harmless ones too, so that a new call is a number
//! without a row: the filter asks the supervisor about it, and nobody has to remember it.
//!
//! Sources of the rows: the `SYSCALL_DEFINE` prototypes of Linux 6.18 and the man pages of section 2.

mod ioctls;
mod page;
mod table;
mod values;

#[cfg(test)]
mod tests;

use crate::attempt::{Effect, table as named_table};

pub use ioctls::{HARMLESS_IOCTLS, Ioctl};
pub use page::calls_page;
pub use table::CALLS;

/// An architecture whose numbers the table knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit x86, without the x32 numbers.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

/// The architecture that this program was built for.
#[cfg(target_arch = "x86_64")]
pub const NATIVE: Arch = Arch::X86_64;
/// The architecture that this program was built for.
#[cfg(target_arch = "aarch64")]
pub const NATIVE: Arch = Arch::Aarch64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the table of system calls knows the numbers of x86_64 and aarch64 only");

impl Arch {
    /// Every architecture of the table.
    pub const ALL: &'static [Arch] = &[Arch::X86_64, Arch::Aarch64];

    /// The name that rustc and the kernel use.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }

    /// `seccomp_data.arch` of a native call (`AUDIT_ARCH_*` in `linux/audit.h`).
    pub const fn audit(self) -> u32 {
        match self {
            Arch::X86_64 => 0xC000_003E,
            Arch::Aarch64 => 0xC000_00B7,
        }
    }
}

/// One system call.
#[derive(Debug)]
pub struct Call {
    /// The kernel's name, as in `asm/unistd.h`.
    pub name: &'static str,
    /// Its number on x86_64; `None` where it does not exist.
    pub x86_64: Option<u32>,
    /// Its number on aarch64; `None` where it does not exist.
    pub aarch64: Option<u32>,
    /// When the filter asks the supervisor.
    pub trap: Trap,
    /// How the supervisor reads the arguments.
    pub decode: Decode,
    /// Why it is trapped, or why it need not be.
    pub why: &'static str,
}

impl Call {
    /// The number on `arch`; `None` where the call does not exist there.
    pub const fn number(&self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }
}

/// When the filter asks the supervisor; decided on registers alone, never on memory.
#[derive(Clone, Copy, Debug)]
pub enum Trap {
    /// The call passes whatever its arguments are.
    Never,
    /// The supervisor is asked whatever the arguments are.
    Always,
    /// The supervisor is asked when every test of at least one of the groups holds.
    When(&'static [&'static [Test]]),
}

/// One test of one argument (`arg` counts from 0).
///
/// A parameter that the kernel declares `int`, `unsigned int`, `pid_t` or `key_serial_t` is cut to its
/// low 32 bits before use, so those bits alone decide, and a test that read the high word too could be
/// dodged by setting a bit that the kernel then ignores. Pointers and `long` are tested whole.
#[derive(Clone, Copy, Debug)]
pub enum Test {
    /// A 32-bit argument has a bit of one of `flags`.
    AnyBit {
        /// Which argument.
        arg: u8,
        /// The flags.
        flags: &'static [Value],
    },
    /// A 32-bit argument is not 0.
    NonZero {
        /// Which argument.
        arg: u8,
    },
    /// A pointer or `long` is not 0 in any of its 64 bits.
    NonNull {
        /// Which argument.
        arg: u8,
    },
    /// A 32-bit argument, cut to `mask`, is one of `values`.
    In {
        /// Which argument.
        arg: u8,
        /// The bits that are compared.
        mask: u32,
        /// What they are compared with.
        values: &'static [Value],
    },
    /// A 32-bit argument, cut to `mask`, is none of `values`.
    NotIn {
        /// Which argument.
        arg: u8,
        /// The bits that are compared.
        mask: u32,
        /// What they are compared with.
        values: &'static [Value],
    },
}

/// A constant of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its name in the kernel's headers.
    pub name: &'static str,
    /// Its value; the same on every architecture of the table.
    pub bits: u32,
}

/// How the supervisor reads the arguments of a call (indices count from 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decode {
    /// Opens a path. With `O_PATH` and without `__O_TMPFILE` nothing is opened for writing, whatever
    /// the other flags say.
    Open {
        /// What a relative path starts from.
        dir: Dir,
        /// The path.
        path: u8,
        /// Where the flags are.
        flags: OpenFlags,
    },
    /// Opens a path with flags in memory. Answered ENOSYS; recorded as an open where it would write.
    OpenHow {
        /// The folder descriptor that a relative path starts from (`int`; `AT_FDCWD` is the working folder).
        dir: u8,
        /// The path.
        path: u8,
        /// Pointer to `struct open_how`, which begins with a `u64` of flags.
        how: u8,
    },
    /// Maps a file for several to share, perhaps to write.
    Mapping {
        /// The descriptor.
        fd: u8,
    },
    /// Executes a program.
    Execute {
        /// What a relative path starts from.
        dir: Dir,
        /// The path.
        path: u8,
        /// `AT_EMPTY_PATH`, `AT_SYMLINK_NOFOLLOW`; `None` where the call has none.
        flags: Option<u8>,
    },
    /// Changes what one path names.
    Path {
        /// What is done to it.
        effect: Effect,
        /// What a relative path starts from.
        dir: Dir,
        /// The path.
        path: u8,
        /// How its last component is resolved.
        last: Last,
    },
    /// Changes what a descriptor refers to; no path is involved. The descriptor may be read-only.
    Fd {
        /// What is done to it.
        effect: Effect,
        /// The descriptor.
        fd: u8,
    },
    /// Acts on two paths, neither of which is followed in its last component unless `flags` say so.
    TwoPaths {
        /// [`Effect::Rename`] or [`Effect::Link`].
        effect: Effect,
        /// What a relative old path starts from.
        from_dir: Dir,
        /// The old path.
        from: u8,
        /// What a relative new path starts from.
        to_dir: Dir,
        /// The new path: a new name, or for a rename perhaps an existing one.
        to: u8,
        /// `RENAME_*` for a rename (`RENAME_EXCHANGE` changes both ends), `AT_SYMLINK_FOLLOW` and
        /// `AT_EMPTY_PATH` (both for the old path) for a link.
        flags: Option<u8>,
    },
    /// Names a socket address.
    Address {
        /// Connect, bind or send.
        effect: Effect,
        /// The socket.
        fd: u8,
        /// Pointer to the address.
        addr: u8,
        /// Its length in bytes (`int`).
        len: u8,
    },
    /// Sends one `struct msghdr`, which may name an address.
    Message {
        /// The socket.
        fd: u8,
        /// Pointer to the `struct msghdr`.
        msg: u8,
    },
    /// Sends an array of `struct mmsghdr`, each of which may name an address.
    Messages {
        /// The socket.
        fd: u8,
        /// Pointer to the first `struct mmsghdr`.
        vec: u8,
        /// How many there are (`unsigned int`; the kernel takes 1024 at most).
        count: u8,
    },
    /// Makes a socket outside the small set that needs no question.
    Socket {
        /// `AF_*`.
        family: u8,
        /// `SOCK_*`, or-ed with `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
        kind: u8,
        /// The protocol; its meaning depends on the family.
        protocol: u8,
    },
    /// Acts on a process.
    Process {
        /// Signal or limit.
        effect: Effect,
        /// The argument that names the process.
        pid: u8,
        /// What that argument means.
        of: ProcessArg,
    },
    /// Makes, removes or uses a System V or POSIX ipc object.
    Ipc {
        /// What is done, unless [`IpcArg::Control`] says otherwise.
        effect: Effect,
        /// Which object.
        of: IpcArg,
    },
    /// Refused with EPERM whatever the arguments are.
    Refuse {
        /// What it would change.
        effect: Effect,
    },
    /// Refused with EPERM, unless the first `u32` behind the pointer is 0: then it only reads.
    /// The capabilities it needs to change anything are gone, so going on is safe though the
    /// word can be rewritten meanwhile.
    RefuseUnlessZero {
        /// What it would change.
        effect: Effect,
        /// Pointer to the `u32`.
        at: u8,
    },
    /// Answered ENOSYS and recorded as undecodable: its arguments lie in memory, or it opens a way
    /// around the filter.
    NoSuchCall,
    /// Never trapped, for a reason of this class.
    Harmless(Harmless),
}

/// What a relative path starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// The working folder.
    Cwd,
    /// The folder descriptor in this argument (`int`; `AT_FDCWD` is the working folder).
    Arg(u8),
}

/// Where the flags of an open are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFlags {
    /// In this argument (`int`).
    Arg(u8),
    /// The call implies them.
    Fixed(i32),
}

/// How the last component of a path is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// A symbolic link there is followed.
    Follow,
    /// The name itself is meant, a symbolic link is not followed. `AT_REMOVEDIR` changes nothing of that.
    NoFollow,
    /// A new name: never followed, and an existing one is an error (EEXIST).
    Create,
    /// Followed unless this argument (`int`) has `AT_SYMLINK_NOFOLLOW`; with `AT_EMPTY_PATH` an empty
    /// path (for some calls NULL as well) means the folder descriptor itself, of whatever kind.
    AtFlags(u8),
    /// As [`Last::Follow`], but a NULL path means the descriptor of [`Dir::Arg`] itself, of whatever kind.
    FollowOrFd,
    /// As [`Last::AtFlags`], but a NULL path means the descriptor even without `AT_EMPTY_PATH`.
    AtFlagsOrFd(u8),
}

/// What an argument that names a process means. All are `int` but for that of ptrace(2), a `long`;
/// numbers are as the caller's pid namespace counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessArg {
    /// kill(2): a process; 0 its own group; -1 every process it may signal; below that, the group.
    PidOrGroup,
    /// A process.
    Pid,
    /// A thread (a process number is one, too); 0 is the caller where the call allows it.
    Tid,
    /// A pidfd, a descriptor of a `/proc/PID` folder, or a negative `PIDFD_SELF*` constant.
    PidFd,
    /// setpriority(2): this argument says `PRIO_PROCESS` (0), `PRIO_PGRP` (1) or `PRIO_USER` (2);
    /// a number of 0 is the caller, its group, its user.
    Priority {
        /// The argument with `PRIO_*`.
        which: u8,
    },
    /// ioprio_set(2): this argument says `IOPRIO_WHO_PROCESS` (1), `_PGRP` (2) or `_USER` (3);
    /// a number of 0 is the caller, its group, its user.
    IoPriority {
        /// The argument with `IOPRIO_WHO_*`.
        which: u8,
    },
    /// fcntl(2): with `F_SETOWN` a process, below 0 a group, 0 nobody; with `F_SETOWN_EX` a pointer to
    /// `struct f_owner_ex { int type; pid_t pid; }` (type 0 thread, 1 process, 2 group).
    Owner {
        /// The argument with the command.
        command: u8,
    },
}

/// Which kind of System V object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpcKind {
    /// Shared memory.
    Memory,
    /// Semaphores.
    Semaphores,
    /// Message queues.
    Queue,
}

/// How an ipc object is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpcArg {
    /// By key; `IPC_PRIVATE` (0) always makes a new one, any other key with `IPC_CREAT` perhaps.
    Key {
        /// Which kind of object.
        kind: IpcKind,
        /// The key (`int`).
        key: u8,
        /// `IPC_CREAT`, `IPC_EXCL` and mode bits (`int`).
        flags: u8,
    },
    /// By identifier.
    Id {
        /// Which kind of object.
        kind: IpcKind,
        /// The identifier (`int`).
        id: u8,
    },
    /// By identifier, for a command: `IPC_RMID` (0) removes, `IPC_SET` (1) changes owner and mode; any
    /// other has the effect of the row.
    Control {
        /// Which kind of object.
        kind: IpcKind,
        /// The identifier (`int`).
        id: u8,
        /// The command (`int`).
        command: u8,
    },
    /// A POSIX queue by name.
    Name {
        /// Pointer to the name.
        name: u8,
        /// `O_*` flags (`int`); `None` where the call has none.
        flags: Option<u8>,
    },
}

named_table! {
    /// Why a call is never trapped.
    Harmless {
        Reads = "reads", "it only reads";
        Descriptors = "descriptors", "it acts through descriptors, and getting one that can change anything is trapped; none is inherited";
        Own = "own", "it changes nothing but the calling process, its memory, its timers or its own descriptors";
        Starts = "starts", "it starts, replaces, ends or awaits processes of the subject's own; filter and other layers are inherited, and trapping it would break programs";
        Flushes = "flushes", "it only makes earlier changes durable";
        Tightens = "tightens", "it can only take rights away from the caller";
        Absent = "absent", "the kernel answers ENOSYS: it never had the call, or has dropped it";
    }
}

/// The row of a native call number; `None` where the table has none, which the filter never lets pass.
pub fn find(nr: u32) -> Option<&'static Call> {
    find_on(NATIVE, nr)
}

/// The row of a call number on `arch`.
pub fn find_on(arch: Arch, nr: u32) -> Option<&'static Call> {
    let index = match arch {
        Arch::X86_64 => &X86_64_INDEX,
        Arch::Aarch64 => &AARCH64_INDEX,
    };
    let slot = *index.get(usize::try_from(nr).ok()?)?;
    CALLS.get(usize::from(slot.checked_sub(1)?))
}

/// The highest number that the table knows on any architecture.
pub const LAST: u32 = {
    let mut last = 0;
    let mut i = 0;
    while i < CALLS.len() {
        if let Some(nr) = CALLS[i].x86_64
            && nr > last
        {
            last = nr;
        }
        if let Some(nr) = CALLS[i].aarch64
            && nr > last
        {
            last = nr;
        }
        i += 1;
    }
    last
};

static X86_64_INDEX: [u16; LAST as usize + 1] = index(Arch::X86_64);
static AARCH64_INDEX: [u16; LAST as usize + 1] = index(Arch::Aarch64);

/// For each number one more than the place of its row, or 0. A number given twice does not compile.
const fn index(arch: Arch) -> [u16; LAST as usize + 1] {
    let mut index = [0; LAST as usize + 1];
    let mut i = 0;
    while i < CALLS.len() {
        if let Some(nr) = CALLS[i].number(arch) {
            assert!(index[nr as usize] == 0, "two rows have the same number");
            index[nr as usize] = i as u16 + 1;
        }
        i += 1;
    }
    index
}
