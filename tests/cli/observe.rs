//! `observe`, with claims and without: statuses, exit codes, and what its options do.

use serde_json::Value;

use super::environment::{Session, TestEnvironment};

const WRITE: &[&str] = &["sh", "-c", "echo more >> README.md"];
const READ: &[&str] = &["cat", "README.md"];

#[test]
fn without_claims_nothing_is_judged_and_the_exit_code_is_zero() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    for (argv, seen) in [(WRITE, "write-local"), (READ, "read-only")] {
        let mut args = vec!["observe", "--format", "json", "--"];
        args.extend(argv);
        let session = env.run(&repo, &args).exits(0);
        let capability = session.capability();
        assert_eq!(capability["verdict"], Value::Null);
        assert_eq!(capability["id"], Value::Null);
        assert_eq!(capability["declaration"], Value::Null);
        for axis in ["writes", "reversibility"] {
            let axis = &capability["axes"][axis];
            assert_eq!(axis["declared"], Value::Null);
            assert_eq!(axis["status"], Value::Null);
        }
        assert_eq!(capability["axes"]["writes"]["observed"], seen);
    }
    let session = env
        .run(&repo, &["observe", "--", "cat", "README.md"])
        .exits(0);
    let session = session.says(&["observed: command", "nothing claimed", "seen: read-only"]);
    assert!(!session.stdout.contains("Why"), "{session}");
}

#[test]
fn claims_give_zero_one_and_three() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let session = env.observe(&repo, &[], READ).exits(0);
    assert_eq!(session.status("writes"), "verified");
    assert_eq!(session.status("reversibility"), "verified");
    let session = env.observe(&repo, &[], WRITE).exits(1);
    assert_eq!(session.status("writes"), "contradicted");
    assert_eq!(session.status("reversibility"), "verified");
    let session = env
        .observe(&repo, &["--timeout", "500ms"], &["sleep", "30"])
        .exits(3);
    assert_eq!(session.status("writes"), "claim-only");
    assert!(session.reasons("writes").contains("arm-timed-out"));
    assert!(session.reasons("reversibility").contains("arm-timed-out"));
    let pass = &session.capability()["arms"][0]["passes"][0];
    assert_eq!(pass["termination"], "timed_out");
}

#[test]
fn one_claim_is_judged_and_the_other_axis_is_only_described() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let args = [
        "observe",
        "--format",
        "json",
        "--claim",
        "reversibility=reversible",
        "--",
    ];
    let args: Vec<&str> = args.iter().chain(WRITE).copied().collect();
    let session = env.run(&repo, &args).exits(0);
    assert_eq!(session.status("writes"), "");
    assert_eq!(session.status("reversibility"), "verified");
    let args = ["observe", "--claim", "writes=write-local", "--"];
    let args: Vec<&str> = args.iter().chain(WRITE).copied().collect();
    env.run(&repo, &args).exits(0);
}

#[test]
fn a_subject_s_exit_code_is_data_and_never_calibrun_s_own() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    for code in [1, 10, 64] {
        let exit = format!("exit {code}");
        let session = env.observe(&repo, &[], &["sh", "-c", &exit]).exits(0);
        let pass = &session.capability()["arms"][0]["passes"][1];
        assert_eq!(pass["termination"]["exited"], code);
    }
}

/// The exit code of the command in each pass.
fn codes(session: &Session) -> Vec<Option<i64>> {
    let capability = session.capability();
    let passes = capability["arms"][0]["passes"].as_array().expect("passes");
    let code = |pass: &Value| pass["termination"]["exited"].as_i64();
    passes.iter().map(code).collect()
}

#[test]
fn a_variable_reaches_an_arm_only_when_it_is_asked_for() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let argv = ["sh", "-c", "test \"$FLAG\" = yes"];
    let run = |options: &[&str], set: bool| {
        let mut args = vec!["observe", "--format", "json"];
        args.extend(options);
        args.push("--");
        args.extend(argv);
        let mut command = env.calibrun(&repo, &args);
        if set {
            command.env("FLAG", "yes");
        }
        Session::of(command)
    };
    assert_eq!(codes(&run(&[], true).exits(0)), [Some(1), Some(1)]);
    let passed = [Some(0), Some(0)];
    assert_eq!(codes(&run(&["--env", "FLAG"], true).exits(0)), passed);
    assert_eq!(codes(&run(&["--env", "FLAG=yes"], false).exits(0)), passed);
    run(&["--env", "FLAG"], false)
        .exits(64)
        .complains(&["--env", "FLAG"]);
}

#[test]
fn what_an_arm_leaves_running_is_waited_for_as_long_as_asked() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let argv = ["sh", "-c", "sleep 30 & exit 0"];
    let session = env.observe(&repo, &["--linger", "300ms"], &argv).exits(3);
    assert!(session.reasons("writes").contains("process-outlived-arm"));
    let argv = ["sh", "-c", "sleep 0.3 & exit 0"];
    let session = env.observe(&repo, &["--linger", "30s"], &argv).exits(0);
    assert_eq!(session.status("writes"), "verified");
    // What a leftover process does counts.
    let argv = [
        "sh",
        "-c",
        "(sleep 0.3; echo x > late.txt) >/dev/null 2>&1 & exit 0",
    ];
    let session = env.observe(&repo, &["--linger", "30s"], &argv).exits(1);
    assert!(session.reasons("writes").contains("write-attempted"));
}

#[test]
fn the_optional_index_refresh_counts_only_when_it_is_to() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let argv = ["git", "status", "--short"];
    let session = env.observe(&repo, &[], &argv).exits(0);
    assert_eq!(session.status("writes"), "verified");
    let session = env.observe(&repo, &["--strict"], &argv).exits(1);
    assert_eq!(session.status("writes"), "contradicted");
}

#[test]
fn a_command_runs_in_the_current_folder_of_the_repo() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let argv = ["sh", "-c", "test -f app.txt && test -f ../README.md"];
    let session = env.observe(&repo.join("src"), &[], &argv).exits(0);
    assert_eq!(codes(&session), [Some(0), Some(0)]);
    // Paths are told from the top.
    let session = env
        .observe(&repo.join("src"), &[], &["touch", "made.txt"])
        .exits(1);
    assert!(session.stdout.contains("\"src/made.txt\""), "{session}");
}
