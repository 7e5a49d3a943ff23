//! How a run ends: by itself, by a deadline, by the caller, or because the runner was killed.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use calibrun_sandbox::{Effect, Gap, Outcome, Pass, Place, RunError, Termination};
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::setsid;

use crate::host::{cases, this_program};
use crate::raw;
use crate::stage::{Asked, Stage, remove};

cases! {
    Nothing =>
        exit_codes_and_signals_are_told_apart
        a_deadline_is_a_term_signal_a_grace_and_a_kill
        a_trap_handler_acts_within_the_grace_and_is_seen
        the_deadlines_signal_reaches_the_whole_group
        a_stopped_subject_is_ended
        what_runs_on_within_the_linger_is_observed_to_its_end
        what_outlives_the_linger_is_killed_and_told
        a_daemon_that_left_its_session_does_not_write_later
        a_child_that_holds_standard_output_does_not_hold_the_run
        output_beyond_the_cap_is_drained_and_counted
        a_caller_can_interrupt
        nothing_outlives_a_killed_runner
        two_runs_at_once_do_not_meet
        a_hundred_pipelines_run_to_their_end
        the_time_is_that_of_the_arm;
}

fn short(stage: &mut Stage, timeout: u64, linger: u64) {
    stage.limits.timeout = Duration::from_millis(timeout);
    stage.limits.linger = Duration::from_millis(linger);
    stage.limits.grace = Duration::from_millis(300);
}

fn exit_codes_and_signals_are_told_apart() {
    let stage = Stage::new(Pass::Contained);
    for (script, expected) in [
        ("exit 0", Termination::Exited(0)),
        ("exit 7", Termination::Exited(7)),
        ("exit 255", Termination::Exited(255)),
        ("kill -KILL $$", Termination::Signaled(9)),
        ("kill -TERM $$; sleep 5", Termination::Signaled(15)),
        ("kill -PIPE $$", Termination::Signaled(13)),
    ] {
        let run = stage.sh(script);
        assert_eq!(run.termination, expected, "{script}");
        assert!(run.gaps.iter().all(|g| *g != Gap::OutlivedArm));
        if script.starts_with("kill") {
            run.expect(Effect::Signal, Place::Itself, Outcome::Allowed, "");
        }
    }
}

fn a_deadline_is_a_term_signal_a_grace_and_a_kill() {
    let mut stage = Stage::new(Pass::Contained);
    short(&mut stage, 300, 5000);
    let start = Instant::now();
    let run = stage.sh("sleep 60");
    assert_eq!(run.termination, Termination::TimedOut);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(20), "one that obeys: {took:?}");
    assert!(took >= Duration::from_millis(300));
    let start = Instant::now();
    let run = stage.sh("trap '' TERM; while :; do sleep 60; done");
    assert_eq!(run.termination, Termination::TimedOut);
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(600), "the grace: {took:?}");
    assert!(
        took < Duration::from_secs(20),
        "one that does not: {took:?}"
    );
    // One that is done in time is none of it.
    short(&mut stage, 20_000, 5000);
    let run = stage.sh("exit 3");
    assert_eq!(run.termination, Termination::Exited(3));
}

fn a_trap_handler_acts_within_the_grace_and_is_seen() {
    for pass in [Pass::Denied, Pass::Contained] {
        let mut stage = Stage::new(pass);
        short(&mut stage, 1500, 5000);
        stage.limits.grace = Duration::from_secs(10);
        let run = stage.sh("trap 'rm -f w/file; exit 0' TERM; while :; do sleep 0.05; done");
        assert_eq!(run.termination, Termination::TimedOut);
        let outcome = if pass == Pass::Denied {
            Outcome::Denied
        } else {
            Outcome::Allowed
        };
        run.expect(Effect::Remove, Place::Worktree, outcome, "w/file");
        assert_eq!(stage.in_clone("w/file").exists(), pass == Pass::Denied);
    }
}

fn the_deadlines_signal_reaches_the_whole_group() {
    let mut stage = Stage::new(Pass::Contained);
    short(&mut stage, 1500, 5000);
    let run = stage.sh(
        "sh -c 'trap \"echo child >> w/file; exit\" TERM; while :; do sleep 0.05; done' & \
         trap 'wait; exit 0' TERM; while :; do sleep 0.05; done",
    );
    assert_eq!(run.termination, Termination::TimedOut);
    let text = fs::read_to_string(stage.in_clone("w/file")).expect("read");
    assert_eq!(text, "text\nchild\n", "{}", run.list());
}

/// A subject: stops itself for good.
pub(crate) fn stop_itself() -> io::Result<()> {
    raise(Signal::SIGSTOP)?;
    println!("went-on done");
    Ok(())
}

fn a_stopped_subject_is_ended() {
    for pass in [Pass::Denied, Pass::Contained] {
        let mut stage = Stage::new(pass);
        short(&mut stage, 300, 5000);
        let run = stage.subject("stop-itself", &[]);
        assert_eq!(run.termination, Termination::TimedOut);
        assert_eq!(run.out(), "");
    }
}

fn what_runs_on_within_the_linger_is_observed_to_its_end() {
    for pass in [Pass::Denied, Pass::Contained] {
        let mut stage = Stage::new(pass);
        stage.limits.linger = Duration::from_secs(30);
        let start = Instant::now();
        let run = stage.sh("(sleep 1.5; mkdir late) & exit 2");
        assert_eq!(run.termination, Termination::Exited(2));
        assert!(!run.gaps.contains(&Gap::OutlivedArm), "{}", run.list());
        assert!(run.on("/late")[0].effect == Effect::Create);
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "no longer than it takes"
        );
        assert!(
            run.elapsed < Duration::from_millis(1400),
            "the arm itself was done"
        );
    }
}

fn what_outlives_the_linger_is_killed_and_told() {
    for pass in [Pass::Denied, Pass::Contained] {
        let mut stage = Stage::new(pass);
        short(&mut stage, 20_000, 100);
        let mark = format!("6{}.5", std::process::id());
        let run = stage.sh(&format!("sleep {mark} & sleep {mark} & exit 0"));
        assert_eq!(run.termination, Termination::Exited(0));
        assert!(run.gaps.contains(&Gap::OutlivedArm), "{}", run.list());
        assert_eq!(marked(&mark), Vec::<PathBuf>::new());
    }
}

/// Processes with `mark` in their arguments.
fn marked(mark: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").expect("list").flatten();
    let own = PathBuf::from(format!("/proc/{}", std::process::id()));
    entries
        .map(|e| e.path())
        .filter(|p| {
            *p != own
                && fs::read(p.join("cmdline"))
                    .is_ok_and(|line| line.windows(mark.len()).any(|part| part == mark.as_bytes()))
        })
        .collect()
}

/// A subject: leaves a grandchild in a session of its own that writes after `millis`.
pub(crate) fn leave_a_daemon(file: &Path, millis: i32) -> io::Result<()> {
    if raw::fork_with(0) != 0 {
        return Ok(());
    }
    setsid()?;
    if raw::fork_with(0) != 0 {
        std::process::exit(0);
    }
    std::thread::sleep(Duration::from_millis(millis as u64));
    fs::write(file, "late\n")
}

fn a_daemon_that_left_its_session_does_not_write_later() {
    let mut stage = Stage::new(Pass::Contained);
    short(&mut stage, 20_000, 100);
    let run = stage.subject("daemon", &["w/file".as_ref(), "700".as_ref()]);
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    assert!(run.gaps.contains(&Gap::OutlivedArm));
    std::thread::sleep(Duration::from_millis(900));
    let text = fs::read_to_string(stage.in_clone("w/file")).expect("read");
    assert_eq!(text, "text\n");
    // One that writes while it is waited for is seen.
    short(&mut stage, 20_000, 20_000);
    let run = stage.subject("daemon", &["w/file".as_ref(), "100".as_ref()]);
    assert!(!run.gaps.contains(&Gap::OutlivedArm));
    run.expect(
        Effect::Truncate,
        Place::Worktree,
        Outcome::Allowed,
        "w/file",
    );
    let text = fs::read_to_string(stage.in_clone("w/file")).expect("read");
    assert_eq!(text, "late\n");
}

fn a_child_that_holds_standard_output_does_not_hold_the_run() {
    let mut stage = Stage::new(Pass::Denied);
    short(&mut stage, 20_000, 200);
    let start = Instant::now();
    let run = stage.sh("sleep 30 & echo said; exit 0");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(run.out(), "said\n");
    assert!(run.gaps.contains(&Gap::OutlivedArm));
}

fn output_beyond_the_cap_is_drained_and_counted() {
    let mut stage = Stage::new(Pass::Denied);
    stage.limits.output_cap = 1000;
    let run = stage.sh("head -c 3000000 /dev/zero; head -c 1000 /dev/zero >&2; exit 5");
    assert_eq!(run.termination, Termination::Exited(5));
    assert_eq!(
        (run.stdout.bytes.len(), run.stdout.dropped),
        (1000, 2_999_000)
    );
    assert_eq!((run.stderr.bytes.len(), run.stderr.dropped), (1000, 0));
}

fn a_caller_can_interrupt() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let mark = format!("7{}.5", std::process::id());
        let start = Instant::now();
        let interrupted = || start.elapsed() > Duration::from_millis(300);
        let script = format!("sleep {mark} & sleep {mark}");
        let argv = ["sh", "-c", &script].map(AsRef::as_ref);
        let result = stage.try_run(&argv, &interrupted);
        assert!(matches!(result, Err(RunError::Interrupted)), "{result:?}");
        assert!(start.elapsed() < Duration::from_secs(20));
        assert_eq!(marked(&mark), Vec::<PathBuf>::new());
    }
}

fn nothing_outlives_a_killed_runner() {
    for pass in [Pass::Denied, Pass::Contained] {
        let mark = format!("calibrun-marks-{}-{pass}", std::process::id());
        let mut runner = this_program()
            .args([crate::drive::ROLE, pass.name(), &mark])
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a runner");
        let mut lines = BufReader::new(runner.stdout.take().expect("its output")).lines();
        let mut line = || PathBuf::from(lines.next().expect("a line").expect("text"));
        let (clone, repo) = (line(), line());
        let wait = |what: &dyn Fn() -> bool| {
            let until = Instant::now() + Duration::from_secs(30);
            while !what() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            what()
        };
        assert!(
            wait(&|| marked(&mark).len() >= 4),
            "the subject has started"
        );
        let size = || fs::metadata(clone.join("w/file")).expect("look").len();
        if pass == Pass::Contained {
            assert!(wait(&|| size() > 100), "the subject writes");
        }
        runner.kill().expect("kill the runner");
        let pid = runner.id();
        runner.wait().expect("bury the runner");
        let gone = wait(&|| marked(&mark).is_empty());
        let left = marked(&mark);
        for process in &left {
            let pid = process.file_name().and_then(|n| n.to_str()?.parse().ok());
            let _ = kill(
                nix::unistd::Pid::from_raw(pid.expect("a number")),
                Signal::SIGKILL,
            );
        }
        let before = size();
        std::thread::sleep(Duration::from_millis(200));
        let after = size();
        for top in [clone, repo] {
            remove(top.parent().expect("a folder of the test's own"));
        }
        let _ = fs::remove_dir_all(format!("/tmp/calibrun-{pid}-0-shared"));
        assert!(gone, "{pass}: left were {left:?}");
        assert_eq!(before, after, "{pass}: nothing is written any more");
    }
}

fn two_runs_at_once_do_not_meet() {
    let pair = |word: &'static str| {
        std::thread::spawn(move || {
            let stage = Stage::new(Pass::Contained);
            let script = format!(
                "echo {word} > w/file; echo {word} > \"$TMPDIR/x\"; sleep 0.2; \
                 cat w/file \"$TMPDIR/x\"; ls \"$TMPDIR\""
            );
            (0..3)
                .map(|_| {
                    let run = stage.sh(&script);
                    (run.out(), run.count(Effect::Truncate), run.tmpdir)
                })
                .collect::<Vec<_>>()
        })
    };
    let (one, two) = (pair("one"), pair("two"));
    let (one, two) = (one.join().expect("one"), two.join().expect("two"));
    for (runs, word) in [(&one, "one"), (&two, "two")] {
        for (out, truncated, _) in runs {
            assert_eq!(*out, format!("{word}\n{word}\nx\n"));
            assert_eq!(*truncated, 1);
        }
    }
    assert!(one.iter().all(|a| two.iter().all(|b| a.2 != b.2)));
}

fn a_hundred_pipelines_run_to_their_end() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let run = stage.sh(
            r#"i=0; while [ $i -lt 100 ]; do printf 'b\na\n' | sort | head -n 1; i=$((i+1)); done"#,
        );
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        assert_eq!(run.out(), "a\n".repeat(100));
        assert_eq!(run.err(), "");
    }
}

fn the_time_is_that_of_the_arm() {
    let stage = Stage::new(Pass::Denied);
    let run = stage.sh("sleep 2");
    // Counted from when the runner hears of the start, so on a busy host a little less.
    assert!(run.elapsed >= Duration::from_millis(1000));
    assert!(run.elapsed < Duration::from_secs(20));
    // What is waited for afterwards is not of it.
    assert!(stage.sh("sleep 2 & exit").elapsed < Duration::from_millis(1900));
}
