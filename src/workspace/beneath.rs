//! A folder in which a subject may have put anything, and safe ways to reach what lies in it.
//!
//! Every path is relative to the folder and walked one name at a time: no link is followed anywhere
//! in it, no `..` taken, no other file system entered. Only regular files are opened, after they
//! have been seen to be such, so that no FIFO blocks and no device is woken.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::manifest::Entry;
use super::removal::{self, FOLDER};

/// A folder by its descriptor.
#[derive(Debug)]
pub(crate) struct Beneath {
    top: OwnedFd,
    device: u64,
}

/// A regular file or folder that was found below, opened for nothing yet.
pub(crate) struct Found {
    fd: OwnedFd,
    stat: Stat,
}

impl Beneath {
    /// Opens `top`, whose own path is trusted but for its last name.
    pub(crate) fn open(top: &Path) -> io::Result<Beneath> {
        let top = rustix::fs::openat(CWD, top, FOLDER, Mode::empty())?;
        let device = rustix::fs::fstat(&top)?.st_dev;
        Ok(Beneath { top, device })
    }

    /// A folder below; the empty path is the top itself.
    pub(crate) fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut at = self.top.try_clone()?;
        for part in path.components() {
            match part {
                Component::Normal(name) => at = removal::open_folder(&at, name, self.device)?,
                Component::CurDir => {}
                Component::Prefix(_) | Component::RootDir | Component::ParentDir => {
                    return Err(leads_out());
                }
            }
        }
        Ok(at)
    }

    /// The folder that holds `path`, and its name there.
    fn place<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        let name = path.file_name().ok_or_else(leads_out)?;
        Ok((self.folder(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// What the system says of what lies at `path`, which may be a link.
    pub(crate) fn stat(&self, path: &Path) -> io::Result<Stat> {
        let (dir, name) = self.place(path)?;
        Ok(rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// What lies at `path`, which may be a link.
    pub(crate) fn kind(&self, path: &Path) -> io::Result<FileType> {
        Ok(FileType::from_raw_mode(self.stat(path)?.st_mode))
    }

    /// Finds a folder.
    pub(crate) fn found_folder(&self, path: &Path) -> io::Result<Found> {
        let fd = self.folder(path)?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Found { fd, stat })
    }

    /// Finds a regular file.
    pub(crate) fn find(&self, path: &Path) -> io::Result<Found> {
        let (dir, name) = self.place(path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&dir, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        if stat.st_dev != self.device {
            return Err(io::Error::new(
                io::ErrorKind::CrossesDevices,
                "another file system",
            ));
        }
        Ok(Found { fd, stat })
    }

    /// Reads a regular file of at most `limit` bytes.
    ///
    /// # Errors
    /// `FileTooLarge` beyond the limit; `InvalidInput` for what is no regular file.
    pub(crate) fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.find(path)?.read(limit)
    }

    /// Where a symbolic link leads.
    pub(crate) fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let (dir, name) = self.place(path)?;
        let target = rustix::fs::readlinkat(&dir, name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Makes a regular file that was not there, with the mode that the umask leaves of `mode`.
    pub(crate) fn create(&self, path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&dir, name, flags, Mode::from_raw_mode(mode))?;
        File::from(fd).write_all(bytes)
    }

    /// Makes a symbolic link that was not there.
    pub(crate) fn symlink(&self, target: &OsStr, path: &Path) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        Ok(rustix::fs::symlinkat(target, &dir, name)?)
    }

    /// Makes a folder that was not there.
    pub(crate) fn create_folder(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        Ok(rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777))?)
    }

    /// Removes what is no folder, or an empty folder.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        match rustix::fs::unlinkat(&dir, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                Ok(rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)?)
            }
            other => Ok(other?),
        }
    }

    /// Removes whatever it is with all that is in it.
    pub(crate) fn remove_all(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        removal::remove_entry(&dir, name, self.device)
    }
}

impl Found {
    /// What the system says of it.
    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Bytes of it.
    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// Names in a folder, sorted, with what the system says of each.
    pub(crate) fn list(&self) -> io::Result<Vec<(OsString, Stat)>> {
        let mut names = removal::names(&self.fd)?;
        names.sort();
        names
            .into_iter()
            .map(|name| {
                let stat = rustix::fs::statat(&self.fd, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok((name, stat))
            })
            .collect()
    }

    /// Whether a file may be changed in place: it is the one that was `known` at its path, or has no
    /// other name, which could lie outside.
    pub(crate) fn is_trees_own(&self, known: Option<&Entry>) -> bool {
        self.stat.st_nlink == 1 || known.is_some_and(|entry| entry.inode == self.stat.st_ino)
    }

    /// Whether the system refuses us the access.
    pub(crate) fn refuses(&self, access: Access) -> bool {
        rustix::fs::access(self.door(), access).is_err()
    }

    /// Permission bits with set-id and sticky bits.
    pub(crate) fn mode(&self) -> u32 {
        self.stat.st_mode & 0o7777
    }

    /// Opens it again, this time for its bytes. The way leads through the descriptor and not the name.
    fn reopen(&self, flags: OFlags) -> io::Result<File> {
        let fd = rustix::fs::open(self.door(), flags | OFlags::CLOEXEC, Mode::empty())?;
        Ok(File::from(fd))
    }

    fn door(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    /// Opens it for reading, without touching its access time where the system allows.
    pub(crate) fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        match self.reopen(flags | OFlags::NOATIME) {
            // Only the owner may ask for that.
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                self.reopen(flags)
            }
            other => other,
        }
    }

    fn read(&self, limit: u64) -> io::Result<Vec<u8>> {
        let too_large = || {
            io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("more than {limit} bytes"),
            )
        };
        if self.size() > limit {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        self.open()?
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(too_large());
        }
        Ok(bytes)
    }

    /// Gives it other bytes in place; its mode stays.
    pub(crate) fn rewrite(&self, bytes: &[u8]) -> io::Result<()> {
        let mode = self.mode();
        if mode & 0o200 == 0 {
            self.set_mode(mode | 0o200)?;
        }
        let mut file = self.reopen(OFlags::WRONLY | OFlags::TRUNC | OFlags::NONBLOCK)?;
        file.write_all(bytes)?;
        drop(file);
        self.set_mode(mode)
    }

    /// Sets its permission bits.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::chmod(self.door(), Mode::from_raw_mode(mode))?)
    }
}

fn leads_out() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the path leads out")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A top with a file, and beside it a folder with a file that nothing may reach.
    fn place() -> (tempfile::TempDir, Beneath) {
        let base = tempfile::tempdir().unwrap();
        for (path, text) in [("top/in/file", "inside"), ("outside/file", "outside")] {
            let path = base.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        symlink("../outside", base.path().join("top/link")).unwrap();
        symlink("in", base.path().join("top/inner-link")).unwrap();
        symlink("../../outside/file", base.path().join("top/in/file-link")).unwrap();
        let beneath = Beneath::open(&base.path().join("top")).unwrap();
        (base, beneath)
    }

    #[test]
    fn nothing_is_reached_through_a_link_or_upwards() {
        let (base, beneath) = place();
        let outside = base.path().join("outside/file");
        let absolute = outside.to_str().unwrap();
        for path in [
            "link/file",
            "inner-link/file",
            "in/file-link",
            "../outside/file",
            "in/../../outside/file",
            "..",
            "",
            absolute,
        ] {
            let path = Path::new(path);
            let at = path.display();
            assert!(beneath.read(path, 100).is_err(), "{at}");
            assert!(beneath.find(path).is_err(), "{at}");
            assert!(beneath.create(path, 0o600, b"x").is_err(), "{at}");
            if !path.ends_with("file-link") {
                assert!(beneath.remove(path).is_err(), "{at}");
                assert!(beneath.remove_all(path).is_err(), "{at}");
            }
        }
        for path in ["link/new", "../new", "inner-link/new"] {
            let path = Path::new(path);
            assert!(beneath.create_folder(path).is_err());
            assert!(beneath.symlink(OsStr::new("x"), path).is_err());
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
        assert_eq!(
            fs::read_dir(base.path().join("outside")).unwrap().count(),
            1
        );
        assert_eq!(beneath.read(Path::new("in/file"), 100).unwrap(), b"inside");
    }

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let (base, beneath) = place();
        let top = base.path().join("top");
        rustix::fs::mknodat(
            CWD,
            top.join("fifo"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
        for name in ["fifo", "socket", "in", "link"] {
            assert!(beneath.read(Path::new(name), 100).is_err(), "{name}");
        }
        let file = Path::new("in/file");
        assert_eq!(beneath.read(file, 6).unwrap(), b"inside");
        let refused = beneath.read(file, 5).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_read_only_file_gets_other_bytes_and_keeps_its_mode() {
        let (base, beneath) = place();
        let file = base.path().join("top/in/file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
        let found = beneath.find(Path::new("in/file")).unwrap();
        found.rewrite(b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(
            file.metadata().unwrap().permissions().mode() & 0o7777,
            0o444
        );
    }
}
