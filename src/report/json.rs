//! The machine format, versioned by [`SCHEMA`]; its keys are described in `docs/outputs.md`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use calibrun_sandbox::{Layers, Output, Termination};
use serde::Serialize;

use super::{Capability, DeclarationRef, Failed, Judged, Results, Roots, SCHEMA, coverage, path};
use crate::record::{ArmRecord, Controls, Observed, PassRecord, UndoOutcome};
use crate::verdict::{Reading, Reason, ReasonCode, Spot, Standing, evidence};
use crate::workspace::{Change, ChangeKind, PathState};

/// The whole results as one JSON document, indented, with a final line end.
///
/// # Errors
///
/// None is known: every key is a string and every value is plain data.
pub fn document(results: &Results) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(&Document::of(results))?;
    text.push('\n');
    Ok(text)
}

/// One capability a line, each with the key `schema` in front.
///
/// # Errors
///
/// As [`document`].
pub fn lines(results: &Results) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    for capability in &results.capabilities {
        let entry = Entry {
            schema: Some(SCHEMA),
            ..Entry::of(capability)
        };
        text.push_str(&serde_json::to_string(&entry)?);
        text.push('\n');
    }
    Ok(text)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    verdict: Option<&'static str>,
    summary: SummaryJson,
    host: HostJson<'a>,
    controls: ControlsJson<'a>,
    capabilities: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct SummaryJson {
    verified: usize,
    contradicted: usize,
    claim_only: usize,
    harness_error: usize,
}

#[derive(Serialize)]
struct HostJson<'a> {
    kernel: &'a str,
    machine: &'a str,
    layers: LayersJson<'a>,
}

#[derive(Serialize)]
struct LayersJson<'a> {
    landlock_abi: Option<u32>,
    listener: bool,
    no_new_privs: bool,
    capabilities_dropped: bool,
    user_namespace: bool,
    mounts: bool,
    temp_overlay: bool,
    net_namespace: bool,
    uts_namespace: bool,
    home_overlay: bool,
    pid_namespace: bool,
    ipc_namespace: bool,
    missing: &'a [String],
}

#[derive(Serialize)]
struct ControlsJson<'a> {
    writes: u32,
    seen: u32,
    denied: u32,
    reader_attempts: u32,
    failures: &'a [String],
}

/// One capability; the keys that do not apply to its kind are null or empty.
#[derive(Serialize)]
struct Entry<'a> {
    /// Only where the entry stands alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'static str>,
    id: Option<&'a str>,
    declaration: Option<DeclarationJson>,
    commit: Option<&'a str>,
    dirty: Option<bool>,
    tree: Option<&'a str>,
    verdict: Option<&'static str>,
    error: Option<&'a str>,
    axes: Option<AxesJson>,
    arms: Vec<ArmJson>,
    coverage: Option<CoverageJson>,
}

#[derive(Serialize)]
struct DeclarationJson {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    line: u32,
    sha256: String,
}

#[derive(Serialize)]
struct AxesJson {
    writes: WritesJson,
    reversibility: ReversibilityJson,
}

#[derive(Serialize)]
struct WritesJson {
    declared: Option<&'static str>,
    observed: &'static str,
    egress: bool,
    delegated: bool,
    status: Option<&'static str>,
    reasons: Vec<ReasonJson>,
}

#[derive(Serialize)]
struct ReversibilityJson {
    declared: Option<&'static str>,
    observed: &'static str,
    status: Option<&'static str>,
    reasons: Vec<ReasonJson>,
}

#[derive(Serialize)]
struct ReasonJson {
    code: &'static str,
    arm: Option<&'static str>,
    pass: Option<&'static str>,
    effect: Option<&'static str>,
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_bytes: Option<String>,
    program: Option<String>,
    count: u64,
    detail: Option<String>,
}

#[derive(Serialize)]
struct ArmJson {
    name: &'static str,
    declared: bool,
    argv: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    argv_bytes: Option<Vec<String>>,
    expect: Option<String>,
    passes: Vec<PassJson>,
}

#[derive(Serialize)]
struct PassJson {
    name: &'static str,
    termination: TerminationJson,
    verdict: Option<String>,
    verdict_error: Option<String>,
    attempts: Vec<AttemptJson>,
    changes: Vec<ChangeJson>,
    undo: Option<UndoJson>,
    residue: Vec<PathJson>,
    stdout: OutputJson,
    stderr: OutputJson,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum TerminationJson {
    Exited(i32),
    Signaled(i32),
    TimedOut,
    NotExecuted(String),
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum UndoJson {
    Untouched,
    Proven,
    Residue(Vec<String>),
    NotTried(String),
}

#[derive(Serialize)]
struct AttemptJson {
    effect: &'static str,
    place: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_bytes: Option<String>,
    outcome: &'static str,
    counted: bool,
    program: String,
    count: u64,
    reason: Option<&'static str>,
    not_counted: Option<&'static str>,
    before: &'static str,
    marks: Vec<&'static str>,
    call: &'static str,
}

#[derive(Serialize)]
struct ChangeJson {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    kind: &'static str,
    before: &'static str,
}

#[derive(Serialize)]
struct PathJson {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

#[derive(Serialize)]
struct OutputJson {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    dropped: u64,
}

#[derive(Serialize)]
struct CoverageJson {
    complete: bool,
    gaps: Vec<GapJson>,
    not_seen: Vec<String>,
}

#[derive(Serialize)]
struct GapJson {
    code: &'static str,
    detail: String,
}

/// A readable text, and the bytes in base64 where the text is not the same.
fn text_of(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (
            String::from_utf8_lossy(bytes).into_owned(),
            Some(STANDARD.encode(bytes)),
        ),
    }
}

fn path_of(roots: &Roots, spot: &Spot) -> (String, Option<String>) {
    text_of(&path::named(roots, spot))
}

impl<'a> Document<'a> {
    fn of(results: &'a Results) -> Document<'a> {
        let summary = results.summary();
        Document {
            schema: SCHEMA,
            verdict: results.outcome().name(),
            summary: SummaryJson {
                verified: summary.verified,
                contradicted: summary.contradicted,
                claim_only: summary.claim_only,
                harness_error: summary.harness_error,
            },
            host: HostJson {
                kernel: &results.host.kernel,
                machine: &results.host.machine,
                layers: LayersJson::of(&results.host.layers),
            },
            controls: ControlsJson::of(&results.controls),
            capabilities: results.capabilities.iter().map(Entry::of).collect(),
        }
    }
}

impl<'a> LayersJson<'a> {
    fn of(layers: &'a Layers) -> LayersJson<'a> {
        LayersJson {
            landlock_abi: layers.landlock_abi,
            listener: layers.listener,
            no_new_privs: layers.no_new_privs,
            capabilities_dropped: layers.capabilities_dropped,
            user_namespace: layers.user_namespace,
            mounts: layers.mounts,
            temp_overlay: layers.temp_overlay,
            net_namespace: layers.net_namespace,
            uts_namespace: layers.uts_namespace,
            home_overlay: layers.home_overlay,
            pid_namespace: layers.pid_namespace,
            ipc_namespace: layers.ipc_namespace,
            missing: &layers.missing,
        }
    }
}

impl<'a> ControlsJson<'a> {
    fn of(controls: &'a Controls) -> ControlsJson<'a> {
        ControlsJson {
            writes: controls.writes,
            seen: controls.seen,
            denied: controls.denied,
            reader_attempts: controls.reader_attempts,
            failures: &controls.failures,
        }
    }
}

impl DeclarationJson {
    fn of(declaration: &DeclarationRef) -> DeclarationJson {
        let (path, path_bytes) = text_of(declaration.path.as_os_str().as_encoded_bytes());
        DeclarationJson {
            path,
            path_bytes,
            line: declaration.line,
            sha256: declaration.sha256.clone(),
        }
    }
}

impl<'a> Entry<'a> {
    fn of(capability: &'a Capability) -> Entry<'a> {
        let verdict = capability.outcome().name();
        match capability {
            Capability::Judged(judged) => Entry::judged(judged, verdict),
            Capability::Failed(failed) => Entry::failed(failed, verdict),
        }
    }

    fn failed(failed: &'a Failed, verdict: Option<&'static str>) -> Entry<'a> {
        Entry {
            schema: None,
            id: failed.id.as_deref(),
            declaration: failed.declaration.as_ref().map(DeclarationJson::of),
            commit: None,
            dirty: None,
            tree: None,
            verdict,
            error: Some(&failed.error),
            axes: None,
            arms: Vec::new(),
            coverage: None,
        }
    }

    fn judged(judged: &'a Judged, verdict: Option<&'static str>) -> Entry<'a> {
        let writes = &judged.verdict.writes;
        let undo = &judged.verdict.reversibility;
        let reasons = |all: &[Reason]| {
            all.iter()
                .map(|r| ReasonJson::of(r, &judged.roots))
                .collect()
        };
        Entry {
            schema: None,
            id: judged.id.as_deref(),
            declaration: judged.declaration.as_ref().map(DeclarationJson::of),
            commit: judged.record.commit.as_deref(),
            dirty: Some(judged.record.dirty),
            tree: None,
            verdict,
            error: None,
            axes: Some(AxesJson {
                writes: WritesJson {
                    declared: writes.declared.map(|v| v.name()),
                    observed: writes.observed.name(),
                    egress: writes.egress,
                    delegated: writes.delegated,
                    status: writes.status.map(|s| s.name()),
                    reasons: reasons(&writes.reasons),
                },
                reversibility: ReversibilityJson {
                    declared: undo.declared.map(|v| v.name()),
                    observed: undo.observed.name(),
                    status: undo.status.map(|s| s.name()),
                    reasons: reasons(&undo.reasons),
                },
            }),
            arms: judged
                .record
                .arms
                .iter()
                .enumerate()
                .map(|(at, arm)| ArmJson::of(judged, at, arm))
                .collect(),
            coverage: Some(CoverageJson {
                complete: coverage::complete(judged),
                gaps: coverage::gaps(&judged.record)
                    .into_iter()
                    .map(|note| GapJson {
                        code: note.code,
                        detail: note.detail,
                    })
                    .collect(),
                not_seen: judged.verdict.not_seen.clone(),
            }),
        }
    }
}

impl ReasonJson {
    fn of(reason: &Reason, roots: &Roots) -> ReasonJson {
        let at = reason.at.as_ref().map(|spot| path_of(roots, spot));
        let to = reason.to.as_ref().map(|spot| path_of(roots, spot));
        let (path, path_bytes) = at.map_or((None, None), |(p, b)| (Some(p), b));
        let (to, to_bytes) = to.map_or((None, None), |(p, b)| (Some(p), b));
        ReasonJson {
            code: reason.code.code(),
            arm: reason.arm.map(|a| a.name()),
            pass: reason.pass.map(|p| p.name()),
            effect: reason.effect.map(|e| e.name()),
            path,
            path_bytes,
            to,
            to_bytes,
            program: reason
                .program
                .as_ref()
                .map(|p| p.to_string_lossy().into_owned()),
            count: reason.count,
            detail: reason.detail.clone(),
        }
    }
}

impl ArmJson {
    fn of(judged: &Judged, at: usize, arm: &ArmRecord) -> ArmJson {
        let texts: Vec<_> = arm
            .argv
            .iter()
            .map(|word| text_of(word.as_encoded_bytes()))
            .collect();
        let lossy = texts.iter().any(|(_, bytes)| bytes.is_some());
        ArmJson {
            name: arm.name.name(),
            declared: arm.name.is_declared(),
            argv: texts.into_iter().map(|(text, _)| text).collect(),
            argv_bytes: lossy.then(|| {
                arm.argv
                    .iter()
                    .map(|word| STANDARD.encode(word.as_encoded_bytes()))
                    .collect()
            }),
            expect: arm.expect.clone(),
            passes: arm
                .passes
                .iter()
                .enumerate()
                .map(|(p, pass)| {
                    let reading = judged.verdict.reading(arm.name, pass.pass);
                    let standings = judged.verdict.evidence.of(at, p);
                    PassJson::of(&judged.roots, pass, reading, standings)
                })
                .collect(),
        }
    }
}

impl PassJson {
    fn of(
        roots: &Roots,
        pass: &PassRecord,
        reading: Option<&Reading>,
        standings: &[Standing],
    ) -> PassJson {
        let (verdict, verdict_error) = match reading {
            None => (None, None),
            Some(Reading::Named(name)) => (Some(name.clone()), None),
            Some(Reading::HarnessError(why)) => (None, Some(why.clone())),
        };
        PassJson {
            name: pass.pass.name(),
            termination: match &pass.run.termination {
                Termination::Exited(code) => TerminationJson::Exited(*code),
                Termination::Signaled(signal) => TerminationJson::Signaled(*signal),
                Termination::TimedOut => TerminationJson::TimedOut,
                Termination::NotExecuted(why) => TerminationJson::NotExecuted(why.clone()),
            },
            verdict,
            verdict_error,
            attempts: pass
                .observed
                .iter()
                .zip(standings)
                .map(|(observed, standing)| AttemptJson::of(roots, observed, *standing))
                .collect(),
            changes: pass
                .changes
                .iter()
                .map(|c| ChangeJson::of(roots, c))
                .collect(),
            undo: pass.undo.as_ref().map(|undo| match undo {
                UndoOutcome::Untouched => UndoJson::Untouched,
                UndoOutcome::Proven => UndoJson::Proven,
                UndoOutcome::Residue(residue) => UndoJson::Residue(
                    residue
                        .iter()
                        .map(|left| format!("{}: {}", left.path.display(), left.what))
                        .collect(),
                ),
                UndoOutcome::NotTried(why) => UndoJson::NotTried(why.clone()),
            }),
            residue: pass
                .run
                .residue
                .iter()
                .map(|left| {
                    let (path, path_bytes) = text_of(&path::absolute(roots, left));
                    PathJson { path, path_bytes }
                })
                .collect(),
            stdout: OutputJson::of(&pass.run.stdout),
            stderr: OutputJson::of(&pass.run.stderr),
        }
    }
}

impl AttemptJson {
    fn of(roots: &Roots, observed: &Observed, standing: Standing) -> AttemptJson {
        let attempt = &observed.attempt;
        let (path, path_bytes) = path_of(roots, &evidence::target_spot(observed));
        let to = evidence::to_spot(observed).map(|spot| path_of(roots, &spot));
        let (to, to_bytes) = to.map_or((None, None), |(p, b)| (Some(p), b));
        let (reason, not_counted) = match standing {
            Standing::Counted(code) | Standing::ClaimOnly(code) => {
                (Some(ReasonCode::code(code)), None)
            }
            Standing::NotCounted(harmless) => (None, Some(harmless.name())),
        };
        AttemptJson {
            effect: attempt.effect.name(),
            place: attempt.place.name(),
            path,
            path_bytes,
            to,
            to_bytes,
            outcome: attempt.outcome.name(),
            counted: standing.counted(),
            program: attempt.program.to_string_lossy().into_owned(),
            count: attempt.count,
            reason,
            not_counted,
            before: state_name(observed.state),
            marks: attempt.marks.iter().map(|m| m.name()).collect(),
            call: attempt.call,
        }
    }
}

impl ChangeJson {
    fn of(roots: &Roots, change: &Change) -> ChangeJson {
        let (path, path_bytes) = path_of(roots, &Spot::Clone(change.path.clone()));
        ChangeJson {
            path,
            path_bytes,
            kind: kind_name(change.kind),
            before: state_name(change.before),
        }
    }
}

impl OutputJson {
    fn of(output: &Output) -> OutputJson {
        let (text, bytes) = text_of(&output.bytes);
        OutputJson {
            text,
            bytes,
            dropped: output.dropped,
        }
    }
}

const fn state_name(state: PathState) -> &'static str {
    match state {
        PathState::NotInClone => "not-in-clone",
        PathState::Absent => "absent",
        PathState::Clean => "clean",
        PathState::Staged => "staged",
        PathState::Uncommitted => "uncommitted",
        PathState::Untracked => "untracked",
        PathState::Ignored => "ignored",
        PathState::GitInternal => "git-internal",
        PathState::Canary => "canary",
    }
}

/// The stable name of a kind of change.
pub(super) const fn kind_name(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Created => "created",
        ChangeKind::Removed => "removed",
        ChangeKind::Content => "content",
        ChangeKind::Executable => "executable",
        ChangeKind::Mode => "mode",
        ChangeKind::Owner => "owner",
        ChangeKind::Xattr => "xattr",
        ChangeKind::Flags => "flags",
        ChangeKind::Times => "times",
        ChangeKind::Inode => "inode",
    }
}
