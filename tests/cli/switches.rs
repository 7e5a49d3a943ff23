//! A layer that is missing is noticed: nothing comes out verified without it.

use std::process::Command;

use super::environment::{Session, TestEnvironment, test_binary};

/// Observes with a layer switched off, in the build that can do so.
fn without(env: &TestEnvironment, layer: &str, dir: &std::path::Path, args: &[&str]) -> Session {
    let like = env.calibrun(dir, args);
    let mut command = Command::new(test_binary());
    command.args(args).current_dir(dir).env_clear();
    command.envs(
        like.get_envs()
            .filter_map(|(key, value)| Some((key, value?))),
    );
    command.env("CALIBRUN_TEST_OFF", layer);
    Session::of(command)
}

const PROBE: &[&str] = &["probe", "--format", "json", "."];

/// Both axes of a true declaration with `layer` off: claim-only, for `code`.
fn leaves_a_true_claim_open(layer: &str, code: &str) {
    let env = TestEnvironment::new();
    let honest = env.fixture("honest");
    let session = without(&env, layer, &honest, PROBE).exits(3);
    for axis in ["writes", "reversibility"] {
        assert_eq!(session.status(axis), "claim-only", "{axis} without {layer}");
        let reasons = session.reasons(axis);
        assert!(reasons.contains(code), "{axis}: {reasons:?}");
        assert!(reasons.contains("instrument-uncalibrated"), "{reasons:?}");
    }
    let document = session.json();
    assert_eq!(document["capabilities"][0]["coverage"]["complete"], false);
    let failures = document["controls"]["failures"].as_array().map(Vec::len);
    assert!(failures.is_some_and(|n| n > 0), "{session}");
    // With every layer it would have been verified.
    let session = without(&env, "", &honest, PROBE).exits(0);
    assert_eq!(session.status("writes"), "verified");
}

#[test]
fn without_a_listener_a_true_claim_is_claim_only() {
    leaves_a_true_claim_open("listener", "no-observer");
}

#[test]
fn without_landlock_a_true_claim_is_claim_only() {
    leaves_a_true_claim_open("landlock", "no-enforcement");
}

#[test]
fn without_a_listener_effects_still_contradict() {
    let env = TestEnvironment::new();
    let repo = env.fixture("incident");
    let session = without(&env, "listener", &repo, PROBE).exits(1);
    assert_eq!(session.status("writes"), "contradicted");
    let reasons = session.reasons("writes");
    assert!(reasons.contains("effect-without-attempt"), "{reasons:?}");
    assert!(reasons.contains("no-observer"), "{reasons:?}");
    assert!(!reasons.contains("write-attempted"), "{reasons:?}");
    assert_eq!(session.status("reversibility"), "contradicted");
}

#[test]
fn without_a_listener_a_refused_write_outside_leaves_no_trace_and_stays_open() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let target = env.base().join("neighbour.txt");
    let script = format!("echo x > '{}'; exit 0", target.display());
    let claim = [
        "observe",
        "--format",
        "json",
        "--claim",
        "writes=read-only",
        "--",
    ];
    let args: Vec<&str> = claim
        .iter()
        .copied()
        .chain(["sh", "-c", script.as_str()])
        .collect();
    let session = without(&env, "listener", &repo, &args).exits(3);
    assert_eq!(session.status("writes"), "claim-only");
    assert!(!target.exists());
    let session = without(&env, "", &repo, &args).exits(1);
    assert!(session.reasons("writes").contains("outside-attempted"));
}

#[test]
fn without_landlock_seen_attempts_still_contradict() {
    let env = TestEnvironment::new();
    let repo = env.fixture("incident");
    let session = without(&env, "landlock", &repo, PROBE).exits(1);
    let reasons = session.reasons("writes");
    assert!(reasons.contains("write-attempted"), "{reasons:?}");
    assert!(reasons.contains("no-enforcement"), "{reasons:?}");
}

#[test]
fn weaker_views_judge_the_incident_and_its_twin_all_the_same() {
    let env = TestEnvironment::new();
    let (incident, honest) = (env.fixture("incident"), env.fixture("honest"));
    for layer in ["mounts", "temp-overlay", "net", "pid", "user-namespace"] {
        let session = without(&env, layer, &incident, PROBE).exits(1);
        assert_eq!(session.status("writes"), "contradicted", "without {layer}");
        // What is harmless with every layer may stay open with fewer, and is never contradicted.
        let session = without(&env, layer, &honest, PROBE);
        let status = session.status("writes");
        assert!(
            ["verified", "claim-only"].contains(&status.as_str()),
            "{session}"
        );
    }
}

/// What a release depends on cannot read the variable; see also the crate's own test of it.
#[test]
fn only_the_build_for_tests_asks_for_the_switches() {
    let manifest = include_str!("../../Cargo.toml");
    let (normal, dev) = manifest
        .split_once("[dev-dependencies]")
        .expect("a section");
    assert!(!normal.contains("test-switches"));
    assert!(dev.contains("test-switches"));
    let sandbox = include_str!("../../sandbox/Cargo.toml");
    assert!(!sandbox.contains("default ="));
}
