//! What a file holds: digests in one read, extended attributes, inode flags. No link is followed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{IFlags, OFlags};
use rustix::io::Errno;
use sha1::{Digest, Sha1};
use sha2::Sha256;

/// Digests of one content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) sha256: [u8; 32],
    /// Name of the blob that git would make of the bytes as they are.
    pub(crate) blob: [u8; 20],
}

/// Opens a regular file for reading, without touching its access time where the system allows.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let with = |extra: OFlags| {
        let bits = (flags | extra).bits();
        OpenOptions::new()
            .read(true)
            .custom_flags(bits.cast_signed())
            .open(path)
    };
    let file = match with(OFlags::NOATIME) {
        // Only the owner may ask for that.
        Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
            with(OFlags::empty())?
        }
        other => other?,
    };
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no longer a regular file",
        ))
    }
}

/// Reads a whole regular file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Digests of a regular file.
///
/// # Errors
/// Beside what the system says: a file whose size changes while it is read, since the name of
/// a blob begins with its size.
pub(crate) fn digests(path: &Path) -> io::Result<Digests> {
    digests_of(open(path)?)
}

/// The same of a file that is open at its begin.
pub(crate) fn digests_of(mut file: File) -> io::Result<Digests> {
    let size = file.metadata()?.len();
    let mut sha256 = Sha256::new();
    let mut blob = Sha1::new();
    blob.update(format!("blob {size}\0"));
    let mut buffer = vec![0; 1 << 16];
    let mut seen = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        sha256.update(&buffer[..count]);
        blob.update(&buffer[..count]);
        seen += count as u64;
    }
    if seen != size {
        return Err(io::Error::other("its size changed while it was read"));
    }
    Ok(Digests {
        sha256: sha256.finalize().into(),
        blob: blob.finalize().into(),
    })
}

/// Name of the blob that git would make of `bytes`.
pub(crate) fn blob_of(bytes: &[u8]) -> [u8; 20] {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hash.finalize().into()
}

/// Every extended attribute that can be listed. Empty where the file system has none.
pub(crate) fn xattrs(path: &Path) -> io::Result<BTreeMap<OsString, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let listed = match list(path) {
        Ok(listed) => listed,
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(found),
        Err(error) => return Err(error.into()),
    };
    for name in listed.split(|b| *b == 0).filter(|name| !name.is_empty()) {
        match value(path, OsStr::from_bytes(name)) {
            Ok(value) => found.insert(OsString::from_vec(name.to_vec()), value),
            // Gone since it was listed, or for others to read.
            Err(Errno::NODATA | Errno::ACCESS | Errno::PERM) => continue,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(found)
}

fn list(path: &Path) -> Result<Vec<u8>, Errno> {
    let size = rustix::fs::llistxattr_query(path)?;
    if size == 0 {
        return Ok(Vec::new());
    }
    let mut buffer = vec![0_u8; size + 256];
    let length = rustix::fs::llistxattr(path, &mut buffer[..])?;
    buffer.truncate(length);
    Ok(buffer)
}

fn value(path: &Path, name: &OsStr) -> Result<Vec<u8>, Errno> {
    let size = rustix::fs::lgetxattr_query(path, name)?;
    let mut buffer = vec![0_u8; size + 64];
    let length = rustix::fs::lgetxattr(path, name, &mut buffer[..])?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Inode flags that somebody may set (see ioctl_iflags(2)); `None` where the file system has none.
///
/// Flags that a file system keeps for itself (extents, hashed folders, inline data) are masked.
pub(crate) fn inode_flags(path: &Path) -> Option<u32> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, OFlags::RDONLY | flags, rustix::fs::Mode::empty()).ok()?;
    let found = rustix::fs::ioctl_getflags(&fd).ok()?;
    let settable = IFlags::COMPRESSED
        | IFlags::DIRSYNC
        | IFlags::IMMUTABLE
        | IFlags::JOURNALING
        | IFlags::NOATIME
        | IFlags::NOCOW
        | IFlags::NODUMP
        | IFlags::NOTAIL
        | IFlags::PROJECT_INHERIT
        | IFlags::SECURE_REMOVAL
        | IFlags::SYNC
        | IFlags::TOPDIR
        | IFlags::UNRM
        | IFlags::APPEND;
    Some((found & settable).bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blob_names_are_gits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "hello\n").unwrap();
        let expected = git2::Oid::hash_object(git2::ObjectType::Blob, b"hello\n").unwrap();
        assert_eq!(digests(&path).unwrap().blob, expected.as_bytes());
        assert_eq!(blob_of(b"hello\n"), expected.as_bytes());
    }

    #[test]
    fn a_link_is_never_opened() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "x").unwrap();
        std::os::unix::fs::symlink("f", dir.path().join("l")).unwrap();
        assert!(open(&dir.path().join("l")).is_err());
        assert!(open(&dir.path().join("f")).is_ok());
    }
}
