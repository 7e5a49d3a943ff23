//! One run: starts the launcher, supervises the subject, and gathers what came of it.

mod leftovers;
mod session;
mod start;

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::unistd::{Gid, Uid};

use crate::job::{Job, Run, Stdin};
use crate::launch::wire::Order;
use crate::launch::{hidden_in, temp_folders};
use crate::switch::Switches;
use session::Session;
use start::{Started, bury};

/// How long the launcher may take to confine the subject.
const SETUP: Duration = Duration::from_secs(30);
/// How long a killed tree may take to be gone.
const BURIAL: Duration = Duration::from_secs(20);

/// Why a run could not be made; the subject has not run, or its run says nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The argv is empty.
    #[error("nothing to run: the argv is empty")]
    EmptyArgv,
    /// A string holds a NUL byte, which no argv or environment can.
    #[error("{0} holds a NUL byte")]
    NulByte(&'static str),
    /// The launcher cannot be started.
    #[error("cannot start the launcher: {step}")]
    Launcher {
        /// What was done.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// This host enforces no sufficient Landlock ruleset, so nothing is run.
    #[error("no enforcement on this host, so nothing was run: {0}")]
    NoEnforcement(String),
    /// The launcher could not confine the subject.
    #[error("cannot confine the subject: {0}")]
    Confine(String),
    /// The supervisor failed while the subject ran; the subject was ended.
    #[error("supervising the subject failed: {step}")]
    Supervise {
        /// What was done.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The caller asked for an end.
    #[error("interrupted")]
    Interrupted,
}

fn launcher(step: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::Launcher { step, source }
}

fn supervise(step: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::Supervise { step, source }
}

/// Runs `job` and returns what it tried. `interrupted` is asked several times a second.
///
/// # Errors
/// See [`RunError`]. Whatever the error, no process of the subject is left.
pub fn run(job: &Job, interrupted: &dyn Fn() -> bool) -> Result<Run, RunError> {
    let order = order(job)?;
    let mut pipes = Started::start(job, &order)?;
    let mut session = Session::new(job, &order, interrupted);
    let result = session.drive(&mut pipes);
    // Whatever happened: closing the channel makes init kill what is left; the launcher ends with it.
    if result.is_ok() {
        session.conclude();
    }
    let Started {
        mut child, channel, ..
    } = pipes;
    drop(channel);
    bury(&mut child);
    if !session.layers.mounts {
        // Shared with the host: not below the caller's temp root, so removed here.
        let _ = std::fs::remove_dir_all(&order.shared_tmpdir);
    }
    result?;
    session.into_run()
}

fn order(job: &Job) -> Result<Order, RunError> {
    if job.argv.first().is_none_or(|program| program.is_empty()) {
        return Err(RunError::EmptyArgv);
    }
    if job.argv.iter().any(|a| a.as_bytes().contains(&0)) {
        return Err(RunError::NulByte("the argv"));
    }
    if job
        .env
        .iter()
        .any(|(k, v)| k.as_bytes().contains(&0) || v.as_bytes().contains(&0))
    {
        return Err(RunError::NulByte("the environment"));
    }
    let env = job
        .env
        .iter()
        .filter(|(key, _)| key != "TMPDIR")
        .map(|(key, value)| {
            let mut entry = key.clone();
            entry.push("=");
            entry.push(value);
            entry
        });
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from("calibrun-");
    name.push(format!("{}-{number}", std::process::id()));
    let temp = temp_folders()
        .into_iter()
        .next()
        .unwrap_or_else(|| PathBuf::from("/tmp"));
    let mut shared = name.clone();
    shared.push("-shared");
    Ok(Order {
        argv: job.argv.clone(),
        env: env.collect(),
        pass: job.pass,
        clone: job.layout.clone.clone(),
        repo: job.layout.repo.clone(),
        cwd: job.cwd.clone(),
        stdin: match &job.stdin {
            Stdin::Null => PathBuf::new(),
            Stdin::File(path) => path.clone(),
        },
        home: job.layout.home.clone(),
        hidden: hidden_in(&temp_folders())
            .into_iter()
            .map(PathBuf::into_os_string)
            .collect(),
        scratch: job.layout.scratch.clone(),
        temp_root: job.layout.temp_root.clone(),
        tmpdir: temp.join(name),
        shared_tmpdir: temp.join(shared),
        uid: Uid::effective().as_raw(),
        gid: Gid::effective().as_raw(),
        full_map: Uid::effective().is_root(),
        off: Switches::from_environment(),
    })
}
