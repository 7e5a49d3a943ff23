//! Sessions that are ended from outside: nothing of the subject stays, and nothing of calibrun.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::environment::{
    Session, TestEnvironment, leaving_nothing, remove_root, temp_roots, wait_until,
};
use super::snapshot::Snapshot;

/// Seconds of a sleep that nobody else sleeps; names the processes of one test.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{number:03}", 100_000 + std::process::id())
}

/// Processes that sleep `seconds`.
fn sleepers(seconds: &str) -> Vec<i32> {
    let wanted = format!("sleep\0{seconds}\0");
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid: &i32| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == wanted.as_bytes())
        })
        .collect()
}

fn start(env: &TestEnvironment, repo: &std::path::Path, script: &str) -> Child {
    let mut command = env.calibrun(
        repo,
        &["observe", "--format", "json", "--", "sh", "-c", script],
    );
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("calibrun starts")
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("calibrun is there");
}

/// Starts an arm that sleeps in the foreground and in the background, sends `signals`, and asserts the end.
fn ends_at_once(script: &str, signals: &[Signal]) {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let before = Snapshot::of(&env.base());
    let seconds = unique();
    let session = leaving_nothing(|| {
        let child = start(&env, &repo, &script.replace("SECONDS", &seconds));
        wait_until("both sleep", || sleepers(&seconds).len() == 2);
        for signal in signals {
            send(&child, *signal);
        }
        Session::after(child)
    });
    assert_eq!(sleepers(&seconds), [] as [i32; 0]);
    let session = session.exits(10).complains(&["interrupted"]);
    assert_eq!(session.stdout, "", "{session}");
    before.still_holds(&env.base());
}

const DENIED: &str = "trap '' INT TERM HUP; setsid sleep SECONDS & sleep SECONDS";
/// Sleeps only where it can write.
const CONTAINED: &str = "touch made 2>/dev/null || exit 0; sleep SECONDS & exec sleep SECONDS";

#[test]
fn an_interrupt_ends_the_subject_with_its_children_and_removes_the_clone() {
    ends_at_once(DENIED, &[Signal::SIGINT]);
}

#[test]
fn so_does_a_termination_in_the_contained_pass() {
    ends_at_once(CONTAINED, &[Signal::SIGTERM]);
}

#[test]
fn so_does_a_lost_terminal() {
    ends_at_once(CONTAINED, &[Signal::SIGHUP]);
}

#[test]
fn a_second_signal_does_not_cut_the_cleaning_short() {
    ends_at_once(CONTAINED, &[Signal::SIGINT, Signal::SIGINT]);
    ends_at_once(DENIED, &[Signal::SIGTERM, Signal::SIGINT, Signal::SIGTERM]);
}

/// Removes what a killed calibrun left: the temp root whose clone holds `marker`.
fn remove_root_with(marker: &str) -> Option<PathBuf> {
    let holds = |root: &PathBuf| {
        let mut names = walkdir::WalkDir::new(root)
            .max_depth(3)
            .into_iter()
            .flatten();
        names.any(|entry| entry.file_name().to_str() == Some(marker))
    };
    let root = temp_roots().into_iter().find(holds)?;
    remove_root(&root);
    Some(root)
}

#[test]
fn when_calibrun_is_killed_the_subject_goes_with_it() {
    for script in [DENIED, CONTAINED] {
        let env = TestEnvironment::new();
        let repo = env.repo("field");
        let seconds = unique();
        let marker = format!("marker-{seconds}");
        fs::write(repo.join(&marker), "").unwrap();
        let before = Snapshot::of(&env.base());
        let mut child = start(&env, &repo, &script.replace("SECONDS", &seconds));
        wait_until("both sleep", || sleepers(&seconds).len() == 2);
        send(&child, Signal::SIGKILL);
        child.wait().expect("calibrun ends");
        wait_until("the subject is gone", || sleepers(&seconds).is_empty());
        before.still_holds(&env.base());
        // Nobody was left to remove it; it keeps a name that tells whose it is.
        assert!(remove_root_with(&marker).is_some());
    }
}
