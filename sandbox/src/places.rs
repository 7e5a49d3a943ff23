//! Which place a resolved object lies in. One rule a place, the deepest folder wins.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{FileStat, SFlag, major, minor};

use crate::attempt::{FileKind, Mark, Place};
use crate::resolve::Object;

/// Socket files of name services, which every program that looks up a user or host may try. Closed.
const NAME_SERVICES: &[&str] = &[
    "/run/nscd/socket",
    "/var/run/nscd/socket",
    "/run/.nscd_socket",
    "/run/systemd/userdb/",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/var/lib/sss/pipes/",
    "/run/avahi-daemon/socket",
    "/run/nslcd/socket",
    "/var/run/nslcd/socket",
];

/// A shared temp folder.
#[derive(Clone, Debug)]
pub(crate) struct Temp {
    /// Its real path.
    pub path: PathBuf,
}

/// The subject's map.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Where the subject sees the clone.
    pub top: PathBuf,
    /// The field repo on the host, for what is missing in the clone only.
    pub real_top: PathBuf,
    /// Git folders below `top`, absolute.
    pub git_dirs: Vec<PathBuf>,
    pub home: PathBuf,
    pub tmpdir: PathBuf,
    pub temps: Vec<Temp>,
    /// Mounts are in force: temp folders and `/dev/shm` are private.
    pub mounts: bool,
    /// Private temp folders show what is in the real ones.
    pub overlaid: bool,
    /// HOME is a private overlay, writable in the contained pass.
    pub home_private: bool,
    /// Names in temp folders that are hidden from the subject: to it they are not there.
    pub hidden: Vec<PathBuf>,
    /// Terminals that were there before the arm: somebody else's.
    pub terminals: Vec<u64>,
}

/// Where something lies, and what a judge must know beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub place: Place,
    pub mark: Option<Mark>,
}

impl From<Place> for Located {
    fn from(place: Place) -> Located {
        Located { place, mark: None }
    }
}

/// Whether the process behind a `/proc/N` folder is one of the arm's own.
pub(crate) type Owns<'a> = &'a dyn Fn(i32) -> bool;

impl Places {
    /// The place of `path` (as the subject sees it), which leads to `object` if anything.
    pub(crate) fn locate(&self, path: &Path, object: Option<&Object>, owns: Owns<'_>) -> Located {
        let bytes = path.as_os_str().as_bytes();
        let memory_file = bytes.starts_with(b"/memfd:") && object.is_none_or(|o| o.nameless);
        if bytes.is_empty() {
            return Place::Outside.into(); // nothing was named: nothing is known
        }
        if !bytes.starts_with(b"/") || memory_file {
            return Place::Itself.into(); // pipe:[…], socket:[…], anon_inode:…, a memory file
        }
        let path = &without_deleted(path, object);
        let roots = [
            (Some(self.top.as_path()), Root::Clone),
            (Some(self.tmpdir.as_path()), Root::Scratch),
            (
                Some(self.home.as_path()).filter(|h| *h != Path::new("/")),
                Root::Home,
            ),
            (Some(Path::new("/dev/shm")), Root::SharedMemory),
            (Some(Path::new("/proc")), Root::Proc),
        ];
        let temps = self.temps.iter().map(|t| (t.path.as_path(), Root::Temp));
        let roots = roots
            .into_iter()
            .filter_map(|(p, r)| p.map(|p| (p, r)))
            .chain(temps);
        // Of equal ones the first stands: a clone that is HOME is the clone.
        let mut deepest: Option<(&Path, Root)> = None;
        for (root, kind) in roots.filter(|(root, _)| path.starts_with(root)) {
            if deepest.is_none_or(|(d, _)| root.components().count() > d.components().count()) {
                deepest = Some((root, kind));
            }
        }
        match deepest {
            None => Place::Outside.into(),
            Some((_, Root::Clone)) => if self.git_dirs.iter().any(|dir| path.starts_with(dir)) {
                Place::GitDir
            } else {
                Place::Worktree
            }
            .into(),
            Some((_, Root::Scratch)) => Place::Scratch.into(),
            Some((_, Root::Home)) => Place::Home.into(),
            Some((root, Root::SharedMemory)) => self.in_shared_memory(path, root, object),
            Some((root, Root::Temp)) => self.in_temp(path, root, object),
            Some((_, Root::Proc)) => in_proc(path, owns).into(),
        }
    }

    /// What the arm made in a temp folder is scratch; what was there before, and what lies in a folder
    /// that was there before, is outside.
    fn in_temp(&self, path: &Path, temp: &Path, object: Option<&Object>) -> Located {
        if !self.mounts {
            return Located {
                place: Place::Outside,
                mark: Some(Mark::TempNotPrivate),
            };
        }
        if path == temp {
            return Place::Outside.into();
        }
        let real = self.is_shown(path);
        let parent = path.parent().unwrap_or(temp);
        let in_old_folder = parent != temp && self.is_shown(parent);
        if !self.overlaid {
            // The private folder is empty: what is real is hidden, so it can only seem to be absent.
            let mark = (real || in_old_folder).then_some(Mark::AbsentHere);
            let place = if mark.is_some() {
                Place::Outside
            } else {
                Place::Scratch
            };
            return Located { place, mark };
        }
        let old = if object.is_some() {
            real
        } else {
            in_old_folder
        };
        if old || in_old_folder {
            Place::Outside
        } else {
            Place::Scratch
        }
        .into()
    }

    /// Whether `path` is there on the host, and not hidden from the subject.
    pub(crate) fn is_shown(&self, path: &Path) -> bool {
        !self.hidden.iter().any(|hidden| path.starts_with(hidden))
            && path.symlink_metadata().is_ok()
    }

    fn in_shared_memory(&self, path: &Path, root: &Path, object: Option<&Object>) -> Located {
        if !self.mounts {
            return Located {
                place: Place::Ipc,
                mark: Some(Mark::TempNotPrivate),
            };
        }
        if path == root {
            return Place::Outside.into();
        }
        // Private and empty at the start: what is there, the arm has made.
        let hidden = object.is_none() && std::fs::symlink_metadata(path).is_ok();
        Located {
            place: Place::Ipc,
            mark: hidden.then_some(Mark::AbsentHere),
        }
    }

    /// Whether an absent `path` is absent for the subject alone: in the clone and not in the repo, or
    /// hidden from it.
    pub(crate) fn missing_here_only(&self, path: &Path) -> bool {
        let hidden = self.hidden.iter().any(|hidden| path.starts_with(hidden));
        hidden && path.symlink_metadata().is_ok()
            || path
                .strip_prefix(&self.top)
                .is_ok_and(|rest| self.real_top.join(rest).symlink_metadata().is_ok())
    }

    /// Whether writing into this device keeps nothing, see the closed list in kernel support docs.
    pub(crate) fn is_sink(&self, stat: &FileStat) -> bool {
        if !SFlag::from_bits_truncate(stat.st_mode).contains(SFlag::S_IFCHR) {
            return false;
        }
        // Numbers from the kernel's devices.txt: null, zero, full, random, urandom; tty, ptmx; ptys.
        match (major(stat.st_rdev), minor(stat.st_rdev)) {
            (1, 3 | 5 | 7 | 8 | 9) | (5, 0 | 2) => true,
            (136..=143, _) => !self.terminals.contains(&stat.st_rdev),
            _ => false,
        }
    }

    /// A place for writing into an existing special file, if it is one.
    pub(crate) fn special(&self, located: Located, object: &Object) -> Option<Place> {
        match object.kind() {
            FileKind::Device if self.is_sink(&object.stat) => Some(Place::DeviceSink),
            FileKind::Device => Some(Place::Delegated),
            // Its other end may be anybody's, unless the arm itself made it.
            FileKind::Fifo | FileKind::Socket => match located.place {
                Place::Scratch | Place::Ipc | Place::Itself => None,
                _ => Some(Place::Delegated),
            },
            FileKind::File | FileKind::Folder | FileKind::Symlink | FileKind::Other => None,
        }
    }
}

/// Whether `path` is a name service's socket.
pub(crate) fn is_name_service(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    NAME_SERVICES
        .iter()
        .any(|known| match known.strip_suffix('/') {
            Some(folder) => path
                .parent()
                .is_some_and(|p| p.as_os_str().as_bytes() == folder.as_bytes()),
            None => bytes == known.as_bytes(),
        })
}

/// The order of width: an effect with two ends takes the wider place.
pub(crate) fn width(place: Place) -> u8 {
    match place {
        Place::DeviceSink => 0,
        Place::Itself => 1,
        Place::Ipc => 2,
        Place::Scratch => 3,
        Place::NameService => 4,
        Place::Worktree => 5,
        Place::GitDir => 6,
        Place::Home => 7,
        Place::Outside => 8,
        Place::Delegated => 9,
        Place::Egress => 10,
    }
}

#[derive(Clone, Copy)]
enum Root {
    Clone,
    Scratch,
    Home,
    SharedMemory,
    Temp,
    Proc,
}

/// The kernel appends this to the name of an object that has none any more.
fn without_deleted(path: &Path, object: Option<&Object>) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    match bytes.strip_suffix(b" (deleted)") {
        Some(short) if object.is_some_and(|o| o.nameless) => {
            Path::new(std::ffi::OsStr::from_bytes(short)).to_owned()
        }
        _ => path.to_owned(),
    }
}

/// Own entries are the subject's own affair, but for memory and id maps, which reach further.
fn in_proc(path: &Path, owns: Owns<'_>) -> Place {
    let mut parts = path.components().skip(2).map(|c| c.as_os_str());
    let Some(pid) = parts
        .next()
        .and_then(|p| p.to_str())
        .and_then(|p| p.parse::<i32>().ok())
    else {
        return Place::Outside;
    };
    let last = path
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    let reaching = matches!(
        last,
        "mem" | "uid_map" | "gid_map" | "projid_map" | "setgroups"
    );
    if owns(pid) && !reaching {
        Place::Itself
    } else {
        Place::Outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            top: "/home/u/repo".into(),
            real_top: "/home/u/repo".into(),
            git_dirs: vec!["/home/u/repo/.git".into()],
            home: "/home/u".into(),
            tmpdir: "/tmp/calibrun-x".into(),
            temps: vec![
                Temp {
                    path: "/tmp".into(),
                },
                Temp {
                    path: "/var/tmp".into(),
                },
            ],
            mounts: true,
            overlaid: true,
            home_private: false,
            hidden: vec![],
            terminals: vec![],
        }
    }

    fn place(path: &str) -> Place {
        places()
            .locate(Path::new(path), None, &|pid| pid == 7)
            .place
    }

    #[test]
    fn the_deepest_folder_decides() {
        for (path, expected) in [
            ("/home/u/repo/src/a", Place::Worktree),
            ("/home/u/repo", Place::Worktree),
            ("/home/u/repo/.git/index", Place::GitDir),
            ("/home/u/repo/.gitignore", Place::Worktree),
            ("/home/u/repository", Place::Home),
            ("/home/u/.cache/x", Place::Home),
            ("/home/v", Place::Outside),
            ("/tmp/calibrun-x/a/b", Place::Scratch),
            ("/tmp/calibrun-no-such-name", Place::Scratch),
            ("/tmp", Place::Outside),
            ("/dev/shm/sem.calibrun-no-such", Place::Ipc),
            ("/etc/passwd", Place::Outside),
            ("/proc/7/comm", Place::Itself),
            ("/proc/7/mem", Place::Outside),
            ("/proc/7/task/7/mem", Place::Outside),
            ("/proc/7/uid_map", Place::Outside),
            ("/proc/8/comm", Place::Outside),
            ("/proc/sys/kernel/hostname", Place::Outside),
            ("pipe:[123]", Place::Itself),
            ("", Place::Outside),
            ("/memfd:x (deleted)", Place::Itself),
        ] {
            assert_eq!(place(path), expected, "{path}");
        }
    }

    #[test]
    fn a_folder_that_was_in_the_temp_folder_before_is_outside() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().canonicalize().unwrap();
        let mut map = places();
        map.temps = vec![Temp {
            path: old.parent().unwrap().to_owned(),
        }];
        let locate = |path: &Path| map.locate(path, None, &|_| false).place;
        assert_eq!(locate(&old.join("new")), Place::Outside);
        assert_eq!(
            locate(&old.parent().unwrap().join("calibrun-no-such-folder/new")),
            Place::Scratch
        );
    }

    #[test]
    fn shared_temp_folders_are_marked() {
        let mut map = places();
        map.mounts = false;
        let found = map.locate(Path::new("/tmp/x"), None, &|_| false);
        assert_eq!(
            found,
            Located {
                place: Place::Outside,
                mark: Some(Mark::TempNotPrivate)
            }
        );
        assert_eq!(
            map.locate(Path::new("/tmp/calibrun-x/y"), None, &|_| false),
            Place::Scratch.into()
        );
    }

    #[test]
    fn name_services_are_a_closed_list() {
        assert!(is_name_service(Path::new("/run/nscd/socket")));
        assert!(is_name_service(Path::new(
            "/run/systemd/userdb/io.systemd.Multiplexer"
        )));
        assert!(!is_name_service(Path::new("/run/systemd/userdb/a/b")));
        assert!(!is_name_service(Path::new("/run/docker.sock")));
        assert!(!is_name_service(Path::new("/run/nscd/socket2")));
    }
}
