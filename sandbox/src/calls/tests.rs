use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::calls::values;

mod constants;
mod parameters;

use constants::{LIBC_CALLS, LIBC_IOCTLS, LIBC_VALUES};
use parameters::PARAMETERS;

/// Numbers that no call has: on x86_64 those before the common part, on aarch64 also those kept for
/// architectures of their own.
fn is_vacant(arch: Arch, nr: u32) -> bool {
    match arch {
        Arch::X86_64 => (337..=423).contains(&nr),
        Arch::Aarch64 => (244..=259).contains(&nr) || (295..=423).contains(&nr),
    }
}

#[test]
fn every_number_has_one_row() {
    for &arch in Arch::ALL {
        let numbers: Vec<u32> = CALLS.iter().filter_map(|call| call.number(arch)).collect();
        let distinct: BTreeSet<u32> = numbers.iter().copied().collect();
        assert_eq!(
            numbers.len(),
            distinct.len(),
            "{}: a number twice",
            arch.name()
        );
        for nr in 0..=LAST {
            assert_eq!(
                !distinct.contains(&nr),
                is_vacant(arch, nr),
                "{} {nr}",
                arch.name()
            );
        }
    }
    assert_eq!(LAST, 469, "the newest call of Linux 6.18");
}

#[test]
fn every_name_has_one_row() {
    let names: BTreeSet<&str> = CALLS.iter().map(|call| call.name).collect();
    assert_eq!(names.len(), CALLS.len());
}

#[test]
fn a_row_is_found_by_its_number_and_no_other() {
    for &arch in Arch::ALL {
        for call in CALLS {
            if let Some(nr) = call.number(arch) {
                assert_eq!(find_on(arch, nr).map(|found| found.name), Some(call.name));
            }
        }
        assert!(find_on(arch, 400).is_none());
        assert!(find_on(arch, LAST + 1).is_none());
        assert!(find_on(arch, 0x4000_0000).is_none());
        assert!(find_on(arch, u32::MAX).is_none());
    }
    let openat = u32::try_from(libc::SYS_openat).unwrap();
    assert_eq!(find(openat).map(|call| call.name), Some("openat"));
}

#[test]
fn libc_knows_no_call_or_number_that_the_table_lacks() {
    assert!(LIBC_CALLS.len() > 290, "the list of libc's calls is cut");
    for &(name, number) in LIBC_CALLS {
        let name = name.strip_prefix("SYS_").unwrap();
        let call = find(u32::try_from(number).unwrap());
        assert_eq!(call.map(|call| call.name), Some(name), "number {number}");
    }
}

#[test]
fn constants_are_those_of_libc() {
    assert!(
        LIBC_VALUES.len() >= 46 && LIBC_IOCTLS.len() >= 59,
        "the list of libc's constants is cut"
    );
    for (value, libc) in LIBC_VALUES {
        assert_eq!(u64::from(value.bits), *libc, "{}", value.name);
    }
    for (name, libc) in LIBC_IOCTLS {
        let ioctl = HARMLESS_IOCTLS
            .iter()
            .find(|ioctl| ioctl.value.name == *name)
            .unwrap();
        assert_eq!(u64::from(ioctl.value.bits), *libc, "{name}");
    }
}

/// `#define __NR_name number` lines of a kernel header.
fn header(paths: &[&str]) -> Option<BTreeMap<String, u32>> {
    let text = paths
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())?;
    let numbers = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("#define ")?.split_whitespace();
        let name = words
            .next()?
            .strip_prefix("__NR")?
            .trim_start_matches("3264")
            .strip_prefix('_')?;
        Some((name.to_owned(), words.next()?.parse().ok()?))
    });
    Some(numbers.collect())
}

/// Whether the headers must be there: a machine that builds for others has them.
fn skipped_without_header(name: &str) {
    assert!(std::env::var_os("CI").is_none(), "{name} is not installed");
    eprintln!("SKIPPED: {name} is not installed, libc's constants alone were compared");
}

#[test]
fn the_kernel_header_of_x86_64_agrees() {
    let paths = [
        "/usr/include/asm/unistd_64.h",
        "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    ];
    let Some(numbers) = header(&paths) else {
        return skipped_without_header(paths[0]);
    };
    assert!(numbers.len() > 300);
    for (name, nr) in numbers {
        assert_eq!(
            find_on(Arch::X86_64, nr).map(|call| call.name),
            Some(name.as_str()),
            "{nr}"
        );
    }
}

#[test]
fn the_kernel_header_for_all_architectures_agrees_on_aarch64() {
    let Some(mut numbers) = header(&["/usr/include/asm-generic/unistd.h"]) else {
        return skipped_without_header("asm-generic/unistd.h");
    };
    assert!(numbers.len() > 300);
    // Names of 32-bit architectures, a spelling for others, markers.
    numbers.retain(|name, nr| !((403..=423).contains(nr) && name.ends_with("64")));
    for other in [
        "rt_sigtimedwait_time64",
        "sync_file_range2",
        "arch_specific_syscall",
        "syscalls",
    ] {
        numbers.remove(other);
    }
    for (name, nr) in numbers {
        let name = if name == "fstatat" {
            "newfstatat".to_owned()
        } else {
            name
        };
        assert_eq!(
            find_on(Arch::Aarch64, nr).map(|call| call.name),
            Some(name.as_str()),
            "{nr}"
        );
    }
}

#[test]
fn every_row_says_why_and_only_harmless_ones_pass() {
    for call in CALLS {
        assert!(call.why.len() > 8, "{}", call.name);
        let harmless = matches!(call.decode, Decode::Harmless(_));
        assert_eq!(matches!(call.trap, Trap::Never), harmless, "{}", call.name);
    }
}

/// The names of the parameters of a trapped call, in order.
fn parameters(call: &Call) -> Vec<&'static str> {
    let (_, names) = PARAMETERS
        .iter()
        .find(|(name, _)| *name == call.name)
        .unwrap_or_else(|| panic!("{} has no parameters listed", call.name));
    names.split_whitespace().collect()
}

#[test]
fn decoders_read_the_arguments_that_the_kernel_declares() {
    let mut seen = 0;
    for call in CALLS {
        for (arg, allowed) in roles(&call.decode) {
            let names = parameters(call);
            let name = names.get(usize::from(arg)).copied().unwrap_or("nothing");
            assert!(
                allowed.contains(&name),
                "{} argument {arg} is {name}",
                call.name
            );
            seen += 1;
        }
    }
    assert!(seen > 130, "{seen} arguments");
}

/// Each argument that a decoder reads, and what the kernel may call it.
fn roles(decode: &Decode) -> Vec<(u8, &'static [&'static str])> {
    const PATH: &[&str] = &["filename", "pathname", "path", "newname"];
    const FD: &[&str] = &["fd"];
    const PID: &[&str] = &["pid", "tgid"];
    let dir = |dir: Dir, name: &'static [&'static str]| match dir {
        Dir::Cwd => None,
        Dir::Arg(arg) => Some((arg, name)),
    };
    let mut roles: Vec<(u8, &'static [&'static str])> = Vec::new();
    match *decode {
        Decode::Open {
            dir: from,
            path,
            flags,
        } => {
            roles.extend(dir(from, &["dfd"]));
            roles.push((path, PATH));
            if let OpenFlags::Arg(arg) = flags {
                roles.push((arg, &["flags"]));
            }
        }
        Decode::Path {
            dir: from,
            path,
            last,
            ..
        } => {
            roles.extend(dir(from, &["dfd", "newdfd"]));
            roles.push((path, PATH));
            match last {
                Last::AtFlags(arg) | Last::AtFlagsOrFd(arg) => {
                    roles.push((arg, &["flag", "flags", "at_flags"]));
                }
                Last::Follow | Last::NoFollow | Last::Create | Last::FollowOrFd => {}
            }
        }
        Decode::TwoPaths {
            from_dir,
            from,
            to_dir,
            to,
            flags,
            ..
        } => {
            roles.extend(dir(from_dir, &["olddfd"]));
            roles.push((from, &["oldname"]));
            roles.extend(dir(to_dir, &["newdfd"]));
            roles.push((to, &["newname"]));
            roles.extend(flags.map(|arg| (arg, &["flags"] as &[&str])));
        }
        Decode::OpenHow { dir, path, how } => {
            roles.extend([(dir, &["dfd"] as &[&str]), (path, PATH), (how, &["how"])]);
        }
        Decode::Mapping { fd } => roles.push((fd, FD)),
        Decode::Execute {
            dir: from,
            path,
            flags,
        } => {
            roles.extend(dir(from, &["fd"]));
            roles.push((path, PATH));
            roles.extend(flags.map(|arg| (arg, &["flags"] as &[&str])));
        }
        Decode::Fd { fd, .. } => roles.push((fd, FD)),
        Decode::Address { fd, addr, len, .. } => {
            roles.push((fd, FD));
            roles.push((addr, &["addr", "uservaddr", "umyaddr"]));
            roles.push((len, &["addrlen", "addr_len"]));
        }
        Decode::Message { fd, msg } => roles.extend([(fd, FD), (msg, &["msg"])]),
        Decode::Messages { fd, vec, count } => {
            roles.extend([(fd, FD), (vec, &["mmsg"]), (count, &["vlen"])]);
        }
        Decode::Socket {
            family,
            kind,
            protocol,
        } => {
            roles.extend([
                (family, &["family"] as &[&str]),
                (kind, &["type"]),
                (protocol, &["protocol"]),
            ]);
        }
        Decode::Process { pid, of, .. } => match of {
            ProcessArg::PidOrGroup | ProcessArg::Pid => roles.push((pid, PID)),
            ProcessArg::Tid => roles.push((pid, &["pid", "arg3"])),
            ProcessArg::PidFd => roles.push((pid, &["pidfd"])),
            ProcessArg::Priority { which } | ProcessArg::IoPriority { which } => {
                roles.extend([(which, &["which"] as &[&str]), (pid, &["who"])]);
            }
            ProcessArg::Owner { command } => {
                roles.extend([(command, &["cmd"] as &[&str]), (pid, &["arg"])]);
            }
        },
        Decode::Ipc { of, .. } => match of {
            IpcArg::Key { key, flags, .. } => {
                roles.extend([
                    (key, &["key"] as &[&str]),
                    (flags, &["shmflg", "semflg", "msgflg"]),
                ]);
            }
            IpcArg::Id { id, .. } => roles.push((id, &["shmid", "semid", "msqid"])),
            IpcArg::Control { id, command, .. } => {
                roles.extend([
                    (id, &["shmid", "semid", "msqid"] as &[&str]),
                    (command, &["cmd"]),
                ]);
            }
            IpcArg::Name { name, flags } => {
                roles.push((name, &["u_name"]));
                roles.extend(flags.map(|arg| (arg, &["oflag"] as &[&str])));
            }
        },
        Decode::RefuseUnlessZero { at, .. } => roles.push((at, &["txc_p", "utx"])),
        Decode::Refuse { .. } | Decode::NoSuchCall | Decode::Harmless(_) => {}
    }
    roles
}

#[test]
fn a_call_with_at_flags_is_read_with_them() {
    let mut seen = 0;
    for call in CALLS {
        let Decode::Path { last, .. } = call.decode else {
            continue;
        };
        // The flags of unlinkat do not say how the path is resolved.
        let flags = ["flag", "flags", "at_flags"];
        let declared = call.name != "unlinkat"
            && parameters(call).contains(&"dfd")
            && parameters(call).iter().any(|name| flags.contains(name));
        let read = matches!(last, Last::AtFlags(_) | Last::AtFlagsOrFd(_));
        assert_eq!(declared, read, "{}", call.name);
        seen += usize::from(read);
    }
    assert_eq!(
        seen, 6,
        "fchmodat2, fchownat, utimensat, setxattrat, removexattrat, file_setattr"
    );
}

#[test]
fn calls_that_do_not_follow_links_say_so() {
    let last = |name: &str| {
        let call = CALLS.iter().find(|call| call.name == name).unwrap();
        match call.decode {
            Decode::Path { last, .. } => last,
            _ => panic!("{name} is not read as a path"),
        }
    };
    for name in [
        "lchown",
        "lsetxattr",
        "lremovexattr",
        "unlink",
        "rmdir",
        "unlinkat",
    ] {
        assert_eq!(last(name), Last::NoFollow, "{name}");
    }
    for name in [
        "mkdir",
        "mkdirat",
        "mknod",
        "mknodat",
        "symlink",
        "symlinkat",
    ] {
        assert_eq!(last(name), Last::Create, "{name}");
    }
    for name in [
        "truncate", "chmod", "fchmodat", "chown", "setxattr", "utime", "utimes",
    ] {
        assert_eq!(last(name), Last::Follow, "{name}");
    }
    assert_eq!(last("utimensat"), Last::AtFlagsOrFd(3));
    assert_eq!(last("futimesat"), Last::FollowOrFd);
}

#[test]
fn effects_are_those_of_the_calls() {
    let effect = |name: &str| {
        let call = CALLS.iter().find(|call| call.name == name).unwrap();
        match call.decode {
            Decode::Path { effect, .. } | Decode::Fd { effect, .. } => Some(effect),
            Decode::TwoPaths { effect, .. } | Decode::Address { effect, .. } => Some(effect),
            Decode::Process { effect, .. } | Decode::Refuse { effect } => Some(effect),
            _ => None,
        }
    };
    for (name, expected) in [
        ("truncate", Effect::Truncate),
        ("mkdirat", Effect::Create),
        ("unlinkat", Effect::Remove),
        ("renameat2", Effect::Rename),
        ("linkat", Effect::Link),
        ("fchmod", Effect::Mode),
        ("fchmodat2", Effect::Mode),
        ("lchown", Effect::Owner),
        ("utimensat", Effect::Times),
        ("fremovexattr", Effect::Xattr),
        ("file_setattr", Effect::Flags),
        ("ioctl", Effect::Flags),
        ("connect", Effect::Connect),
        ("bind", Effect::Bind),
        ("sendto", Effect::Send),
        ("tgkill", Effect::Signal),
        ("prlimit64", Effect::Limit),
        ("umount2", Effect::Mount),
    ] {
        assert_eq!(effect(name), Some(expected), "{name}");
    }
}

#[test]
fn the_page_in_the_docs_is_the_one_made_from_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/calls.md");
    let page = calls_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let held = std::fs::read_to_string(path).unwrap();
    assert!(
        held == page,
        "docs/calls.md is stale: run this test with UPDATE_DOCS=1"
    );
    for call in CALLS {
        assert!(page.contains(&format!("`{}`", call.name)), "{}", call.name);
    }
}
