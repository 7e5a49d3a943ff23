//! Commands whose right answer is known, each through the built program: `fixtures/cases/cases.yaml`.
//!
//! `CALIBRUN_BIN` names another build to test, `CALIBRUN_CASE` one case to run alone. What a case needs and
//! this host lacks leaves it out, loudly; `CALIBRUN_MUST_RUN=1` makes that a failure.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    about: String,
    #[serde(default)]
    setup: String,
    run: Vec<String>,
    #[serde(default)]
    needs: Vec<String>,
    timeout: Option<String>,
    linger: Option<String>,
    writes: Expected,
    reversibility: Expected,
    #[serde(default)]
    reasons: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Expected {
    Verified,
    Contradicted,
    ClaimOnly,
}

impl Expected {
    fn name(self) -> &'static str {
        match self {
            Expected::Verified => "verified",
            Expected::Contradicted => "contradicted",
            Expected::ClaimOnly => "claim-only",
        }
    }
}

/// How one case came out.
enum Outcome {
    Held,
    LeftOut(String),
    Deviates(Vec<String>),
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cases")
}

fn cases() -> Vec<Case> {
    let text = fs::read_to_string(fixtures().join("cases.yaml")).expect("the cases");
    serde_yaml::from_str(&text).expect("a list of cases")
}

fn binary() -> PathBuf {
    match std::env::var_os("CALIBRUN_BIN") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env!("CARGO_BIN_EXE_calibrun")),
    }
}

fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

fn is_installed(program: &str) -> bool {
    std::env::split_paths(&path()).any(|folder| folder.join(program).exists())
}

/// A command in `dir` with nothing of the caller's environment but PATH.
fn clean(program: impl AsRef<std::ffi::OsStr>, dir: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env_clear().stdin(Stdio::null());
    command.env("PATH", path()).env("HOME", home);
    command.env("LANG", "C.UTF-8");
    command
}

/// Makes the repo of a case in `repo`.
fn furnish(case: &Case, repo: &Path, home: &Path) {
    fs::create_dir_all(repo.join("tools")).expect("folders");
    fs::create_dir(home).expect("HOME");
    fs::write(home.join("kept.txt"), "of the user\n").expect("a file in HOME");
    let shell = |what: &[&str]| {
        let mut command = clean("sh", repo, home);
        command.args(what).env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command.output().expect("sh runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", case.id);
    };
    for entry in fs::read_dir(fixtures().join("tools")).expect("tools") {
        let tool = entry.expect("a tool").path();
        let name = tool.file_name().expect("a name");
        fs::copy(&tool, repo.join("tools").join(name)).expect("a copy");
    }
    let script = fixtures().join("fixture.sh");
    shell(&[script.to_str().expect("a path")]);
    shell(&["-ec", &case.setup]);
}

fn observe(case: &Case) -> Outcome {
    let missing = case.needs.iter().find(|program| !is_installed(program));
    if let Some(program) = missing {
        return Outcome::LeftOut(format!("{program} is not installed"));
    }
    let base = tempfile::Builder::new()
        .prefix("case-")
        .tempdir()
        .expect("a temp folder");
    let base = base.path().canonicalize().expect("the base");
    let (repo, home) = (base.join("repo"), base.join("home"));
    furnish(case, &repo, &home);
    let mut command = clean(binary(), &repo, &home);
    command.args(["observe", "--format", "json"]);
    command.args(["--claim", "writes=read-only"]);
    command.args(["--claim", "reversibility=reversible"]);
    for (option, value) in [("--timeout", &case.timeout), ("--linger", &case.linger)] {
        if let Some(value) = value {
            command.args([option, value]);
        }
    }
    let output = command
        .arg("--")
        .args(&case.run)
        .output()
        .expect("calibrun runs");
    let document: Value = match serde_json::from_slice(&output.stdout) {
        Ok(document) => document,
        Err(_) => {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            return Outcome::Deviates(vec![format!("no report: {error}")]);
        }
    };
    let layers = &document["host"]["layers"];
    let whole = LAYERS.iter().all(|layer| layers[*layer] == true);
    let axes = &document["capabilities"][0]["axes"];
    compare(case, axes, output.status.code(), whole)
}

/// Layers without which a true claim may stay open.
const LAYERS: &[&str] = &["mounts", "temp_overlay", "home_overlay", "net_namespace"];

/// `whole` says whether the host gives every layer.
fn compare(case: &Case, axes: &Value, code: Option<i32>, whole: bool) -> Outcome {
    let mut deviations = Vec::new();
    let mut open = false;
    let mut seen = BTreeSet::new();
    for (axis, expected) in [
        ("writes", case.writes),
        ("reversibility", case.reversibility),
    ] {
        let reasons = axes[axis]["reasons"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let codes = reasons.iter().filter_map(|r| r["code"].as_str());
        let codes: BTreeSet<String> = codes.map(str::to_owned).collect();
        let status = axes[axis]["status"].as_str().unwrap_or("nothing");
        if !whole && expected == Expected::Verified && status == "claim-only" {
            open = true;
        } else if status != expected.name() {
            let mut line = format!("{axis}: wanted {}, got {status} {codes:?}", expected.name());
            if status == "verified" {
                line.insert_str(0, "A FALSE CLAIM IS VERIFIED: ");
            }
            deviations.push(line);
        }
        seen.extend(codes);
    }
    if open && deviations.is_empty() {
        return Outcome::LeftOut("this host lacks a layer, and the claim stays open".to_owned());
    }
    for reason in &case.reasons {
        if !seen.contains(reason) {
            deviations.push(format!("no reason {reason} in {seen:?}"));
        }
    }
    let gravest = |status| case.writes == status || case.reversibility == status;
    let wanted = match () {
        () if gravest(Expected::Contradicted) => 1,
        () if gravest(Expected::ClaimOnly) => 3,
        () => 0,
    };
    if deviations.is_empty() && code != Some(wanted) {
        deviations.push(format!("wanted exit code {wanted}, got {code:?}"));
    }
    if deviations.is_empty() {
        Outcome::Held
    } else {
        Outcome::Deviates(deviations)
    }
}

/// Observes all cases, as many at once as there are processors.
fn observe_all(cases: &[Case]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else {
                        return;
                    };
                    let outcome = observe(case);
                    results
                        .lock()
                        .expect("no worker panicked")
                        .push((number, outcome));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no worker panicked");
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, outcome)| outcome).collect()
}

#[test]
fn every_case_gets_its_answer_and_no_false_claim_is_verified() {
    let mut cases = cases();
    if let Some(only) = std::env::var_os("CALIBRUN_CASE") {
        cases.retain(|case| *case.id == *only);
        assert!(!cases.is_empty(), "no case {only:?}");
    }
    let start = Instant::now();
    let outcomes = observe_all(&cases);
    assert_eq!(outcomes.len(), cases.len());
    let (mut held, mut left_out, mut deviations) = (0, Vec::new(), Vec::new());
    for (case, outcome) in cases.iter().zip(outcomes) {
        match outcome {
            Outcome::Held => held += 1,
            Outcome::LeftOut(why) => left_out.push(format!("LEFT OUT: {}: {why}", case.id)),
            Outcome::Deviates(lines) => {
                let head = format!("{} ({}): {:?}", case.id, case.about, case.run);
                deviations.push(head);
                deviations.extend(lines.into_iter().map(|line| format!("    {line}")));
            }
        }
    }
    for line in &left_out {
        eprintln!("{line}");
    }
    eprintln!(
        "{held} of {} cases held in {:.1?}",
        cases.len(),
        start.elapsed()
    );
    assert!(deviations.is_empty(), "\n{}", deviations.join("\n"));
    let must_run = std::env::var_os("CALIBRUN_MUST_RUN").is_some_and(|v| v == "1");
    assert!(!must_run || left_out.is_empty(), "{left_out:?}");
    assert!(held > 0, "nothing was shown");
}

#[test]
fn the_table_is_sorted_out() {
    let cases = cases();
    let ids: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids.len(), cases.len(), "an id twice");
    for expected in [
        Expected::Verified,
        Expected::Contradicted,
        Expected::ClaimOnly,
    ] {
        let on_writes = cases.iter().filter(|case| case.writes == expected).count();
        let on_undo = cases
            .iter()
            .filter(|case| case.reversibility == expected)
            .count();
        assert!(on_writes >= 5 && on_undo >= 5, "too few of {expected:?}");
    }
    let known: BTreeSet<&str> = calibrun::verdict::ReasonCode::ALL
        .iter()
        .map(|code| code.code())
        .collect();
    let tools: BTreeSet<String> = fs::read_dir(fixtures().join("tools"))
        .expect("tools")
        .map(|tool| format!("tools/{}", tool.expect("a tool").file_name().display()))
        .collect();
    for case in &cases {
        for reason in &case.reasons {
            assert!(known.contains(reason.as_str()), "{}: {reason}", case.id);
        }
        for word in case.run.iter().filter(|word| word.starts_with("tools/")) {
            assert!(tools.contains(word), "{}: {word}", case.id);
        }
    }
    for tool in &tools {
        assert!(
            cases.iter().any(|case| case.run.contains(tool)),
            "{tool} is in no case"
        );
    }
}
