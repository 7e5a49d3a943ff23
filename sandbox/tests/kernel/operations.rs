//! Every call that changes a file, on every kind of place, in both passes.
//!
//! One subject performs them all; each has a folder of its own, so that none depends on another.

use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use calibrun_sandbox::sys::inode;
use calibrun_sandbox::{Effect, Mark, Outcome, Pass, Place, Termination};
use nix::fcntl::{AT_FDCWD, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid};

use crate::host::cases;
use crate::raw::{Arg, call};
use crate::stage::{Asked, Stage, own_marks};

cases! {
    Nothing =>
        every_operation_on_the_worktree_is_seen_and_refused_in_the_denied_pass
        every_operation_on_the_git_folder_is_seen_and_refused_in_the_denied_pass
        every_operation_on_home_is_seen_and_refused_in_the_denied_pass
        every_operation_outside_is_seen_and_refused_in_the_denied_pass
        every_operation_on_home_is_seen_and_kept_from_it_in_the_contained_pass
        every_operation_outside_is_seen_and_refused_in_the_contained_pass
        every_operation_on_the_worktree_is_seen_in_the_contained_pass
        every_operation_on_the_git_folder_is_seen_in_the_contained_pass
        every_operation_on_scratch_is_seen_and_does_not_count_as_worktree
        reading_alone_is_no_attempt
        operations_that_need_a_writable_descriptor_fail_on_a_read_only_one;
}

/// One operation, how it must be seen, and on which name.
struct Operation {
    name: &'static str,
    effect: Effect,
    /// What the seen path must end in, below the operation's folder; empty for the folder itself.
    on: &'static str,
    perform: fn(&Path) -> io::Result<()>,
}

macro_rules! operations {
    ($($(#[$here:meta])* $name:literal $effect:ident $on:literal => $perform:expr;)+) => {
        const OPERATIONS: &[Operation] = &[
            $($(#[$here])* Operation { name: $name, effect: Effect::$effect, on: $on, perform: $perform },)+
        ];
    };
}

operations! {
    "open-to-write" WriteOpen "file" => |d| OpenOptions::new().write(true).open(d.join("file")).map(drop);
    "open-to-read-and-write" WriteOpen "file" => |d| OpenOptions::new().read(true).write(true).open(d.join("file")).map(drop);
    "open-to-append" WriteOpen "file" => |d| OpenOptions::new().append(true).open(d.join("file")).map(drop);
    "open-create-existing" WriteOpen "file" => |d| OpenOptions::new().write(true).create(true).truncate(false).open(d.join("file")).map(drop);
    "open-truncating" Truncate "file" => |d| File::create(d.join("file")).map(drop);
    "open-read-only-truncating" Truncate "file" => |d| open(&d.join("file"), OFlag::O_RDONLY | OFlag::O_TRUNC).map(drop);
    "open-creating" Create "new" => |d| File::create_new(d.join("new")).map(drop);
    "open-creating-to-read" Create "new" => |d| open(&d.join("new"), OFlag::O_RDONLY | OFlag::O_CREAT).map(drop);
    "open-nameless" Create "" => |d| open(d, OFlag::O_RDWR | OFlag::O_TMPFILE).map(drop);
    "open-below-a-folder-descriptor" WriteOpen "file" => |d| {
        let folder = open(d, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        nix::fcntl::openat(&folder, "file", OFlag::O_WRONLY, Mode::empty()).map(drop).map_err(io::Error::from)
    };
    "open-through-a-link" WriteOpen "file" => |d| OpenOptions::new().append(true).open(d.join("link")).map(drop);
    "open-through-a-dangling-link" Create "nowhere" => |d| File::create(d.join("dangling")).map(drop);
    "open-by-dots" WriteOpen "file" => |d| OpenOptions::new().append(true).open(d.join("full/../full/./../file")).map(drop);
    "reopen-a-path-descriptor" WriteOpen "file" => |d| reopen(&open(&d.join("file"), OFlag::O_PATH)?);
    "reopen-a-read-only-descriptor" WriteOpen "file" => |d| reopen(&open(&d.join("file"), OFlag::O_RDONLY)?);
    "open-through-own-working-folder" WriteOpen "file" => |d| {
        std::env::set_current_dir(d)?;
        OpenOptions::new().append(true).open("/proc/self/cwd/file").map(drop)
    };
    "truncate" Truncate "file" => |d| nix::unistd::truncate(&d.join("file"), 1).map_err(io::Error::from);
    "mkdir" Create "new" => |d| fs::create_dir(d.join("new"));
    "mkdir-with-a-slash" Create "new" => |d| path_call(libc::SYS_mkdirat, &[d.join("new/").as_os_str()], 0o755);
    "rmdir" Remove "empty" => |d| fs::remove_dir(d.join("empty"));
    "unlink" Remove "file" => |d| fs::remove_file(d.join("file"));
    "unlink-a-link" Remove "link" => |d| fs::remove_file(d.join("link"));
    "unlinkat-below-a-folder" Remove "file" => |d| {
        let folder = open(d, OFlag::O_PATH)?;
        nix::unistd::unlinkat(&folder, "file", nix::unistd::UnlinkatFlags::NoRemoveDir).map_err(io::Error::from)
    };
    "rename" Rename "file" => |d| fs::rename(d.join("file"), d.join("new"));
    "rename-over" Rename "file" => |d| fs::rename(d.join("file"), d.join("other"));
    "rename-a-folder" Rename "full" => |d| fs::rename(d.join("full"), d.join("new"));
    "rename-exchanging" Rename "file" => |d| rename2(d, "other", libc::RENAME_EXCHANGE);
    "rename-without-replacing" Rename "file" => |d| rename2(d, "new", libc::RENAME_NOREPLACE);
    "link" Link "file" => |d| fs::hard_link(d.join("file"), d.join("new"));
    "link-by-descriptor" Link "file" => |d| {
        let file = open(&d.join("file"), OFlag::O_RDONLY)?;
        let (from, to) = (text(format!("/proc/self/fd/{}", file.as_raw_fd()).as_ref()), text(d.join("new").as_os_str()));
        call(libc::SYS_linkat, &mut [CWD, Arg::S(&from), CWD, Arg::S(&to), Arg::N(libc::AT_SYMLINK_FOLLOW.into())]).map(drop)
    };
    "symlink" Create "new" => |d| std::os::unix::fs::symlink("anywhere", d.join("new"));
    "mkfifo" Create "new" => |d| nix::unistd::mkfifo(&d.join("new"), Mode::S_IRWXU).map_err(io::Error::from);
    "mknod" Create "new" => |d| path_call(libc::SYS_mknodat, &[d.join("new").as_os_str()], (libc::S_IFREG | 0o600).into());
    "bind-a-socket" Bind "s" => |d| {
        // From within: the path of a socket has little room.
        std::env::set_current_dir(d)?;
        std::os::unix::net::UnixListener::bind("s").map(drop)
    };
    "chmod" Mode "file" => |d| fs::set_permissions(d.join("file"), fs::Permissions::from_mode(0o600));
    "chmod-to-what-it-is" Mode "file" => |d| {
        let mode = fs::metadata(d.join("file"))?.permissions();
        fs::set_permissions(d.join("file"), mode)
    };
    "chmod-a-folder" Mode "empty" => |d| fs::set_permissions(d.join("empty"), fs::Permissions::from_mode(0o700));
    "chmod-through-a-link" Mode "file" => |d| fs::set_permissions(d.join("link"), fs::Permissions::from_mode(0o600));
    "chmod-through-proc" Mode "file" => |d| {
        let file = open(&d.join("file"), OFlag::O_PATH)?;
        fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), fs::Permissions::from_mode(0o600))
    };
    "fchmod-read-only" Mode "file" => |d| File::open(d.join("file"))?.set_permissions(fs::Permissions::from_mode(0o600));
    "fchmodat2-empty-path" Mode "file" => |d| {
        let file = open(&d.join("file"), OFlag::O_PATH)?;
        call(452, &mut [fd(&file), Arg::S(c""), Arg::N(0o600), EMPTY_PATH]).map(drop)
    };
    "chown" Owner "file" => |d| std::os::unix::fs::chown(d.join("file"), Some(uid()), None);
    "lchown" Owner "link" => |d| std::os::unix::fs::lchown(d.join("link"), Some(uid()), None);
    "fchown-read-only" Owner "file" => |d| std::os::unix::fs::fchown(File::open(d.join("file"))?, Some(uid()), None);
    "fchownat-empty-path" Owner "file" => |d| {
        let file = open(&d.join("file"), OFlag::O_PATH)?;
        call(libc::SYS_fchownat, &mut [fd(&file), Arg::S(c""), Arg::N(uid().into()), Arg::N(Gid::current().as_raw().into()), EMPTY_PATH]).map(drop)
    };
    "utimensat-now" Times "file" => |d| {
        let path = text(d.join("file").as_os_str());
        call(libc::SYS_utimensat, &mut [CWD, Arg::S(&path), Arg::N(0), Arg::N(0)]).map(drop)
    };
    "utimensat-of-a-link" Times "link" => |d| {
        let path = text(d.join("link").as_os_str());
        call(libc::SYS_utimensat, &mut [CWD, Arg::S(&path), Arg::N(0), Arg::N(libc::AT_SYMLINK_NOFOLLOW.into())]).map(drop)
    };
    "futimens-read-only" Times "file" => |d| {
        let file = File::open(d.join("file"))?;
        call(libc::SYS_utimensat, &mut [fd(&file), Arg::N(0), Arg::N(0), Arg::N(0)]).map(drop)
    };
    "setxattr" Xattr "file" => |d| inode::set_xattr(&d.join("file"), c"user.test", b"1");
    "lsetxattr" Xattr "file" => |d| xattr(libc::SYS_lsetxattr, &d.join("file"));
    "fsetxattr-read-only" Xattr "file" => |d| {
        let file = File::open(d.join("file"))?;
        call(libc::SYS_fsetxattr, &mut [fd(&file), Arg::S(c"user.test"), Arg::R(b"1"), Arg::N(1), Arg::N(0)]).map(drop)
    };
    "set-an-access-list" Xattr "file" => |d| {
        // Version 2; owner, group and others, as acl(5) and linux/posix_acl_xattr.h have it.
        let entry = |tag: u16| [&tag.to_le_bytes()[..], &6u16.to_le_bytes(), &u32::MAX.to_le_bytes()].concat();
        let list = [2u32.to_le_bytes().to_vec(), entry(1), entry(4), entry(32)].concat();
        inode::set_xattr(&d.join("file"), c"system.posix_acl_access", &list)
    };
    "removexattr" Xattr "file" => |d| {
        let path = text(d.join("file").as_os_str());
        call(libc::SYS_removexattr, &mut [Arg::S(&path), Arg::S(c"user.test")]).map(drop)
    };
    "fremovexattr-read-only" Xattr "file" => |d| {
        let file = File::open(d.join("file"))?;
        call(libc::SYS_fremovexattr, &mut [fd(&file), Arg::S(c"user.test")]).map(drop)
    };
    "setxattrat" Xattr "file" => |d| {
        let path = text(d.join("file").as_os_str());
        // struct xattr_args: value, size, flags.
        let value = b"1";
        let args = [&(value.as_ptr() as u64).to_ne_bytes()[..], &1u32.to_ne_bytes(), &0u32.to_ne_bytes()].concat();
        call(463, &mut [CWD, Arg::S(&path), Arg::N(0), Arg::S(c"user.test"), Arg::R(&args), Arg::N(16)]).map(drop)
    };
    "set-attributes" Flags "file" => |d| {
        let path = text(d.join("file").as_os_str());
        call(469, &mut [CWD, Arg::S(&path), Arg::R(&[0; 24]), Arg::N(24), Arg::N(0)]).map(drop)
    };
    #[cfg(target_arch = "x86_64")]
    "creat" Create "new" => |d| one_path(libc::SYS_creat, &d.join("new"));
    #[cfg(target_arch = "x86_64")]
    "creat-existing" Truncate "file" => |d| one_path(libc::SYS_creat, &d.join("file"));
    #[cfg(target_arch = "x86_64")]
    "utime" Times "file" => |d| one_path(libc::SYS_utime, &d.join("file"));
    #[cfg(target_arch = "x86_64")]
    "utimes" Times "file" => |d| one_path(libc::SYS_utimes, &d.join("file"));
    #[cfg(target_arch = "x86_64")]
    "futimesat-of-a-descriptor" Times "file" => |d| {
        let file = File::open(d.join("file"))?;
        call(libc::SYS_futimesat, &mut [fd(&file), Arg::N(0), Arg::N(0)]).map(drop)
    };
    "set-flags-read-only" Flags "file" => |d| inode::set_flags(&File::open(d.join("file"))?, 0x40);
}

const CWD: Arg<'static> = Arg::N(libc::AT_FDCWD as i64);
const EMPTY_PATH: Arg<'static> = Arg::N(libc::AT_EMPTY_PATH as i64);

fn text(path: &OsStr) -> CString {
    CString::new(path.as_bytes()).expect("no NUL in a test's path")
}

fn fd(of: &impl AsRawFd) -> Arg<'static> {
    Arg::N(of.as_raw_fd().into())
}

fn uid() -> u32 {
    Uid::effective().as_raw()
}

fn open(path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
    nix::fcntl::openat(AT_FDCWD, path, flags | OFlag::O_CLOEXEC, Mode::S_IRUSR)
        .map_err(io::Error::from)
}

fn reopen(file: &OwnedFd) -> io::Result<()> {
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(again)
        .map(drop)
}

/// A call of the form `(AT_FDCWD, path, number)`.
fn path_call(number: i64, path: &[&OsStr], last: i64) -> io::Result<()> {
    let path = text(path[0]);
    call(number, &mut [CWD, Arg::S(&path), Arg::N(last), Arg::N(0)]).map(drop)
}

/// A call of the form `(path, 0)`.
#[cfg(target_arch = "x86_64")]
fn one_path(number: i64, path: &Path) -> io::Result<()> {
    let path = text(path.as_os_str());
    call(number, &mut [Arg::S(&path), Arg::N(0)]).map(drop)
}

fn rename2(folder: &Path, to: &str, flags: u32) -> io::Result<()> {
    let (from, to) = (
        text(folder.join("file").as_os_str()),
        text(folder.join(to).as_os_str()),
    );
    let mut args = [CWD, Arg::S(&from), CWD, Arg::S(&to), Arg::N(flags.into())];
    call(libc::SYS_renameat2, &mut args).map(drop)
}

fn xattr(number: i64, path: &Path) -> io::Result<()> {
    let path = text(path.as_os_str());
    let mut args = [
        Arg::S(&path),
        Arg::S(c"user.test"),
        Arg::R(b"1"),
        Arg::N(1),
        Arg::N(0),
    ];
    call(number, &mut args).map(drop)
}

/// The subject: performs every operation below `top`, each in the folder of its name.
pub(crate) fn perform_all(top: &Path) {
    // Some of them change the working folder.
    let top = fs::canonicalize(top).expect("a folder");
    for operation in OPERATIONS {
        let answer = match (operation.perform)(&top.join(operation.name)) {
            Ok(()) => "done".to_owned(),
            Err(e) => nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(0)).to_string(),
        };
        println!("{} {answer}", operation.name);
    }
}

/// Makes below `top` what the operations need.
pub(crate) fn furnish(top: &Path) {
    for operation in OPERATIONS {
        let folder = top.join(operation.name);
        fs::create_dir_all(folder.join("empty")).expect("make folders");
        fs::create_dir(folder.join("full")).expect("make folders");
        for file in ["file", "other", "full/x"] {
            fs::write(folder.join(file), "content\n").expect("write");
        }
        std::os::unix::fs::symlink("file", folder.join("link")).expect("link");
        std::os::unix::fs::symlink("nowhere", folder.join("dangling")).expect("link");
    }
}

/// Performs all operations below `top` (as the subject sees it) and checks that each was seen in
/// `place` with the right outcome, and answered as it had to be.
fn check(stage: &Stage, top: &Path, place: Place, writable: bool) {
    let run = stage.subject("operations", &[top.as_os_str()]);
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    // A private HOME may be written; that the real one is not, the stage checks after every run.
    let writable = writable || place == Place::Home && run.layers.home_overlay;
    let mut wrong = Vec::new();
    for operation in OPERATIONS {
        let metadata = matches!(
            operation.effect,
            Effect::Mode | Effect::Owner | Effect::Times | Effect::Xattr | Effect::Flags
        );
        let passes = writable && (run.layers.mounts || !metadata);
        let outcome = if passes {
            Outcome::Allowed
        } else {
            Outcome::Denied
        };
        let end = match operation.on {
            "" => format!("/{}", operation.name),
            on => format!("{}/{on}", operation.name),
        };
        let found = run.attempts.iter().any(|a| {
            let resolved = a.target.resolved.as_ref();
            a.effect == operation.effect
                && a.place == place
                && a.outcome == outcome
                && resolved.is_some_and(|p| p.as_os_str().as_bytes().ends_with(end.as_bytes()))
                && own_marks(a).contains(&Mark::MetadataRefused)
                    == (metadata && !run.layers.mounts && place_is_the_arms(place))
        });
        let answer = run.said(operation.name);
        let answered = if passes {
            // Not every file system has attributes and flags, and there is nothing to remove.
            matches!(operation.effect, Effect::Xattr | Effect::Flags)
                || answer == "done"
                // An overlay does not move a folder of the lower layer; mv(1) then copies it.
                || place == Place::Home && operation.name == "rename-a-folder" && answer.starts_with("EXDEV")
        } else {
            answer.starts_with("EROFS")
        };
        if !found || !answered {
            wrong.push(format!(
                "{}: seen {found}, answered {answer}",
                operation.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), run.list());
    // Nothing that was not done is in the record.
    let counted: u64 = run.attempts.iter().map(|a| a.count).sum();
    assert_eq!(counted, OPERATIONS.len() as u64, "{}", run.list());
}

fn place_is_the_arms(place: Place) -> bool {
    matches!(place, Place::Worktree | Place::GitDir | Place::Scratch)
}

fn in_repo(pass: Pass, folder: &str, place: Place) {
    let stage = Stage::new(pass);
    for top in [stage.repo(), stage.clone_top()] {
        furnish(&top.join(folder));
    }
    let before = fs::read_dir(stage.in_clone(folder).join("mkdir"))
        .expect("list")
        .count();
    check(&stage, Path::new(folder), place, pass == Pass::Contained);
    let after = fs::read_dir(stage.in_clone(folder).join("mkdir"))
        .expect("list")
        .count();
    assert_eq!(after - before, usize::from(pass == Pass::Contained));
}

fn every_operation_on_the_worktree_is_seen_and_refused_in_the_denied_pass() {
    in_repo(Pass::Denied, "w/ops", Place::Worktree);
}

fn every_operation_on_the_git_folder_is_seen_and_refused_in_the_denied_pass() {
    in_repo(Pass::Denied, ".git/ops", Place::GitDir);
}

fn every_operation_on_the_worktree_is_seen_in_the_contained_pass() {
    in_repo(Pass::Contained, "w/ops", Place::Worktree);
}

fn every_operation_on_the_git_folder_is_seen_in_the_contained_pass() {
    in_repo(Pass::Contained, ".git/ops", Place::GitDir);
}

fn in_home(pass: Pass) {
    let stage = Stage::new(pass);
    furnish(&stage.home().join("ops"));
    check(&stage, &stage.home().join("ops"), Place::Home, false);
}

fn every_operation_on_home_is_seen_and_refused_in_the_denied_pass() {
    in_home(Pass::Denied);
}

fn every_operation_on_home_is_seen_and_kept_from_it_in_the_contained_pass() {
    in_home(Pass::Contained);
}

fn outside(pass: Pass) {
    let stage = Stage::new(pass);
    furnish(&stage.outside().join("ops"));
    check(&stage, &stage.outside().join("ops"), Place::Outside, false);
}

fn every_operation_outside_is_seen_and_refused_in_the_denied_pass() {
    outside(Pass::Denied);
}

fn every_operation_outside_is_seen_and_refused_in_the_contained_pass() {
    outside(Pass::Contained);
}

fn every_operation_on_scratch_is_seen_and_does_not_count_as_worktree() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let run = stage.subject("operations-in-tmpdir", &[]);
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        for operation in OPERATIONS {
            let end = format!("{}/{}", operation.name, operation.on);
            let seen = run.attempts.iter().any(|a| {
                a.effect == operation.effect
                    && a.target.resolved.as_ref().is_some_and(|p| {
                        p.starts_with(&run.tmpdir) && p.ends_with(PathBuf::from(&end))
                    })
            });
            assert!(seen, "{}: {}", operation.name, run.list());
            if run.layers.mounts && !matches!(operation.effect, Effect::Xattr | Effect::Flags) {
                assert_eq!(run.said(operation.name), "done", "{}", operation.name);
            }
        }
        let elsewhere = run.attempts.iter().find(|a| a.place != Place::Scratch);
        assert!(elsewhere.is_none(), "{elsewhere:?}");
        assert!(
            run.residue.iter().any(|p| p.ends_with("ops/mkdir/new")),
            "what is left is listed: {:?}",
            run.residue
        );
        assert!(!run.tmpdir.exists(), "nothing of it is left on the host");
    }
}

/// A subject: looks at everything below `top` in every way that reads.
pub(crate) fn read_all(top: &Path) -> io::Result<()> {
    for entry in fs::read_dir(top)? {
        let path = entry?.path();
        let meta = fs::symlink_metadata(&path)?;
        fs::read_link(&path).ok();
        nix::unistd::access(&path, nix::unistd::AccessFlags::W_OK).ok();
        open(&path, OFlag::O_PATH | OFlag::O_NOFOLLOW)?;
        // Bits that other modes give a meaning to, on a path descriptor.
        open(
            &path,
            OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_TRUNC | OFlag::O_CREAT,
        )?;
        if meta.is_dir() {
            read_all(&path)?;
        } else if meta.is_file() {
            fs::read(&path)?;
            // What exists and is opened to be read is not made.
            open(&path, OFlag::O_RDONLY | OFlag::O_CREAT)?;
            let file = File::open(&path)?;
            inode::flags(&file)?;
            nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock)
                .map_err(|(_, e)| e)?;
            assert_eq!(meta.size(), fs::metadata(&path)?.size());
        }
    }
    Ok(())
}

fn reading_alone_is_no_attempt() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        furnish(&stage.in_clone("w/ops"));
        let run = stage.subject("read-all", &["w".as_ref()]);
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        run.expect_nothing();
    }
}

/// A subject: everything that writes through a descriptor, on one that is read-only.
pub(crate) fn write_through_read_only(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let other = File::open(path)?;
    let say = |name: &str, result: io::Result<i64>| match result {
        Ok(_) => println!("{name} done"),
        Err(e) => println!("{name} {e}"),
    };
    let one = |n: i64| Arg::N(n);
    say(
        "write",
        call(libc::SYS_write, &mut [fd(&file), Arg::R(b"x"), one(1)]),
    );
    say(
        "ftruncate",
        call(libc::SYS_ftruncate, &mut [fd(&file), one(0)]),
    );
    say(
        "fallocate",
        call(
            libc::SYS_fallocate,
            &mut [fd(&file), one(0), one(0), one(9)],
        ),
    );
    say(
        "sendfile",
        call(
            libc::SYS_sendfile,
            &mut [fd(&file), fd(&other), one(0), one(1)],
        ),
    );
    say(
        "copy-file-range",
        call(
            libc::SYS_copy_file_range,
            &mut [fd(&other), one(0), fd(&file), one(0), one(1), one(0)],
        ),
    );
    say(
        "clone-range",
        call(
            libc::SYS_ioctl,
            &mut [fd(&file), one(0x4004_9409), fd(&other)],
        ),
    );
    say(
        "map-shared",
        call(
            libc::SYS_mmap,
            &mut [
                one(0),
                one(4096),
                one((libc::PROT_READ | libc::PROT_WRITE).into()),
                one(libc::MAP_SHARED.into()),
                fd(&file),
                one(0),
            ],
        ),
    );
    Ok(())
}

fn operations_that_need_a_writable_descriptor_fail_on_a_read_only_one() {
    let stage = Stage::new(Pass::Contained);
    let run = stage.subject("write-through-read-only", &["w/file".as_ref()]);
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    assert_eq!(run.out().lines().count(), 7);
    assert!(!run.out().contains("done"), "{}", run.out());
    run.expect_nothing();
    let content = fs::read(stage.in_clone("w/file")).expect("read");
    assert_eq!(content, b"text\n");
    // The same file is writable by name, so the descriptor alone made the difference.
    let run = stage.sh("echo more >> w/file");
    run.expect(
        Effect::WriteOpen,
        Place::Worktree,
        Outcome::Allowed,
        "w/file",
    );
    let options = OpenOptions::new().read(true).custom_flags(0).clone();
    let meta = options
        .open(stage.in_clone("w/file"))
        .and_then(|f| f.metadata());
    assert_eq!(meta.expect("look").size(), 10);
}
