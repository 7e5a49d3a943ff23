//! Makes a small repo of given files, with one commit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git2::{Repository, Signature, Time};

use super::WorkspaceError;

/// Makes `dir` a git repo that holds `tracked` in one commit and `untracked` beside it. Files whose
/// content begins with `#!` are executable. Nothing of the user's git configuration is used.
///
/// # Errors
/// When a file cannot be written or git refuses.
pub fn seed_repo(
    dir: &Path,
    tracked: &[(&str, &str)],
    untracked: &[(&str, &str)],
) -> Result<(), WorkspaceError> {
    let git = |source| WorkspaceError::Seed {
        path: dir.to_owned(),
        source,
    };
    let repo = Repository::init(dir).map_err(git)?;
    for (name, content) in tracked {
        write(&dir.join(name), content)?;
    }
    let mut index = repo.index().map_err(git)?;
    for (name, _) in tracked {
        index.add_path(Path::new(name)).map_err(git)?;
    }
    index.write().map_err(git)?;
    let tree = index
        .write_tree()
        .and_then(|id| repo.find_tree(id))
        .map_err(git)?;
    let author = Signature::new(
        "calibrun",
        "calibrun@localhost",
        &Time::new(1_000_000_000, 0),
    )
    .map_err(git)?;
    repo.commit(
        Some("HEAD"),
        &author,
        &author,
        "Add the capability",
        &tree,
        &[],
    )
    .map_err(git)?;
    for (name, content) in untracked {
        write(&dir.join(name), content)?;
    }
    Ok(())
}

fn write(path: &Path, content: &str) -> Result<(), WorkspaceError> {
    let failed = |path: PathBuf| |source| WorkspaceError::Write { path, source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed(parent.to_owned()))?;
    }
    fs::write(path, content).map_err(failed(path.to_owned()))?;
    let mode = if content.starts_with("#!") {
        0o755
    } else {
        0o644
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed(path.to_owned()))
}
