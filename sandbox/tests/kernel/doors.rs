//! Ways around the observer: other doors into the kernel, memory that hides, filters on filters.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use calibrun_sandbox::{Effect, Gap, Mark, Outcome, Pass, Place, Run, Termination};
use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, unshare};

use crate::host::cases;
use crate::raw::{self, Arg, call};
use crate::stage::{Asked, Stage};
use crate::subject::say;

cases! {
    Nothing =>
        doors_that_cannot_be_observed_do_not_exist_and_are_a_gap
        changes_to_mounts_and_kernel_are_refused_and_seen
        a_nested_filter_hides_nothing
        a_pointer_that_cannot_be_read_is_refused_and_a_gap
        a_pointer_that_the_kernel_cannot_read_either_is_its_own_error
        memory_that_is_hidden_from_the_runner_changes_nothing
        a_child_that_nobody_may_trace_is_seen
        identity_maps_and_own_memory_are_no_affair_of_the_arms_own
        input_pushed_into_a_terminal_is_seen
        a_32_bit_call_changes_nothing;
}

const BOTH: [Pass; 2] = [Pass::Denied, Pass::Contained];

/// A subject: knocks at every door that leads past the filter, and at those that change the host.
pub(crate) fn try_doors(top: &Path) -> io::Result<()> {
    let path = CString::new(top.join("file").as_os_str().as_bytes()).expect("no NUL");
    let n = |value: i64| Arg::N(value);
    let mut parameters = [0u8; 120];
    say(
        "io-uring",
        call(
            libc::SYS_io_uring_setup,
            &mut [n(4), Arg::W(&mut parameters)],
        ),
    );
    // struct open_how: flags, mode, resolve.
    let how: Vec<u8> = [libc::O_RDWR as u64, 0, 0]
        .iter()
        .flat_map(|v| v.to_ne_bytes())
        .collect();
    say(
        "openat2",
        call(
            libc::SYS_openat2,
            &mut [n(libc::AT_FDCWD.into()), Arg::S(&path), Arg::R(&how), n(24)],
        ),
    );
    say("userfaultfd", call(libc::SYS_userfaultfd, &mut [n(1)]));
    say("bpf", call(libc::SYS_bpf, &mut [n(0), n(0), n(0)]));
    say(
        "perf",
        call(
            libc::SYS_perf_event_open,
            &mut [n(0), n(0), n(-1), n(-1), n(0)],
        ),
    );
    say("fanotify", call(libc::SYS_fanotify_init, &mut [n(0), n(0)]));
    // A number that no kernel has, and one of the x32 interface: bit 30 and the number of chmod.
    say("unknown", call(5000, &mut [Arg::S(&path), n(0o600)]));
    say(
        "x32",
        call(0x4000_0000 + 90, &mut [Arg::S(&path), n(0o600)]),
    );
    Ok(())
}

fn doors_that_cannot_be_observed_do_not_exist_and_are_a_gap() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let run = stage.subject("doors", &["w".as_ref()]);
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        assert_eq!(run.out().lines().count(), 8);
        for line in run.out().lines() {
            assert!(line.contains("ENOSYS"), "{line}");
        }
        assert!(run.gaps.contains(&Gap::UndecodableEvent));
        assert_eq!(run.attempts.len(), 8, "{}", run.list());
        for attempt in &run.attempts {
            // What openat2 would have done can be read; the call is answered all the same.
            let known = attempt.call == "openat2";
            let outcome = if known {
                Outcome::Denied
            } else {
                Outcome::Unknown
            };
            assert_eq!(attempt.outcome, outcome, "{}", run.list());
            assert_eq!(attempt.marks.contains(&Mark::Undecodable), !known);
        }
        // A subject that knocks at none of them leaves no gap.
        let run = stage.sh("cat w/file");
        assert!(!run.gaps.contains(&Gap::UndecodableEvent));
    }
}

fn changes_to_mounts_and_kernel_are_refused_and_seen() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        // Also as root of a user namespace of its own, where the kernel would let it mount.
        let script = r#"mount -t tmpfs none w; umount /; chroot / true
            hostname calibrun-test; date -s @1 ; unshare -Ur true
            unshare -U sh -c 'mount --bind w /etc'; unshare -Urm mount -t tmpfs none w"#;
        let run = stage.sh(script);
        let mounts = run.attempts.iter().filter(|a| a.effect == Effect::Mount);
        assert!(mounts.clone().count() >= 2, "{}", run.list());
        for attempt in &run.attempts {
            // Clearing what does not exist aside, all of it is refused.
            assert_ne!(
                (attempt.place, attempt.outcome),
                (Place::Outside, Outcome::Allowed)
            );
        }
        assert!(
            run.attempts
                .iter()
                .any(|a| a.effect == Effect::Kernel && a.outcome == Outcome::Denied),
            "{}",
            run.list()
        );
        assert_ne!(
            nix::unistd::gethostname().expect("a host name"),
            "calibrun-test"
        );
    }
}

/// A subject: asks for a second listener, then hides mkdir behind a filter that says "done".
pub(crate) fn stack_filters(top: &Path) -> io::Result<()> {
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    say(
        "listener",
        raw::install_filter(libc::SYS_mkdirat, libc::SECCOMP_RET_USER_NOTIF, listener),
    );
    say(
        "faking",
        raw::install_filter(libc::SYS_mkdirat, libc::SECCOMP_RET_ERRNO, 0),
    );
    let path = CString::new(top.join("faked").as_os_str().as_bytes()).expect("no NUL");
    say(
        "faked",
        call(
            libc::SYS_mkdirat,
            &mut [Arg::N(libc::AT_FDCWD.into()), Arg::S(&path), Arg::N(0o755)],
        ),
    );
    say(
        "allowing",
        raw::install_filter(libc::SYS_fchmodat, libc::SECCOMP_RET_ALLOW, 0),
    );
    say(
        "mode",
        fs::set_permissions(top.join("file"), fs::Permissions::from_mode(0o600)),
    );
    Ok(())
}

fn a_nested_filter_hides_nothing() {
    let stage = Stage::new(Pass::Denied);
    let run = stage.subject("filters", &["w".as_ref()]);
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    assert!(run.said("listener").starts_with("EBUSY"), "{}", run.out());
    assert_eq!(run.said("faking"), "done");
    assert_eq!(run.said("faked"), "done");
    assert!(!stage.in_clone("w/faked").exists());
    assert!(run.on("w/faked").is_empty(), "it has not been tried either");
    // A filter that allows is outranked by the one that asks.
    assert_eq!(run.said("allowing"), "done");
    assert!(run.said("mode").starts_with("EROFS"));
    run.expect(Effect::Mode, Place::Worktree, Outcome::Denied, "w/file");
}

/// A subject: names and addresses at places where nothing can be read.
pub(crate) fn pass_bad_pointers() -> io::Result<()> {
    let n = |value: i64| Arg::N(value);
    let cwd = || n(libc::AT_FDCWD.into());
    let mkdir = |address: i64| call(libc::SYS_mkdirat, &mut [cwd(), n(address), n(0o755)]);
    say("null", mkdir(0));
    say("low", mkdir(100));
    say("closed", mkdir(raw::closed_page()));
    say("kernel", mkdir(i64::MIN));
    say(
        "rename",
        call(
            libc::SYS_renameat2,
            &mut [cwd(), Arg::S(c"w/file"), cwd(), n(raw::closed_page()), n(0)],
        ),
    );
    let socket = call(
        libc::SYS_socket,
        &mut [n(libc::AF_INET.into()), n(libc::SOCK_DGRAM.into()), n(0)],
    )?;
    say(
        "connect",
        call(
            libc::SYS_connect,
            &mut [n(socket), n(raw::closed_page()), n(16)],
        ),
    );
    say(
        "sendmsg",
        call(
            libc::SYS_sendmsg,
            &mut [n(socket), n(raw::closed_page()), n(0)],
        ),
    );
    Ok(())
}

fn a_pointer_that_cannot_be_read_is_refused_and_a_gap() {
    for pass in BOTH {
        let run = Stage::new(pass).subject("pointers", &[]);
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        assert!(run.gaps.contains(&Gap::UndecodableEvent), "{}", run.list());
        for word in ["closed", "kernel", "rename", "connect", "sendmsg"] {
            assert_ne!(run.said(word), "done", "{word}");
        }
        for effect in [
            Effect::Create,
            Effect::Rename,
            Effect::Connect,
            Effect::Send,
        ] {
            let found = run.attempts.iter().find(|a| a.effect == effect);
            let found = found.unwrap_or_else(|| panic!("{effect}: {}", run.list()));
            assert_eq!(found.outcome, Outcome::Unknown);
            assert!(found.marks.contains(&Mark::Undecodable));
        }
    }
}

fn a_pointer_that_the_kernel_cannot_read_either_is_its_own_error() {
    let run = Stage::new(Pass::Denied).subject("pointers", &[]);
    assert!(run.said("null").starts_with("EFAULT"));
    assert!(run.said("low").starts_with("EFAULT"));
    // Two of the pages, and nothing for these two.
    assert_eq!(run.count(Effect::Create), 2, "{}", run.list());
}

/// A subject: makes its memory unreadable to others, then acts.
pub(crate) fn hide_memory(top: &Path) -> io::Result<()> {
    nix::sys::prctl::set_dumpable(false)?;
    say("made", fs::create_dir(top.join("made")));
    say(
        "mode",
        fs::set_permissions(top.join("file"), fs::Permissions::from_mode(0o600)),
    );
    Ok(())
}

fn memory_that_is_hidden_from_the_runner_changes_nothing() {
    let stage = Stage::new(Pass::Denied);
    let run = stage.subject("undumpable", &["w".as_ref()]);
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    for (word, effect) in [("made", Effect::Create), ("mode", Effect::Mode)] {
        assert_ne!(run.said(word), "done");
        let found = run.attempts.iter().find(|a| a.effect == effect);
        let found = found.unwrap_or_else(|| panic!("{}", run.list()));
        // The superuser may look all the same; others cannot, and say so.
        let told = found.outcome == Outcome::Denied && found.place == Place::Worktree
            || found.outcome == Outcome::Unknown && run.gaps.contains(&Gap::UndecodableEvent);
        assert!(told, "{}", run.list());
    }
}

/// A subject: a child that no tracer would inherit writes.
pub(crate) fn write_from_an_untraced_child(path: &Path) -> io::Result<()> {
    if raw::fork_with(libc::CLONE_UNTRACED) == 0 {
        say("child", fs::write(path, "untraced\n"));
        std::process::exit(0);
    }
    nix::sys::wait::wait()?;
    Ok(())
}

fn a_child_that_nobody_may_trace_is_seen() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let run = stage.subject("untraced", &["w/file".as_ref()]);
        let outcome = if pass == Pass::Denied {
            Outcome::Denied
        } else {
            Outcome::Allowed
        };
        run.expect(Effect::Truncate, Place::Worktree, outcome, "w/file");
        assert_eq!(run.said("child") == "done", pass == Pass::Contained);
    }
}

/// A subject: makes itself root of a user namespace, if it can.
pub(crate) fn write_identity_maps() -> io::Result<()> {
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    say(
        "unshare",
        unshare(CloneFlags::CLONE_NEWUSER).map_err(io::Error::from),
    );
    say("setgroups", fs::write("/proc/self/setgroups", "deny"));
    say("uid", fs::write("/proc/self/uid_map", format!("0 {uid} 1")));
    say("gid", fs::write("/proc/self/gid_map", format!("0 {gid} 1")));
    Ok(())
}

/// A subject: writes its own memory through the file that stands for it.
pub(crate) fn write_own_memory() -> io::Result<()> {
    let value = Box::new([7u8; 8]);
    let at = value.as_ptr() as u64;
    let opened = OpenOptions::new().write(true).open("/proc/self/mem");
    match opened {
        Ok(mut file) => {
            file.seek(SeekFrom::Start(at))?;
            say("memory", file.write_all(&[8]));
        }
        Err(e) => say::<()>("memory", Err(e)),
    }
    // Reading it is no attempt.
    let mut byte = [0u8];
    say(
        "reading",
        File::open("/proc/self/mem").and_then(|f| f.read_exact_at(&mut byte, at)),
    );
    Ok(())
}

fn identity_maps_and_own_memory_are_no_affair_of_the_arms_own() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let run = stage.subject("identity-maps", &[]);
        for word in ["setgroups", "uid", "gid"] {
            assert_ne!(run.said(word), "done", "{}", run.list());
        }
        assert_eq!(run.attempts.len(), 3, "{}", run.list());
        let run2 = stage.subject("own-memory", &[]);
        assert_ne!(run2.said("memory"), "done");
        assert_eq!(run2.said("reading"), "done");
        assert_eq!(run2.attempts.len(), 1, "{}", run2.list());
        for attempt in run.attempts.iter().chain(&run2.attempts) {
            assert_eq!(
                (attempt.place, attempt.outcome),
                (Place::Outside, Outcome::Denied)
            );
        }
    }
}

/// A subject: pushes a character into a terminal that it makes, and into `other`.
pub(crate) fn push_into_terminals(other: Option<&Path>) -> io::Result<()> {
    let push = |file: &File| {
        call(
            libc::SYS_ioctl,
            &mut [
                Arg::N(file.as_raw_fd().into()),
                Arg::N(libc::TIOCSTI as i64),
                Arg::R(b"x"),
            ],
        )
    };
    if let Some(path) = other {
        say("write", OpenOptions::new().write(true).open(path));
        let noctty = OFlag::O_NOCTTY | OFlag::O_RDONLY;
        let file = nix::fcntl::open(path, noctty, nix::sys::stat::Mode::empty())?;
        say("other", push(&File::from(file)));
        return Ok(());
    }
    let own = OpenOptions::new().read(true).write(true).open("/dev/ptmx");
    match own {
        Ok(file) => say("own", push(&file)),
        Err(e) => say::<()>("own", Err(e)),
    }
    Ok(())
}

/// A terminal of this process's: its first end, and the path of its second.
fn terminal() -> (File, PathBuf) {
    let first = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/ptmx")
        .expect("open a terminal");
    let fd = || Arg::N(first.as_raw_fd().into());
    let mut number = [0u8; 4];
    let unlock = [0u8; 4];
    call(
        libc::SYS_ioctl,
        &mut [fd(), Arg::N(libc::TIOCSPTLCK as i64), Arg::R(&unlock)],
    )
    .expect("unlock it");
    call(
        libc::SYS_ioctl,
        &mut [fd(), Arg::N(libc::TIOCGPTN as i64), Arg::W(&mut number)],
    )
    .expect("its number");
    let path = format!("/dev/pts/{}", u32::from_ne_bytes(number));
    (first, path.into())
}

fn input_pushed_into_a_terminal_is_seen() {
    let (_first, second) = terminal();
    for pass in BOTH {
        let stage = Stage::new(pass);
        let run = stage.subject("terminals", &[second.as_ref()]);
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        assert_ne!(run.said("other"), "done");
        assert_ne!(run.said("write"), "done");
        run.expect(
            Effect::WriteOpen,
            Place::Delegated,
            Outcome::Denied,
            &second.to_string_lossy(),
        );
        let pushed = run.attempts.iter().find(|a| a.effect == Effect::Flags);
        let pushed = pushed.unwrap_or_else(|| panic!("{}", run.list()));
        assert_eq!(
            (pushed.place, pushed.outcome),
            (Place::Delegated, Outcome::Denied)
        );
        let run = stage.subject("terminals", &[]);
        assert!(
            run.attempts.iter().all(|a| a.place == Place::DeviceSink),
            "{}",
            run.list()
        );
    }
}

/// A subject: chmod by the 32-bit gate.
#[cfg(target_arch = "x86_64")]
pub(crate) fn change_a_mode_by_ia32(path: &Path) -> io::Result<()> {
    const CHMOD: u32 = 15;
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    println!("mode {}", raw::call_ia32(CHMOD, &path, 0o600));
    Ok(())
}

/// A subject: getpid by the 32-bit gate.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ask_by_ia32() -> io::Result<()> {
    const GETPID: u32 = 20;
    let pid = raw::call_ia32(GETPID, c"", 0);
    if u32::try_from(pid) == Ok(std::process::id()) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(-pid))
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn change_a_mode_by_ia32(_: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ask_by_ia32() -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

fn a_32_bit_call_changes_nothing() {
    let known = raw::runs_ia32();
    for pass in BOTH {
        let stage = Stage::new(pass);
        let mode = || fs::metadata(stage.in_clone("w/file")).expect("look").mode();
        let before = mode();
        let run: Run = stage.subject("ia32", &["w/file".as_ref()]);
        assert_eq!(mode(), before);
        if known {
            assert_eq!(run.said("mode"), format!("{}", -libc::ENOSYS));
            assert!(run.gaps.contains(&Gap::UndecodableEvent));
            assert_eq!(run.attempts.len(), 1, "{}", run.list());
            assert_eq!(run.attempts[0].outcome, Outcome::Unknown);
        } else {
            // Where the kernel has no such gate, whoever tries it fails there and then.
            assert_ne!(run.termination, Termination::Exited(0));
        }
    }
}
