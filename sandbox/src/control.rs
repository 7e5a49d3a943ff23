//! Controls: runs of the witness, compared with what it is known to have done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::attempt::{Attempt, Outcome, Place};
use crate::job::{Job, Layers, Pass, Run, Stdin, Termination};
use crate::roles;
use crate::run::{RunError, run};
use crate::witness::{ACTS, Act, furnish};

/// What the witness showed of the instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// Writes that the witness made, over both passes.
    pub writes: u32,
    /// Of these, how many were seen with the right effect and place.
    pub seen: u32,
    /// Of these, how many failed as they had to.
    pub denied: u32,
    /// Attempts seen of the witness that only reads.
    pub reader_attempts: u32,
    /// What did not hold, one line each.
    pub failures: Vec<String>,
    /// The weakest of what was in force.
    pub layers: Layers,
}

/// Why no calibration could be made.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The folder for the witness cannot be made.
    #[error("cannot make the witness's folder {path}")]
    Furnish {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The witness could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs the witness in both passes, in the conditions of `template`: its environment, its HOME, the
/// place where it sees the clone, its limits. `work` is an empty folder below the temp root, where
/// the witness's own small tree is made; the template's clone is not touched.
///
/// # Errors
/// When the witness could not be run at all. What it showed, however bad, is no error.
pub fn calibrate(
    template: &Job,
    work: &Path,
    interrupted: &dyn Fn() -> bool,
) -> Result<Calibration, ControlError> {
    let mut found = Calibration::default();
    let mut layers: Option<Layers> = None;
    for pass in [Pass::Denied, Pass::Contained] {
        for role in ["write", "read"] {
            let place = work.join(format!("{}-{role}", pass.name()));
            let tree = place.join("tree");
            let scratch = place.join("scratch");
            let furnished = fs::create_dir_all(&scratch)
                .and_then(|()| fs::create_dir(&tree))
                .and_then(|()| furnish(&tree));
            furnished.map_err(|source| ControlError::Furnish {
                path: place.clone(),
                source,
            })?;
            let result = run(&job(template, pass, role, tree, scratch)?, interrupted)?;
            layers = Some(match layers {
                None => result.layers.clone().wanted_in(pass),
                Some(known) => known.weakest(&result.layers.clone().wanted_in(pass)),
            });
            if result.termination != Termination::Exited(0) {
                found.failures.push(format!(
                    "{pass} {role}: the witness ended with {:?}",
                    result.termination
                ));
            }
            if role == "write" {
                check_writer(&mut found, &result, pass, &template.layout.home)
            } else {
                check_reader(&mut found, &result, pass)
            }
        }
    }
    found.layers = layers.unwrap_or_default();
    Ok(found)
}

fn job(
    template: &Job,
    pass: Pass,
    role: &str,
    tree: PathBuf,
    scratch: PathBuf,
) -> Result<Job, RunError> {
    let exe = std::env::current_exe().map_err(|source| RunError::Launcher {
        step: "find this program",
        source,
    })?;
    let mut layout = template.layout.clone();
    layout.clone = tree;
    layout.scratch = scratch;
    layout.git_dirs = vec![PathBuf::from(".git")];
    Ok(Job {
        argv: vec![exe.into(), roles::WITNESS.into(), role.into()],
        cwd: PathBuf::new(),
        env: template.env.clone(),
        stdin: Stdin::Null,
        pass,
        layout,
        limits: template.limits,
    })
}

/// What the witness says of each of its acts.
fn said(run: &Run) -> Vec<(String, bool)> {
    let text = String::from_utf8_lossy(&run.stdout.bytes).into_owned();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, outcome)| (name.to_owned(), outcome == "done"))
        .collect()
}

fn check_writer(found: &mut Calibration, run: &Run, pass: Pass, home: &Path) {
    let said = said(run);
    let done = |name: &str| said.iter().find(|(n, _)| n == name).map(|(_, done)| *done);
    for act in ACTS {
        // In the contained pass the clone is writable, and a private HOME: those acts must be seen.
        let writable = pass == Pass::Contained
            && (matches!(act.place, Place::Worktree | Place::GitDir)
                || act.place == Place::Home && run.layers.home_overlay);
        if !writable {
            found.writes += 1;
        }
        let attempt = run
            .attempts
            .iter()
            .find(|attempt| matches(act, attempt, home));
        match (done(act.name), writable) {
            (None, _) => found.failures.push(format!(
                "{pass} {}: the witness did not come to it",
                act.name
            )),
            (Some(false), false) => found.denied += 1,
            (Some(true), false) => found
                .failures
                .push(format!("{pass} {}: was not refused", act.name)),
            (Some(_), true) => {}
        }
        match attempt {
            None => found
                .failures
                .push(format!("{pass} {}: was not seen", act.name)),
            Some(attempt) if !writable && attempt.outcome == Outcome::Allowed => {
                found
                    .failures
                    .push(format!("{pass} {}: was seen as allowed", act.name));
            }
            Some(_) if !writable => found.seen += 1,
            Some(_) => {}
        }
    }
    if done("scratch") != Some(true) {
        found
            .failures
            .push(format!("{pass} scratch: a write into TMPDIR was refused"));
    }
    if pass == Pass::Contained && done("remove-in-worktree") != Some(true) {
        found.failures.push(format!(
            "{pass} remove-in-worktree: the clone is not writable"
        ));
    }
}

/// Whether `attempt` is what `act` must be seen as.
fn matches(act: &Act, attempt: &Attempt, home: &Path) -> bool {
    // A HOME that is everything is no place of its own.
    let place = match act.place {
        Place::Home if home.parent().is_none() => Place::Outside,
        place => place,
    };
    let ends_right = |bytes: &[u8]| bytes.ends_with(act.shown.as_bytes());
    let resolved = attempt
        .target
        .resolved
        .as_ref()
        .map(|path| path.as_os_str().as_encoded_bytes().to_vec());
    attempt.effect == act.effect
        && attempt.place == place
        && attempt.outcome != Outcome::NoOp
        && (ends_right(&attempt.target.raw) || resolved.is_some_and(|path| ends_right(&path)))
}

fn check_reader(found: &mut Calibration, run: &Run, pass: Pass) {
    found.reader_attempts += u32::try_from(run.attempts.len()).unwrap_or(u32::MAX);
    for attempt in &run.attempts {
        let what = String::from_utf8_lossy(&attempt.target.raw).into_owned();
        found.failures.push(format!(
            "{pass} read: seen to {} {what} ({})",
            attempt.effect, attempt.call
        ));
    }
    let said = said(run);
    let done = |name: &str| said.iter().find(|(n, _)| n == name).map(|(_, done)| *done);
    if done("read") != Some(true) {
        found
            .failures
            .push(format!("{pass} read: a plain read was refused"));
    }
    if done("parent") != Some(false) {
        found.failures.push(format!(
            "{pass} parent: Landlock does not keep the subject from the runner's processes"
        ));
    }
}
