//! One results value, and a pure renderer for each format. Never judges, never prints.

pub mod json;
pub mod style;
pub mod text;

mod coverage;
mod path;

use std::path::PathBuf;

use calibrun_sandbox::Layers;

use crate::exit::ExitCode;
use crate::record::{Controls, Record};
use crate::verdict::{CapabilityVerdict, Status};

pub use style::Style;

/// Version of the machine format; changes with any change that a reader could notice.
pub const SCHEMA: &str = "calibrun.report/v1";

/// Everything that one invocation found.
#[derive(Clone, Debug)]
pub struct Results {
    /// The host on which it ran.
    pub host: Host,
    /// The controls; the default where none was run.
    pub controls: Controls,
    /// One entry a capability, in the order in which they were asked for.
    pub capabilities: Vec<Capability>,
}

/// What is known of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Kernel release, as uname(2) gives it.
    pub kernel: String,
    /// Machine, as uname(2) gives it.
    pub machine: String,
    /// What was in force, the weakest of all runs.
    pub layers: Layers,
}

/// Where a declaration was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclarationRef {
    /// The file, as it was named.
    pub path: PathBuf,
    /// The line on which the declaration begins, from 1.
    pub line: u32,
    /// SHA-256 of its text, in lower-case hexadecimal.
    pub sha256: String,
}

/// One capability.
#[derive(Clone, Debug)]
pub enum Capability {
    /// It was run and judged.
    Judged(Box<Judged>),
    /// calibrun itself failed on it.
    Failed(Failed),
}

/// A capability that was judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The declared id; `None` for a command without a declaration.
    pub id: Option<String>,
    /// Where it is declared.
    pub declaration: Option<DeclarationRef>,
    /// What was seen.
    pub record: Record,
    /// What that means; must come from judging `record`.
    pub verdict: CapabilityVerdict,
    /// Folders that reports name by a word.
    pub roots: Roots,
}

/// A capability on which calibrun failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The declared id, where it was read.
    pub id: Option<String>,
    /// Where it is declared.
    pub declaration: Option<DeclarationRef>,
    /// What failed, in calibrun's own words.
    pub error: String,
}

/// Folders that reports name by a word, absolute, as the subject saw them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// Named `{home}`.
    pub home: Option<PathBuf>,
    /// Each named `{scratch}`; every run may have had its own.
    pub scratch: Vec<PathBuf>,
}

/// How a capability, or a whole batch, came out. Ordered from the lightest to the gravest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Judged; `None` where nothing is claimed.
    Judged(Option<Status>),
    /// calibrun itself failed.
    HarnessError,
}

impl Outcome {
    /// The name that reports and JSON use; `None` where nothing is claimed.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Outcome::Judged(None) => None,
            Outcome::Judged(Some(status)) => Some(status.name()),
            Outcome::HarnessError => Some("harness-error"),
        }
    }
}

/// How many capabilities came out how; those without a claim are in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Verified.
    pub verified: usize,
    /// Contradicted.
    pub contradicted: usize,
    /// Claim-only.
    pub claim_only: usize,
    /// calibrun failed on them.
    pub harness_error: usize,
}

impl Capability {
    /// How it came out.
    pub fn outcome(&self) -> Outcome {
        match self {
            Capability::Judged(judged) => Outcome::Judged(judged.verdict.verdict),
            Capability::Failed(_) => Outcome::HarnessError,
        }
    }
}

impl Results {
    /// The gravest outcome, by meaning. Results without any capability are a harness error: nothing
    /// was judged, and nothing must pass for that.
    pub fn outcome(&self) -> Outcome {
        self.capabilities
            .iter()
            .map(Capability::outcome)
            .max()
            .unwrap_or(Outcome::HarnessError)
    }

    /// The exit code of a command that judges.
    pub fn exit_code(&self) -> ExitCode {
        match self.outcome() {
            Outcome::Judged(status) => ExitCode::of(status),
            Outcome::HarnessError => ExitCode::HarnessError,
        }
    }

    /// The count of each outcome.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for capability in &self.capabilities {
            match capability.outcome() {
                Outcome::Judged(None) => {}
                Outcome::Judged(Some(Status::Verified)) => summary.verified += 1,
                Outcome::Judged(Some(Status::Contradicted)) => summary.contradicted += 1,
                Outcome::Judged(Some(Status::ClaimOnly)) => summary.claim_only += 1,
                Outcome::HarnessError => summary.harness_error += 1,
            }
        }
        summary
    }
}

#[cfg(test)]
mod tests;
