//! Why a workspace could not be made or read: one variant a failing call.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failure of calibrun's own, or a repo that it cannot reproduce; never a judgement of a subject.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The folder that was named is not there.
    #[error("no such folder: {}", path.display())]
    Missing {
        /// What was named.
        path: PathBuf,
        /// As the system said it.
        source: io::Error,
    },
    /// What was named is no folder.
    #[error("not a folder: {}", path.display())]
    NotAFolder {
        /// What was named.
        path: PathBuf,
    },
    /// No folder up to the root holds a `.git`.
    #[error("{} is in no git repo; run `git init`, commit what the capability needs, and try again", path.display())]
    NoRepo {
        /// What was named.
        path: PathBuf,
    },
    /// A repo without a work tree, or a folder inside a git folder.
    #[error("{} has no work tree (a bare repo or the inside of a git folder); clone it and name the clone", path.display())]
    Bare {
        /// The git folder.
        path: PathBuf,
    },
    /// HEAD leads to no commit.
    #[error("the repo {} has no commit yet; commit once and try again", path.display())]
    NoCommit {
        /// Top of the repo.
        path: PathBuf,
    },
    /// Somebody else's repo, and no trust was declared.
    #[error("{} belongs to {owner}, but calibrun runs as {user}; pass --trust-owner if you trust what that user put there", path.display())]
    ForeignOwner {
        /// The folder or file with the foreign owner.
        path: PathBuf,
        /// Its owner, by name and number.
        owner: String,
        /// The effective user, by name and number.
        user: String,
    },
    /// A repo format that the vendored libgit2 or this module cannot reproduce.
    #[error("the repo {} cannot be reproduced: {what}", path.display())]
    Unsupported {
        /// Top of the repo.
        path: PathBuf,
        /// Which feature, and what would help.
        what: String,
    },
    /// A `.git` file that leads nowhere.
    #[error("{} does not lead to a git folder: {what}", path.display())]
    GitFile {
        /// The `.git` file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A path could not be looked at.
    #[error("cannot look at {}", path.display())]
    Stat {
        /// Which path.
        path: PathBuf,
        /// As the system said it.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// As the system said it.
        source: io::Error,
    },
    /// A folder could not be walked.
    #[error("cannot walk {}", path.display())]
    Walk {
        /// Which folder.
        path: PathBuf,
        /// As the walk said it.
        source: io::Error,
    },
    /// Something could not be written into the temp root.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which path, below the temp root.
        path: PathBuf,
        /// As the system said it.
        source: io::Error,
    },
    /// A small repo could not be made.
    #[error("cannot make a repo in {}", path.display())]
    Seed {
        /// Its folder.
        path: PathBuf,
        /// As libgit2 said it.
        source: git2::Error,
    },
    /// Something could not be removed from the temp root.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// Which path, below the temp root.
        path: PathBuf,
        /// As the system said it.
        source: io::Error,
    },
    /// The temp root could not be made.
    #[error("cannot make a temp root below {}", path.display())]
    TempRoot {
        /// Where it was to lie.
        path: PathBuf,
        /// As the system said it.
        source: io::Error,
    },
    /// Neither temp place has room for the copies.
    #[error("{} has room for {free} bytes, but the copies need {need}", path.display())]
    NoRoom {
        /// The last place tried.
        path: PathBuf,
        /// Bytes needed.
        need: u64,
        /// Bytes free there.
        free: u64,
    },
    /// libgit2 could not open a git folder.
    #[error("cannot open the git folder {}", path.display())]
    OpenRepo {
        /// Which git folder.
        path: PathBuf,
        /// As libgit2 said it.
        source: git2::Error,
    },
    /// HEAD or its tree could not be read.
    #[error("cannot read the commit that HEAD of {} leads to", path.display())]
    ReadHead {
        /// Which git folder.
        path: PathBuf,
        /// As libgit2 said it.
        source: git2::Error,
    },
    /// A git config file could not be read or written.
    #[error("cannot read or write the git config {}", path.display())]
    Config {
        /// Which file.
        path: PathBuf,
        /// As libgit2 said it.
        source: git2::Error,
    },
    /// Commits, refs or reflogs of the canaries could not be written into a copy.
    #[error("cannot plant canary refs in {}", path.display())]
    CanaryRefs {
        /// Which git folder.
        path: PathBuf,
        /// As libgit2 said it.
        source: git2::Error,
    },
    /// The thread that looks at a tree after a run could not be started.
    #[error("cannot start looking at {}", path.display())]
    Look {
        /// The tree.
        path: PathBuf,
        /// As the system said it.
        source: io::Error,
    },
    /// Looking at a tree after a run did not come to an end.
    #[error("looking at {} took more than {} seconds", path.display(), limit.as_secs())]
    Endless {
        /// The tree.
        path: PathBuf,
        /// How long was waited.
        limit: Duration,
    },
    /// The user asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// HEAD, the index or the refs of the repo changed while it was copied.
    #[error("{} changed while the repo was being copied; try again when nothing else works on it", path.display())]
    ChangedMeanwhile {
        /// What changed.
        path: PathBuf,
    },
    /// A later copy differs from the first one, so arms would not start from one state.
    #[error("a fresh copy differs from the first one at {}: {what}", path.display())]
    CopyDiffers {
        /// Relative to the top of the clone.
        path: PathBuf,
        /// What differs.
        what: String,
    },
}
