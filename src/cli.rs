//! The command line: argv, terminal, environment, exit codes. The only place that prints.

mod arguments;
mod demo;
mod doctor;
mod environment;
mod observe;
mod probe;
mod session;
mod terminal;

use clap::{Parser, Subcommand};

use crate::exit::ExitCode;
use terminal::{ColorChoice, Terminal};

/// Runs a declared capability where it can do no harm, and says whether its claims are true.
///
/// Each claim comes out verified, contradicted or claim-only (nobody knows: here is why).
#[derive(Debug, Parser)]
#[command(name = "calibrun", bin_name = "calibrun", version, after_help = EXAMPLES, arg_required_else_help = true, max_term_width = 80)]
struct Cli {
    /// When to colour what a person reads
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    color: ColorChoice,
    /// Print no progress and no hints
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  calibrun demo
  calibrun probe tools/leak_scan.cap
  calibrun observe --claim writes=read-only -- git status
  calibrun doctor";

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Observe(observe::Observe),
    Probe(probe::Probe),
    Doctor(doctor::Doctor),
}

/// Plays a hidden role if this process was executed for one; else runs the command line.
pub fn main() -> std::process::ExitCode {
    calibrun_sandbox::play_hidden_role();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() {
                ExitCode::Usage
            } else {
                ExitCode::Done
            };
            // A closed standard output is the reader's choice.
            let _ = error.print();
            return code.into();
        }
    };
    let terminal = Terminal::new(cli.color, cli.quiet);
    let result = match &cli.command {
        Command::Demo(command) => command.run(&terminal),
        Command::Observe(command) => command.run(&terminal),
        Command::Probe(command) => command.run(&terminal),
        Command::Doctor(command) => command.run(&terminal),
    };
    result
        .unwrap_or_else(|failure| terminal.fail(&failure))
        .into()
}

/// A command that could not do what was asked.
#[derive(Debug)]
struct Failure {
    code: ExitCode,
    /// What failed; lower-case fragments, outermost first.
    chain: Vec<String>,
    /// What to do.
    hint: Option<String>,
}

impl Failure {
    fn new(code: ExitCode, error: &dyn std::error::Error) -> Failure {
        Failure {
            code,
            chain: chain_of(error),
            hint: None,
        }
    }

    fn harness(error: &dyn std::error::Error) -> Failure {
        Failure::new(ExitCode::HarnessError, error)
    }

    fn text(code: ExitCode, message: impl Into<String>) -> Failure {
        Failure {
            code,
            chain: vec![message.into()],
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

/// The error and its sources, each once.
fn chain_of(error: &dyn std::error::Error) -> Vec<String> {
    let mut chain: Vec<String> = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if chain.last() != Some(&text) {
            chain.push(text);
        }
        source = error.source();
    }
    chain
}
