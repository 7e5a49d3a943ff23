//! What must hold of a whole verdict, whatever the attempts.

use calibrun_sandbox::{Effect, Gap, Mark, Outcome, Pass, Place, Termination};

use super::sample::{CHANGES, arm, ask, ask_declared, at, change, command, declared, on};
use super::*;
use crate::record::{Controls, UndoOutcome};
use crate::workspace::{ChangeKind, PathState};

fn statuses(record: &Record, question: &Question) -> (Status, Status) {
    let verdict = judge(record, question);
    (
        verdict.writes.status.expect("writes is claimed"),
        verdict
            .reversibility
            .status
            .expect("reversibility is claimed"),
    )
}

/// Both axes are claim-only for this code and no other.
fn both_open(record: &Record, question: &Question, code: ReasonCode) {
    let verdict = judge(record, question);
    for (status, reasons) in [
        (verdict.writes.status, &verdict.writes.reasons),
        (verdict.reversibility.status, &verdict.reversibility.reasons),
    ] {
        assert_eq!(status, Some(Status::ClaimOnly), "{code:?}: {reasons:?}");
        assert!(
            reasons.iter().all(|r| r.code == code),
            "{code:?}: {reasons:?}"
        );
    }
    assert_eq!(verdict.verdict, Some(Status::ClaimOnly));
}

#[test]
fn a_quiet_command_is_verified_on_both_axes() {
    let record = command(vec![], vec![], vec![]);
    let verdict = judge(&record, &ask());
    assert_eq!(verdict.verdict, Some(Status::Verified));
    assert_eq!(verdict.writes.observed, Writes::ReadOnly);
    assert_eq!(
        verdict.writes.reasons,
        [Reason::new(ReasonCode::WithinClaim)]
    );
    assert_eq!(verdict.reversibility.observed, Reversibility::Reversible);
    assert_eq!(
        verdict.reversibility.reasons,
        [Reason::new(ReasonCode::NothingChanged)]
    );
}

#[test]
fn a_quiet_declaration_is_verified_on_both_axes() {
    let verdict = judge(&declared(), &ask_declared());
    assert_eq!(verdict.verdict, Some(Status::Verified), "{verdict:?}");
    assert_eq!(
        verdict.reading(ArmName::KnownNegative, Pass::Contained),
        Some(&Reading::Named("FAIL".into()))
    );
    assert_eq!(
        verdict.not_seen,
        [
            "declared verdict DID_NOT_RUN never occurred",
            "declared verdict HARNESS_ERROR never occurred"
        ]
    );
}

#[test]
fn an_empty_record_is_never_verified() {
    let mut record = command(vec![], vec![], vec![]);
    record.arms.clear();
    both_open(&record, &ask(), ReasonCode::ArmDidNotRun);
    both_open(&record, &ask_declared(), ReasonCode::ArmDidNotRun);
}

#[test]
fn a_missing_pass_is_never_verified() {
    for missing in Pass::ALL {
        let mut record = command(vec![], vec![], vec![]);
        record.arms[0].passes.retain(|p| p.pass != *missing);
        both_open(&record, &ask(), ReasonCode::ArmDidNotRun);
    }
}

#[test]
fn a_missing_arm_is_never_verified() {
    for missing in 0..3 {
        let mut record = declared();
        record.arms.remove(missing);
        both_open(&record, &ask_declared(), ReasonCode::ArmDidNotRun);
    }
    // A command's arm does not stand for a declaration's.
    both_open(
        &command(vec![], vec![], vec![]),
        &ask_declared(),
        ReasonCode::ArmDidNotRun,
    );
}

#[test]
fn an_instrument_that_was_not_calibrated_verifies_nothing() {
    let calibrated = command(vec![], vec![], vec![]);
    let broken: [fn(&mut Controls); 6] = [
        |c| *c = Controls::default(),
        |c| c.writes = 0,
        |c| c.seen -= 1,
        |c| c.denied -= 1,
        |c| c.reader_attempts = 1,
        |c| c.failures.push("scratch was refused".into()),
    ];
    for spoil in broken {
        let mut record = calibrated.clone();
        spoil(&mut record.controls);
        both_open(&record, &ask(), ReasonCode::InstrumentUncalibrated);
    }
}

#[test]
fn a_missing_layer_verifies_nothing() {
    type Spoil = fn(&mut calibrun_sandbox::Layers);
    let cases: [(Spoil, ReasonCode); 5] = [
        (|l| l.landlock_abi = None, ReasonCode::NoEnforcement),
        (|l| l.landlock_abi = Some(2), ReasonCode::NoEnforcement),
        (|l| l.no_new_privs = false, ReasonCode::NoEnforcement),
        (
            |l| l.capabilities_dropped = false,
            ReasonCode::NoEnforcement,
        ),
        (|l| l.listener = false, ReasonCode::NoObserver),
    ];
    for (spoil, code) in cases {
        let mut record = command(vec![], vec![], vec![]);
        spoil(&mut record.layers);
        both_open(&record, &ask(), code);
        // One run alone is enough.
        let mut record = command(vec![], vec![], vec![]);
        spoil(&mut record.contained().run.layers);
        both_open(&record, &ask(), code);
    }
}

#[test]
fn layers_that_are_never_required_do_not_stand_in_the_way() {
    let mut record = command(vec![], vec![], vec![]);
    for layers in [&mut record.layers, &mut record.arms[0].passes[1].run.layers] {
        layers.user_namespace = false;
        layers.mounts = false;
        layers.net_namespace = false;
        layers.pid_namespace = false;
    }
    record.contained().run.gaps = vec![
        Gap::NoMounts,
        Gap::NoPrivateNet,
        Gap::NoPidNamespace,
        Gap::NoScopes,
        Gap::TempNotOverlaid,
    ];
    assert_eq!(
        statuses(&record, &ask()),
        (Status::Verified, Status::Verified)
    );
}

#[test]
fn gaps_that_hide_attempts_leave_both_claims_open() {
    for (gap, code) in [
        (Gap::NoListener, ReasonCode::NoObserver),
        (Gap::NoLandlock, ReasonCode::NoEnforcement),
        (Gap::OutlivedArm, ReasonCode::ProcessOutlivedArm),
        (Gap::UndecodableEvent, ReasonCode::UndecodableEvent),
        (Gap::AttemptsDropped, ReasonCode::UndecodableEvent),
        (Gap::MetadataNotContained, ReasonCode::MetadataNotContained),
    ] {
        let mut record = command(vec![], vec![], vec![]);
        record.denied().run.gaps.push(gap);
        both_open(&record, &ask(), code);
    }
    let mut record = command(vec![], vec![], vec![]);
    record
        .not_carried
        .push("node_modules: over the budget".into());
    both_open(&record, &ask(), ReasonCode::NotCarried);
}

#[test]
fn a_refused_metadata_change_of_the_contained_pass_leaves_both_claims_open() {
    let refused = at(Effect::Mode, Place::Scratch, "/tmp/s/x", true).marked(Mark::MetadataRefused);
    let record = command(vec![], vec![refused.clone()], vec![]);
    both_open(&record, &ask(), ReasonCode::MetadataNotContained);
    let record = command(vec![refused], vec![], vec![]);
    assert_eq!(
        statuses(&record, &ask()),
        (Status::Verified, Status::Verified)
    );
}

#[test]
fn an_arm_that_did_not_end_by_itself_leaves_both_claims_open() {
    for (end, code) in [
        (Termination::TimedOut, ReasonCode::ArmTimedOut),
        (
            Termination::NotExecuted("enoent".into()),
            ReasonCode::ArmDidNotRun,
        ),
        (Termination::Exited(126), ReasonCode::ArmDidNotRun),
        (Termination::Exited(127), ReasonCode::ArmDidNotRun),
        (Termination::Signaled(11), ReasonCode::ArmVerdictUnexpected),
    ] {
        let mut record = command(vec![], vec![], vec![]);
        record.contained().run.termination = end;
        both_open(&record, &ask(), code);
    }
    let mut record = command(vec![], vec![], vec![]);
    record.denied().run.termination = Termination::TimedOut;
    both_open(&record, &ask(), ReasonCode::ArmTimedOut);
}

#[test]
fn the_denied_pass_may_end_otherwise() {
    for end in [
        Termination::Exited(1),
        Termination::Exited(127),
        Termination::Signaled(6),
    ] {
        let mut record = declared();
        record.denied().run.termination = end;
        assert_eq!(
            statuses(&record, &ask_declared()),
            (Status::Verified, Status::Verified)
        );
    }
}

#[test]
fn an_undeclared_arm_need_not_land_on_a_declared_verdict() {
    let mut record = declared();
    record.arms[2].passes[1].run.termination = Termination::Exited(77);
    assert_eq!(
        statuses(&record, &ask_declared()),
        (Status::Verified, Status::Verified)
    );
}

#[test]
fn a_declared_arm_must_land_as_declared_in_the_contained_pass() {
    for (end, code) in [
        (Termination::Exited(7), ReasonCode::ArmVerdictUnexpected),
        (Termination::Exited(10), ReasonCode::ArmVerdictUnexpected),
        (Termination::Exited(3), ReasonCode::ArmDidNotRun),
        (Termination::Exited(127), ReasonCode::ArmVerdictUnexpected),
        (Termination::Signaled(9), ReasonCode::ArmVerdictUnexpected),
    ] {
        let mut record = declared();
        record.arms[0].passes[1].run.termination = end;
        both_open(&record, &ask_declared(), code);
    }
    // Even where that is what the declaration expects.
    for (name, code, reason) in [
        ("HARNESS_ERROR", 10, ReasonCode::ArmVerdictUnexpected),
        ("DID_NOT_RUN", 3, ReasonCode::ArmDidNotRun),
    ] {
        let mut record = declared();
        record.arms[0].expect = Some(name.into());
        record.arms[0].passes[1].run.termination = Termination::Exited(code);
        both_open(&record, &ask_declared(), reason);
    }
    let mut record = declared();
    record.arms[0].expect = None;
    both_open(&record, &ask_declared(), ReasonCode::ArmVerdictUnexpected);
}

#[test]
fn two_declared_arms_with_one_verdict_show_nothing() {
    let mut record = declared();
    record.arms[1].expect = Some("PASS".into());
    record.arms[1].passes[1].run.termination = Termination::Exited(0);
    both_open(&record, &ask_declared(), ReasonCode::ArmsDoNotSeparate);
}

#[test]
fn a_contradiction_wins_over_every_doubt() {
    let mut record = command(
        vec![on(
            Effect::Remove,
            "scripts/local1.sh",
            PathState::Untracked,
        )],
        vec![],
        vec![],
    );
    record.controls = Controls::default();
    record.layers.listener = false;
    record.contained().run.termination = Termination::TimedOut;
    assert_eq!(
        statuses(&record, &ask()),
        (Status::Contradicted, Status::Contradicted)
    );
    let verdict = judge(&record, &ask());
    assert_eq!(verdict.writes.reasons[0].code, ReasonCode::WriteAttempted);
    assert!(
        verdict
            .writes
            .reasons
            .iter()
            .any(|r| r.code == ReasonCode::InstrumentUncalibrated)
    );
}

#[test]
fn what_only_one_arm_tries_counts_for_all() {
    let mut record = declared();
    record.arms[2].passes[0].observed.push(on(
        Effect::Remove,
        "scripts/deploy.sh",
        PathState::Untracked,
    ));
    let verdict = judge(&record, &ask_declared());
    assert_eq!(verdict.verdict, Some(Status::Contradicted));
    assert_eq!(verdict.writes.reasons[0].arm, Some(ArmName::NoArgs));
    assert_eq!(verdict.writes.reasons[0].pass, Some(Pass::Denied));
}

#[test]
fn the_gravest_axis_decides() {
    let created = on(Effect::Create, "new", PathState::Absent);
    let record = command(vec![created], vec![], vec![]);
    let verdict = judge(&record, &ask());
    assert_eq!(verdict.writes.status, Some(Status::Contradicted));
    assert_eq!(verdict.reversibility.status, Some(Status::Verified));
    assert_eq!(verdict.verdict, Some(Status::Contradicted));
}

#[test]
fn without_a_claim_there_is_no_status_but_a_level() {
    let record = command(
        vec![on(
            Effect::Remove,
            "scripts/local1.sh",
            PathState::Untracked,
        )],
        vec![],
        vec![],
    );
    let question = Question {
        claims: Claims::default(),
        ..ask()
    };
    let verdict = judge(&record, &question);
    assert_eq!(verdict.verdict, None);
    assert_eq!(verdict.writes.status, None);
    assert_eq!(verdict.writes.observed, Writes::WriteLocal);
    assert_eq!(verdict.reversibility.status, None);
    assert_eq!(verdict.reversibility.observed, Reversibility::Irreversible);
}

#[test]
fn equal_reasons_are_counted_together() {
    let twice = on(Effect::Create, "new", PathState::Absent);
    let mut thrice = twice.clone();
    thrice.attempt.count = 3;
    thrice.attempt.pid = 99;
    let record = command(vec![twice, thrice], vec![], vec![]);
    let reasons = judge(&record, &ask()).writes.reasons;
    assert_eq!(reasons.len(), 1);
    assert_eq!(reasons[0].count, 4);
}

#[test]
fn every_arm_of_a_record_is_judged_even_when_it_is_not_asked_for() {
    let mut record = command(vec![], vec![], vec![]);
    record.arms.push(arm(
        ArmName::NoArgs,
        vec![on(Effect::Create, "new", PathState::Absent)],
        vec![],
        vec![],
    ));
    assert_eq!(statuses(&record, &ask()).0, Status::Contradicted);
}

const STATES: [PathState; 9] = [
    PathState::NotInClone,
    PathState::Absent,
    PathState::Clean,
    PathState::Staged,
    PathState::Uncommitted,
    PathState::Untracked,
    PathState::Ignored,
    PathState::GitInternal,
    PathState::Canary,
];

#[test]
fn no_refused_write_in_a_counted_place_is_ever_verified_as_read_only() {
    for effect in Effect::ALL {
        for state in STATES {
            let mut attempts = vec![
                on(*effect, "x", state),
                on(*effect, ".git/x", state),
                on(*effect, "x", state).onto("y", PathState::Untracked),
            ];
            for place in [Place::Home, Place::Outside] {
                for exists in [false, true] {
                    attempts.push(at(*effect, place, "/home/dev/x", exists));
                }
            }
            for attempt in attempts {
                for outcome in [Outcome::Denied, Outcome::Unknown] {
                    let record = command(vec![attempt.clone().outcome(outcome)], vec![], vec![]);
                    let status = judge(&record, &ask()).writes.status;
                    assert_ne!(status, Some(Status::Verified), "{attempt:?}");
                }
            }
        }
    }
}

#[test]
fn no_refused_loss_of_content_that_no_history_holds_is_ever_verified_as_reversible() {
    for effect in [Effect::Remove, Effect::Truncate, Effect::WriteOpen] {
        for state in [
            PathState::Staged,
            PathState::Uncommitted,
            PathState::Untracked,
            PathState::Ignored,
            PathState::Canary,
        ] {
            for undo in [UndoOutcome::Untouched, UndoOutcome::Proven] {
                let record = command(vec![on(effect, "x", state)], vec![], vec![]).undone(undo);
                let status = judge(&record, &ask()).reversibility.status;
                assert_eq!(status, Some(Status::Contradicted), "{effect:?} {state:?}");
            }
        }
    }
}

#[test]
fn no_effect_that_was_not_seen_coming_is_ever_verified() {
    for kind in CHANGES {
        for state in STATES {
            for undo in [
                None,
                Some(UndoOutcome::Untouched),
                Some(UndoOutcome::Proven),
            ] {
                let mut record = command(vec![], vec![], vec![change("x", kind, state)]);
                record.contained().undo = undo;
                let (writes, undo) = statuses(&record, &ask());
                assert_eq!(writes, Status::Contradicted, "{kind:?} {state:?}");
                assert_ne!(undo, Status::Verified, "{kind:?} {state:?}");
            }
        }
    }
}

#[test]
fn many_attempts_are_judged_in_reasonable_time() {
    let paths: Vec<String> = (0..20_000).map(|i| format!("node_modules/{i}")).collect();
    let removed: Vec<_> = paths
        .iter()
        .map(|p| on(Effect::Remove, p, PathState::Ignored))
        .collect();
    let record = command(
        removed.clone(),
        removed.into_iter().map(|o| o.allowed()).collect(),
        paths
            .iter()
            .map(|p| change(p, ChangeKind::Removed, PathState::Ignored))
            .collect(),
    );
    let verdict = judge(&record, &ask());
    assert_eq!(verdict.verdict, Some(Status::Contradicted));
    // Deletions are never cut short.
    assert_eq!(verdict.writes.reasons.len(), 40_000);
    assert_eq!(verdict.reversibility.reasons.len(), 20_000);
}
