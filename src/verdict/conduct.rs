//! Whether the instrument and the arms behaved so that anything may be concluded at all.

use calibrun_sandbox::{Gap, Layers, Mark, Pass, Termination};

use super::channel::Reading;
use super::{Expected, PassReading, Reason, ReasonCode, reading};
use crate::declaration::NameClass;
use crate::record::{ArmRecord, PassRecord, Record};

/// The oldest Landlock ABI that knows every way of writing content (3: truncate; kernel 6.2).
const LANDLOCK_ABI: u32 = 3;

/// Every reason for claim-only that does not rest on what was attempted.
pub(super) fn reasons(
    record: &Record,
    expected: &Expected,
    readings: &[PassReading],
) -> Vec<Reason> {
    let mut found = instrument(record);
    for name in expected.arms() {
        if !record.arms.iter().any(|arm| arm.name == *name) {
            found.push(
                Reason::new(ReasonCode::ArmDidNotRun)
                    .in_arm(*name)
                    .because("the arm is missing"),
            );
        }
    }
    for arm in &record.arms {
        for pass in &arm.passes {
            found.extend(course(arm, pass));
        }
        for pass in Pass::ALL.iter().filter(|p| arm.pass(**p).is_none()) {
            found.push(
                Reason::new(ReasonCode::ArmDidNotRun)
                    .in_arm(arm.name)
                    .in_pass(*pass)
                    .because("the pass is missing"),
            );
        }
        found.extend(end(arm, reading(readings, arm.name, Pass::Contained)));
    }
    found.extend(separation(record, readings));
    found
}

fn instrument(record: &Record) -> Vec<Reason> {
    let mut found = layers(&record.layers);
    if !record.controls.calibrated() {
        let controls = &record.controls;
        found.push(
            Reason::new(ReasonCode::InstrumentUncalibrated).because(if controls.writes == 0 {
                "no control was run".to_owned()
            } else {
                format!(
                    "of {} control writes {} were seen and {} refused; the reader showed {}; {} other failures",
                    controls.writes,
                    controls.seen,
                    controls.denied,
                    controls.reader_attempts,
                    controls.failures.len()
                )
            }),
        );
    }
    for what in &record.not_carried {
        found.push(Reason::new(ReasonCode::NotCarried).because(what.clone()));
    }
    found
}

fn layers(layers: &Layers) -> Vec<Reason> {
    let mut found = Vec::new();
    let mut lacks = |code, why: &str| found.push(Reason::new(code).because(why));
    match layers.landlock_abi {
        None => lacks(
            ReasonCode::NoEnforcement,
            "no Landlock ruleset was in force",
        ),
        Some(abi) if abi < LANDLOCK_ABI => lacks(
            ReasonCode::NoEnforcement,
            "the Landlock ruleset does not cover every way of writing",
        ),
        Some(_) => {}
    }
    if !layers.no_new_privs {
        lacks(ReasonCode::NoEnforcement, "no_new_privs was not set");
    }
    if !layers.capabilities_dropped {
        lacks(ReasonCode::NoEnforcement, "capabilities were not dropped");
    }
    if !layers.listener {
        lacks(ReasonCode::NoObserver, "no listener was installed");
    }
    found
}

/// What the course of one run hides.
fn course(arm: &ArmRecord, pass: &PassRecord) -> Vec<Reason> {
    let reason = |code| Reason::new(code).in_arm(arm.name).in_pass(pass.pass);
    let mut found = Vec::new();
    match &pass.run.termination {
        Termination::Exited(_) | Termination::Signaled(_) => {}
        Termination::TimedOut => found.push(reason(ReasonCode::ArmTimedOut)),
        Termination::NotExecuted(_) => {
            found.push(reason(ReasonCode::ArmDidNotRun).because("it could not be executed"));
        }
    }
    // Where nothing was executed the layers need not have come up.
    if !matches!(pass.run.termination, Termination::NotExecuted(_)) {
        found.extend(
            layers(&pass.run.layers)
                .into_iter()
                .map(|r| r.in_arm(arm.name).in_pass(pass.pass)),
        );
    }
    for gap in &pass.run.gaps {
        match gap {
            Gap::NoListener => found.push(reason(ReasonCode::NoObserver)),
            Gap::NoLandlock => found.push(reason(ReasonCode::NoEnforcement)),
            Gap::OutlivedArm => found.push(reason(ReasonCode::ProcessOutlivedArm)),
            Gap::UndecodableEvent => found.push(reason(ReasonCode::UndecodableEvent)),
            Gap::AttemptsDropped => found.push(
                reason(ReasonCode::UndecodableEvent)
                    .because("more distinct attempts than are kept"),
            ),
            Gap::MetadataNotContained => found.push(reason(ReasonCode::MetadataNotContained)),
            // These narrow what is private here; what they hide is marked on the attempt itself.
            Gap::NoMounts
            | Gap::NoPrivateNet
            | Gap::NoPidNamespace
            | Gap::NoScopes
            | Gap::TempNotOverlaid => {}
        }
    }
    if pass.pass == Pass::Contained
        && pass
            .observed
            .iter()
            .any(|o| o.attempt.marks.contains(&Mark::MetadataRefused))
    {
        found.push(reason(ReasonCode::MetadataNotContained));
    }
    found
}

/// Whether the arm ended as it must, judged in the contained pass.
///
/// Denial changes exit codes, so the denied pass says nothing here.
fn end(arm: &ArmRecord, reading: Option<&Reading>) -> Vec<Reason> {
    let Some(contained) = arm.pass(Pass::Contained) else {
        return Vec::new();
    };
    let reason = |code| Reason::new(code).in_arm(arm.name).in_pass(Pass::Contained);
    let unexpected = |why: String| vec![reason(ReasonCode::ArmVerdictUnexpected).because(why)];
    let did_not_run = |why: &str| vec![reason(ReasonCode::ArmDidNotRun).because(why)];
    if !arm.name.is_declared() {
        return match contained.run.termination {
            // What a shell gives when it cannot execute or find a program (POSIX, 2.8.2).
            Termination::Exited(code @ (126 | 127)) => did_not_run(&format!(
                "exit code {code}: a program could not be executed or found"
            )),
            Termination::Signaled(signal) => unexpected(format!("ended by signal {signal}")),
            Termination::Exited(_) | Termination::TimedOut | Termination::NotExecuted(_) => {
                Vec::new()
            }
        };
    }
    match (reading, &arm.expect) {
        (None, _) => unexpected("no verdict channel is declared".into()),
        (Some(_), None) => unexpected("no verdict is expected of it".into()),
        (Some(Reading::HarnessError(why)), Some(expect)) => unexpected(format!(
            "expected {expect}, and got no declared verdict: {why}"
        )),
        (Some(reading), Some(_)) if reading.says_nothing_ran() => {
            did_not_run("its verdict says that nothing ran")
        }
        (Some(Reading::Named(name)), Some(expect))
            if NameClass::of(name) == NameClass::HarnessError =>
        {
            unexpected(format!("expected {expect}, and it reports its own failure"))
        }
        (Some(Reading::Named(name)), Some(expect)) if name != expect => {
            unexpected(format!("expected {expect}, and got {name}"))
        }
        (Some(Reading::Named(_)), Some(_)) => Vec::new(),
    }
}

/// Two declared arms that give one and the same verdict show nothing.
fn separation(record: &Record, readings: &[PassReading]) -> Option<Reason> {
    let mut declared = record.arms.iter().filter(|arm| arm.name.is_declared());
    let of = |arm: &ArmRecord| reading(readings, arm.name, Pass::Contained);
    let (first, second) = (declared.next()?, declared.next()?);
    match (of(first)?, of(second)?) {
        (Reading::Named(a), Reading::Named(b)) if a == b => {
            Some(Reason::new(ReasonCode::ArmsDoNotSeparate).because(format!("both gave {a}")))
        }
        _ => None,
    }
}
