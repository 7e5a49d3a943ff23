//! Puts a tree back with nothing but what the arm left in it, to see whether that suffices.
//!
//! The baseline names what has to be there; the bytes come only from objects that the tree's own
//! git folders still reach. The pristine copy is never asked. Every read, write and removal goes
//! through a descriptor of the tree and follows no link, since the arm may have put links anywhere.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use calibrun_sandbox::FileKind;
use rustix::fs::FileType;

use super::beneath::Beneath;
use super::config::{self, ConfigMeaning};
use super::content;
use super::equality::{Residue, compare, restored};
use super::gitstate::{GitState, IndexMeaning, Indexed, is_packed_name, is_pseudo_ref};
use super::index::{self, NewEntry};
use super::manifest::{Entry, Manifest};
use super::reach::Reach;
use super::{ChangeKind, Tree, WorkspaceError};

/// Permission bits that a new file asks for, as git does; the umask takes its part.
const NEW_FILE: u32 = 0o666;
/// Bytes of a config file or of the packed refs that are written anew.
const REWRITTEN_LIMIT: u64 = 512 << 20;

/// What an undo did, and what it could not do.
#[derive(Clone, Debug)]
pub struct UndoReport {
    /// What was new and was removed, sorted, relative to the top.
    pub removed: Vec<PathBuf>,
    /// Whose content, executable bit or meaning was put back, sorted.
    pub brought_back: Vec<PathBuf>,
    /// What is still not as it was; empty means that the arm's effects can be undone.
    pub residue: Vec<Residue>,
    /// The tree after the undo.
    pub after: Manifest,
}

/// Undoes in `tree` what happened between `baseline` and `after`, as far as its own history allows.
///
/// The tree is changed and is good for nothing else afterwards; what cannot be undone is no
/// error but residue. For the first run of an arm `baseline` is `tree.baseline`.
pub fn undo(
    tree: &Tree,
    baseline: &Manifest,
    after: &Manifest,
) -> Result<UndoReport, WorkspaceError> {
    let top = Beneath::open(&tree.root).map_err(|source| WorkspaceError::Stat {
        path: tree.root.clone(),
        source,
    })?;
    let mut undo = Undo {
        top: &top,
        baseline,
        after,
        removed: BTreeSet::new(),
        brought_back: BTreeSet::new(),
    };
    // Before anything of the arm's is taken away: a stash that it made may hold the content.
    let mut reaches = Vec::new();
    let wanted = needs_objects(baseline, after);
    for dir in baseline.git.keys() {
        undo.clear_objects(dir);
        if let (Some(state), true) = (after.git.get(dir), wanted)
            && let Some(reach) = Reach::of(&top, dir, state)
        {
            reaches.push((dir.clone(), reach));
        }
    }
    undo.remove_created();
    undo.work_tree(&reaches);
    for (dir, old) in &baseline.git {
        let reach = reaches
            .iter()
            .find(|(of, _)| of == dir)
            .map(|(_, reach)| reach);
        if let Some(new) = after.git.get(dir) {
            undo.git_dir(dir, old, new, reach);
        }
    }
    // Every file that was worked on is read again, whatever its times say.
    let written = undo.brought_back.clone();
    let now = after.retake(&tree.root, &written)?;
    Ok(UndoReport {
        removed: undo.removed.into_iter().collect(),
        brought_back: undo.brought_back.into_iter().collect(),
        residue: restored(baseline, &now),
        after: now,
    })
}

/// Whether anything is to be put back for which an object has to be found; the walk over all of
/// the history is spared else.
fn needs_objects(baseline: &Manifest, after: &Manifest) -> bool {
    let content = baseline.entries().iter().any(|(path, old)| {
        baseline.git_dir_of(path).is_none()
            && matches!(old.kind, FileKind::File | FileKind::Symlink)
            && after
                .get(path)
                .is_none_or(|new| compare(old, new).contains(&ChangeKind::Content))
    });
    content
        || baseline.git.iter().any(|(dir, old)| {
            after.git.get(dir).is_some_and(|new| {
                old.index != new.index
                    || old
                        .refs
                        .iter()
                        .any(|(name, value)| new.refs.get(name) != Some(value))
            })
        })
}

struct Undo<'a> {
    top: &'a Beneath,
    baseline: &'a Manifest,
    after: &'a Manifest,
    removed: BTreeSet<PathBuf>,
    brought_back: BTreeSet<PathBuf>,
}

impl Undo<'_> {
    /// Removes one path that is no folder with something in it. A failure shows as residue.
    fn remove(&mut self, path: &Path) {
        if self.top.remove(path).is_ok() {
            self.removed.insert(path.to_path_buf());
        }
    }

    /// Takes out of the objects of a git folder what is new there and no object: a list of other
    /// stores, and what is neither file nor folder.
    fn clear_objects(&mut self, dir: &Path) {
        let objects = dir.join("objects");
        let borrows = objects.join("info/alternates");
        let odd: Vec<PathBuf> = self
            .after
            .entries()
            .range(objects.clone()..)
            .take_while(|(path, _)| path.starts_with(&objects))
            .filter(|(path, new)| {
                **path == borrows || !matches!(new.kind, FileKind::File | FileKind::Folder)
            })
            .filter(|(path, new)| {
                self.baseline
                    .get(path)
                    .is_none_or(|old| old.kind != new.kind)
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in odd {
            self.remove(&path);
        }
    }

    /// Removes what is new. Refs, reflogs and the like go by their meaning; objects may stay.
    fn remove_created(&mut self) {
        let created: Vec<&PathBuf> = self
            .after
            .entries()
            .iter()
            .filter(|(path, new)| {
                self.baseline
                    .get(path)
                    .is_none_or(|old| old.kind != new.kind)
            })
            .filter(|(path, new)| !self.goes_by_meaning(path, new))
            .map(|(path, _)| path)
            .collect();
        // All that is in a new folder of the work tree is new, and may lie deeper than any path reaches.
        let mut whole: Option<&Path> = None;
        for path in &created {
            if whole.is_some_and(|above| path.starts_with(above)) {
                self.removed.insert((*path).clone());
                continue;
            }
            let folder = self
                .after
                .get(path)
                .is_some_and(|new| new.kind == FileKind::Folder);
            if folder
                && self.baseline.git_dir_of(path).is_none()
                && self.top.remove_all(path).is_ok()
            {
                self.removed.insert((*path).clone());
                whole = Some(path);
            }
        }
        // Elsewhere inner paths come first.
        for path in created.into_iter().rev() {
            if !self.removed.contains(path) {
                self.remove(path);
            }
        }
    }

    fn goes_by_meaning(&self, path: &Path, entry: &Entry) -> bool {
        let Some(inner) = self
            .baseline
            .git_dir_of(path)
            .and_then(|dir| path.strip_prefix(dir).ok())
        else {
            return false;
        };
        let mut parts = inner.components();
        let Some(first) = parts.next().map(|c| c.as_os_str()) else {
            return true;
        };
        let single = parts.next().is_none();
        let file = entry.kind == FileKind::File;
        match first.as_bytes() {
            b"objects" | b"refs" | b"logs" => file || entry.kind == FileKind::Folder,
            b"packed-refs" | b"index" | b"config" | b"config.worktree" => single && file,
            _ => single && is_pseudo_ref(first) && (file || entry.kind == FileKind::Symlink),
        }
    }

    fn work_tree(&mut self, reaches: &[(PathBuf, Reach)]) {
        for (path, old) in self.baseline.entries() {
            if self.baseline.git_dir_of(path).is_some() {
                continue;
            }
            let kinds = match self.after.get(path) {
                Some(new) => compare(old, new),
                None => vec![ChangeKind::Removed],
            };
            let changed = kinds
                .iter()
                .any(|k| matches!(k, ChangeKind::Content | ChangeKind::Removed));
            if changed && matches!(old.kind, FileKind::File | FileKind::Symlink) {
                let Some(bytes) = reaches
                    .iter()
                    .find_map(|(dir, reach)| self.bytes_of(path, old, dir, reach))
                else {
                    continue;
                };
                if self.make_parents(path) && self.write(path, old, &bytes).is_ok() {
                    self.brought_back.insert(path.clone());
                }
            }
            let executable = changed || kinds.contains(&ChangeKind::Executable);
            if executable
                && old.kind == FileKind::File
                && self.git_knows_mode(path, old)
                && self.set_executable(path, old).is_ok()
            {
                self.brought_back.insert(path.clone());
            }
        }
        // A folder has no bytes to lose; its name is enough.
        let lost = self
            .baseline
            .entries()
            .iter()
            .filter(|(_, old)| old.kind == FileKind::Folder);
        for (path, _) in lost.filter(|(path, _)| self.baseline.git_dir_of(path).is_none()) {
            // Where something is there this fails, as it should.
            if self.make_parents(path) && self.top.create_folder(path).is_ok() {
                self.brought_back.insert(path.clone());
            }
        }
    }

    /// The bytes that the baseline names, from objects that git reaches: as they are, or as git
    /// would check them out with converted line ends.
    fn bytes_of(&self, path: &Path, old: &Entry, dir: &Path, reach: &Reach) -> Option<Vec<u8>> {
        let blob = old.blob?;
        if let Some(bytes) = reach.blob(&blob) {
            return Some(bytes);
        }
        let indexed = self.indexed(dir, path)?;
        let stored = reach.blob(&indexed.0)?;
        let mut converted = Vec::with_capacity(stored.len());
        for byte in stored {
            if byte == b'\n' && converted.last() != Some(&b'\r') {
                converted.push(b'\r');
            }
            converted.push(byte);
        }
        (content::blob_of(&converted) == blob).then_some(converted)
    }

    /// Blob and mode in the baseline's index for a path below the repo of `dir`.
    fn indexed(&self, dir: &Path, path: &Path) -> Option<([u8; 20], u32)> {
        let IndexMeaning::Entries(entries) = &self.baseline.git.get(dir)?.index else {
            return None;
        };
        // A submodule's git folder lies elsewhere than its work tree; try each folder above.
        path.ancestors()
            .filter_map(|top| path.strip_prefix(top).ok())
            .filter(|inner| dir != Path::new(".git") || *inner == path)
            .find_map(|inner| entries.get(&(inner.to_path_buf(), 0)))
            .map(|e| (e.oid, e.mode))
    }

    /// Whether some index kept the executable bit as the baseline has it.
    fn git_knows_mode(&self, path: &Path, old: &Entry) -> bool {
        let executable = old.mode & 0o100 != 0;
        self.baseline.git.keys().any(|dir| {
            self.indexed(dir, path).is_some_and(|(_, mode)| {
                mode & 0o170_000 == 0o100_000 && (mode & 0o100 != 0) == executable
            })
        })
    }

    /// Makes the folders above `path` that the baseline has.
    fn make_parents(&mut self, path: &Path) -> bool {
        let mut parents: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .filter(|parent| !parent.as_os_str().is_empty())
            .collect();
        parents.reverse();
        for parent in parents {
            match self.top.kind(parent) {
                Ok(FileType::Directory) => {}
                Ok(_) => return false,
                Err(_) => {
                    if self.top.create_folder(parent).is_err() {
                        return false;
                    }
                    self.brought_back.insert(parent.to_path_buf());
                }
            }
        }
        true
    }

    fn write(&self, path: &Path, old: &Entry, bytes: &[u8]) -> io::Result<()> {
        let there = self.top.kind(path).ok();
        if old.kind == FileKind::Symlink {
            if there.is_some() {
                self.top.remove(path)?;
            }
            return self.top.symlink(OsStr::from_bytes(bytes), path);
        }
        match there {
            Some(FileType::RegularFile) => {
                let found = self.top.find(path)?;
                if found.is_trees_own(Some(old)) {
                    // In place, so that attributes stay.
                    return found.rewrite(bytes);
                }
                self.top.remove(path)?;
                self.top.create(path, NEW_FILE, bytes)
            }
            Some(_) => Err(io::Error::other("something else is there")),
            None => self.top.create(path, NEW_FILE, bytes),
        }
    }

    fn set_executable(&self, path: &Path, old: &Entry) -> io::Result<()> {
        let found = self.top.find(path)?;
        if !found.is_trees_own(Some(old)) {
            return Err(io::Error::other("its other names may lie anywhere"));
        }
        let mode = found.mode() & !0o111 | old.mode & 0o111;
        if mode == found.mode() {
            return Ok(());
        }
        found.set_mode(mode)
    }

    fn git_dir(&mut self, dir: &Path, old: &GitState, new: &GitState, reach: Option<&Reach>) {
        let mut dropped = BTreeSet::new();
        let names: BTreeSet<&PathBuf> = old.refs.keys().chain(new.refs.keys()).collect();
        for name in names {
            let path = dir.join(name);
            match (old.refs.get(name), new.refs.get(name)) {
                (Some(before), now) if Some(before) != now => {
                    let points = before.strip_prefix(b"ref: ").is_some()
                        || reach.is_some_and(|r| r.has_named(before));
                    let line = [before.as_slice(), b"\n"].concat();
                    if points && self.replace(&path, &line).is_ok() {
                        self.brought_back.insert(path);
                    }
                }
                (None, Some(_)) => {
                    self.remove(&path);
                    dropped.insert(name.clone());
                }
                (Some(_) | None, _) => {}
            }
        }
        self.drop_packed(dir, &dropped);
        for (name, log) in &new.reflogs {
            let path = dir.join(name);
            match old.reflogs.get(name) {
                None => self.remove(&path),
                // Its own lines of before are all there: what was added can be taken away.
                Some(before) if log.len() > before.len() && log.starts_with(before) => {
                    if self.replace(&path, before).is_ok() {
                        self.brought_back.insert(path);
                    }
                }
                Some(_) => {}
            }
        }
        if old.index != new.index
            && let Some(reach) = reach
            && self.restore_index(dir, &old.index, reach).is_ok()
        {
            self.brought_back.insert(dir.join("index"));
        }
        for (file, before) in &old.config {
            if let ConfigMeaning::Settings(settings) = before
                && new.config.get(file).is_some_and(|now| now != before)
                && self.drop_settings(&dir.join(file), settings).is_ok()
            {
                self.brought_back.insert(dir.join(file));
            }
        }
        for file in new
            .config
            .keys()
            .filter(|file| !old.config.contains_key(*file))
        {
            self.remove(&dir.join(file));
        }
    }

    /// Writes a small file of a git folder anew.
    fn replace(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if !self.make_parents(path) {
            return Err(io::Error::other("its folder is not one"));
        }
        if self.top.kind(path).is_ok() {
            self.top.remove(path)?;
        }
        self.top.create(path, NEW_FILE, bytes)
    }

    fn drop_packed(&mut self, dir: &Path, dropped: &BTreeSet<PathBuf>) {
        let path = dir.join("packed-refs");
        let Ok(bytes) = self.top.read(&path, REWRITTEN_LIMIT) else {
            return;
        };
        let mut kept = Vec::new();
        let mut skipping = false;
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let name = line
                .iter()
                .position(|b| *b == b' ')
                .map(|i| line[i + 1..].trim_ascii_end());
            // The line after a tag's holds what it points to.
            skipping = match line.first() {
                Some(b'^') => skipping,
                Some(b'#') => false,
                _ => name.is_none_or(|name| {
                    let name = Path::new(OsStr::from_bytes(name));
                    dropped.contains(name) || !is_packed_name(name)
                }),
            };
            if !skipping {
                kept.extend_from_slice(line);
            }
        }
        if kept != bytes && self.replace(&path, &kept).is_ok() {
            self.brought_back.insert(path);
        }
    }

    fn restore_index(&mut self, dir: &Path, old: &IndexMeaning, reach: &Reach) -> io::Result<()> {
        let path = dir.join("index");
        let entries = match old {
            IndexMeaning::Entries(entries) => entries,
            IndexMeaning::Absent => return self.top.remove(&path),
            IndexMeaning::Opaque(_) => {
                return Err(io::Error::other("the index of before was not understood"));
            }
        };
        let mut kept: Vec<(&PathBuf, u8, &Indexed)> = entries
            .iter()
            .filter(|(_, indexed)| indexed.mode == 0o160_000 || reach.has(&indexed.oid))
            .map(|((path, stage), indexed)| (path, *stage, indexed))
            .collect();
        // Git orders by bytes, where `a.b` comes before `a/b`.
        kept.sort_by(|(a, x, _), (b, y, _)| (a.as_os_str(), x).cmp(&(b.as_os_str(), y)));
        let bytes = index::encode(kept.into_iter().map(|(path, stage, indexed)| NewEntry {
            path,
            stage,
            oid: indexed.oid,
            mode: indexed.mode,
            flags: indexed.flags,
        }));
        self.replace(&path, &bytes)
    }

    /// Takes settings away that were added.
    fn drop_settings(&mut self, path: &Path, before: &[config::Setting]) -> io::Result<()> {
        let now = self.top.read(path, REWRITTEN_LIMIT)?;
        let left = config::without_added(before, &now)
            .ok_or_else(|| io::Error::other("nothing was added"))?;
        self.replace(path, &left)
    }
}
