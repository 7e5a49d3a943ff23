//! What a git folder means: refs, reflogs, index entries, config values, and which objects it has.
//!
//! Two git folders may hold the same in different files (packed or loose); this is what the
//! second equality, *restored*, compares. Everything is read tolerantly, since a subject wrote it.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{Config, Odb, Oid};

use super::index::IndexFile;
use super::{WorkspaceError, content};

/// One index entry without its stat data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Indexed {
    pub(crate) oid: [u8; 20],
    pub(crate) mode: u32,
    pub(crate) flags: u32,
}

/// The index: absent, understood, or only its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexMeaning {
    Absent,
    Entries(BTreeMap<(PathBuf, u8), Indexed>),
    Opaque(Vec<u8>),
}

/// Name and value of a config line; a name alone means true.
pub(crate) type Setting = (Vec<u8>, Option<Vec<u8>>);

/// The meaning of one git folder.
#[derive(Clone, Debug)]
pub(crate) struct GitState {
    /// HEAD and its like, and everything below `refs`: name to content (an oid, or `ref: name`).
    pub(crate) refs: BTreeMap<PathBuf, Vec<u8>>,
    /// Files below `logs`, with their bytes; the log of `refs/stash` holds the stashes.
    pub(crate) reflogs: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) index: IndexMeaning,
    /// Config file to its values in order, or `None` when libgit2 cannot read it.
    pub(crate) config: BTreeMap<PathBuf, Option<Vec<Setting>>>,
    /// Names of all objects that can be read.
    pub(crate) objects: Arc<HashSet<Oid>>,
}

/// Whether a file directly in a git folder is a ref like HEAD.
pub(crate) fn is_pseudo_ref(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let upper = bytes.iter().all(|b| b.is_ascii_uppercase() || *b == b'_');
    upper && (bytes.ends_with(b"HEAD") || bytes == b"AUTO_MERGE")
}

impl GitState {
    /// Reads the git folder `git_dir`.
    ///
    /// `earlier` is the state of the same folder before; `objects_kept` says that no file of its
    /// objects was changed or removed since, so that what could be read still can.
    pub(crate) fn read(
        git_dir: &Path,
        earlier: Option<&GitState>,
        objects_kept: bool,
    ) -> Result<GitState, WorkspaceError> {
        let mut refs = packed_refs(git_dir);
        let mut reflogs = BTreeMap::new();
        for entry in walkdir::WalkDir::new(git_dir.join("refs"))
            .into_iter()
            .flatten()
        {
            read_ref(git_dir, entry.path(), &mut refs);
        }
        for entry in std::fs::read_dir(git_dir).into_iter().flatten().flatten() {
            if is_pseudo_ref(&entry.file_name()) {
                read_ref(git_dir, &entry.path(), &mut refs);
            }
        }
        for entry in walkdir::WalkDir::new(git_dir.join("logs"))
            .into_iter()
            .flatten()
        {
            if entry.file_type().is_file()
                && let (Ok(bytes), Ok(name)) = (
                    content::read(entry.path()),
                    entry.path().strip_prefix(git_dir),
                )
            {
                reflogs.insert(name.to_path_buf(), bytes);
            }
        }
        let mut config = BTreeMap::new();
        for name in ["config", "config.worktree"] {
            if git_dir.join(name).symlink_metadata().is_ok() {
                config.insert(PathBuf::from(name), values(&git_dir.join(name)));
            }
        }
        Ok(GitState {
            refs,
            reflogs,
            index: read_index(&git_dir.join("index")),
            config,
            objects: read_objects(&git_dir.join("objects"), earlier, objects_kept)?,
        })
    }

    /// The reflog of the stash, newest last; empty when there is none.
    pub(crate) fn stash_log(&self) -> &[u8] {
        self.reflogs
            .get(Path::new("logs/refs/stash"))
            .map_or(&[], Vec::as_slice)
    }
}

fn read_ref(git_dir: &Path, path: &Path, refs: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let Ok(name) = path.strip_prefix(git_dir) else {
        return;
    };
    let Ok(meta) = path.symlink_metadata() else {
        return;
    };
    let value = if meta.is_symlink() {
        path.read_link()
            .map(|t| [b"link: ", t.as_os_str().as_bytes()].concat())
    } else if meta.is_file() {
        content::read(path)
    } else {
        return;
    };
    if let Ok(value) = value {
        refs.insert(name.to_path_buf(), value.trim_ascii_end().to_vec());
    }
}

fn packed_refs(git_dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let bytes = content::read(&git_dir.join("packed-refs")).unwrap_or_default();
    let lines = bytes
        .split(|b| *b == b'\n')
        .filter(|l| !matches!(l.first(), None | Some(b'#' | b'^')));
    lines
        .filter_map(|line| {
            let space = line.iter().position(|b| *b == b' ')?;
            Some((
                PathBuf::from(OsStr::from_bytes(&line[space + 1..])),
                line[..space].to_vec(),
            ))
        })
        .collect()
}

fn read_index(path: &Path) -> IndexMeaning {
    let Ok(bytes) = content::read(path) else {
        return IndexMeaning::Absent;
    };
    match IndexFile::parse(bytes.clone()) {
        Ok(index) => IndexMeaning::Entries(
            index
                .entries
                .into_iter()
                .map(|e| {
                    let indexed = Indexed {
                        oid: e.oid,
                        mode: e.mode,
                        flags: e.flags,
                    };
                    ((e.path, e.stage), indexed)
                })
                .collect(),
        ),
        Err(_) => IndexMeaning::Opaque(bytes),
    }
}

fn values(path: &Path) -> Option<Vec<Setting>> {
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let config = Config::open(path).ok()?;
    let mut found = Vec::new();
    config
        .entries(None)
        .ok()?
        .for_each(|entry| {
            if entry.include_depth() == 0 {
                let value = entry.has_value().then(|| entry.value_bytes().to_vec());
                found.push((entry.name_bytes().to_vec(), value));
            }
        })
        .ok()?;
    Some(found)
}

/// An object store of `objects` alone.
pub(crate) fn open_objects(objects: &Path) -> Result<Odb<'static>, WorkspaceError> {
    let fail = |source| WorkspaceError::Objects {
        path: objects.to_path_buf(),
        source,
    };
    let odb = Odb::new().map_err(fail)?;
    let text = objects
        .to_str()
        .ok_or_else(|| fail(git2::Error::from_str("the temp path is not UTF-8")))?;
    odb.add_disk_alternate(text).map_err(fail)?;
    Ok(odb)
}

fn read_objects(
    objects: &Path,
    earlier: Option<&GitState>,
    kept: bool,
) -> Result<Arc<HashSet<Oid>>, WorkspaceError> {
    // A linked worktree's own folder has none.
    if !objects.is_dir() {
        return Ok(Arc::default());
    }
    // What is borrowed is not there; the pristine copy borrows nothing, so somebody added it.
    if objects.join("info/alternates").symlink_metadata().is_ok() {
        return Ok(Arc::default());
    }
    let odb = open_objects(objects)?;
    let mut found = HashSet::new();
    let listed = odb.foreach(|oid| {
        found.insert(*oid);
        true
    });
    if listed.is_err() {
        return Ok(Arc::default());
    }
    if let Some(earlier) = earlier
        && !kept
    {
        // A name in an index or a folder is no object yet: read each that was there, which also
        // checks its bytes against its name.
        found.retain(|oid| !earlier.objects.contains(oid) || odb.read(*oid).is_ok());
    }
    Ok(Arc::new(found))
}
