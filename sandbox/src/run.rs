//! One run: starts the launcher, supervises the subject, and gathers what came of it.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{Gid, Uid, pipe2};

use crate::address::datagrams_sent;
use crate::attempt::{Attempt, Effect, Mark, Outcome, Place};
use crate::channel::Channel;
use crate::job::{Gap, Job, Layers, Output, Pass, Run, Stdin, Termination};
use crate::launch::wire::Order;
use crate::launch::{hidden_in, temp_folders};
use crate::places::{Places, Temp};
use crate::process::numbers_of;
use crate::resolve::Resolver;
use crate::roles;
use crate::supervise::ledger::pathless;
use crate::supervise::{Supervisor, World};
use crate::switch::Switches;
use crate::sys::process::inherit_at_three;
use crate::sys::seccomp::wake_synchronously;

/// How long the launcher may take to confine the subject.
const SETUP: Duration = Duration::from_secs(30);
/// How long a killed tree may take to be gone.
const BURIAL: Duration = Duration::from_secs(20);

/// Why a run could not be made; the subject has not run, or its run says nothing.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The argv is empty.
    #[error("nothing to run: the argv is empty")]
    EmptyArgv,
    /// A string holds a NUL byte, which no argv or environment can.
    #[error("{0} holds a NUL byte")]
    NulByte(&'static str),
    /// The launcher cannot be started.
    #[error("cannot start the launcher: {step}")]
    Launcher {
        /// What was done.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// This host enforces no sufficient Landlock ruleset, so nothing is run.
    #[error("no enforcement on this host, so nothing was run: {0}")]
    NoEnforcement(String),
    /// The launcher could not confine the subject.
    #[error("cannot confine the subject: {0}")]
    Confine(String),
    /// The supervisor failed while the subject ran; the subject was ended.
    #[error("supervising the subject failed: {step}")]
    Supervise {
        /// What was done.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The caller asked for an end.
    #[error("interrupted")]
    Interrupted,
}

fn launcher(step: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::Launcher { step, source }
}

fn supervise(step: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::Supervise { step, source }
}

/// Runs `job` and returns what it tried. `interrupted` is asked several times a second.
///
/// # Errors
/// See [`RunError`]. Whatever the error, no process of the subject is left.
pub fn run(job: &Job, interrupted: &dyn Fn() -> bool) -> Result<Run, RunError> {
    let order = order(job)?;
    let mut pipes = Started::start(job, &order)?;
    let mut session = Session::new(job, &order, interrupted);
    let result = session.drive(&mut pipes);
    // Whatever happened: closing the channel makes init kill what is left; the launcher ends with it.
    if result.is_ok() {
        session.conclude();
    }
    let Started {
        mut child, channel, ..
    } = pipes;
    drop(channel);
    bury(&mut child);
    if !session.layers.mounts {
        // Shared with the host: not below the caller's temp root, so removed here.
        let _ = std::fs::remove_dir_all(&order.shared_tmpdir);
    }
    result?;
    session.into_run()
}

fn order(job: &Job) -> Result<Order, RunError> {
    if job.argv.first().is_none_or(|program| program.is_empty()) {
        return Err(RunError::EmptyArgv);
    }
    if job.argv.iter().any(|a| a.as_bytes().contains(&0)) {
        return Err(RunError::NulByte("the argv"));
    }
    if job
        .env
        .iter()
        .any(|(k, v)| k.as_bytes().contains(&0) || v.as_bytes().contains(&0))
    {
        return Err(RunError::NulByte("the environment"));
    }
    let env = job
        .env
        .iter()
        .filter(|(key, _)| key != "TMPDIR")
        .map(|(key, value)| {
            let mut entry = key.clone();
            entry.push("=");
            entry.push(value);
            entry
        });
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from("calibrun-");
    name.push(format!("{}-{number}", std::process::id()));
    let temp = temp_folders()
        .into_iter()
        .next()
        .unwrap_or_else(|| PathBuf::from("/tmp"));
    let mut shared = name.clone();
    shared.push("-shared");
    Ok(Order {
        argv: job.argv.clone(),
        env: env.collect(),
        pass: job.pass,
        clone: job.layout.clone.clone(),
        repo: job.layout.repo.clone(),
        cwd: job.cwd.clone(),
        stdin: match &job.stdin {
            Stdin::Null => PathBuf::new(),
            Stdin::File(path) => path.clone(),
        },
        home: job.layout.home.clone(),
        hidden: hidden_in(&temp_folders())
            .into_iter()
            .map(PathBuf::into_os_string)
            .collect(),
        scratch: job.layout.scratch.clone(),
        temp_root: job.layout.temp_root.clone(),
        tmpdir: temp.join(name),
        shared_tmpdir: temp.join(shared),
        uid: Uid::effective().as_raw(),
        gid: Gid::effective().as_raw(),
        full_map: Uid::effective().is_root(),
        off: Switches::from_environment(),
    })
}

/// The launcher and the supervisor's ends of everything it was given.
struct Started {
    child: Child,
    channel: Channel,
    stdout: Stream,
    stderr: Stream,
}

/// One captured stream; `pipe` is gone once it has ended.
struct Stream {
    pipe: Option<File>,
    output: Output,
    cap: usize,
}

impl Stream {
    fn new(pipe: OwnedFd, cap: usize) -> Stream {
        Stream {
            pipe: Some(File::from(pipe)),
            output: Output::default(),
            cap,
        }
    }

    /// Reads what is there without waiting.
    fn drain(&mut self) {
        let mut buffer = [0u8; 1 << 16];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(n) => {
                    let room = self.cap.saturating_sub(self.output.bytes.len()).min(n);
                    self.output.bytes.extend_from_slice(&buffer[..room]);
                    self.output.dropped += (n - room) as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}

impl Started {
    fn start(job: &Job, order: &Order) -> Result<Started, RunError> {
        let pipe = || {
            pipe2(OFlag::O_CLOEXEC)
                .map_err(io::Error::from)
                .map_err(launcher("make a pipe"))
        };
        let (stdout, out) = pipe()?;
        let (stderr, err) = pipe()?;
        for end in [&stdout, &stderr] {
            nix::fcntl::fcntl(end, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
                .map_err(io::Error::from)
                .map_err(launcher("set up a pipe"))?;
        }
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .map_err(io::Error::from)
        .map_err(launcher("make the control channel"))?;
        let message = memfd_create(c"calibrun-order", MFdFlags::MFD_CLOEXEC)
            .map_err(io::Error::from)
            .map_err(launcher("make the launch order"))?;
        let mut message = File::from(message);
        message
            .write_all(&order.encode())
            .map_err(launcher("write the launch order"))?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("calibrun-launcher")
            .arg(roles::LAUNCHER)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        inherit_at_three(&mut command, &[theirs.as_raw_fd(), message.as_raw_fd()]);
        let child = command.spawn().map_err(launcher("execute it"))?;
        let cap = job.limits.output_cap;
        Ok(Started {
            child,
            channel: Channel::new(ours),
            stdout: Stream::new(stdout, cap),
            stderr: Stream::new(stderr, cap),
        })
    }
}

/// Waits for the launcher, which ends with everything below it once the channel is closed.
fn bury(child: &mut Child) {
    let deadline = Instant::now() + BURIAL;
    loop {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => return,
            Ok(None) if Instant::now() > deadline => {
                // In a private tree its death takes init and everybody else along.
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Where a run is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    SettingUp {
        until: Instant,
    },
    Running {
        until: Instant,
    },
    Terminating {
        until: Instant,
    },
    /// The arm has ended, others of its tree may not have.
    Lingering {
        until: Instant,
    },
    Killed {
        until: Instant,
    },
    Empty,
}

struct Session<'a> {
    job: &'a Job,
    order: &'a Order,
    interrupted: &'a dyn Fn() -> bool,
    phase: Phase,
    layers: Layers,
    own_proc: bool,
    launcher: i32,
    init: i32,
    terminals: Vec<u64>,
    listener: Option<Arc<OwnedFd>>,
    supervisor: Option<Supervisor>,
    termination: Option<Termination>,
    started: Option<Instant>,
    elapsed: Duration,
    gaps: BTreeSet<Gap>,
    attempts: Vec<Attempt>,
    residue: Vec<PathBuf>,
    stdout: Output,
    stderr: Output,
}

impl<'a> Session<'a> {
    fn new(job: &'a Job, order: &'a Order, interrupted: &'a dyn Fn() -> bool) -> Session<'a> {
        Session {
            job,
            order,
            interrupted,
            phase: Phase::SettingUp {
                until: Instant::now() + SETUP,
            },
            layers: Layers::default(),
            own_proc: false,
            launcher: 0,
            init: 0,
            terminals: terminals(),
            listener: None,
            supervisor: None,
            termination: None,
            started: None,
            elapsed: Duration::ZERO,
            gaps: BTreeSet::new(),
            attempts: Vec::new(),
            residue: Vec::new(),
            stdout: Output::default(),
            stderr: Output::default(),
        }
    }

    /// Serves everything until nothing of the subject is left.
    fn drive(&mut self, started: &mut Started) -> Result<(), RunError> {
        self.launcher = started.child.id() as i32;
        while self.phase != Phase::Empty {
            if (self.interrupted)() {
                return Err(RunError::Interrupted);
            }
            self.keep_time(&started.channel)?;
            let ready = self.wait(started)?;
            if ready.stdout {
                started.stdout.drain();
            }
            if ready.stderr {
                started.stderr.drain();
            }
            // Calls come before messages: an arm's last attempts are recorded before its end is.
            if ready.call
                && let Some(supervisor) = &mut self.supervisor
            {
                supervisor
                    .serve()
                    .map_err(supervise("answer a trapped call"))?;
            } else if ready.hung_up {
                self.listener = None;
            }
            if ready.message {
                self.message(started)?;
            }
        }
        started.stdout.drain();
        started.stderr.drain();
        self.stdout = std::mem::take(&mut started.stdout.output);
        self.stderr = std::mem::take(&mut started.stderr.output);
        Ok(())
    }

    fn wait(&self, started: &Started) -> Result<Ready, RunError> {
        let until = match self.phase {
            Phase::SettingUp { until }
            | Phase::Running { until }
            | Phase::Terminating { until }
            | Phase::Lingering { until }
            | Phase::Killed { until } => until,
            Phase::Empty => Instant::now(),
        };
        // Woken now and then to ask whether the caller wants to stop.
        let left = until
            .saturating_duration_since(Instant::now())
            .min(Duration::from_millis(100));
        let timeout =
            PollTimeout::try_from(left.as_millis() as i32 + 1).unwrap_or(PollTimeout::ZERO);
        let fds = [
            Some(started.channel.as_fd()),
            self.listener.as_ref().map(|listener| listener.as_fd()),
            started.stdout.pipe.as_ref().map(AsFd::as_fd),
            started.stderr.pipe.as_ref().map(AsFd::as_fd),
        ];
        let mut polled: Vec<_> = fds
            .iter()
            .flatten()
            .map(|fd| PollFd::new(*fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut polled, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(supervise("wait for the subject")(e.into())),
        }
        let mut events = polled
            .iter()
            .map(|p| p.revents().unwrap_or(PollFlags::empty()));
        let [message, call, stdout, stderr] =
            fds.map(|fd| fd.and_then(|_| events.next()).unwrap_or(PollFlags::empty()));
        Ok(Ready {
            message: !message.is_empty(),
            call: call.contains(PollFlags::POLLIN),
            hung_up: call.intersects(PollFlags::POLLHUP | PollFlags::POLLERR),
            stdout: !stdout.is_empty(),
            stderr: !stderr.is_empty(),
        })
    }

    /// Moves on when a deadline has passed.
    fn keep_time(&mut self, channel: &Channel) -> Result<(), RunError> {
        let now = Instant::now();
        let limits = &self.job.limits;
        match self.phase {
            Phase::SettingUp { until } if now >= until => {
                return Err(RunError::Confine(format!(
                    "not done after {} s",
                    SETUP.as_secs()
                )));
            }
            Phase::Running { until } if now >= until => {
                self.termination = Some(Termination::TimedOut);
                self.tell(channel, "term")?;
                self.phase = Phase::Terminating {
                    until: now + limits.grace,
                };
            }
            Phase::Terminating { until } if now >= until => self.kill(channel)?,
            Phase::Lingering { until } if now >= until => {
                self.gaps.insert(Gap::OutlivedArm);
                self.kill(channel)?;
            }
            Phase::Killed { until } if now >= until => {
                return Err(RunError::Confine("its processes could not be ended".into()));
            }
            _ => {}
        }
        Ok(())
    }

    fn kill(&mut self, channel: &Channel) -> Result<(), RunError> {
        self.tell(channel, "kill")?;
        self.phase = Phase::Killed {
            until: Instant::now() + BURIAL,
        };
        Ok(())
    }

    fn tell(&self, channel: &Channel, order: &str) -> Result<(), RunError> {
        channel
            .send(order, None)
            .map_err(|e| supervise("give an order to init")(e.into()))
    }

    fn message(&mut self, started: &mut Started) -> Result<(), RunError> {
        let received = started
            .channel
            .receive()
            .map_err(|e| supervise("hear from init")(e.into()))?;
        let Some((line, descriptor)) = received else {
            return Err(RunError::Confine("the launcher ended unexpectedly".into()));
        };
        let (verb, rest) = line.split_once(' ').unwrap_or((line.as_str(), ""));
        match verb {
            "map" => {
                let reply = if self.map_every_user() {
                    "mapped"
                } else {
                    "refused"
                };
                self.tell(&started.channel, reply)?;
            }
            "init" => {
                self.init = rest
                    .parse()
                    .map_err(|_| RunError::Confine("bad process number".into()))?
            }
            "missing" => self.layers.missing.push(rest.to_owned()),
            "layers" => self.set_layers(rest),
            "layer" => {
                if let Some(abi) = rest.strip_prefix("landlock ") {
                    self.layers.landlock_abi = abi.parse().ok();
                }
            }
            "listener" => {
                let listener = Arc::new(
                    descriptor.ok_or_else(|| RunError::Confine("no listener came".into()))?,
                );
                wake_synchronously(&*listener);
                self.layers.listener = true;
                self.supervisor = Some(Supervisor::new(self.world()?, Arc::clone(&listener)));
                self.listener = Some(listener);
            }
            "executed" | "not-executed" => {
                if verb == "not-executed" {
                    self.termination = Some(Termination::NotExecuted(rest.to_owned()));
                }
                let now = Instant::now();
                self.started = Some(now);
                self.phase = Phase::Running {
                    until: now + self.job.limits.timeout,
                };
            }
            "exited" | "signaled" => {
                let number = rest.parse().unwrap_or(-1);
                let ended = if verb == "exited" {
                    Termination::Exited(number)
                } else {
                    Termination::Signaled(number)
                };
                self.termination.get_or_insert(ended);
                self.elapsed = self.started.map(|s| s.elapsed()).unwrap_or_default();
                if !matches!(self.phase, Phase::Killed { .. }) {
                    self.phase = Phase::Lingering {
                        until: Instant::now() + self.job.limits.linger,
                    };
                }
            }
            "left" => self.attempts.push(left_behind(rest.as_bytes().to_vec())),
            "empty" => self.phase = Phase::Empty,
            "fatal" => {
                return Err(match rest.strip_prefix("no-enforcement ") {
                    Some(why) => RunError::NoEnforcement(why.to_owned()),
                    None => RunError::Confine(rest.to_owned()),
                });
            }
            other => return Err(RunError::Confine(format!("unexpected message {other:?}"))),
        }
        Ok(())
    }

    /// Writes identity maps for the launcher, as only a privileged parent may.
    fn map_every_user(&self) -> bool {
        ["uid_map", "gid_map"].iter().all(|map| {
            std::fs::write(format!("/proc/{}/{map}", self.launcher), "0 0 4294967295").is_ok()
        })
    }

    fn set_layers(&mut self, words: &str) {
        let on = |word: &str| words.split(' ').any(|w| w == word);
        self.layers.user_namespace = on("user");
        self.layers.mounts = on("mounts");
        self.layers.temp_overlay = on("temp_overlay");
        self.layers.home_overlay = on("home_overlay");
        self.layers.net_namespace = on("net");
        self.layers.uts_namespace = on("uts");
        self.layers.pid_namespace = on("pid");
        self.layers.ipc_namespace = on("ipc");
        self.layers.no_new_privs = on("no_new_privs");
        self.layers.capabilities_dropped = on("capabilities");
        self.own_proc = on("own_proc");
    }

    fn world(&self) -> Result<World, RunError> {
        let root = format!("/proc/{}/root", self.init);
        let root = nix::fcntl::open(
            root.as_str(),
            OFlag::O_PATH | OFlag::O_CLOEXEC,
            nix::sys::stat::Mode::empty(),
        )
        .map_err(|e| supervise("look into the subject's view")(e.into()))?;
        Ok(World {
            pass: self.job.pass,
            places: self.places(),
            resolver: Resolver::new(root),
            init: self.init,
            runner: vec![std::process::id() as i32, self.launcher, self.init],
            mounts: self.layers.mounts,
            private_net: self.layers.net_namespace,
            private_pids: self.own_proc,
            depth: numbers_of(self.init).map_or(0, |numbers| numbers.len() - 1),
            private_ipc: self.layers.ipc_namespace,
        })
    }

    fn places(&self) -> Places {
        let layout = &self.job.layout;
        let top = self.top();
        let temps = temp_folders()
            .into_iter()
            .map(|path| Temp { path })
            .collect();
        Places {
            git_dirs: layout.git_dirs.iter().map(|dir| top.join(dir)).collect(),
            top,
            real_top: layout.repo.clone(),
            home: layout.home.clone(),
            tmpdir: self.tmpdir(),
            temps,
            mounts: self.layers.mounts,
            overlaid: self.layers.temp_overlay,
            home_private: self.layers.home_overlay,
            hidden: self.order.hidden.iter().map(PathBuf::from).collect(),
            terminals: self.terminals.clone(),
        }
    }

    fn top(&self) -> PathBuf {
        if self.layers.mounts {
            self.job.layout.repo.clone()
        } else {
            self.job.layout.clone.clone()
        }
    }

    fn tmpdir(&self) -> PathBuf {
        if self.layers.mounts {
            self.order.tmpdir.clone()
        } else {
            self.order.shared_tmpdir.clone()
        }
    }

    /// Reads what init's view still shows, while init waits.
    fn conclude(&mut self) {
        let net = PathBuf::from(format!("/proc/{}/net", self.init));
        let datagrams = if self.layers.net_namespace {
            datagrams_sent(&net)
        } else {
            0
        };
        if let Some(supervisor) = self.supervisor.take() {
            let (attempts, gaps) = supervisor.finish(datagrams);
            self.attempts.splice(0..0, attempts);
            self.gaps.extend(gaps);
        }
        self.look_at_scratch();
    }

    /// Lists what is left in scratch, and what was changed there that was not the arm's own.
    fn look_at_scratch(&mut self) {
        let tmpdir = self.tmpdir();
        if !self.layers.mounts {
            self.residue
                .extend(list(&tmpdir).into_iter().map(|rest| tmpdir.join(rest)));
            self.residue.sort();
            return;
        }
        let places = self.places();
        for (index, temp) in temp_folders().iter().enumerate() {
            let upper = self.order.scratch.join(format!("temp{index}/upper"));
            let place = if self.layers.temp_overlay {
                upper
            } else {
                self.inside(temp)
            };
            for rest in list(&place) {
                let path = temp.join(&rest);
                let hidden = places.hidden.contains(&path) && is_whiteout(&place.join(&rest));
                if path == tmpdir || hidden {
                    continue;
                }
                // The supervisor refuses both; whatever is found came past it.
                let old = places.is_shown(&path);
                let in_old_folder = path
                    .parent()
                    .is_some_and(|p| p != temp && places.is_shown(p));
                if self.layers.temp_overlay && (old || in_old_folder) {
                    self.attempts.push(unseen(Place::Outside, &path));
                }
                self.residue.push(path);
            }
        }
        self.look_at_home();
        let shm = Path::new("/dev/shm");
        self.residue.extend(
            list(&self.inside(shm))
                .into_iter()
                .map(|rest| shm.join(rest)),
        );
        // Mount points that the private folders needed are no residue of the arm's.
        let needed = [self.order.repo.clone(), self.order.home.clone(), tmpdir];
        self.residue
            .retain(|path| !needed.iter().any(|n| n.starts_with(path)));
        for path in self.residue.iter().filter(|path| path.starts_with(shm)) {
            let mut attempt = left_behind(path.as_os_str().as_bytes().to_vec());
            attempt.target.resolved = Some(path.clone());
            self.attempts.push(attempt);
        }
        self.residue.sort();
    }

    /// Compares what is in the private HOME with what was seen.
    fn look_at_home(&mut self) {
        if !self.layers.home_overlay {
            return;
        }
        let home = &self.job.layout.home;
        let upper = self.order.scratch.join("home/upper");
        let seen: HashSet<PathBuf> = self
            .attempts
            .iter()
            .flat_map(|attempt| [Some(&attempt.target), attempt.to.as_ref()])
            .flatten()
            .filter(|target| target.place == Place::Home)
            .filter_map(|target| target.resolved.clone())
            .collect();
        let mut found = Vec::new();
        for rest in list(&upper) {
            let path = home.join(&rest);
            // A folder is copied up when something in it is; what came with a moved folder was not named.
            let explained = seen
                .iter()
                .any(|seen| seen.starts_with(&path) || path.starts_with(seen));
            if !explained {
                found.push(unseen(Place::Home, &path));
            }
            self.residue.push(path);
        }
        self.attempts.extend(found);
    }

    /// `path` in the subject's view.
    fn inside(&self, path: &Path) -> PathBuf {
        let relative = path.strip_prefix("/").unwrap_or(path);
        PathBuf::from(format!("/proc/{}/root", self.init)).join(relative)
    }

    fn into_run(mut self) -> Result<Run, RunError> {
        let termination = self
            .termination
            .clone()
            .ok_or_else(|| RunError::Confine("the subject's end was not reported".into()))?;
        if self.layers.landlock_abi.is_none() {
            self.gaps.insert(Gap::NoLandlock);
        }
        if !self.layers.listener {
            self.gaps.insert(Gap::NoListener);
        }
        if !self.layers.mounts {
            self.gaps.insert(Gap::NoMounts);
        } else if !self.layers.temp_overlay {
            self.gaps.insert(Gap::TempNotOverlaid);
        }
        if !self.layers.net_namespace {
            self.gaps.insert(Gap::NoPrivateNet);
        }
        if self.job.pass == Pass::Contained && !self.own_proc {
            self.gaps.insert(Gap::NoPidNamespace);
        }
        if self.layers.landlock_abi.is_some_and(|abi| abi < 6) {
            self.gaps.insert(Gap::NoScopes);
        }
        Ok(Run {
            termination,
            stdout: std::mem::take(&mut self.stdout),
            stderr: std::mem::take(&mut self.stderr),
            attempts: std::mem::take(&mut self.attempts),
            gaps: std::mem::take(&mut self.gaps).into_iter().collect(),
            layers: self.layers.clone(),
            top: self.top(),
            tmpdir: self.tmpdir(),
            residue: std::mem::take(&mut self.residue),
            elapsed: self.elapsed,
        })
    }
}

struct Ready {
    message: bool,
    call: bool,
    hung_up: bool,
    stdout: bool,
    stderr: bool,
}

/// A change that was found afterwards and never seen as an attempt.
fn unseen(place: Place, path: &Path) -> Attempt {
    let raw = path.as_os_str().as_bytes().to_vec();
    let mut attempt = pathless(
        Effect::WriteOpen,
        place,
        Outcome::Allowed,
        "(found afterwards)",
        raw,
    );
    attempt.target.resolved = Some(path.to_owned());
    attempt
}

/// An ipc object that outlived the arm.
fn left_behind(raw: Vec<u8>) -> Attempt {
    let mut attempt = pathless(
        Effect::Create,
        Place::Ipc,
        Outcome::Allowed,
        "(found afterwards)",
        raw,
    );
    attempt.marks.push(Mark::LeftBehind);
    attempt
}

/// Whether a name in an overlay's upper folder says that there is nothing.
fn is_whiteout(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|meta| meta.file_type().is_char_device() && meta.rdev() == 0)
}

/// Everything below `top`, relative to it; unreadable folders are named but not entered.
fn list(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(top.join(&folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Device numbers of the pseudo-terminals that exist.
fn terminals() -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir("/dev/pts") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|meta| meta.rdev())
        .collect()
}
