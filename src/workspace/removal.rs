//! Removes a folder with all that is in it, however deep, with a few descriptors.
//!
//! No link is followed and no other file system entered. Nested folders are moved up into the
//! topmost one and emptied there, so that neither the depth nor the length of a path matters: a
//! subject may nest folders deeper than any path or descriptor table reaches.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, FileType, IFlags, Mode, OFlags};
use rustix::io::Errno;

/// How a folder is opened to work in it: by path only, never through a link.
pub(super) const FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// How often a folder is listed again that somebody still writes into.
const ROUNDS: u32 = 8;

/// Opens a folder in `dir` that lies on the file system `device`.
pub(super) fn open_folder(dir: &OwnedFd, name: &OsStr, device: u64) -> io::Result<OwnedFd> {
    let fd = rustix::fs::openat(dir, name, FOLDER, Mode::empty())?;
    if rustix::fs::fstat(&fd)?.st_dev != device {
        return Err(io::Error::new(
            io::ErrorKind::CrossesDevices,
            "another file system",
        ));
    }
    Ok(fd)
}

/// Removes one entry of `dir`, which lies on `device`.
///
/// # Errors
/// What the system said of the first entry that could not be removed; all others are gone.
pub(super) fn remove_entry(dir: &OwnedFd, name: &OsStr, device: u64) -> io::Result<()> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return unlink(dir, name);
    }
    let top = open_folder(dir, name, device)?;
    make_usable(&top)?;
    let mut removal = Removal {
        top,
        device,
        number: 0,
        first: None,
    };
    for _ in 0..ROUNDS {
        removal.empty_top();
        if removal.first.is_some() {
            break;
        }
        match remove_folder(dir, name) {
            Err(error) if error.raw_os_error() == Some(Errno::NOTEMPTY.raw_os_error()) => {}
            other => return other,
        }
    }
    Err(removal
        .first
        .unwrap_or_else(|| io::Error::from(Errno::NOTEMPTY)))
}

struct Removal {
    /// The folder that goes; nested ones are moved up into it.
    top: OwnedFd,
    device: u64,
    /// Last number of a folder that was moved up.
    number: u64,
    first: Option<io::Error>,
}

impl Removal {
    fn note(&mut self, path: impl Into<PathBuf>, error: io::Error) {
        // Gone already: an empty folder over which another was moved.
        if error.kind() == io::ErrorKind::NotFound {
            return;
        }
        let path = path.into();
        self.first.get_or_insert_with(|| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        });
    }

    fn empty_top(&mut self) {
        let mut pending = match names(&self.top) {
            Ok(names) => names,
            Err(error) => return self.note(".", error),
        };
        while let Some(name) = pending.pop() {
            match is_folder(&self.top, &name) {
                Ok(true) => self.empty_folder(&name, &mut pending),
                Ok(false) => {
                    if let Err(error) = unlink(&self.top, &name) {
                        self.note(&name, error);
                    }
                }
                Err(error) => self.note(&name, error),
            }
        }
    }

    /// Empties one folder of the top and removes it; what it holds of folders goes to `pending`.
    fn empty_folder(&mut self, name: &OsStr, pending: &mut Vec<OsString>) {
        let opened = open_folder(&self.top, name, self.device)
            .and_then(|folder| make_usable(&folder).map(|()| folder));
        let listed = opened.and_then(|folder| names(&folder).map(|names| (folder, names)));
        let (folder, inner) = match listed {
            Ok(pair) => pair,
            Err(error) => return self.note(name, error),
        };
        for inner in inner {
            let done = match is_folder(&folder, &inner) {
                Ok(true) => self.move_up(&folder, &inner, pending),
                Ok(false) => unlink(&folder, &inner),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                self.note(PathBuf::from(name).join(&inner), error);
            }
        }
        if let Err(error) = remove_folder(&self.top, name) {
            self.note(name, error);
        }
    }

    fn move_up(
        &mut self,
        from: &OwnedFd,
        name: &OsStr,
        pending: &mut Vec<OsString>,
    ) -> io::Result<()> {
        // An empty one goes at once, and a mount point must not be moved.
        let folder = open_folder(from, name, self.device)?;
        if remove_folder(from, name).is_ok() {
            return Ok(());
        }
        // Its own `..` changes, which takes the right to write into it.
        make_usable(&folder)?;
        loop {
            self.number += 1;
            let up = OsString::from(format!(".removal-{}", self.number));
            match rustix::fs::renameat(from, name, &self.top, &up) {
                Ok(()) => {
                    pending.push(up);
                    return Ok(());
                }
                // Something of that name is there.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_folder(dir: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Names in a folder that was opened by path only.
pub(super) fn names(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let listing = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = rustix::fs::openat(folder, c".", listing, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(readable)? {
        let entry = entry?;
        let bytes = entry.file_name().to_bytes();
        if bytes != b"." && bytes != b".." {
            names.push(OsStr::from_bytes(bytes).to_os_string());
        }
    }
    Ok(names)
}

/// Lets the owner list, enter and change a folder, whatever a subject made of it.
fn make_usable(folder: &OwnedFd) -> io::Result<()> {
    if rustix::fs::fstat(folder)?.st_mode & 0o700 != 0o700 {
        // Through the descriptor, so that a name swapped meanwhile is not followed.
        let door = format!("/proc/self/fd/{}", folder.as_raw_fd());
        match rustix::fs::chmod(&door, Mode::from_raw_mode(0o700)) {
            Err(Errno::PERM) if unlock(folder, c".".to_bytes()) => {
                rustix::fs::chmod(&door, Mode::from_raw_mode(0o700))?;
            }
            other => other?,
        }
    }
    // Nothing can be taken out of a folder that is sealed.
    unlock(folder, b".");
    Ok(())
}

fn unlink(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::PERM) if unlock(dir, name.as_bytes()) => {
            Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
        }
        other => Ok(other?),
    }
}

fn remove_folder(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Err(Errno::PERM) if unlock(dir, name.as_bytes()) => {
            Ok(rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?)
        }
        other => Ok(other?),
    }
}

/// Takes the flags away that forbid a removal (see ioctl_iflags(2)); whether any was there and went.
fn unlock(dir: &OwnedFd, name: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let name = OsStr::from_bytes(name);
    let plain = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::Directory | FileType::RegularFile
        )
    });
    if !plain {
        return false;
    }
    let Ok(file) = rustix::fs::openat(dir, name, flags, Mode::empty()) else {
        return false;
    };
    let Ok(found) = rustix::fs::ioctl_getflags(&file) else {
        return false;
    };
    let sealed = IFlags::IMMUTABLE | IFlags::APPEND;
    found.intersects(sealed) && rustix::fs::ioctl_setflags(&file, found - sealed).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use rustix::fs::CWD;

    use super::*;

    fn open(path: &Path) -> OwnedFd {
        rustix::fs::openat(CWD, path, FOLDER, Mode::empty()).unwrap()
    }

    fn remove(parent: &Path, name: &str) -> io::Result<()> {
        let dir = open(parent);
        let device = rustix::fs::fstat(&dir).unwrap().st_dev;
        remove_entry(&dir, OsStr::new(name), device)
    }

    /// Nests `depth` folders of the given name in `top`, each but the last with a file beside.
    fn nest(top: &Path, name: &str, depth: usize) -> OwnedFd {
        let mut at = open(top);
        for _ in 0..depth {
            rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o700)).unwrap();
            let file = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
            rustix::fs::openat(&at, c"file", file, Mode::from_raw_mode(0o600)).unwrap();
            at = rustix::fs::openat(&at, name, FOLDER, Mode::empty()).unwrap();
        }
        at
    }

    fn open_descriptors() -> usize {
        fs::read_dir("/proc/self/fd").unwrap().count()
    }

    #[test]
    fn depth_and_length_beyond_every_limit_are_no_obstacle() {
        let base = tempfile::tempdir().unwrap();
        let top = base.path().join("top");
        fs::create_dir(&top).unwrap();
        nest(&top, "d", 5000);
        // Each name as long as one may be: 40 of them pass PATH_MAX twice.
        nest(&top, &"n".repeat(255), 40);
        let before = open_descriptors();
        remove(base.path(), "top").unwrap();
        assert!(top.symlink_metadata().is_err());
        // Other tests of this process may hold some of their own.
        assert!(open_descriptors() < before + 64);
    }

    #[test]
    fn names_that_the_removal_itself_would_use_are_removed_too() {
        let base = tempfile::tempdir().unwrap();
        let top = base.path().join("top");
        fs::create_dir_all(top.join(".removal-1/x/y")).unwrap();
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::write(top.join(".removal-2"), "x").unwrap();
        fs::create_dir(top.join(".removal-3")).unwrap();
        remove(base.path(), "top").unwrap();
        assert!(top.symlink_metadata().is_err());
    }

    #[test]
    fn modes_and_flags_that_forbid_it_are_taken_away_and_links_are_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let outside = base.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        let top = base.path().join("top");
        let inner = top.join("a/b/c");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("sealed"), "x").unwrap();
        fs::write(top.join("a/only-grows"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, inner.join("link")).unwrap();
        std::os::unix::fs::symlink(&outside, top.join("link")).unwrap();
        // Only with the right to do so, and only where the file system has such flags.
        let seal = |file: &fs::File, flag: IFlags| {
            rustix::fs::ioctl_getflags(file)
                .is_ok_and(|old| rustix::fs::ioctl_setflags(file, old | flag).is_ok())
        };
        // Opened while an ordinary user still can.
        let opened = |path: PathBuf| fs::File::open(path).unwrap();
        let (grows, sealed) = (
            opened(top.join("a/only-grows")),
            opened(inner.join("sealed")),
        );
        let (folder, a, whole) = (opened(inner), opened(top.join("a")), opened(top.clone()));
        for mode in [top.join("a/b"), top.join("a")] {
            fs::set_permissions(mode, Permissions::from_mode(0o000)).unwrap();
        }
        seal(&grows, IFlags::APPEND);
        seal(&sealed, IFlags::IMMUTABLE);
        seal(&folder, IFlags::IMMUTABLE);
        seal(&a, IFlags::APPEND);
        seal(&whole, IFlags::IMMUTABLE);
        remove(base.path(), "top").unwrap();
        assert!(top.symlink_metadata().is_err());
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "x");
    }

    #[test]
    fn what_cannot_be_removed_is_named() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("top/a")).unwrap();
        // As if everything lay on another file system.
        let dir = open(base.path());
        let refused = remove_entry(&dir, OsStr::new("top"), u64::MAX);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::CrossesDevices);
        assert!(base.path().join("top/a").is_dir());
    }
}
