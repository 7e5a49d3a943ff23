//! A small field repo with its surroundings, a clone of it, and one run in it.
//!
//! Whatever a test is about, every run is held to the rule that nothing outside the clone and the
//! scratch changes: repo, HOME and neighbours are compared field by field, ctime included.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use calibrun_sandbox::{
    Attempt, Effect, Job, Layout, Limits, Mark, Outcome, Pass, Place, Run, RunError, Stdin,
};
use tempfile::TempDir;

use crate::subject;

/// Names a folder outside every temp folder in which tests may make folders of their own.
pub(crate) const TEST_ROOT: &str = "CALIBRUN_TEST_ROOT";

/// Where one test happens.
pub(crate) struct Stage {
    /// `repo`, `home` and `outside`.
    field: TempDir,
    /// `clone`, `scratch` and `work`.
    temp_root: TempDir,
    pub(crate) pass: Pass,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) stdin: Stdin,
    pub(crate) limits: Limits,
}

/// One file as it was: every field but the access time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Print {
    inode: u64,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    content: Vec<u8>,
}

impl Stage {
    pub(crate) fn new(pass: Pass) -> Stage {
        let field = make_folder(&test_root());
        let shm = Path::new("/dev/shm");
        // As the runner does: the clone on tmpfs where there is one.
        let temp_root = make_folder(&if shm.is_dir() {
            shm.to_owned()
        } else {
            test_root()
        });
        let stage = Stage {
            field,
            temp_root,
            pass,
            cwd: PathBuf::new(),
            env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            stdin: Stdin::Null,
            limits: Limits {
                timeout: Duration::from_secs(120),
                linger: Duration::from_secs(20),
                ..Limits::default()
            },
        };
        for folder in [
            stage.repo(),
            stage.home(),
            stage.outside(),
            stage.clone_top(),
        ] {
            fs::create_dir(folder).expect("a folder of the test's own");
        }
        for folder in [stage.scratch(), stage.work()] {
            fs::create_dir(folder).expect("a folder of the test's own");
        }
        stage.put("w/file", "text\n");
        stage.put(".git/HEAD", "ref: refs/heads/main\n");
        fs::write(stage.home().join(".profile"), "umask 022\n").expect("write");
        fs::write(stage.outside().join("file"), "theirs\n").expect("write");
        stage
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.field.path().join("repo")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.field.path().join("home")
    }

    /// A folder that is neither repo, HOME nor a temp folder as far as the host allows.
    pub(crate) fn outside(&self) -> PathBuf {
        self.field.path().join("outside")
    }

    /// The clone on this host.
    pub(crate) fn clone_top(&self) -> PathBuf {
        self.temp_root.path().join("clone")
    }

    /// Where the subject will see the clone.
    pub(crate) fn top(&self) -> PathBuf {
        self.sh("true").top
    }

    fn scratch(&self) -> PathBuf {
        self.temp_root.path().join("scratch")
    }

    /// An empty folder below the temp root, for a calibration.
    pub(crate) fn work(&self) -> PathBuf {
        self.temp_root.path().join("work")
    }

    /// Writes a file into the repo and its clone, with the folders that it needs.
    pub(crate) fn put(&self, path: impl AsRef<Path>, text: &str) {
        for top in [self.repo(), self.clone_top()] {
            let file = top.join(path.as_ref());
            fs::create_dir_all(file.parent().expect("a file has a folder")).expect("make folders");
            fs::write(file, text).expect("write");
        }
    }

    pub(crate) fn job(&self, argv: &[&OsStr]) -> Job {
        let mut env = self.env.clone();
        env.push(("HOME".into(), self.home().into()));
        Job {
            argv: argv.iter().map(|a| (*a).to_owned()).collect(),
            cwd: self.cwd.clone(),
            env,
            stdin: self.stdin.clone(),
            pass: self.pass,
            layout: Layout {
                clone: self.clone_top(),
                repo: self.repo(),
                git_dirs: vec![".git".into()],
                home: self.home(),
                scratch: self.scratch(),
                temp_root: self.temp_root.path().to_owned(),
            },
            limits: self.limits,
        }
    }

    /// Runs `argv`, and holds the run to the rule that nothing else changes.
    pub(crate) fn run(&self, argv: &[&OsStr]) -> Run {
        self.try_run(argv, &|| false).expect("the run succeeds")
    }

    pub(crate) fn try_run(
        &self,
        argv: &[&OsStr],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Run, RunError> {
        open_up(self.temp_root.path());
        fs::remove_dir_all(self.scratch()).expect("remove the last run's scratch");
        fs::create_dir(self.scratch()).expect("an empty scratch");
        let mut guarded = vec![self.repo(), self.home(), self.outside()];
        if self.pass == Pass::Denied {
            guarded.push(self.clone_top());
        }
        let before: Vec<_> = guarded.iter().map(|top| prints(top)).collect();
        let run = calibrun_sandbox::run(&self.job(argv), interrupted);
        for (top, before) in guarded.iter().zip(before) {
            assert_unchanged(top, &before, &prints(top));
        }
        run
    }

    /// Runs a line of shell.
    pub(crate) fn sh(&self, script: &str) -> Run {
        self.run(&["sh".as_ref(), "-c".as_ref(), script.as_ref()])
    }

    /// Runs one of this program's own subjects.
    pub(crate) fn subject(&self, name: &str, args: &[&OsStr]) -> Run {
        let exe = std::env::current_exe().expect("this program has a path");
        let mut argv: Vec<&OsStr> = vec![exe.as_ref(), subject::ROLE.as_ref(), name.as_ref()];
        argv.extend(args);
        self.run(&argv)
    }

    /// `path` below the clone, on this host.
    pub(crate) fn in_clone(&self, path: &str) -> PathBuf {
        self.clone_top().join(path)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The folders themselves go with their `TempDir`.
        open_up(self.temp_root.path());
    }
}

/// Removes a folder and all that is in it.
pub(crate) fn remove(top: &Path) {
    open_up(top);
    fs::remove_dir_all(top).expect("remove a folder of the test's own");
}

/// An overlay's work folder has no rights at all, and only the superuser could remove it so.
fn open_up(top: &Path) {
    let calibrated = fs::read_dir(top.join("work"))
        .into_iter()
        .flatten()
        .flatten();
    let runs = calibrated.map(|run| run.path()).chain([top.to_owned()]);
    for work in runs.flat_map(|run| {
        ["temp0", "temp1", "home"].map(|name| run.join("scratch").join(name).join("work/work"))
    }) {
        if work.exists() {
            let mode = fs::Permissions::from_mode(0o700);
            fs::set_permissions(work, mode).expect("open a folder of the test's own");
        }
    }
}

fn make_folder(parent: &Path) -> TempDir {
    let made = tempfile::Builder::new()
        .prefix("sandbox-test-")
        .tempdir_in(parent);
    made.unwrap_or_else(|e| panic!("a folder in {}: {e}", parent.display()))
}

/// Whether the host has room for tests outside the shared temp folders.
pub(crate) fn has_room_outside_temp() -> bool {
    let root = fs::canonicalize(test_root()).expect("a folder for tests");
    let temps = ["/tmp", "/var/tmp"];
    !temps.iter().any(|temp| root.starts_with(temp))
}

/// Outside the shared temp folders where possible: these are a place of their own.
fn test_root() -> PathBuf {
    let named = std::env::var_os(TEST_ROOT).map(PathBuf::from);
    let build = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let usable = |path: &PathBuf| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok();
    named
        .into_iter()
        .chain([build])
        .find(usable)
        .unwrap_or_else(std::env::temp_dir)
}

fn prints(top: &Path) -> BTreeMap<PathBuf, Print> {
    let mut found = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).expect("look at what is there");
        let content = if meta.is_file() {
            fs::read(&path).unwrap_or_default()
        } else if meta.is_symlink() {
            let target = fs::read_link(&path).expect("read a link");
            target.as_os_str().as_bytes().to_vec()
        } else {
            Vec::new()
        };
        if meta.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .expect("list")
                    .map(|e| e.expect("list").path()),
            );
        }
        let print = Print {
            inode: meta.ino(),
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            links: meta.nlink(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            content,
        };
        found.insert(path, print);
    }
    found
}

fn assert_unchanged(
    top: &Path,
    before: &BTreeMap<PathBuf, Print>,
    after: &BTreeMap<PathBuf, Print>,
) {
    for (path, print) in before {
        let now = after.get(path);
        assert!(
            now == Some(print),
            "{} has changed:\n{print:?}\n{now:?}",
            path.display()
        );
    }
    for path in after.keys() {
        assert!(
            before.contains_key(path),
            "{} is new in {}",
            path.display(),
            top.display()
        );
    }
}

/// Questions to a finished run.
pub(crate) trait Asked {
    /// Attempts whose resolved or raw path ends in `end`.
    fn on(&self, end: &str) -> Vec<&Attempt>;
    /// The attempt of this kind, which must be there.
    fn expect(&self, effect: Effect, place: Place, outcome: Outcome, end: &str) -> &Attempt;
    /// How often this effect was tried.
    fn count(&self, effect: Effect) -> u64;
    fn out(&self) -> String;
    fn err(&self) -> String;
    /// What a subject of this program said of `word`: a line `word answer`.
    fn said(&self, word: &str) -> String;
    /// Fails unless nothing at all was tried.
    fn expect_nothing(&self);
    fn list(&self) -> String;
}

impl Asked for Run {
    fn on(&self, end: &str) -> Vec<&Attempt> {
        let ends = |a: &&Attempt| {
            let resolved = a.target.resolved.as_ref();
            a.target.raw.ends_with(end.as_bytes())
                || resolved.is_some_and(|p| p.as_os_str().as_bytes().ends_with(end.as_bytes()))
        };
        self.attempts.iter().filter(ends).collect()
    }

    fn expect(&self, effect: Effect, place: Place, outcome: Outcome, end: &str) -> &Attempt {
        let found = self
            .on(end)
            .into_iter()
            .find(|a| a.effect == effect && a.place == place && a.outcome == outcome);
        found.unwrap_or_else(|| {
            panic!(
                "no {effect} of {end} in {place}, {outcome}; seen were:\n{}",
                self.list()
            )
        })
    }

    fn count(&self, effect: Effect) -> u64 {
        let of = self.attempts.iter().filter(|a| a.effect == effect);
        of.map(|a| a.count).sum()
    }

    fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout.bytes).into_owned()
    }

    fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr.bytes).into_owned()
    }

    fn said(&self, word: &str) -> String {
        let out = self.out();
        let line = out
            .lines()
            .find_map(|l| l.strip_prefix(word)?.strip_prefix(' '));
        match line {
            Some(answer) => answer.to_owned(),
            None => panic!(
                "nothing said of {word}:\n{out}{}\n{}",
                self.err(),
                self.list()
            ),
        }
    }

    fn expect_nothing(&self) {
        assert!(self.attempts.is_empty(), "seen were:\n{}", self.list());
    }

    fn list(&self) -> String {
        let mut lines: Vec<String> = self.attempts.iter().map(describe).collect();
        lines.push(format!(
            "{:?} gaps {:?} {:?}",
            self.termination, self.gaps, self.layers.missing
        ));
        lines.join("\n")
    }
}

pub(crate) fn describe(a: &Attempt) -> String {
    format!(
        "{} {} {} {:?} ({}) to {:?} by {} of {:?} x{} {:?} existed {:?}",
        a.effect,
        a.place,
        a.outcome,
        a.target.resolved,
        String::from_utf8_lossy(&a.target.raw),
        a.to.as_ref().map(|t| &t.resolved),
        a.call,
        a.program,
        a.count,
        a.marks,
        a.target.existed
    )
}

/// Marks of shared temp folders say nothing where the tests themselves have to lie in one.
pub(crate) fn own_marks(attempt: &Attempt) -> Vec<Mark> {
    let marks = attempt.marks.iter().copied();
    marks.filter(|m| *m != Mark::TempNotPrivate).collect()
}
