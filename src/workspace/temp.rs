//! Temp roots: private folders with guarded removal.
//!
//! Removal follows no link, stays on the root's own file system, and takes away what forbids it,
//! since a subject may leave anything behind.

use std::ffi::OsStr;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, Mode, StatVfsMountFlags};

use super::WorkspaceError;
use super::removal::{FOLDER, open_folder, remove_entry};

/// How every temp root's name begins.
pub const PREFIX: &str = "calibrun-";

/// `TMPFS_MAGIC` of linux/magic.h.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Where temp roots may lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TempPlaces {
    /// Preferred when it is a tmpfs with room from which programs may be executed.
    pub fast: PathBuf,
    /// Used otherwise; the system's temp folder.
    pub slow: PathBuf,
}

impl Default for TempPlaces {
    fn default() -> TempPlaces {
        TempPlaces {
            fast: PathBuf::from("/dev/shm"),
            slow: PathBuf::from("/tmp"),
        }
    }
}

/// A private folder (mode 0700), removed with all that is in it when dropped.
#[derive(Debug)]
pub struct TempRoot {
    path: PathBuf,
    kept: bool,
    scratches: AtomicU32,
}

impl TempRoot {
    /// A temp root with room for `need` bytes: on the fast place if that is a tmpfs, allows
    /// execution and has the room, else on the slow one.
    pub fn with_room(need: u64, places: &TempPlaces) -> Result<TempRoot, WorkspaceError> {
        if is_fast(&places.fast, need)
            && let Ok(root) = TempRoot::below(&places.fast)
        {
            return Ok(root);
        }
        let stat = rustix::fs::statvfs(&places.slow).map_err(|e| WorkspaceError::TempRoot {
            path: places.slow.clone(),
            source: e.into(),
        })?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < need {
            return Err(WorkspaceError::NoRoom {
                path: places.slow.clone(),
                need,
                free,
            });
        }
        TempRoot::below(&places.slow)
    }

    /// A temp root below `dir`, for instance a second one below `/tmp`.
    pub fn below(dir: &Path) -> Result<TempRoot, WorkspaceError> {
        let fail = |source| WorkspaceError::TempRoot {
            path: dir.to_path_buf(),
            source,
        };
        let dir = dir.canonicalize().map_err(fail)?;
        let made = tempfile::Builder::new()
            .prefix(PREFIX)
            .rand_bytes(8)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&dir)
            .map_err(fail)?;
        Ok(TempRoot {
            path: made.keep(),
            kept: false,
            scratches: AtomicU32::new(0),
        })
    }

    /// Absolute, free of links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A fresh empty folder (mode 0700) for one run; the caller removes it with [`TempRoot::discard`].
    pub fn scratch(&self) -> io::Result<PathBuf> {
        let number = self.scratches.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("scratch-{number}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    /// Removes `path`, which must lie below this root, with all that is in it.
    ///
    /// # Errors
    /// `InvalidInput` when it lies elsewhere; else what the system said of the first entry that
    /// could not be removed (the others are removed all the same).
    pub fn discard(&self, path: &Path) -> io::Result<()> {
        let Ok(rest) = path.strip_prefix(&self.path) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not below this temp root",
            ));
        };
        let names: Vec<&OsStr> = rest
            .components()
            .map(|c| match c {
                Component::Normal(name) => Ok(name),
                Component::Prefix(_)
                | Component::RootDir
                | Component::CurDir
                | Component::ParentDir => Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "not a plain path below this temp root",
                )),
            })
            .collect::<io::Result<_>>()?;
        let Some((last, parents)) = names.split_last() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the temp root itself",
            ));
        };
        let (mut dir, device) = open_top(&self.path)?;
        for name in parents {
            dir = open_folder(&dir, name, device)?;
        }
        remove_entry(&dir, last, device)
    }

    /// Leaves the folder where it is, and says where.
    pub fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }

    /// Removes the folder now, and says what stood in the way.
    pub fn remove(mut self) -> io::Result<()> {
        self.kept = true;
        remove_root(&self.path)
    }
}

impl Drop for TempRoot {
    fn drop(&mut self) {
        if !self.kept {
            // Nobody is left to tell; a leftover keeps its recognisable name.
            let _ = remove_root(&self.path);
        }
    }
}

fn is_fast(dir: &Path, need: u64) -> bool {
    let Ok(fs) = rustix::fs::statfs(dir) else {
        return false;
    };
    let Ok(vfs) = rustix::fs::statvfs(dir) else {
        return false;
    };
    let refused = StatVfsMountFlags::NOEXEC | StatVfsMountFlags::RDONLY;
    fs.f_type as u64 == TMPFS_MAGIC
        && !vfs.f_flag.intersects(refused)
        && vfs.f_bavail.saturating_mul(vfs.f_frsize) >= need
}

/// Whether `path` is named like a temp root; the last guard before a removal.
fn remove_root(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a temp root",
        ));
    };
    if !name.as_bytes().starts_with(PREFIX.as_bytes()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a temp root",
        ));
    }
    let (_, device) = open_top(path)?;
    let parent = rustix::fs::openat(CWD, parent, FOLDER, Mode::empty())?;
    remove_entry(&parent, name, device)
}

fn open_top(path: &Path) -> io::Result<(OwnedFd, u64)> {
    let fd = rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?;
    let device = rustix::fs::fstat(&fd)?.st_dev;
    Ok((fd, device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn two_roots_do_not_meet_and_are_private() {
        let base = tempfile::tempdir().unwrap();
        let one = TempRoot::below(base.path()).unwrap();
        let two = TempRoot::below(base.path()).unwrap();
        assert_ne!(one.path(), two.path());
        assert_eq!(mode(one.path()), 0o700);
        assert!(
            one.path()
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(PREFIX)
        );
    }

    #[test]
    fn removal_takes_read_only_folders_and_follows_no_link() {
        let base = tempfile::tempdir().unwrap();
        let outside = base.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        let root = TempRoot::below(base.path()).unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, inner.join("link")).unwrap();
        fs::set_permissions(inner.join("file"), Permissions::from_mode(0o400)).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(0o500)).unwrap();
        fs::set_permissions(root.path().join("a"), Permissions::from_mode(0o000)).unwrap();
        let path = root.path().to_path_buf();
        drop(root);
        assert!(!path.exists());
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "x");
    }

    #[test]
    fn a_kept_root_stays() {
        let base = tempfile::tempdir().unwrap();
        let path = TempRoot::below(base.path()).unwrap().keep();
        assert!(path.is_dir());
    }

    #[test]
    fn discard_refuses_what_is_not_below_the_root() {
        let base = tempfile::tempdir().unwrap();
        let root = TempRoot::below(base.path()).unwrap();
        let stranger = base.path().join("stranger");
        fs::create_dir(&stranger).unwrap();
        let name = root.path().file_name().unwrap().to_os_string();
        let crooked = root.path().join("..").join("stranger");
        for path in [
            &stranger,
            &crooked,
            &root.path().to_path_buf(),
            &base.path().join(name),
        ] {
            assert!(root.discard(path).is_err(), "{}", path.display());
        }
        assert!(stranger.is_dir());
        let scratch = root.scratch().unwrap();
        assert_eq!(mode(&scratch), 0o700);
        assert_ne!(scratch, root.scratch().unwrap());
        root.discard(&scratch).unwrap();
        assert!(!scratch.exists());
    }

    #[test]
    fn a_place_that_is_no_tmpfs_or_too_small_is_not_taken_as_fast() {
        assert!(!is_fast(Path::new("/proc"), 1));
        assert!(!is_fast(Path::new("/dev/shm"), u64::MAX));
        let base = tempfile::tempdir().unwrap();
        let places = TempPlaces {
            fast: PathBuf::from("/proc"),
            slow: base.path().to_path_buf(),
        };
        let root = TempRoot::with_room(1, &places).unwrap();
        assert!(root.path().starts_with(base.path().canonicalize().unwrap()));
        let none = TempRoot::with_room(u64::MAX, &places);
        assert!(matches!(none, Err(WorkspaceError::NoRoom { .. })));
    }
}
