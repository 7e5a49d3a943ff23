//! One run from the supervisor's side: what is waited for, and what each message means.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::leftovers::left_behind;
use super::start::Started;
use super::{BURIAL, RunError, SETUP, supervise};
use crate::address::datagrams_sent;
use crate::attempt::Attempt;
use crate::channel::Channel;
use crate::job::{Gap, Job, Layers, Output, Pass, Run, Termination};
use crate::launch::temp_folders;
use crate::launch::wire::Order;
use crate::places::{Places, Temp};
use crate::process::numbers_of;
use crate::resolve::Resolver;
use crate::supervise::{Supervisor, World};
use crate::sys::seccomp::wake_synchronously;

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

/// What is known of one run so far.
pub(super) struct Session<'a> {
    pub(super) job: &'a Job,
    pub(super) order: &'a Order,
    interrupted: &'a dyn Fn() -> bool,
    phase: Phase,
    pub(super) layers: Layers,
    own_proc: bool,
    launcher: i32,
    pub(super) init: i32,
    terminals: Vec<u64>,
    listener: Option<Arc<OwnedFd>>,
    supervisor: Option<Supervisor>,
    termination: Option<Termination>,
    started: Option<Instant>,
    elapsed: Duration,
    gaps: BTreeSet<Gap>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) residue: Vec<PathBuf>,
    stdout: Output,
    stderr: Output,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        job: &'a Job,
        order: &'a Order,
        interrupted: &'a dyn Fn() -> bool,
    ) -> Session<'a> {
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
    pub(super) fn drive(&mut self, started: &mut Started) -> Result<(), RunError> {
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

    pub(super) fn places(&self) -> Places {
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

    pub(super) fn tmpdir(&self) -> PathBuf {
        if self.layers.mounts {
            self.order.tmpdir.clone()
        } else {
            self.order.shared_tmpdir.clone()
        }
    }

    /// Reads what init's view still shows, while init waits.
    pub(super) fn conclude(&mut self) {
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

    pub(super) fn into_run(mut self) -> Result<Run, RunError> {
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
