//! Drives plan -> workspace -> sandbox -> record. Decides nothing: what it saw is judged elsewhere.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use calibrun_sandbox::{
    Attempt, ControlError, Effect, Job, Layers, Layout, Limits, Outcome, Pass, Place, Run,
    RunError, Stdin, Target, calibrate,
};

use crate::plan::{Plan, PlannedArm, entry_folders, needed_files};
use crate::record::{ArmRecord, Controls, Observed, PassRecord, Record, UndoOutcome};
use crate::workspace::{
    FieldRepo, Manifest, Options, PathState, Stage, Tree, UndoReport, Workspace, WorkspaceError,
    aftermath, read_index,
};

/// What a caller decides about a probe.
pub struct Settings<'a> {
    /// The folder in which the arms run, inside the field repo; absolute, free of links.
    pub folder: PathBuf,
    /// The user's HOME; absolute, free of links.
    pub home: PathBuf,
    /// The whole environment of an arm, but for TMPDIR.
    pub environment: Vec<(OsString, OsString)>,
    /// Bounds of each run.
    pub limits: Limits,
    /// Eight random hex digits that name the canaries.
    pub canary_id: String,
    /// Whether the temp root is left for looking.
    pub keep: bool,
    /// Told of each step before it is taken.
    pub progress: &'a dyn Fn(Step),
    /// Asked several times a second whether to stop.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// A step of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The clone is being made.
    Workspace(Stage),
    /// The witness runs.
    Controls,
    /// An arm runs in a pass.
    Arm {
        /// The arm's name.
        arm: &'static str,
        /// The pass.
        pass: Pass,
    },
}

/// What a probe gave.
#[derive(Debug)]
pub struct Probed {
    /// What was seen.
    pub record: Record,
    /// Where the clone and scratch were left, if that was asked for.
    pub kept: Option<PathBuf>,
}

/// Why a probe could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The clone could not be made or read.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The witness could not be run.
    #[error("the controls could not be run")]
    Controls(#[from] ControlError),
    /// An arm could not be run.
    #[error("arm {arm}, {pass} pass, could not be run")]
    Run {
        /// The arm.
        arm: &'static str,
        /// The pass.
        pass: Pass,
        /// Why.
        source: RunError,
    },
    /// A folder in the temp root could not be made.
    #[error("cannot make a folder in the temp root")]
    Scratch(#[source] io::Error),
    /// The folder does not lie in the repo.
    #[error("{} does not lie in the repo {}", folder.display(), top.display())]
    OutsideRepo {
        /// The folder.
        folder: PathBuf,
        /// The repo's top.
        top: PathBuf,
    },
    /// What an argv names is not there.
    #[error("the entry names {}, which is not in {}; check `entry` and `requires_cwd`", file.display(), folder.display())]
    EntryMissing {
        /// The file as written.
        file: PathBuf,
        /// The folder it was looked for in.
        folder: PathBuf,
    },
    /// A bare program name that is nowhere in PATH.
    #[error("the entry names the program {}, which is not in PATH ({path}); install it, or name it by its path", program.display())]
    ProgramMissing {
        /// The name.
        program: PathBuf,
        /// The PATH that arms get.
        path: String,
    },
    /// A file for standard input is not there.
    #[error("the declaration names {} as standard input, which is not in the repo {}", file.display(), top.display())]
    StdinMissing {
        /// The file as written.
        file: PathBuf,
        /// The repo's top.
        top: PathBuf,
    },
}

impl ProbeError {
    /// Whether this host cannot confine anything, so that nothing was run.
    pub fn is_no_enforcement(&self) -> bool {
        matches!(
            self,
            ProbeError::Run {
                source: RunError::NoEnforcement(_),
                ..
            } | ProbeError::Controls(ControlError::Run(RunError::NoEnforcement(_)))
        )
    }

    /// Whether the user asked for the end.
    pub fn is_interrupted(&self) -> bool {
        matches!(
            self,
            ProbeError::Run {
                source: RunError::Interrupted,
                ..
            } | ProbeError::Controls(ControlError::Run(RunError::Interrupted))
        )
    }
}

/// Runs every arm of `plan` in both passes, after the controls.
///
/// # Errors
/// When something of calibrun's own fails or the input does not hold; never because of what the
/// subject does.
pub fn probe(
    field: &FieldRepo,
    plan: &Plan,
    settings: &Settings<'_>,
) -> Result<Probed, ProbeError> {
    let cwd = settings
        .folder
        .strip_prefix(field.top())
        .map_err(|_| ProbeError::OutsideRepo {
            folder: settings.folder.clone(),
            top: field.top().to_owned(),
        })?;
    check_inputs(field, plan, settings)?;
    let mut options = Options::new(settings.canary_id.clone());
    for arm in &plan.arms {
        options
            .entry_dirs
            .extend(entry_folders(&arm.argv, cwd, field.top()));
    }
    options.entry_dirs.sort();
    options.entry_dirs.dedup();
    let workspace = Workspace::prepare(field, &options, &|stage| {
        (settings.progress)(Step::Workspace(stage))
    })?;
    let mut probe = Session {
        settings,
        field,
        cwd,
        workspace,
        layers: None,
        notes: Vec::new(),
    };
    let result = probe.run(plan);
    let Session { workspace, .. } = probe;
    let kept = settings.keep.then(|| workspace.into_temp_root().keep());
    result.map(|record| Probed { record, kept })
}

fn check_inputs(field: &FieldRepo, plan: &Plan, settings: &Settings<'_>) -> Result<(), ProbeError> {
    for arm in &plan.arms {
        for file in needed_files(&arm.argv) {
            if !settings.folder.join(&file).exists() {
                return Err(ProbeError::EntryMissing {
                    file,
                    folder: settings.folder.clone(),
                });
            }
        }
        let program = arm.argv.first().map(Path::new).unwrap_or(Path::new(""));
        if program.components().count() == 1 && program.is_relative() {
            let path = settings
                .environment
                .iter()
                .find(|(key, _)| key == "PATH")
                .map(|(_, value)| value.clone());
            let path = path.unwrap_or_default();
            let found = std::env::split_paths(&path)
                .any(|folder| settings.folder.join(folder).join(program).exists());
            if !found {
                let path = path.to_string_lossy().into_owned();
                return Err(ProbeError::ProgramMissing {
                    program: program.to_owned(),
                    path,
                });
            }
        }
        if let Some(file) = &arm.stdin
            && !field.top().join(file).is_file()
        {
            return Err(ProbeError::StdinMissing {
                file: file.clone(),
                top: field.top().to_owned(),
            });
        }
    }
    Ok(())
}

struct Session<'a> {
    settings: &'a Settings<'a>,
    field: &'a FieldRepo,
    cwd: &'a Path,
    workspace: Workspace,
    /// The weakest of what was in force in any run so far.
    layers: Option<Layers>,
    notes: Vec<String>,
}

impl Session<'_> {
    fn run(&mut self, plan: &Plan) -> Result<Record, ProbeError> {
        let denied = self.workspace.denied()?;
        let mut contained = self.workspace.fresh()?;
        (self.settings.progress)(Step::Controls);
        let controls = self.controls(&denied)?;
        let mut arms = Vec::new();
        for arm in &plan.arms {
            let first = self.denied_pass(arm, &denied)?;
            let (second, after) = self.contained_pass(arm, &contained)?;
            contained = self.workspace.reuse_or_fresh(contained, &after)?;
            arms.push(ArmRecord {
                name: arm.name,
                argv: arm.argv.clone(),
                expect: arm.expect.clone(),
                passes: vec![first, second],
            });
        }
        self.notes.extend(self.workspace.remarks().iter().cloned());
        self.notes.extend(denied.baseline.notes().iter().cloned());
        Ok(Record {
            commit: Some(self.field.commit().to_owned()),
            dirty: self.field.is_dirty(),
            arms,
            controls,
            layers: self.layers.clone().unwrap_or_default(),
            not_carried: self.workspace.not_carried().to_vec(),
            notes: std::mem::take(&mut self.notes),
        })
    }

    fn controls(&mut self, tree: &Tree) -> Result<Controls, ProbeError> {
        let work = self
            .workspace
            .temp_root()
            .scratch()
            .map_err(ProbeError::Scratch)?;
        let template = self.job(
            tree,
            Vec::new(),
            Stdin::Null,
            Pass::Denied,
            work.join("unused"),
        );
        let found = calibrate(&template, &work, self.settings.interrupted)?;
        self.discard(&work);
        self.weaken(&found.layers);
        Ok(Controls {
            writes: found.writes,
            seen: found.seen,
            denied: found.denied,
            reader_attempts: found.reader_attempts,
            failures: found.failures,
        })
    }

    fn weaken(&mut self, layers: &Layers) {
        self.layers = Some(match &self.layers {
            None => layers.clone(),
            Some(known) => known.weakest(layers),
        });
    }

    fn denied_pass(&mut self, arm: &PlannedArm, tree: &Tree) -> Result<PassRecord, ProbeError> {
        let run = self.execute(arm, tree, Pass::Denied)?;
        Ok(record(run, Pass::Denied, tree, Vec::new()))
    }

    fn contained_pass(
        &mut self,
        arm: &PlannedArm,
        tree: &Tree,
    ) -> Result<(PassRecord, Manifest), ProbeError> {
        let before = read_index(tree);
        let run = self.execute(arm, tree, Pass::Contained)?;
        let written = opened_for_writing(&run);
        let found = aftermath(tree, before, written, self.settings.interrupted).map_err(
            |error| match error {
                WorkspaceError::Interrupted => ProbeError::Run {
                    arm: arm.name.name(),
                    pass: Pass::Contained,
                    source: RunError::Interrupted,
                },
                error => ProbeError::Workspace(error),
            },
        )?;
        let mut record = record(run, Pass::Contained, tree, found.changes);
        record.index_kept = found.index_kept;
        record.undo = Some(found.undo.map_or(UndoOutcome::Untouched, undone));
        Ok((record, found.after))
    }

    fn execute(&mut self, arm: &PlannedArm, tree: &Tree, pass: Pass) -> Result<Run, ProbeError> {
        (self.settings.progress)(Step::Arm {
            arm: arm.name.name(),
            pass,
        });
        let scratch = self
            .workspace
            .temp_root()
            .scratch()
            .map_err(ProbeError::Scratch)?;
        let stdin = match &arm.stdin {
            Some(file) => Stdin::File(file.clone()),
            None => Stdin::Null,
        };
        let job = self.job(tree, arm.argv.clone(), stdin, pass, scratch.clone());
        let run = calibrun_sandbox::run(&job, self.settings.interrupted).map_err(|source| {
            ProbeError::Run {
                arm: arm.name.name(),
                pass,
                source,
            }
        })?;
        if !self.settings.keep {
            self.discard(&scratch);
        }
        self.weaken(&run.layers.clone().wanted_in(pass));
        Ok(run)
    }

    /// Removes what is not needed any more; what resists goes with the temp root.
    fn discard(&self, folder: &Path) {
        let _ = self.workspace.temp_root().discard(folder);
    }

    fn job(
        &self,
        tree: &Tree,
        argv: Vec<OsString>,
        stdin: Stdin,
        pass: Pass,
        scratch: PathBuf,
    ) -> Job {
        Job {
            argv,
            cwd: self.cwd.to_owned(),
            env: self.settings.environment.clone(),
            stdin,
            pass,
            layout: Layout {
                clone: tree.root.clone(),
                repo: tree.repo.clone(),
                git_dirs: tree.git_dirs.clone(),
                home: self.settings.home.clone(),
                scratch,
                temp_root: tree.temp_root.clone(),
            },
            limits: self.settings.limits,
        }
    }
}

/// Paths in the clone that an arm opened for writing or made, relative to its top: their content is
/// compared whatever their times say.
fn opened_for_writing(run: &Run) -> BTreeSet<PathBuf> {
    let writes = |effect: Effect| {
        matches!(
            effect,
            Effect::WriteOpen | Effect::Truncate | Effect::Create
        )
    };
    let attempts = run
        .attempts
        .iter()
        .filter(|a| writes(a.effect) && a.outcome == Outcome::Allowed);
    attempts
        .filter_map(|a| in_clone(&a.target, &run.top))
        .collect()
}

/// The target relative to the top of the clone, when it lies there.
fn in_clone(target: &Target, top: &Path) -> Option<PathBuf> {
    if !matches!(target.place, Place::Worktree | Place::GitDir) {
        return None;
    }
    target
        .resolved
        .as_ref()?
        .strip_prefix(top)
        .ok()
        .map(Path::to_owned)
}

fn record(
    mut run: Run,
    pass: Pass,
    tree: &Tree,
    changes: Vec<crate::workspace::Change>,
) -> PassRecord {
    let attempts = std::mem::take(&mut run.attempts);
    let annotate = |attempt: Attempt| {
        let path = in_clone(&attempt.target, &run.top);
        let to_path = attempt.to.as_ref().and_then(|to| in_clone(to, &run.top));
        let state = |path: &Option<PathBuf>| {
            path.as_ref()
                .map_or(PathState::NotInClone, |p| tree.states.of(p))
        };
        let reading_git = is_reading_git(&attempt.command, &run);
        Observed {
            state: state(&path),
            to_state: state(&to_path),
            path,
            to_path,
            reading_git,
            attempt,
        }
    };
    let observed = attempts.into_iter().map(annotate).collect();
    PassRecord {
        pass,
        run,
        observed,
        changes,
        undo: None,
        index_kept: None,
    }
}

/// Commands of git that only read, but refresh the index on the side (git-status(1), BACKGROUND REFRESH).
const REFRESHING: &[&str] = &["status", "diff", "describe"];

/// Whether `command` is a git that the arm cannot have put there, running one of those.
fn is_reading_git(command: &[OsString], run: &Run) -> bool {
    let Some((exe, arguments)) = command.split_first() else {
        return false;
    };
    let exe = Path::new(exe);
    let own = exe.starts_with(&run.top) || run.scratch_roots().any(|root| exe.starts_with(root));
    if own || exe.file_name().is_none_or(|name| name != "git") {
        return false;
    }
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let text = argument.as_encoded_bytes();
        match text {
            // These take a value of their own; what -c sets could be anything, a hook of this git too.
            b"-C" | b"--git-dir" | b"--work-tree" | b"--namespace" => {
                arguments.next();
            }
            b"--no-pager" | b"-P" | b"--paginate" | b"-p" | b"--literal-pathspecs" => {}
            _ => return REFRESHING.iter().any(|name| name.as_bytes() == text),
        }
    }
    false
}

fn undone(report: UndoReport) -> UndoOutcome {
    if report.residue.is_empty() {
        return UndoOutcome::Proven;
    }
    UndoOutcome::Residue(report.residue)
}

/// The user's HOME, resolved: from `home` if that is set, and it must be a folder.
pub fn resolve_home(home: Option<OsString>) -> Option<PathBuf> {
    let home = PathBuf::from(home?);
    fs::canonicalize(home).ok().filter(|path| path.is_dir())
}
