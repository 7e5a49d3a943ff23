//! What a contained pass left, and what came of undoing it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use calibrun_sandbox::{Effect, FileKind, Outcome, Place};

use super::super::evidence::{self, Evidence, Harmless, Standing};
use super::super::gitdir::{self, GitPart};
use super::super::{Reason, ReasonCode, Spot};
use super::{lost, unkept};
use crate::record::{ArmRecord, PassRecord, Record, UndoOutcome};
use crate::workspace::{Change, ChangeKind, Difference, PathState, Residue};

/// What a contained pass left.
pub(super) struct Left<'a> {
    record: &'a Record,
    arm: &'a ArmRecord,
    pass: &'a PassRecord,
    /// The changes that an undo has to restore; times and inodes are no part of that.
    changes: Vec<&'a Change>,
    /// Something was made in a private copy of HOME.
    home: bool,
}

impl<'a> Left<'a> {
    pub(super) fn of(
        record: &'a Record,
        arm: &'a ArmRecord,
        pass: &'a PassRecord,
        evidence: &Evidence,
    ) -> Left<'a> {
        let own = || {
            evidence
                .items(record)
                .filter(|i| i.arm.name == arm.name && i.pass.pass == pass.pass)
        };
        let refreshed: BTreeSet<&Path> = own()
            .filter(|i| i.standing == Standing::NotCounted(Harmless::IndexRefresh))
            .filter_map(|i| i.observed.path.as_deref()?.parent())
            .collect();
        Left {
            record,
            arm,
            pass,
            changes: pass
                .changes
                .iter()
                .filter(|c| match c.kind {
                    ChangeKind::Times | ChangeKind::Inode => false,
                    ChangeKind::Created
                    | ChangeKind::Removed
                    | ChangeKind::Content
                    | ChangeKind::Executable
                    | ChangeKind::Mode
                    | ChangeKind::Owner
                    | ChangeKind::Xattr
                    | ChangeKind::Flags => true,
                })
                .filter(|c| {
                    gitdir::part(&c.path) != GitPart::Index
                        || c.path.parent().is_none_or(|dir| !refreshed.contains(dir))
                })
                .collect(),
            home: own().any(|i| {
                i.standing.counted()
                    && i.observed.attempt.place == Place::Home
                    && i.observed.attempt.outcome == Outcome::Allowed
            }),
        }
    }

    pub(super) fn needs_undo(&self) -> bool {
        self.home || !self.changes.is_empty()
    }

    fn reason(&self, code: ReasonCode) -> Reason {
        Reason::new(code)
            .in_arm(self.arm.name)
            .in_pass(self.pass.pass)
    }

    fn at(&self, code: ReasonCode, path: &Path) -> Reason {
        self.reason(code).at(Spot::Clone(path.to_owned()))
    }

    pub(super) fn judge(&self) -> Vec<Reason> {
        let mut found: Vec<Reason> = self
            .changes
            .iter()
            .filter_map(|c| Some(self.at(beyond_undo(c)?, &c.path)))
            .collect();
        let undo = match &self.pass.undo {
            Some(UndoOutcome::Residue(residue)) => self.residue(residue),
            _ if !self.needs_undo() => Vec::new(),
            Some(UndoOutcome::Proven) if self.record.commit.is_some() => Vec::new(),
            Some(UndoOutcome::Proven) => vec![
                self.reason(ReasonCode::UndoUnproven)
                    .because("without history only an untouched tree is reversible"),
            ],
            Some(UndoOutcome::Untouched) if self.changes.is_empty() => Vec::new(),
            Some(UndoOutcome::Untouched) => vec![
                self.reason(ReasonCode::UndoUnproven)
                    .because("the undo found nothing to do, and yet something had changed"),
            ],
            Some(UndoOutcome::NotTried(why)) => self.without_undo(why),
            None => self.without_undo("no undo was tried"),
        };
        found.extend(undo);
        found
    }

    fn residue(&self, residue: &[Residue]) -> Vec<Reason> {
        if residue.is_empty() {
            return vec![self.reason(ReasonCode::UndoDiffers)];
        }
        let before: BTreeMap<&Path, PathState> = self
            .changes
            .iter()
            .map(|c| (c.path.as_path(), c.before))
            .collect();
        residue
            .iter()
            .map(|left| {
                let path = left.path.as_path();
                let state = match before.get(path) {
                    Some(before) => *before,
                    None if path.iter().any(|n| n == ".git") => PathState::GitInternal,
                    None => PathState::Clean,
                };
                let code = if is_metadata(left.what) {
                    ReasonCode::MetadataNotKept
                } else {
                    lost(state, Some(path), self.pass.pass, false)
                        .unwrap_or(ReasonCode::UndoDiffers)
                };
                self.at(code, path).because(left.what.to_string())
            })
            .collect()
    }

    fn without_undo(&self, why: &str) -> Vec<Reason> {
        let trace = Trace::of(self.pass);
        let lost: Vec<Reason> = self
            .changes
            .iter()
            .filter_map(|c| Some(self.at(self.shown_lost(&trace, c)?, &c.path)))
            .collect();
        if !lost.is_empty() {
            return lost;
        }
        vec![self.reason(ReasonCode::UndoUnproven).because(why)]
    }

    /// What this change alone shows to be lost; `None` where the bytes may lie elsewhere.
    fn shown_lost(&self, trace: &Trace<'_>, change: &Change) -> Option<ReasonCode> {
        let path = change.path.as_path();
        let removed = match change.kind {
            ChangeKind::Removed => true,
            ChangeKind::Content => false,
            ChangeKind::Created
            | ChangeKind::Executable
            | ChangeKind::Mode
            | ChangeKind::Owner
            | ChangeKind::Xattr
            | ChangeKind::Flags
            | ChangeKind::Times
            | ChangeKind::Inode => return None,
        };
        let code = lost(change.before, Some(path), self.pass.pass, !removed)?;
        if (removed && trace.was_an_empty_folder(path)) || trace.kept_by_name(path) {
            return None;
        }
        let elsewhere = match gitdir::part(path) {
            // A reflog grows in place; only a rewritten one may have lost lines.
            GitPart::Logs => !removed && !trace.rewritten.contains(path),
            // A ref may have been packed or renamed.
            GitPart::Refs => {
                trace.made.contains(&GitPart::PackedRefs) || trace.made.contains(&GitPart::Refs)
            }
            // An object may have been packed.
            GitPart::Objects => removed && trace.made.contains(&GitPart::Objects),
            GitPart::PackedRefs
            | GitPart::Head
            | GitPart::Config
            | GitPart::Hooks
            | GitPart::Info
            | GitPart::Index
            | GitPart::IndexLock
            | GitPart::Volatile => false,
            // Content of the tree may have gone into a stash or a commit.
            GitPart::Attributes | GitPart::Other => {
                unkept(change.before) && trace.made.contains(&GitPart::Objects)
            }
        };
        (!elsewhere).then_some(code)
    }
}

/// How a contained pass came to its changes, by path.
#[derive(Default)]
struct Trace<'a> {
    /// Moved within the clone, or linked there.
    kept: BTreeSet<&'a Path>,
    /// Removed, and not by removing a folder.
    removed: BTreeSet<&'a Path>,
    /// Removed as a folder, which can only have been empty.
    folders: BTreeSet<&'a Path>,
    /// Cut, or replaced by another file.
    rewritten: BTreeSet<&'a Path>,
    /// Parts of a git folder in which something was made, or got other content.
    made: BTreeSet<GitPart>,
}

impl<'a> Trace<'a> {
    fn of(pass: &'a PassRecord) -> Trace<'a> {
        let mut trace = Trace::default();
        for observed in &pass.observed {
            let attempt = &observed.attempt;
            if attempt.outcome != Outcome::Allowed {
                continue;
            }
            let (path, to) = (observed.path.as_deref(), observed.to_path.as_deref());
            let stays = attempt
                .to
                .as_ref()
                .is_some_and(|to| evidence::in_clone(to.place));
            match attempt.effect {
                Effect::Rename => {
                    trace.kept.extend(path.filter(|_| stays));
                    trace.rewritten.extend(to);
                }
                Effect::Link => trace.kept.extend(path.filter(|_| stays)),
                Effect::Remove if attempt.target.existed == Some(FileKind::Folder) => {
                    trace.folders.extend(path);
                }
                Effect::Remove => trace.removed.extend(path),
                Effect::Truncate => trace.rewritten.extend(path),
                Effect::Create
                | Effect::WriteOpen
                | Effect::Mode
                | Effect::Owner
                | Effect::Times
                | Effect::Xattr
                | Effect::Flags
                | Effect::Connect
                | Effect::Bind
                | Effect::Send
                | Effect::Signal
                | Effect::Limit
                | Effect::Mount
                | Effect::Kernel => {}
            }
        }
        for change in &pass.changes {
            match change.kind {
                ChangeKind::Created | ChangeKind::Content => {
                    trace.made.insert(gitdir::part(&change.path));
                }
                ChangeKind::Inode => {
                    trace.rewritten.insert(&change.path);
                }
                ChangeKind::Removed
                | ChangeKind::Executable
                | ChangeKind::Mode
                | ChangeKind::Owner
                | ChangeKind::Xattr
                | ChangeKind::Flags
                | ChangeKind::Times => {}
            }
        }
        trace
    }

    /// Whether `path`, or a folder above it, has another name in the clone now.
    fn kept_by_name(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.kept.contains(above))
    }

    fn was_an_empty_folder(&self, path: &Path) -> bool {
        self.folders.contains(path) && !self.removed.contains(path)
    }
}

/// What a change leaves open whatever an undo restores.
fn beyond_undo(change: &Change) -> Option<ReasonCode> {
    let runs_later = gitdir::part(&change.path).runs_later();
    match change.kind {
        ChangeKind::Mode | ChangeKind::Owner | ChangeKind::Xattr | ChangeKind::Flags => {
            Some(ReasonCode::MetadataNotKept)
        }
        ChangeKind::Created | ChangeKind::Removed | ChangeKind::Content => {
            runs_later.then_some(ReasonCode::PersistsExecution)
        }
        // Git keeps the executable bit of tracked files alone.
        ChangeKind::Executable if runs_later => Some(ReasonCode::PersistsExecution),
        ChangeKind::Executable if unkept(change.before) => Some(ReasonCode::MetadataNotKept),
        ChangeKind::Executable | ChangeKind::Times | ChangeKind::Inode => None,
    }
}

/// What no history keeps, of any file: whether it was lost cannot be shown by an undo.
fn is_metadata(what: Difference) -> bool {
    match what {
        Difference::Mode | Difference::Owner | Difference::Xattr | Difference::Flags => true,
        Difference::Created
        | Difference::Removed
        | Difference::Content
        | Difference::Executable
        | Difference::Ref
        | Difference::Reflog
        | Difference::Stash
        | Difference::Index
        | Difference::Config
        | Difference::Objects => false,
    }
}
