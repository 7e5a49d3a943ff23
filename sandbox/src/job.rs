//! What to run, where, and what came back.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::attempt::{Attempt, table};

table! {
    /// One of the two ways in which every arm runs.
    Pass {
        Denied = "denied", "nothing is writable but scratch and device sinks";
        Contained = "contained", "clone and scratch are writable, all else is refused";
    }
}

/// Where the pieces lie that one run works on.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The folder, on this host, that holds the copy of the repo for this run.
    pub clone: PathBuf,
    /// Absolute path of the field repo: where the subject sees the clone if mounts are available.
    pub repo: PathBuf,
    /// Git folders of the clone, relative to its top (`.git`, submodules' and worktrees').
    pub git_dirs: Vec<PathBuf>,
    /// The user's HOME, absolute.
    pub home: PathBuf,
    /// An empty folder of this run alone, on this host, for scratch. It may lie beside `clone`.
    pub scratch: PathBuf,
    /// The temp root that holds `clone` and `scratch`; hidden from the subject where mounts are available.
    pub temp_root: PathBuf,
}

/// Where the subject's standard input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`.
    Null,
    /// A file below the top of the clone, opened read-only by the subject's own means: in its view
    /// of the file system, so that the descriptor reaches no further than the subject does.
    File(PathBuf),
}

/// Bounds of one run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From start to SIGTERM.
    pub timeout: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// How long what outlives the arm is waited for.
    pub linger: Duration,
    /// Bytes kept of each of stdout and stderr; the rest is drained and counted.
    pub output_cap: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            timeout: Duration::from_secs(60),
            grace: Duration::from_secs(1),
            linger: Duration::from_secs(5),
            output_cap: 1 << 20,
        }
    }
}

/// One run of one argv.
#[derive(Clone, Debug)]
pub struct Job {
    /// Program and arguments; a bare name is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// Working folder, relative to the top of the clone.
    pub cwd: PathBuf,
    /// The whole environment, but for `TMPDIR`, which the sandbox sets.
    pub env: Vec<(OsString, OsString)>,
    /// Standard input.
    pub stdin: Stdin,
    /// Which pass.
    pub pass: Pass,
    /// Where things lie.
    pub layout: Layout,
    /// Bounds.
    pub limits: Limits,
}

/// How the arm itself ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Termination {
    /// It exited with this code.
    Exited(i32),
    /// It was ended by this signal, and not by the deadline.
    Signaled(i32),
    /// The deadline passed and it was ended.
    TimedOut,
    /// The program could not be executed; the text says why.
    NotExecuted(String),
}

/// One captured stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The first bytes, up to the cap.
    pub bytes: Vec<u8>,
    /// How many bytes came after the cap.
    pub dropped: u64,
}

table! {
    /// Something that this run could not see or could not contain.
    Gap {
        NoListener = "no-listener", "attempts could not be observed";
        NoLandlock = "no-landlock", "the Landlock ruleset could not be enforced";
        NoMounts = "no-mounts", "no private mounts: the clone lies elsewhere, temp folders are shared, metadata is refused";
        NoPrivateNet = "no-private-net", "no private network: every inet address is refused";
        NoPidNamespace = "no-pid-namespace", "no process namespace in the contained pass";
        NoScopes = "no-scopes", "Landlock has no scopes here: signals and abstract sockets are refused by the supervisor alone";
        TempNotOverlaid = "temp-not-overlaid", "temp folders are private and empty, what was in them before is hidden";
        MetadataNotContained = "metadata-not-contained", "metadata changes were refused in the contained pass";
        OutlivedArm = "outlived-arm", "processes of the arm were still there after the linger and were killed";
        UndecodableEvent = "undecodable-event", "an event could not be decoded, or an unobservable door was tried";
        AttemptsDropped = "attempts-dropped", "more distinct attempts than are kept; the rest is only counted";
    }
}

/// Which layers were in force during a run; each was tried, none is assumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// ABI of the enforced ruleset; `None` when none was.
    pub landlock_abi: Option<u32>,
    /// The seccomp listener.
    pub listener: bool,
    /// no_new_privs was set.
    pub no_new_privs: bool,
    /// Every capability set was emptied, the bounding set included.
    pub capabilities_dropped: bool,
    /// A user namespace was entered.
    pub user_namespace: bool,
    /// Private mounts, with everything else read-only.
    pub mounts: bool,
    /// `/tmp` and `/var/tmp` are private overlays of the real ones.
    pub temp_overlay: bool,
    /// HOME is a private overlay of the real one; only the contained pass has it.
    pub home_overlay: bool,
    /// A private network with loopback up.
    pub net_namespace: bool,
    /// A private host name.
    pub uts_namespace: bool,
    /// A private process tree; only the contained pass has one.
    pub pid_namespace: bool,
    /// Private System V and POSIX ipc; only the contained pass has them.
    pub ipc_namespace: bool,
    /// Why a layer is missing, one line each, as the kernel said it.
    pub missing: Vec<String>,
}

impl Layers {
    /// The same, with what `pass` does not use taken as in force, so that passes can be united.
    pub fn wanted_in(mut self, pass: Pass) -> Layers {
        match pass {
            Pass::Denied => {
                self.pid_namespace = true;
                self.ipc_namespace = true;
                self.home_overlay = true;
            }
            Pass::Contained => {}
        }
        self
    }

    /// What both had in force.
    pub fn weakest(&self, other: &Layers) -> Layers {
        let mut missing = self.missing.clone();
        missing.extend(
            other
                .missing
                .iter()
                .filter(|line| !self.missing.contains(line))
                .cloned(),
        );
        Layers {
            landlock_abi: self.landlock_abi.min(other.landlock_abi),
            listener: self.listener && other.listener,
            no_new_privs: self.no_new_privs && other.no_new_privs,
            capabilities_dropped: self.capabilities_dropped && other.capabilities_dropped,
            user_namespace: self.user_namespace && other.user_namespace,
            mounts: self.mounts && other.mounts,
            temp_overlay: self.temp_overlay && other.temp_overlay,
            home_overlay: self.home_overlay && other.home_overlay,
            net_namespace: self.net_namespace && other.net_namespace,
            uts_namespace: self.uts_namespace && other.uts_namespace,
            pid_namespace: self.pid_namespace && other.pid_namespace,
            ipc_namespace: self.ipc_namespace && other.ipc_namespace,
            missing,
        }
    }
}

/// What one run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// How the arm ended.
    pub termination: Termination,
    /// Its standard output.
    pub stdout: Output,
    /// Its standard error.
    pub stderr: Output,
    /// Every attempt, in the order of its first occurrence.
    pub attempts: Vec<Attempt>,
    /// What could not be seen or contained, without repeats.
    pub gaps: Vec<Gap>,
    /// What was in force.
    pub layers: Layers,
    /// Where the subject saw the top of the clone.
    pub top: PathBuf,
    /// Its TMPDIR.
    pub tmpdir: PathBuf,
    /// What the arm left in scratch, as the subject saw it, sorted.
    pub residue: Vec<PathBuf>,
    /// From execution to the end of the arm.
    pub elapsed: Duration,
}

impl Run {
    /// Folders below which the arm could put a program of its own, besides the clone.
    pub fn scratch_roots(&self) -> impl Iterator<Item = &std::path::Path> {
        ["/tmp", "/var/tmp", "/dev/shm"]
            .into_iter()
            .map(std::path::Path::new)
            .chain([self.tmpdir.as_path()])
    }
}
