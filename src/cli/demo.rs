//! `demo`: the incident and its honest twin, from files that this program carries.

use std::path::Path;

use clap::Args;

use super::Failure;
use super::arguments::{Format, Running};
use super::probe::{folder_of, subject};
use super::session::Session;
use super::terminal::Terminal;
use crate::declaration;
use crate::exit::ExitCode;
use crate::report::{Capability, Results, text};
use crate::verdict::Status;
use crate::workspace::seed_repo;

const EXAMPLES: &str = "\
Example:
  calibrun demo";

/// Probe a capability that passes its declared arms and deletes scripts/ without arguments, and an honest twin
///
/// Both repos are made in a temporary folder and removed afterwards.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Demo {}

/// A file of a demo repo: name, content, executable.
type DemoFile = (&'static str, &'static str);

macro_rules! repo {
    ($name:literal) => {
        &[
            (
                "README.md",
                include_str!(concat!("../../fixtures/", $name, "/README.md")),
            ),
            (
                "leak_scan.cap",
                include_str!(concat!("../../fixtures/", $name, "/leak_scan.cap")),
            ),
            (
                "scripts/deploy.sh",
                include_str!(concat!("../../fixtures/", $name, "/scripts/deploy.sh")),
            ),
            (
                "scripts/scan_leaks.sh",
                include_str!(concat!("../../fixtures/", $name, "/scripts/scan_leaks.sh")),
            ),
        ]
    };
}

const INCIDENT: &[DemoFile] = repo!("incident");
const HONEST: &[DemoFile] = repo!("honest");

/// What nobody has committed yet: the part that no checkout brings back.
const UNTRACKED: DemoFile = (
    "scripts/new_check.sh",
    "#!/bin/sh\necho not committed yet\n",
);

impl Demo {
    pub(super) fn run(&self, terminal: &Terminal) -> Result<ExitCode, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("calibrun-demo-")
            .tempdir()
            .map_err(|e| Failure::harness(&e))?;
        let running = Running {
            format: Format::Human,
            timeout: std::time::Duration::from_secs(60),
            linger: std::time::Duration::from_secs(5),
            env: Vec::new(),
            strict: false,
            keep: false,
            trust_owner: false,
        };
        let mut session = Session::new(&running, terminal)?;
        for (name, files) in [("incident", INCIDENT), ("honest", HONEST)] {
            let repo = folder.path().join(name);
            seed_repo(&repo, files, &[UNTRACKED]).map_err(|e| Failure::harness(&e))?;
            probe_in(&repo, &mut session)?;
        }
        let results = session.results();
        terminal.data(&text::render(&results, &terminal.style()))?;
        if shows_what_it_should(&results) {
            return Ok(ExitCode::Done);
        }
        Err(Failure::text(
            ExitCode::HarnessError,
            "this host did not show what the demo is about",
        )
        .hint("run `calibrun doctor` to see what this host gives"))
    }
}

fn probe_in(repo: &Path, session: &mut Session<'_>) -> Result<(), Failure> {
    let declarations =
        declaration::read(&repo.join("leak_scan.cap")).map_err(|e| Failure::harness(&e))?;
    for declaration in &declarations {
        let folder = folder_of(declaration, false)?;
        session.judge(subject(declaration, &folder, false))?;
    }
    Ok(())
}

/// The incident contradicted on both axes, the twin verified.
fn shows_what_it_should(results: &Results) -> bool {
    let verdicts: Vec<_> = results
        .capabilities
        .iter()
        .map(|capability| match capability {
            Capability::Judged(judged) => (
                judged.verdict.writes.status,
                judged.verdict.reversibility.status,
            ),
            Capability::Failed(_) => (None, None),
        })
        .collect();
    let both = |status| (Some(status), Some(status));
    verdicts == [both(Status::Contradicted), both(Status::Verified)]
}
