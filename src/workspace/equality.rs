//! Two manifests of one tree beside each other: every difference, and the two equalities.
//!
//! *Untouched* means every field of every path. *Restored* means what git can be asked to keep:
//! in the work tree kind, bytes, link target, permission bits, extended attributes, flags and
//! owner (what no history keeps is told apart); in a git folder its meaning, where objects and reflogs may have grown.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use calibrun_sandbox::FileKind;

use super::gitstate::{GitState, is_pseudo_ref};
use super::manifest::{Entry, Manifest};
use super::state::States;
use super::{Change, ChangeKind};

/// Every difference, sorted by path and kind.
///
/// A folder whose times moved because something was made or removed in it is listed too.
pub fn diff(before: &Manifest, after: &Manifest, states: &States) -> Vec<Change> {
    let mut changes = Vec::new();
    for path in all_paths(before, after) {
        let mut note = |kind| {
            changes.push(Change {
                path: path.to_path_buf(),
                kind,
                before: states.of(path),
                in_git_dir: before.git_dir_of(path).is_some(),
            });
        };
        match (before.get(path), after.get(path)) {
            (None, Some(_)) => note(ChangeKind::Created),
            (Some(_), None) => note(ChangeKind::Removed),
            (Some(old), Some(new)) => compare(old, new).into_iter().for_each(note),
            (None, None) => {}
        }
    }
    changes.sort();
    changes
}

/// Whether no field of any path differs. Access times are no part of a manifest.
pub fn untouched(before: &Manifest, after: &Manifest) -> bool {
    before.entries() == after.entries()
}

/// Something that is not as it was, under the equality *restored*.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Residue {
    /// Relative to the top of the tree; for a ref the path of its loose file.
    pub path: PathBuf,
    /// What differs there.
    pub what: Difference,
}

/// What differs, under the equality *restored*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Difference {
    /// It is new.
    Created,
    /// It is gone.
    Removed,
    /// Kind, bytes or link target.
    Content,
    /// The executable bit of a file.
    Executable,
    /// Permission bits that git does not keep.
    Mode,
    /// Owner or group.
    Owner,
    /// Extended attributes.
    Xattr,
    /// Inode flags.
    Flags,
    /// A ref, HEAD or its like.
    Ref,
    /// A reflog lost entries that it had.
    Reflog,
    /// The stashes.
    Stash,
    /// Entries of the index.
    Index,
    /// Values of the config.
    Config,
    /// Objects that could be read before cannot be read now, or are borrowed from elsewhere.
    Objects,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Difference::Created => "created",
            Difference::Removed => "removed",
            Difference::Content => "other content",
            Difference::Executable => "other executable bit",
            Difference::Mode => "other permission bits",
            Difference::Owner => "other owner",
            Difference::Xattr => "other extended attributes",
            Difference::Flags => "other inode flags",
            Difference::Ref => "other ref",
            Difference::Reflog => "reflog entries lost",
            Difference::Stash => "other stashes",
            Difference::Index => "other index entries",
            Difference::Config => "other config values",
            Difference::Objects => "objects lost",
        })
    }
}

/// What is not as it was; empty means *restored*.
pub fn restored(before: &Manifest, after: &Manifest) -> Vec<Residue> {
    let mut found = BTreeSet::new();
    for path in all_paths(before, after) {
        let (old, new) = (before.get(path), after.get(path));
        let by_meaning = before
            .git_dir_of(path)
            .filter(|dir| before.git.contains_key(*dir))
            .is_some_and(|dir| {
                path.strip_prefix(dir)
                    .is_ok_and(|inner| means_more_than_bytes(inner, old, new))
            });
        if by_meaning {
            continue;
        }
        let mut note = |what| {
            found.insert(Residue {
                path: path.to_path_buf(),
                what,
            });
        };
        match (old, new) {
            (None, Some(_)) => note(Difference::Created),
            (Some(_), None) => note(Difference::Removed),
            (Some(old), Some(new)) => {
                for kind in compare(old, new) {
                    match kind {
                        ChangeKind::Content => note(Difference::Content),
                        ChangeKind::Executable if old.kind == FileKind::File => {
                            note(Difference::Executable)
                        }
                        ChangeKind::Mode => note(Difference::Mode),
                        ChangeKind::Owner => note(Difference::Owner),
                        ChangeKind::Xattr => note(Difference::Xattr),
                        ChangeKind::Flags => note(Difference::Flags),
                        ChangeKind::Executable
                        | ChangeKind::Times
                        | ChangeKind::Inode
                        | ChangeKind::Created
                        | ChangeKind::Removed => {}
                    }
                }
            }
            (None, None) => {}
        }
    }
    for (dir, old) in &before.git {
        match after.git.get(dir) {
            Some(new) => compare_git(dir, old, new, &mut found),
            None => {
                found.insert(Residue {
                    path: dir.clone(),
                    what: Difference::Removed,
                });
            }
        }
    }
    found.into_iter().collect()
}

fn all_paths<'m>(before: &'m Manifest, after: &'m Manifest) -> BTreeSet<&'m Path> {
    before
        .entries()
        .keys()
        .chain(after.entries().keys())
        .map(PathBuf::as_path)
        .collect()
}

/// In what two entries of one path differ.
pub(super) fn compare(old: &Entry, new: &Entry) -> Vec<ChangeKind> {
    let mut kinds = Vec::new();
    let mut note = |differs: bool, kind| {
        if differs {
            kinds.push(kind);
        }
    };
    let unknown = old.kind == FileKind::File && (old.sha256.is_none() || new.sha256.is_none());
    // Bytes that nobody could read are the same only if the inode was not changed since.
    let moved = old.size != new.size || old.ctime != new.ctime || old.inode != new.inode;
    let content = old.kind != new.kind
        || old.target != new.target
        || old.device != new.device
        || old.sha256 != new.sha256
        || unknown && moved;
    note(content, ChangeKind::Content);
    if old.kind == new.kind && old.kind != FileKind::Symlink {
        note((old.mode ^ new.mode) & 0o111 != 0, ChangeKind::Executable);
        note((old.mode ^ new.mode) & !0o111 != 0, ChangeKind::Mode);
    }
    note((old.uid, old.gid) != (new.uid, new.gid), ChangeKind::Owner);
    note(old.xattrs != new.xattrs, ChangeKind::Xattr);
    // Another kind may have none at all, which its being another says already.
    note(
        old.kind == new.kind && old.flags != new.flags,
        ChangeKind::Flags,
    );
    note(
        (old.mtime, old.ctime) != (new.mtime, new.ctime),
        ChangeKind::Times,
    );
    note(
        (old.inode, old.born) != (new.inode, new.born),
        ChangeKind::Inode,
    );
    kinds
}

/// Whether a path inside a git folder is compared by what it means, and not as a file.
fn means_more_than_bytes(inner: &Path, old: Option<&Entry>, new: Option<&Entry>) -> bool {
    let mut parts = inner.components().map(|c| c.as_os_str());
    let Some(first) = parts.next() else {
        return true;
    };
    let single = parts.next().is_none();
    let all = |kinds: &[FileKind]| {
        [old, new]
            .into_iter()
            .flatten()
            .all(|entry| kinds.contains(&entry.kind))
    };
    match first.as_bytes() {
        b"objects" => {
            let name = inner.file_name().map(OsStr::as_bytes).unwrap_or_default();
            let object = name.len() == 38 && name.iter().all(u8::is_ascii_hexdigit)
                || name.ends_with(b".pack")
                || name.ends_with(b".idx");
            // Packing may take object files away; it never changes the bytes of one.
            all(&[FileKind::File, FileKind::Folder])
                && !(object
                    && old
                        .zip(new)
                        .is_some_and(|(old, new)| old.sha256 != new.sha256))
        }
        // The first is git's scratch for the message of the last commit, which the commit itself holds.
        b"COMMIT_EDITMSG" | b"packed-refs" | b"index" | b"config" | b"config.worktree" => {
            single && all(&[FileKind::File])
        }
        // Derived from the refs for dumb servers; git writes it when it packs.
        b"info" if inner == Path::new("info/refs") => all(&[FileKind::File]),
        b"refs" | b"logs" => all(&[FileKind::File, FileKind::Folder]),
        _ => single && is_pseudo_ref(first) && all(&[FileKind::File, FileKind::Symlink]),
    }
}

fn compare_git(dir: &Path, old: &GitState, new: &GitState, found: &mut BTreeSet<Residue>) {
    let mut note = |path: &Path, what| {
        found.insert(Residue {
            path: dir.join(path),
            what,
        });
    };
    let names: BTreeSet<&PathBuf> = old.refs.keys().chain(new.refs.keys()).collect();
    for name in names {
        if old.refs.get(name) != new.refs.get(name) {
            note(name, Difference::Ref);
        }
    }
    for (name, log) in &old.reflogs {
        if name != Path::new("logs/refs/stash")
            && !new.reflogs.get(name).is_some_and(|l| l.starts_with(log))
        {
            note(name, Difference::Reflog);
        }
    }
    if old.stash_log() != new.stash_log() {
        note(Path::new("logs/refs/stash"), Difference::Stash);
    }
    if old.index != new.index {
        note(Path::new("index"), Difference::Index);
    }
    let files: BTreeSet<&PathBuf> = old.config.keys().chain(new.config.keys()).collect();
    for file in files {
        if old.config.get(file) != new.config.get(file) {
            note(file, Difference::Config);
        }
    }
    for (name, what) in new.gaps.keys().map(|name| (name, meant_by(name))) {
        // What was a gap before was said before: nobody knows what was there.
        if !old.gaps.contains_key(name) {
            note(name, what);
        }
    }
    let objects = Path::new("objects");
    if !old.gaps.contains_key(objects) && !old.objects.is_subset(&new.objects) {
        note(objects, Difference::Objects);
    }
}

/// What a file of a git folder holds that is read for its meaning.
fn meant_by(name: &Path) -> Difference {
    match name.iter().next().map(OsStr::as_bytes) {
        Some(b"objects") => Difference::Objects,
        Some(b"logs") => Difference::Reflog,
        Some(b"index") => Difference::Index,
        Some(b"config" | b"config.worktree") => Difference::Config,
        Some(_) | None => Difference::Ref,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn file() -> Entry {
        Entry {
            kind: FileKind::File,
            mode: 0o644,
            uid: 1,
            gid: 1,
            size: 3,
            mtime: (10, 0),
            ctime: (10, 0),
            inode: 7,
            born: Some((5, 0)),
            links: 1,
            device: 0,
            target: None,
            sha256: Some([1; 32]),
            blob: Some([1; 20]),
            xattrs: BTreeMap::new(),
            flags: Some(0),
            unreadable: None,
        }
    }

    #[test]
    fn each_field_has_its_kind_of_change() {
        type Row<'a> = (&'a str, &'a dyn Fn(&mut Entry), &'a [ChangeKind]);
        let rows: [Row<'_>; 18] = [
            ("nothing", &|_| {}, &[]),
            (
                "bytes",
                &|e| e.sha256 = Some([2; 32]),
                &[ChangeKind::Content],
            ),
            ("kind", &|e| e.kind = FileKind::Fifo, &[ChangeKind::Content]),
            (
                "kind without flags",
                &|e| (e.kind, e.flags) = (FileKind::Fifo, None),
                &[ChangeKind::Content],
            ),
            ("device", &|e| e.device = 5, &[ChangeKind::Content]),
            (
                "target",
                &|e| e.target = Some("x".into()),
                &[ChangeKind::Content],
            ),
            ("x", &|e| e.mode = 0o755, &[ChangeKind::Executable]),
            (
                "x of others",
                &|e| e.mode = 0o645,
                &[ChangeKind::Executable],
            ),
            ("read bit", &|e| e.mode = 0o600, &[ChangeKind::Mode]),
            ("set-uid", &|e| e.mode = 0o4644, &[ChangeKind::Mode]),
            ("owner", &|e| e.uid = 2, &[ChangeKind::Owner]),
            ("group", &|e| e.gid = 2, &[ChangeKind::Owner]),
            (
                "xattr",
                &|e| drop(e.xattrs.insert("user.a".into(), vec![])),
                &[ChangeKind::Xattr],
            ),
            ("flags", &|e| e.flags = Some(0x40), &[ChangeKind::Flags]),
            ("mtime", &|e| e.mtime = (10, 1), &[ChangeKind::Times]),
            ("ctime", &|e| e.ctime = (11, 0), &[ChangeKind::Times]),
            ("inode", &|e| e.inode = 8, &[ChangeKind::Inode]),
            (
                "the same number again",
                &|e| e.born = Some((6, 0)),
                &[ChangeKind::Inode],
            ),
        ];
        for (name, act, expected) in rows {
            let mut new = file();
            act(&mut new);
            assert_eq!(compare(&file(), &new), expected, "{name}");
        }
    }

    #[test]
    fn bytes_that_nobody_could_read_count_as_changed_once_the_inode_was() {
        let blind = |ctime| Entry {
            sha256: None,
            ctime,
            ..file()
        };
        assert_eq!(compare(&blind((10, 0)), &blind((10, 0))), []);
        let moved = compare(&blind((10, 0)), &blind((11, 0)));
        assert!(moved.contains(&ChangeKind::Content), "{moved:?}");
    }

    #[test]
    fn a_git_folder_goes_by_meaning_only_where_it_has_one() {
        let entry = file();
        let changed = Entry {
            sha256: Some([2; 32]),
            ..file()
        };
        let link = Entry {
            kind: FileKind::Symlink,
            ..file()
        };
        let fifo = Entry {
            kind: FileKind::Fifo,
            ..file()
        };
        let object = format!("objects/ab/{}", "c".repeat(38));
        let rows = [
            ("config", Some(&entry), Some(&changed), true),
            ("config", Some(&entry), Some(&link), false),
            ("index", Some(&entry), Some(&fifo), false),
            ("packed-refs", None, Some(&fifo), false),
            ("X_HEAD", None, Some(&fifo), false),
            ("refs/heads/a", None, Some(&fifo), false),
            (object.as_str(), None, Some(&fifo), false),
            ("objects/ab", None, Some(&link), false),
            ("index", Some(&entry), None, true),
            ("refs/heads/a", None, Some(&entry), true),
            ("refs/heads", Some(&entry), Some(&link), false),
            ("logs/HEAD", Some(&entry), None, true),
            ("HEAD", Some(&entry), Some(&changed), true),
            ("MERGE_HEAD", None, Some(&entry), true),
            (
                "objects/info/commit-graph",
                Some(&entry),
                Some(&changed),
                true,
            ),
            (object.as_str(), Some(&entry), None, true),
            (object.as_str(), Some(&entry), Some(&changed), false),
            ("info/refs", None, Some(&entry), true),
            ("info/exclude", Some(&entry), Some(&changed), false),
            ("info/attributes", None, Some(&entry), false),
            ("hooks/pre-commit", None, Some(&entry), false),
            ("hooks/config", None, Some(&entry), false),
            ("worktrees/a/HEAD", Some(&entry), None, false),
            ("index.lock", None, Some(&entry), false),
        ];
        for (path, old, new, expected) in rows {
            assert_eq!(
                means_more_than_bytes(Path::new(path), old, new),
                expected,
                "{path}"
            );
        }
    }
}
