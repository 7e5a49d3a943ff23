//! Workspaces made from real repos, which the git command line builds in temp folders.

#[path = "workspace/hostile.rs"]
mod hostile;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use calibrun::workspace::{
    CANARY_PREFIX, Change, ChangeKind, DEAD_ADDRESS, Difference, FieldRepo, Manifest, Options,
    PathState, Stage, TempPlaces, Tree, UndoReport, Workspace, WorkspaceError, diff, restored,
    undo, untouched,
};
use tempfile::TempDir;

/// A repo in a temp folder, with one commit of a few files.
struct Repo {
    base: TempDir,
    top: PathBuf,
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.current_dir(dir).args(args).env_clear();
    git.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    git.env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LC_ALL", "C");
    git
}

fn try_git(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().expect("git runs")
}

/// Runs git, which must succeed, and returns what it printed.
fn git(dir: &Path, args: &[&str]) -> String {
    let output = try_git(dir, args);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {args:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

impl Repo {
    fn new() -> Repo {
        let base = tempfile::tempdir().unwrap();
        let top = base.path().canonicalize().unwrap().join("field");
        fs::create_dir(&top).unwrap();
        let repo = Repo { base, top };
        repo.git(&["init", "-q", "-b", "main"]);
        repo.git(&["config", "user.name", "Field User"]);
        repo.git(&["config", "user.email", "field@example.invalid"]);
        repo.write("README", "read me\n");
        repo.write("scripts/run.sh", "#!/bin/sh\necho run\n");
        repo.write("src/lib.txt", "library\n");
        repo.write(".gitignore", "*.log\nbuild/\n");
        fs::set_permissions(
            repo.top.join("scripts/run.sh"),
            Permissions::from_mode(0o755),
        )
        .unwrap();
        repo.git(&["add", "."]);
        repo.git(&["commit", "-qm", "first"]);
        repo
    }

    fn git(&self, args: &[&str]) -> String {
        git(&self.top, args)
    }

    fn write(&self, path: &str, text: &str) {
        write(self.top.join(path), text);
    }

    fn field(&self) -> FieldRepo {
        FieldRepo::discover(&self.top, false).unwrap()
    }

    fn options(&self) -> Options {
        let temp = self.base.path().join("temp");
        fs::create_dir_all(&temp).unwrap();
        let mut options = Options::new("0badcafe");
        options.places = TempPlaces {
            fast: PathBuf::from("/proc"),
            slow: temp,
        };
        options
    }

    fn workspace(&self) -> Workspace {
        self.workspace_with(&self.options())
    }

    fn workspace_with(&self, options: &Options) -> Workspace {
        Workspace::prepare(&self.field(), options, &|_| {}).unwrap()
    }
}

fn retake(tree: &Tree) -> Manifest {
    tree.baseline
        .retake(&tree.root, &Default::default())
        .unwrap()
}

fn changes(tree: &Tree) -> Vec<Change> {
    diff(&tree.baseline, &retake(tree), &tree.states)
}

fn has(changes: &[Change], path: &str, kind: ChangeKind) -> bool {
    changes
        .iter()
        .any(|c| c.path == Path::new(path) && c.kind == kind)
}

/// Everything that a look from outside can tell of a tree, access times apart.
fn snapshot(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in walkdir::WalkDir::new(top) {
        let entry = entry.unwrap();
        let meta = entry.path().symlink_metadata().unwrap();
        let bytes = if meta.is_file() {
            fs::read(entry.path()).unwrap()
        } else {
            Vec::new()
        };
        let line = format!(
            "{:o} {} {} {} {}.{} {}.{} {} {} {bytes:?}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.size(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec(),
            meta.ino(),
            meta.nlink(),
        );
        found.insert(entry.path().to_path_buf(), line);
    }
    found
}

/// A repo in every state at once.
fn busy_repo() -> Repo {
    let repo = Repo::new();
    repo.write("stashed.txt", "one\n");
    repo.git(&["add", "stashed.txt"]);
    repo.git(&["commit", "-qm", "second"]);
    repo.git(&["tag", "v1"]);
    repo.git(&["tag", "-a", "-m", "annotated", "v2"]);
    repo.git(&["branch", "topic"]);
    repo.write("stashed.txt", "two\n");
    repo.git(&["stash", "push", "-qm", "work"]);
    repo.git(&["notes", "add", "-m", "a note"]);
    repo.write("lost.txt", "only a reflog knows\n");
    repo.git(&["add", "lost.txt"]);
    repo.git(&["commit", "-qm", "lost"]);
    repo.git(&["reset", "-q", "--hard", "HEAD~1"]);
    repo.git(&["remote", "add", "origin", "https://example.invalid/x.git"]);
    repo.git(&[
        "remote",
        "set-url",
        "--push",
        "origin",
        "git@example.invalid:x.git",
    ]);
    repo.git(&[
        "config",
        "url.https://mirror.invalid/.insteadOf",
        "https://example.invalid/",
    ]);
    repo.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    repo.git(&["branch", "--set-upstream-to=origin/main"]);
    repo.write("src/lib.txt", "changed, not staged\n");
    repo.write("README", "staged\n");
    repo.git(&["add", "README"]);
    repo.write("new.txt", "staged and new\n");
    repo.git(&["add", "new.txt"]);
    repo.write("untracked/file.txt", "untracked\n");
    repo.write("noise.log", "ignored\n");
    repo.write("build/out/product", "ignored\n");
    fs::create_dir_all(repo.top.join("empty/inner")).unwrap();
    repo
}

#[test]
fn discovery_names_what_it_found() {
    let repo = Repo::new();
    let field = FieldRepo::discover(&repo.top.join("scripts"), false).unwrap();
    assert_eq!(field.top(), repo.top);
    assert_eq!(field.git_dir(), repo.top.join(".git"));
    assert_eq!(field.commit(), repo.git(&["rev-parse", "HEAD"]).trim());
    assert_eq!(field.branch(), Some("main"));
    assert!(!field.is_dirty());
    let through_link = repo.base.path().join("link");
    symlink(&repo.top, &through_link).unwrap();
    assert_eq!(
        FieldRepo::discover(&through_link, false).unwrap().top(),
        repo.top
    );
}

#[test]
fn discovery_refuses_what_it_cannot_reproduce_and_says_why() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().canonicalize().unwrap();
    let make = |name: &str, args: &[&str]| {
        let path = dir.join(name);
        fs::create_dir(&path).unwrap();
        let output = try_git(&path, args);
        (path, output.status.success())
    };
    let discover = |path: &Path| FieldRepo::discover(path, false).unwrap_err();
    assert!(matches!(
        discover(&dir.join("nothing")),
        WorkspaceError::Missing { .. }
    ));
    fs::write(dir.join("file"), "").unwrap();
    assert!(matches!(
        discover(&dir.join("file")),
        WorkspaceError::NotAFolder { .. }
    ));
    fs::create_dir(dir.join("plain")).unwrap();
    let none = discover(&dir.join("plain"));
    assert!(matches!(none, WorkspaceError::NoRepo { .. }));
    assert!(none.to_string().contains("git init"), "{none}");
    let (bare, _) = make("bare", &["init", "-q", "--bare"]);
    assert!(matches!(discover(&bare), WorkspaceError::Bare { .. }));
    let (empty, _) = make("empty", &["init", "-q"]);
    assert!(matches!(discover(&empty), WorkspaceError::NoCommit { .. }));
    let (sha256, made) = make("sha256", &["init", "-q", "--object-format=sha256"]);
    assert!(made, "this git makes sha256 repos");
    assert!(matches!(
        discover(&sha256),
        WorkspaceError::Unsupported { .. }
    ));
    // By its marks alone: not every git in use can make one.
    let (tables, _) = make("tables", &["init", "-q"]);
    let config = tables.join(".git/config");
    let marks = "[core]\nrepositoryFormatVersion = 1\n[extensions]\nrefStorage = reftable\n";
    let text = fs::read_to_string(&config).unwrap() + marks;
    fs::write(&config, text).unwrap();
    let refused = discover(&tables);
    assert!(refused.to_string().contains("reftable"), "{refused}");
    let repo = Repo::new();
    repo.git(&["config", "remote.origin.promisor", "true"]);
    assert!(matches!(
        discover(&repo.top),
        WorkspaceError::Unsupported { .. }
    ));
    repo.git(&["config", "remote.origin.promisor", "false"]);
    assert!(FieldRepo::discover(&repo.top, false).is_ok());
    assert!(matches!(
        discover(&repo.top.join(".git/hooks")),
        WorkspaceError::Bare { .. }
    ));
}

#[test]
fn a_repo_of_another_user_is_refused_unless_trusted() {
    if !nix::unistd::Uid::effective().is_root() {
        // Only root can give a folder away; as anybody else there is nothing to look at but this.
        assert!(Repo::new().field().top().is_dir());
        return;
    }
    let repo = Repo::new();
    std::os::unix::fs::chown(&repo.top, Some(12_345), None).unwrap();
    let error = FieldRepo::discover(&repo.top, false).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, WorkspaceError::ForeignOwner { .. }),
        "{text}"
    );
    assert!(
        text.contains("uid 12345") && text.contains("root") && text.contains("--trust-owner"),
        "{text}"
    );
    std::os::unix::fs::chown(repo.top.join(".git"), Some(12_345), None).unwrap();
    let field = FieldRepo::discover(&repo.top, true).unwrap();
    let workspace = Workspace::prepare(&field, &repo.options(), &|_| {}).unwrap();
    assert_eq!(
        fs::read_to_string(workspace.pristine().join("README")).unwrap(),
        "read me\n"
    );
}

#[test]
fn dirty_goes_by_content() {
    let repo = Repo::new();
    // Other times, same bytes.
    repo.write("README", "read me\n");
    repo.write("noise.log", "ignored\n");
    fs::create_dir(repo.top.join("empty")).unwrap();
    assert!(!repo.field().is_dirty());
    // A flag that hides a difference from git hides nothing here.
    repo.git(&["update-index", "--assume-unchanged", "README"]);
    assert!(!repo.field().is_dirty());
    repo.write("README", "other\n");
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    assert!(repo.field().is_dirty());
    repo.write("README", "read me\n");
    assert!(!repo.field().is_dirty());
    // Same size and times as before: what a stat would miss.
    let meta = repo.top.join("README").metadata().unwrap();
    repo.write("README", "read ME\n");
    let file = fs::File::options()
        .write(true)
        .open(repo.top.join("README"))
        .unwrap();
    file.set_times(fs::FileTimes::new().set_modified(meta.modified().unwrap()))
        .unwrap();
    assert!(repo.field().is_dirty());
    repo.write("README", "read me\n");
    for change in ["untracked", "deleted", "mode", "staged"] {
        let repo = Repo::new();
        match change {
            "untracked" => repo.write("new", "x"),
            "deleted" => fs::remove_file(repo.top.join("README")).unwrap(),
            "mode" => {
                fs::set_permissions(repo.top.join("README"), Permissions::from_mode(0o755)).unwrap()
            }
            _ => {
                repo.write("README", "staged");
                repo.git(&["add", "README"]);
            }
        }
        assert!(repo.field().is_dirty(), "{change}");
    }
}

#[test]
fn line_endings_that_git_converts_are_not_dirty() {
    let repo = Repo::new();
    repo.write(".gitattributes", "*.txt text eol=crlf\n");
    repo.write("dos.txt", "a\r\nb\r\n");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "crlf"]);
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    fs::remove_file(repo.top.join("src/lib.txt")).unwrap();
    repo.git(&["checkout", "-q", "."]);
    assert!(!repo.field().is_dirty());
    repo.write("dos.txt", "a\r\nc\r\n");
    assert!(repo.field().is_dirty());
}

#[test]
fn the_clone_has_every_handle_of_the_history() {
    let repo = busy_repo();
    let workspace = repo.workspace();
    let clone = workspace.pristine();
    for args in [
        &["for-each-ref"][..],
        &["stash", "list"],
        &["stash", "show", "-p"],
        &["reflog", "--all"],
        &["log", "--all", "--oneline", "--graph"],
        &["notes", "show"],
        &["show", "HEAD@{1}"],
        &["describe"],
        &["rev-parse", "--abbrev-ref", "@{upstream}"],
        &["config", "user.email"],
        &["ls-files", "--stage"],
        &["diff", "--cached"],
        &["diff"],
    ] {
        assert_eq!(git(clone, args), repo.git(args), "git {args:?}");
    }
    git(clone, &["fsck", "--full"]);
    let url = git(clone, &["remote", "get-url", "origin"]);
    assert_eq!(url.trim(), format!("{DEAD_ADDRESS}origin"));
    let push = git(clone, &["remote", "get-url", "--push", "origin"]);
    assert_eq!(push.trim(), format!("{DEAD_ADDRESS}origin"));
    assert!(!git(clone, &["config", "--list"]).contains("example.invalid/"));
    assert!(
        !try_git(clone, &["config", "--get-regexp", "insteadof"])
            .status
            .success()
    );
    assert!(
        repo.git(&["config", "--list"])
            .contains("https://example.invalid/x.git")
    );
}

#[test]
fn a_detached_head_stays_detached() {
    let repo = busy_repo();
    repo.git(&["stash", "push", "-qu"]);
    repo.git(&["checkout", "-q", "--detach", "v1"]);
    let field = repo.field();
    assert_eq!(field.branch(), None);
    let workspace = repo.workspace();
    assert!(
        !try_git(workspace.pristine(), &["symbolic-ref", "HEAD"])
            .status
            .success()
    );
    assert_eq!(
        git(workspace.pristine(), &["rev-parse", "HEAD"]),
        repo.git(&["rev-parse", "v1"])
    );
}

#[test]
fn status_in_every_copy_is_the_fields_and_rewrites_no_index() {
    let repo = busy_repo();
    repo.git(&["update-index", "--assume-unchanged", ".gitignore"]);
    let expected = repo.git(&["--no-optional-locks", "status", "--porcelain", "--ignored"]);
    assert!(
        expected.contains(" M src/lib.txt")
            && expected.contains("M  README")
            && expected.contains("A  new.txt")
    );
    let mut workspace = repo.workspace();
    let fresh = workspace.fresh().unwrap();
    for top in [workspace.pristine(), &fresh.root] {
        let index = fs::read(top.join(".git/index")).unwrap();
        let status = git(top, &["status", "--porcelain", "--ignored"]);
        let status: String = status
            .lines()
            .filter(|l| !l.contains(CANARY_PREFIX))
            .map(|l| format!("{l}\n"))
            .collect();
        assert_eq!(status, expected);
        assert!(
            fs::read(top.join(".git/index")).unwrap() == index,
            "the index was rewritten in {}",
            top.display()
        );
        assert!(git(top, &["ls-files", "-v", ".gitignore"]).starts_with("h "));
    }
    let denied = workspace.denied().unwrap();
    let index = fs::read(denied.root.join(".git/index")).unwrap();
    git(&denied.root, &["status"]);
    assert!(fs::read(denied.root.join(".git/index")).unwrap() == index);
    let found = changes(&fresh);
    assert!(
        found
            .iter()
            .all(|c| c.path == Path::new(".git") && c.kind == ChangeKind::Times),
        "{found:?}"
    );
}

#[test]
fn indexes_of_other_versions_are_settled_too() {
    for (version, config) in [
        ("2", ""),
        ("4", ""),
        ("4", "untracked"),
        ("3", "skip-worktree"),
    ] {
        let repo = busy_repo();
        if config == "untracked" {
            repo.git(&["config", "core.untrackedCache", "true"]);
        }
        repo.git(&["update-index", "--index-version", version]);
        if config == "skip-worktree" {
            repo.git(&["update-index", "--skip-worktree", ".gitignore"]);
        }
        repo.git(&["status"]);
        let workspace = repo.workspace();
        let clone = workspace.pristine();
        let index = fs::read(clone.join(".git/index")).unwrap();
        assert_eq!(
            git(clone, &["status", "--porcelain"]),
            repo.git(&["status", "--porcelain"]),
            "{version} {config}"
        );
        assert!(
            fs::read(clone.join(".git/index")).unwrap() == index,
            "rewritten: {version} {config}"
        );
        git(clone, &["fsck"]);
        assert_eq!(
            git(clone, &["ls-files", "-v"]),
            repo.git(&["ls-files", "-v"])
        );
    }
}

#[test]
fn a_stale_index_is_settled_by_content_and_a_dirty_file_stays_dirty() {
    let repo = Repo::new();
    // New times for all: the field's own git would have to read every file.
    for path in ["README", "src/lib.txt", "scripts/run.sh"] {
        let file = fs::File::options()
            .append(true)
            .open(repo.top.join(path))
            .unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_234_567_890);
        file.set_times(fs::FileTimes::new().set_modified(time))
            .unwrap();
    }
    // The same size, so that only the bytes tell.
    repo.write("src/lib.txt", "LIBRARY\n");
    let workspace = repo.workspace();
    let index = fs::read(workspace.pristine().join(".git/index")).unwrap();
    assert_eq!(
        git(workspace.pristine(), &["status", "--porcelain"]),
        " M src/lib.txt\n"
    );
    assert!(fs::read(workspace.pristine().join(".git/index")).unwrap() == index);
}

#[test]
fn the_field_is_only_read() {
    let repo = busy_repo();
    let before = snapshot(&repo.top);
    let mut workspace = repo.workspace();
    let denied = workspace.denied().unwrap();
    let tree = workspace.fresh().unwrap();
    fs::remove_dir_all(tree.root.join(".git/objects")).unwrap();
    for entry in walkdir::WalkDir::new(&denied.root).into_iter().flatten() {
        if entry.file_type().is_file() {
            fs::set_permissions(entry.path(), Permissions::from_mode(0o600)).unwrap();
            fs::write(entry.path(), "overwritten").unwrap();
        }
    }
    drop(workspace);
    assert!(snapshot(&repo.top) == before);
}

#[test]
fn the_working_state_is_carried_by_content() {
    let repo = busy_repo();
    let outside = repo.base.path().join("outside");
    write(outside.join("secret"), "not to be copied");
    symlink(&outside, repo.top.join("to-outside")).unwrap();
    symlink("nowhere", repo.top.join("dangling")).unwrap();
    let odd = repo.top.join(OsStr::from_bytes(b"caf\xe9 \xff"));
    fs::write(&odd, "odd").unwrap();
    write(repo.top.join("private"), "mine");
    fs::set_permissions(repo.top.join("private"), Permissions::from_mode(0o400)).unwrap();
    repo.write("sealed/inner", "x");
    fs::set_permissions(repo.top.join("sealed"), Permissions::from_mode(0o555)).unwrap();
    nix::unistd::mkfifo(
        &repo.top.join("pipe"),
        nix::sys::stat::Mode::from_bits_truncate(0o640),
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(repo.top.join("socket")).unwrap();
    fs::hard_link(repo.top.join("noise.log"), repo.top.join("other.log")).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    for path in ["build", "untracked/file.txt"] {
        let file = fs::File::open(repo.top.join(path)).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(old))
            .unwrap();
    }
    let tagged = rustix::fs::setxattr(
        repo.top.join("README"),
        "user.note",
        b"kept",
        rustix::fs::XattrFlags::empty(),
    );

    let mut workspace = repo.workspace();
    assert_eq!(
        workspace.not_carried().len(),
        1,
        "{:?}",
        workspace.not_carried()
    );
    assert!(workspace.not_carried()[0].starts_with("socket:"));
    let tree = workspace.fresh().unwrap();
    for top in [workspace.pristine(), &tree.root] {
        for entry in walkdir::WalkDir::new(&repo.top)
            .into_iter()
            .filter_entry(|e| e.file_name() != ".git")
        {
            let path = entry.unwrap().into_path();
            let rel = path.strip_prefix(&repo.top).unwrap();
            if rel == Path::new("socket") {
                assert!(top.join(rel).symlink_metadata().is_err());
                continue;
            }
            let (old, new) = (
                path.symlink_metadata().unwrap(),
                top.join(rel).symlink_metadata().unwrap(),
            );
            let shape = |m: &fs::Metadata| (m.mode(), m.mtime(), m.mtime_nsec());
            assert_eq!(shape(&old), shape(&new), "{}", rel.display());
            if old.is_file() {
                assert_eq!(fs::read(&path).unwrap(), fs::read(top.join(rel)).unwrap());
                assert_ne!(old.ino(), new.ino());
                assert_eq!(new.nlink(), 1, "{}", rel.display());
            }
        }
        assert_eq!(top.join("to-outside").read_link().unwrap(), outside);
        if tagged.is_ok() {
            let mut value = [0_u8; 16];
            let length =
                rustix::fs::getxattr(top.join("README"), "user.note", &mut value[..]).unwrap();
            assert_eq!(&value[..length], b"kept");
        }
    }
    let root = workspace.temp_root().path().to_path_buf();
    drop(workspace);
    assert!(
        !root.exists(),
        "read-only folders and files go with the temp root"
    );
    assert_eq!(
        fs::read_to_string(outside.join("secret")).unwrap(),
        "not to be copied"
    );
    fs::set_permissions(repo.top.join("sealed"), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn ignored_files_beyond_the_budget_are_left_out_and_named() {
    let repo = Repo::new();
    repo.write("build/a", &"x".repeat(5_000));
    repo.write("build/deep/b", "y");
    repo.write("build/kept.txt", "tracked");
    repo.git(&["add", "-f", "build/kept.txt"]);
    repo.write("small.log", "z");
    let mut options = repo.options();
    options.ignored_bytes = 1_000;
    let workspace = repo.workspace_with(&options);
    let clone = workspace.pristine();
    assert_eq!(workspace.not_carried().len(), 1);
    assert!(
        workspace.not_carried()[0].starts_with("build: ignored, 2 files"),
        "{:?}",
        workspace.not_carried()
    );
    assert!(!clone.join("build/a").exists() && !clone.join("build/deep").exists());
    assert!(clone.join("build/kept.txt").exists() && clone.join("small.log").exists());
    options.ignored_bytes = 10_000;
    let whole = repo.workspace_with(&options);
    assert!(whole.not_carried().is_empty());
    assert!(whole.pristine().join("build/deep/b").exists());
}

#[test]
fn borrowed_objects_are_brought_along() {
    let lender = Repo::new();
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().canonicalize().unwrap();
    let from = lender.top.to_str().unwrap();
    git(&dir, &["clone", "-q", "--shared", from, "middle"]);
    git(&dir, &["clone", "-q", "--shared", "middle", "field"]);
    let top = dir.join("field");
    assert!(top.join(".git/objects/info/alternates").exists());
    let field = FieldRepo::discover(&top, false).unwrap();
    assert!(!field.is_dirty());
    let workspace = Workspace::prepare(&field, &lender.options(), &|_| {}).unwrap();
    assert!(
        !workspace
            .pristine()
            .join(".git/objects/info/alternates")
            .exists()
    );
    fs::rename(&lender.top, dir.join("gone")).unwrap();
    git(workspace.pristine(), &["fsck", "--full"]);
    assert_eq!(
        git(workspace.pristine(), &["show", "HEAD:README"]),
        "read me\n"
    );
    fs::rename(dir.join("gone"), &lender.top).unwrap();
    assert!(top.join(".git/objects/info/alternates").exists());
}

#[test]
fn nothing_of_the_repo_is_executed_while_copying() {
    let repo = Repo::new();
    let witness = repo.base.path().join("executed");
    let script = repo.base.path().join("evil.sh");
    write(
        &script,
        &format!("#!/bin/sh\ntouch {}\ncat\n", witness.display()),
    );
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let hook = script.to_str().unwrap();
    for name in [
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "pre-commit",
    ] {
        fs::copy(&script, repo.top.join(".git/hooks").join(name)).unwrap();
    }
    repo.write(".gitattributes", "*.bin filter=evil\n");
    repo.write("data.bin", "data\n");
    repo.write("executed-later", "");
    repo.git(&["config", "core.hooksPath", "/nonexistent"]);
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "with attributes"]);
    repo.git(&["config", "--unset", "core.hooksPath"]);
    for name in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "core.fsmonitor",
        "core.sshCommand",
    ] {
        repo.git(&["config", name, hook]);
    }
    repo.git(&["config", "alias.status", "!touch nothing"]);
    let _ = fs::remove_file(&witness);
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    let _ = workspace.denied().unwrap();
    assert!(!witness.exists());
    for top in [workspace.pristine(), &tree.root] {
        assert!(
            fs::read_to_string(top.join(".git/hooks/pre-commit"))
                .unwrap()
                .contains("executed")
        );
        assert_eq!(git(top, &["config", "core.fsmonitor"]).trim(), hook);
    }
    // The bait works: git itself would have run it.
    try_git(workspace.pristine(), &["status"]);
    assert!(witness.exists());
}

#[test]
fn git_variables_of_our_own_environment_change_nothing() {
    const CHILD: &str = "CALIBRUN_TEST_ENV_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let repo = PathBuf::from(std::env::var_os("CALIBRUN_TEST_FIELD").unwrap());
        let temp = std::env::var_os("CALIBRUN_TEST_TEMP").unwrap();
        let field = FieldRepo::discover(&repo, false).unwrap();
        assert_eq!(field.top(), repo);
        let mut options = Options::new("0badcafe");
        options.places.fast = PathBuf::from("/proc");
        options.places.slow = PathBuf::from(temp);
        let workspace = Workspace::prepare(&field, &options, &|_| {}).unwrap();
        assert_eq!(
            git(workspace.pristine(), &["show", "HEAD:README"]),
            "read me\n"
        );
        return;
    }
    let (repo, other) = (Repo::new(), Repo::new());
    other.write("README", "the wrong repo\n");
    other.git(&["commit", "-qam", "other"]);
    let before = (snapshot(&repo.top), snapshot(&other.top));
    let wrong = other.top.join(".git");
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "git_variables_of_our_own_environment_change_nothing",
        ])
        .env(CHILD, "1")
        .env("CALIBRUN_TEST_FIELD", &repo.top)
        .env("CALIBRUN_TEST_TEMP", &repo.options().places.slow)
        .env("GIT_DIR", &wrong)
        .env("GIT_WORK_TREE", &other.top)
        .env("GIT_INDEX_FILE", wrong.join("index"))
        .env("GIT_OBJECT_DIRECTORY", wrong.join("objects"))
        .env("GIT_COMMON_DIR", &wrong)
        .env("GIT_CEILING_DIRECTORIES", &repo.top)
        .env("GIT_NAMESPACE", "elsewhere")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    assert!((snapshot(&repo.top), snapshot(&other.top)) == before);
}

#[test]
fn a_linked_worktree_becomes_a_repo_of_its_own() {
    let repo = busy_repo();
    let top = repo.base.path().canonicalize().unwrap().join("linked");
    repo.git(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "side",
        top.to_str().unwrap(),
        "v1",
    ]);
    write(top.join("README"), "changed in the worktree\n");
    let before = snapshot(&repo.top);
    let field = FieldRepo::discover(&top, false).unwrap();
    assert_eq!(field.branch(), Some("side"));
    assert!(field.is_dirty());
    let workspace = Workspace::prepare(&field, &repo.options(), &|_| {}).unwrap();
    let clone = workspace.pristine();
    assert!(clone.join(".git").is_dir());
    assert_eq!(
        git(clone, &["rev-parse", "--git-common-dir"]).trim(),
        ".git"
    );
    assert_eq!(
        git(clone, &["symbolic-ref", "HEAD"]).trim(),
        "refs/heads/side"
    );
    assert_eq!(git(clone, &["status", "--porcelain"]), " M README\n");
    assert_eq!(git(clone, &["stash", "list"]), repo.git(&["stash", "list"]));
    assert_eq!(git(clone, &["reflog"]), git(&top, &["reflog"]));
    git(clone, &["fsck"]);
    assert!(snapshot(&repo.top) == before);
}

#[test]
fn submodules_and_nested_repos_come_along_as_they_are() {
    let library = Repo::new();
    let repo = Repo::new();
    let from = library.top.to_str().unwrap();
    repo.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        from,
        "lib",
    ]);
    repo.git(&["commit", "-qm", "with a submodule"]);
    assert!(!repo.field().is_dirty());
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    assert!(
        workspace.not_carried().is_empty(),
        "{:?}",
        workspace.not_carried()
    );
    assert_eq!(tree.states.of(Path::new("lib/README")), PathState::Clean);
    assert_eq!(
        tree.states.of(Path::new("lib/.git")),
        PathState::GitInternal
    );
    assert!(
        tree.git_dirs.contains(&PathBuf::from(".git/modules/lib")),
        "{:?}",
        tree.git_dirs
    );
    assert_eq!(
        git(&tree.root.join("lib"), &["rev-parse", "HEAD"]),
        git(&library.top, &["rev-parse", "HEAD"])
    );
    assert_eq!(
        git(&tree.root, &["config", "submodule.lib.url"]).trim(),
        format!("{DEAD_ADDRESS}lib")
    );
    assert_eq!(git(&tree.root, &["status", "--porcelain"]), "");
    // Git takes a lock while it looks, which moves the folders' times; it writes no index.
    let found = changes(&tree);
    assert!(
        found
            .iter()
            .all(|c| c.kind == ChangeKind::Times && !c.path.ends_with("index")),
        "{found:?}"
    );
    drop(workspace);
    write(repo.top.join("lib/README"), "changed\n");
    assert!(repo.field().is_dirty());
    git(&repo.top.join("lib"), &["checkout", "-q", "."]);
    git(&repo.top, &["init", "-q", "nested"]);
    write(repo.top.join("nested/file"), "x");
    assert!(repo.field().is_dirty());
    let workspace = repo.workspace();
    assert_eq!(
        workspace.states().of(Path::new("nested/file")),
        PathState::Untracked
    );
    assert_eq!(
        workspace.states().of(Path::new("nested/.git/HEAD")),
        PathState::GitInternal
    );
    assert!(workspace.pristine().join("nested/.git/HEAD").exists());
    drop(workspace);
    let elsewhere = repo.base.path().join("elsewhere");
    fs::rename(repo.top.join("nested/.git"), &elsewhere).unwrap();
    write(
        repo.top.join("nested/.git"),
        &format!("gitdir: {}\n", elsewhere.display()),
    );
    let workspace = repo.workspace();
    assert_eq!(workspace.not_carried().len(), 1);
    assert!(workspace.not_carried()[0].starts_with("nested/.git:"));
}

#[test]
fn states_tell_what_git_could_bring_back() {
    let repo = busy_repo();
    repo.write("README", "staged, then changed again\n");
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    let rows = [
        (".gitignore", PathState::Clean),
        ("scripts", PathState::Canary),
        ("scripts/run.sh", PathState::Clean),
        ("src/lib.txt", PathState::Uncommitted),
        ("README", PathState::Uncommitted),
        ("new.txt", PathState::Staged),
        ("untracked/file.txt", PathState::Untracked),
        ("noise.log", PathState::Ignored),
        ("build/out", PathState::Ignored),
        (".git/HEAD", PathState::GitInternal),
        ("stashed.txt", PathState::Clean),
        ("absent", PathState::Absent),
        ("../elsewhere", PathState::NotInClone),
    ];
    for (path, expected) in rows {
        assert_eq!(tree.states.of(Path::new(path)), expected, "{path}");
    }
    assert_eq!(
        workspace.states().of(Path::new("scripts")),
        PathState::Clean
    );
    assert_eq!(workspace.states().of(Path::new("empty")), PathState::Clean);
    for canary in &tree.canaries {
        assert_eq!(tree.states.of(canary), PathState::Canary);
        assert_eq!(workspace.states().of(canary), PathState::Absent);
    }
}

#[test]
fn canaries_show_in_the_denied_tree_and_are_ignored_in_the_contained_one() {
    let repo = Repo::new();
    repo.write("deep/er/tool.sh", "x");
    fs::create_dir(repo.top.join("hollow")).unwrap();
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "tool"]);
    repo.git(&["tag", "-a", "-m", "v", "v1"]);
    let mut options = repo.options();
    options.entry_dirs = vec![
        PathBuf::from("deep/er"),
        PathBuf::from("../outside"),
        PathBuf::from(".git"),
    ];
    let before = snapshot(&repo.top);
    let mut workspace = repo.workspace_with(&options);
    let (denied, contained) = (workspace.denied().unwrap(), workspace.fresh().unwrap());
    assert!(
        !denied.canaries.iter().any(|c| c.starts_with("hollow")),
        "an empty folder stays empty"
    );
    let expected: Vec<PathBuf> = ["", "deep/", "deep/er/", "scripts/", "src/"]
        .iter()
        .flat_map(|dir| {
            ["", "-old"].map(|end| PathBuf::from(format!("{dir}{CANARY_PREFIX}0badcafe{end}")))
        })
        .collect();
    assert_eq!(denied.canaries, expected);
    assert_eq!(contained.canaries, expected);
    assert_eq!(git(&contained.root, &["status", "--porcelain"]), "");
    assert_eq!(
        git(&denied.root, &["status", "--porcelain"])
            .lines()
            .count(),
        expected.len()
    );
    assert_eq!(
        git(&contained.root, &["for-each-ref"]),
        repo.git(&["for-each-ref"])
    );
    let old = denied.root.join(&expected[1]).metadata().unwrap();
    assert_eq!(old.mtime(), 1_000_000_000);
    assert_eq!(git(&denied.root, &["stash", "list"]).lines().count(), 1);
    assert!(git(&denied.root, &["branch"]).contains("calibrun-canary-0badcafe"));
    assert_eq!(git(&denied.root, &["describe"]), repo.git(&["describe"]));
    assert_eq!(
        git(&denied.root, &["log", "--oneline"]),
        repo.git(&["log", "--oneline"])
    );
    assert_eq!(git(&denied.root, &["reflog"]), repo.git(&["reflog"]));
    git(&denied.root, &["fsck"]);
    let folder = |top: &Path| top.join("src").metadata().unwrap().mtime_nsec();
    assert_eq!(folder(&denied.root), folder(&repo.top));
    assert_eq!(folder(&contained.root), folder(&repo.top));
    assert!(snapshot(&repo.top) == before);
}

#[test]
fn the_users_own_stashes_keep_their_order() {
    let repo = busy_repo();
    let mut workspace = repo.workspace();
    let denied = workspace.denied().unwrap();
    assert_eq!(
        git(&denied.root, &["stash", "list"]),
        repo.git(&["stash", "list"])
    );
}

#[test]
fn an_untouched_tree_is_used_again_and_a_touched_one_is_replaced_by_its_equal() {
    let repo = busy_repo();
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    let root = tree.root.clone();
    fs::read(root.join("README")).unwrap();
    let after = retake(&tree);
    let tree = workspace.reuse_or_fresh(tree, &after).unwrap();
    assert_eq!(tree.root, root);
    // Read only folders must not stand in the way.
    fs::set_permissions(root.join("src"), Permissions::from_mode(0o500)).unwrap();
    let after = retake(&tree);
    let first = tree.baseline.clone();
    let tree = workspace.reuse_or_fresh(tree, &after).unwrap();
    assert_ne!(tree.root, root);
    assert!(!root.exists());
    assert!(restored(&first, &tree.baseline).is_empty());
    let times: Vec<_> = first.entries().values().map(|e| e.mtime).collect();
    assert_eq!(
        times,
        tree.baseline
            .entries()
            .values()
            .map(|e| e.mtime)
            .collect::<Vec<_>>()
    );
}

#[test]
fn every_kind_of_change_is_listed_and_a_read_is_none() {
    let repo = busy_repo();
    symlink("README", repo.top.join("link")).unwrap();
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    let at = |path: &str| tree.root.join(path);
    fs::read(at("README")).unwrap();
    assert!(fs::read_dir(at("src")).unwrap().count() > 0);
    git(&tree.root, &["log"]);
    assert_eq!(changes(&tree), []);
    assert!(untouched(&tree.baseline, &retake(&tree)));
    write(at("brand/new"), "x");
    fs::remove_file(at("untracked/file.txt")).unwrap();
    fs::write(at("README"), "bytes").unwrap();
    fs::set_permissions(at("scripts/run.sh"), Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(at("new.txt"), Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(at("link")).unwrap();
    symlink("elsewhere", at("link")).unwrap();
    fs::copy(at("stashed.txt"), at("copy")).unwrap();
    fs::rename(at("copy"), at("stashed.txt")).unwrap();
    git(&tree.root, &["config", "a.b", "c"]);
    assert!(!untouched(&tree.baseline, &retake(&tree)));
    let found = changes(&tree);
    let rows = [
        ("brand", ChangeKind::Created),
        ("brand/new", ChangeKind::Created),
        ("untracked/file.txt", ChangeKind::Removed),
        ("untracked", ChangeKind::Times),
        ("README", ChangeKind::Content),
        ("scripts/run.sh", ChangeKind::Executable),
        ("new.txt", ChangeKind::Mode),
        ("link", ChangeKind::Content),
        ("stashed.txt", ChangeKind::Inode),
        (".git/config", ChangeKind::Content),
    ];
    for (path, kind) in rows {
        assert!(has(&found, path, kind), "{path} {kind:?}: {found:?}");
    }
    assert!(!has(&found, "new.txt", ChangeKind::Content));
    assert!(!has(&found, "new.txt", ChangeKind::Executable));
    assert!(!has(&found, "stashed.txt", ChangeKind::Content));
    let of = |path: &str| found.iter().find(|c| c.path == Path::new(path)).unwrap();
    assert_eq!(of("untracked/file.txt").before, PathState::Untracked);
    assert_eq!(of("brand/new").before, PathState::Absent);
    assert!(of(".git/config").in_git_dir && !of("README").in_git_dir);
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!(found, sorted);
}

#[test]
fn a_write_that_leaves_no_trace_in_the_times_is_seen_when_it_is_looked_for() {
    let repo = Repo::new();
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    let mut forged = Manifest::clone(&tree.baseline);
    fs::write(tree.root.join("README"), "READ ME\n").unwrap();
    // As if the file had these times all along: a manifest of now, hashes of before.
    let now = Manifest::take(&tree.root, &tree.git_dirs).unwrap();
    let hash = tree.baseline.get(Path::new("README")).unwrap().sha256;
    forged = {
        let lazy = forged.retake(&tree.root, &Default::default()).unwrap();
        assert_ne!(lazy.get(Path::new("README")).unwrap().sha256, hash);
        lazy
    };
    assert_eq!(forged.entries(), now.entries());
    let written = [PathBuf::from("README")].into_iter().collect();
    let looked = now.retake(&tree.root, &written).unwrap();
    assert_eq!(looked.entries(), now.entries());
}

/// A name, and something to do to a tree.
type Act<'a> = (&'a str, &'a dyn Fn(&Path));

/// Does something to a fresh tree and returns the residue under *restored*.
fn residue_of(repo: &Repo, act: impl FnOnce(&Path)) -> Vec<(String, Difference)> {
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    act(&tree.root);
    let after = retake(&tree);
    restored(&tree.baseline, &after)
        .into_iter()
        .map(|r| (r.path.display().to_string(), r.what))
        .collect()
}

#[test]
fn restored_forgives_what_says_the_same() {
    let repo = busy_repo();
    let acts: [Act<'_>; 5] = [
        ("times and inode", &|top| {
            fs::copy(top.join("README"), top.join("x")).unwrap();
            fs::rename(top.join("x"), top.join("README")).unwrap();
        }),
        ("packed refs", &|top| {
            drop(git(top, &["pack-refs", "--all"]))
        }),
        ("packed objects", &|top| {
            drop(git(top, &["repack", "-adk", "-q"]))
        }),
        ("more objects", &|top| {
            drop(git(top, &["hash-object", "-w", "/etc/hostname"]))
        }),
        ("an index refresh", &|top| {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_234_567_890);
            let file = fs::File::options()
                .append(true)
                .open(top.join(".gitignore"))
                .unwrap();
            file.set_times(fs::FileTimes::new().set_modified(time))
                .unwrap();
            git(top, &["status"]);
        }),
    ];
    for (name, act) in acts {
        assert_eq!(residue_of(&repo, |top| act(top)), [], "{name}");
    }
}

#[test]
fn restored_names_what_was_lost() {
    let repo = busy_repo();
    type Row<'a> = (&'a dyn Fn(&Path), &'a str, Difference);
    let rows: [Row<'_>; 15] = [
        (
            &|top| fs::write(top.join("new"), "").unwrap(),
            "new",
            Difference::Created,
        ),
        (
            &|top| fs::remove_dir(top.join("empty/inner")).unwrap(),
            "empty/inner",
            Difference::Removed,
        ),
        (
            &|top| fs::write(top.join("README"), "").unwrap(),
            "README",
            Difference::Content,
        ),
        (
            &|top| fs::set_permissions(top.join("README"), Permissions::from_mode(0o755)).unwrap(),
            "README",
            Difference::Executable,
        ),
        (
            &|top| fs::set_permissions(top.join("README"), Permissions::from_mode(0o600)).unwrap(),
            "README",
            Difference::Mode,
        ),
        (
            &|top| drop(git(top, &["branch", "-D", "topic"])),
            ".git/refs/heads/topic",
            Difference::Ref,
        ),
        (
            &|top| drop(git(top, &["tag", "new"])),
            ".git/refs/tags/new",
            Difference::Ref,
        ),
        (
            &|top| drop(git(top, &["stash", "drop"])),
            ".git/logs/refs/stash",
            Difference::Stash,
        ),
        (
            &|top| drop(git(top, &["reflog", "expire", "--expire=now", "--all"])),
            ".git/logs/HEAD",
            Difference::Reflog,
        ),
        (
            &|top| drop(git(top, &["reset", "-q"])),
            ".git/index",
            Difference::Index,
        ),
        (
            &|top| drop(git(top, &["update-index", "--assume-unchanged", "README"])),
            ".git/index",
            Difference::Index,
        ),
        (
            &|top| drop(git(top, &["config", "user.name", "Other"])),
            ".git/config",
            Difference::Config,
        ),
        (
            &|top| {
                git(top, &["reflog", "expire", "--expire=now", "--all"]);
                git(top, &["gc", "-q", "--prune=now"]);
            },
            ".git/objects",
            Difference::Objects,
        ),
        (
            &|top| fs::write(top.join(".git/hooks/pre-commit"), "x").unwrap(),
            ".git/hooks/pre-commit",
            Difference::Created,
        ),
        (
            &|top| fs::write(top.join(".git/objects/info/alternates"), "/elsewhere\n").unwrap(),
            ".git/objects",
            Difference::Objects,
        ),
    ];
    for (act, path, what) in rows {
        let found = residue_of(&repo, |top| act(top));
        assert!(
            found.contains(&(path.to_owned(), what)),
            "{path} {what:?}: {found:?}"
        );
    }
}

#[test]
fn a_forged_object_is_no_object() {
    let repo = busy_repo();
    let found = residue_of(&repo, |top| {
        let name = git(top, &["rev-parse", "HEAD:scripts/run.sh"]);
        let path = top
            .join(".git/objects")
            .join(&name[..2])
            .join(name[2..].trim());
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        fs::write(&path, "not an object").unwrap();
    });
    assert!(
        found
            .iter()
            .any(|(path, what)| path == ".git/objects" && *what == Difference::Objects),
        "{found:?}"
    );
}

/// Does something to a fresh tree and undoes it.
fn undone(repo: &Repo, act: impl FnOnce(&Path)) -> UndoReport {
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    act(&tree.root);
    let report = undo(&tree, &tree.baseline, &retake(&tree)).unwrap();
    assert_eq!(report.residue, restored(&tree.baseline, &report.after));
    // From outside, with git's own eyes.
    if report.residue.is_empty() {
        let pristine = workspace.pristine();
        for args in [
            &["status", "--porcelain"][..],
            &["for-each-ref"],
            &["stash", "list"],
            &["diff"],
            &["diff", "--cached"],
        ] {
            assert_eq!(git(&tree.root, args), git(pristine, args), "git {args:?}");
        }
    }
    report
}

#[test]
fn undo_brings_back_what_history_keeps() {
    let repo = busy_repo();
    symlink("README", repo.top.join("link")).unwrap();
    repo.write("dos.txt", "a\r\nb\r\n");
    repo.write(".gitattributes", "dos.txt text eol=crlf\n");
    repo.write("tools/deep/er/one", "1\n");
    repo.write("tools/deep/two", "2\n");
    repo.git(&["add", "link", "dos.txt", ".gitattributes", "tools"]);
    let acts: [Act<'_>; 15] = [
        ("nothing", &|_| {}),
        ("a new file", &|top| write(top.join("brand/new/file"), "x")),
        ("a removed folder of clean files", &|top| {
            fs::remove_dir_all(top.join("tools/deep")).unwrap()
        }),
        ("a removed empty folder", &|top| {
            fs::remove_dir_all(top.join("empty")).unwrap()
        }),
        ("a changed clean file", &|top| {
            fs::write(top.join("stashed.txt"), "other").unwrap()
        }),
        ("a removed file with converted line ends", &|top| {
            fs::remove_file(top.join("dos.txt")).unwrap()
        }),
        ("a lost executable bit", &|top| {
            fs::set_permissions(top.join("scripts/run.sh"), Permissions::from_mode(0o644)).unwrap();
        }),
        ("a link turned elsewhere", &|top| {
            fs::remove_file(top.join("link")).unwrap();
            symlink("/etc/passwd", top.join("link")).unwrap();
        }),
        ("a file that became a folder", &|top| {
            fs::remove_file(top.join("stashed.txt")).unwrap();
            write(top.join("stashed.txt/inner"), "x");
        }),
        ("a stash of everything", &|top| {
            drop(git(top, &["stash", "push", "-qu"]))
        }),
        ("a commit", &|top| {
            drop(git(top, &["commit", "-qam", "all"]))
        }),
        ("another branch and tags", &|top| {
            git(top, &["tag", "extra"]);
            git(top, &["tag", "-a", "-m", "x", "more"]);
            git(top, &["branch", "extra"]);
            git(top, &["pack-refs", "--all"]);
        }),
        ("a merge of what is there already", &|top| {
            drop(git(top, &["merge", "-q", "topic"]))
        }),
        ("a new setting", &|top| {
            drop(git(top, &["config", "calibrun.test", "1"]))
        }),
        ("a new hook", &|top| {
            write(top.join(".git/hooks/pre-push"), "x")
        }),
    ];
    for (name, act) in acts {
        let report = undone(&repo, |top| act(top));
        assert_eq!(report.residue, [], "{name}");
    }
}

#[test]
fn undo_cannot_bring_back_what_history_never_had() {
    let repo = busy_repo();
    type Row<'a> = (&'a dyn Fn(&Path), &'a str, Difference);
    let rows: [Row<'_>; 14] = [
        (
            &|top| fs::remove_file(top.join("untracked/file.txt")).unwrap(),
            "untracked/file.txt",
            Difference::Removed,
        ),
        (
            &|top| fs::write(top.join("noise.log"), "").unwrap(),
            "noise.log",
            Difference::Content,
        ),
        (
            &|top| drop(git(top, &["checkout", "src/lib.txt"])),
            "src/lib.txt",
            Difference::Content,
        ),
        (
            &|top| drop(git(top, &["reset", "-q", "--hard"])),
            "new.txt",
            Difference::Removed,
        ),
        (
            &|top| drop(git(top, &["clean", "-fdqx"])),
            "build/out/product",
            Difference::Removed,
        ),
        (
            &|top| drop(git(top, &["reset", "-q"])),
            ".git/index",
            Difference::Index,
        ),
        (
            &|top| drop(git(top, &["stash", "clear"])),
            ".git/logs/refs/stash",
            Difference::Stash,
        ),
        (
            &|top| drop(git(top, &["tag", "-d", "v2"])),
            ".git/refs/tags/v2",
            Difference::Ref,
        ),
        (
            &|top| drop(git(top, &["config", "user.name", "Other"])),
            ".git/config",
            Difference::Config,
        ),
        (
            &|top| drop(git(top, &["config", "--unset", "user.email"])),
            ".git/config",
            Difference::Config,
        ),
        (
            &|top| fs::remove_dir_all(top.join(".git/logs")).unwrap(),
            ".git/logs/HEAD",
            Difference::Reflog,
        ),
        (
            &|top| fs::remove_dir_all(top.join(".git")).unwrap(),
            ".git",
            Difference::Removed,
        ),
        (
            &|top| fs::write(top.join(".git/info/exclude"), "*\n").unwrap(),
            ".git/info/exclude",
            Difference::Content,
        ),
        (
            &|top| {
                fs::set_permissions(
                    top.join("untracked/file.txt"),
                    Permissions::from_mode(0o755),
                )
                .unwrap()
            },
            "untracked/file.txt",
            Difference::Executable,
        ),
    ];
    for (act, path, what) in rows {
        let report = undone(&repo, |top| act(top));
        let found = report
            .residue
            .iter()
            .any(|r| r.path == Path::new(path) && r.what == what);
        assert!(found, "{path} {what:?}: {:?}", report.residue);
    }
}

#[test]
fn undo_takes_nothing_from_outside_the_tree() {
    let repo = busy_repo();
    let outside = repo.base.path().join("outside");
    write(outside.join("lib.txt"), "outside\n");
    let pristine = std::cell::RefCell::new(PathBuf::new());
    let report = undone(&repo, |top| {
        // Objects borrowed from elsewhere, and a folder that leads out.
        *pristine.borrow_mut() = repo.top.join(".git/objects");
        fs::remove_dir_all(top.join(".git/objects")).unwrap();
        fs::create_dir_all(top.join(".git/objects/info")).unwrap();
        write(
            top.join(".git/objects/info/alternates"),
            &format!("{}\n", pristine.borrow().display()),
        );
        fs::remove_file(top.join("stashed.txt")).unwrap();
        fs::remove_dir_all(top.join("src")).unwrap();
        symlink(&outside, top.join("src")).unwrap();
    });
    let has = |path: &str, what| {
        report
            .residue
            .iter()
            .any(|r| r.path == Path::new(path) && r.what == what)
    };
    assert!(
        has(".git/objects", Difference::Objects),
        "{:?}",
        report.residue
    );
    assert!(has("stashed.txt", Difference::Removed));
    assert!(has("src/lib.txt", Difference::Removed));
    assert_eq!(
        fs::read_to_string(outside.join("lib.txt")).unwrap(),
        "outside\n"
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_repo_that_moves_while_it_is_copied_is_refused() {
    let repo = Repo::new();
    let commit = |stage| {
        if stage == Stage::Files {
            repo.git(&["commit", "-q", "--allow-empty", "-m", "meanwhile"]);
        }
    };
    let moved = Workspace::prepare(&repo.field(), &repo.options(), &commit).unwrap_err();
    assert!(
        matches!(moved, WorkspaceError::ChangedMeanwhile { .. }),
        "{moved}"
    );
    assert_eq!(
        fs::read_dir(repo.options().places.slow).unwrap().count(),
        0,
        "the temp root is gone"
    );
    assert!(Workspace::prepare(&repo.field(), &repo.options(), &|_| {}).is_ok());
}

#[test]
fn links_in_the_git_folder_lead_no_write_out_of_the_copy() {
    let repo = Repo::new();
    let shared = repo.base.path().join("shared-exclude");
    write(&shared, "*.tmp\n");
    fs::remove_file(repo.top.join(".git/info/exclude")).unwrap();
    symlink(&shared, repo.top.join(".git/info/exclude")).unwrap();
    repo.write("a.tmp", "ignored");
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    assert_eq!(git(&tree.root, &["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(&shared).unwrap(), "*.tmp\n");
    assert_eq!(tree.states.of(Path::new("a.tmp")), PathState::Ignored);
    let heads = repo.base.path().join("heads");
    fs::rename(repo.top.join(".git/refs/heads"), &heads).unwrap();
    symlink(&heads, repo.top.join(".git/refs/heads")).unwrap();
    let refused = Workspace::prepare(&repo.field(), &repo.options(), &|_| {}).unwrap_err();
    assert!(
        matches!(refused, WorkspaceError::Unsupported { .. }),
        "{refused}"
    );
}

#[test]
fn a_submodule_is_judged_and_brought_back_by_its_own_history() {
    let library = Repo::new();
    let repo = Repo::new();
    let from = library.top.to_str().unwrap();
    repo.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        from,
        "lib",
    ]);
    repo.git(&["commit", "-qm", "with a submodule"]);
    let report = undone(&repo, |top| {
        fs::remove_file(top.join("lib/README")).unwrap();
        fs::set_permissions(
            top.join("lib/scripts/run.sh"),
            Permissions::from_mode(0o644),
        )
        .unwrap();
        git(&top.join("lib"), &["add", "README"]);
        git(&top.join("lib"), &["tag", "extra"]);
    });
    assert_eq!(report.residue, []);
    let report = undone(&repo, |top| {
        git(&top.join("lib"), &["config", "core.abbrev", "12"]);
        git(&top.join("lib"), &["branch", "-m", "other"]);
    });
    let lost = |path: &str| report.residue.iter().any(|r| r.path == Path::new(path));
    assert!(
        lost(".git/modules/lib/logs/refs/heads/main"),
        "{:?}",
        report.residue
    );
}

/// As an ordinary user; root is refused nothing.
#[test]
fn what_a_subject_closed_to_everybody_is_read_all_the_same() {
    let repo = Repo::new();
    repo.write("scripts/local.sh", "not tracked\n");
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    for path in ["scripts/run.sh", "scripts", "README", ""] {
        fs::set_permissions(tree.root.join(path), Permissions::from_mode(0o0)).unwrap();
    }
    let after = retake(&tree);
    let changes = diff(&tree.baseline, &after, &tree.states);
    let found: Vec<(PathBuf, ChangeKind)> = changes.into_iter().map(|c| (c.path, c.kind)).collect();
    let modes = ["", "README", "scripts", "scripts/run.sh"];
    for path in modes {
        assert_eq!(after.get(Path::new(path)).unwrap().mode, 0, "{path:?}");
        assert!(
            found.contains(&(PathBuf::from(path), ChangeKind::Mode)),
            "{found:?}"
        );
    }
    let others = [ChangeKind::Mode, ChangeKind::Executable, ChangeKind::Times];
    assert!(
        found.iter().all(|(_, kind)| others.contains(kind)),
        "{found:?}"
    );
    assert!(!untouched(&tree.baseline, &after));
}
