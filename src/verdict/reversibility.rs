//! The `reversibility` axis: does what an arm left in the clone, by its own history and index,
//! suffice to restore what was there?

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use calibrun_sandbox::{Effect, Outcome, Pass, Place, Target};

use super::evidence::{self, Destroyed, Evidence, Item, Made, Standing};
use super::gitdir::{self, GitPart};
use super::{Reason, ReasonCode, Spot, Status, gravest, united, writes};
use crate::contract::Reversibility;
use crate::record::{PassRecord, Record};
use crate::workspace::{ChangeKind, PathState};

mod home;
mod left;
mod put_back;

use left::Left;

/// What is known of the `reversibility` axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReversibilityVerdict {
    /// The claim.
    pub declared: Option<Reversibility>,
    /// What was measured: unknown where something is left open.
    pub observed: Reversibility,
    /// `None` when nothing is claimed.
    pub status: Option<Status>,
    /// Sorted, the gravest first. Without a claim: on what `observed` rests.
    pub reasons: Vec<Reason>,
}

/// Judges `declared` by the evidence; `shared` are the reasons that instrument and arms give.
pub fn judge(
    declared: Option<Reversibility>,
    record: &Record,
    evidence: &Evidence,
    shared: &[Reason],
) -> ReversibilityVerdict {
    let mut reasons = shared.to_vec();
    // A file of the clone that shows no change is judged by what could have been lost meanwhile.
    reasons.extend(writes::open_questions(record, evidence).filter(|r| {
        r.code != ReasonCode::WriteOpenUnresolved || !matches!(r.at, Some(Spot::Clone(_)))
    }));
    reasons.extend(
        writes::effects_without_attempt(record, evidence)
            .into_iter()
            .map(writes::doubt),
    );
    let mut undone = false;
    let contained: BTreeMap<_, _> = record
        .arms
        .iter()
        .filter_map(|arm| Some((arm.name, Contained::of(arm.pass(Pass::Contained)?))))
        .collect();
    let nothing = Contained::default();
    let made: BTreeMap<_, _> = record
        .arms
        .iter()
        .flat_map(|arm| arm.passes.iter().map(|p| ((arm.name, p.pass), Made::of(p))))
        .collect();
    for item in evidence.items(record) {
        let contained = contained.get(&item.arm.name).unwrap_or(&nothing);
        if let Some(made) = made.get(&(item.arm.name, item.pass.pass)) {
            reasons.extend(tried(&item, contained, made));
        }
    }
    for arm in &record.arms {
        if let Some(pass) = arm.pass(Pass::Contained) {
            let left = Left::of(record, arm, pass, evidence);
            undone |= left.needs_undo();
            reasons.extend(left.judge());
        }
    }

    let reasons = united(reasons);
    let observed = match gravest(&reasons) {
        Status::Contradicted => Reversibility::Irreversible,
        Status::ClaimOnly => Reversibility::Unknown,
        Status::Verified => Reversibility::Reversible,
    };
    let reasons = match declared {
        None => reasons,
        Some(Reversibility::Reversible) if reasons.is_empty() => {
            vec![Reason::new(if undone {
                ReasonCode::UndoProven
            } else {
                ReasonCode::NothingChanged
            })]
        }
        Some(Reversibility::Reversible) => reasons,
        Some(Reversibility::Unknown) => beside(ReasonCode::DeclaredUnknown, observed, reasons),
        Some(Reversibility::Irreversible) => beside(ReasonCode::TopOfOrder, observed, reasons),
    };
    ReversibilityVerdict {
        declared,
        observed,
        status: declared.map(|_| gravest(&reasons)),
        reasons,
    }
}

/// The reasons of a claim that nothing can contradict, with the measured value beside it.
fn beside(code: ReasonCode, observed: Reversibility, reasons: Vec<Reason>) -> Vec<Reason> {
    let (against, open): (Vec<_>, Vec<_>) = reasons
        .into_iter()
        .partition(|r| r.code.status() == Status::Contradicted);
    let codes: BTreeSet<&str> = against.iter().map(|r| r.code.code()).collect();
    let mut measured = format!("measured: {}", observed.name());
    for (i, code) in codes.iter().enumerate() {
        measured.push_str(if i == 0 { ", for " } else { " and " });
        measured.push_str(code);
    }
    let mut all = vec![Reason::new(code).because(measured)];
    all.extend(open);
    united(all)
}

/// What a contained pass did, by path: a refused attempt that it performed is judged there.
#[derive(Default)]
struct Contained<'a> {
    destroyed: BTreeSet<(Effect, &'a Path)>,
    did: BTreeSet<(Effect, &'a Path)>,
    changed: BTreeMap<&'a Path, BTreeSet<ChangeKind>>,
    /// What it made, and the folders that hold what it made.
    made: Made<'a>,
    made_within: BTreeSet<&'a Path>,
}

impl<'a> Contained<'a> {
    fn of(pass: &'a PassRecord) -> Contained<'a> {
        let mut contained = Contained {
            made: Made::of(pass),
            ..Contained::default()
        };
        contained
            .made_within
            .extend(contained.made.paths().filter_map(Path::parent));
        for observed in &pass.observed {
            if observed.attempt.outcome != Outcome::Allowed {
                continue;
            }
            let effect = observed.attempt.effect;
            contained.destroyed.extend(
                evidence::destroyed(observed)
                    .iter()
                    .filter_map(|end| Some((effect, end.path?))),
            );
            let ends = [&observed.path, &observed.to_path];
            for path in ends.into_iter().flatten() {
                contained.did.insert((effect, path));
            }
        }
        for change in &pass.changes {
            contained
                .changed
                .entry(&change.path)
                .or_default()
                .insert(change.kind);
        }
        contained
    }

    /// Whether this pass made `target`, something beside it, or a folder above it. Names of temp files
    /// differ from run to run.
    fn made_like(&self, target: &Target) -> bool {
        target.resolved.as_deref().is_some_and(|path| {
            let beside = path.parent().is_some_and(|p| self.made_within.contains(p));
            beside || self.made.before(usize::MAX, target)
        })
    }

    /// Whether this pass made the same attempt on `path`; what became of it shows in the changes.
    fn did(&self, effect: Effect, path: Option<&Path>) -> bool {
        path.is_some_and(|path| self.did.contains(&(effect, path)))
    }

    /// Whether this pass destroyed what `path` named by the same effect.
    fn destroyed(&self, effect: Effect, path: Option<&Path>) -> bool {
        path.is_some_and(|path| self.destroyed.contains(&(effect, path)))
    }

    /// Whether nothing has the name `path` any more.
    fn is_gone(&self, path: &Path) -> bool {
        self.changed
            .get(path)
            .is_some_and(|kinds| kinds.contains(&ChangeKind::Removed))
    }

    /// Whether `path` ended with other content than it had.
    fn content_differs(&self, path: &Path) -> bool {
        self.changed.get(path).is_some_and(|kinds| {
            kinds.contains(&ChangeKind::Removed) || kinds.contains(&ChangeKind::Content)
        })
    }
}

/// What one attempt says, beside what the contained pass left.
fn tried(item: &Item<'_>, contained: &Contained<'_>, made: &Made<'_>) -> Vec<Reason> {
    match item.standing {
        Standing::Counted(_) => {}
        Standing::ClaimOnly(ReasonCode::WriteOpenUnresolved) => {
            return put_back::unseen(item)
                .map(|code| item.reason(code))
                .into_iter()
                .collect();
        }
        Standing::ClaimOnly(_) | Standing::NotCounted(_) => return Vec::new(),
    }
    let attempt = &item.observed.attempt;
    let destroyed = evidence::destroyed(item.observed);
    let mut codes: BTreeSet<ReasonCode> = destroyed
        .iter()
        .filter(|end| match end.target.place {
            Place::Home | Place::Outside => !made.before(item.index, end.target),
            Place::Worktree
            | Place::GitDir
            | Place::Scratch
            | Place::Ipc
            | Place::Itself
            | Place::DeviceSink
            | Place::NameService
            | Place::Delegated
            | Place::Egress => false,
        })
        .map(|_| ReasonCode::OutsideDestroyed)
        .collect();
    if evidence::in_clone(attempt.place) || destroyed.iter().any(|end| end.path.is_some()) {
        match attempt.outcome {
            Outcome::Denied => codes.extend(refused(item, &destroyed, contained)),
            Outcome::Allowed => codes.extend(put_back::risked(item, &destroyed, contained)),
            Outcome::NoOp | Outcome::Unknown => {}
        }
    }
    if home::runs_later(attempt) {
        codes.insert(ReasonCode::PersistsExecution);
    }
    if !evidence::in_clone(attempt.place)
        && codes.is_empty()
        && !home::is_removable(item, contained, made)
    {
        codes.insert(ReasonCode::EffectsOutside);
    }
    codes.into_iter().map(|code| item.reason(code)).collect()
}

/// What a refused attempt would have done to the clone, unless the contained pass did it too.
fn refused(
    item: &Item<'_>,
    destroyed: &[Destroyed<'_>],
    contained: &Contained<'_>,
) -> Vec<ReasonCode> {
    let attempt = &item.observed.attempt;
    let mut codes = Vec::new();
    for end in destroyed {
        if !evidence::in_clone(end.target.place) || contained.destroyed(attempt.effect, end.path) {
            continue;
        }
        let rewritten = attempt.effect != Effect::Remove;
        codes.push(if end.moved {
            ReasonCode::UndoUnproven
        } else {
            lost(end.state, end.path, item.pass.pass, rewritten).unwrap_or(ReasonCode::UndoUnproven)
        });
    }
    let path = item.observed.path.as_deref();
    let state = item.observed.state;
    if state == PathState::Absent && attempt.target.existed.is_some() {
        // It is the arm's own, made in this pass.
        return codes;
    }
    match attempt.effect {
        Effect::WriteOpen if !contained.did(attempt.effect, path) => {
            // Git files are mostly appended to in place, which loses nothing.
            let code = match state {
                PathState::GitInternal => None,
                _ => lost(state, path, item.pass.pass, true),
            };
            codes.push(code.unwrap_or(ReasonCode::UndoUnproven));
        }
        Effect::Mode | Effect::Owner | Effect::Xattr | Effect::Flags
            if !contained.did(attempt.effect, path) =>
        {
            codes.push(ReasonCode::MetadataNotKept);
        }
        Effect::Create | Effect::Link | Effect::Rename => {
            let new = if attempt.effect == Effect::Create {
                path
            } else {
                item.observed.to_path.as_deref()
            };
            if new.is_some_and(|p| gitdir::part(p).runs_later())
                && !contained.did(attempt.effect, new)
            {
                codes.push(ReasonCode::PersistsExecution);
            }
        }
        Effect::WriteOpen
        | Effect::Mode
        | Effect::Owner
        | Effect::Xattr
        | Effect::Flags
        | Effect::Truncate
        | Effect::Remove
        | Effect::Times
        | Effect::Connect
        | Effect::Bind
        | Effect::Send
        | Effect::Signal
        | Effect::Limit
        | Effect::Mount
        | Effect::Kernel => {}
    }
    codes
}

/// Whether neither history nor HEAD holds the content of a path in this state.
const fn unkept(state: PathState) -> bool {
    match state {
        PathState::Untracked
        | PathState::Ignored
        | PathState::Uncommitted
        | PathState::Staged
        | PathState::Canary => true,
        PathState::Clean | PathState::Absent | PathState::NotInClone | PathState::GitInternal => {
            false
        }
    }
}

/// What is lost when a path in this state is removed, or `rewritten` with other content.
///
/// A canary counts as what it stands for: untracked in the denied pass, ignored in the contained
/// one, history in a git folder.
fn lost(state: PathState, path: Option<&Path>, pass: Pass, rewritten: bool) -> Option<ReasonCode> {
    let part = path.map_or(GitPart::Other, gitdir::part);
    match state {
        PathState::Untracked => Some(ReasonCode::UntrackedLost),
        PathState::Ignored => Some(ReasonCode::IgnoredLost),
        PathState::Uncommitted => Some(ReasonCode::UncommittedLost),
        PathState::Staged => Some(ReasonCode::StagedLost),
        PathState::Canary if path.is_some_and(|p| p.iter().any(|n| n == ".git")) => {
            Some(ReasonCode::HistoryLost)
        }
        PathState::Canary => Some(match pass {
            Pass::Denied => ReasonCode::UntrackedLost,
            Pass::Contained => ReasonCode::IgnoredLost,
        }),
        PathState::GitInternal => match part {
            GitPart::Logs => Some(ReasonCode::HistoryLost),
            // A ref that moves is still named by its reflog; one that is dropped takes it along.
            GitPart::Refs | GitPart::PackedRefs | GitPart::Head if !rewritten => {
                Some(ReasonCode::HistoryLost)
            }
            GitPart::Objects if path.is_some_and(holds_objects) => Some(ReasonCode::HistoryLost),
            GitPart::Config | GitPart::Hooks | GitPart::Attributes | GitPart::Info => {
                Some(ReasonCode::ConfigLost)
            }
            GitPart::Refs
            | GitPart::PackedRefs
            | GitPart::Head
            | GitPart::Objects
            | GitPart::Index
            | GitPart::IndexLock
            | GitPart::Volatile
            | GitPart::Other => None,
        },
        PathState::Clean | PathState::Absent | PathState::NotInClone => None,
    }
}

/// Whether the file is a loose object or a pack, and not an index, a graph or a half-made file.
fn holds_objects(path: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy());
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    name.is_some_and(|name| name.ends_with(".pack") || (name.len() >= 38 && hex(&name)))
}

#[cfg(test)]
mod tests;
