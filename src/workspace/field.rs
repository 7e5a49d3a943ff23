//! The user's repo as it was found. Nothing here writes, and nothing of the repo is executed.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use git2::{Config, ErrorCode};
use nix::unistd::{Uid, User};

use super::survey::{self, Survey};
use super::{WorkspaceError, content};

/// A repo on this host whose working state arms will meet as a copy.
#[derive(Clone, Debug)]
pub struct FieldRepo {
    top: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
    commit: String,
    branch: Option<String>,
    pub(crate) survey: Survey,
}

impl FieldRepo {
    /// Finds and reads the repo that holds `dir`, as git would find it, but for the environment.
    ///
    /// # Errors
    /// When `dir` is missing, in no repo, in a bare one, or in one without a commit; when the repo
    /// belongs to another user and `trust_owner` is not set; when its format cannot be reproduced
    /// (SHA-256 objects, reftable, partial clone, split index, a work tree set elsewhere).
    pub fn discover(dir: &Path, trust_owner: bool) -> Result<FieldRepo, WorkspaceError> {
        let start = dir
            .canonicalize()
            .map_err(|source| WorkspaceError::Missing {
                path: dir.to_path_buf(),
                source,
            })?;
        if !start.is_dir() {
            return Err(WorkspaceError::NotAFolder { path: start });
        }
        let (top, git_dir) = locate(&start)?;
        let common_dir = common_dir_of(&git_dir)?;
        if !trust_owner {
            for path in [&top, &top.join(".git"), &git_dir, &common_dir] {
                check_owner(path)?;
            }
        }
        check_format(&top, &git_dir, &common_dir)?;
        let repo = survey::open_repo(&git_dir, &top)?;
        let read = |source| WorkspaceError::ReadHead {
            path: git_dir.clone(),
            source,
        };
        let head = match repo.head() {
            Ok(head) => head,
            Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => {
                return Err(WorkspaceError::NoCommit { path: top });
            }
            Err(error) => return Err(read(error)),
        };
        let commit = head.peel_to_commit().map_err(read)?.id().to_string();
        let branch = head
            .is_branch()
            .then(|| String::from_utf8_lossy(head.shorthand_bytes()).into_owned());
        let survey = survey::survey(&git_dir, &top)?;
        Ok(FieldRepo {
            top,
            git_dir,
            common_dir,
            commit,
            branch,
            survey,
        })
    }

    /// Top folder of the work tree: absolute, free of links.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// The git folder of this work tree.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The git folder that holds objects and branches; differs from [`FieldRepo::git_dir`] in a
    /// linked worktree.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Full name of the commit that HEAD leads to.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// Short name of the branch that is checked out; `None` when HEAD is detached.
    pub fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// Whether tracked or untracked, unignored files differ from the commit, by content.
    pub fn is_dirty(&self) -> bool {
        self.survey.dirty
    }
}

/// Top and git folder of the repo that holds `start`.
fn locate(start: &Path) -> Result<(PathBuf, PathBuf), WorkspaceError> {
    for folder in start.ancestors() {
        if is_git_dir(folder) {
            return Err(WorkspaceError::Bare {
                path: folder.to_path_buf(),
            });
        }
        let marker = folder.join(".git");
        let Ok(meta) = marker.metadata() else {
            continue;
        };
        if meta.is_dir() {
            let git_dir = marker
                .canonicalize()
                .map_err(|source| WorkspaceError::Stat {
                    path: marker.clone(),
                    source,
                })?;
            // Like git, go on upwards where a folder only has the name.
            if is_git_dir(&git_dir) {
                return Ok((folder.to_path_buf(), git_dir));
            }
        } else if meta.is_file() {
            let git_dir = survey::read_git_file(&marker)?;
            if !git_dir.join("HEAD").is_file() {
                return Err(WorkspaceError::GitFile {
                    path: marker,
                    what: format!("{} has no HEAD", git_dir.display()),
                });
            }
            return Ok((folder.to_path_buf(), git_dir));
        }
    }
    Err(WorkspaceError::NoRepo {
        path: start.to_path_buf(),
    })
}

fn is_git_dir(path: &Path) -> bool {
    let head = path.join("HEAD");
    (head.is_file() || head.is_symlink())
        && (path.join("objects").is_dir() && path.join("refs").is_dir()
            || path.join("commondir").is_file())
}

fn common_dir_of(git_dir: &Path) -> Result<PathBuf, WorkspaceError> {
    let file = git_dir.join("commondir");
    if !file.is_file() {
        return Ok(git_dir.to_path_buf());
    }
    let bytes = content::read(&file).map_err(|source| WorkspaceError::Read {
        path: file.clone(),
        source,
    })?;
    let text = String::from_utf8_lossy(&bytes)
        .trim_end_matches(['\n', '\r'])
        .to_owned();
    let target = git_dir.join(&text);
    target.canonicalize().map_err(|e| WorkspaceError::GitFile {
        path: file,
        what: format!("{}: {e}", target.display()),
    })
}

fn check_owner(path: &Path) -> Result<(), WorkspaceError> {
    let meta: Metadata = path.metadata().map_err(|source| WorkspaceError::Stat {
        path: path.to_path_buf(),
        source,
    })?;
    let me = Uid::effective();
    if meta.uid() == me.as_raw() {
        return Ok(());
    }
    Err(WorkspaceError::ForeignOwner {
        path: path.to_path_buf(),
        owner: user_name(Uid::from_raw(meta.uid())),
        user: user_name(me),
    })
}

fn user_name(uid: Uid) -> String {
    match User::from_uid(uid) {
        Ok(Some(user)) => format!("{} (uid {uid})", user.name),
        Ok(None) | Err(_) => format!("uid {uid}"),
    }
}

/// Refuses what neither libgit2 nor a copy of files reproduces.
fn check_format(top: &Path, git_dir: &Path, common_dir: &Path) -> Result<(), WorkspaceError> {
    let unsupported = |what: String| WorkspaceError::Unsupported {
        path: top.to_path_buf(),
        what,
    };
    for name in ["objects", "refs", "packed-refs", "config", "index", "logs"] {
        let path = common_dir.join(name);
        if path.is_symlink() {
            return Err(unsupported(format!(
                "{} is a symbolic link; use `git worktree` instead",
                path.display()
            )));
        }
    }
    let path = common_dir.join("config");
    if !path.is_file() {
        return Ok(());
    }
    let fail = |source| WorkspaceError::Config {
        path: path.clone(),
        source,
    };
    let config = Config::open(&path).map_err(fail)?;
    let mut problem = None;
    let mut worktree = None;
    config
        .entries(None)
        .map_err(fail)?
        .for_each(|entry| {
            let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
            let value = if entry.has_value() {
                String::from_utf8_lossy(entry.value_bytes()).into_owned()
            } else {
                "true".to_owned()
            };
            match name.as_str() {
                "extensions.objectformat" if value != "sha1" => {
                    problem = Some(format!("its objects are named by {value}, only sha1 is read"));
                }
                "extensions.refstorage" if value != "files" => {
                    problem = Some(format!(
                        "its refs are kept as {value}; `git refs migrate --ref-format=files` converts them"
                    ));
                }
                "extensions.partialclone" => {
                    problem = Some("it is a partial clone; `git fetch --refetch --no-filter` completes it".to_owned());
                }
                "extensions.objectformat"
                | "extensions.refstorage"
                | "extensions.noop"
                | "extensions.worktreeconfig"
                | "extensions.preciousobjects"
                | "extensions.relativeworktrees" => {}
                "core.worktree" => worktree = Some(value),
                _ if name.starts_with("extensions.") => problem = Some(format!("the extension {name} is not known")),
                _ if name.starts_with("remote.") && name.ends_with(".promisor") && value != "false" => {
                    problem = Some("it is a partial clone; `git fetch --refetch --no-filter` completes it".to_owned());
                }
                _ => {}
            }
        })
        .map_err(fail)?;
    if let Some(what) = problem {
        return Err(unsupported(what));
    }
    if let Some(worktree) = worktree.filter(|_| git_dir == common_dir)
        && git_dir.join(&worktree).canonicalize().ok().as_deref() != Some(top)
    {
        return Err(unsupported(format!(
            "core.worktree puts its work tree at {worktree}"
        )));
    }
    if git_dir == common_dir && config.get_bool("core.bare").unwrap_or(false) {
        return Err(WorkspaceError::Bare {
            path: git_dir.to_path_buf(),
        });
    }
    Ok(())
}
