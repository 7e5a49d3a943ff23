//! The human report: first what was found, then the evidence, then what was not seen.
//!
//! At most 80 columns of printable ASCII, but for the styles.

use std::collections::BTreeMap;

use calibrun_sandbox::{Pass, Termination};

use super::path::{named, printable, printable_os};
use super::{Capability, DeclarationRef, Failed, Judged, Results, Style, coverage};
use crate::record::PassRecord;
use crate::verdict::evidence::{self, Item};
use crate::verdict::{Axis, Harmless, Reading, Reason, ReasonCode, Standing, Status};

/// Columns of a line.
const WIDTH: usize = 80;
/// Lines of a failed arm's standard error that are shown.
const TAIL: usize = 3;

/// The whole report, with a final line end.
pub fn render(results: &Results, style: &Style) -> String {
    let mut page = Page {
        text: String::new(),
        style,
    };
    if results.capabilities.is_empty() {
        page.line(0, "Nothing was judged.");
    }
    if results.capabilities.len() > 1 {
        let summary = results.summary();
        page.line(
            0,
            &format!(
                "verified {}, contradicted {}, claim-only {}, harness error {}",
                summary.verified, summary.contradicted, summary.claim_only, summary.harness_error
            ),
        );
        page.gap();
    }
    for (i, capability) in results.capabilities.iter().enumerate() {
        if i > 0 {
            page.gap();
        }
        match capability {
            Capability::Judged(judged) => page.judged(judged, capability),
            Capability::Failed(failed) => page.failed(failed, capability),
        }
    }
    page.text
}

struct Page<'a> {
    text: String,
    style: &'a Style,
}

impl Page<'_> {
    fn gap(&mut self) {
        self.text.push('\n');
    }

    /// One paragraph of printable ASCII, wrapped, every line indented.
    fn line(&mut self, indent: usize, text: &str) {
        for line in wrapped(text, WIDTH - indent) {
            self.text.push_str(&" ".repeat(indent));
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    fn heading(&mut self, text: &str) {
        self.gap();
        let styled = self.style.heading(text);
        self.text.push_str(&styled);
        self.text.push('\n');
    }

    fn title(&mut self, capability: &Capability, id: Option<&str>) {
        let outcome = capability.outcome();
        let word = outcome.name().unwrap_or("observed");
        let id = id.map_or("command".to_owned(), |id| printable(id.as_bytes()));
        // The word is styled after the wrapping, which counts columns.
        let mut lines = wrapped(&format!("{word}: {id}"), WIDTH).into_iter();
        if let Some(first) = lines.next() {
            let rest = first.strip_prefix(word).unwrap_or_default().to_owned();
            let styled = self.style.outcome(outcome, word);
            self.text.push_str(&format!("{styled}{rest}\n"));
        }
        for line in lines {
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    fn declared_in(&mut self, declaration: Option<&DeclarationRef>) {
        if let Some(at) = declaration {
            let path = printable_os(at.path.as_os_str());
            self.line(2, &format!("declared in {path}, line {}", at.line));
        }
    }

    fn failed(&mut self, failed: &Failed, capability: &Capability) {
        let id = failed.id.as_deref().unwrap_or("no capability was read");
        self.title(capability, Some(id));
        self.declared_in(failed.declaration.as_ref());
        self.line(2, &printable(failed.error.as_bytes()));
    }

    fn judged(&mut self, judged: &Judged, capability: &Capability) {
        self.title(capability, judged.id.as_deref());
        self.declared_in(judged.declaration.as_ref());
        let record = &judged.record;
        let commit = record.commit.as_deref().map_or_else(
            || "without history".to_owned(),
            |c| format!("commit {}", printable(&c.as_bytes()[..c.len().min(12)])),
        );
        let dirty = if record.dirty {
            ", with changes that are not committed"
        } else {
            ""
        };
        self.line(2, &format!("{commit}{dirty}"));
        self.gap();
        self.axes(judged);
        self.why(judged);
        self.attempts(judged, "Attempts that count", |s| {
            matches!(s, Standing::Counted(_))
        });
        self.attempts(judged, "Attempts that leave a claim open", |s| {
            matches!(s, Standing::ClaimOnly(_))
        });
        self.not_counted(judged);
        self.ends(judged);
        self.not_seen(judged);
    }

    fn axes(&mut self, judged: &Judged) {
        let verdict = &judged.verdict;
        let mut reach = String::new();
        if verdict.writes.egress {
            reach.push_str(", and network use");
        }
        if verdict.writes.delegated {
            reach.push_str(", and delegation");
        }
        for (axis, declared, observed, status) in [
            (
                Axis::Writes,
                verdict.writes.declared.map(|v| v.name()),
                format!("{}{reach}", verdict.writes.observed.name()),
                verdict.writes.status,
            ),
            (
                Axis::Reversibility,
                verdict.reversibility.declared.map(|v| v.name()),
                verdict.reversibility.observed.name().to_owned(),
                verdict.reversibility.status,
            ),
        ] {
            let said = match (declared, status) {
                (Some(declared), Some(status)) => {
                    let word = format!("{:<12}", status.name());
                    format!("{}  declared {declared}", self.style.status(status, &word))
                }
                _ => "nothing claimed".to_owned(),
            };
            self.text
                .push_str(&format!("  {:<13}  {said}\n", axis.name()));
            self.line(17, &format!("seen: {observed}"));
        }
    }

    fn why(&mut self, judged: &Judged) {
        if judged.verdict.writes.reasons.is_empty()
            && judged.verdict.reversibility.reasons.is_empty()
        {
            return;
        }
        self.heading("Why");
        for (axis, reasons) in [
            (Axis::Writes, &judged.verdict.writes.reasons),
            (Axis::Reversibility, &judged.verdict.reversibility.reasons),
        ] {
            let mut by_code: BTreeMap<ReasonCode, Vec<&Reason>> = BTreeMap::new();
            for reason in reasons {
                by_code.entry(reason.code).or_default().push(reason);
            }
            for (code, reasons) in by_code {
                self.line(2, &format!("{}: {}", axis.name(), code.code()));
                self.line(4, code.about());
                let (tried, other): (Vec<_>, Vec<_>) =
                    reasons.into_iter().partition(|r| r.effect.is_some());
                if !tried.is_empty() {
                    let count = tried.iter().fold(0u64, |n, r| n.saturating_add(r.count));
                    self.line(4, &format!("{}, listed below", times(count, "attempt")));
                }
                let facts: Vec<String> = other
                    .into_iter()
                    .filter_map(|reason| evidence_of(judged, reason))
                    .collect();
                for fact in &facts {
                    // One that another one repeats and goes on from says nothing more.
                    let longer = format!("{fact}: ");
                    if !facts.iter().any(|other| other.starts_with(&longer)) {
                        self.line(6, fact);
                    }
                }
                if code.status() != Status::Verified {
                    self.line(4, &format!("What settles it: {}", code.settles()));
                }
            }
        }
    }

    fn attempts(&mut self, judged: &Judged, heading: &str, which: impl Fn(Standing) -> bool) {
        let items: Vec<Item<'_>> = judged
            .verdict
            .evidence
            .items(&judged.record)
            .filter(|item| which(item.standing))
            .collect();
        if items.is_empty() {
            return;
        }
        self.heading(heading);
        for item in items {
            let attempt = &item.observed.attempt;
            let path = named(&judged.roots, &evidence::target_spot(item.observed));
            let mut what = format!("{} {}", attempt.effect.name(), printable(&path));
            if let Some(to) = evidence::to_spot(item.observed) {
                what.push_str(&format!(" -> {}", printable(&named(&judged.roots, &to))));
            }
            self.line(2, &what);
            let program = if attempt.program.is_empty() {
                "an unknown program".to_owned()
            } else {
                printable_os(&attempt.program)
            };
            let code = match item.standing {
                Standing::Counted(code) | Standing::ClaimOnly(code) => code.code(),
                Standing::NotCounted(harmless) => harmless.name(),
            };
            self.line(
                6,
                &format!(
                    "{}, {} pass, by {program}, {}, {}: {code}",
                    item.arm.name.name(),
                    item.pass.pass.name(),
                    times(attempt.count, "time"),
                    attempt.outcome.name(),
                ),
            );
        }
    }

    fn not_counted(&mut self, judged: &Judged) {
        let mut counts: BTreeMap<Harmless, u64> = BTreeMap::new();
        for item in judged.verdict.evidence.items(&judged.record) {
            if let Standing::NotCounted(harmless) = item.standing {
                let count = counts.entry(harmless).or_default();
                *count = count.saturating_add(item.observed.attempt.count);
            }
        }
        if counts.is_empty() {
            return;
        }
        self.heading("Seen and not counted");
        for (harmless, count) in counts {
            self.line(
                2,
                &format!("{}: {}", times(count, "attempt"), harmless.about()),
            );
        }
    }

    /// How the arms ended, and the last words of those that did not end as they must.
    fn ends(&mut self, judged: &Judged) {
        self.heading("Arms");
        if judged.record.arms.is_empty() {
            self.line(2, "none was run");
        }
        for arm in &judged.record.arms {
            for pass in &arm.passes {
                let end = match &pass.run.termination {
                    Termination::Exited(code) => format!("exit code {code}"),
                    Termination::Signaled(signal) => format!("ended by signal {signal}"),
                    Termination::TimedOut => "ended at the deadline".to_owned(),
                    Termination::NotExecuted(why) => {
                        format!("not executed: {}", printable(why.as_bytes()))
                    }
                };
                let verdict = match judged.verdict.reading(arm.name, pass.pass) {
                    None => String::new(),
                    Some(Reading::Named(name)) => format!(", {}", printable(name.as_bytes())),
                    Some(Reading::HarnessError(_)) => ", no declared verdict".to_owned(),
                };
                self.line(
                    2,
                    &format!(
                        "{}, {} pass: {end}{verdict}",
                        arm.name.name(),
                        pass.pass.name()
                    ),
                );
                let unexpected = judged.verdict.writes.reasons.iter().any(|r| {
                    r.arm == Some(arm.name)
                        && r.pass == Some(Pass::Contained)
                        && matches!(
                            r.code,
                            ReasonCode::ArmVerdictUnexpected | ReasonCode::ArmDidNotRun
                        )
                });
                if unexpected && pass.pass == Pass::Contained {
                    self.tail(pass);
                }
            }
        }
    }

    fn tail(&mut self, pass: &PassRecord) {
        let lines: Vec<&[u8]> = pass
            .run
            .stderr
            .bytes
            .split(|b| *b == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
            .collect();
        for line in &lines[lines.len().saturating_sub(TAIL)..] {
            self.line(6, &format!("stderr: {}", printable(line)));
        }
    }

    fn not_seen(&mut self, judged: &Judged) {
        let gaps = coverage::gaps(&judged.record);
        if gaps.is_empty() && judged.verdict.not_seen.is_empty() {
            return;
        }
        self.heading("Not seen");
        for line in &judged.verdict.not_seen {
            self.line(2, &printable(line.as_bytes()));
        }
        for note in gaps {
            self.line(
                2,
                &format!("{}: {}", note.code, printable(note.detail.as_bytes())),
            );
        }
    }
}

/// A reason that rests on no attempt: where, when and what.
fn evidence_of(judged: &Judged, reason: &Reason) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(at) = &reason.at {
        parts.push(printable(&named(&judged.roots, at)));
    }
    if let Some(arm) = reason.arm {
        parts.push(match reason.pass {
            Some(pass) => format!("{} ({} pass)", arm.name(), pass.name()),
            None => arm.name().to_owned(),
        });
    }
    if let Some(detail) = &reason.detail {
        parts.push(printable(detail.as_bytes()));
    }
    (!parts.is_empty()).then(|| parts.join(": "))
}

/// `1 time`, `2 times`.
fn times(count: u64, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}

/// Breaks printable ASCII into lines of at most `width` columns, at spaces where there are any.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let gap = usize::from(!line.is_empty());
        if line.len() + gap + word.len() > width && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        // Longer than a whole line, and ASCII: any column is a boundary.
        for c in word.chars() {
            if line.len() == width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}
