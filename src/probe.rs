//! Drives plan -> workspace -> sandbox -> record. Decides nothing: what it saw is judged elsewhere.

mod annotate;
mod indexes;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use calibrun_sandbox::{
    ControlError, Job, Layers, Layout, Limits, Pass, Run, RunError, Stdin, calibrate,
};

use crate::plan::{Plan, PlannedArm, entry_folders, needed_files};
use crate::record::{ArmRecord, Controls, PassRecord, Record, UndoOutcome};
use crate::workspace::{
    FieldRepo, Manifest, Options, Stage, Tree, UndoReport, Workspace, WorkspaceError, aftermath,
};
use annotate::opened_for_writing;
use indexes::Indexes;

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
        Ok(record(
            run,
            Pass::Denied,
            tree,
            &self.settings.home,
            Vec::new(),
        ))
    }

    fn contained_pass(
        &mut self,
        arm: &PlannedArm,
        tree: &Tree,
    ) -> Result<(PassRecord, Manifest), ProbeError> {
        let indexes = Indexes::read(tree);
        let run = self.execute(arm, tree, Pass::Contained)?;
        // Before the undo, which changes the tree.
        let kept = indexes.kept_in(tree, &Indexes::read(tree));
        let found = aftermath(tree, opened_for_writing(&run), self.settings.interrupted).map_err(
            |error| match error {
                WorkspaceError::Interrupted => ProbeError::Run {
                    arm: arm.name.name(),
                    pass: Pass::Contained,
                    source: RunError::Interrupted,
                },
                error => ProbeError::Workspace(error),
            },
        )?;
        let mut record = record(
            run,
            Pass::Contained,
            tree,
            &self.settings.home,
            found.changes,
        );
        record.index_kept = kept;
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

fn record(
    mut run: Run,
    pass: Pass,
    tree: &Tree,
    home: &Path,
    changes: Vec<crate::workspace::Change>,
) -> PassRecord {
    let observed = annotate::observed(&mut run, tree, home);
    PassRecord {
        pass,
        run,
        observed,
        changes,
        undo: None,
        index_kept: BTreeMap::new(),
    }
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
