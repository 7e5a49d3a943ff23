use super::*;
use crate::calls::NATIVE;

/// What the kernel hands to a filter.
#[derive(Clone, Copy, Debug)]
struct Data {
    number: u32,
    architecture: u32,
    args: [u64; 6],
}

impl Data {
    /// The word at a byte offset of `struct seccomp_data`.
    fn word(&self, offset: u32) -> u32 {
        let instruction_pointer = 0x7fff_0123_4567u64;
        let high = |value: u64| u32::try_from(value >> 32).unwrap();
        let low = |value: u64| u32::try_from(value & 0xFFFF_FFFF).unwrap();
        match offset {
            0 => self.number,
            4 => self.architecture,
            8 => low(instruction_pointer),
            12 => high(instruction_pointer),
            16..64 if offset.is_multiple_of(4) => {
                let arg = self.args[usize::try_from((offset - 16) / 8).unwrap()];
                if offset.is_multiple_of(8) {
                    low(arg)
                } else {
                    high(arg)
                }
            }
            _ => panic!("a load at {offset}"),
        }
    }
}

/// Runs a program as `___bpf_prog_run` of the kernel does, as far as seccomp filters go.
fn run(program: &[SockFilter], data: &Data) -> u32 {
    let mut accumulator = 0u32;
    let mut at = 0;
    loop {
        let step = program[at];
        at += 1;
        let branch = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
        match step.code {
            0x20 => accumulator = data.word(step.k),
            0x54 => accumulator &= step.k,
            0x05 => at += usize::try_from(step.k).unwrap(),
            0x15 => at += branch(accumulator == step.k),
            0x25 => at += branch(accumulator > step.k),
            0x35 => at += branch(accumulator >= step.k),
            0x45 => at += branch(accumulator & step.k != 0),
            0x06 => return step.k,
            code => panic!("instruction {code:#x}"),
        }
    }
}

fn native(name: &str, args: [u64; 6]) -> Data {
    on(NATIVE, name, args)
}

fn on(arch: Arch, name: &str, args: [u64; 6]) -> Data {
    let call = CALLS.iter().find(|call| call.name == name);
    let number = call.unwrap_or_else(|| panic!("no row {name}")).number(arch);
    let number = number.unwrap_or_else(|| panic!("{name} is not on {}", arch.name()));
    Data {
        number,
        architecture: arch.audit(),
        args,
    }
}

/// Arguments from the first on, the rest 0.
fn args(given: &[u64]) -> [u64; 6] {
    let mut args = [0; 6];
    args[..given.len()].copy_from_slice(given);
    args
}

#[test]
fn programs_are_such_that_the_kernel_takes_them() {
    for &arch in Arch::ALL {
        let program = program(arch);
        assert!(program.len() < 4096, "{} instructions", program.len());
        for (at, step) in program.iter().enumerate() {
            let furthest = match step.code {
                0x20 => {
                    assert!(
                        step.k < 64 && step.k.is_multiple_of(4),
                        "a load at {}",
                        step.k
                    );
                    1
                }
                0x54 => 1,
                0x05 => 1 + usize::try_from(step.k).unwrap(),
                0x15 | 0x25 | 0x35 | 0x45 => 1 + usize::from(step.jt.max(step.jf)),
                0x06 => 0,
                code => panic!("instruction {code:#x}"),
            };
            assert!(
                at + furthest < program.len(),
                "a jump out of the program at {at}"
            );
        }
    }
}

#[test]
fn writing_opens_are_asked_about_and_reading_ones_are_not() {
    let asked = [
        libc::O_WRONLY,
        libc::O_RDWR,
        libc::O_WRONLY | libc::O_RDWR,
        libc::O_CREAT,
        libc::O_TRUNC,
        libc::O_RDONLY | libc::O_CREAT | libc::O_EXCL,
        libc::O_TMPFILE | libc::O_RDWR,
        0o20_000_000,
        libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC,
    ];
    let passed = [
        libc::O_RDONLY,
        libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_NOFOLLOW,
        libc::O_PATH,
        libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOATIME | libc::O_NOCTTY | libc::O_SYNC,
    ];
    let program = program(NATIVE);
    for (flags, action) in asked
        .map(|flags| (flags, ASK))
        .into_iter()
        .chain(passed.map(|flags| (flags, ALLOW)))
    {
        let flags = u64::try_from(flags).unwrap();
        let openat = native("openat", args(&[u64::MAX, 0x5000, flags, 0o644]));
        assert_eq!(run(&program, &openat), action, "openat {flags:#o}");
        #[cfg(target_arch = "x86_64")]
        {
            let open = native("open", args(&[0x5000, flags, 0o644]));
            assert_eq!(run(&program, &open), action, "open {flags:#o}");
        }
    }
}

#[test]
fn a_flag_in_the_high_word_of_an_int_neither_hides_nor_makes_a_write() {
    let program = program(NATIVE);
    let high = 0xFFFF_FFFF_0000_0000;
    assert_eq!(
        run(&program, &native("openat", args(&[3, 0x5000, high | 1]))),
        ASK
    );
    assert_eq!(
        run(&program, &native("openat", args(&[3, 0x5000, high]))),
        ALLOW
    );
    assert_eq!(run(&program, &native("kill", args(&[1, high | 15]))), ASK);
    assert_eq!(run(&program, &native("kill", args(&[1, high]))), ALLOW);
    // An ioctl that passes keeps passing, one that does not cannot be dressed as one that does.
    assert_eq!(
        run(&program, &native("ioctl", args(&[0, high | 0x5401]))),
        ALLOW
    );
    assert_eq!(
        run(&program, &native("ioctl", args(&[0, high | 0x4008_6602]))),
        ASK
    );
}

#[test]
fn a_pointer_counts_in_both_of_its_words() {
    let program = program(NATIVE);
    let sendto = |addr| {
        run(
            &program,
            &native("sendto", args(&[3, 0x5000, 1, 0, addr, 16])),
        )
    };
    assert_eq!(sendto(0), ALLOW);
    assert_eq!(sendto(0x5000), ASK);
    assert_eq!(sendto(0x7fff_0000_0000), ASK, "the low word is 0");
    assert_eq!(sendto(u64::MAX), ASK);

    let prlimit = |pid, new| run(&program, &native("prlimit64", args(&[pid, 7, new, 0x5000])));
    assert_eq!(prlimit(0, 0x5000), ALLOW);
    assert_eq!(prlimit(77, 0), ALLOW);
    assert_eq!(prlimit(77, 0x5000), ASK);
    assert_eq!(prlimit(77, 0x7fff_0000_0000), ASK);

    let ptrace = |request| run(&program, &native("ptrace", args(&[request, 77])));
    assert_eq!(ptrace(0), ALLOW, "PTRACE_TRACEME");
    assert_eq!(ptrace(16), ASK, "PTRACE_ATTACH");
    assert_eq!(ptrace(1 << 32), ASK, "a long is not cut");
}

/// Calls that must be asked about, and ones that must not be, by name and arguments.
#[test]
fn hand_written_cases_hold() {
    let program = program(NATIVE);
    let asked: &[(&str, &[u64])] = &[
        ("openat2", &[3]),
        ("open_by_handle_at", &[3]),
        ("truncate", &[]),
        ("unlinkat", &[]),
        ("renameat2", &[]),
        ("linkat", &[]),
        ("symlinkat", &[]),
        ("mkdirat", &[]),
        ("mknodat", &[]),
        ("fchmod", &[]),
        ("fchmodat", &[]),
        ("fchmodat2", &[]),
        ("fchown", &[]),
        ("fchownat", &[]),
        ("utimensat", &[]),
        ("setxattr", &[]),
        ("fsetxattr", &[]),
        ("setxattrat", &[]),
        ("removexattrat", &[]),
        ("file_setattr", &[]),
        ("ioctl", &[3, 0x4008_6602]),     // FS_IOC_SETFLAGS
        ("ioctl", &[3, 0x401C_5820]),     // FS_IOC_FSSETXATTR
        ("ioctl", &[3, 0x5000_9417]),     // BTRFS_IOC_SNAP_CREATE_V2
        ("ioctl", &[3, 0x2285]),          // SG_IO
        ("ioctl", &[0, 0x5412]),          // TIOCSTI
        ("ioctl", &[0, 0x541C]),          // TIOCLINUX
        ("ioctl", &[0, 0x5402]),          // TCSETS
        ("ioctl", &[3, 0x8914]),          // SIOCSIFFLAGS
        ("ioctl", &[3, 0x8902]),          // SIOCSPGRP
        ("ioctl", &[3, 0]),               // unknown
        ("ioctl", &[3, u64::MAX]),        // unknown
        ("fcntl", &[3, 8, 77]),           // F_SETOWN
        ("fcntl", &[3, 15, 0x5000]),      // F_SETOWN_EX
        ("socket", &[16, 3, 0]),          // AF_NETLINK
        ("socket", &[17, 3, 0x300]),      // AF_PACKET
        ("socket", &[40, 1, 0]),          // AF_VSOCK
        ("socket", &[2, 3, 255]),         // raw
        ("socket", &[2, 0o2_000_003, 1]), // raw, close-on-exec
        ("socket", &[2, 10, 0x300]),      // SOCK_PACKET
        ("socket", &[10, 1, 132]),        // SCTP
        ("setsockopt", &[3, 0, 35]),      // IP_ADD_MEMBERSHIP
        ("setsockopt", &[3, 41, 20]),     // IPV6_ADD_MEMBERSHIP
        ("connect", &[3]),
        ("bind", &[3]),
        ("sendmsg", &[3]),
        ("sendmmsg", &[3]),
        ("kill", &[77, 15]),
        ("kill", &[0xFFFF_FFFF, 9]),
        ("tkill", &[77, 15]),
        ("tgkill", &[77, 78, 15]),
        ("rt_sigqueueinfo", &[77, 15]),
        ("rt_tgsigqueueinfo", &[77, 78, 15]),
        ("pidfd_send_signal", &[3, 15]),
        ("pidfd_getfd", &[3, 0]),
        ("process_vm_writev", &[77]),
        ("process_madvise", &[3]),
        ("setpriority", &[0, 77, 5]),
        ("setpriority", &[2, 0, 5]), // PRIO_USER: every process of the user
        ("setpriority", &[1, 0, 5]),
        ("ioprio_set", &[1, 77, 0]),
        ("ioprio_set", &[3, 0, 0]),
        ("sched_setaffinity", &[77]),
        ("sched_setattr", &[77]),
        ("migrate_pages", &[77]),
        ("move_pages", &[77, 1, 0x5000, 0x7fff_0000_0000]),
        ("prctl", &[62, 2, 77]), // PR_SCHED_CORE_SHARE_TO
        ("shmget", &[5, 4096, 0o1600]),
        ("shmget", &[0, 4096, 0]), // IPC_PRIVATE
        ("semget", &[5, 1, 0o1600]),
        ("msgget", &[5, 0o1600]),
        ("shmctl", &[5, 0]),
        ("shmctl", &[5, 1]),
        ("semctl", &[5, 0, 0]),
        ("semctl", &[5, 0, 16]),
        ("msgctl", &[5, 0]),
        ("shmat", &[5, 0, 0]),
        ("shmat", &[5, 0, 0o20_000]),
        ("semop", &[5]),
        ("msgsnd", &[5]),
        ("msgrcv", &[5]),
        ("mq_open", &[0x5000, 0]),
        ("mq_unlink", &[0x5000]),
        ("mount", &[]),
        ("setns", &[]),
        ("chroot", &[]),
        ("open_tree", &[3, 0x5000, 1]),
        ("quotactl", &[0x8000_0800]), // Q_SETQUOTA of users
        ("quotactl_fd", &[3, 0x8000_0801]),
        ("syslog", &[5]),
        ("syslog", &[2]),
        ("request_key", &[0x5000, 0x5000, 0x5000, 0]),
        ("request_key", &[0x5000, 0x5000, 0, 0xFFFF_FFFD]),
        ("add_key", &[]),
        ("keyctl", &[5]),              // KEYCTL_SETPERM
        ("keyctl", &[0, 5, 1]),        // get a keyring, making it
        ("keyctl", &[10, 5, 0, 0, 7]), // search, linking
        ("adjtimex", &[0x5000]),
        ("execve", &[0x5000]),
        ("execveat", &[3, 0x5000, 0, 0, 0x1000]),
        ("mmap", &[0, 4096, 3, 1, 3]), // shared, of a file
        ("mmap", &[0, 4096, 1, 1, 3]), // may be made writable later
        ("mmap", &[0, 4096, 3, 3, 3]),
        ("mmap", &[0, 4096, 3, 0x8001, 3]),
        ("clock_adjtime", &[0, 0x5000]),
        ("bpf", &[]),
        ("io_uring_setup", &[]),
        ("io_uring_enter", &[]),
    ];
    let passed: &[(&str, &[u64])] = &[
        ("read", &[3]),
        ("write", &[1]),
        ("close", &[3]),
        ("clone", &[0x0400_0000]),
        ("clone3", &[0x5000]),
        ("wait4", &[]),
        ("exit_group", &[]),
        ("rt_sigreturn", &[]),
        ("restart_syscall", &[]),
        ("futex", &[]),
        ("mmap", &[0, 4096, 3, 2, 3]),           // private
        ("mmap", &[0, 4096, 3, 0x21, u64::MAX]), // shared, of no file
        ("mmap", &[0, 4096, 3, 0x22, u64::MAX]),
        ("newfstatat", &[]),
        ("statx", &[]),
        ("getdents64", &[]),
        ("unshare", &[0x1000_0000]),
        ("seccomp", &[]),
        ("memfd_create", &[]),
        ("io_submit", &[]),
        ("recvmsg", &[3]),
        ("ioctl", &[0, 0x5401]),
        ("ioctl", &[0, 0x5413]),
        ("ioctl", &[0, 0x541B]),
        ("ioctl", &[3, 0x5421]),
        ("ioctl", &[3, 0x8008_6601]),
        ("ioctl", &[3, 0xC020_660B]),
        ("ioctl", &[3, 0x8008_1272]),
        ("ioctl", &[3, 0x8010_8907]), // the last of its kind in the list
        ("ioctl", &[3, 0x8024_7009]), // the last of all
        ("fcntl", &[3, 1]),
        ("fcntl", &[3, 2, 1]),
        ("fcntl", &[3, 1030, 0]),
        ("socket", &[1, 1, 0]),
        ("socket", &[1, 5, 0]),
        ("socket", &[2, 1, 0]),
        ("socket", &[2, 0o2_004_002, 17]),
        ("socket", &[10, 1, 6]),
        ("socket", &[10, 2, 58]),
        ("setsockopt", &[3, 1, 2]),
        ("setsockopt", &[3, 6, 1]),
        ("setsockopt", &[3, 1, 35]), // the same number at another level
        ("kill", &[77, 0]),
        ("tgkill", &[77, 78, 0]),
        ("pidfd_send_signal", &[3, 0]),
        ("setpriority", &[0, 0, 5]),
        ("ioprio_set", &[1, 0, 0]),
        ("sched_setaffinity", &[0]),
        ("move_pages", &[77, 1, 0x5000, 0]),
        ("move_pages", &[0, 1, 0x5000, 0x5000]),
        ("prctl", &[62, 0, 77]),
        ("prctl", &[62, 1, 0]),
        ("prctl", &[15, 0x5000]),
        ("shmget", &[5, 0, 0o600]),
        ("shmctl", &[5, 2]),
        ("shmctl", &[5, 15]),
        ("semctl", &[5, 0, 12]),
        ("msgctl", &[5, 2]),
        ("shmat", &[5, 0, 0o10_000]),
        ("shmdt", &[0x5000]),
        ("open_tree", &[3, 0x5000, 0]),
        ("quotactl", &[0x8000_0700]),
        ("quotactl", &[0x8000_0701]),
        ("quotactl_fd", &[3, 0x8000_0702]),
        ("syslog", &[3]),
        ("syslog", &[10]),
        ("request_key", &[0x5000, 0x5000, 0, 0]),
        ("keyctl", &[11]),
        ("keyctl", &[0, 5, 0]),
        ("keyctl", &[10, 5, 0, 0, 0]),
    ];
    for (cases, action) in [(asked, ASK), (passed, ALLOW)] {
        for (name, given) in cases {
            let data = native(name, args(given));
            assert_eq!(run(&program, &data), action, "{name} {given:x?}");
        }
    }
}

#[test]
fn another_architecture_is_always_asked_about() {
    const I386: u32 = 0x4000_0003;
    const ARM: u32 = 0x4000_0028;
    for &arch in Arch::ALL {
        let program = program(arch);
        let others = Arch::ALL
            .iter()
            .filter(|&&other| other != arch)
            .map(|other| other.audit());
        for architecture in others.chain([I386, ARM, 0, u32::MAX]) {
            for number in (0..600).chain([0x4000_0000, u32::MAX]) {
                let data = Data {
                    number,
                    architecture,
                    args: [0; 6],
                };
                assert_eq!(run(&program, &data), ASK, "{architecture:#x} {number}");
            }
        }
    }
}

#[test]
fn numbers_without_a_row_are_asked_about() {
    for &arch in Arch::ALL {
        let program = program(arch);
        let data = |number| Data {
            number,
            architecture: arch.audit(),
            args: [0; 6],
        };
        let x32 = (0..600).map(|number| 0x4000_0000 + number);
        let unknown = (0..1000).filter(|&number| find_on(arch, number).is_none());
        let mut seen = 0;
        for number in x32
            .chain(unknown)
            .chain([LAST + 1, 0x3FFF_FFFF, 0x8000_0000, u32::MAX])
        {
            assert_eq!(
                run(&program, &data(number)),
                ASK,
                "{} {number:#x}",
                arch.name()
            );
            seen += 1;
        }
        assert!(seen > 1100);
        assert_eq!(run(&program, &data(LAST + 1)), ASK);
    }
}

/// What the table says of a call, worked out without the program.
fn expected(call: &Call, args: &[u64; 6]) -> u32 {
    let whole = |arg: u8| args[usize::from(arg)];
    let int = |arg: u8| u32::try_from(whole(arg) & 0xFFFF_FFFF).unwrap();
    let holds = |test: &Test| match *test {
        Test::AnyBit { arg, flags } => flags.iter().any(|flag| int(arg) & flag.bits != 0),
        Test::NonZero { arg } => int(arg) != 0,
        Test::NonNull { arg } => whole(arg) != 0,
        Test::In { arg, mask, values } => values.iter().any(|value| int(arg) & mask == value.bits),
        Test::NotIn { arg, mask, values } => {
            !values.iter().any(|value| int(arg) & mask == value.bits)
        }
    };
    let asks = match call.trap {
        Trap::Never => false,
        Trap::Always => true,
        Trap::When(groups) => groups.iter().any(|tests| tests.iter().all(holds)),
    };
    if asks { ASK } else { ALLOW }
}

/// Values near those that the table compares with, and random ones; the same in every run.
struct Values {
    state: u64,
    near: Vec<u64>,
}

impl Values {
    fn new(call: &Call) -> Values {
        let mut near = vec![
            0,
            1,
            2,
            3,
            62,
            77,
            0x5000,
            1 << 32,
            0x7fff_0000_0000,
            u64::MAX,
        ];
        if let Trap::When(groups) = call.trap {
            for test in groups.iter().copied().flatten() {
                if let Test::AnyBit { flags: values, .. }
                | Test::In { values, .. }
                | Test::NotIn { values, .. } = *test
                {
                    for value in values {
                        let bits = u64::from(value.bits);
                        near.extend([bits, bits + 1, bits ^ 0x100, bits | 0xABCD_0000_0000_0000]);
                    }
                }
            }
        }
        Values {
            state: 88_172_645_463_325_252,
            near,
        }
    }

    /// Xorshift.
    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn args(&mut self) -> [u64; 6] {
        std::array::from_fn(|_| {
            let (pick, other) = (self.random(), self.random());
            let index = usize::try_from(pick % (self.near.len() as u64 * 8 / 7)).unwrap();
            self.near.get(index).copied().unwrap_or(other)
        })
    }
}

#[test]
fn programs_decide_as_the_table_says_for_every_row() {
    for &arch in Arch::ALL {
        let program = program(arch);
        for call in CALLS {
            let Some(number) = call.number(arch) else {
                continue;
            };
            let mut values = Values::new(call);
            let (mut asked, mut passed) = (0, 0);
            for _ in 0..2000 {
                let args = values.args();
                let data = Data {
                    number,
                    architecture: arch.audit(),
                    args,
                };
                let action = run(&program, &data);
                assert_eq!(action, expected(call, &args), "{} {args:x?}", call.name);
                if action == ASK {
                    asked += 1
                } else {
                    passed += 1
                }
            }
            match call.trap {
                Trap::Never => assert_eq!(asked, 0, "{}", call.name),
                Trap::Always => assert_eq!(passed, 0, "{}", call.name),
                Trap::When(_) => {
                    assert!(
                        asked > 0 && passed > 0,
                        "{}: {asked} to {passed}",
                        call.name
                    );
                }
            }
        }
    }
}

/// Whether the program allows a number without looking at an argument, as `seccomp_is_const_allow` works
/// it out.
fn is_const_allow(program: &[SockFilter], number: u32, architecture: u32) -> bool {
    let mut accumulator = 0;
    let mut at = 0;
    loop {
        let step = program[at];
        at += 1;
        let branch = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
        match (step.code, step.k) {
            (0x20, 0) => accumulator = number,
            (0x20, 4) => accumulator = architecture,
            (0x20, _) => return false,
            (0x05, k) => at += usize::try_from(k).unwrap(),
            (0x15, k) => at += branch(accumulator == k),
            (0x35, k) => at += branch(accumulator >= k),
            (0x06, action) => return action == ALLOW,
            (code, _) => panic!("instruction {code:#x} before an argument was read"),
        }
    }
}

#[test]
fn the_kernel_can_pass_harmless_calls_without_running_the_filter() {
    for &arch in Arch::ALL {
        let program = program(arch);
        for call in CALLS {
            if let Some(number) = call.number(arch) {
                let constant = is_const_allow(&program, number, arch.audit());
                assert_eq!(constant, matches!(call.trap, Trap::Never), "{}", call.name);
            }
        }
    }
}

#[test]
fn the_most_frequent_calls_are_decided_first() {
    for &arch in Arch::ALL {
        let openat = on(arch, "openat", args(&[3, 0x5000, 0]));
        // Architecture, number, openat, its flags.
        assert_eq!(run(&program(arch)[..9], &openat), ALLOW);
    }
}

#[cfg(feature = "test-switches")]
#[test]
fn a_call_that_is_left_out_passes_and_the_others_do_not() {
    let without = program_without(NATIVE, &["fchmodat", "openat"]);
    assert_eq!(run(&without, &native("fchmodat", args(&[]))), ALLOW);
    assert_eq!(
        run(&without, &native("openat", args(&[3, 0x5000, 1]))),
        ALLOW
    );
    for other in ["fchmod", "unlinkat", "renameat2"] {
        assert_eq!(run(&without, &native(other, args(&[]))), ASK, "{other}");
    }
}

#[cfg(feature = "test-switches")]
#[test]
#[should_panic(expected = "no call is named chmodd")]
fn leaving_out_an_unknown_name_is_an_error() {
    let _ = program_without(NATIVE, &["chmodd"]);
}
