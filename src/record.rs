//! What one probe saw, before anybody judged it: plain data, filled by the probe, read by the verdict.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use calibrun_sandbox::{Attempt, Layers, Pass, Run};

use crate::workspace::{Change, PathState, Residue};

/// Which invocation an arm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArmName {
    /// The declared arm whose verdict shows that the capability detects.
    KnownPositive,
    /// The declared arm whose verdict shows that it also stays silent.
    KnownNegative,
    /// The entry alone, undeclared.
    NoArgs,
    /// The one argv that `observe` was given.
    Command,
}

impl ArmName {
    /// The stable name that reports and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            ArmName::KnownPositive => "known_positive",
            ArmName::KnownNegative => "known_negative",
            ArmName::NoArgs => "no_args",
            ArmName::Command => "command",
        }
    }

    /// Whether the declaration names it.
    pub const fn is_declared(self) -> bool {
        matches!(self, ArmName::KnownPositive | ArmName::KnownNegative)
    }
}

/// An attempt beside what the workspace knows of its paths.
#[derive(Clone, Debug)]
pub struct Observed {
    /// As the sandbox saw it.
    pub attempt: Attempt,
    /// The target relative to the top of the clone, when it lies there.
    pub path: Option<PathBuf>,
    /// What the target was before the pass; [`PathState::NotInClone`] for other places.
    pub state: PathState,
    /// The second end's path relative to the clone.
    pub to_path: Option<PathBuf>,
    /// The second end's state before the pass.
    pub to_state: PathState,
    /// Whether the program is a git that lies where the arm cannot write, running one of the reading
    /// commands that refresh the index on the side.
    pub reading_git: bool,
}

/// What came of undoing what a contained pass left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoOutcome {
    /// Nothing was left to undo: every field of the manifest was equal.
    Untouched,
    /// Undone from the clone's own history and index, and compared: the tree was restored.
    Proven,
    /// Undone as far as possible; what still differs.
    Residue(Vec<Residue>),
    /// Not tried; the text says why.
    NotTried(String),
}

/// One run of an arm.
#[derive(Clone, Debug)]
pub struct PassRecord {
    /// Which pass.
    pub pass: Pass,
    /// What the sandbox returned, without its attempts (they are in `observed`).
    pub run: Run,
    /// The attempts, annotated.
    pub observed: Vec<Observed>,
    /// Contained pass only: every difference between the manifests before and after.
    pub changes: Vec<Change>,
    /// Contained pass only: what came of undoing `changes`; `None` when no undo is known of.
    pub undo: Option<UndoOutcome>,
    /// Contained pass only, by git folder relative to the top of the clone: whether each index entry
    /// kept object, mode and flags, each new stat is the file's own, and each such file hashes to
    /// its entry. A folder that is missing here was not compared.
    pub index_kept: BTreeMap<PathBuf, bool>,
}

/// One arm in both passes.
#[derive(Clone, Debug)]
pub struct ArmRecord {
    /// Which arm.
    pub name: ArmName,
    /// What was executed.
    pub argv: Vec<OsString>,
    /// The verdict name that the declaration expects of it.
    pub expect: Option<String>,
    /// The denied pass, then the contained one.
    pub passes: Vec<PassRecord>,
}

impl ArmRecord {
    /// The record of `pass`, if that pass was run.
    pub fn pass(&self, pass: Pass) -> Option<&PassRecord> {
        self.passes.iter().find(|p| p.pass == pass)
    }
}

/// What the witness program, run in the same conditions, showed of the instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controls {
    /// Writes that the witness made.
    pub writes: u32,
    /// Of these, how many were seen with the right effect and place.
    pub seen: u32,
    /// Of these, how many were refused.
    pub denied: u32,
    /// Attempts seen of the witness that only reads; must be 0.
    pub reader_attempts: u32,
    /// What did not hold, one line each; empty means calibrated.
    pub failures: Vec<String>,
}

impl Controls {
    /// Whether the instrument may be believed.
    pub fn calibrated(&self) -> bool {
        self.failures.is_empty()
            && self.writes > 0
            && self.seen == self.writes
            && self.denied == self.writes
            && self.reader_attempts == 0
    }
}

/// Everything one probe of one capability saw.
#[derive(Clone, Debug)]
pub struct Record {
    /// Commit of the field repo; `None` for a folder without history.
    pub commit: Option<String>,
    /// Whether tracked or untracked, unignored files differ from that commit.
    pub dirty: bool,
    /// The arms, in the order in which they ran.
    pub arms: Vec<ArmRecord>,
    /// The controls that ran before them.
    pub controls: Controls,
    /// What was in force in every run (the weakest of each).
    pub layers: Layers,
    /// What the clone could not carry over, one line each; any makes a claim `not-carried`.
    pub not_carried: Vec<String>,
    /// Further notes of coverage, one line each.
    pub notes: Vec<String>,
}
