//! `observe`: one command, without a declaration.

use std::ffi::OsString;

use clap::Args;

use super::Failure;
use super::arguments::{Claim, Running, claim, claims};
use super::session::{Session, Subject};
use super::terminal::Terminal;
use crate::exit::ExitCode;
use crate::plan::Plan;
use crate::verdict::{Expected, Question};

const EXAMPLES: &str = "\
Examples:
  calibrun observe -- make test
  calibrun observe --claim writes=read-only -- sh tools/scan.sh
  calibrun observe --claim reversibility=reversible --format json -- git gc";

/// Run one command on a clone of the repo that holds the current folder, and say what it tried to change
///
/// The command runs twice: once where every write is refused, once where the clone is writable. The repo
/// itself is only read. Exit: 0 verified or nothing claimed, 1 contradicted, 3 claim-only, 10 error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Observe {
    /// Judge a claim: writes=read-only, reversibility=reversible and the like
    #[arg(long, value_parser = claim, value_name = "AXIS=VALUE")]
    claim: Vec<Claim>,
    #[command(flatten)]
    running: Running,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD", value_parser = clap::builder::OsStringValueParser::new())]
    command: Vec<OsString>,
}

impl Observe {
    pub(super) fn run(&self, terminal: &Terminal) -> Result<ExitCode, Failure> {
        let claims = claims(&self.claim)
            .map_err(|why| Failure::text(ExitCode::Usage, format!("--claim: {why}")))?;
        let folder = std::env::current_dir().map_err(|e| Failure::harness(&e))?;
        let mut session = Session::new(&self.running, terminal)?;
        session.judge(Subject {
            id: None,
            declaration: None,
            folder: &folder,
            plan: Plan::of_command(&self.command),
            question: Question {
                claims,
                expected: Expected::Command,
                strict: self.running.strict,
            },
        })?;
        session.finish()
    }
}
