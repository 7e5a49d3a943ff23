//! What a subject tried to change: effect, place, outcome, and how equal attempts are counted together.

use std::ffi::OsString;
use std::path::PathBuf;

/// Declares an enum whose variants have a stable machine name, a sentence, and a list of all of them.
///
/// One row is written once; decoder, JSON, docs and tests read it from here.
macro_rules! table {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal, $about:literal;)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $(#[doc = $about] $variant,)+ }

        impl $name {
            /// Every variant, in the order of the table.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The stable name that reports and JSON use.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// One sentence for docs and help.
            pub const fn about(self) -> &'static str {
                match self { $($name::$variant => $about,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use table;

table! {
    /// What kind of change was attempted.
    Effect {
        Create = "create", "makes a new file, folder, link, FIFO, device node or socket file";
        WriteOpen = "write-open", "opens existing content for writing, without truncating it";
        Truncate = "truncate", "cuts or sets the length of existing content";
        Remove = "remove", "removes a name";
        Rename = "rename", "moves a name, perhaps over another";
        Link = "link", "adds a second name to an inode";
        Mode = "mode", "changes permission bits";
        Owner = "owner", "changes owner or group";
        Times = "times", "sets access or modification time";
        Xattr = "xattr", "sets or removes an extended attribute";
        Flags = "flags", "changes inode flags or other per-inode attributes by ioctl or file_setattr";
        Connect = "connect", "connects a socket to an address";
        Bind = "bind", "binds a socket to an address";
        Send = "send", "sends to an explicit address";
        Signal = "signal", "signals, traces or writes into another process";
        Limit = "limit", "changes limits, priority or affinity of another process";
        Mount = "mount", "changes mounts, root folder or file systems";
        Kernel = "kernel", "changes kernel state, or uses a door through which calls cannot be observed";
    }
}

table! {
    /// Where the inode (or the other end) that an attempt reached is.
    Place {
        Worktree = "worktree", "the clone, outside its git folder";
        GitDir = "git-dir", "the clone's git folder, or another git folder of it";
        Home = "home", "the user's HOME";
        Outside = "outside", "any other path, another process, the kernel";
        Scratch = "scratch", "TMPDIR, and what the arm itself made in /tmp and /var/tmp";
        Ipc = "ipc", "shared memory, semaphores, queues, and sockets that the arm itself opened";
        Itself = "self", "the subject's own processes, /proc entries, pipes and memory files";
        DeviceSink = "device-sink", "a closed list of devices that keep nothing, and the arm's own output";
        NameService = "name-service", "the socket of a name service daemon, refused and listed";
        Delegated = "delegated", "a socket, FIFO, device or terminal on whose other end somebody else acts";
        Egress = "egress", "any other network address or socket family, and network file systems";
    }
}

table! {
    /// What became of an attempt.
    Outcome {
        Denied = "denied", "refused by the supervisor or by a layer below it";
        NoOp = "no-op", "the kernel would have changed nothing at all, its times included";
        Allowed = "allowed", "passed on to the kernel, in a place where it may succeed";
        Unknown = "unknown", "the event could not be decoded";
    }
}

table! {
    /// What a name pointed at just before the attempt.
    FileKind {
        File = "file", "a regular file";
        Folder = "folder", "a directory";
        Symlink = "symlink", "a symbolic link";
        Fifo = "fifo", "a FIFO";
        Socket = "socket", "a socket file";
        Device = "device", "a character or block device";
        Other = "other", "anything else";
    }
}

table! {
    /// Something about an attempt that a judge must know beside its place.
    Mark {
        AbsentHere = "absent-here", "the target is missing only in this sandbox; the real one may exist";
        AddressProbe = "address-probe", "a datagram socket was connected inside the private network; nothing was sent by this call";
        RouteQuery = "route-query", "a netlink request inside a private network";
        Runner = "runner", "the target is one of the runner's own processes";
        Undecodable = "undecodable", "the event could not be decoded, or came through a door that cannot be observed";
        TempNotPrivate = "temp-not-private", "a path in a shared temp folder that could not be made private";
        Mapped = "mapped", "existing content was mapped for shared writing: a change that is put back leaves no trace";
        LeftBehind = "left-behind", "it was still there when the last process of the arm had ended";
        MetadataRefused = "metadata-refused", "metadata that this host could not contain was refused in the contained pass";
    }
}

/// One end of an attempt as it was resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Where it lies.
    pub place: Place,
    /// The bytes that the subject passed (an address in canonical text form for sockets), unchanged.
    pub raw: Vec<u8>,
    /// The absolute path that was reached, as the subject sees it; `None` where there is none.
    pub resolved: Option<PathBuf>,
    /// What was there just before; `None` when nothing was.
    pub existed: Option<FileKind>,
}

/// One observed try to change something; equal ones are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What kind of change.
    pub effect: Effect,
    /// The widest of the places of its ends (see [`Place`]).
    pub place: Place,
    /// The object acted on (the old name of a rename).
    pub target: Target,
    /// The second end of a rename or link.
    pub to: Option<Target>,
    /// What became of it.
    pub outcome: Outcome,
    /// What else a judge must know.
    pub marks: Vec<Mark>,
    /// The system call, by its kernel name.
    pub call: &'static str,
    /// Process number as the supervisor sees it. Never hashed.
    pub pid: i32,
    /// Basename of the program that tried (`/proc/PID/exe`), empty when unknown.
    pub program: OsString,
    /// For attempts in a git folder: the program's path and its arguments, so that a judge can tell
    /// which git command it was. Empty elsewhere.
    pub command: Vec<OsString>,
    /// How many equal attempts were made.
    pub count: u64,
}

impl Attempt {
    /// Whether the kernel would have removed, cut, replaced or changed existing content.
    ///
    /// A write-open is not known to be: only the contained pass can tell.
    pub fn is_destructive(&self) -> bool {
        if self.outcome == Outcome::NoOp {
            return false;
        }
        let existed = |t: &Target| t.existed.is_some();
        match self.effect {
            Effect::Remove | Effect::Truncate => existed(&self.target),
            Effect::Rename => existed(&self.target),
            _ => false,
        }
    }

    /// Whether `other` differs from `self` only in process number and count.
    pub fn same_kind(&self, other: &Attempt) -> bool {
        self.effect == other.effect
            && self.place == other.place
            && self.outcome == other.outcome
            && self.call == other.call
            && self.target == other.target
            && self.to == other.to
            && self.marks == other.marks
            && self.program == other.program
            && self.command == other.command
    }
}
