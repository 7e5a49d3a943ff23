//! The `writes` axis.

use std::collections::BTreeSet;
use std::path::Path;

use calibrun_sandbox::{Effect, Pass};

use super::evidence::{Evidence, Harmless, Standing};
use super::{Reason, ReasonCode, Spot, Status, gravest, united};
use crate::contract::Writes;
use crate::record::{ArmRecord, Record};
use crate::workspace::{Change, ChangeKind};

/// What is known of the `writes` axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritesVerdict {
    /// The claim.
    pub declared: Option<Writes>,
    /// The narrowest level that covers the counted attempts.
    pub observed: Writes,
    /// Whether an arm tried to reach a network.
    pub egress: bool,
    /// Whether an arm tried to reach something on whose other end somebody else acts.
    pub delegated: bool,
    /// `None` when nothing is claimed.
    pub status: Option<Status>,
    /// Sorted, the gravest first. Without a claim: what limits `observed`.
    pub reasons: Vec<Reason>,
}

/// Judges `declared` by the evidence; `shared` are the reasons that instrument and arms give.
pub fn judge(
    declared: Option<Writes>,
    record: &Record,
    evidence: &Evidence,
    shared: &[Reason],
) -> WritesVerdict {
    let local: Vec<Reason> = evidence
        .items(record)
        .filter_map(|item| match item.standing {
            Standing::Counted(code) => Some(item.reason(code)),
            Standing::ClaimOnly(_) | Standing::NotCounted(_) => None,
        })
        .collect();
    let missed = effects_without_attempt(record, evidence);
    let open: Vec<Reason> = open_questions(record, evidence).collect();
    let has = |code| open.iter().any(|r| r.code == code);
    let (egress, delegated) = (
        has(ReasonCode::EgressAttempted),
        has(ReasonCode::DelegationAttempted),
    );
    let observed = if local.is_empty() && missed.is_empty() {
        Writes::ReadOnly
    } else {
        Writes::WriteLocal
    };

    let mut reasons = shared.to_vec();
    match declared {
        Some(Writes::ReadOnly) => {
            reasons.extend(open);
            reasons.extend(local);
            reasons.extend(missed);
        }
        // Local writes are within these claims; that an effect was missed puts the observer in
        // doubt. Whether an open file outside would have been written does not matter any more.
        Some(Writes::WriteLocal | Writes::WriteRemote) | None => {
            let lenient = declared.is_some();
            reasons.extend(
                open.into_iter()
                    .filter(|r| !lenient || r.code != ReasonCode::WriteOpenUnresolved),
            );
            reasons.extend(missed.into_iter().map(doubt));
        }
    }
    if declared == Some(Writes::WriteRemote) {
        reasons.push(Reason::new(ReasonCode::TopOfOrder));
    }
    if reasons.is_empty() && declared.is_some() {
        reasons.push(Reason::new(ReasonCode::WithinClaim));
    }
    WritesVerdict {
        declared,
        observed,
        egress,
        delegated,
        status: declared.map(|_| gravest(&reasons)),
        reasons: united(reasons),
    }
}

/// The reasons for claim-only that rest on attempts, on either axis.
pub(super) fn open_questions<'a>(
    record: &'a Record,
    evidence: &'a Evidence,
) -> impl Iterator<Item = Reason> + 'a {
    evidence
        .items(record)
        .filter_map(|item| match item.standing {
            Standing::ClaimOnly(code) => Some(item.reason(code)),
            Standing::Counted(_) | Standing::NotCounted(_) => None,
        })
}

/// An effect that nobody saw coming, as a doubt about the instrument.
pub(super) fn doubt(missed: Reason) -> Reason {
    Reason {
        code: ReasonCode::InstrumentUncalibrated,
        detail: Some("the clone changed here, and no attempt was seen".into()),
        ..missed
    }
}

/// Changes of contained passes that no counted attempt of the same arm explains.
pub(super) fn effects_without_attempt(record: &Record, evidence: &Evidence) -> Vec<Reason> {
    let mut found = Vec::new();
    for arm in &record.arms {
        let Some(contained) = arm.pass(Pass::Contained) else {
            continue;
        };
        let touched = Touched::of(arm, record, evidence);
        for change in contained.changes.iter().filter(|c| !touched.explains(c)) {
            found.push(
                Reason::new(ReasonCode::EffectWithoutAttempt)
                    .in_arm(arm.name)
                    .in_pass(Pass::Contained)
                    .at(Spot::Clone(change.path.clone())),
            );
        }
    }
    found
}

/// The paths of the clone that the counted attempts of one arm reached, in any pass.
#[derive(Default)]
struct Touched<'a> {
    /// Both ends of every attempt.
    ends: BTreeSet<&'a Path>,
    /// Both ends of renames: a folder moves with everything in it.
    moved: BTreeSet<&'a Path>,
    /// Folders in which a name was added or dropped.
    parents: BTreeSet<&'a Path>,
}

impl<'a> Touched<'a> {
    fn of(arm: &ArmRecord, record: &'a Record, evidence: &'a Evidence) -> Touched<'a> {
        let mut touched = Touched::default();
        for item in evidence.items(record).filter(|i| i.arm.name == arm.name) {
            match item.standing {
                Standing::Counted(_) | Standing::NotCounted(Harmless::IndexRefresh) => {}
                Standing::ClaimOnly(_) | Standing::NotCounted(_) => continue,
            }
            let effect = item.observed.attempt.effect;
            let ends = [&item.observed.path, &item.observed.to_path];
            for end in ends.into_iter().flatten() {
                touched.ends.insert(end);
                if effect == Effect::Rename {
                    touched.moved.insert(end);
                }
                if touches_parent(effect) {
                    touched.parents.extend(end.parent());
                }
            }
        }
        touched
    }

    fn explains(&self, change: &Change) -> bool {
        let path = change.path.as_path();
        self.ends.contains(path)
            || path.ancestors().any(|above| self.moved.contains(above))
            || (matches!(change.kind, ChangeKind::Times | ChangeKind::Inode)
                && self.parents.contains(path))
    }
}

/// Whether the effect adds or drops a name, which changes the folder that holds it.
const fn touches_parent(effect: Effect) -> bool {
    match effect {
        Effect::Create | Effect::Remove | Effect::Rename | Effect::Link | Effect::Bind => true,
        Effect::WriteOpen
        | Effect::Truncate
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
        | Effect::Kernel => false,
    }
}

#[cfg(test)]
mod tests {
    use calibrun_sandbox::{Mark, Outcome, Place};

    use super::super::evidence::Harmless;
    use super::super::sample::{CHANGES, ask, at, change, command, on};
    use super::super::{CapabilityVerdict, Question, judge};
    use super::*;
    use crate::record::{Observed, Record};
    use crate::workspace::PathState;

    fn claiming(writes: Writes) -> Question {
        let mut question = ask();
        question.claims.writes = Some(writes);
        question
    }

    fn codes(verdict: &CapabilityVerdict) -> Vec<ReasonCode> {
        verdict.writes.reasons.iter().map(|r| r.code).collect()
    }

    /// The status of `read-only`, and the codes.
    fn read_only(record: &Record) -> (Status, Vec<ReasonCode>) {
        let verdict = judge(record, &ask());
        (verdict.writes.status.expect("claimed"), codes(&verdict))
    }

    fn denied(observed: Observed) -> Record {
        command(vec![observed], vec![], vec![])
    }

    #[test]
    fn attempts_in_counted_places_contradict_read_only() {
        use ReasonCode::*;
        let clean = PathState::Clean;
        for (observed, code) in [
            (on(Effect::Create, "new", PathState::Absent), WriteAttempted),
            (on(Effect::Truncate, "README.md", clean), WriteAttempted),
            (
                on(Effect::Remove, ".git/refs/heads/x", PathState::GitInternal),
                WriteAttempted,
            ),
            (
                on(Effect::Link, "README.md", clean).onto("hl", PathState::Absent),
                WriteAttempted,
            ),
            (on(Effect::WriteOpen, "README.md", clean), WriteAttempted),
            (on(Effect::Mode, "README.md", clean), MetadataAttempted),
            (on(Effect::Owner, "README.md", clean), MetadataAttempted),
            (on(Effect::Times, "README.md", clean), MetadataAttempted),
            (on(Effect::Xattr, "README.md", clean), MetadataAttempted),
            (on(Effect::Flags, "README.md", clean), MetadataAttempted),
            (
                at(Effect::Mode, Place::Home, "/home/dev/.x", true),
                MetadataAttempted,
            ),
            (
                at(Effect::Create, Place::Home, "/home/dev/.x", false),
                OutsideAttempted,
            ),
            (
                at(Effect::Truncate, Place::Outside, "/etc/x", true),
                OutsideAttempted,
            ),
            (
                at(Effect::Signal, Place::Outside, "/proc/1", true),
                OutsideAttempted,
            ),
            (
                at(Effect::Kernel, Place::Outside, "/proc/sysrq-trigger", true),
                OutsideAttempted,
            ),
            (
                on(Effect::Remove, ".canary", PathState::Canary),
                CanaryTouched,
            ),
            (
                on(Effect::Rename, "a", clean).onto(".canary", PathState::Canary),
                CanaryTouched,
            ),
            (
                on(Effect::Times, ".canary", PathState::Canary),
                CanaryTouched,
            ),
        ] {
            let record = denied(observed.clone());
            assert_eq!(
                read_only(&record),
                (Status::Contradicted, vec![code]),
                "{observed:?}"
            );
            assert_eq!(judge(&record, &ask()).writes.observed, Writes::WriteLocal);
            // Seen in the contained pass alone it counts as much.
            let record = command(vec![], vec![observed.allowed()], vec![]);
            let (status, found) = read_only(&record);
            if found != [WithinClaim] {
                assert_eq!((status, found), (Status::Contradicted, vec![code]));
            } else {
                assert_eq!(
                    record.arms[0].passes[1].observed[0].attempt.effect,
                    Effect::WriteOpen
                );
            }
        }
    }

    #[test]
    fn attempts_in_other_places_are_seen_and_not_counted() {
        for (place, harmless) in [
            (Place::Scratch, Harmless::Scratch),
            (Place::Ipc, Harmless::Ipc),
            (Place::Itself, Harmless::Itself),
            (Place::DeviceSink, Harmless::DeviceSink),
            (Place::NameService, Harmless::NameService),
        ] {
            let record = denied(at(Effect::Truncate, place, "/x", true));
            let verdict = judge(&record, &ask());
            assert_eq!(verdict.writes.status, Some(Status::Verified), "{place:?}");
            assert_eq!(verdict.writes.observed, Writes::ReadOnly);
            assert_eq!(verdict.evidence.of(0, 0), [Standing::NotCounted(harmless)]);
        }
    }

    #[test]
    fn what_reaches_others_leaves_every_claim_open() {
        for (place, code, egress) in [
            (Place::Egress, ReasonCode::EgressAttempted, true),
            (Place::Delegated, ReasonCode::DelegationAttempted, false),
        ] {
            let record = denied(at(Effect::Connect, place, "192.0.2.1:80", false));
            for claim in [Writes::ReadOnly, Writes::WriteLocal] {
                let verdict = judge(&record, &claiming(claim));
                assert_eq!(verdict.writes.status, Some(Status::ClaimOnly));
                assert_eq!(codes(&verdict), [code]);
                assert_eq!(verdict.writes.observed, Writes::ReadOnly);
                assert_eq!(
                    (verdict.writes.egress, verdict.writes.delegated),
                    (egress, !egress)
                );
            }
        }
    }

    #[test]
    fn marks_decide_before_places() {
        use ReasonCode::*;
        let of = |mark| at(Effect::Remove, Place::Home, "/home/dev/.x", false).marked(mark);
        for (mark, code) in [
            (Mark::AbsentHere, AbsentHere),
            (Mark::Undecodable, UndecodableEvent),
            (Mark::TempNotPrivate, TempNotPrivate),
        ] {
            for outcome in [Outcome::Denied, Outcome::NoOp] {
                let record = denied(of(mark).outcome(outcome));
                assert_eq!(
                    read_only(&record),
                    (Status::ClaimOnly, vec![code]),
                    "{mark:?}"
                );
            }
        }
        let unknown = on(Effect::Create, "x", PathState::Absent).outcome(Outcome::Unknown);
        assert_eq!(
            read_only(&denied(unknown)),
            (Status::ClaimOnly, vec![UndecodableEvent])
        );
        let runner = at(Effect::Signal, Place::Outside, "/proc/9", true).marked(Mark::Runner);
        assert_eq!(
            read_only(&denied(runner)),
            (Status::Verified, vec![WithinClaim])
        );
        let nothing = on(Effect::Create, "src", PathState::Clean).outcome(Outcome::NoOp);
        assert_eq!(
            read_only(&denied(nothing)),
            (Status::Verified, vec![WithinClaim])
        );
    }

    #[test]
    fn a_probe_of_addresses_is_harmless_only_where_it_was_let_through() {
        let probe = |effect, mark| at(effect, Place::Egress, "192.0.2.1:53", false).marked(mark);
        for harmless in [
            probe(Effect::Connect, Mark::AddressProbe),
            probe(Effect::Send, Mark::RouteQuery),
        ] {
            assert_eq!(
                read_only(&denied(harmless.clone().allowed())).0,
                Status::Verified
            );
            assert_eq!(
                read_only(&denied(harmless)).1,
                [ReasonCode::EgressAttempted]
            );
        }
        let sent = probe(Effect::Send, Mark::AddressProbe).allowed();
        assert_eq!(read_only(&denied(sent)).1, [ReasonCode::EgressAttempted]);
    }

    #[test]
    fn a_write_open_that_changed_nothing_in_the_contained_pass_is_not_counted() {
        let open = on(Effect::WriteOpen, "app.db", PathState::Clean);
        let quiet = command(vec![open.clone()], vec![open.clone().allowed()], vec![]);
        assert_eq!(
            read_only(&quiet),
            (Status::Verified, vec![ReasonCode::WithinClaim])
        );
        assert_eq!(
            judge(&quiet, &ask()).evidence.of(0, 0),
            [Standing::NotCounted(Harmless::WriteOpenWithoutEffect)]
        );
        for kind in [ChangeKind::Content, ChangeKind::Times, ChangeKind::Inode] {
            let mut changed = quiet.clone();
            changed.contained().changes = vec![change("app.db", kind, PathState::Clean)];
            assert_eq!(
                read_only(&changed).1,
                [ReasonCode::WriteAttempted; 2],
                "{kind:?} in both passes"
            );
        }
        // Not opened there, or refused there, or another file: nothing was shown.
        for contained in [
            vec![],
            vec![open.clone()],
            vec![on(Effect::WriteOpen, "other.db", PathState::Clean).allowed()],
        ] {
            let record = command(vec![open.clone()], contained, vec![]);
            assert_eq!(read_only(&record).0, Status::Contradicted);
        }
    }

    #[test]
    fn a_write_open_outside_stays_open() {
        for place in [Place::Home, Place::Outside] {
            let open = at(Effect::WriteOpen, place, "/home/dev/.db", true);
            let record = command(vec![open.clone()], vec![open], vec![]);
            assert_eq!(
                read_only(&record),
                (Status::ClaimOnly, vec![ReasonCode::WriteOpenUnresolved; 2])
            );
            // Within a claim to write locally it does not matter.
            let verdict = judge(&record, &claiming(Writes::WriteLocal));
            assert_eq!(verdict.writes.status, Some(Status::Verified));
        }
        let mut canary = at(Effect::WriteOpen, Place::Outside, "/srv/.canary", true);
        canary.state = PathState::Canary;
        assert_eq!(read_only(&denied(canary)).1, [ReasonCode::CanaryTouched]);
    }

    #[test]
    fn an_effect_that_no_attempt_explains_is_an_alarm() {
        for kind in CHANGES {
            let missed = command(vec![], vec![], vec![change("a", kind, PathState::Clean)]);
            assert_eq!(
                read_only(&missed),
                (Status::Contradicted, vec![ReasonCode::EffectWithoutAttempt])
            );
            // Under a wider claim it puts the observer in doubt.
            let verdict = judge(&missed, &claiming(Writes::WriteLocal));
            assert_eq!(codes(&verdict), [ReasonCode::InstrumentUncalibrated]);
            // Seen in the denied pass alone it is explained.
            let mut seen = missed.clone();
            seen.denied().observed = vec![on(Effect::Remove, "a", PathState::Clean)];
            assert_eq!(read_only(&seen).1, [ReasonCode::WriteAttempted]);
            // An attempt that would have changed nothing explains nothing.
            let mut no_op = missed.clone();
            no_op.denied().observed =
                vec![on(Effect::Remove, "a", PathState::Clean).outcome(Outcome::NoOp)];
            assert_eq!(read_only(&no_op).1, [ReasonCode::EffectWithoutAttempt]);
        }
    }

    #[test]
    fn a_folder_explains_what_lies_in_it_only_when_it_moves() {
        let times = |path| change(path, ChangeKind::Times, PathState::Clean);
        let gone = |path| change(path, ChangeKind::Removed, PathState::Clean);
        let made = || on(Effect::Create, "src/new", PathState::Absent).allowed();
        let moved = || on(Effect::Rename, "src", PathState::Clean).onto("lib", PathState::Absent);
        let cases: [(Observed, Change, bool); 7] = [
            (made(), times("src"), true),
            (made(), gone("src"), false),
            (made(), times("src/old"), false),
            (moved().allowed(), gone("src/app.py"), true),
            (moved().allowed(), times("lib/app.py"), true),
            (moved().allowed(), gone("srcs"), false),
            (
                on(Effect::Mode, "src/app.py", PathState::Clean).allowed(),
                times("src"),
                false,
            ),
        ];
        for (observed, change, explained) in cases {
            let record = command(vec![], vec![observed.clone()], vec![change.clone()]);
            let alarmed = read_only(&record)
                .1
                .contains(&ReasonCode::EffectWithoutAttempt);
            assert_eq!(alarmed, !explained, "{observed:?} {change:?}");
        }
    }

    #[test]
    fn local_writes_are_within_a_wider_claim_and_nothing_contradicts_the_widest() {
        let record = command(
            vec![on(Effect::Remove, "a", PathState::Untracked)],
            vec![on(Effect::Remove, "a", PathState::Untracked).allowed()],
            vec![change("a", ChangeKind::Removed, PathState::Untracked)],
        );
        let local = judge(&record, &claiming(Writes::WriteLocal));
        assert_eq!(local.writes.status, Some(Status::Verified));
        assert_eq!(codes(&local), [ReasonCode::WithinClaim]);
        assert_eq!(local.writes.observed, Writes::WriteLocal);
        let remote = judge(&record, &claiming(Writes::WriteRemote));
        assert_eq!(remote.writes.status, Some(Status::ClaimOnly));
        assert_eq!(codes(&remote), [ReasonCode::TopOfOrder]);
        // A quiet arm is within a wider claim too.
        let quiet = command(vec![], vec![], vec![]);
        let verdict = judge(&quiet, &claiming(Writes::WriteLocal));
        assert_eq!(verdict.writes.status, Some(Status::Verified));
    }

    #[test]
    fn a_mapped_file_that_shows_no_change_leaves_the_claim_open() {
        let open = || on(Effect::WriteOpen, "notes.txt", PathState::Untracked);
        let mapped = || open().marked(Mark::Mapped).allowed();
        let record = command(vec![open()], vec![open().allowed(), mapped()], vec![]);
        let (status, codes) = read_only(&record);
        assert_eq!(status, Status::ClaimOnly);
        assert_eq!(codes, [ReasonCode::WriteOpenUnresolved; 2], "by pass");
        // Within a claim to write locally it does not matter.
        let verdict = judge(&record, &claiming(Writes::WriteLocal));
        assert_eq!(verdict.writes.status, Some(Status::Verified));
        // Where it shows, it counts as any other write.
        for kind in [ChangeKind::Content, ChangeKind::Times] {
            let mut changed = record.clone();
            changed.contained().changes = vec![change("notes.txt", kind, PathState::Untracked)];
            assert_eq!(read_only(&changed).0, Status::Contradicted, "{kind:?}");
        }
        // A mapping that only the denied pass made counts for both.
        let denied = command(
            vec![mapped().outcome(Outcome::Denied)],
            vec![open().allowed()],
            vec![],
        );
        assert_eq!(read_only(&denied).0, Status::ClaimOnly);
        // Another file is opened as harmlessly as before.
        let other = command(
            vec![],
            vec![
                mapped(),
                on(Effect::WriteOpen, "app.db", PathState::Clean).allowed(),
            ],
            vec![],
        );
        assert_eq!(
            judge(&other, &ask()).evidence.of(0, 1)[1],
            Standing::NotCounted(Harmless::WriteOpenWithoutEffect)
        );
    }

    #[test]
    fn shared_memory_that_is_left_behind_counts_and_what_is_removed_does_not() {
        let segment = |path| at(Effect::Create, Place::Ipc, path, false).allowed();
        for pass in [Pass::Denied, Pass::Contained] {
            let mut record = command(vec![], vec![], vec![]);
            let at = usize::from(pass == Pass::Contained);
            record.arms[0].passes[at].observed = vec![segment("/dev/shm/a")];
            assert_eq!(read_only(&record).0, Status::Verified);
            record.arms[0].passes[at]
                .observed
                .push(segment("/dev/shm/b").marked(Mark::LeftBehind));
            assert_eq!(
                read_only(&record),
                (Status::Contradicted, vec![ReasonCode::OutsideAttempted])
            );
        }
        // Residue in a temp folder is listed elsewhere.
        let scratch = at(Effect::Create, Place::Scratch, "/tmp/s/x", false).allowed();
        let record = command(vec![], vec![scratch.marked(Mark::LeftBehind)], vec![]);
        assert_eq!(read_only(&record).0, Status::Verified);
    }

    #[test]
    fn a_signal_to_what_is_absent_here_leaves_the_claim_open() {
        let signal = at(Effect::Signal, Place::Outside, "/proc/77", false).marked(Mark::AbsentHere);
        for outcome in [Outcome::Denied, Outcome::NoOp, Outcome::Allowed] {
            let record = denied(signal.clone().outcome(outcome));
            assert_eq!(
                read_only(&record),
                (Status::ClaimOnly, vec![ReasonCode::AbsentHere])
            );
            let verdict = judge(&record, &ask());
            assert_eq!(verdict.reversibility.status, Some(Status::ClaimOnly));
        }
    }
}
