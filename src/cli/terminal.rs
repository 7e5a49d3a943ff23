//! What a person sees: colour, progress, errors. Data goes to standard output, all else to standard error.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Failure;
use crate::exit::ExitCode;
use crate::report::Style;

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Standard output and standard error of this invocation.
#[derive(Debug)]
pub(super) struct Terminal {
    color: ColorChoice,
    quiet: bool,
}

impl Terminal {
    pub(super) fn new(color: ColorChoice, quiet: bool) -> Terminal {
        Terminal { color, quiet }
    }

    /// The style of a report on standard output.
    pub(super) fn style(&self) -> Style {
        if self.colored(std::io::stdout().is_terminal()) {
            Style::colored()
        } else {
            Style::plain()
        }
    }

    fn colored(&self, is_terminal: bool) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                is_terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            }
        }
    }

    /// Writes data to standard output. A reader that has gone needs no more of it.
    pub(super) fn data(&self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Failure::harness(&error))
            }
            _ => Ok(()),
        }
    }

    /// A line for a person on standard error, unless they want none.
    pub(super) fn note(&self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }

    /// A line that was asked for, on standard error, quiet or not.
    pub(super) fn answer(&self, text: &str) {
        eprintln!("{text}");
    }

    /// A problem on standard error, quiet or not.
    pub(super) fn error(&self, text: &str) {
        let (bold, reset) = if self.colored(std::io::stderr().is_terminal()) {
            (anstyle::AnsiColor::Red.on_default().bold(), anstyle::Reset)
        } else {
            return eprintln!("error: {text}");
        };
        eprintln!("{bold}error:{} {text}", reset.render());
    }

    /// Reports why a command failed, and gives its exit code.
    pub(super) fn fail(&self, failure: &Failure) -> ExitCode {
        self.error(&failure.chain.join(": "));
        if let Some(hint) = &failure.hint {
            self.note(&format!("hint: {hint}"));
        }
        failure.code
    }

    /// A line that says what is being done, on a terminal alone.
    pub(super) fn progress(&self) -> ProgressBar {
        if self.quiet || !std::io::stderr().is_terminal() {
            return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }
}
