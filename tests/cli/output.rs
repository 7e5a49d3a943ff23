//! What reaches the terminal: data on standard output, the rest on standard error, nothing raw.

use std::path::PathBuf;
use std::process::Command;

use super::environment::{Session, TestEnvironment, binary, leaving_nothing, remove_root, write};

/// A repo whose capability prints, names and complains in escape sequences.
fn loud(env: &TestEnvironment) -> PathBuf {
    let repo = env.fixture("honest");
    let script = "#!/bin/sh
printf '\\033[31mred\\033]0;title\\007\\n'
printf '\\033[2J\\033[31mcleared\\033]0;title\\007\\n' >&2
: >\"$(printf 'a\\033[31mb')\"
exit 77
";
    write(&repo.join("scripts/scan_leaks.sh"), script);
    repo
}

#[test]
fn what_a_subject_prints_reaches_the_terminal_as_text() {
    let env = TestEnvironment::new();
    let repo = loud(&env);
    let plain = env.run(&repo, &["probe", "--color", "never", "."]).exits(1);
    let all = format!("{}{}", plain.stdout, plain.stderr);
    assert!(!all.contains('\u{1b}') && !all.contains('\u{7}'), "{all:?}");
    let plain = plain.says(&[
        "create a\\u{1b}[31mb",
        "stderr: \\u{1b}[2J\\u{1b}[31mcleared\\u{1b}]0;title\\u{7}",
    ]);
    // In colour there are calibrun's own sequences and no other.
    let coloured = env
        .run(&repo, &["probe", "--color", "always", "."])
        .exits(1);
    assert!(coloured.stdout.contains("\u{1b}["), "{coloured}");
    assert_eq!(
        without_colour(&coloured.stdout).lines().count(),
        plain.stdout.lines().count()
    );
    assert!(!without_colour(&coloured.stdout).contains('\u{1b}'));
    for raw in [
        "\u{1b}[2J",
        "\u{1b}]0;",
        "\u{1b}[31mred",
        "\u{1b}[31mcleared",
        "\u{7}",
    ] {
        assert!(!coloured.stdout.contains(raw), "{raw:?} in {coloured}");
    }
    let json = env.run(&repo, &["probe", "--format", "json", "."]).exits(1);
    assert!(!json.stdout.contains('\u{1b}'), "{json}");
    let text = &json.capability()["arms"][0]["passes"][0]["stdout"]["text"];
    assert_eq!(text, "\u{1b}[31mred\u{1b}]0;title\u{7}\n");
}

/// Without sequences that only set colours.
fn without_colour(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..at]);
        let sequence = &rest[at + 2..];
        match sequence.find(|c: char| !c.is_ascii_digit() && c != ';') {
            Some(end) if sequence[end..].starts_with('m') => rest = &sequence[end + 1..],
            _ => {
                plain.push_str("\u{1b}[");
                rest = sequence;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[test]
fn where_there_is_no_terminal_there_is_no_colour_and_no_progress() {
    let env = TestEnvironment::new();
    let repo = env.fixture("incident");
    let auto = env.run(&repo, &["probe", "."]).exits(1);
    assert!(!auto.stdout.contains('\u{1b}'), "{auto}");
    assert_eq!(auto.stderr, "");
    let mut never = env.calibrun(&repo, &["probe", "--color=never", "."]);
    never.env("CLICOLOR_FORCE", "1");
    assert!(!Session::of(never).stdout.contains('\u{1b}'));
    let always = env.run(&repo, &["probe", "--color=always", "."]).exits(1);
    assert!(always.stdout.contains("\u{1b}["), "{always}");
    // An error is coloured by the same rule.
    let args = ["probe", "--color=always", "missing.cap"];
    assert!(env.run(&repo, &args).exits(10).stderr.contains("\u{1b}["));
    let args = ["probe", "missing.cap"];
    assert!(!env.run(&repo, &args).exits(10).stderr.contains('\u{1b}'));
}

/// Runs calibrun on a terminal of its own, and gives all that it wrote there.
fn on_a_terminal(
    env: &TestEnvironment,
    dir: &std::path::Path,
    args: &[&str],
    no_color: bool,
) -> Session {
    let program = "
import os, pty, sys
code = pty.spawn(sys.argv[1:], lambda fd: os.read(fd, 65536))
sys.exit(os.waitstatus_to_exitcode(code))
";
    let like = env.calibrun(dir, args);
    let mut command = Command::new("python3");
    command.args(["-c", program]).arg(binary()).args(args);
    command.current_dir(dir).env_clear();
    command.envs(
        like.get_envs()
            .filter_map(|(key, value)| Some((key, value?))),
    );
    command.env("TERM", "xterm");
    if no_color {
        command.env("NO_COLOR", "1");
    }
    command.stdin(std::process::Stdio::null());
    Session::of(command)
}

#[test]
fn a_terminal_gets_colour_and_progress_unless_they_are_unwanted() {
    let env = TestEnvironment::new();
    let repo = env.fixture("honest");
    let session = on_a_terminal(&env, &repo, &["probe", "."], false).exits(0);
    let session = session.says(&["honest:leak-scan: controls", "\u{1b}["]);
    assert!(session.stdout.contains("within-claim"), "{session}");
    let quiet = on_a_terminal(&env, &repo, &["probe", "--quiet", "."], true).exits(0);
    assert!(!quiet.stdout.contains("controls"), "{quiet}");
    assert!(!quiet.stdout.contains('\u{1b}'), "{quiet}");
}

#[test]
fn what_is_kept_is_told_and_all_else_is_gone() {
    let env = TestEnvironment::new();
    let repo = env.fixture("incident");
    for options in [&["--keep"][..], &["--keep", "--quiet"]] {
        let args = [&["probe"][..], options, &["."]].concat();
        let session = env.run(&repo, &args).exits(1);
        let kept: Vec<&str> = session
            .stderr
            .lines()
            .filter_map(|line| line.strip_prefix("kept: "))
            .collect();
        assert_eq!(kept.len(), 1, "{session}");
        let root = PathBuf::from(kept[0]);
        assert!(root.is_dir(), "{session}");
        let mut inside = walkdir::WalkDir::new(&root).into_iter().flatten();
        let clone = inside.any(|e| e.path().ends_with("scripts/scan_leaks.sh"));
        assert!(clone, "no clone in {}", root.display());
        remove_root(&root);
    }
    leaving_nothing(|| env.run(&repo, &["probe", "."])).exits(1);
}

#[test]
fn quiet_keeps_the_result_and_the_error_and_drops_the_hint() {
    let env = TestEnvironment::new();
    let repo = env.fixture("honest");
    let loud = env.run(&repo, &["probe", "."]);
    let quiet = env.run(&repo, &["probe", "-q", "."]);
    assert_eq!(loud.exits(0).stdout, quiet.exits(0).stdout);
    let mut homeless = env.calibrun(&repo, &["probe", "-q", "."]);
    homeless.env_remove("HOME");
    let session = Session::of(homeless).exits(10).complains(&["error: HOME"]);
    assert!(!session.stderr.contains("hint"), "{session}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let env = TestEnvironment::new();
    let repo = env.fixture("incident");
    let mut command = env.calibrun(&repo, &["probe", "--format", "json", "."]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("calibrun starts");
    drop(child.stdout.take());
    let session = Session::after(child).exits(1);
    assert_eq!(session.stderr, "");
}
