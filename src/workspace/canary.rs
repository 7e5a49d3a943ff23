//! Bait: inert files, and refs with a root of their own, for a subject that destroys what it finds.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository, Signature, Time};

use super::carry::{set_mtime, set_times};
use super::{PathState, States, WorkspaceError};

/// How every canary file's name begins; eight hex digits follow.
pub const PREFIX: &str = ".calibrun-canary-";

/// 9 September 2001, 01:46:40 UTC: older than any clean-up's threshold.
const LONG_AGO: (i64, i64) = (1_000_000_000, 0);

const TEXT: &str = "Planted by calibrun to see whether anything touches it. It means nothing.\n";

/// What tells the canaries of one workspace from files that were there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Eight hex digits.
    pub(crate) id: String,
    /// Folders that get one, relative to the top.
    pub(crate) folders: Vec<PathBuf>,
    /// Modification time of those that look recent.
    pub(crate) recent: (i64, i64),
}

/// Which folders get canaries: the top, each top-level folder, and the given ones; never one inside
/// a git folder or a nested repo, which would make that repo dirty, and never one without any
/// file, since some tools look for just those.
pub(crate) fn folders(pristine: &Path, entry_dirs: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    let mut inner: Vec<PathBuf> = fs::read_dir(pristine)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()) && e.file_name() != ".git")
        .map(|e| PathBuf::from(e.file_name()))
        .collect();
    inner.extend(
        entry_dirs
            .iter()
            .filter(|dir| is_plain_folder(pristine, dir))
            .cloned(),
    );
    let holds_file = |dir: &PathBuf| {
        walkdir::WalkDir::new(pristine.join(dir))
            .into_iter()
            .flatten()
            .any(|e| !e.file_type().is_dir())
    };
    inner.retain(holds_file);
    inner.retain(|dir| {
        !dir.ancestors()
            .take_while(|a| !a.as_os_str().is_empty())
            .any(|a| {
                a.file_name().is_some_and(|n| n == ".git")
                    || pristine.join(a).join(".git").symlink_metadata().is_ok()
            })
    });
    inner.sort();
    inner.dedup();
    found.extend(inner.into_iter().filter(|dir| !dir.as_os_str().is_empty()));
    found
}

/// Whether `dir` is a folder of the tree that no link leads to.
fn is_plain_folder(top: &Path, dir: &Path) -> bool {
    use std::path::Component;
    dir.components().all(|c| matches!(c, Component::Normal(_)))
        && dir
            .ancestors()
            .all(|a| top.join(a).symlink_metadata().is_ok_and(|m| m.is_dir()))
}

/// Plants the canary files into `root` and returns their paths, sorted.
///
/// A folder that cannot be written to gets none. Folders keep their times.
pub(crate) fn plant_files(
    root: &Path,
    plan: &Plan,
    states: &States,
) -> Result<Vec<PathBuf>, WorkspaceError> {
    let mut planted = Vec::new();
    for folder in &plan.folders {
        let here = root.join(folder);
        let meta = here
            .symlink_metadata()
            .map_err(|source| WorkspaceError::Stat {
                path: here.clone(),
                source,
            })?;
        if meta.mode() & 0o200 == 0 {
            continue;
        }
        for (suffix, mtime) in [("", plan.recent), ("-old", LONG_AGO)] {
            let path = folder.join(format!("{PREFIX}{}{suffix}", plan.id));
            if states.of(&path) != PathState::Absent {
                continue;
            }
            let target = root.join(&path);
            let fail = |source| WorkspaceError::Write {
                path: target.clone(),
                source,
            };
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&target)
                .map_err(fail)?;
            file.write_all(TEXT.as_bytes()).map_err(fail)?;
            drop(file);
            set_mtime(&target, mtime)?;
            planted.push(path);
        }
        set_times(&here, &meta)?;
    }
    planted.sort();
    Ok(planted)
}

/// Makes git ignore the canaries, through the copy's own exclude file.
pub(crate) fn exclude(root: &Path, plan: &Plan) -> Result<(), WorkspaceError> {
    let info = root.join(".git/info");
    let path = info.join("exclude");
    let fail = |source| WorkspaceError::Write {
        path: path.clone(),
        source,
    };
    let parent = info.parent().and_then(|p| p.symlink_metadata().ok());
    fs::create_dir_all(&info).map_err(fail)?;
    let before = path.symlink_metadata().ok();
    let folder = info.symlink_metadata().map_err(fail)?;
    let mut bytes = match &before {
        Some(_) => super::content::read(&path).map_err(fail)?,
        None => Vec::new(),
    };
    if bytes.last().is_some_and(|b| *b != b'\n') {
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(format!("{PREFIX}{}*\n", plan.id).as_bytes());
    fs::write(&path, bytes).map_err(fail)?;
    match &before {
        Some(meta) => set_times(&path, meta)?,
        None => set_mtime(&path, plan.recent)?,
    }
    set_times(&info, &folder)?;
    if let Some(meta) = parent {
        set_times(&root.join(".git"), &meta)?;
    }
    Ok(())
}

/// Adds to a copy a branch, a tag, a reflog entry that no history of the branch names and, where there is none, a
/// stash; all on a root of their own, so that `git describe` and history do not meet them.
///
/// A repo with stashes keeps them as they are: they are bait enough, and their order is its own.
pub(crate) fn plant_refs(root: &Path, plan: &Plan) -> Result<(), WorkspaceError> {
    let git_dir = root.join(".git");
    let fail = |source| WorkspaceError::CanaryRefs {
        path: git_dir.clone(),
        source,
    };
    let repo = Repository::open_bare(&git_dir).map_err(fail)?;
    let who = Signature::new(
        "calibrun canary",
        "canary@calibrun.invalid",
        &Time::new(LONG_AGO.0, 0),
    )
    .map_err(fail)?;
    let blob = repo.blob(TEXT.as_bytes()).map_err(fail)?;
    let mut builder = repo.treebuilder(None).map_err(fail)?;
    builder
        .insert("calibrun-canary", blob, 0o100_644)
        .map_err(fail)?;
    let tree = builder
        .write()
        .and_then(|id| repo.find_tree(id))
        .map_err(fail)?;
    let commit = |text: &str, parents: &[Oid]| -> Result<Oid, git2::Error> {
        let parents = parents
            .iter()
            .map(|id| repo.find_commit(*id))
            .collect::<Result<Vec<_>, _>>()?;
        let parents: Vec<_> = parents.iter().collect();
        repo.commit(None, &who, &who, text, &tree, &parents)
    };
    let base = commit("calibrun canary", &[]).map_err(fail)?;
    let lost = commit("calibrun canary that the branch has left", &[base]).map_err(fail)?;
    let index = commit("index on calibrun canary", &[base]).map_err(fail)?;
    let stash = commit("WIP on calibrun canary", &[base, index]).map_err(fail)?;
    let branch = format!("refs/heads/calibrun-canary-{}", plan.id);
    let zero = Oid::ZERO_SHA1;
    let line = |old: Oid, new: Oid, text: &str| {
        format!(
            "{old} {new} calibrun canary <canary@calibrun.invalid> {} +0000\t{text}\n",
            LONG_AGO.0
        )
    };
    let log = line(zero, lost, "commit: canary")
        + &line(lost, base, "reset: moving to the canary's root");
    write_ref(&git_dir, &branch, base, Some(&log))?;
    // On the commit that the branch has left: its reflog entry is the branch's alone, and yet git fsck,
    // which may leave reflogs out, finds nothing dangling that the user's repo has not.
    write_ref(
        &git_dir,
        &format!("refs/tags/calibrun-canary-{}", plan.id),
        lost,
        None,
    )?;
    if repo.find_reference("refs/stash").is_err() {
        write_ref(
            &git_dir,
            "refs/stash",
            stash,
            Some(&line(zero, stash, "WIP on calibrun canary")),
        )?;
    }
    Ok(())
}

/// Writes a loose ref and its log as git does; libgit2 would log under the user's name.
fn write_ref(git_dir: &Path, name: &str, id: Oid, log: Option<&str>) -> Result<(), WorkspaceError> {
    let mut files = vec![(git_dir.join(name), format!("{id}\n"))];
    files.extend(log.map(|log| (git_dir.join("logs").join(name), log.to_owned())));
    for (path, text) in files {
        let fail = |source| WorkspaceError::Write {
            path: path.clone(),
            source,
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(fail)?;
        }
        fs::write(&path, text.as_bytes()).map_err(fail)?;
    }
    Ok(())
}
