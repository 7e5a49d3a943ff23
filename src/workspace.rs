//! The clone in which arms run: carry-over, canaries, manifest. The only user of git2.
//!
//! ```text
//! FieldRepo (read only) -> Workspace (pristine copy) -> Tree (one copy a pass, baseline manifest)
//!                                                        -> Manifest after -> diff, untouched, restored
//! ```
//!
//! The field repo is only ever read. Nothing that lies in it (hooks, filters, aliases) is executed.

mod aftermath;
mod beneath;
mod canary;
mod carry;
mod clone;
mod config;
mod content;
mod copies;
mod equality;
mod error;
mod field;
mod gitstate;
mod index;
mod manifest;
mod objects;
mod reach;
mod refresh;
mod removal;
mod seed;
mod state;
mod survey;
mod temp;
mod undo;

pub use aftermath::{Aftermath, aftermath, read_index};
pub use canary::PREFIX as CANARY_PREFIX;
pub use clone::DEAD_ADDRESS;
pub use copies::{Options, Stage, Tree, Workspace};
pub use equality::{Difference, Residue, diff, restored, untouched};
pub use error::WorkspaceError;
pub use field::FieldRepo;
pub use manifest::{Entry, Manifest, Moment};
pub use refresh::index_kept;
pub use seed::seed_repo;
pub use state::States;
pub use temp::{PREFIX as TEMP_PREFIX, TempPlaces, TempRoot};
pub use undo::{UndoReport, undo};

use std::path::PathBuf;

/// What a path was, to git, before an arm ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathState {
    /// Not below the clone at all.
    NotInClone,
    /// Nothing was there.
    Absent,
    /// Tracked; file, index and HEAD agree. For a folder: so is everything in it.
    Clean,
    /// Tracked; the index differs from HEAD and the file equals the index.
    Staged,
    /// Tracked; the file differs from the index.
    Uncommitted,
    /// Neither tracked nor ignored.
    Untracked,
    /// Ignored by git.
    Ignored,
    /// Below a git folder.
    GitInternal,
    /// Planted by calibrun.
    Canary,
}

/// What differs between two manifests at one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It is gone.
    Removed,
    /// Its bytes, its link target or its kind differ.
    Content,
    /// Its executable bit differs.
    Executable,
    /// Other mode bits differ.
    Mode,
    /// Its owner or group differ.
    Owner,
    /// Its extended attributes differ.
    Xattr,
    /// Its inode flags differ.
    Flags,
    /// Its modification or change time differs.
    Times,
    /// The name leads to another inode.
    Inode,
}

/// One difference that a contained pass left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Relative to the top of the clone.
    pub path: PathBuf,
    /// What differs.
    pub kind: ChangeKind,
    /// What the path was before.
    pub before: PathState,
    /// Whether it lies in a git folder of the clone.
    pub in_git_dir: bool,
}
