//! What each attempt is worth: counted, claim-only, or seen and not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use calibrun_sandbox::{Effect, FileKind, Mark, Outcome, Pass, Place, Target};

use super::{PassReading, Reason, ReasonCode, Spot, refresh};
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
                let refreshed = if strict {
                    BTreeSet::new()
                } else {
                    refresh::optional_in(arm, readings)
                };
                let harmless_opens = opened_without_effect(arm);
                let mapped = mapped(arm);
                arm.passes
                    .iter()
                    .map(|pass| {
                        let scales = Scales {
                            pass: pass.pass,
                            refreshed: &refreshed,
                            harmless_opens: &harmless_opens,
                            mapped: &mapped,
                            made: Made::of(pass),
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
    pass: Pass,
    /// Git folders in which a refresh of the index was shown to be optional and without effect.
    refreshed: &'a BTreeSet<&'a Path>,
    /// Paths that were opened for writing and show no effect.
    harmless_opens: &'a BTreeSet<&'a Path>,
    /// Paths whose content was mapped for shared writing.
    mapped: &'a BTreeSet<&'a Path>,
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
            Place::Ipc if marked(Mark::LeftBehind) => {
                Standing::Counted(code_of(observed, ReasonCode::OutsideAttempted))
            }
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
        if refresh::is_of(observed, self.pass, self.refreshed) {
            return Standing::NotCounted(Harmless::IndexRefresh);
        }
        if attempt.effect == Effect::WriteOpen
            && let Some(path) = observed.path.as_deref()
            && self.harmless_opens.contains(path)
        {
            // What a mapping changed and put back leaves not even a time behind.
            return if self.mapped.contains(path) {
                Standing::ClaimOnly(ReasonCode::WriteOpenUnresolved)
            } else {
                Standing::NotCounted(Harmless::WriteOpenWithoutEffect)
            };
        }
        Standing::Counted(code_of(observed, ReasonCode::WriteAttempted))
    }

    fn weigh_outside(&self, observed: &Observed, index: usize) -> Standing {
        // What the arm itself made there it also writes: nothing is left to resolve.
        if observed.attempt.effect == Effect::WriteOpen
            && observed.state != PathState::Canary
            && !self.made.before(index, &observed.attempt.target)
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

/// The paths in the clone that `arm` mapped for shared writing, in any pass.
fn mapped(arm: &ArmRecord) -> BTreeSet<&Path> {
    arm.passes
        .iter()
        .flat_map(|pass| &pass.observed)
        .filter(|o| o.attempt.marks.contains(&Mark::Mapped))
        .filter_map(|o| o.path.as_deref())
        .collect()
}

/// What an arm made in one pass where nothing had been: the resolved path, and the position of the
/// attempt that made it.
#[derive(Debug, Default)]
pub(crate) struct Made<'a>(BTreeMap<&'a Path, usize>);

impl<'a> Made<'a> {
    pub(crate) fn of(pass: &'a PassRecord) -> Made<'a> {
        let mut made = Made::default();
        for (index, observed) in pass.observed.iter().enumerate() {
            let attempt = &observed.attempt;
            if attempt.outcome != Outcome::Allowed {
                continue;
            }
            let new = match attempt.effect {
                Effect::Create | Effect::Bind => Some(&attempt.target),
                Effect::Rename => attempt.to.as_ref(),
                // A second name of what was there leads to what was there.
                Effect::Link if made.before(index, &attempt.target) => attempt.to.as_ref(),
                Effect::Link
                | Effect::WriteOpen
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
                made.0.entry(path).or_insert(index);
            }
        }
        made
    }

    /// Whether the arm had made what `target` names, or a folder above it, before the attempt at
    /// `index`.
    ///
    /// Attempts stand in the order of their first occurrence, so a first creation of an absent name
    /// comes before everything that was done to what it made. What came into a folder of the arm's
    /// own was made there, or brought there by an attempt that is judged by itself.
    pub(crate) fn before(&self, index: usize, target: &Target) -> bool {
        let earlier = |path: &Path| self.0.get(path).is_some_and(|at| *at < index);
        target
            .resolved
            .as_deref()
            .is_some_and(|path| path.ancestors().any(earlier))
    }

    /// Every path, sorted.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &'a Path> {
        self.0.keys().copied()
    }
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
