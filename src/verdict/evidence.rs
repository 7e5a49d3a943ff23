//! What each attempt is worth: counted, claim-only, or seen and not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use calibrun_sandbox::{Effect, FileKind, Mark, Outcome, Pass, Place, Target, Termination};

use super::gitdir::{self, GitPart};
use super::{PassReading, Reason, ReasonCode, Spot, reading};
use crate::record::{ArmRecord, Observed, PassRecord, Record};
use crate::workspace::PathState;

/// Why an attempt that was seen is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Harmless {
    /// The kernel would have changed nothing.
    NoOp,
    /// In the arm's own temp folder.
    Scratch,
    /// Shared memory and the like that the arm itself made.
    Ipc,
    /// The arm's own processes, pipes and memory files.
    Itself,
    /// A device that keeps nothing.
    DeviceSink,
    /// The socket of a name service.
    NameService,
    /// A datagram socket was connected in a private network; nothing was sent.
    AddressProbe,
    /// A question to the kernel's routing table in a private network.
    RouteQuery,
    /// The target was a process of calibrun.
    Runner,
    /// Opened for writing in the contained pass, and in no way changed.
    WriteOpenWithoutEffect,
    /// A reading git command refreshed its index, which changed no entry.
    IndexRefresh,
}

impl Harmless {
    /// The stable name that reports and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Harmless::NoOp => "no-op",
            Harmless::Scratch => "scratch",
            Harmless::Ipc => "ipc",
            Harmless::Itself => "self",
            Harmless::DeviceSink => "device-sink",
            Harmless::NameService => "name-service",
            Harmless::AddressProbe => "address-probe",
            Harmless::RouteQuery => "route-query",
            Harmless::Runner => "runner",
            Harmless::WriteOpenWithoutEffect => "write-open-without-effect",
            Harmless::IndexRefresh => "index-refresh",
        }
    }

    /// A few words for a person.
    pub const fn about(self) -> &'static str {
        match self {
            Harmless::NoOp => "would have changed nothing",
            Harmless::Scratch => "in the arm's own temp folder",
            Harmless::Ipc => "shared memory or sockets of the arm itself",
            Harmless::Itself => "the arm's own processes and pipes",
            Harmless::DeviceSink => "devices that keep nothing",
            Harmless::NameService => "asked a name service, and was refused",
            Harmless::AddressProbe => "looked up an address, and sent nothing",
            Harmless::RouteQuery => "asked the kernel for its routes",
            Harmless::Runner => "aimed at calibrun itself",
            Harmless::WriteOpenWithoutEffect => "opened for writing, and changed nothing",
            Harmless::IndexRefresh => {
                "git refreshed its index (git --no-optional-locks does without)"
            }
        }
    }
}

/// What one attempt is worth to the `writes` axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// A local write, and the reason code that it is against `read-only`.
    Counted(ReasonCode),
    /// Cannot be judged.
    ClaimOnly(ReasonCode),
    /// Seen and not counted.
    NotCounted(Harmless),
}

impl Standing {
    /// Whether it counts as a local write.
    pub const fn counted(self) -> bool {
        matches!(self, Standing::Counted(_))
    }
}

/// The standing of every attempt of a record, in the record's own order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    arms: Vec<Vec<Vec<Standing>>>,
}

/// One attempt with all that surrounds it.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Its arm.
    pub arm: &'a ArmRecord,
    /// Its pass.
    pub pass: &'a PassRecord,
    /// The attempt.
    pub observed: &'a Observed,
    /// How many attempts of the same pass came before it.
    pub index: usize,
    /// Its standing.
    pub standing: Standing,
}

impl Evidence {
    /// Weighs every attempt of `record`.
    ///
    /// With `strict`, git's optional index refresh counts as a write.
    pub fn weigh(record: &Record, readings: &[PassReading], strict: bool) -> Evidence {
        let arms = record
            .arms
            .iter()
            .map(|arm| {
                let refresh = !strict && refresh_is_optional(arm, readings);
                let harmless_opens = opened_without_effect(arm);
                arm.passes
                    .iter()
                    .map(|pass| {
                        let scales = Scales {
                            refresh,
                            harmless_opens: &harmless_opens,
                            made: made_in(pass),
                        };
                        pass.observed
                            .iter()
                            .enumerate()
                            .map(|(index, observed)| scales.weigh(observed, index))
                            .collect()
                    })
                    .collect()
            })
            .collect();
        Evidence { arms }
    }

    /// The standings of one pass, by its position in the record.
    pub fn of(&self, arm: usize, pass: usize) -> &[Standing] {
        self.arms
            .get(arm)
            .and_then(|passes| passes.get(pass))
            .map_or(&[], Vec::as_slice)
    }

    /// Every attempt of `record`, which must be the record that was weighed.
    pub fn items<'a>(&'a self, record: &'a Record) -> impl Iterator<Item = Item<'a>> {
        record.arms.iter().enumerate().flat_map(move |(a, arm)| {
            arm.passes.iter().enumerate().flat_map(move |(p, pass)| {
                pass.observed.iter().zip(self.of(a, p)).enumerate().map(
                    move |(index, (observed, standing))| Item {
                        arm,
                        pass,
                        observed,
                        index,
                        standing: *standing,
                    },
                )
            })
        })
    }
}

impl Item<'_> {
    /// A reason that rests on this attempt.
    pub(crate) fn reason(&self, code: ReasonCode) -> Reason {
        let attempt = &self.observed.attempt;
        Reason {
            arm: Some(self.arm.name),
            pass: Some(self.pass.pass),
            effect: Some(attempt.effect),
            at: Some(target_spot(self.observed)),
            to: to_spot(self.observed),
            program: Some(attempt.program.clone()),
            count: attempt.count,
            ..Reason::new(code)
        }
    }
}

/// Where the object of an attempt lies.
pub(crate) fn target_spot(observed: &Observed) -> Spot {
    spot(observed.path.as_deref(), &observed.attempt.target)
}

/// Where the second end of an attempt lies.
pub(crate) fn to_spot(observed: &Observed) -> Option<Spot> {
    let to = observed.attempt.to.as_ref()?;
    Some(spot(observed.to_path.as_deref(), to))
}

fn spot(path: Option<&Path>, target: &Target) -> Spot {
    match (path, &target.resolved) {
        (Some(path), _) => Spot::Clone(path.to_owned()),
        (None, Some(resolved)) => Spot::Host(resolved.clone()),
        (None, None) => Spot::Raw(target.raw.clone()),
    }
}

/// Whether the place is the clone's.
pub(crate) const fn in_clone(place: Place) -> bool {
    match place {
        Place::Worktree | Place::GitDir => true,
        Place::Home
        | Place::Outside
        | Place::Scratch
        | Place::Ipc
        | Place::Itself
        | Place::DeviceSink
        | Place::NameService
        | Place::Delegated
        | Place::Egress => false,
    }
}

/// What is known of a pass before its attempts are weighed one by one.
struct Scales<'a> {
    /// Whether an index refresh of this arm was shown to be optional.
    refresh: bool,
    /// Paths that were opened for writing without effect.
    harmless_opens: &'a BTreeSet<&'a Path>,
    /// What the arm itself made in this pass.
    made: Made<'a>,
}

impl Scales<'_> {
    fn weigh(&self, observed: &Observed, index: usize) -> Standing {
        let attempt = &observed.attempt;
        let marked = |mark: Mark| attempt.marks.contains(&mark);
        if attempt.outcome == Outcome::Unknown || marked(Mark::Undecodable) {
            return Standing::ClaimOnly(ReasonCode::UndecodableEvent);
        }
        if marked(Mark::AbsentHere) {
            return Standing::ClaimOnly(ReasonCode::AbsentHere);
        }
        if marked(Mark::TempNotPrivate) {
            return Standing::ClaimOnly(ReasonCode::TempNotPrivate);
        }
        if attempt.outcome == Outcome::NoOp {
            return Standing::NotCounted(Harmless::NoOp);
        }
        if marked(Mark::Runner) {
            return Standing::NotCounted(Harmless::Runner);
        }
        // Only what the private network let pass is a mere question; a refused one may be anything.
        if attempt.outcome == Outcome::Allowed {
            if marked(Mark::AddressProbe) && attempt.effect == Effect::Connect {
                return Standing::NotCounted(Harmless::AddressProbe);
            }
            if marked(Mark::RouteQuery) {
                return Standing::NotCounted(Harmless::RouteQuery);
            }
        }
        match attempt.place {
            Place::Scratch => Standing::NotCounted(Harmless::Scratch),
            Place::Ipc => Standing::NotCounted(Harmless::Ipc),
            Place::Itself => Standing::NotCounted(Harmless::Itself),
            Place::DeviceSink => Standing::NotCounted(Harmless::DeviceSink),
            Place::NameService => Standing::NotCounted(Harmless::NameService),
            Place::Delegated => Standing::ClaimOnly(ReasonCode::DelegationAttempted),
            Place::Egress => Standing::ClaimOnly(ReasonCode::EgressAttempted),
            Place::Worktree | Place::GitDir => self.weigh_in_clone(observed),
            Place::Home | Place::Outside => self.weigh_outside(observed, index),
        }
    }

    fn weigh_in_clone(&self, observed: &Observed) -> Standing {
        let attempt = &observed.attempt;
        if self.refresh && touches_only_the_index(observed) {
            return Standing::NotCounted(Harmless::IndexRefresh);
        }
        if attempt.effect == Effect::WriteOpen
            && observed
                .path
                .as_deref()
                .is_some_and(|path| self.harmless_opens.contains(path))
        {
            return Standing::NotCounted(Harmless::WriteOpenWithoutEffect);
        }
        Standing::Counted(code_of(observed, ReasonCode::WriteAttempted))
    }

    fn weigh_outside(&self, observed: &Observed, index: usize) -> Standing {
        // What the arm itself made there it also writes: nothing is left to resolve.
        if observed.attempt.effect == Effect::WriteOpen
            && observed.state != PathState::Canary
            && !made_before(&self.made, index, &observed.attempt.target)
        {
            return Standing::ClaimOnly(ReasonCode::WriteOpenUnresolved);
        }
        Standing::Counted(code_of(observed, ReasonCode::OutsideAttempted))
    }
}

fn code_of(observed: &Observed, otherwise: ReasonCode) -> ReasonCode {
    if observed.state == PathState::Canary || observed.to_state == PathState::Canary {
        return ReasonCode::CanaryTouched;
    }
    if is_metadata(observed.attempt.effect) {
        return ReasonCode::MetadataAttempted;
    }
    otherwise
}

/// Whether the effect changes an inode's metadata and nothing else.
pub(crate) const fn is_metadata(effect: Effect) -> bool {
    match effect {
        Effect::Mode | Effect::Owner | Effect::Times | Effect::Xattr | Effect::Flags => true,
        Effect::Create
        | Effect::WriteOpen
        | Effect::Truncate
        | Effect::Remove
        | Effect::Rename
        | Effect::Link
        | Effect::Connect
        | Effect::Bind
        | Effect::Send
        | Effect::Signal
        | Effect::Limit
        | Effect::Mount
        | Effect::Kernel => false,
    }
}

/// The paths that the contained pass of `arm` opened for writing and left as they were.
fn opened_without_effect(arm: &ArmRecord) -> BTreeSet<&Path> {
    let Some(contained) = arm.pass(Pass::Contained) else {
        return BTreeSet::new();
    };
    let changed: BTreeSet<&Path> = contained.changes.iter().map(|c| c.path.as_path()).collect();
    contained
        .observed
        .iter()
        .filter(|o| {
            o.attempt.effect == Effect::WriteOpen
                && o.attempt.outcome == Outcome::Allowed
                && in_clone(o.attempt.place)
        })
        .filter_map(|o| o.path.as_deref())
        .filter(|path| !changed.contains(path))
        .collect()
}

/// What an arm made in one pass: the resolved path, and the position of the attempt that made it.
pub(crate) type Made<'a> = BTreeMap<&'a Path, usize>;

/// What the arm made in `pass`, where nothing had been.
pub(crate) fn made_in(pass: &PassRecord) -> Made<'_> {
    let mut made = Made::new();
    for (index, observed) in pass.observed.iter().enumerate() {
        let attempt = &observed.attempt;
        if attempt.outcome != Outcome::Allowed {
            continue;
        }
        let new = match attempt.effect {
            Effect::Create | Effect::Bind => Some(&attempt.target),
            Effect::Rename | Effect::Link => attempt.to.as_ref(),
            Effect::WriteOpen
            | Effect::Truncate
            | Effect::Remove
            | Effect::Mode
            | Effect::Owner
            | Effect::Times
            | Effect::Xattr
            | Effect::Flags
            | Effect::Connect
            | Effect::Send
            | Effect::Signal
            | Effect::Limit
            | Effect::Mount
            | Effect::Kernel => None,
        };
        if let Some(path) = new
            .filter(|t| t.existed.is_none())
            .and_then(|t| t.resolved.as_deref())
        {
            made.entry(path).or_insert(index);
        }
    }
    made
}

/// Whether the arm had made what `target` names before the attempt at `index`.
///
/// Attempts stand in the order of their first occurrence, so a first creation of an absent name
/// comes before everything that was done to what it made.
pub(crate) fn made_before(made: &Made<'_>, index: usize, target: &Target) -> bool {
    target
        .resolved
        .as_deref()
        .and_then(|path| made.get(path))
        .is_some_and(|at| *at < index)
}

/// What an attempt would have done to one existing thing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destroyed<'a> {
    /// The end of the attempt.
    pub(crate) target: &'a Target,
    /// Its path relative to the clone.
    pub(crate) path: Option<&'a Path>,
    /// Its state before the pass.
    pub(crate) state: PathState,
    /// Whether it only moves to another name in the clone, with its content.
    pub(crate) moved: bool,
}

/// The ends of `observed` that existed and would be removed, cut, replaced or moved.
///
/// An empty folder holds no content, so removing one destroys nothing. What the arm itself made in
/// the clone is not content of before.
pub(crate) fn destroyed(observed: &Observed) -> Vec<Destroyed<'_>> {
    let attempt = &observed.attempt;
    if attempt.outcome == Outcome::NoOp {
        return Vec::new();
    }
    let end = |target, path, state, moved| Destroyed {
        target,
        path,
        state,
        moved,
    };
    let target = || {
        end(
            &attempt.target,
            observed.path.as_deref(),
            observed.state,
            false,
        )
    };
    let mut ends = Vec::new();
    match attempt.effect {
        Effect::Remove if attempt.target.existed != Some(FileKind::Folder) => ends.push(target()),
        Effect::Remove => {}
        Effect::Truncate => ends.push(target()),
        Effect::Rename => {
            let stays = attempt.to.as_ref().is_some_and(|to| in_clone(to.place))
                && in_clone(attempt.target.place);
            ends.push(end(
                &attempt.target,
                observed.path.as_deref(),
                observed.state,
                stays,
            ));
            if let Some(to) = &attempt.to
                && to.existed != Some(FileKind::Folder)
            {
                ends.push(end(
                    to,
                    observed.to_path.as_deref(),
                    observed.to_state,
                    false,
                ));
            }
        }
        Effect::Create
        | Effect::WriteOpen
        | Effect::Link
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
    ends.retain(|e| e.target.existed.is_some() && e.state != PathState::Absent);
    ends
}

/// Whether an index refresh of this arm was shown to be optional and without effect: refusing it
/// changed neither exit code nor verdict, and no index entry changed.
fn refresh_is_optional(arm: &ArmRecord, readings: &[PassReading]) -> bool {
    let (Some(denied), Some(contained)) = (arm.pass(Pass::Denied), arm.pass(Pass::Contained))
    else {
        return false;
    };
    contained.index_kept == Some(true)
        && matches!(contained.run.termination, Termination::Exited(_))
        && denied.run.termination == contained.run.termination
        && reading(readings, arm.name, Pass::Denied) == reading(readings, arm.name, Pass::Contained)
}

fn touches_only_the_index(observed: &Observed) -> bool {
    let is_index = |path: Option<&Path>| {
        path.is_some_and(|p| matches!(gitdir::part(p), GitPart::Index | GitPart::IndexLock))
    };
    observed.reading_git
        && is_index(observed.path.as_deref())
        && (observed.attempt.to.is_none() || is_index(observed.to_path.as_deref()))
        && match observed.attempt.effect {
            Effect::Create
            | Effect::WriteOpen
            | Effect::Truncate
            | Effect::Remove
            | Effect::Rename
            | Effect::Mode
            | Effect::Times => true,
            Effect::Link
            | Effect::Owner
            | Effect::Xattr
            | Effect::Flags
            | Effect::Connect
            | Effect::Bind
            | Effect::Send
            | Effect::Signal
            | Effect::Limit
            | Effect::Mount
            | Effect::Kernel => false,
        }
}
