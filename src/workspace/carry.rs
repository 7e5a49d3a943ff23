//! Copies files by content: never a hard link, never through a symbolic link.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use calibrun_sandbox::FileKind;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use super::survey::kind_of;
use super::{WorkspaceError, content};

/// What a copy left out or could not keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// One line each; each makes claims `not-carried`.
    pub(crate) not_carried: Vec<String>,
    /// Remarks that take nothing away from a subject.
    pub(crate) remarks: Vec<String>,
}

/// Copies the given paths, parents before children, from one top to another, which exists.
///
/// A path that cannot be read is noted and left out; a failure to write ends the copy.
pub(crate) fn copy_paths<'p>(
    from: &Path,
    to: &Path,
    paths: impl Iterator<Item = &'p Path>,
    notes: &mut Notes,
) -> Result<(), WorkspaceError> {
    let mut folders: Vec<(PathBuf, Metadata)> = Vec::new();
    for path in paths {
        let source = from.join(path);
        let meta = match source.symlink_metadata() {
            Ok(meta) => meta,
            Err(error) => {
                notes
                    .not_carried
                    .push(format!("{}: cannot be looked at: {error}", path.display()));
                continue;
            }
        };
        let target = to.join(path);
        match kind_of(&meta) {
            FileKind::Folder => {
                // The top is there, and so are object folders that came by a clone.
                if !target.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                    make_folder(&target)?;
                }
                folders.push((path.to_path_buf(), meta));
            }
            FileKind::File => copy_file(&source, &target, path, &meta, notes)?,
            FileKind::Symlink => match source.read_link() {
                Ok(link) => {
                    std::os::unix::fs::symlink(link, &target).map_err(|e| written(&target, e))?;
                    set_times(&target, &meta)?;
                }
                Err(error) => notes
                    .not_carried
                    .push(format!("{}: cannot be read: {error}", path.display())),
            },
            FileKind::Fifo => {
                rustix::fs::mknodat(CWD, &target, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
                    .map_err(|e| written(&target, e.into()))?;
                finish(&source, &target, path, &meta, notes)?;
            }
            kind @ (FileKind::Socket | FileKind::Device | FileKind::Other) => {
                let line = format!("{}: {} is not carried over", path.display(), kind.about());
                // The endpoint of git's own file watcher; no subject's work hangs on it.
                if path
                    .file_name()
                    .is_some_and(|n| n == "fsmonitor--daemon.ipc")
                {
                    notes.remarks.push(line);
                } else {
                    notes.not_carried.push(line);
                }
            }
        }
    }
    // Inner folders first: what is made in a folder moves its times, and it may be read-only.
    for (path, meta) in folders.iter().rev() {
        finish(&from.join(path), &to.join(path), path, meta, notes)?;
    }
    Ok(())
}

/// Every path below `top`, and the top itself as the empty path; parents first, sorted.
pub(crate) fn list(top: &Path) -> Result<Vec<PathBuf>, WorkspaceError> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(top)
        .follow_links(false)
        .sort_by_file_name()
    {
        let entry = entry.map_err(|e| WorkspaceError::Walk {
            path: e.path().unwrap_or(top).to_path_buf(),
            source: e.into(),
        })?;
        found.push(
            entry
                .path()
                .strip_prefix(top)
                .unwrap_or(entry.path())
                .to_path_buf(),
        );
    }
    Ok(found)
}

/// Copies a whole tree; `to` must not exist yet.
pub(crate) fn copy_tree(from: &Path, to: &Path, notes: &mut Notes) -> Result<(), WorkspaceError> {
    make_folder(to)?;
    let paths = list(from)?;
    copy_paths(from, to, paths.iter().map(PathBuf::as_path), notes)
}

/// Makes a private folder.
pub(crate) fn make_folder(path: &Path) -> Result<(), WorkspaceError> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(|e| written(path, e))
}

fn written(path: &Path, source: io::Error) -> WorkspaceError {
    WorkspaceError::Write {
        path: path.to_path_buf(),
        source,
    }
}

fn copy_file(
    source: &Path,
    target: &Path,
    path: &Path,
    meta: &Metadata,
    notes: &mut Notes,
) -> Result<(), WorkspaceError> {
    let mut input = match content::open(source) {
        Ok(input) => input,
        Err(error) => {
            notes
                .not_carried
                .push(format!("{}: cannot be read: {error}", path.display()));
            return Ok(());
        }
    };
    let mut output: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(target)
        .map_err(|e| written(target, e))?;
    io::copy(&mut input, &mut output).map_err(|e| written(target, e))?;
    let after = input.metadata().map_err(|e| WorkspaceError::Stat {
        path: source.to_path_buf(),
        source: e,
    })?;
    if stamp(&after) != stamp(meta) {
        notes
            .remarks
            .push(format!("{}: changed while it was copied", path.display()));
    }
    drop(output);
    finish(source, target, path, meta, notes)
}

/// Inode, modification time in two parts, size.
pub(crate) type Stamp = (u64, i64, i64, u64);

/// What tells cheaply that a file was written to.
pub(crate) fn stamp(meta: &Metadata) -> Stamp {
    (meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len())
}

/// Attributes, mode and times of what is no link, in the order in which they do not undo each other.
pub(crate) fn finish(
    source: &Path,
    target: &Path,
    path: &Path,
    meta: &Metadata,
    notes: &mut Notes,
) -> Result<(), WorkspaceError> {
    if matches!(kind_of(meta), FileKind::File | FileKind::Folder) {
        let found = content::xattrs(source).map_err(|e| WorkspaceError::Read {
            path: source.to_path_buf(),
            source: e,
        })?;
        for (name, value) in found {
            if !name.as_encoded_bytes().starts_with(b"user.") {
                continue;
            }
            match rustix::fs::lsetxattr(target, &name, &value, XattrFlags::empty()) {
                Ok(()) => {}
                Err(Errno::NOTSUP | Errno::NOSPC) => {
                    let name = name.display();
                    notes.not_carried.push(format!(
                        "{}: the attribute {name} does not fit the temp file system",
                        path.display()
                    ));
                }
                Err(error) => return Err(written(target, error.into())),
            }
        }
    }
    let mode = Permissions::from_mode(meta.permissions().mode() & 0o7777);
    std::fs::set_permissions(target, mode).map_err(|e| written(target, e))?;
    set_times(target, meta)
}

/// Gives `target` (never what it links to) the access and modification time of `meta`.
pub(crate) fn set_times(target: &Path, meta: &Metadata) -> Result<(), WorkspaceError> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: meta.atime(),
            tv_nsec: meta.atime_nsec(),
        },
        last_modification: Timespec {
            tv_sec: meta.mtime(),
            tv_nsec: meta.mtime_nsec(),
        },
    };
    rustix::fs::utimensat(CWD, target, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|e| written(target, e.into()))
}

/// Dates a regular file or folder.
pub(crate) fn set_mtime(target: &Path, mtime: (i64, i64)) -> Result<(), WorkspaceError> {
    let time = Timespec {
        tv_sec: mtime.0,
        tv_nsec: mtime.1,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, target, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|e| written(target, e.into()))
}

/// Which ignored paths do not fit the budget: whole topmost ignored paths, in the order of their
/// names, each taken while it fits.
pub(crate) fn over_budget(
    roots: &std::collections::BTreeMap<std::sync::Arc<Path>, (u64, u64)>,
    bytes: u64,
    files: u64,
) -> BTreeSet<std::sync::Arc<Path>> {
    let (mut bytes_left, mut files_left) = (bytes, files);
    let mut out = BTreeSet::new();
    for (root, (root_bytes, root_files)) in roots {
        if *root_bytes <= bytes_left && *root_files <= files_left {
            bytes_left -= root_bytes;
            files_left -= root_files;
        } else {
            out.insert(root.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[test]
    fn a_folder_beyond_the_budget_is_left_out_whole_and_later_ones_still_fit() {
        let rows = [
            ("a", 10, 1),
            ("b", 95, 1),
            ("c", 90, 5),
            ("d", 0, 100),
            ("e", 0, 4),
        ];
        let roots: BTreeMap<Arc<Path>, (u64, u64)> = rows
            .iter()
            .map(|(name, b, f)| (Arc::from(Path::new(name)), (*b, *f)))
            .collect();
        let out = over_budget(&roots, 100, 10);
        let names: Vec<_> = out.iter().map(|p| p.to_str().unwrap()).collect();
        assert_eq!(names, ["b", "d"]);
        assert!(over_budget(&roots, 195, 111).is_empty());
    }
}
