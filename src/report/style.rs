//! The few styles of the human report. It makes sense without any of them.

use anstyle::{AnsiColor, Style as Ansi};

use super::Outcome;
use crate::verdict::Status;

/// What each kind of word looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    heading: Ansi,
    verified: Ansi,
    claim_only: Ansi,
    contradicted: Ansi,
    error: Ansi,
}

impl Style {
    /// No styles at all: plain ASCII.
    pub fn plain() -> Style {
        Style::default()
    }

    /// The colours of a terminal.
    pub fn colored() -> Style {
        let bold = |color: AnsiColor| color.on_default().bold();
        Style {
            heading: Ansi::new().bold(),
            verified: bold(AnsiColor::Green),
            claim_only: bold(AnsiColor::Yellow),
            contradicted: bold(AnsiColor::Red),
            error: bold(AnsiColor::Magenta),
        }
    }

    pub(super) fn heading(&self, text: &str) -> String {
        paint(self.heading, text)
    }

    pub(super) fn status(&self, status: Status, text: &str) -> String {
        self.outcome(Outcome::Judged(Some(status)), text)
    }

    pub(super) fn outcome(&self, outcome: Outcome, text: &str) -> String {
        let style = match outcome {
            Outcome::Judged(None) => self.heading,
            Outcome::Judged(Some(Status::Verified)) => self.verified,
            Outcome::Judged(Some(Status::ClaimOnly)) => self.claim_only,
            Outcome::Judged(Some(Status::Contradicted)) => self.contradicted,
            Outcome::HarnessError => self.error,
        };
        paint(style, text)
    }
}

fn paint(style: Ansi, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
