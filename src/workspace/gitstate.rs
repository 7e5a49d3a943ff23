//! What a git folder means: refs, reflogs, index entries, config values, and which objects it has.
//!
//! Two git folders may hold the same in different files (packed or loose); this is what the
//! second equality, *restored*, compares. A subject may have put anything there: everything is
//! read through a descriptor of the tree, from regular files of bounded size, and what cannot be
//! read so is a gap, never the same as nothing.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use calibrun_sandbox::FileKind;
use git2::Oid;

use super::beneath::Beneath;
use super::config::ConfigMeaning;
use super::index::IndexFile;
use super::manifest::Entry;
use super::objects::ObjectStore;

/// Bytes of a loose ref or of a file like HEAD; git writes 41 or the name of another ref.
const REF_LIMIT: u64 = 4 << 10;
/// Bytes of a config file.
const CONFIG_LIMIT: u64 = 16 << 20;
/// Bytes of everything else that is read of one git folder, together: logs, packed refs, index.
const WHOLE_LIMIT: u64 = 512 << 20;

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

/// The meaning of one git folder. Paths are relative to it.
#[derive(Clone, Debug)]
pub(crate) struct GitState {
    /// HEAD and its like, and everything below `refs`: name to content (an oid, or `ref: name`).
    pub(crate) refs: BTreeMap<PathBuf, Vec<u8>>,
    /// Files below `logs`, with their bytes; the log of `refs/stash` holds the stashes.
    pub(crate) reflogs: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) index: IndexMeaning,
    /// What each config file says.
    pub(crate) config: BTreeMap<PathBuf, ConfigMeaning>,
    /// Names of all objects that can be read.
    pub(crate) objects: Arc<HashSet<Oid>>,
    /// What could not be read, and why; it may mean anything.
    pub(crate) gaps: BTreeMap<PathBuf, String>,
}

/// A git folder to be read.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The tree.
    pub(crate) tree: &'a Beneath,
    /// Everything in the tree, as a walk that follows no link found it.
    pub(crate) entries: &'a BTreeMap<PathBuf, Entry>,
    /// The git folder, relative to the tree.
    pub(crate) dir: &'a Path,
}

/// Whether a file directly in a git folder is a ref like HEAD.
pub(crate) fn is_pseudo_ref(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let upper = bytes.iter().all(|b| b.is_ascii_uppercase() || *b == b'_');
    upper && (bytes.ends_with(b"HEAD") || bytes == b"AUTO_MERGE")
}

/// Whether a name in the packed refs is one that git would write there; the others could lead anywhere.
pub(crate) fn is_packed_name(name: &Path) -> bool {
    name.starts_with("refs") && name.components().all(|c| matches!(c, Component::Normal(_)))
}

impl GitState {
    /// Reads a git folder.
    ///
    /// `earlier` is the state of the same folder before; `objects_kept` says that no file of its
    /// objects was changed or removed since, so that what could be read still can.
    pub(crate) fn read(
        source: Source<'_>,
        earlier: Option<&GitState>,
        objects_kept: bool,
    ) -> GitState {
        let mut reading = Reading {
            source,
            left: WHOLE_LIMIT,
            gaps: BTreeMap::new(),
        };
        let mut refs = reading.packed_refs();
        reading.loose_refs(&mut refs);
        let reflogs = reading.reflogs();
        let index = reading.index();
        let config = reading.config();
        let objects = match read_objects(source, earlier, objects_kept) {
            Ok(objects) => objects,
            Err(why) => {
                reading.gaps.insert(PathBuf::from("objects"), why);
                Arc::default()
            }
        };
        GitState {
            refs,
            reflogs,
            index,
            config,
            objects,
            gaps: reading.gaps,
        }
    }

    /// The reflog of the stash, newest last; empty when there is none.
    pub(crate) fn stash_log(&self) -> &[u8] {
        self.reflogs
            .get(Path::new("logs/refs/stash"))
            .map_or(&[], Vec::as_slice)
    }
}

struct Reading<'a> {
    source: Source<'a>,
    /// Bytes that may still be read.
    left: u64,
    gaps: BTreeMap<PathBuf, String>,
}

impl<'a> Reading<'a> {
    fn entry(&self, name: &Path) -> Option<&'a Entry> {
        self.source.entries.get(&self.source.dir.join(name))
    }

    /// Everything below a folder of the git folder, by its path in it.
    fn below(&self, folder: &str) -> impl Iterator<Item = (&'a Path, &'a Entry)> + use<'a> {
        let dir = self.source.dir;
        let top = dir.join(folder);
        self.source
            .entries
            .range(top.clone()..)
            .take_while(move |(path, _)| path.starts_with(&top))
            .filter_map(move |(path, entry)| Some((path.strip_prefix(dir).ok()?, entry)))
    }

    /// The bytes of a regular file; what is none has no meaning, what cannot be read is a gap.
    fn bytes(&mut self, name: &Path, limit: u64) -> Option<Vec<u8>> {
        if self.entry(name)?.kind != FileKind::File {
            return None;
        }
        let path = self.source.dir.join(name);
        match self.source.tree.read(&path, limit.min(self.left)) {
            Ok(bytes) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                Some(bytes)
            }
            Err(error) => {
                self.gaps.insert(name.to_path_buf(), unread(&error));
                None
            }
        }
    }

    fn packed_refs(&mut self) -> BTreeMap<PathBuf, Vec<u8>> {
        let file = Path::new("packed-refs");
        let bytes = self.bytes(file, WHOLE_LIMIT).unwrap_or_default();
        let mut found = BTreeMap::new();
        for line in bytes.split(|b| *b == b'\n') {
            if matches!(line.first(), None | Some(b'#' | b'^')) {
                continue;
            }
            let Some(space) = line.iter().position(|b| *b == b' ') else {
                self.gaps
                    .insert(file.to_path_buf(), "a line names no ref".to_owned());
                continue;
            };
            let name = Path::new(OsStr::from_bytes(&line[space + 1..]));
            if is_packed_name(name) {
                found.insert(name.to_path_buf(), line[..space].to_vec());
            } else {
                let why = format!("{} is no name of a ref", name.display());
                self.gaps.insert(file.to_path_buf(), why);
            }
        }
        found
    }

    fn loose_refs(&mut self, refs: &mut BTreeMap<PathBuf, Vec<u8>>) {
        let beside = self.below("").filter(|(name, _)| {
            name.parent() == Some(Path::new("")) && name.file_name().is_some_and(is_pseudo_ref)
        });
        let found: Vec<_> = self.below("refs").chain(beside).collect();
        for (name, entry) in found {
            let value = match (entry.kind, &entry.target) {
                (FileKind::Symlink, Some(target)) => {
                    Some([b"link: ", target.as_os_str().as_bytes()].concat())
                }
                _ => self.bytes(name, REF_LIMIT),
            };
            if let Some(value) = value {
                refs.insert(name.to_path_buf(), value.trim_ascii_end().to_vec());
            }
        }
    }

    fn reflogs(&mut self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        for (name, _) in self.below("logs") {
            if let Some(bytes) = self.bytes(name, WHOLE_LIMIT) {
                found.insert(name.to_path_buf(), bytes);
            }
        }
        found
    }

    fn index(&mut self) -> IndexMeaning {
        let Some(bytes) = self.bytes(Path::new("index"), WHOLE_LIMIT) else {
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

    fn config(&mut self) -> BTreeMap<PathBuf, ConfigMeaning> {
        let mut found = BTreeMap::new();
        for name in ["config", "config.worktree"] {
            if let Some(bytes) = self.bytes(Path::new(name), CONFIG_LIMIT) {
                found.insert(PathBuf::from(name), ConfigMeaning::of(bytes));
            }
        }
        found
    }
}

fn unread(error: &io::Error) -> String {
    format!("cannot be read: {error}")
}

fn read_objects(
    source: Source<'_>,
    earlier: Option<&GitState>,
    kept: bool,
) -> Result<Arc<HashSet<Oid>>, String> {
    let Some(store) = ObjectStore::open(source.tree, &source.dir.join("objects"))? else {
        // A linked worktree's own folder has none.
        return Ok(Arc::default());
    };
    let mut found = store.names()?;
    if let Some(earlier) = earlier
        && !kept
    {
        // A name in an index or a folder is no object yet: read each that was there, which also
        // checks its bytes against its name.
        found.retain(|oid| !earlier.objects.contains(oid) || store.read(*oid).is_some());
    }
    Ok(Arc::new(found))
}
