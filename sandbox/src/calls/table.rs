//! The rows, by what they do. Numbers: `asm/unistd_64.h` for x86_64, `asm-generic/unistd.h` for aarch64.

use super::ioctls::IOCTLS;
use super::values::*;
use super::{
    Call, Decode, Dir, Harmless, IpcArg, IpcKind, Last, OpenFlags, ProcessArg, Test, Trap,
};
use crate::attempt::Effect;

use Decode::*;
use Effect::{
    Bind, Connect, Create, Flags, Kernel, Limit, Link, Mode, Mount, Owner, Remove, Rename, Send,
    Signal, Times, Truncate, WriteOpen, Xattr,
};
use Harmless::*;
use Test::{AnyBit, NonNull, NonZero, NotIn};
use Trap::{Always, Never, When};

macro_rules! number {
    (_) => {
        None
    };
    ($number:literal) => {
        Some($number)
    };
}

/// A row is `name x86_64 aarch64: trap => decode, why;`. Rows that are harmless for the reason of their
/// class alone are gathered by class.
macro_rules! calls {
    (
        rows { $($name:ident $x86_64:tt $aarch64:tt: $trap:expr => $decode:expr, $why:literal;)+ }
        $($class:ident { $($plain:ident $plain_x86_64:tt $plain_aarch64:tt,)+ })+
    ) => {
        /// Every system call, by what it does.
        pub static CALLS: &[Call] = &[
            $(Call {
                name: stringify!($name),
                x86_64: number!($x86_64),
                aarch64: number!($aarch64),
                trap: $trap,
                decode: $decode,
                why: $why,
            },)+
            $($(Call {
                name: stringify!($plain),
                x86_64: number!($plain_x86_64),
                aarch64: number!($plain_aarch64),
                trap: Never,
                decode: Harmless($class),
                why: $class.about(),
            },)+)+
        ];
    };
}

calls! {
    rows {
        // paths: opening
        openat 257 56: When(&[&[writes(2)]])
            => Open { dir: Dir::Arg(0), path: 1, flags: OpenFlags::Arg(2) },
            "opens for writing, makes, cuts";
        open 2 _: When(&[&[writes(1)]])
            => Open { dir: Dir::Cwd, path: 0, flags: OpenFlags::Arg(1) },
            "opens for writing, makes, cuts";
        creat 85 _: Always => Open { dir: Dir::Cwd, path: 0, flags: OpenFlags::Fixed(CREAT_FLAGS) },
            "makes or cuts a file";
        openat2 437 437: Always => OpenHow { dir: 0, path: 1, how: 2 },
            "its flags lie in memory, where they could be swapped: answered ENOSYS, and programs fall back to openat";
        open_by_handle_at 304 265: Always => Refuse { effect: Kernel },
            "opens a file without its path, past every rule on paths";
        // paths: one
        truncate 76 45: Always
            => Path { effect: Truncate, dir: Dir::Cwd, path: 0, last: Last::Follow },
            "sets the length of a file";
        mkdir 83 _: Always => Path { effect: Create, dir: Dir::Cwd, path: 0, last: Last::Create },
            "makes a folder";
        mkdirat 258 34: Always
            => Path { effect: Create, dir: Dir::Arg(0), path: 1, last: Last::Create },
            "makes a folder";
        mknod 133 _: Always => Path { effect: Create, dir: Dir::Cwd, path: 0, last: Last::Create },
            "makes a file, FIFO, socket file or device node";
        mknodat 259 33: Always
            => Path { effect: Create, dir: Dir::Arg(0), path: 1, last: Last::Create },
            "makes a file, FIFO, socket file or device node";
        symlink 88 _: Always => Path { effect: Create, dir: Dir::Cwd, path: 1, last: Last::Create },
            "makes a symbolic link; its target is text and is not reached";
        symlinkat 266 36: Always
            => Path { effect: Create, dir: Dir::Arg(1), path: 2, last: Last::Create },
            "makes a symbolic link; its target is text and is not reached";
        unlink 87 _: Always
            => Path { effect: Remove, dir: Dir::Cwd, path: 0, last: Last::NoFollow },
            "removes a name";
        unlinkat 263 35: Always
            => Path { effect: Remove, dir: Dir::Arg(0), path: 1, last: Last::NoFollow },
            "removes a name; its flags say only whether of a folder";
        rmdir 84 _: Always => Path { effect: Remove, dir: Dir::Cwd, path: 0, last: Last::NoFollow },
            "removes a folder";
        chmod 90 _: Always => Path { effect: Mode, dir: Dir::Cwd, path: 0, last: Last::Follow },
            "Landlock does not see it";
        fchmodat 268 53: Always
            => Path { effect: Mode, dir: Dir::Arg(0), path: 1, last: Last::Follow },
            "Landlock does not see it; the call has no flags";
        fchmodat2 452 452: Always
            => Path { effect: Mode, dir: Dir::Arg(0), path: 1, last: Last::AtFlags(3) },
            "Landlock does not see it";
        chown 92 _: Always => Path { effect: Owner, dir: Dir::Cwd, path: 0, last: Last::Follow },
            "Landlock does not see it";
        lchown 94 _: Always => Path { effect: Owner, dir: Dir::Cwd, path: 0, last: Last::NoFollow },
            "Landlock does not see it";
        fchownat 260 54: Always
            => Path { effect: Owner, dir: Dir::Arg(0), path: 1, last: Last::AtFlags(4) },
            "Landlock does not see it";
        utime 132 _: Always => Path { effect: Times, dir: Dir::Cwd, path: 0, last: Last::Follow },
            "Landlock does not see it";
        utimes 235 _: Always => Path { effect: Times, dir: Dir::Cwd, path: 0, last: Last::Follow },
            "Landlock does not see it";
        futimesat 261 _: Always
            => Path { effect: Times, dir: Dir::Arg(0), path: 1, last: Last::FollowOrFd },
            "Landlock does not see it";
        utimensat 280 88: Always
            => Path { effect: Times, dir: Dir::Arg(0), path: 1, last: Last::AtFlagsOrFd(3) },
            "Landlock does not see it; touch falls back to it";
        setxattr 188 5: Always
            => Path { effect: Xattr, dir: Dir::Cwd, path: 0, last: Last::Follow },
            "Landlock does not see it; access lists are set so, too";
        lsetxattr 189 6: Always
            => Path { effect: Xattr, dir: Dir::Cwd, path: 0, last: Last::NoFollow },
            "Landlock does not see it";
        setxattrat 463 463: Always
            => Path { effect: Xattr, dir: Dir::Arg(0), path: 1, last: Last::AtFlags(2) },
            "Landlock does not see it";
        removexattr 197 14: Always
            => Path { effect: Xattr, dir: Dir::Cwd, path: 0, last: Last::Follow },
            "Landlock does not see it";
        lremovexattr 198 15: Always
            => Path { effect: Xattr, dir: Dir::Cwd, path: 0, last: Last::NoFollow },
            "Landlock does not see it";
        removexattrat 466 466: Always
            => Path { effect: Xattr, dir: Dir::Arg(0), path: 1, last: Last::AtFlags(2) },
            "Landlock does not see it";
        file_setattr 469 469: Always
            => Path { effect: Flags, dir: Dir::Arg(0), path: 1, last: Last::AtFlags(4) },
            "Landlock does not see it; sets inode flags and project";
        // paths: two
        rename 82 _: Always
            => TwoPaths { effect: Rename, from_dir: Dir::Cwd, from: 0, to_dir: Dir::Cwd, to: 1, flags: None },
            "moves a name, perhaps over another";
        renameat 264 38: Always
            => TwoPaths { effect: Rename, from_dir: Dir::Arg(0), from: 1, to_dir: Dir::Arg(2), to: 3, flags: None },
            "moves a name, perhaps over another";
        renameat2 316 276: Always
            => TwoPaths { effect: Rename, from_dir: Dir::Arg(0), from: 1, to_dir: Dir::Arg(2), to: 3, flags: Some(4) },
            "moves a name, perhaps over another, or exchanges two";
        link 86 _: Always
            => TwoPaths { effect: Link, from_dir: Dir::Cwd, from: 0, to_dir: Dir::Cwd, to: 1, flags: None },
            "adds a name to an inode";
        linkat 265 37: Always
            => TwoPaths { effect: Link, from_dir: Dir::Arg(0), from: 1, to_dir: Dir::Arg(2), to: 3, flags: Some(4) },
            "adds a name to an inode";
        // descriptors that need not be writable
        fchmod 91 52: Always => Fd { effect: Mode, fd: 0 },
            "a read-only descriptor is enough";
        fchown 93 55: Always => Fd { effect: Owner, fd: 0 },
            "a read-only descriptor is enough";
        fsetxattr 190 7: Always => Fd { effect: Xattr, fd: 0 },
            "a read-only descriptor is enough";
        fremovexattr 199 16: Always => Fd { effect: Xattr, fd: 0 },
            "a read-only descriptor is enough";
        ioctl 16 29: When(&[&[NotIn { arg: 1, mask: u32::MAX, values: IOCTLS }]])
            => Fd { effect: Flags, fd: 0 },
            "a read-only descriptor is enough for inode flags, subvolumes, raw device commands and terminal input; only the requests listed below pass";
        fcntl 72 25: When(&[&[is(1, &[F_SETOWN, F_SETOWN_EX])]])
            => Process { effect: Signal, pid: 2, of: ProcessArg::Owner { command: 1 } },
            "with F_SETSIG the kernel then sends any signal to that process";
        mmap 9 222: When(SHARED_FILE)
            => Mapping { fd: 4 },
            "what is written through a shared mapping, and put back, leaves no trace";
        // programs that would run with other rights
        execve 59 221: Always => Execute { dir: Dir::Cwd, path: 0, flags: None },
            "no_new_privs keeps set-user-id from adding rights, so what it would have done is not seen";
        execveat 322 281: Always => Execute { dir: Dir::Arg(0), path: 1, flags: Some(4) },
            "no_new_privs keeps set-user-id from adding rights, so what it would have done is not seen";
        // sockets
        socket 41 198: When(SOCKET) => Socket { family: 0, kind: 1, protocol: 2 },
            "other families, raw sockets and protocols reach out without connect or an address";
        setsockopt 54 208: When(JOIN) => Refuse { effect: Send },
            "joining a multicast group sends a packet";
        connect 42 203: Always => Address { effect: Connect, fd: 0, addr: 1, len: 2 },
            "what answers may write for the subject; Landlock sees TCP and abstract sockets only";
        bind 49 200: Always => Address { effect: Bind, fd: 0, addr: 1, len: 2 },
            "makes a socket file, or takes a port";
        sendto 44 206: When(&[&[NonNull { arg: 4 }]])
            => Address { effect: Send, fd: 0, addr: 4, len: 5 },
            "with an address it reaches out without connect";
        sendmsg 46 211: Always => Message { fd: 0, msg: 1 },
            "whether it has an address lies in memory";
        sendmmsg 307 269: Always => Messages { fd: 0, vec: 1, count: 2 },
            "whether they have addresses lies in memory";
        // processes
        kill 62 129: When(&[&[NonZero { arg: 1 }]])
            => Process { effect: Signal, pid: 0, of: ProcessArg::PidOrGroup },
            "signals a process; signal 0 only asks whether it is there";
        tkill 200 130: When(&[&[NonZero { arg: 1 }]])
            => Process { effect: Signal, pid: 0, of: ProcessArg::Tid },
            "signals a process; signal 0 only asks whether it is there";
        tgkill 234 131: When(&[&[NonZero { arg: 2 }]])
            => Process { effect: Signal, pid: 0, of: ProcessArg::Pid },
            "signals a process; signal 0 only asks whether it is there";
        rt_sigqueueinfo 129 138: When(&[&[NonZero { arg: 1 }]])
            => Process { effect: Signal, pid: 0, of: ProcessArg::Pid },
            "signals a process; signal 0 only asks whether it is there";
        rt_tgsigqueueinfo 297 240: When(&[&[NonZero { arg: 2 }]])
            => Process { effect: Signal, pid: 0, of: ProcessArg::Pid },
            "signals a process; signal 0 only asks whether it is there";
        pidfd_send_signal 424 424: When(&[&[NonZero { arg: 1 }]])
            => Process { effect: Signal, pid: 0, of: ProcessArg::PidFd },
            "signals a process; signal 0 only asks whether it is there";
        pidfd_getfd 438 438: Always => Process { effect: Signal, pid: 0, of: ProcessArg::PidFd },
            "takes a descriptor, perhaps a writable one, out of a process";
        ptrace 101 117: When(&[&[NonNull { arg: 0 }]])
            => Process { effect: Signal, pid: 1, of: ProcessArg::Tid },
            "controls a process; request 0, PTRACE_TRACEME, only offers the caller itself";
        process_vm_writev 311 271: Always
            => Process { effect: Signal, pid: 0, of: ProcessArg::Pid },
            "writes the memory of a process";
        process_madvise 440 440: Always => Process { effect: Limit, pid: 0, of: ProcessArg::PidFd },
            "pages out or collapses memory of a process";
        process_mrelease 448 448: Always
            => Process { effect: Limit, pid: 0, of: ProcessArg::PidFd },
            "frees the memory of a dying process";
        prlimit64 302 261: When(&[&[NonZero { arg: 0 }, NonNull { arg: 2 }]])
            => Process { effect: Limit, pid: 0, of: ProcessArg::Pid },
            "sets a limit of a process; without new limits it reads, and 0 is the caller";
        setpriority 141 140: When(&[&[is_not(0, &[PRIO_PROCESS])], &[NonZero { arg: 1 }]])
            => Process { effect: Limit, pid: 1, of: ProcessArg::Priority { which: 0 } },
            "sets the priority of a process, a group or a user; 0 is the caller";
        ioprio_set 251 30: When(&[&[is_not(0, &[IOPRIO_WHO_PROCESS])], &[NonZero { arg: 1 }]])
            => Process { effect: Limit, pid: 1, of: ProcessArg::IoPriority { which: 0 } },
            "sets the priority of a process, a group or a user; 0 is the caller";
        sched_setparam 142 118: When(&[&[NonZero { arg: 0 }]])
            => Process { effect: Limit, pid: 0, of: ProcessArg::Tid },
            "sets the scheduling of a process; 0 is the caller";
        sched_setscheduler 144 119: When(&[&[NonZero { arg: 0 }]])
            => Process { effect: Limit, pid: 0, of: ProcessArg::Tid },
            "sets the scheduling of a process; 0 is the caller";
        sched_setattr 314 274: When(&[&[NonZero { arg: 0 }]])
            => Process { effect: Limit, pid: 0, of: ProcessArg::Tid },
            "sets the scheduling of a process; 0 is the caller";
        sched_setaffinity 203 122: When(&[&[NonZero { arg: 0 }]])
            => Process { effect: Limit, pid: 0, of: ProcessArg::Tid },
            "sets the processors of a process; 0 is the caller";
        migrate_pages 256 238: When(&[&[NonZero { arg: 0 }]])
            => Process { effect: Limit, pid: 0, of: ProcessArg::Tid },
            "moves memory of a process; 0 is the caller";
        move_pages 279 239: When(&[&[NonZero { arg: 0 }, NonNull { arg: 3 }]])
            => Process { effect: Limit, pid: 0, of: ProcessArg::Tid },
            "moves memory of a process; without nodes it reads, and 0 is the caller";
        prctl 157 167: When(&[&[is(0, &[PR_SCHED_CORE]), is_not(1, &[PR_SCHED_CORE_GET]), NonZero { arg: 2 }]])
            => Process { effect: Limit, pid: 2, of: ProcessArg::Tid },
            "of its options only PR_SCHED_CORE changes another process";
        // ipc objects
        shmget 29 194: When(&[&[AnyBit { arg: 2, flags: &[IPC_CREAT] }], &[is(0, &[IPC_PRIVATE])]])
            => Ipc { effect: Create, of: IpcArg::Key { kind: IpcKind::Memory, key: 0, flags: 2 } },
            "makes an object; without IPC_CREAT it only looks one up";
        semget 64 190: When(&[&[AnyBit { arg: 2, flags: &[IPC_CREAT] }], &[is(0, &[IPC_PRIVATE])]])
            => Ipc { effect: Create, of: IpcArg::Key { kind: IpcKind::Semaphores, key: 0, flags: 2 } },
            "makes an object; without IPC_CREAT it only looks one up";
        msgget 68 186: When(&[&[AnyBit { arg: 1, flags: &[IPC_CREAT] }], &[is(0, &[IPC_PRIVATE])]])
            => Ipc { effect: Create, of: IpcArg::Key { kind: IpcKind::Queue, key: 0, flags: 1 } },
            "makes an object; without IPC_CREAT it only looks one up";
        shmctl 31 195: When(&[&[is_not(1, SHM_READS)]])
            => Ipc { effect: WriteOpen, of: IpcArg::Control { kind: IpcKind::Memory, id: 0, command: 1 } },
            "removes or alters an object; the commands that only read pass";
        semctl 66 191: When(&[&[is_not(2, SEM_READS)]])
            => Ipc { effect: WriteOpen, of: IpcArg::Control { kind: IpcKind::Semaphores, id: 0, command: 2 } },
            "removes or alters an object; the commands that only read pass";
        msgctl 71 187: When(&[&[is_not(1, MSG_READS)]])
            => Ipc { effect: WriteOpen, of: IpcArg::Control { kind: IpcKind::Queue, id: 0, command: 1 } },
            "removes or alters an object; the commands that only read pass";
        shmat 30 196: When(&[&[NotIn { arg: 2, mask: SHM_RDONLY.bits, values: &[SHM_RDONLY] }]])
            => Ipc { effect: WriteOpen, of: IpcArg::Id { kind: IpcKind::Memory, id: 0 } },
            "maps an object for writing, perhaps one of a process outside";
        semop 65 193: Always
            => Ipc { effect: WriteOpen, of: IpcArg::Id { kind: IpcKind::Semaphores, id: 0 } },
            "changes an object, perhaps one of a process outside";
        semtimedop 220 192: Always
            => Ipc { effect: WriteOpen, of: IpcArg::Id { kind: IpcKind::Semaphores, id: 0 } },
            "changes an object, perhaps one of a process outside";
        msgsnd 69 189: Always
            => Ipc { effect: WriteOpen, of: IpcArg::Id { kind: IpcKind::Queue, id: 0 } },
            "adds to a queue, perhaps one that a process outside reads";
        msgrcv 70 188: Always
            => Ipc { effect: WriteOpen, of: IpcArg::Id { kind: IpcKind::Queue, id: 0 } },
            "takes a message away, perhaps one of a process outside";
        mq_open 240 180: Always
            => Ipc { effect: Create, of: IpcArg::Name { name: 0, flags: Some(1) } },
            "makes a queue, or opens one whose messages reading takes away";
        mq_unlink 241 181: Always
            => Ipc { effect: Remove, of: IpcArg::Name { name: 0, flags: None } },
            "removes a queue";
        // mounts and root folder
        mount 165 40: Always => Refuse { effect: Mount },
            "mounts, or changes the flags of a mount";
        umount2 166 39: Always => Refuse { effect: Mount },
            "unmounts, and may uncover what was hidden";
        pivot_root 155 41: Always => Refuse { effect: Mount },
            "changes the root folder";
        chroot 161 51: Always => Refuse { effect: Mount },
            "changes the root folder";
        move_mount 429 429: Always => Refuse { effect: Mount },
            "attaches a mount";
        fsopen 430 430: Always => Refuse { effect: Mount },
            "begins to make a mount";
        fsconfig 431 431: Always => Refuse { effect: Mount },
            "makes or alters a file system";
        fsmount 432 432: Always => Refuse { effect: Mount },
            "makes a mount";
        fspick 433 433: Always => Refuse { effect: Mount },
            "begins to alter a mounted file system";
        mount_setattr 442 442: Always => Refuse { effect: Mount },
            "changes the flags of mounts";
        open_tree_attr 467 467: Always => Refuse { effect: Mount },
            "changes the flags of mounts";
        setns 308 268: Always => Refuse { effect: Mount },
            "enters namespaces of another process, where neither the mounts nor the network of the run hold";
        open_tree 428 428: When(&[&[AnyBit { arg: 2, flags: &[OPEN_TREE_CLONE] }]])
            => Refuse { effect: Mount },
            "copies mounts; without OPEN_TREE_CLONE it only opens a path";
        // kernel state
        swapon 167 224: Always => Refuse { effect: Kernel },
            "gives a file or device to the kernel to write on";
        swapoff 168 225: Always => Refuse { effect: Kernel },
            "changes the swap of the host";
        acct 163 89: Always => Refuse { effect: Kernel },
            "makes the kernel write to a file";
        reboot 169 142: Always => Refuse { effect: Kernel },
            "ends the host, or its pid namespace";
        kexec_load 246 104: Always => Refuse { effect: Kernel },
            "loads a kernel";
        kexec_file_load 320 294: Always => Refuse { effect: Kernel },
            "loads a kernel";
        init_module 175 105: Always => Refuse { effect: Kernel },
            "loads code into the kernel";
        finit_module 313 273: Always => Refuse { effect: Kernel },
            "loads code into the kernel";
        delete_module 176 106: Always => Refuse { effect: Kernel },
            "removes code from the kernel";
        sethostname 170 161: Always => Refuse { effect: Kernel },
            "names the host";
        setdomainname 171 162: Always => Refuse { effect: Kernel },
            "names the host";
        settimeofday 164 170: Always => Refuse { effect: Kernel },
            "sets the clock or its zone";
        clock_settime 227 112: Always => Refuse { effect: Kernel },
            "sets a clock";
        iopl 172 _: Always => Refuse { effect: Kernel },
            "gives access to hardware ports";
        ioperm 173 _: Always => Refuse { effect: Kernel },
            "gives access to hardware ports";
        vhangup 153 58: Always => Refuse { effect: Kernel },
            "hangs up the terminal";
        bpf 321 280: Always => NoSuchCall,
            "loads programs into the kernel, pins objects, changes maps of others";
        perf_event_open 298 241: Always => NoSuchCall,
            "attaches to the kernel and to other processes";
        userfaultfd 323 282: Always => NoSuchCall,
            "lets a process stop the supervisor or the kernel while it reads memory";
        fanotify_init 300 262: Always => NoSuchCall,
            "watches, and may hold up, what other processes open";
        fanotify_mark 301 263: Always => NoSuchCall,
            "watches, and may hold up, what other processes open";
        add_key 248 217: Always => Refuse { effect: Kernel },
            "keyrings are shared by all processes of the user, outside too";
        quotactl 179 60: When(&[&[NotIn { arg: 0, mask: QUOTA_COMMAND, values: QUOTA_READS }]])
            => Refuse { effect: Kernel },
            "sets quotas; the commands that only read pass";
        quotactl_fd 443 443: When(&[&[NotIn { arg: 1, mask: QUOTA_COMMAND, values: QUOTA_READS }]])
            => Refuse { effect: Kernel },
            "sets quotas; the commands that only read pass";
        syslog 103 116: When(&[&[is_not(0, SYSLOG_READS)]]) => Refuse { effect: Kernel },
            "clears or consumes the kernel log, or sets the console level; reading all of it passes";
        request_key 249 218: When(&[&[NonNull { arg: 2 }], &[NonZero { arg: 3 }]])
            => Refuse { effect: Kernel },
            "has a helper outside make a key, or adds one to a keyring that is shared; a plain search passes";
        keyctl 250 219: When(KEYCTL) => Refuse { effect: Kernel },
            "changes keys and keyrings, which are shared by all processes of the user; the commands that only read pass";
        adjtimex 159 171: Always => RefuseUnlessZero { effect: Kernel, at: 0 },
            "tunes the clock; with no modes set it reads";
        clock_adjtime 305 266: Always => RefuseUnlessZero { effect: Kernel, at: 1 },
            "tunes a clock; with no modes set it reads";
        // ways around the filter
        io_uring_setup 425 425: Always => NoSuchCall,
            "what it does is queued in memory and never passes the filter; programs fall back";
        io_uring_enter 426 426: Always => NoSuchCall,
            "what it does is queued in memory and never passes the filter; programs fall back";
        io_uring_register 427 427: Always => NoSuchCall,
            "what it does is queued in memory and never passes the filter; programs fall back";
        // harmless, for reasons of their own
        unshare 272 97: Never => Harmless(Own),
            "new namespaces begin empty or as copies: mounts in them are refused, their id maps are files that must be opened for writing, and nothing outside lies in them";
        clone 56 220: Never => Harmless(Starts),
            "the child inherits the filter and every other layer; trapping it makes pipelines fail with EINTR";
        clone3 435 435: Never => Harmless(Starts),
            "the child inherits the filter and every other layer; trapping it makes pipelines fail with EINTR";
        fork 57 _: Never => Harmless(Starts),
            "the child inherits the filter and every other layer; trapping it makes pipelines fail with EINTR";
        vfork 58 _: Never => Harmless(Starts),
            "the child inherits the filter and every other layer; trapping it makes pipelines fail with EINTR";
        seccomp 317 277: Never => Harmless(Tightens),
            "filters only add up; a second listener is refused (EBUSY), and a nested filter can refuse calls but not let them pass";
        landlock_create_ruleset 444 444: Never => Harmless(Tightens),
            "rulesets only add up";
        landlock_add_rule 445 445: Never => Harmless(Tightens),
            "rulesets only add up";
        landlock_restrict_self 446 446: Never => Harmless(Tightens),
            "rulesets only add up";
        name_to_handle_at 303 264: Never => Harmless(Reads),
            "makes a handle; opening by handle is refused";
        write 1 64: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        writev 20 66: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        pwrite64 18 68: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        pwritev 296 70: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        pwritev2 328 287: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        ftruncate 77 46: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        fallocate 285 47: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        sendfile 40 71: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        splice 275 76: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        tee 276 77: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        vmsplice 278 75: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        copy_file_range 326 285: Never => Harmless(Descriptors),
            "it needs a writable descriptor, and opening one is trapped";
        io_submit 209 2: Never => Harmless(Descriptors),
            "what it queues needs a writable descriptor, and it cannot open one";
        memfd_create 319 279: Never => Harmless(Own),
            "the file is nowhere but in the memory of the subject";
        memfd_secret 447 447: Never => Harmless(Own),
            "the file is nowhere but in the memory of the subject";
        personality 135 92: Never => Harmless(Own),
            "none of the personalities lets a call past the filter";
        setpgid 109 154: Never => Harmless(Own),
            "it moves only the caller and its own children; what leaves the session is still followed";
        setsid 112 157: Never => Harmless(Own),
            "it moves only the caller and its own children; what leaves the session is still followed";
        flock 73 32: Never => Harmless(Own),
            "locks end with their holder and change no file";
        mbind 237 235: Never => Harmless(Own),
            "the memory policy of the caller alone";
        listen 50 201: Never => Harmless(Descriptors),
            "it only waits for others; taking an address is trapped at bind";
        mq_timedsend 242 182: Never => Harmless(Descriptors),
            "it needs a queue descriptor, and opening one is trapped";
        mq_timedreceive 243 183: Never => Harmless(Descriptors),
            "it needs a queue descriptor, and opening one is trapped";
        mq_notify 244 184: Never => Harmless(Descriptors),
            "it needs a queue descriptor, and opening one is trapped";
        mq_getsetattr 245 185: Never => Harmless(Descriptors),
            "it needs a queue descriptor, and opening one is trapped";
        uselib 134 _: Never => Harmless(Absent),
            "not built for 64-bit kernels; it mapped a file for reading";
        _sysctl 156 _: Never => Harmless(Absent),
            "dropped in Linux 5.5; before that it could write, but Landlock needs a newer kernel than that";
        nfsservctl 180 42: Never => Harmless(Absent),
            "dropped in Linux 3.1";
        lookup_dcookie 212 18: Never => Harmless(Absent),
            "dropped in Linux 6.7; it read a path";
    }
    Reads {
        read 0 63, pread64 17 67, readv 19 65, preadv 295 69, preadv2 327 286, stat 4 _, fstat 5 80, lstat 6 _,
        newfstatat 262 79, statx 332 291, access 21 _, faccessat 269 48, faccessat2 439 439, readlink 89 _,
        readlinkat 267 78, getdents 78 _, getdents64 217 61, getcwd 79 17, lseek 8 62,
        poll 7 _, ppoll 271 73, select 23 _, pselect6 270 72, mincore 27 232, readahead 187 213,
        fadvise64 221 223, cachestat 451 451, statfs 137 43, fstatfs 138 44, ustat 136 _, sysfs 139 _,
        getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, getxattrat 464 464, listxattr 194 11,
        llistxattr 195 12, flistxattr 196 13, listxattrat 465 465, file_getattr 468 468, statmount 457 457,
        listmount 458 458,
        getpid 39 172, getppid 110 173, gettid 186 178, getuid 102 174, geteuid 107 175, getgid 104 176,
        getegid 108 177, getresuid 118 148, getresgid 120 150, getgroups 115 158, getpgid 121 155, getpgrp 111 _,
        getsid 124 156, getpriority 140 141, ioprio_get 252 31,
        sched_getparam 143 121, sched_getscheduler 145 120, sched_getattr 315 275, sched_getaffinity 204 123,
        sched_get_priority_max 146 125, sched_get_priority_min 147 126, sched_rr_get_interval 148 127,
        capget 125 90, getrlimit 97 163, getrusage 98 165, times 100 153, uname 63 160, sysinfo 99 179,
        gettimeofday 96 169, time 201 _, clock_gettime 228 113, clock_getres 229 114, getcpu 309 168,
        getrandom 318 278, getitimer 36 102,
        getsockname 51 204, getpeername 52 205, getsockopt 55 209, get_mempolicy 239 236, get_robust_list 274 100,
        process_vm_readv 310 270, kcmp 312 272, pidfd_open 434 434, lsm_get_self_attr 459 459,
        lsm_list_modules 461 461,
    }
    Descriptors {
        close 3 57, close_range 436 436, dup 32 23, dup2 33 _, dup3 292 24, pipe 22 _, pipe2 293 59,
        socketpair 53 199, accept 43 202, accept4 288 242, recvfrom 45 207, recvmsg 47 212, recvmmsg 299 243,
        shutdown 48 210,
        epoll_create 213 _, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 _, epoll_pwait 281 22,
        epoll_pwait2 441 441, eventfd 284 _, eventfd2 290 19, signalfd 282 _, signalfd4 289 74,
        timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87, inotify_init 253 _,
        inotify_init1 294 26, inotify_add_watch 254 27, inotify_rm_watch 255 28,
        io_setup 206 0, io_destroy 207 1, io_getevents 208 4, io_pgetevents 333 292, io_cancel 210 3,
    }
    Own {
        brk 12 214, mprotect 10 226, munmap 11 215, mremap 25 216, madvise 28 233, mlock 149 228, mlock2 325 284,
        mlockall 151 230, munlock 150 229, munlockall 152 231, remap_file_pages 216 234, shmdt 67 197,
        pkey_alloc 330 289, pkey_free 331 290, pkey_mprotect 329 288, mseal 462 462, map_shadow_stack 453 453,
        set_mempolicy 238 237, set_mempolicy_home_node 450 450, membarrier 324 283, rseq 334 293,
        futex 202 98, futex_wait 455 455, futex_waitv 449 449, futex_wake 454 454, futex_requeue 456 456,
        set_robust_list 273 99, set_tid_address 218 96,
        rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
        rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132, pause 34 _, restart_syscall 219 128,
        nanosleep 35 101, clock_nanosleep 230 115, sched_yield 24 124, alarm 37 _, setitimer 38 103,
        timer_create 222 107, timer_settime 223 110, timer_gettime 224 108, timer_getoverrun 225 109,
        timer_delete 226 111,
        umask 95 166, chdir 80 49, fchdir 81 50, setuid 105 146, setgid 106 144, setreuid 113 145,
        setregid 114 143, setresuid 117 147, setresgid 119 149, setfsuid 122 151, setfsgid 123 152,
        setgroups 116 159, capset 126 91, setrlimit 160 164, lsm_set_self_attr 460 460,
        arch_prctl 158 _, modify_ldt 154 _, uretprobe 335 _, uprobe 336 _,
    }
    Starts {
        wait4 61 260, waitid 247 95, exit 60 93, exit_group 231 94,
    }
    Flushes {
        fsync 74 82, fdatasync 75 83, sync 162 81, syncfs 306 267, sync_file_range 277 84, msync 26 227,
    }
    Absent {
        create_module 174 _, get_kernel_syms 177 _, query_module 178 _, getpmsg 181 _, putpmsg 182 _,
        afs_syscall 183 _, tuxcall 184 _, security 185 _, vserver 236 _,
        epoll_ctl_old 214 _, epoll_wait_old 215 _, set_thread_area 205 _, get_thread_area 211 _,
    }
}
