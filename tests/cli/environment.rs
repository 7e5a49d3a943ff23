//! Temp HOME, repos and a cleaned environment for one session, and what came of it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long something may take that takes no time on an idle machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of one test's own: a HOME, and repos beside it.
pub(super) struct TestEnvironment {
    base: TempDir,
}

impl TestEnvironment {
    pub(super) fn new() -> TestEnvironment {
        let base = tempfile::Builder::new()
            .prefix("session-")
            .tempdir()
            .expect("a temp folder");
        let env = TestEnvironment { base };
        fs::create_dir(env.home()).expect("HOME");
        write(&env.home().join("kept.txt"), "of the user\n");
        env
    }

    /// Free of links.
    pub(super) fn base(&self) -> PathBuf {
        self.base.path().canonicalize().expect("the base")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.base().join("home")
    }

    /// A repo with two commits, a dirty file, an untracked one and an ignored one.
    pub(super) fn repo(&self, name: &str) -> PathBuf {
        let top = self.base().join(name);
        write(&top.join("README.md"), "read me\n");
        write(&top.join("src/app.txt"), "text\n");
        write(&top.join("scripts/run.sh"), "#!/bin/sh\necho run\n");
        write(&top.join(".gitignore"), "*.log\nbuild/\n");
        self.commit_all(&top);
        write(&top.join("README.md"), "read me\nagain\n");
        self.git(&top, &["commit", "-qam", "second"]);
        write(&top.join("src/app.txt"), "text\nnot committed\n");
        write(&top.join("scripts/new.sh"), "#!/bin/sh\necho new\n");
        write(&top.join("build/out.log"), "ignored\n");
        top
    }

    /// A repo that holds the files of `fixtures/NAME`, committed.
    pub(super) fn fixture(&self, name: &str) -> PathBuf {
        let top = self.base().join(name);
        copy_folder(&fixtures().join(name), &top);
        self.commit_all(&top);
        top
    }

    /// Makes `top` a repo of all that is in it.
    pub(super) fn commit_all(&self, top: &Path) {
        self.git(top, &["init", "-q", "-b", "main"]);
        self.git(top, &["config", "user.name", "Field User"]);
        self.git(top, &["config", "user.email", "field@example.invalid"]);
        self.git(top, &["config", "gc.auto", "0"]);
        self.git(top, &["add", "-A"]);
        self.git(top, &["commit", "-qm", "first"]);
    }

    /// Runs git, which must succeed, and returns what it printed.
    pub(super) fn git(&self, dir: &Path, args: &[&str]) -> String {
        let output = self
            .clean(Command::new("git"), dir)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(args)
            .output()
            .expect("git runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {args:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// calibrun in `dir`, with nothing of the caller's environment but PATH.
    pub(super) fn calibrun(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = self.clean(Command::new(binary()), dir);
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs calibrun in `dir` to its end.
    pub(super) fn run(&self, dir: &Path, args: &[&str]) -> Session {
        Session::of(self.calibrun(dir, args))
    }

    /// Observes `argv` in `dir` with both claims, as JSON.
    pub(super) fn observe(&self, dir: &Path, options: &[&str], argv: &[&str]) -> Session {
        let mut args = vec!["observe", "--format", "json"];
        args.extend(["--claim", "writes=read-only"]);
        args.extend(["--claim", "reversibility=reversible"]);
        args.extend(options);
        args.push("--");
        args.extend(argv);
        self.run(dir, &args)
    }

    fn clean(&self, mut command: Command, dir: &Path) -> Command {
        command
            .current_dir(dir)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8");
        command
    }
}

/// The program under test.
pub(super) fn binary() -> PathBuf {
    match std::env::var_os("CALIBRUN_BIN") {
        Some(path) => PathBuf::from(path),
        None => test_binary(),
    }
}

/// The build in which layers can be switched off.
pub(super) fn test_binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_calibrun"))
}

pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Says loudly that something is left out, which `CALIBRUN_MUST_RUN=1` forbids.
pub(super) fn leave_out(what: &str, why: &str) {
    assert!(
        std::env::var_os("CALIBRUN_MUST_RUN").is_none_or(|v| v != "1"),
        "must run: {what}: {why}"
    );
    eprintln!("LEFT OUT: {what}: {why}");
}

/// Writes a file and the folders that it needs; a script is executable.
pub(super) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
    fs::write(path, text).expect("a file");
    if text.starts_with("#!") {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a fixture folder") {
        let path = entry.expect("a fixture").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            write(&target, &fs::read_to_string(&path).expect("a fixture file"));
        }
    }
}

/// What a finished session left: its exit code and its two streams.
pub(super) struct Session {
    pub(super) command: String,
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Session {
    pub(super) fn of(mut command: Command) -> Session {
        let text = format!("{command:?}");
        Session::ended(text, command.output().expect("calibrun runs"))
    }

    pub(super) fn after(child: Child) -> Session {
        Session::ended(
            "a spawned calibrun".to_owned(),
            child.wait_with_output().expect("calibrun ends"),
        )
    }

    fn ended(command: String, output: Output) -> Session {
        let text = |bytes: Vec<u8>| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => panic!("not UTF-8: {error}"),
        };
        Session {
            command,
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(super) fn exits(self, code: i32) -> Session {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Asserts that standard error holds each of `texts`.
    #[track_caller]
    pub(super) fn complains(self, texts: &[&str]) -> Session {
        for text in texts {
            assert!(self.stderr.contains(text), "no {text:?} in\n{self}");
        }
        self
    }

    /// Asserts that standard output holds each of `texts`.
    #[track_caller]
    pub(super) fn says(self, texts: &[&str]) -> Session {
        for text in texts {
            assert!(self.stdout.contains(text), "no {text:?} in\n{self}");
        }
        self
    }

    /// The document on standard output.
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}):\n{self}"))
    }

    /// The one capability of the document.
    #[track_caller]
    pub(super) fn capability(&self) -> Value {
        let mut document = self.json();
        let list = document["capabilities"].as_array_mut().expect("a list");
        assert_eq!(list.len(), 1, "{self}");
        list.remove(0)
    }

    /// Status of an axis of the one capability; empty for null.
    #[track_caller]
    pub(super) fn status(&self, axis: &str) -> String {
        let capability = self.capability();
        let status = &capability["axes"][axis]["status"];
        status.as_str().unwrap_or_default().to_owned()
    }

    /// Reason codes of an axis of the one capability.
    #[track_caller]
    pub(super) fn reasons(&self, axis: &str) -> BTreeSet<String> {
        let capability = self.capability();
        let reasons = capability["axes"][axis]["reasons"].as_array().cloned();
        let code = |reason: &Value| reason["code"].as_str().expect("a code").to_owned();
        reasons.unwrap_or_default().iter().map(code).collect()
    }
}

impl std::fmt::Display for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (code, out, err) = (&self.code, &self.stdout, &self.stderr);
        write!(
            f,
            "{}\nexit {code:?}\n--- stdout\n{out}\n--- stderr\n{err}",
            self.command
        )
    }
}

/// Removes a kept temp root, what a run had closed to its owner included.
pub(super) fn remove_root(root: &Path) {
    let opened = Command::new("chmod")
        .args(["-R", "u+rwx"])
        .arg(root)
        .status();
    assert!(opened.expect("chmod runs").success());
    fs::remove_dir_all(root).expect("the temp root can be removed");
}

/// Everything in the shared temp folders that is named like calibrun's own.
pub(super) fn temp_roots() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for place in ["/dev/shm", "/tmp", "/var/tmp"] {
        let Ok(entries) = fs::read_dir(place) else {
            continue;
        };
        for entry in entries.flatten() {
            let name: OsString = entry.file_name();
            if name.as_encoded_bytes().starts_with(b"calibrun-") {
                found.insert(entry.path());
            }
        }
    }
    found
}

/// Does `work`, and asserts that no temp root of that time is left. Those of other sessions at the same
/// time go away by themselves.
#[track_caller]
pub(super) fn leaving_nothing<T>(work: impl FnOnce() -> T) -> T {
    let before = temp_roots();
    let result = work();
    let new: Vec<PathBuf> = temp_roots().difference(&before).cloned().collect();
    let until = Instant::now() + PATIENCE;
    for root in new {
        while root.exists() {
            assert!(Instant::now() < until, "left behind: {}", root.display());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    result
}

/// Waits until `done` says so.
#[track_caller]
pub(super) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
