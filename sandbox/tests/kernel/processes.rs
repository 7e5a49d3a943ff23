//! Signals, limits and looks into other processes; System V and POSIX objects.

use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};

use calibrun_sandbox::{Effect, Mark, Outcome, Pass, Place, Termination};

use crate::host::cases;
use crate::raw::{self, Arg, call};
use crate::stage::{Asked, Stage};
use crate::subject::say;

cases! {
    Nothing =>
        somebody_elses_process_is_out_of_reach_in_the_denied_pass
        own_processes_may_be_signalled
        everybody_is_more_than_the_arm_in_the_denied_pass
        the_runners_own_processes_are_marked
        nothing_of_another_process_can_be_read_that_leads_out
        shared_objects_of_the_host_are_refused_in_the_denied_pass;
    Pids =>
        somebody_elses_process_is_absent_in_the_contained_pass
        shared_objects_are_private_in_the_contained_pass;
}

/// A process of the same user that is none of the arm's.
struct Bystander(Child);

impl Bystander {
    fn start() -> Bystander {
        let child = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .spawn();
        let bystander = Bystander(child.expect("start a process"));
        while !bystander.condition().0.starts_with('S') {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        bystander
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// State, limits and priority, which nobody may have changed.
    fn condition(&self) -> (String, String) {
        let read = |file: &str| {
            fs::read_to_string(format!("/proc/{}/{file}", self.0.id())).expect("still there")
        };
        let stat = read("stat");
        let fields: Vec<_> = stat.split_whitespace().collect();
        // State, priority and nice value.
        let state = format!("{} {} {}", fields[2], fields[17], fields[18]);
        (state, read("limits"))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How one process can act on another, and what the attempt is called.
const WAYS: &[(&str, Effect)] = &[
    ("kill", Effect::Signal),
    ("tkill", Effect::Signal),
    ("tgkill", Effect::Signal),
    ("queue", Effect::Signal),
    ("pidfd-signal", Effect::Signal),
    ("pidfd-getfd", Effect::Signal),
    ("attach", Effect::Signal),
    ("write-memory", Effect::Signal),
    ("prlimit", Effect::Limit),
    ("setpriority", Effect::Limit),
    ("ioprio", Effect::Limit),
    ("affinity", Effect::Limit),
    ("scheduler", Effect::Limit),
];

/// A subject: does to process `pid` all that one process can do to another.
pub(crate) fn touch_process(pid: i32) -> io::Result<()> {
    let n = |value: i64| Arg::N(value);
    let who = || n(pid.into());
    let stop = || n(libc::SIGSTOP.into());
    say("kill", call(libc::SYS_kill, &mut [who(), stop()]));
    say("tkill", call(libc::SYS_tkill, &mut [who(), stop()]));
    say(
        "tgkill",
        call(libc::SYS_tgkill, &mut [who(), who(), stop()]),
    );
    // siginfo_t with si_code SI_QUEUE.
    let mut info = [0u8; 128];
    info[0] = libc::SIGSTOP as u8;
    info[8..12].copy_from_slice(&(-1i32).to_ne_bytes());
    say(
        "queue",
        call(
            libc::SYS_rt_sigqueueinfo,
            &mut [who(), stop(), Arg::R(&info)],
        ),
    );
    let pidfd = call(libc::SYS_pidfd_open, &mut [who(), n(0)]);
    match pidfd {
        Ok(fd) => {
            say(
                "pidfd-signal",
                call(
                    libc::SYS_pidfd_send_signal,
                    &mut [n(fd), stop(), n(0), n(0)],
                ),
            );
            say(
                "pidfd-getfd",
                call(libc::SYS_pidfd_getfd, &mut [n(fd), n(1), n(0)]),
            );
        }
        Err(_) => println!("pidfd-signal no-pidfd\npidfd-getfd no-pidfd"),
    }
    say(
        "attach",
        call(
            libc::SYS_ptrace,
            &mut [n(libc::PTRACE_ATTACH.into()), who(), n(0), n(0)],
        ),
    );
    let byte = [1u8];
    // struct iovec: where, how much. The far address is wrong on purpose.
    let near: Vec<u8> = [byte.as_ptr() as u64, 1]
        .iter()
        .flat_map(|v| v.to_ne_bytes())
        .collect();
    let far: Vec<u8> = [0x1000u64, 1]
        .iter()
        .flat_map(|v| v.to_ne_bytes())
        .collect();
    say(
        "write-memory",
        call(
            libc::SYS_process_vm_writev,
            &mut [who(), Arg::R(&near), n(1), Arg::R(&far), n(1), n(0)],
        ),
    );
    let limit: Vec<u8> = [16u64, 16].iter().flat_map(|v| v.to_ne_bytes()).collect();
    say(
        "prlimit",
        call(
            libc::SYS_prlimit64,
            &mut [who(), n(libc::RLIMIT_NOFILE.into()), Arg::R(&limit), n(0)],
        ),
    );
    say(
        "setpriority",
        call(libc::SYS_setpriority, &mut [n(0), who(), n(15)]),
    );
    say(
        "ioprio",
        call(libc::SYS_ioprio_set, &mut [n(1), who(), n(3 << 13)]),
    );
    say(
        "affinity",
        call(
            libc::SYS_sched_setaffinity,
            &mut [who(), n(8), Arg::R(&1u64.to_ne_bytes())],
        ),
    );
    say(
        "scheduler",
        call(
            libc::SYS_sched_setscheduler,
            &mut [
                who(),
                n(libc::SCHED_BATCH.into()),
                Arg::R(&0i32.to_ne_bytes()),
            ],
        ),
    );
    Ok(())
}

fn somebody_elses_process_is_out_of_reach_in_the_denied_pass() {
    let bystander = Bystander::start();
    let before = bystander.condition();
    let run = Stage::new(Pass::Denied).subject("touch-process", &[bystander.pid().as_ref()]);
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    for (way, _) in WAYS {
        assert_ne!(run.said(way), "done", "{}", run.out());
    }
    for effect in [Effect::Signal, Effect::Limit] {
        let expected = WAYS.iter().filter(|(_, e)| *e == effect).count();
        assert_eq!(run.count(effect), expected as u64, "{}", run.list());
    }
    for attempt in &run.attempts {
        assert_eq!(
            (attempt.place, attempt.outcome),
            (Place::Outside, Outcome::Denied),
            "{}",
            run.list()
        );
        assert!(attempt.marks.is_empty());
    }
    assert_eq!(bystander.condition(), before);
    // The same acts do reach it from here.
    let output = crate::host::this_program()
        .args([crate::subject::ROLE, "touch-process", &bystander.pid()])
        .output()
        .expect("run it unconfined");
    assert!(String::from_utf8_lossy(&output.stdout).contains("kill done"));
    assert_ne!(bystander.condition(), before);
}

fn somebody_elses_process_is_absent_in_the_contained_pass() {
    let bystander = Bystander::start();
    let before = bystander.condition();
    let run = Stage::new(Pass::Contained).subject("touch-process", &[bystander.pid().as_ref()]);
    for (way, _) in WAYS.iter().filter(|(way, _)| !way.starts_with("pidfd")) {
        assert!(run.said(way).starts_with("ESRCH"), "{way}: {}", run.out());
    }
    for attempt in &run.attempts {
        assert_eq!(
            (attempt.place, attempt.outcome),
            (Place::Outside, Outcome::NoOp)
        );
        assert!(attempt.marks.contains(&Mark::AbsentHere), "{}", run.list());
    }
    assert_eq!(bystander.condition(), before);
    // A number that nobody has anywhere is a plain no-op.
    let run = Stage::new(Pass::Contained).sh("kill 4194303");
    let found = run.expect(Effect::Signal, Place::Outside, Outcome::NoOp, "");
    assert!(found.marks.is_empty(), "{}", run.list());
}

/// A subject: a child, its own group and itself.
pub(crate) fn touch_own_processes() -> io::Result<()> {
    let child = raw::fork_with(0);
    if child == 0 {
        std::thread::sleep(std::time::Duration::from_secs(30));
        std::process::exit(0);
    }
    let n = |value: i64| Arg::N(value);
    say(
        "limit",
        call(libc::SYS_setpriority, &mut [n(0), n(child), n(10)]),
    );
    say(
        "child",
        call(libc::SYS_kill, &mut [n(child), n(libc::SIGKILL.into())]),
    );
    nix::sys::wait::wait()?;
    say(
        "gone",
        call(libc::SYS_kill, &mut [n(child), n(libc::SIGTERM.into())]),
    );
    // Nothing comes of SIGURG and SIGCONT.
    say(
        "group",
        call(libc::SYS_kill, &mut [n(0), n(libc::SIGCONT.into())]),
    );
    say(
        "own-group",
        call(
            libc::SYS_kill,
            &mut [
                n(-i64::from(nix::unistd::getpgrp().as_raw())),
                n(libc::SIGURG.into()),
            ],
        ),
    );
    say("ask", call(libc::SYS_kill, &mut [n(1), n(0)]));
    Ok(())
}

fn own_processes_may_be_signalled() {
    for pass in [Pass::Denied, Pass::Contained] {
        let run = Stage::new(pass).subject("own-processes", &[]);
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.list());
        for word in ["limit", "child", "group", "own-group"] {
            assert_eq!(run.said(word), "done", "{word}: {}", run.list());
        }
        assert!(run.said("gone").starts_with("ESRCH"));
        for attempt in &run.attempts {
            let expected = if attempt.outcome == Outcome::NoOp {
                Place::Outside
            } else {
                Place::Itself
            };
            assert_eq!(attempt.place, expected, "{}", run.list());
            assert!(attempt.marks.is_empty(), "{}", run.list());
        }
        // Asking with signal 0 is none: child, gone and two groups.
        assert_eq!(run.count(Effect::Signal), 4, "{}", run.list());
    }
}

fn everybody_is_more_than_the_arm_in_the_denied_pass() {
    let bystander = Bystander::start();
    let before = bystander.condition();
    let run = Stage::new(Pass::Denied).sh("kill -STOP -1; echo after");
    assert_eq!(run.out(), "after\n");
    run.expect(Effect::Signal, Place::Outside, Outcome::Denied, "");
    assert_eq!(bystander.condition(), before);
    if Command::new("pkill").arg("--version").output().is_ok() {
        // What looks for others finds them there, and is seen.
        let run = Stage::new(Pass::Denied).sh("pkill -STOP -x sleep");
        assert!(run.count(Effect::Signal) >= 1, "{}", run.list());
        assert_eq!(bystander.condition(), before);
    }
}

fn the_runners_own_processes_are_marked() {
    for pass in [Pass::Denied, Pass::Contained] {
        let run = Stage::new(pass).sh("kill -URG $PPID; echo after");
        assert_eq!(run.out(), "after\n");
        let found = run.expect(Effect::Signal, Place::Outside, Outcome::Denied, "");
        assert!(found.marks.contains(&Mark::Runner), "{}", run.list());
    }
}

/// A subject: looks at what of process `pid` would lead out of the sandbox.
pub(crate) fn look_into(pid: i32) -> io::Result<()> {
    let entry = |name: &str| format!("/proc/{pid}/{name}");
    say("root", fs::read_dir(entry("root/")));
    say("fd", fs::read_link(entry("fd/0")));
    say("fd-open", fs::File::open(entry("fd/0")));
    say("mem", fs::File::open(entry("mem")));
    say("environ", fs::read(entry("environ")));
    say("cwd", fs::read_link(entry("cwd")));
    Ok(())
}

fn nothing_of_another_process_can_be_read_that_leads_out() {
    let bystander = Bystander::start();
    let run = Stage::new(Pass::Denied).subject("look-into", &[bystander.pid().as_ref()]);
    for word in ["root", "fd", "fd-open", "mem", "environ", "cwd"] {
        assert_ne!(run.said(word), "done", "{word}");
    }
    run.expect_nothing();
    // The runner's init, which holds nothing back but what Landlock keeps from its child.
    let run = Stage::new(Pass::Contained)
        .sh("ls /proc/$PPID/root/ || echo refused; cat /proc/$PPID/environ");
    assert_eq!(run.out(), "refused\n", "{}", run.list());
}

/// A subject: makes, uses and removes one object of each kind.
pub(crate) fn use_ipc_objects() -> io::Result<()> {
    let n = |value: i64| Arg::N(value);
    let create = i64::from(libc::IPC_CREAT | 0o600);
    let key = 0x0CA1_1B00 + i64::from(std::process::id() as u8);
    let memory = call(libc::SYS_shmget, &mut [n(key), n(4096), n(create)]);
    let semaphores = call(libc::SYS_semget, &mut [n(key), n(1), n(create)]);
    let queue = call(libc::SYS_msgget, &mut [n(key), n(create)]);
    for (word, made, control) in [
        ("memory", memory, libc::SYS_shmctl),
        ("semaphores", semaphores, libc::SYS_semctl),
        ("queue", queue, libc::SYS_msgctl),
    ] {
        match made {
            Ok(id) => {
                say(word, Ok(()));
                let mut args = if control == libc::SYS_semctl {
                    [n(id), n(0), n(libc::IPC_RMID.into()), n(0)]
                } else {
                    [n(id), n(libc::IPC_RMID.into()), n(0), n(0)]
                };
                say(&format!("{word}-removed"), call(control, &mut args));
            }
            Err(e) => say::<()>(word, Err(e)),
        }
    }
    say(
        "posix-queue",
        call(
            libc::SYS_mq_open,
            &mut [
                Arg::S(c"calibrun-test"),
                n((libc::O_CREAT | libc::O_RDWR).into()),
                n(0o600),
                n(0),
            ],
        ),
    );
    say(
        "posix-queue-removed",
        call(libc::SYS_mq_unlink, &mut [Arg::S(c"calibrun-test")]),
    );
    // Keyrings are no namespace's, so there is no private one.
    say(
        "key",
        call(
            libc::SYS_add_key,
            &mut [
                Arg::S(c"user"),
                Arg::S(c"calibrun-test"),
                Arg::R(b"x"),
                n(1),
                n(-4),
            ],
        ),
    );
    // Looking something up that is not there makes nothing.
    say(
        "looked-up",
        call(libc::SYS_shmget, &mut [n(key), n(1), n(0)]),
    );
    Ok(())
}

fn shared_objects_of_the_host_are_refused_in_the_denied_pass() {
    let run = Stage::new(Pass::Denied).subject("ipc-objects", &[]);
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    for word in ["memory", "semaphores", "queue", "posix-queue", "key"] {
        assert_ne!(run.said(word), "done", "{}", run.out());
    }
    for attempt in &run.attempts {
        assert_ne!(attempt.outcome, Outcome::Allowed, "{}", run.list());
    }
    assert_eq!(run.count(Effect::Create), 4, "{}", run.list());
    run.expect(Effect::Kernel, Place::Outside, Outcome::Denied, "add_key");
}

fn shared_objects_are_private_in_the_contained_pass() {
    let run = Stage::new(Pass::Contained).subject("ipc-objects", &[]);
    for word in [
        "memory",
        "memory-removed",
        "semaphores",
        "semaphores-removed",
        "queue",
        "queue-removed",
    ] {
        assert_eq!(run.said(word), "done", "{word}: {}", run.list());
    }
    for attempt in run.attempts.iter().filter(|a| a.effect != Effect::Kernel) {
        assert_eq!(
            (attempt.place, attempt.outcome),
            (Place::Ipc, Outcome::Allowed)
        );
    }
    assert_ne!(run.said("key"), "done");
    run.expect(Effect::Kernel, Place::Outside, Outcome::Denied, "add_key");
}
