//! Every path below a tree with all that can differ, and how to take that twice cheaply.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use calibrun_sandbox::FileKind;
use rustix::fs::{Access, FileType};

use super::beneath::{Beneath, Found};
use super::gitstate::{GitState, Source};
use super::survey::kind_of;
use super::{WorkspaceError, content};

/// Bytes of the longest path that the system takes (`PATH_MAX`).
const PATH_LIMIT: usize = 4096;

/// Bytes by which a file may be larger than what it takes on disk and than it was before, and still
/// be read.
const SPARSE_LIMIT: u64 = 1 << 30;

/// Seconds and nanoseconds since the epoch.
pub type Moment = (i64, i64);

/// One path. The access time is no part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is; links are not followed.
    pub kind: FileKind,
    /// Permission bits with set-id and sticky bits (`0o7777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of a regular file; for a folder whatever the file system says.
    pub size: u64,
    /// Modification time.
    pub mtime: Moment,
    /// Change time.
    pub ctime: Moment,
    /// Inode number.
    pub inode: u64,
    /// When the inode was made, where the file system keeps that; inode numbers are used again.
    pub born: Option<Moment>,
    /// Names that lead to the inode.
    pub links: u64,
    /// Number of a device node, else 0.
    pub device: u64,
    /// Where a symbolic link leads.
    pub target: Option<PathBuf>,
    /// Digest of a regular file's bytes; `None` when it could not be read.
    pub sha256: Option<[u8; 32]>,
    /// Name of the blob that git would make of a regular file's bytes, or of a link's target.
    pub blob: Option<[u8; 20]>,
    /// Extended attributes that can be listed.
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
    /// Inode flags that somebody may set; `None` where there are none.
    pub flags: Option<u32>,
    /// Why `sha256` is missing.
    pub unreadable: Option<String>,
}

impl Entry {
    /// Whether the cheap part says that the bytes are the same.
    fn same_stat(&self, meta: &Metadata) -> bool {
        self.kind == kind_of(meta)
            && self.size == meta.len()
            && self.mtime == (meta.mtime(), meta.mtime_nsec())
            && self.ctime == (meta.ctime(), meta.ctime_nsec())
            && self.inode == meta.ino()
            && self.born == born(meta)
            && self.mode == meta.permissions().mode() & 0o7777
    }
}

fn born(meta: &Metadata) -> Option<Moment> {
    let since = meta.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((
        i64::try_from(since.as_secs()).ok()?,
        i64::from(since.subsec_nanos()),
    ))
}

/// All of a tree, its git folders included.
#[derive(Clone, Debug)]
pub struct Manifest {
    entries: BTreeMap<PathBuf, Entry>,
    git_dirs: Vec<PathBuf>,
    pub(crate) git: BTreeMap<PathBuf, GitState>,
    notes: Vec<String>,
}

impl Manifest {
    /// Reads everything below `root`. `git_dirs` are its git folders, relative to it.
    pub fn take(root: &Path, git_dirs: &[PathBuf]) -> Result<Manifest, WorkspaceError> {
        Manifest::read(root, git_dirs.to_vec(), None, &BTreeSet::new())
    }

    /// Reads the same tree again. The bytes of a file are read again when its size, times, inode or
    /// mode differ, or when it is in `written`: files that were opened for writing (relative to
    /// the root), since a mapped write need not show in the times.
    pub fn retake(
        &self,
        root: &Path,
        written: &BTreeSet<PathBuf>,
    ) -> Result<Manifest, WorkspaceError> {
        Manifest::read(root, self.git_dirs.clone(), Some(self), written)
    }

    /// The paths, relative to the root; the root itself is the empty path.
    pub fn entries(&self) -> &BTreeMap<PathBuf, Entry> {
        &self.entries
    }

    /// The entry of one path.
    pub fn get(&self, path: &Path) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// The git folders, relative to the root.
    pub fn git_dirs(&self) -> &[PathBuf] {
        &self.git_dirs
    }

    /// What could not be read, one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What could not be read of the meaning of git folders, one line each: changes there would not
    /// show.
    pub fn gaps(&self) -> Vec<String> {
        let lines = self.git.iter().flat_map(|(dir, state)| {
            let line = |(name, why): (&PathBuf, &String)| {
                format!(
                    "{}: {why}; `git fsck` may tell more",
                    dir.join(name).display()
                )
            };
            state.gaps.iter().map(line)
        });
        lines.collect()
    }

    /// The innermost git folder that holds `path`, if one does.
    pub fn git_dir_of(&self, path: &Path) -> Option<&Path> {
        let holding = self.git_dirs.iter().map(PathBuf::as_path);
        holding
            .filter(|dir| path.starts_with(dir))
            .max_by_key(|dir| dir.components().count())
    }

    fn read(
        root: &Path,
        git_dirs: Vec<PathBuf>,
        earlier: Option<&Manifest>,
        written: &BTreeSet<PathBuf>,
    ) -> Result<Manifest, WorkspaceError> {
        let mut entries = BTreeMap::new();
        let mut notes = Vec::new();
        let tree = Beneath::open(root).map_err(|source| WorkspaceError::Walk {
            path: root.to_path_buf(),
            source,
        })?;
        let closed = earlier.map(|m| open_up(&tree, m)).unwrap_or_default();
        for found in walkdir::WalkDir::new(root)
            .follow_links(false)
            .sort_by_file_name()
        {
            let (full, meta) = match found.and_then(|e| e.metadata().map(|m| (e.into_path(), m))) {
                Ok(pair) => pair,
                Err(error) if error.path().is_some_and(|p| p != root) => {
                    let path = error.path().unwrap_or(root);
                    let path = path
                        .strip_prefix(root)
                        .unwrap_or(path)
                        .display()
                        .to_string();
                    notes.push(format!("{path}: {error}"));
                    continue;
                }
                Err(error) => {
                    return Err(WorkspaceError::Walk {
                        path: root.to_path_buf(),
                        source: error.into(),
                    });
                }
            };
            let path = full.strip_prefix(root).unwrap_or(&full).to_path_buf();
            let known = earlier
                .filter(|_| !written.contains(&path))
                .and_then(|m| m.entries.get(&path));
            // Only what an arm may have made has bounds: a few blocks may pretend to any size.
            let bound = match earlier {
                None => u64::MAX,
                Some(earlier) => earlier
                    .entries
                    .get(&path)
                    .map_or(0, |entry| entry.size)
                    .max(meta.blocks().saturating_mul(512))
                    .saturating_add(SPARSE_LIMIT),
            };
            let mut entry = read_entry(&full, &meta, known, bound)?;
            if let Some(mode) = closed.get(&path) {
                entry.mode = *mode;
            }
            if let Some(why) = &entry.unreadable {
                notes.push(format!("{}: {why}", path.display()));
            }
            entries.insert(path, entry);
        }
        let git = read_git(&tree, &git_dirs, &entries, earlier);
        Ok(Manifest {
            entries,
            git_dirs,
            git,
            notes,
        })
    }
}

/// Lets the owner read what a subject has closed to everybody, and gives the mode that each had, by its path
/// relative to the tree. What is as it was in `earlier` stays as it is, and so does a file that may
/// have another name elsewhere.
fn open_up(tree: &Beneath, earlier: &Manifest) -> BTreeMap<PathBuf, u32> {
    let mut closed = BTreeMap::new();
    let mut left = vec![PathBuf::new()];
    while let Some(path) = left.pop() {
        let Ok(folder) = tree.found_folder(&path) else {
            continue;
        };
        let access = Access::READ_OK | Access::EXEC_OK;
        if is_closed(&folder, 0o500, access, earlier.get(&path))
            && folder.set_mode(folder.mode() | 0o500).is_ok()
        {
            closed.insert(path.clone(), folder.mode());
        }
        for (name, stat) in folder.list().unwrap_or_default() {
            let inner = path.join(name);
            match FileType::from_raw_mode(stat.st_mode) {
                // A walk by path gets no further either.
                FileType::Directory if inner.as_os_str().len() < PATH_LIMIT => left.push(inner),
                FileType::RegularFile if stat.st_mode & 0o400 == 0 => {
                    let known = earlier.get(&inner);
                    let Ok(file) = tree.find(&inner) else {
                        continue;
                    };
                    // What is not ours to open is told by whoever tries to read it.
                    if file.is_trees_own(known)
                        && is_closed(&file, 0o400, Access::READ_OK, known)
                        && file.set_mode(file.mode() | 0o400).is_ok()
                    {
                        closed.insert(inner, file.mode());
                    }
                }
                _ => {}
            }
        }
    }
    closed
}

/// Whether something has not the mode that it had, lacks some of the `wanted` bits, and refuses us.
fn is_closed(found: &Found, wanted: u32, access: Access, known: Option<&Entry>) -> bool {
    let mode = found.mode();
    mode & wanted != wanted && known.is_none_or(|entry| entry.mode != mode) && found.refuses(access)
}

/// What the git folders mean. One that is no folder any more, or to which a link leads, is gone.
fn read_git(
    tree: &Beneath,
    git_dirs: &[PathBuf],
    entries: &BTreeMap<PathBuf, Entry>,
    earlier: Option<&Manifest>,
) -> BTreeMap<PathBuf, GitState> {
    let mut git = BTreeMap::new();
    for dir in git_dirs {
        // A path below a link is no entry, since the walk follows none.
        if entries
            .get(dir)
            .is_none_or(|entry| entry.kind != FileKind::Folder)
        {
            continue;
        }
        let before = earlier.and_then(|m| m.git.get(dir));
        let kept = earlier.is_some_and(|m| same_below(&m.entries, entries, &dir.join("objects")));
        let source = Source { tree, entries, dir };
        git.insert(dir.clone(), GitState::read(source, before, kept));
    }
    git
}

/// Whether every file below `folder` that was there before is there with the same bytes.
fn same_below(
    before: &BTreeMap<PathBuf, Entry>,
    after: &BTreeMap<PathBuf, Entry>,
    folder: &Path,
) -> bool {
    before
        .range(folder.to_path_buf()..)
        .take_while(|(path, _)| path.starts_with(folder))
        .filter(|(_, old)| old.kind == FileKind::File)
        .all(|(path, old)| {
            after
                .get(path)
                .is_some_and(|new| new.sha256 == old.sha256 && new.sha256.is_some())
        })
}

fn read_entry(
    full: &Path,
    meta: &Metadata,
    known: Option<&Entry>,
    bound: u64,
) -> Result<Entry, WorkspaceError> {
    use std::os::unix::ffi::OsStrExt;
    let kind = kind_of(meta);
    let mut entry = Entry {
        kind,
        mode: meta.permissions().mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
        size: meta.len(),
        mtime: (meta.mtime(), meta.mtime_nsec()),
        ctime: (meta.ctime(), meta.ctime_nsec()),
        inode: meta.ino(),
        born: born(meta),
        links: meta.nlink(),
        device: meta.rdev(),
        target: None,
        sha256: None,
        blob: None,
        xattrs: BTreeMap::new(),
        flags: None,
        unreadable: None,
    };
    let readable = matches!(kind, FileKind::File | FileKind::Folder);
    if kind == FileKind::Symlink {
        let target = full.read_link().map_err(|source| WorkspaceError::Read {
            path: full.to_path_buf(),
            source,
        })?;
        entry.blob = Some(content::blob_of(target.as_os_str().as_bytes()));
        entry.target = Some(target);
    }
    match content::xattrs(full) {
        Ok(found) => entry.xattrs = found,
        Err(error) => entry.unreadable = Some(format!("its attributes cannot be read: {error}")),
    }
    if readable {
        entry.flags = content::inode_flags(full);
    }
    if kind == FileKind::File {
        match known.filter(|k| k.sha256.is_some() && k.same_stat(meta)) {
            Some(known) => (entry.sha256, entry.blob) = (known.sha256, known.blob),
            None if meta.len() > bound => {
                entry.unreadable = Some("holes beyond any measure".to_owned());
            }
            None => match content::digests(full) {
                Ok(digests) => {
                    (entry.sha256, entry.blob) = (Some(digests.sha256), Some(digests.blob))
                }
                Err(error) => entry.unreadable = Some(format!("cannot be read: {error}")),
            },
        }
    }
    Ok(entry)
}
