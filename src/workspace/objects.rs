//! The objects of one git folder, read by libgit2 once it is known that they lead nowhere else.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use git2::{Odb, OdbObject, Oid};
use rustix::fs::FileType;

use super::beneath::Beneath;

/// Bytes of an object beyond which it counts as one that cannot be read: a few bytes on disk may
/// unpack to any size.
const OBJECT_LIMIT: usize = 2 << 30;

/// An object store of one folder alone.
pub(crate) struct ObjectStore {
    odb: Odb<'static>,
    /// What libgit2 opens is found through this descriptor, wherever the folder's name leads by then.
    folder: OwnedFd,
}

impl ObjectStore {
    /// Opens the folder `objects` of a tree; `None` where nothing is there.
    ///
    /// # Errors
    /// The text says why it cannot be known what objects are there: no folder, something in it
    /// that is neither file nor folder, objects that are borrowed from elsewhere.
    pub(crate) fn open(tree: &Beneath, objects: &Path) -> Result<Option<ObjectStore>, String> {
        let said = |error: io::Error| format!("cannot be read: {error}");
        match tree.kind(objects) {
            Ok(FileType::Directory) => {}
            Ok(_) => return Err("is no folder".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(said(error)),
        }
        // Libgit2 looks no deeper than this.
        let list = |path: &Path| tree.found_folder(path).and_then(|folder| folder.list());
        for (name, stat) in list(objects).map_err(said)? {
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => continue,
                FileType::Directory => {}
                _ => return Err(format!("{} is no folder", name.display())),
            }
            for (inner, stat) in list(&objects.join(&name)).map_err(said)? {
                let kind = FileType::from_raw_mode(stat.st_mode);
                if !matches!(kind, FileType::RegularFile | FileType::Directory) {
                    let what = Path::new(&name).join(&inner);
                    return Err(format!("{} is no regular file", what.display()));
                }
            }
        }
        match tree.kind(&objects.join("info/alternates")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) | Err(_) => return Err("borrows objects from elsewhere".to_owned()),
        }
        let folder = tree.folder(objects).map_err(said)?;
        let odb = Odb::new()
            .and_then(|odb| {
                odb.add_disk_alternate(&door(&folder))?;
                Ok(odb)
            })
            .map_err(|error| format!("cannot be opened: {}", error.message()))?;
        Ok(Some(ObjectStore { odb, folder }))
    }

    /// Names of all objects, which need not be readable.
    ///
    /// # Errors
    /// What libgit2 said of a pack that it cannot list.
    pub(crate) fn names(&self) -> Result<HashSet<Oid>, String> {
        let mut found = HashSet::new();
        self.odb
            .foreach(|oid| {
                found.insert(*oid);
                true
            })
            .map_err(|error| {
                let said = error.message().replace(&door(&self.folder), "objects");
                format!("cannot be listed: {said}")
            })?;
        Ok(found)
    }

    /// An object whose bytes fit its name.
    pub(crate) fn read(&self, oid: Oid) -> Option<OdbObject<'_>> {
        let (size, _) = self.odb.read_header(oid).ok()?;
        if size > OBJECT_LIMIT {
            return None;
        }
        self.odb.read(oid).ok()
    }
}

fn door(folder: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", folder.as_raw_fd())
}
