//! The witness: a program that does one write of every class in every place, and one that only reads.
//!
//! It runs before the arms, in the same conditions and through the same code path. What it does is
//! known, so what the instrument makes of it shows whether the instrument may be believed. Should a
//! layer fail to refuse, nothing is lost: outside the clone every act makes a name of its own, which
//! is then removed, or sets what is there already.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::getppid;

use crate::attempt::{Effect, Place};
use crate::sys::{inode, process};

/// Where an act is done.
pub(crate) struct Site {
    /// The top of the clone, which holds what [`furnish`] put there.
    pub top: PathBuf,
    pub home: PathBuf,
    pub tmpdir: PathBuf,
}

/// One write of the witness, and how it must be seen.
pub(crate) struct Act {
    /// Its name in reports.
    pub name: &'static str,
    pub effect: Effect,
    pub place: Place,
    /// What the seen path or address must end in.
    pub shown: &'static str,
    perform: fn(&Site) -> io::Result<()>,
}

/// A name that nobody else uses.
const OWN: &str = ".calibrun-witness";

macro_rules! acts {
    ($($name:literal $effect:ident $place:ident $shown:literal => $perform:expr;)+) => {
        /// Every act, in the order in which the witness performs them.
        pub(crate) const ACTS: &[Act] = &[
            $(Act {
                name: $name,
                effect: Effect::$effect,
                place: Place::$place,
                shown: $shown,
                perform: $perform,
            },)+
        ];
    };
}

acts! {
    "create-in-worktree" Create Worktree "w/new" => |s| create(&s.top.join("w/new"));
    "folder-in-worktree" Create Worktree "w/new-folder" => |s| fs::create_dir(s.top.join("w/new-folder"));
    "symlink-in-worktree" Create Worktree "w/new-link" => |s| std::os::unix::fs::symlink("x", s.top.join("w/new-link"));
    "open-in-worktree" WriteOpen Worktree "w/file" => |s| write_open(&s.top.join("w/file"));
    "truncate-in-worktree" Truncate Worktree "w/cut" => |s| File::create(s.top.join("w/cut")).map(drop);
    "remove-in-worktree" Remove Worktree "w/gone" => |s| fs::remove_file(s.top.join("w/gone"));
    "remove-folder-in-worktree" Remove Worktree "w/empty" => |s| fs::remove_dir(s.top.join("w/empty"));
    "rename-in-worktree" Rename Worktree "w/moved" => |s| fs::rename(s.top.join("w/moved"), s.top.join("w/here"));
    "link-in-worktree" Link Worktree "w/file" => |s| fs::hard_link(s.top.join("w/file"), s.top.join("w/second"));
    "mode-in-worktree" Mode Worktree "w/file" => |s| same_mode(&s.top.join("w/file"));
    "owner-in-worktree" Owner Worktree "w/file" => |s| same_owner(&s.top.join("w/file"));
    "times-in-worktree" Times Worktree "w/file" => |s| same_times(&s.top.join("w/file"));
    "xattr-in-worktree" Xattr Worktree "w/file" => |s| inode::set_xattr(&s.top.join("w/file"), c"user.calibrun", b"1");
    "flags-in-worktree" Flags Worktree "w/file" => |s| same_flags(&s.top.join("w/file"));
    "socket-in-worktree" Bind Worktree "w/socket" => |s| std::os::unix::net::UnixListener::bind(s.top.join("w/socket")).map(drop);
    "create-in-git-dir" Create GitDir ".git/new" => |s| create(&s.top.join(".git/new"));
    "remove-in-git-dir" Remove GitDir ".git/gone" => |s| fs::remove_file(s.top.join(".git/gone"));
    "create-in-home" Create Home ".calibrun-witness" => |s| create(&s.home.join(OWN));
    "mode-in-home" Mode Home "" => |s| same_mode(&s.home);
    "create-outside" Create Outside "/.calibrun-witness" => |_| create(&Path::new("/").join(OWN));
    "mode-outside" Mode Outside "/" => |_| same_mode(Path::new("/"));
    "owner-outside" Owner Outside "/" => |_| same_owner(Path::new("/"));
    "times-outside" Times Outside "/" => |_| same_times(Path::new("/"));
    "connect-inet" Connect Egress "127.0.0.1:9" => |_| TcpStream::connect("127.0.0.1:9").map(drop);
    "connect-abstract" Connect Delegated "@calibrun-witness" => |_| abstract_connect();
    "send-inet" Send Egress "127.0.0.1:9" => |_| UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", "127.0.0.1:9").map(drop);
    "signal-the-runner" Signal Outside "" => |_| kill(getppid(), Signal::SIGURG).map_err(io::Error::from);
    "limit-the-runner" Limit Outside "" => |_| process::same_priority(getppid().as_raw());
    "mount" Mount Outside "" => |s| mount_over(&s.tmpdir);
    "host-name" Kernel Outside "" => |_| nix::unistd::sethostname("calibrun").map_err(io::Error::from);
}

/// Puts into `top`, an empty folder, what the acts in worktree and git folder need.
pub(crate) fn furnish(top: &Path) -> io::Result<()> {
    fs::create_dir_all(top.join("w/empty"))?;
    fs::create_dir(top.join(".git"))?;
    for file in ["w/file", "w/cut", "w/gone", "w/moved", ".git/gone"] {
        fs::write(top.join(file), "witness\n")?;
    }
    Ok(())
}

fn create(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path)?;
    // Only reached where nothing refused it: leave nothing behind.
    fs::remove_file(path)
}

fn write_open(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).open(path).map(drop)
}

fn same_mode(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.mode() & 0o7777;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn same_owner(path: &Path) -> io::Result<()> {
    std::os::unix::fs::chown(path, None, None)
}

fn same_times(path: &Path) -> io::Result<()> {
    let meta = fs::metadata(path)?;
    File::open(path)?.set_modified(meta.modified()?)
}

fn same_flags(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // Where the file system has no flags, the request is refused all the same, and seen.
    let flags = inode::flags(&file)?.unwrap_or(0);
    inode::set_flags(&file, flags)
}

fn abstract_connect() -> io::Result<()> {
    let address = SocketAddr::from_abstract_name("calibrun-witness")?;
    UnixStream::connect_addr(&address).map(drop)
}

fn mount_over(folder: &Path) -> io::Result<()> {
    let none: Option<&str> = None;
    nix::mount::mount(
        Some("none"),
        folder,
        Some("tmpfs"),
        nix::mount::MsFlags::empty(),
        none,
    )
    .map_err(io::Error::from)
}

/// Runs as the witness. Prints one line an act: its name, and `refused` or `done`.
pub(crate) fn main(args: &[OsString]) -> i32 {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (Some(home), Some(tmpdir), Ok(top)) =
        (path("HOME"), path("TMPDIR"), std::env::current_dir())
    else {
        return 64;
    };
    let site = Site { top, home, tmpdir };
    match args.first().and_then(|a| a.to_str()) {
        Some("write") => {
            for act in ACTS {
                let outcome = if (act.perform)(&site).is_err() {
                    "refused"
                } else {
                    "done"
                };
                println!("{} {outcome}", act.name);
            }
            let scratch = site.tmpdir.join("witness");
            let kept = fs::write(&scratch, "x")
                .and_then(|()| fs::read(&scratch))
                .and_then(|_| fs::remove_file(&scratch));
            println!("scratch {}", if kept.is_ok() { "done" } else { "refused" });
            0
        }
        Some("read") => {
            println!(
                "read {}",
                if read_around(&site).is_ok() {
                    "done"
                } else {
                    "refused"
                }
            );
            // The same user's, and readable but for the domain that confines this process.
            let parent = fs::read(format!("/proc/{}/environ", getppid()));
            println!(
                "parent {}",
                if parent.is_err() { "refused" } else { "done" }
            );
            0
        }
        _ => 64,
    }
}

/// What a reader does: looks, lists, reads.
fn read_around(site: &Site) -> io::Result<()> {
    fs::read(site.top.join("w/file"))?;
    for folder in [site.top.as_path(), &site.home, &site.tmpdir, Path::new("/")] {
        fs::read_dir(folder)?.next().transpose()?;
        fs::metadata(folder)?;
    }
    Ok(())
}
