//! Makes the clone's git folder.
//!
//! Objects come by a local clone of git2 that shares no file with the field. What a clone leaves
//! behind is carried over file by file: every ref as it lies, reflogs, stashes, hooks, config, the
//! times of objects. Nothing of the repo is executed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::Config;
use git2::build::{CloneLocal, RepoBuilder};

use super::carry::{self, Notes};
use super::{FieldRepo, WorkspaceError, content};

/// Where every remote of a clone leads: an address that no host has (RFC 5737, TEST-NET-1), over
/// a protocol that git speaks itself, so that an attempt shows as a connection.
pub const DEAD_ADDRESS: &str = "git://192.0.2.1/";

/// What of a linked worktree's git folder is not the clone's.
const WORKTREE_ONLY: [&str; 3] = ["commondir", "gitdir", "locked"];

/// What of a common git folder belongs to its main work tree alone (gitrepository-layout(5)).
const MAIN_ONLY: [&str; 16] = [
    "HEAD",
    "index",
    "index.lock",
    "ORIG_HEAD",
    "FETCH_HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "COMMIT_EDITMSG",
    "config.worktree",
    "logs/HEAD",
    "rebase-merge",
    "rebase-apply",
];

/// Copies the field's git folder to `target`, which must not exist yet.
pub(crate) fn clone_git_dir(
    field: &FieldRepo,
    target: &Path,
    notes: &mut Notes,
) -> Result<(), WorkspaceError> {
    let common = field.common_dir();
    let linked = field.git_dir() != common;
    carry::make_folder(target)?;
    let mut paths = carry::list(common)?;
    if linked {
        let own = field.git_dir().strip_prefix(common).ok();
        paths.retain(|path| {
            let main_only = MAIN_ONLY.iter().any(|name| path.starts_with(name));
            !main_only && !own.is_some_and(|own| path.starts_with(own))
        });
    }
    if clone_objects(field, target)? {
        // In place already: only their times and modes are missing.
        let (objects, others): (Vec<_>, Vec<_>) = paths
            .into_iter()
            .partition(|path| is_object(path) && target.join(path).is_file());
        for path in &objects {
            let source = common.join(path);
            let meta = source
                .symlink_metadata()
                .map_err(|e| WorkspaceError::Stat {
                    path: source.clone(),
                    source: e,
                })?;
            carry::finish(&source, &target.join(path), path, &meta, notes)?;
        }
        paths = others;
    }
    carry::copy_paths(common, target, paths.iter().map(PathBuf::as_path), notes)?;
    if linked {
        let mut own = carry::list(field.git_dir())?;
        own.retain(|path| {
            !WORKTREE_ONLY.iter().any(|name| path.starts_with(name))
                && (path.as_os_str().is_empty() || !target.join(path).is_dir())
        });
        let folders: BTreeSet<&Path> = own.iter().filter_map(|p| p.parent()).collect();
        for folder in folders {
            let folder = target.join(folder);
            fs::create_dir_all(&folder).map_err(|source| WorkspaceError::Write {
                path: folder,
                source,
            })?;
        }
        carry::copy_paths(
            field.git_dir(),
            target,
            own.iter().map(PathBuf::as_path),
            notes,
        )?;
    }
    no_links(field, target)?;
    bring_alternates(&common.join("objects"), &target.join("objects"), notes)?;
    rewrite_config(field, &target.join("config"))?;
    let own = target.join("config.worktree");
    if own.symlink_metadata().is_ok_and(|m| m.is_file()) {
        rewrite_config(field, &own)?;
    }
    for name in ["config", "objects/info", "objects/pack", "objects", ""] {
        if let (Ok(meta), true) = (
            common.join(name).symlink_metadata(),
            target.join(name).exists(),
        ) {
            carry::set_times(&target.join(name), &meta)?;
        }
    }
    Ok(())
}

/// Clones the field's objects into `target` with git2, as copies and never as links.
///
/// `false`, with nothing in `target`, where libgit2 does not clone: it takes no repo of another
/// owner, even a trusted one, and would bring a borrowed store's list along instead of its objects.
/// The files are then copied like all others.
fn clone_objects(field: &FieldRepo, target: &Path) -> Result<bool, WorkspaceError> {
    let common = field.common_dir();
    let Some(url) = common.to_str() else {
        return Ok(false);
    };
    if common
        .join("objects/info/alternates")
        .symlink_metadata()
        .is_ok()
    {
        return Ok(false);
    }
    let staging = target.with_extension("cloning");
    let cloned = RepoBuilder::new()
        .bare(true)
        .clone_local(CloneLocal::NoLinks)
        .clone(url, &staging);
    let moved = match cloned {
        Ok(repo) => {
            drop(repo);
            fs::rename(staging.join("objects"), target.join("objects"))
        }
        Err(_) => Ok(()),
    };
    let there = target.join("objects").is_dir();
    if staging.symlink_metadata().is_ok() {
        fs::remove_dir_all(&staging).map_err(|source| WorkspaceError::Remove {
            path: staging.clone(),
            source,
        })?;
    }
    moved.map_err(|source| WorkspaceError::Write {
        path: target.join("objects"),
        source,
    })?;
    Ok(there)
}

/// Whether a path of a git folder is an object or a pack file: named by its content, so that a file
/// of that name holds the same bytes.
fn is_object(path: &Path) -> bool {
    let mut parts = path.components().map(|c| c.as_os_str().as_bytes());
    parts.next() == Some(b"objects")
        && parts
            .next()
            .is_some_and(|name| name == b"pack" || name.len() == 2)
}

/// Bytes that the git folder takes, its alternates included.
pub(crate) fn size_of_git_dir(field: &FieldRepo) -> Result<u64, WorkspaceError> {
    let mut total = 0;
    let mut tops = vec![field.common_dir().to_path_buf()];
    tops.extend(alternates(&field.common_dir().join("objects"))?);
    for top in tops {
        for entry in walkdir::WalkDir::new(&top).follow_links(false) {
            let entry = entry.map_err(|e| WorkspaceError::Walk {
                path: top.clone(),
                source: e.into(),
            })?;
            // Each file takes whole pages on a tmpfs.
            total += entry
                .metadata()
                .map_or(0, |m| m.len().next_multiple_of(4096));
        }
    }
    Ok(total)
}

/// Every object folder that `objects` borrows from, through others too, without repeats.
fn alternates(objects: &Path) -> Result<Vec<PathBuf>, WorkspaceError> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut pending = vec![objects.to_path_buf()];
    while let Some(folder) = pending.pop() {
        let list = folder.join("info/alternates");
        if list.symlink_metadata().is_err() {
            continue;
        }
        let bytes = content::read(&list).map_err(|source| WorkspaceError::Read {
            path: list.clone(),
            source,
        })?;
        for line in bytes
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty() && l[0] != b'#')
        {
            let other = folder.join(OsStr::from_bytes(line));
            // Git goes on without an alternate that is gone; whether objects are missing shows later.
            let Ok(other) = other.canonicalize() else {
                continue;
            };
            if !found.contains(&other) {
                found.push(other.clone());
                pending.push(other);
            }
        }
    }
    Ok(found)
}

/// Copies borrowed objects in, and ends the borrowing.
fn bring_alternates(from: &Path, to: &Path, notes: &mut Notes) -> Result<(), WorkspaceError> {
    for other in alternates(from)? {
        for path in carry::list(&other)? {
            let wanted = path.components().next().is_some_and(|first| {
                let name = first.as_os_str().as_bytes();
                name == b"pack" || name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit)
            });
            let target = to.join(&path);
            // A multi-pack index or bitmap of another store does not describe this one's packs.
            let describes_store = path.starts_with("pack")
                && path
                    .file_name()
                    .is_some_and(|n| n.as_bytes().starts_with(b"multi-pack-index"));
            if !wanted || describes_store || target.symlink_metadata().is_ok() {
                continue;
            }
            if other.join(&path).is_dir() {
                carry::make_folder(&target)?;
                let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
                fs::set_permissions(&target, mode).map_err(|source| WorkspaceError::Write {
                    path: target.clone(),
                    source,
                })?;
            } else {
                carry::copy_paths(&other, to, std::iter::once(path.as_path()), notes)?;
            }
        }
    }
    for name in ["info/alternates", "info/http-alternates"] {
        let path = to.join(name);
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).map_err(|source| WorkspaceError::Remove { path, source })?;
        }
    }
    Ok(())
}

/// Replaces links to files of the user's own, and refuses those through which a write would leave
/// the clone. Hooks may stay links: nothing here writes or runs them.
fn no_links(field: &FieldRepo, target: &Path) -> Result<(), WorkspaceError> {
    for path in carry::list(target)? {
        let place = target.join(&path);
        if !place.is_symlink() || path.starts_with("hooks") || path == Path::new("HEAD") {
            continue;
        }
        let unsupported = || WorkspaceError::Unsupported {
            path: field.top().to_path_buf(),
            what: format!("{} in its git folder is a symbolic link", path.display()),
        };
        if !path.starts_with("info") {
            return Err(unsupported());
        }
        let origin = field
            .common_dir()
            .join(&path)
            .canonicalize()
            .map_err(|_| unsupported())?;
        let bytes = content::read(&origin).map_err(|source| WorkspaceError::Read {
            path: origin,
            source,
        })?;
        fs::remove_file(&place).map_err(|source| WorkspaceError::Remove {
            path: place.clone(),
            source,
        })?;
        fs::write(&place, bytes).map_err(|source| WorkspaceError::Write {
            path: place,
            source,
        })?;
    }
    Ok(())
}

/// One change to a config file.
enum Edit {
    /// Every value of the name becomes this one.
    Set(String, String),
    /// Every value of the name goes.
    Drop(String),
}

/// Keeps a config file as it is, but for what would lead out of the clone.
fn rewrite_config(field: &FieldRepo, path: &Path) -> Result<(), WorkspaceError> {
    if !path.is_file() {
        return Ok(());
    }
    let fail = |source| WorkspaceError::Config {
        path: path.to_path_buf(),
        source,
    };
    let mut config = Config::open(path).map_err(fail)?;
    let mut edits = Vec::new();
    config
        .entries(None)
        .map_err(fail)?
        .for_each(|entry| {
            if entry.include_depth() > 0 {
                return;
            }
            let value = entry
                .has_value()
                .then(|| String::from_utf8_lossy(entry.value_bytes()).into_owned());
            if let Ok(name) = entry.name() {
                edits.extend(edit_for(name, value.as_deref().unwrap_or_default()));
            }
        })
        .map_err(fail)?;
    for edit in edits {
        match edit {
            Edit::Set(name, value) => config.set_multivar(&name, ".*", &value).map_err(fail)?,
            Edit::Drop(name) => match config.remove_multivar(&name, ".*") {
                Err(error) if error.code() != git2::ErrorCode::NotFound => return Err(fail(error)),
                Ok(()) | Err(_) => {}
            },
        }
    }
    if field.git_dir() != field.common_dir() && path.file_name().is_some_and(|n| n == "config") {
        // The common folder of a bare repo with worktrees says so; the clone has a work tree.
        config.set_bool("core.bare", false).map_err(fail)?;
    }
    if wants_untracked_cache(field) && path.file_name().is_some_and(|n| n == "config") {
        // Else git would write a cache into every fresh copy's index, as it has long done in the field.
        config
            .set_str("core.untrackedCache", "keep")
            .map_err(fail)?;
    }
    Ok(())
}

fn wants_untracked_cache(field: &FieldRepo) -> bool {
    let Ok(repo) = super::survey::open_repo(field.git_dir(), field.top()) else {
        return false;
    };
    let Ok(config) = repo.config() else {
        return false;
    };
    config.get_bool("core.untrackedcache").unwrap_or(false)
        || config.get_bool("feature.manyfiles").unwrap_or(false)
}

fn edit_for(name: &str, value: &str) -> Option<Edit> {
    let section = |prefix: &str, suffix: &str| {
        let middle = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
        (!middle.is_empty()).then(|| middle.to_owned())
    };
    let dead = |what: &str| Edit::Set(name.to_owned(), format!("{DEAD_ADDRESS}{what}"));
    if let Some(remote) = section("remote.", ".url").or_else(|| section("remote.", ".pushurl")) {
        return Some(dead(&remote));
    }
    if let Some(module) = section("submodule.", ".url") {
        return Some(dead(&module));
    }
    if section("url.", ".insteadof")
        .or_else(|| section("url.", ".pushinsteadof"))
        .is_some()
    {
        return Some(Edit::Drop(name.to_owned()));
    }
    let names_remote = section("branch.", ".remote")
        .or_else(|| section("branch.", ".pushremote"))
        .is_some()
        || name == "remote.pushdefault";
    // A branch may name an address instead of a remote; `.` is the repo itself.
    let is_address = value.contains(':')
        || value.starts_with(['/', '~'])
        || value.starts_with("./")
        || value.starts_with("../");
    if names_remote && is_address {
        return Some(dead("unnamed"));
    }
    (name == "core.worktree").then(|| Edit::Drop(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leads_out_of_the_clone_is_rewritten() {
        let set = |name: &str, value: &str| match edit_for(name, value) {
            Some(Edit::Set(_, new)) => new,
            Some(Edit::Drop(_)) => "dropped".to_owned(),
            None => "kept".to_owned(),
        };
        let rows = [
            ("remote.origin.url", "git@host:a", "git://192.0.2.1/origin"),
            ("remote.a.b.pushurl", "/srv/x.git", "git://192.0.2.1/a.b"),
            (
                "remote.origin.fetch",
                "+refs/heads/*:refs/remotes/origin/*",
                "kept",
            ),
            ("submodule.lib.url", "https://x/y", "git://192.0.2.1/lib"),
            ("url.https://x/.insteadof", "x:", "dropped"),
            ("url.https://x/.pushinsteadof", "x:", "dropped"),
            ("branch.main.remote", "origin", "kept"),
            ("branch.main.remote", "team/fork", "kept"),
            ("branch.main.remote", "../fork", "git://192.0.2.1/unnamed"),
            ("branch.main.remote", ".", "kept"),
            (
                "branch.main.remote",
                "https://x/y",
                "git://192.0.2.1/unnamed",
            ),
            ("core.worktree", "../x", "dropped"),
            ("core.hookspath", "/x", "kept"),
            ("core.fsmonitor", "/x", "kept"),
            ("user.name", "A", "kept"),
        ];
        for (name, value, expected) in rows {
            assert_eq!(set(name, value), expected, "{name} {value}");
        }
    }
}
