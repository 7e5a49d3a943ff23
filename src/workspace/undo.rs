//! Puts a tree back with nothing but what the arm left in it, to see whether that suffices.
//!
//! The baseline names what has to be there; the bytes come only from objects that the tree's own
//! git folders still reach. The pristine copy is never asked.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use calibrun_sandbox::FileKind;
use git2::{Config, IndexEntry, IndexTime, Oid, Repository};
use rustix::fs::OFlags;

use super::content;
use super::equality::{Residue, compare, restored};
use super::gitstate::{GitState, IndexMeaning, Setting, is_pseudo_ref};
use super::manifest::{Entry, Manifest};
use super::reach::Reach;
use super::{ChangeKind, Tree, WorkspaceError};

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
    let mut undo = Undo {
        root: &tree.root,
        baseline,
        after,
        removed: BTreeSet::new(),
        brought_back: BTreeSet::new(),
    };
    // Before anything of the arm's is taken away: a stash that it made may hold the content.
    let mut reaches = Vec::new();
    let wanted = needs_objects(baseline, after);
    for dir in baseline.git.keys() {
        let borrows = dir.join("objects/info/alternates");
        if after.get(&borrows).is_some() && baseline.get(&borrows).is_none() {
            undo.remove(&borrows);
        }
        if let (Some(state), true) = (after.git.get(dir), wanted) {
            reaches.push((dir.clone(), Reach::of(&tree.root.join(dir), state)?));
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
    root: &'a Path,
    baseline: &'a Manifest,
    after: &'a Manifest,
    removed: BTreeSet<PathBuf>,
    brought_back: BTreeSet<PathBuf>,
}

impl Undo<'_> {
    /// Removes one path that is no folder with something in it. A failure shows as residue.
    fn remove(&mut self, path: &Path) {
        let full = self.root.join(path);
        let Ok(meta) = full.symlink_metadata() else {
            return;
        };
        if !self.parents_are_folders(path) {
            return;
        }
        let gone = if meta.is_dir() {
            fs::remove_dir(&full)
        } else {
            fs::remove_file(&full)
        };
        if gone.is_ok() {
            self.removed.insert(path.to_path_buf());
        }
    }

    /// Whether every folder above `path`, up to the root, is one and no link.
    fn parents_are_folders(&self, path: &Path) -> bool {
        let parents = path.ancestors().skip(1);
        parents
            .map(|p| self.root.join(p))
            .all(|p| p.symlink_metadata().is_ok_and(|m| m.is_dir()))
    }

    /// Removes what is new, inner paths first. Refs, reflogs and the like go by their meaning;
    /// objects may stay.
    fn remove_created(&mut self) {
        let created: Vec<PathBuf> = self
            .after
            .entries()
            .iter()
            .rev()
            .filter(|(path, new)| {
                self.baseline
                    .get(path)
                    .is_none_or(|old| old.kind != new.kind)
            })
            .filter(|(path, new)| !self.goes_by_meaning(path, new))
            .map(|(path, _)| path.clone())
            .collect();
        for path in created {
            self.remove(&path);
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
        match first.as_bytes() {
            b"objects" => true,
            b"refs" | b"logs" => matches!(entry.kind, FileKind::File | FileKind::Folder),
            b"packed-refs" | b"index" | b"config" | b"config.worktree" => single,
            _ => single && is_pseudo_ref(first),
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
            let full = self.root.join(path);
            if full.symlink_metadata().is_err()
                && self.make_parents(path)
                && fs::create_dir(&full).is_ok()
            {
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
        let mut parents: Vec<&Path> = path.ancestors().skip(1).collect();
        parents.reverse();
        for parent in parents {
            let full = self.root.join(parent);
            match full.symlink_metadata() {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return false,
                Err(_) => {
                    if fs::create_dir(&full).is_err() {
                        return false;
                    }
                    self.brought_back.insert(parent.to_path_buf());
                }
            }
        }
        true
    }

    fn write(&self, path: &Path, old: &Entry, bytes: &[u8]) -> io::Result<()> {
        let full = self.root.join(path);
        let there = full.symlink_metadata().ok();
        if old.kind == FileKind::Symlink {
            if there.is_some() {
                fs::remove_file(&full)?;
            }
            return std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(bytes), &full);
        }
        match there {
            // In place, so that attributes stay.
            Some(meta) if meta.is_file() => {
                fs::set_permissions(
                    &full,
                    Permissions::from_mode(meta.permissions().mode() | 0o200),
                )?;
                let mut file = OpenOptions::new()
                    .write(true)
                    .truncate(true)
                    .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                    .open(&full)?;
                file.write_all(bytes)?;
                fs::set_permissions(&full, meta.permissions())
            }
            Some(_) => Err(io::Error::other("something else is there")),
            None => OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(&full)?
                .write_all(bytes),
        }
    }

    fn set_executable(&self, path: &Path, old: &Entry) -> io::Result<()> {
        let full = self.root.join(path);
        let meta = full.symlink_metadata()?;
        if !meta.is_file() || !self.parents_are_folders(path) {
            return Err(io::Error::other("no regular file"));
        }
        let mode = meta.permissions().mode() & 0o7777 & !0o111 | old.mode & 0o111;
        fs::set_permissions(&full, Permissions::from_mode(mode))
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
            let now = new.config.get(file);
            if let (Some(before), Some(Some(now))) = (before, now)
                && before != now
                && self.drop_settings(&dir.join(file), before, now).is_ok()
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
        let full = self.root.join(path);
        match full.symlink_metadata() {
            Ok(meta) if meta.is_dir() => fs::remove_dir(&full)?,
            Ok(_) => fs::remove_file(&full)?,
            Err(_) => {}
        }
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&full)?
            .write_all(bytes)
    }

    fn drop_packed(&mut self, dir: &Path, dropped: &BTreeSet<PathBuf>) {
        let path = dir.join("packed-refs");
        let Ok(bytes) = content::read(&self.root.join(&path)) else {
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
                _ => name
                    .is_some_and(|n| dropped.contains(Path::new(std::ffi::OsStr::from_bytes(n)))),
            };
            if !skipping {
                kept.extend_from_slice(line);
            }
        }
        if kept != bytes && self.replace(&path, &kept).is_ok() {
            self.brought_back.insert(path);
        }
    }

    fn restore_index(
        &self,
        dir: &Path,
        old: &IndexMeaning,
        reach: &Reach,
    ) -> Result<(), git2::Error> {
        let full = self.root.join(dir);
        let entries = match old {
            IndexMeaning::Entries(entries) => entries,
            IndexMeaning::Absent => {
                return fs::remove_file(full.join("index"))
                    .map_err(|e| git2::Error::from_str(&e.to_string()));
            }
            IndexMeaning::Opaque(_) => {
                return Err(git2::Error::from_str(
                    "the index of before was not understood",
                ));
            }
        };
        // An index that cannot be read any more must not stand in the way of a new one.
        let path = full.join("index");
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).map_err(|e| git2::Error::from_str(&e.to_string()))?;
        }
        let repo = Repository::open_bare(&full)?;
        let mut index = repo.index()?;
        index.clear()?;
        for ((path, stage), indexed) in entries {
            if indexed.mode != 0o160_000 && !reach.has(&indexed.oid) {
                continue;
            }
            let [top, next, high, low] = indexed.flags.to_be_bytes();
            index.add(&IndexEntry {
                ctime: IndexTime::new(0, 0),
                mtime: IndexTime::new(0, 0),
                dev: 0,
                ino: 0,
                mode: indexed.mode,
                uid: 0,
                gid: 0,
                file_size: 0,
                id: Oid::from_bytes(&indexed.oid)?,
                flags: u16::from_be_bytes([high, low]) | u16::from(*stage) << 12,
                flags_extended: u16::from_be_bytes([top, next]),
                path: path.as_os_str().as_bytes().to_vec(),
            })?;
        }
        index.write()
    }

    /// Takes settings away whose names were not there before. A value that was there and is gone is
    /// known to nobody.
    fn drop_settings(
        &self,
        path: &Path,
        before: &[Setting],
        now: &[Setting],
    ) -> Result<(), git2::Error> {
        let full = self.root.join(path);
        if !full.symlink_metadata().is_ok_and(|m| m.is_file()) {
            return Err(git2::Error::from_str("no regular file"));
        }
        let known: BTreeSet<&[u8]> = before.iter().map(|(name, _)| name.as_slice()).collect();
        let added: BTreeSet<&[u8]> = now
            .iter()
            .map(|(name, _)| name.as_slice())
            .filter(|n| !known.contains(n))
            .collect();
        let mut config = Config::open(&full)?;
        for name in added {
            if let Ok(name) = std::str::from_utf8(name) {
                config.remove_multivar(name, ".*")?;
            }
        }
        Ok(())
    }
}
