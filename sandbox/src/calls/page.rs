//! The docs page, made from the table.

use std::fmt::Write as _;

use super::ioctls::IOCTLS;
use super::{
    Arch, CALLS, Call, Decode, Dir, HARMLESS_IOCTLS, Harmless, IpcArg, Last, OpenFlags, ProcessArg,
    Test, Trap, Value,
};

const INTRODUCTION: &str = "\
# System calls

This page is made from the table that the filter and the decoder use; a test holds it equal.

The filter decides on registers alone. What it does not let pass goes to the supervisor, which reads
the arguments as the table says. Arguments count from 0. A number without a row, a call of another
architecture (32-bit x86 among them) and an x32 call always go to the supervisor, are answered ENOSYS
and recorded as undecodable.

What a call leaves in memory can be changed by another thread after it was read. So a path or an
address in a record tells what was asked for; that nothing was changed is decided by the layers below.

Not seen here: what is written through a netlink socket without an address (inside the subject's own
network, without capabilities), advisory locks, and reading from a FIFO or device that was opened
read-only.
";

/// The page `docs/calls.md`: every row, in the order of the table.
pub fn calls_page() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## Calls that go to the supervisor\n\n");
    page.push_str(
        "| call | x86_64 | aarch64 | when | read as | why |\n|---|---|---|---|---|---|\n",
    );
    for call in CALLS {
        let when = match call.trap {
            Trap::Never => continue,
            Trap::Always => "always".to_owned(),
            Trap::When(groups) => groups
                .iter()
                .map(|tests| tests.iter().map(test).collect::<Vec<_>>().join(" and "))
                .collect::<Vec<_>>()
                .join("; or "),
        };
        let (read, why) = (decode(&call.decode), call.why);
        row(&mut page, &[&numbers(call), &when, &read, why]);
    }

    page.push_str("\n## Calls that pass\n");
    for &class in Harmless::ALL {
        let _ = write!(
            page,
            "\n### {}\n\nOf each of these: {}.\n\n",
            class,
            class.about()
        );
        let (plain, own): (Vec<&Call>, Vec<&Call>) = CALLS
            .iter()
            .filter(|call| call.decode == Decode::Harmless(class))
            .partition(|call| call.why == class.about());
        let names: Vec<String> = plain
            .iter()
            .map(|call| format!("`{}`", call.name))
            .collect();
        if !names.is_empty() {
            let _ = writeln!(page, "{}", names.join(", "));
        }
        if !own.is_empty() {
            page.push_str("\n| call | x86_64 | aarch64 | why |\n|---|---|---|---|\n");
            for call in own {
                row(&mut page, &[&numbers(call), call.why]);
            }
        }
    }

    page.push_str("\n## ioctl requests that pass\n\n| request | number | why |\n|---|---|---|\n");
    for ioctl in HARMLESS_IOCTLS {
        let number = format!("{:#x}", ioctl.value.bits);
        row(
            &mut page,
            &[&format!("`{}`", ioctl.value.name), &number, ioctl.why],
        );
    }
    page
}

fn row(page: &mut String, cells: &[&str]) {
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn numbers(call: &Call) -> String {
    let number = |arch| {
        call.number(arch)
            .map_or("-".to_owned(), |nr: u32| nr.to_string())
    };
    let (x86_64, aarch64) = (number(Arch::X86_64), number(Arch::Aarch64));
    format!("`{}` | {x86_64} | {aarch64}", call.name)
}

fn test(test: &Test) -> String {
    match *test {
        Test::AnyBit { arg, flags } => format!("argument {arg} has {}", names(flags, " or ")),
        Test::NonZero { arg } => format!("argument {arg} is not 0"),
        Test::NonNull { arg } => format!("argument {arg} is not 0 in its 64 bits"),
        Test::In { arg, mask, values } => {
            format!("{} is {}", masked(arg, mask), names(values, " or "))
        }
        Test::NotIn { values, arg, .. } if values == IOCTLS => {
            format!("argument {arg} is none of the requests below")
        }
        Test::NotIn { arg, mask, values } => {
            let none = if values.len() == 1 { "not" } else { "none of" };
            format!("{} is {none} {}", masked(arg, mask), names(values, ", "))
        }
    }
}

fn masked(arg: u8, mask: u32) -> String {
    match mask {
        u32::MAX => format!("argument {arg}"),
        _ => format!("argument {arg} & {mask:#x}"),
    }
}

fn names(values: &[Value], between: &str) -> String {
    let names: Vec<String> = values
        .iter()
        .map(|value| format!("`{}`", value.name))
        .collect();
    names.join(between)
}

fn decode(decode: &Decode) -> String {
    match *decode {
        Decode::Open {
            dir: from,
            path,
            flags,
        } => {
            let flags = match flags {
                OpenFlags::Arg(arg) => format!("flags {arg}"),
                OpenFlags::Fixed(bits) => format!("flags always {bits:#o}"),
            };
            format!("open: path {path}{}, {flags}", dir(from))
        }
        Decode::OpenHow { dir, path, how } => {
            format!("open: path {path} from folder {dir}, flags behind {how}; answered ENOSYS")
        }
        Decode::Mapping { fd } => format!("write-open: descriptor {fd}, where it is writable"),
        Decode::Execute {
            dir: from, path, ..
        } => {
            format!(
                "kernel: path {path}{}, where it would run with other rights",
                dir(from)
            )
        }
        Decode::Path {
            effect,
            dir: from,
            path,
            last,
        } => {
            let last = match last {
                Last::Follow => "followed".to_owned(),
                Last::NoFollow => "not followed".to_owned(),
                Last::Create => "a new name".to_owned(),
                Last::AtFlags(arg) => format!("flags {arg} say whether it is followed"),
                Last::FollowOrFd => "followed; NULL is the descriptor".to_owned(),
                Last::AtFlagsOrFd(arg) => {
                    format!("flags {arg} say whether it is followed; NULL is the descriptor")
                }
            };
            format!("{effect}: path {path}{}, {last}", dir(from))
        }
        Decode::Fd { effect, fd } => format!("{effect}: descriptor {fd}"),
        Decode::TwoPaths {
            effect,
            from_dir,
            from,
            to_dir,
            to,
            flags,
        } => {
            let flags = flags.map_or(String::new(), |arg| format!(", flags {arg}"));
            format!(
                "{effect}: path {from}{}, to path {to}{}{flags}",
                dir(from_dir),
                dir(to_dir)
            )
        }
        Decode::Address {
            effect,
            fd,
            addr,
            len,
        } => {
            format!("{effect}: socket {fd}, address {addr}, length {len}")
        }
        Decode::Message { fd, msg } => format!("send: socket {fd}, message {msg}"),
        Decode::Messages { fd, vec, count } => {
            format!("send: socket {fd}, messages {vec}, count {count}")
        }
        Decode::Socket {
            family,
            kind,
            protocol,
        } => {
            format!("socket: family {family}, type {kind}, protocol {protocol}")
        }
        Decode::Process { effect, pid, of } => {
            let of = match of {
                ProcessArg::PidOrGroup => "process or group".to_owned(),
                ProcessArg::Pid => "process".to_owned(),
                ProcessArg::Tid => "thread".to_owned(),
                ProcessArg::PidFd => "process descriptor".to_owned(),
                ProcessArg::Priority { which } | ProcessArg::IoPriority { which } => {
                    format!("of the kind in argument {which}:")
                }
                ProcessArg::Owner { command } => format!("of the kind in argument {command}:"),
            };
            format!("{effect}: {of} {pid}")
        }
        Decode::Ipc { effect, of } => {
            let of = match of {
                IpcArg::Key { key, flags, .. } => format!("key {key}, flags {flags}"),
                IpcArg::Id { id, .. } => format!("identifier {id}"),
                IpcArg::Control { id, command, .. } => {
                    format!("identifier {id}, command {command}")
                }
                IpcArg::Name {
                    name,
                    flags: Some(flags),
                } => format!("name {name}, flags {flags}"),
                IpcArg::Name { name, flags: None } => format!("name {name}"),
            };
            format!("{effect}: {of}")
        }
        Decode::Refuse { effect } => format!("{effect}: refused"),
        Decode::RefuseUnlessZero { effect, at } => {
            format!("{effect}: refused, unless the first word at {at} is 0")
        }
        Decode::NoSuchCall => "answered ENOSYS".to_owned(),
        Decode::Harmless(_) => "not read".to_owned(),
    }
}

fn dir(dir: Dir) -> String {
    match dir {
        Dir::Cwd => String::new(),
        Dir::Arg(arg) => format!(" from folder {arg}"),
    }
}
