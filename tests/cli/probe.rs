//! `probe` on the incident, on its honest twin, and on several at once.

use serde_json::{Value, json};

use super::environment::{Session, TestEnvironment, fixtures, leaving_nothing, write};

#[test]
fn the_incident_is_contradicted_for_a_person() {
    let env = TestEnvironment::new();
    let repo = env.fixture("incident");
    let session = leaving_nothing(|| env.run(&repo, &["probe", "leak_scan.cap"]));
    let session = session.exits(1).says(&[
        "contradicted: incident:leak-scan",
        "declared in leak_scan.cap, line 2",
        "writes         contradicted  declared read-only",
        "reversibility  contradicted  declared reversible",
        "writes: write-attempted",
        "remove scripts/deploy.sh",
        "no_args, denied pass, by rm, 1 time, denied: write-attempted",
        "known_positive, contained pass: exit code 1, LEAK",
        "known_negative, contained pass: exit code 0, CLEAN",
    ]);
    assert_eq!(session.stderr, "");
    let long: Vec<&str> = session.stdout.lines().filter(|l| l.len() > 80).collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn the_honest_twin_is_verified_for_a_person() {
    let env = TestEnvironment::new();
    let repo = env.fixture("honest");
    let session = leaving_nothing(|| env.run(&repo, &["probe", "."]));
    let session = session.exits(0).says(&[
        "verified: honest:leak-scan",
        "writes         verified      declared read-only",
        "reversibility  verified      declared reversible",
    ]);
    assert!(!session.stdout.contains("Attempts that count"), "{session}");
    assert_eq!(session.stderr, "");
}

/// Attempts of `arm` in `pass` that count.
fn counted(capability: &Value, arm: &str, pass: &str) -> Vec<Value> {
    let named = |list: &Value, name: &str| {
        let mut list = list.as_array().expect("a list").iter();
        let found = list.find(|item| item["name"] == name).cloned();
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let pass = named(&named(&capability["arms"], arm)["passes"], pass);
    let attempts = pass["attempts"].as_array().expect("attempts").iter();
    attempts.filter(|a| a["counted"] == true).cloned().collect()
}

#[test]
fn only_the_undeclared_arm_of_the_incident_shows_what_it_does() {
    let env = TestEnvironment::new();
    let repo = env.fixture("incident");
    let session = env
        .run(&repo, &["probe", "--format", "json", "leak_scan.cap"])
        .exits(1);
    let capability = session.capability();
    assert_eq!(capability["verdict"], "contradicted");
    let axes = &capability["axes"];
    assert_eq!(axes["writes"]["declared"], "read-only");
    assert_eq!(axes["writes"]["observed"], "write-local");
    assert_eq!(axes["reversibility"]["observed"], "irreversible");
    for pass in ["denied", "contained"] {
        for arm in ["known_positive", "known_negative"] {
            assert_eq!(counted(&capability, arm, pass), [] as [Value; 0]);
        }
        let tried = counted(&capability, "no_args", pass);
        for path in ["scripts/deploy.sh", "scripts/scan_leaks.sh"] {
            let attempt = tried.iter().find(|a| a["path"] == path);
            let attempt = attempt.unwrap_or_else(|| panic!("no {path} in {tried:?}"));
            assert_eq!(attempt["effect"], "remove");
            assert_eq!(attempt["place"], "worktree");
            assert_eq!(attempt["program"], "rm");
            assert_eq!(attempt["before"], "clean");
            assert_eq!(attempt["reason"], "write-attempted");
            let outcome = if pass == "denied" {
                "denied"
            } else {
                "allowed"
            };
            assert_eq!(attempt["outcome"], outcome);
        }
    }
    let names: Vec<&Value> = capability["arms"]
        .as_array()
        .expect("arms")
        .iter()
        .map(|arm| &arm["name"])
        .collect();
    assert_eq!(names, ["known_positive", "known_negative", "no_args"]);
}

#[test]
fn a_batch_counts_each_and_exits_with_the_gravest() {
    let env = TestEnvironment::new();
    let honest = env.fixture("honest");
    let incident = env.fixture("incident");
    let (honest, incident) = (honest.to_str().unwrap(), incident.to_str().unwrap());
    let args = ["probe", "--format", "json", honest, incident];
    let session = env.run(&env.base(), &args).exits(1);
    let document = session.json();
    let summary = json!({"verified": 1, "contradicted": 1, "claim_only": 0, "harness_error": 0});
    assert_eq!(document["summary"], summary);
    assert_eq!(document["verdict"], "contradicted");
    // One that cannot be read outweighs all, and hides nothing of the others.
    let session = env
        .run(&env.base(), &["probe", honest, incident, "missing.cap"])
        .exits(10)
        .says(&[
            "verified 1, contradicted 1, claim-only 0, harness error 1",
            "verified: honest:leak-scan",
            "contradicted: incident:leak-scan",
        ]);
    assert!(session.stderr.contains("missing.cap"), "{session}");
}

#[test]
fn a_declared_arm_that_lands_elsewhere_is_claim_only() {
    let env = TestEnvironment::new();
    let repo = env.fixture("honest");
    let declaration = repo.join("leak_scan.cap");
    let text = std::fs::read_to_string(&declaration).unwrap();
    write(
        &declaration,
        &text.replace(
            "calibration_positive_args: bad",
            "calibration_positive_args: other",
        ),
    );
    let session = env.run(&repo, &["probe", "--format", "json", "."]).exits(3);
    assert_eq!(session.status("writes"), "claim-only");
    // The arm says DID_NOT_RUN where LEAK is expected of it.
    let reasons = session.reasons("writes");
    let named = ["arm-did-not-run", "arm-verdict-unexpected"];
    assert!(
        named.iter().any(|code| reasons.contains(*code)),
        "{reasons:?}"
    );
}

#[test]
fn probes_of_one_repo_at_the_same_time_do_not_disturb_each_other() {
    let env = TestEnvironment::new();
    let repo = env.fixture("incident");
    // The twin lives in the same repo, under names of its own.
    let twin = fixtures().join("honest");
    let read = |name: &str| std::fs::read_to_string(twin.join(name)).unwrap();
    write(
        &repo.join("checks/honest.sh"),
        &read("scripts/scan_leaks.sh"),
    );
    let declaration = read("leak_scan.cap").replace("scripts/scan_leaks.sh", "checks/honest.sh");
    write(&repo.join("honest.cap"), &declaration);
    let start = |file: &str| {
        let mut command = env.calibrun(&repo, &["probe", "--format", "json", file]);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("calibrun starts")
    };
    // More than there are processors: each step of a launch may have to wait for its turn.
    let files = ["leak_scan.cap", "honest.cap"].repeat(6);
    let children: Vec<_> = files.iter().map(|file| (*file, start(file))).collect();
    for (file, child) in children {
        let session = Session::after(child);
        let (status, code) = match file {
            "honest.cap" => ("verified", 0),
            _ => ("contradicted", 1),
        };
        let session = session.exits(code);
        assert_eq!(session.status("writes"), status, "{file}");
        assert_eq!(session.status("reversibility"), status, "{file}");
    }
}

#[test]
fn the_demo_needs_nothing_and_shows_both() {
    let env = TestEnvironment::new();
    let session = leaving_nothing(|| env.run(&env.base(), &["demo"]));
    session.exits(0).says(&[
        "verified 1, contradicted 1, claim-only 0, harness error 0",
        "contradicted: incident:leak-scan",
        "verified: honest:leak-scan",
        "remove scripts/new_check.sh",
    ]);
}

#[test]
fn the_doctor_finds_by_trying_and_leaves_nothing() {
    let env = TestEnvironment::new();
    let session = leaving_nothing(|| env.run(&env.base(), &["doctor"]));
    let session = session.exits(0).says(&[
        "Landlock, ABI 3 or later     yes",
        "seccomp listener             yes",
        "Claims can be verified on this host.",
    ]);
    let controls = session
        .stdout
        .lines()
        .find_map(|l| l.strip_prefix("controls: "));
    let numbers: Vec<u32> = controls
        .unwrap_or_default()
        .split([' ', ',', ';'])
        .filter_map(|word| word.parse().ok())
        .collect();
    // Made, seen, refused; and what the reader showed.
    let [made, seen, refused, reader] = numbers[..] else {
        panic!("{session}");
    };
    assert!(
        made >= 19 && seen == made && refused == made && reader == 0,
        "{session}"
    );
}
