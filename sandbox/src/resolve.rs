//! What a path of the subject's leads to, found without ever opening it for use.
//!
//! Every step is an `O_PATH` open in the subject's own view of the file system, so nothing here can
//! block on a FIFO, trigger a device, or be sent into the supervisor's view by a symbolic link. The
//! answer is for the record and for refusals; what is permitted is decided by the layers below, on
//! the inode that the kernel itself reaches.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

use crate::attempt::FileKind;

/// Links followed before giving up, as in the kernel (path_resolution(7)).
const MOST_LINKS: u32 = 40;

/// Where a relative path starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// The thread's working folder.
    Cwd,
    /// An open descriptor of the thread's.
    Descriptor(i32),
}

/// Whether a symbolic link at the end is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Follow,
    Keep,
}

/// What a path led to.
#[derive(Debug)]
pub(crate) struct Found {
    /// Absolute, as the subject sees it, all links resolved but perhaps the last.
    pub path: PathBuf,
    /// The object at the end.
    pub object: Option<Object>,
    /// Why there is none: what the kernel would answer.
    pub error: Option<Errno>,
}

/// An existing object.
#[derive(Debug)]
pub(crate) struct Object {
    pub fd: OwnedFd,
    pub stat: FileStat,
    /// Its name is gone: a path of it means nothing.
    pub nameless: bool,
}

impl Object {
    pub(crate) fn kind(&self) -> FileKind {
        kind_of(&self.stat)
    }
}

pub(crate) fn kind_of(stat: &FileStat) -> FileKind {
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => FileKind::File,
        SFlag::S_IFDIR => FileKind::Folder,
        SFlag::S_IFLNK => FileKind::Symlink,
        SFlag::S_IFIFO => FileKind::Fifo,
        SFlag::S_IFSOCK => FileKind::Socket,
        SFlag::S_IFCHR | SFlag::S_IFBLK => FileKind::Device,
        _ => FileKind::Other,
    }
}

/// Resolves paths in one subject's view.
#[derive(Debug)]
pub(crate) struct Resolver {
    root: OwnedFd,
}

/// The steps of a slow walk that are still to do.
type Steps = VecDeque<OsString>;

impl Resolver {
    /// `root`: the subject's root folder, opened through `/proc/PID/root`.
    pub(crate) fn new(root: OwnedFd) -> Resolver {
        Resolver { root }
    }

    /// Resolves `path` for thread `tid`, whose own number inside its view is `inner`.
    ///
    /// `Err` means that the thread or the descriptor could not be looked at.
    pub(crate) fn path(
        &self,
        tid: i32,
        inner: i32,
        base: Base,
        path: &[u8],
        end: End,
    ) -> Result<Found, Errno> {
        if path.is_empty() {
            return Ok(Found {
                path: PathBuf::new(),
                object: None,
                error: Some(Errno::ENOENT),
            });
        }
        let full = if path[0] == b'/' {
            PathBuf::from(OsStr::from_bytes(path))
        } else {
            let (base_path, base) = self.base(tid, base)?;
            if base.nameless {
                // No absolute name leads there: walk from the descriptor itself.
                return self.walk(Some(base.fd), steps_of(path), inner, end);
            }
            if base.kind() != FileKind::Folder {
                return Ok(Found {
                    path: base_path,
                    object: None,
                    error: Some(Errno::ENOTDIR),
                });
            }
            base_path.join(OsStr::from_bytes(path))
        };
        if let Some(found) = self.quick(&full, end) {
            return Ok(found);
        }
        self.walk(None, steps_of(full.as_os_str().as_bytes()), inner, end)
    }

    /// The object behind descriptor `fd` of thread `tid`, and its path (or `pipe:[…]` and the like).
    pub(crate) fn descriptor(&self, tid: i32, fd: i32) -> Result<(PathBuf, Object), Errno> {
        open_link(&format!("/proc/{tid}/fd/{fd}"))
    }

    /// Whether `path`, which the kernel itself named, is a folder.
    pub(crate) fn is_folder(&self, path: &Path) -> bool {
        let fd = self.open_in_root(path, true);
        fd.and_then(fstat)
            .is_ok_and(|stat| kind_of(&stat) == FileKind::Folder)
    }

    /// The working folder of thread `tid`.
    pub(crate) fn working_folder(&self, tid: i32) -> Result<(PathBuf, Object), Errno> {
        open_link(&format!("/proc/{tid}/cwd"))
    }

    fn base(&self, tid: i32, base: Base) -> Result<(PathBuf, Object), Errno> {
        match base {
            Base::Cwd => self.working_folder(tid),
            Base::Descriptor(fd) => self.descriptor(tid, fd),
        }
    }

    /// One or two calls for the common case; `None` when the slow walk must look.
    fn quick(&self, full: &Path, end: End) -> Option<Found> {
        let bytes = full.as_os_str().as_bytes();
        if bytes.starts_with(b"/proc") || bytes.starts_with(b"/dev") {
            return None; // links that lead to the reader, not to the subject
        }
        let slash_end = bytes.ends_with(b"/") || bytes.ends_with(b"/.") || bytes.ends_with(b"/..");
        let keep = end == End::Keep && !slash_end;
        match self.open_in_root(full, keep) {
            Ok(fd) => {
                let path = path_of(&fd).ok()?;
                if path.starts_with("/proc") || path.starts_with("/dev") {
                    return None;
                }
                let object = object(fd).ok()?;
                (!object.nameless).then_some(Found {
                    path,
                    object: Some(object),
                    error: None,
                })
            }
            Err(Errno::ENOENT) if !slash_end => {
                let (parent, name) = (full.parent()?, full.file_name()?);
                let fd = self.open_in_root(parent, false).ok()?;
                // A dangling link at the end exists itself: the slow walk follows it.
                if end == End::Follow && openat(&fd, name, PROBE, Mode::empty()).is_ok() {
                    return None;
                }
                let path = path_of(&fd).ok()?;
                if path.starts_with("/proc") || path.starts_with("/dev") {
                    return None;
                }
                Some(Found {
                    path: path.join(name),
                    object: None,
                    error: Some(Errno::ENOENT),
                })
            }
            Err(_) => None,
        }
    }

    fn open_in_root(&self, path: &Path, keep_last: bool) -> Result<OwnedFd, Errno> {
        let mut flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        if keep_last {
            flags |= OFlag::O_NOFOLLOW;
        }
        let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        openat2(
            &self.root,
            path,
            OpenHow::new().flags(flags).resolve(resolve),
        )
    }

    /// Component by component, with links read here: procfs links mean the subject, not the reader.
    fn walk(
        &self,
        start: Option<OwnedFd>,
        mut steps: Steps,
        inner: i32,
        end: End,
    ) -> Result<Found, Errno> {
        let root = || openat(&self.root, ".", PROBE, Mode::empty());
        let mut at = match start {
            Some(fd) => fd,
            None => root()?,
        };
        let mut links = 0;
        let must_be_folder = steps.back().is_some_and(|s| s.is_empty());
        while steps.back().is_some_and(|s| s.is_empty()) {
            steps.pop_back();
        }
        while let Some(step) = steps.pop_front() {
            if step == "." || step.is_empty() {
                continue;
            }
            if step == "/" {
                at = root()?;
                continue;
            }
            let here = fstat(&at)?;
            if kind_of(&here) != FileKind::Folder {
                return Ok(Found {
                    path: path_of(&at)?,
                    object: None,
                    error: Some(Errno::ENOTDIR),
                });
            }
            let next = match openat(&at, step.as_os_str(), PROBE, Mode::empty()) {
                Ok(fd) => fd,
                Err(error) => {
                    let mut path = path_of(&at)?.join(&step);
                    // What follows a missing folder is part of what was asked for.
                    path.extend(steps.iter().filter(|s| *s != "/"));
                    return Ok(Found {
                        path,
                        object: None,
                        error: Some(error),
                    });
                }
            };
            let stat = fstat(&next)?;
            if kind_of(&stat) != FileKind::Symlink {
                at = next;
                continue;
            }
            let last = steps.is_empty();
            if last && end == End::Keep && !must_be_folder {
                return Ok(Found {
                    path: path_of(&at)?.join(&step),
                    object: Some(object(next)?),
                    error: None,
                });
            }
            links += 1;
            if links > MOST_LINKS {
                return Ok(Found {
                    path: path_of(&at)?.join(&step),
                    object: None,
                    error: Some(Errno::ELOOP),
                });
            }
            if fstatfs(&next)?.filesystem_type() == PROC_SUPER_MAGIC {
                if step == "self" || step == "thread-self" {
                    steps.push_front(OsString::from(inner.to_string()));
                    continue;
                }
                // fd/N, cwd, exe, root: the kernel jumps to the object itself, and so do we.
                match openat(
                    &at,
                    step.as_os_str(),
                    OFlag::O_PATH | OFlag::O_CLOEXEC,
                    Mode::empty(),
                ) {
                    Ok(fd) => at = fd,
                    Err(error) => {
                        return Ok(Found {
                            path: path_of(&at)?.join(&step),
                            object: None,
                            error: Some(error),
                        });
                    }
                }
                continue;
            }
            let target = readlinkat(&next, "")?;
            for part in steps_of(target.as_bytes()).into_iter().rev() {
                steps.push_front(part);
            }
        }
        let path = path_of(&at)?;
        let object = object(at)?;
        if must_be_folder && object.kind() != FileKind::Folder {
            return Ok(Found {
                path,
                object: None,
                error: Some(Errno::ENOTDIR),
            });
        }
        Ok(Found {
            path,
            object: Some(object),
            error: None,
        })
    }
}

/// Looks at one name without following, opening or blocking.
const PROBE: OFlag = OFlag::O_PATH
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Splits a path into steps: `/` for an absolute start, an empty one for a slash at the end.
fn steps_of(path: &[u8]) -> Steps {
    let mut steps = Steps::new();
    if path.first() == Some(&b'/') {
        steps.push_back("/".into());
    }
    let mut parts = path.split(|b| *b == b'/').peekable();
    while let Some(part) = parts.next() {
        if !part.is_empty() {
            steps.push_back(OsString::from_vec(part.to_vec()));
        } else if parts.peek().is_none() && steps.iter().any(|s| s != "/") {
            steps.push_back(OsString::new());
        }
    }
    steps
}

fn object(fd: OwnedFd) -> Result<Object, Errno> {
    let stat = fstat(&fd)?;
    let nameless = stat.st_nlink == 0;
    Ok(Object { fd, stat, nameless })
}

/// Opens a magic link of /proc with `O_PATH`, and says what it shows.
fn open_link(link: &str) -> Result<(PathBuf, Object), Errno> {
    let fd = nix::fcntl::open(link, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let path = path_of(&fd)?;
    Ok((path, object(fd)?))
}

/// The kernel's own name for an open object, in the view it was opened in.
pub(crate) fn path_of(fd: impl AsFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    nix::fcntl::readlink(link.as_str()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> (Resolver, i32) {
        let root = nix::fcntl::open("/", OFlag::O_PATH, Mode::empty()).unwrap();
        (Resolver::new(root), std::process::id() as i32)
    }

    fn look(path: &str, end: End) -> Found {
        let (resolver, pid) = own();
        resolver
            .path(pid, pid, Base::Cwd, path.as_bytes(), end)
            .unwrap()
    }

    #[test]
    fn links_in_the_middle_are_followed_and_one_at_the_end_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("real")).unwrap();
        std::fs::write(top.join("real/file"), "x").unwrap();
        std::os::unix::fs::symlink("real", top.join("middle")).unwrap();
        std::os::unix::fs::symlink("../real/file", top.join("real/last")).unwrap();
        let path = top.join("middle/last");
        let kept = look(path.to_str().unwrap(), End::Keep);
        assert_eq!(kept.path, top.join("real/last"));
        assert_eq!(kept.object.unwrap().kind(), FileKind::Symlink);
        let followed = look(path.to_str().unwrap(), End::Follow);
        assert_eq!(followed.path, top.join("real/file"));
        assert_eq!(followed.object.unwrap().kind(), FileKind::File);
    }

    #[test]
    fn a_dangling_link_leads_to_the_name_it_would_create() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink("elsewhere", top.join("link")).unwrap();
        let found = look(top.join("link").to_str().unwrap(), End::Follow);
        assert_eq!(found.path, top.join("elsewhere"));
        assert_eq!(found.error, Some(Errno::ENOENT));
    }

    #[test]
    fn proc_self_means_the_thread_that_is_looked_at() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().canonicalize().unwrap();
        let found = look(
            &format!("/proc/self/fd/{}", file.as_file().as_raw_fd()),
            End::Follow,
        );
        assert_eq!(found.path, path);
        let found = look(
            &format!("/dev/fd/{}", file.as_file().as_raw_fd()),
            End::Follow,
        );
        assert_eq!(found.path, path);
    }

    #[test]
    fn dots_do_not_leave_the_root_and_missing_folders_are_named() {
        assert_eq!(look("/../../etc", End::Follow).path, Path::new("/etc"));
        let found = look("/no-such-folder/x", End::Follow);
        assert_eq!(
            (found.path, found.error),
            (PathBuf::from("/no-such-folder/x"), Some(Errno::ENOENT))
        );
        let found = look("/etc/passwd/x", End::Follow);
        assert_eq!(found.error, Some(Errno::ENOTDIR));
        assert_eq!(look("", End::Follow).error, Some(Errno::ENOENT));
    }

    #[test]
    fn a_circle_of_links_ends() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("b", dir.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("b")).unwrap();
        assert_eq!(
            look(dir.path().join("a").to_str().unwrap(), End::Follow).error,
            Some(Errno::ELOOP)
        );
    }

    #[test]
    fn a_folder_that_was_removed_is_still_walked() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        std::fs::create_dir(&gone).unwrap();
        let fd = nix::fcntl::open(&gone, OFlag::O_PATH, Mode::empty()).unwrap();
        std::fs::remove_dir(&gone).unwrap();
        let (resolver, pid) = own();
        let found = resolver
            .path(
                pid,
                pid,
                Base::Descriptor(fd.as_raw_fd()),
                b"x",
                End::Follow,
            )
            .unwrap();
        assert_eq!(found.error, Some(Errno::ENOENT));
    }
}
