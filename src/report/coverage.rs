//! What a run could not see, gathered from wherever it was noted.

use std::collections::BTreeSet;

use super::Judged;
use crate::record::Record;
use crate::verdict::{ReasonCode, Status};

/// One note of coverage: a stable code, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Note {
    pub(super) code: &'static str,
    pub(super) detail: String,
}

/// The gaps of a record, sorted, each once.
pub(super) fn gaps(record: &Record) -> Vec<Note> {
    let mut notes = BTreeSet::new();
    let mut note = |code, detail: &str| {
        notes.insert(Note {
            code,
            detail: detail.to_owned(),
        });
    };
    for pass in record.arms.iter().flat_map(|arm| &arm.passes) {
        for gap in &pass.run.gaps {
            note(gap.name(), gap.about());
        }
    }
    for missing in &record.layers.missing {
        note("layer-missing", missing);
    }
    for what in &record.not_carried {
        note("not-carried", what);
    }
    for what in &record.notes {
        note("note", what);
    }
    notes.into_iter().collect()
}

/// Whether nothing about the instrument, the clone or the arms' course hid an attempt.
pub(super) fn complete(judged: &Judged) -> bool {
    gaps(&judged.record).iter().all(|note| note.code == "note")
        && !judged
            .verdict
            .writes
            .reasons
            .iter()
            .any(|reason| reason.effect.is_none() && hides(reason.code))
}

/// Whether a reason that rests on no attempt says that some may not have been seen.
const fn hides(code: ReasonCode) -> bool {
    match code.status() {
        // An arm that lands unexpectedly was seen all the same.
        Status::ClaimOnly => !matches!(
            code,
            ReasonCode::ArmVerdictUnexpected
                | ReasonCode::ArmsDoNotSeparate
                | ReasonCode::TopOfOrder
        ),
        Status::Contradicted => matches!(code, ReasonCode::EffectWithoutAttempt),
        Status::Verified => false,
    }
}
