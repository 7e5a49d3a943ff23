//! Hand-made records for the tests of the judges and the reports.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use calibrun_sandbox::{
    Attempt, Effect, FileKind, Layers, Mark, Outcome, Output, Pass, Place, Run, Target, Termination,
};

use super::{Claims, Expected, Question};
use crate::contract::{Reversibility, Writes};
use crate::declaration::{Channel, VerdictSpec};
use crate::record::{ArmName, ArmRecord, Controls, Observed, PassRecord, Record, UndoOutcome};
use crate::workspace::{Change, ChangeKind, PathState};

/// Where the samples' clone is seen.
pub(crate) const REPO: &str = "/home/dev/repo";

/// Every kind of change.
pub(crate) const CHANGES: [ChangeKind; 10] = [
    ChangeKind::Created,
    ChangeKind::Removed,
    ChangeKind::Content,
    ChangeKind::Executable,
    ChangeKind::Mode,
    ChangeKind::Owner,
    ChangeKind::Xattr,
    ChangeKind::Flags,
    ChangeKind::Times,
    ChangeKind::Inode,
];

fn target(place: Place, resolved: PathBuf, existed: Option<FileKind>) -> Target {
    Target {
        place,
        raw: resolved.to_string_lossy().into_owned().into_bytes(),
        resolved: Some(resolved),
        existed,
    }
}

fn observed(effect: Effect, place: Place, target: Target) -> Observed {
    Observed {
        attempt: Attempt {
            effect,
            place,
            target,
            to: None,
            outcome: Outcome::Denied,
            marks: Vec::new(),
            call: "call",
            pid: 7,
            program: "prog".into(),
            command: Vec::new(),
            count: 1,
        },
        path: None,
        state: PathState::NotInClone,
        to_path: None,
        to_state: PathState::NotInClone,
        reading_git: false,
    }
}

fn place_of(path: &str) -> Place {
    if path.split('/').any(|n| n == ".git") {
        Place::GitDir
    } else {
        Place::Worktree
    }
}

fn kind_of(state: PathState) -> Option<FileKind> {
    (state != PathState::Absent).then_some(FileKind::File)
}

/// A refused attempt in the clone on what was in `state`.
pub(crate) fn on(effect: Effect, path: &str, state: PathState) -> Observed {
    let place = place_of(path);
    let mut made = observed(
        effect,
        place,
        target(place, PathBuf::from(REPO).join(path), kind_of(state)),
    );
    made.path = Some(path.into());
    made.state = state;
    made
}

/// A refused attempt elsewhere, on a file that exists or not.
pub(crate) fn at(effect: Effect, place: Place, path: &str, exists: bool) -> Observed {
    observed(
        effect,
        place,
        target(place, path.into(), exists.then_some(FileKind::File)),
    )
}

impl Observed {
    pub(crate) fn allowed(mut self) -> Observed {
        self.attempt.outcome = Outcome::Allowed;
        self
    }

    pub(crate) fn outcome(mut self, outcome: Outcome) -> Observed {
        self.attempt.outcome = outcome;
        self
    }

    pub(crate) fn marked(mut self, mark: Mark) -> Observed {
        self.attempt.marks.push(mark);
        self
    }

    /// The second end, in the clone.
    pub(crate) fn onto(mut self, path: &str, state: PathState) -> Observed {
        let place = place_of(path);
        self.attempt.to = Some(target(
            place,
            PathBuf::from(REPO).join(path),
            kind_of(state),
        ));
        self.to_path = Some(path.into());
        self.to_state = state;
        self
    }

    /// The second end, elsewhere.
    pub(crate) fn onto_place(mut self, place: Place, path: &str, exists: bool) -> Observed {
        self.attempt.to = Some(target(place, path.into(), exists.then_some(FileKind::File)));
        self
    }

    pub(crate) fn folder(mut self) -> Observed {
        self.attempt.target.existed = Some(FileKind::Folder);
        self
    }

    pub(crate) fn placed(mut self, place: Place) -> Observed {
        self.attempt.place = place;
        self
    }

    pub(crate) fn by_reading_git(mut self) -> Observed {
        self.reading_git = true;
        self.attempt.program = "git".into();
        self
    }
}

/// One difference.
pub(crate) fn change(path: &str, kind: ChangeKind, before: PathState) -> Change {
    Change {
        path: path.into(),
        kind,
        before,
        in_git_dir: place_of(path) == Place::GitDir,
    }
}

/// Every needed layer in force.
pub(crate) fn layers() -> Layers {
    Layers {
        landlock_abi: Some(7),
        listener: true,
        no_new_privs: true,
        capabilities_dropped: true,
        user_namespace: true,
        mounts: true,
        temp_overlay: true,
        home_overlay: true,
        net_namespace: true,
        uts_namespace: true,
        pid_namespace: true,
        ipc_namespace: true,
        missing: Vec::new(),
    }
}

pub(crate) fn pass(pass: Pass, observed: Vec<Observed>, changes: Vec<Change>) -> PassRecord {
    PassRecord {
        pass,
        run: Run {
            termination: Termination::Exited(0),
            stdout: Output::default(),
            stderr: Output::default(),
            attempts: Vec::new(),
            gaps: Vec::new(),
            layers: layers(),
            top: PathBuf::from("/field"),
            tmpdir: PathBuf::from("/tmp/scratch"),
            residue: Vec::new(),
            elapsed: Duration::from_millis(5),
        },
        observed,
        changes,
        undo: None,
        index_kept: BTreeMap::new(),
    }
}

/// An arm of which both passes exited with 0.
pub(crate) fn arm(
    name: ArmName,
    denied: Vec<Observed>,
    contained: Vec<Observed>,
    changes: Vec<Change>,
) -> ArmRecord {
    ArmRecord {
        name,
        argv: vec!["prog".into()],
        expect: None,
        passes: vec![
            pass(Pass::Denied, denied, Vec::new()),
            pass(Pass::Contained, contained, changes),
        ],
    }
}

/// A record of calibrated runs.
pub(crate) fn record(arms: Vec<ArmRecord>) -> Record {
    Record {
        commit: Some("0123456789abcdef0123456789abcdef01234567".into()),
        dirty: false,
        arms,
        controls: Controls {
            writes: 19,
            seen: 19,
            denied: 19,
            reader_attempts: 0,
            failures: Vec::new(),
        },
        layers: layers(),
        not_carried: Vec::new(),
        notes: Vec::new(),
    }
}

/// A record of one command.
pub(crate) fn command(
    denied: Vec<Observed>,
    contained: Vec<Observed>,
    changes: Vec<Change>,
) -> Record {
    record(vec![arm(ArmName::Command, denied, contained, changes)])
}

/// A record of a clean declaration: PASS, FAIL, and an undeclared arm that ends with 2.
pub(crate) fn declared() -> Record {
    let mut arms = Vec::new();
    for (name, code, expect) in [
        (ArmName::KnownPositive, 0, Some("PASS")),
        (ArmName::KnownNegative, 1, Some("FAIL")),
        (ArmName::NoArgs, 2, None),
    ] {
        let mut made = arm(name, Vec::new(), Vec::new(), Vec::new());
        made.expect = expect.map(str::to_owned);
        for pass in &mut made.passes {
            pass.run.termination = Termination::Exited(code);
        }
        arms.push(made);
    }
    record(arms)
}

/// The codes of [`declared`].
pub(crate) fn spec() -> VerdictSpec {
    VerdictSpec {
        channel: Channel::Exit,
        codes: [
            (0, "PASS"),
            (1, "FAIL"),
            (3, "DID_NOT_RUN"),
            (10, "HARNESS_ERROR"),
        ]
        .map(|(code, name)| (code, name.to_owned()))
        .into(),
        stdout_key: None,
    }
}

impl Record {
    pub(crate) fn contained(&mut self) -> &mut PassRecord {
        &mut self.arms[0].passes[1]
    }

    pub(crate) fn denied(&mut self) -> &mut PassRecord {
        &mut self.arms[0].passes[0]
    }

    /// With every index of the clone's own git folder compared, and found the same or not.
    pub(crate) fn index_kept(&mut self, kept: bool) {
        self.contained().index_kept.insert(".git".into(), kept);
    }

    /// With this outcome of the undo of the first arm.
    pub(crate) fn undone(mut self, undo: UndoOutcome) -> Record {
        self.contained().undo = Some(undo);
        self
    }
}

/// The narrowest claims.
pub(crate) fn claims() -> Claims {
    Claims {
        writes: Some(Writes::ReadOnly),
        reversibility: Some(Reversibility::Reversible),
    }
}

/// The narrowest claims about one command.
pub(crate) fn ask() -> Question {
    Question {
        claims: claims(),
        expected: Expected::Command,
        strict: false,
    }
}

/// The narrowest claims about a declaration.
pub(crate) fn ask_declared() -> Question {
    Question {
        expected: Expected::Declared(spec()),
        ..ask()
    }
}
