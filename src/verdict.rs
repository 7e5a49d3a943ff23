//! Judges a [`Record`]: pure, without clock, files or environment.
//!
//! ```text
//! Record + Question -> readings (channel) -> evidence (each attempt's standing)
//!        -> conduct (instrument and arms) -> writes, reversibility -> CapabilityVerdict
//! ```

mod conduct;
mod gitdir;
mod refresh;
mod startup;

pub mod channel;
pub mod evidence;
pub mod reason;
pub mod reversibility;
pub mod writes;

#[cfg(test)]
pub(crate) mod sample;

use std::ffi::OsString;
use std::path::PathBuf;

use calibrun_sandbox::{Effect, Pass};

use crate::contract::{Reversibility, Writes};
use crate::declaration::VerdictSpec;
use crate::record::{ArmName, Record};

pub use channel::Reading;
pub use evidence::{Evidence, Harmless, Standing};
pub use reason::{ReasonCode, verdicts_page};
pub use reversibility::ReversibilityVerdict;
pub use writes::WritesVerdict;

/// What is known of one claim. Ordered from the lightest to the gravest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Everything seen is within the claim.
    Verified,
    /// Nobody knows.
    ClaimOnly,
    /// Something seen denies the claim.
    Contradicted,
}

impl Status {
    /// The stable name that reports and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Verified => "verified",
            Status::ClaimOnly => "claim-only",
            Status::Contradicted => "contradicted",
        }
    }
}

/// The axes that a probe judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// What is written.
    Writes,
    /// Whether it can be undone.
    Reversibility,
}

impl Axis {
    /// Both.
    pub const ALL: &'static [Axis] = &[Axis::Writes, Axis::Reversibility];

    /// The name as a declaration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Axis::Writes => "writes",
            Axis::Reversibility => "reversibility",
        }
    }
}

/// The claims to judge; `None` where nothing is claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The declared `writes`.
    pub writes: Option<Writes>,
    /// The declared `reversibility`.
    pub reversibility: Option<Reversibility>,
}

/// Which arms a record must hold before anything in it can be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Of a declaration: both declared arms and `no_args`; the declared ones must land as declared.
    Declared(VerdictSpec),
    /// Of one argv without a declaration: the `command` arm.
    Command,
}

impl Expected {
    /// The arms that must be there, in the order in which they run.
    pub const fn arms(&self) -> &'static [ArmName] {
        match self {
            Expected::Declared(_) => &[
                ArmName::KnownPositive,
                ArmName::KnownNegative,
                ArmName::NoArgs,
            ],
            Expected::Command => &[ArmName::Command],
        }
    }

    /// The declared verdict channel, if there is one.
    pub const fn spec(&self) -> Option<&VerdictSpec> {
        match self {
            Expected::Declared(spec) => Some(spec),
            Expected::Command => None,
        }
    }
}

/// What is asked of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The claims.
    pub claims: Claims,
    /// The arms that must have run.
    pub expected: Expected,
    /// Whether git's optional index refresh counts too.
    pub strict: bool,
}

/// Where something was tried or changed, before a report shortens it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spot {
    /// Relative to the top of the clone; empty for the top itself.
    Clone(PathBuf),
    /// Absolute, as the subject sees it.
    Host(PathBuf),
    /// No path: an address, or bytes that could not be resolved.
    Raw(Vec<u8>),
}

/// One reason of one axis, with the evidence that it rests on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reason {
    /// Which reason.
    pub code: ReasonCode,
    /// The arm in which it was seen; `None` when it is about all of them.
    pub arm: Option<ArmName>,
    /// The pass in which it was seen.
    pub pass: Option<Pass>,
    /// The effect of the attempt that it rests on.
    pub effect: Option<Effect>,
    /// Where.
    pub at: Option<Spot>,
    /// The second end of a rename or link.
    pub to: Option<Spot>,
    /// The program that tried.
    pub program: Option<OsString>,
    /// What else there is to say, in one line of calibrun's own words.
    pub detail: Option<String>,
    /// How often; 0 where there is nothing to count.
    pub count: u64,
}

impl Reason {
    /// A reason about the whole record.
    pub fn new(code: ReasonCode) -> Reason {
        Reason {
            code,
            arm: None,
            pass: None,
            effect: None,
            at: None,
            to: None,
            program: None,
            detail: None,
            count: 0,
        }
    }

    fn in_arm(mut self, arm: ArmName) -> Reason {
        self.arm = Some(arm);
        self
    }

    fn in_pass(mut self, pass: Pass) -> Reason {
        self.pass = Some(pass);
        self
    }

    fn at(mut self, spot: Spot) -> Reason {
        self.at = Some(spot);
        self
    }

    fn because(mut self, detail: impl Into<String>) -> Reason {
        self.detail = Some(detail.into());
        self
    }
}

/// Sorts reasons and adds up those that differ only in their count.
fn united(mut reasons: Vec<Reason>) -> Vec<Reason> {
    reasons.sort();
    reasons.dedup_by(|later, kept| {
        let same = Reason {
            count: kept.count,
            ..later.clone()
        } == *kept;
        if same {
            kept.count = kept.count.saturating_add(later.count);
        }
        same
    });
    reasons
}

/// The gravest status among the reasons; `Verified` when there is none.
fn gravest(reasons: &[Reason]) -> Status {
    reasons
        .iter()
        .map(|r| r.code.status())
        .max()
        .unwrap_or(Status::Verified)
}

/// What the verdict channel gave in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassReading {
    /// Which arm.
    pub arm: ArmName,
    /// Which pass.
    pub pass: Pass,
    /// What was read; `None` without a declared channel.
    pub reading: Option<Reading>,
}

/// What is known of one capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityVerdict {
    /// The gravest status over the claimed axes; `None` when nothing is claimed.
    pub verdict: Option<Status>,
    /// The `writes` axis.
    pub writes: WritesVerdict,
    /// The `reversibility` axis.
    pub reversibility: ReversibilityVerdict,
    /// Every reading, in the order of the record.
    pub readings: Vec<PassReading>,
    /// The standing of every attempt, in the order of the record.
    pub evidence: Evidence,
    /// What this run cannot speak of, one line each: declared verdicts that never occurred.
    pub not_seen: Vec<String>,
}

impl CapabilityVerdict {
    /// What the channel gave for `arm` in `pass`.
    pub fn reading(&self, arm: ArmName, pass: Pass) -> Option<&Reading> {
        reading(&self.readings, arm, pass)
    }
}

fn reading(readings: &[PassReading], arm: ArmName, pass: Pass) -> Option<&Reading> {
    readings
        .iter()
        .find(|r| r.arm == arm && r.pass == pass)
        .and_then(|r| r.reading.as_ref())
}

/// Judges every claim of `question` against `record`.
///
/// Nothing is verified unless every expected arm ran in both passes, the controls held, and every
/// needed layer was in force.
pub fn judge(record: &Record, question: &Question) -> CapabilityVerdict {
    let readings = read(record, &question.expected);
    let evidence = Evidence::weigh(record, &readings, question.strict);
    let shared = conduct::reasons(record, &question.expected, &readings);
    let writes = writes::judge(question.claims.writes, record, &evidence, &shared);
    let reversibility =
        reversibility::judge(question.claims.reversibility, record, &evidence, &shared);
    CapabilityVerdict {
        verdict: writes.status.into_iter().chain(reversibility.status).max(),
        not_seen: not_seen(&question.expected, &readings),
        writes,
        reversibility,
        readings,
        evidence,
    }
}

fn read(record: &Record, expected: &Expected) -> Vec<PassReading> {
    record
        .arms
        .iter()
        .flat_map(|arm| {
            arm.passes.iter().map(|pass| PassReading {
                arm: arm.name,
                pass: pass.pass,
                reading: expected
                    .spec()
                    .map(|spec| spec.read(&pass.run.termination, &pass.run.stdout)),
            })
        })
        .collect()
}

fn not_seen(expected: &Expected, readings: &[PassReading]) -> Vec<String> {
    let Some(spec) = expected.spec() else {
        return Vec::new();
    };
    spec.names()
        .filter(|name| {
            !readings
                .iter()
                .filter(|r| r.pass == Pass::Contained)
                .any(|r| matches!(&r.reading, Some(Reading::Named(n)) if n == *name))
        })
        .map(|name| format!("declared verdict {name} never occurred"))
        .collect()
}

#[cfg(test)]
mod tests;
