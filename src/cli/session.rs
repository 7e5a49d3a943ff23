//! What commands that judge have in common: settings, progress, interruption, results.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;

use super::arguments::{Format, Running};
use super::terminal::Terminal;
use super::{Failure, environment};
use crate::exit::ExitCode;
use crate::plan::Plan;
use crate::probe::{ProbeError, Settings, Step, probe, resolve_home};
use crate::record::Controls;
use crate::report::{self, Capability, DeclarationRef, Host, Judged, Results, Roots};
use crate::verdict::{Question, judge};
use crate::workspace::{FieldRepo, Stage};

/// One invocation of a judging command.
pub(super) struct Session<'a> {
    running: &'a Running,
    terminal: &'a Terminal,
    home: PathBuf,
    environment: Vec<(OsString, OsString)>,
    stop: Arc<AtomicBool>,
    capabilities: Vec<Capability>,
    controls: Option<Controls>,
    host: Host,
}

/// What is to be judged.
pub(super) struct Subject<'a> {
    pub id: Option<&'a str>,
    pub declaration: Option<DeclarationRef>,
    /// Where the arms run.
    pub folder: &'a Path,
    pub plan: Plan,
    pub question: Question,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        running: &'a Running,
        terminal: &'a Terminal,
    ) -> Result<Session<'a>, Failure> {
        let environment = environment::of_arm(std::env::vars_os(), &running.env)
            .map_err(|why| Failure::text(ExitCode::Usage, format!("--env: {why}")))?;
        let home = environment
            .iter()
            .find(|(key, _)| key == "HOME")
            .map(|(_, value)| value.clone());
        let home = resolve_home(home.clone()).ok_or_else(|| {
            let text = match &home {
                None => "HOME is not set, and arms need one".to_owned(),
                Some(home) => format!("HOME names {home:?}, which is no folder here"),
            };
            Failure::text(ExitCode::HarnessError, text)
                .hint("set HOME to your home folder, or give another one with --env HOME=FOLDER")
        })?;
        Ok(Session {
            running,
            terminal,
            home,
            environment,
            stop: on_interrupt()?,
            capabilities: Vec::new(),
            controls: None,
            host: host(),
        })
    }

    /// Probes and judges one capability, and keeps the result.
    pub(super) fn judge(&mut self, subject: Subject<'_>) -> Result<(), Failure> {
        let bar = self.terminal.progress();
        let result = self.attempt(&subject, &bar);
        bar.finish_and_clear();
        match result {
            Ok(judged) => {
                self.capabilities.push(Capability::Judged(Box::new(judged)));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn attempt(&mut self, subject: &Subject<'_>, bar: &ProgressBar) -> Result<Judged, Failure> {
        let folder = subject.folder.canonicalize().map_err(|source| {
            Failure::text(
                ExitCode::HarnessError,
                format!("cannot enter {}: {source}", subject.folder.display()),
            )
        })?;
        let field = FieldRepo::discover(&folder, self.running.trust_owner)
            .map_err(|e| Failure::harness(&e))?;
        let name = subject.id.unwrap_or("command").to_owned();
        let show = |step: Step| bar.set_message(format!("{name}: {}", describe(&step)));
        let stop = Arc::clone(&self.stop);
        let interrupted = move || stop.load(Ordering::Relaxed);
        let settings = Settings {
            folder,
            home: self.home.clone(),
            environment: self.environment.clone(),
            limits: self.running.limits(),
            canary_id: random_hex().map_err(|e| Failure::harness(&e))?,
            keep: self.running.keep,
            progress: &show,
            interrupted: &interrupted,
        };
        let probed =
            probe(&field, &subject.plan, &settings).map_err(|error| self.failure(&error))?;
        if let Some(kept) = &probed.kept {
            self.terminal.answer(&format!("kept: {}", kept.display()));
        }
        let record = probed.record;
        self.host.layers = match self.controls {
            None => record.layers.clone(),
            Some(_) => self.host.layers.weakest(&record.layers),
        };
        if self.controls.as_ref().is_none_or(Controls::calibrated) {
            self.controls = Some(record.controls.clone());
        }
        let verdict = judge(&record, &subject.question);
        let runs = record.arms.iter().flat_map(|arm| &arm.passes);
        let mut scratch: Vec<PathBuf> = runs.map(|pass| pass.run.tmpdir.clone()).collect();
        scratch.sort();
        scratch.dedup();
        Ok(Judged {
            id: subject.id.map(str::to_owned),
            declaration: subject.declaration.clone(),
            roots: Roots {
                home: Some(self.home.clone()),
                scratch,
            },
            record,
            verdict,
        })
    }

    fn failure(&self, error: &ProbeError) -> Failure {
        if error.is_interrupted() {
            return Failure::text(ExitCode::HarnessError, "interrupted; nothing was judged");
        }
        let mut failure = Failure::harness(error);
        if error.is_no_enforcement() {
            failure.code = ExitCode::ClaimOnly;
            failure = failure.hint("run `calibrun doctor` to see what this host gives");
        }
        failure
    }

    /// Whether the user asked to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Keeps a capability on which calibrun failed.
    pub(super) fn failed(&mut self, failed: report::Failed) {
        self.capabilities.push(Capability::Failed(failed));
    }

    /// Everything that was found.
    pub(super) fn results(self) -> Results {
        Results {
            host: self.host,
            controls: self.controls.unwrap_or_default(),
            capabilities: self.capabilities,
        }
    }

    /// Writes everything in the chosen format, and gives the exit code.
    pub(super) fn finish(self) -> Result<ExitCode, Failure> {
        let (format, terminal) = (self.running.format, self.terminal);
        let results = self.results();
        let text = match format {
            Format::Human => report::text::render(&results, &terminal.style()),
            Format::Json => report::json::document(&results).map_err(|e| Failure::harness(&e))?,
        };
        terminal.data(&text)?;
        Ok(results.exit_code())
    }
}

fn describe(step: &Step) -> String {
    match step {
        Step::Workspace(Stage::Measure) => "measuring the repo".to_owned(),
        Step::Workspace(Stage::GitFolder) => "copying the git folder".to_owned(),
        Step::Workspace(Stage::Files) => "copying files".to_owned(),
        Step::Workspace(Stage::Index) => "settling the index".to_owned(),
        Step::Workspace(Stage::Check) => "checking that the repo held still".to_owned(),
        Step::Controls => "controls".to_owned(),
        Step::Arm { arm, pass } => format!("{arm}, {pass}"),
    }
}

/// How long the end may take once it was asked for twice.
const PATIENCE: Duration = Duration::from_secs(5);

/// A flag that Ctrl-C, SIGTERM and SIGHUP set. The run notices it, ends the arm and removes the clone; who
/// asks a second time waits no longer than [`PATIENCE`] for that.
fn on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    let (mut heard, signalled) = UnixStream::pair().map_err(|e| Failure::harness(&e))?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let pipe = signalled.try_clone().map_err(|e| Failure::harness(&e))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::low_level::pipe::register(signal, pipe))
            .map_err(|e| Failure::harness(&e))?;
    }
    std::thread::spawn(move || {
        if heard.read_exact(&mut [0; 2]).is_ok() {
            std::thread::sleep(PATIENCE);
            std::process::exit(i32::from(ExitCode::HarnessError.code()));
        }
    });
    Ok(stop)
}

pub(super) fn host() -> Host {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Host {
        kernel: kernel.trim().to_owned(),
        machine: std::env::consts::ARCH.to_owned(),
        ..Host::default()
    }
}

/// Eight hex digits that nobody can guess.
pub(super) fn random_hex() -> std::io::Result<String> {
    let mut bytes = [0u8; 4];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
