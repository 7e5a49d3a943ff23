//! `doctor`: what this host gives, found by trying.

use std::fmt::Write as _;
use std::path::PathBuf;

use calibrun_sandbox::{
    ControlError, Job, Layers, Layout, Limits, Pass, RunError, Stdin, calibrate,
};
use clap::Args;

use super::session::host;
use super::terminal::Terminal;
use super::{Failure, chain_of, environment};
use crate::exit::ExitCode;
use crate::probe::resolve_home;
use crate::workspace::{TempPlaces, TempRoot};

const EXAMPLES: &str = "\
Example:
  calibrun doctor";

/// Say which layers this host gives, and what is missing means for a verdict
///
/// Every layer is tried with a program of calibrun's own; nothing is read from configuration.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Doctor {}

/// One layer: its name, whether it is in force, and what its absence means.
type Row = (&'static str, fn(&Layers) -> bool, &'static str);

const ROWS: &[Row] = &[
    (
        "Landlock, ABI 3 or later",
        |l| l.landlock_abi.is_some(),
        "nothing is run",
    ),
    (
        "seccomp listener",
        |l| l.listener,
        "claims can be contradicted, never verified",
    ),
    ("no_new_privs", |l| l.no_new_privs, "nothing is run"),
    (
        "capabilities dropped",
        |l| l.capabilities_dropped,
        "reported with the run",
    ),
    (
        "user namespace",
        |l| l.user_namespace,
        "mounts and networks are private for root only",
    ),
    (
        "private mounts",
        |l| l.mounts,
        "the clone lies elsewhere; metadata changes are refused and claim-only",
    ),
    (
        "overlays of /tmp, /var/tmp",
        |l| l.temp_overlay,
        "temp folders are empty: what was there is claim-only",
    ),
    (
        "overlay of HOME",
        |l| l.home_overlay,
        "HOME is refused in the contained pass, too",
    ),
    (
        "private process tree",
        |l| l.pid_namespace,
        "what outlives an arm is found by its parent",
    ),
    (
        "private network",
        |l| l.net_namespace,
        "every address is refused and claim-only",
    ),
    ("private host name", |l| l.uts_namespace, "nothing else"),
];

impl Doctor {
    pub(super) fn run(&self, terminal: &Terminal) -> Result<ExitCode, Failure> {
        let root = TempRoot::with_room(1 << 20, &TempPlaces::default())
            .map_err(|e| Failure::harness(&e))?;
        let scratch = || root.scratch().map_err(|e| Failure::harness(&e));
        let (clone, work) = (scratch()?, scratch()?);
        // The clone is seen at the repo's own path, which must exist and lie outside the temp root.
        let repo = tempfile::Builder::new()
            .prefix("calibrun-doctor-")
            .tempdir()
            .map_err(|e| Failure::harness(&e))?;
        let environment = environment::of_arm(std::env::vars_os(), &[]).unwrap_or_default();
        let home = environment
            .iter()
            .find(|(key, _)| key == "HOME")
            .map(|(_, value)| value.clone());
        let job = Job {
            argv: Vec::new(),
            cwd: PathBuf::new(),
            env: environment,
            stdin: Stdin::Null,
            pass: Pass::Denied,
            layout: Layout {
                clone,
                repo: repo
                    .path()
                    .canonicalize()
                    .map_err(|e| Failure::harness(&e))?,
                git_dirs: Vec::new(),
                home: resolve_home(home).unwrap_or_else(|| PathBuf::from("/")),
                scratch: work.clone(),
                temp_root: root.path().to_owned(),
            },
            limits: Limits::default(),
        };
        let mut text = String::new();
        let host = host();
        let _ = writeln!(text, "kernel {} on {}", host.kernel, host.machine);
        match calibrate(&job, &work, &|| false) {
            Err(error) => {
                let _ = writeln!(text, "no run was possible: {}", chain_of(&error).join(": "));
                let _ = writeln!(
                    text,
                    "\nNothing can be verified or contradicted on this host."
                );
                if !matches!(error, ControlError::Run(RunError::NoEnforcement(_))) {
                    terminal.data(&text)?;
                    return Err(Failure::harness(&error));
                }
            }
            Ok(found) => {
                for (name, in_force, without) in ROWS {
                    let state = if in_force(&found.layers) { "yes" } else { "no" };
                    let meaning = if in_force(&found.layers) {
                        String::new()
                    } else {
                        format!("  without it: {without}")
                    };
                    let row = format!("{name:<28} {state:<4}{meaning}");
                    let _ = writeln!(text, "{}", row.trim_end());
                }
                if let Some(abi) = found.layers.landlock_abi {
                    let _ = writeln!(text, "Landlock ABI in use: {abi}");
                }
                for line in &found.layers.missing {
                    let _ = writeln!(text, "the kernel said: {line}");
                }
                let _ = writeln!(
                    text,
                    "controls: {} writes made, {} seen, {} refused; the reader showed {}",
                    found.writes, found.seen, found.denied, found.reader_attempts
                );
                for line in &found.failures {
                    let _ = writeln!(text, "control failed: {line}");
                }
                let good = found.failures.is_empty()
                    && found.layers.listener
                    && found.layers.landlock_abi.is_some();
                let conclusion = if good {
                    "Claims can be verified on this host."
                } else {
                    "Nothing can be verified on this host."
                };
                let _ = writeln!(text, "\n{conclusion}");
            }
        }
        terminal.data(&text)?;
        Ok(ExitCode::Done)
    }
}
