//! What a user can get wrong: each has its exit code, says what is wrong, where and what to do, and leaves
//! nothing behind.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use super::environment::{Session, TestEnvironment, fixtures, leave_out, leaving_nothing, write};

/// An honest repo whose declaration has one line replaced; gives the session of probing it.
fn probed_with(key: &str, line: &str) -> Session {
    let env = TestEnvironment::new();
    let repo = env.fixture("honest");
    replace(&repo, key, line);
    leaving_nothing(|| env.run(&repo, &["probe", "leak_scan.cap"]))
}

/// Replaces the line of `key`, or adds one.
fn replace(repo: &Path, key: &str, line: &str) {
    let file = repo.join("leak_scan.cap");
    let text = std::fs::read_to_string(&file).unwrap();
    let start = format!("{key}:");
    let mut lines: Vec<&str> = text.lines().filter(|l| !l.starts_with(&start)).collect();
    lines.push(line);
    write(&file, &format!("{}\n", lines.join("\n")));
}

#[test]
fn a_missing_file_is_named() {
    let env = TestEnvironment::new();
    let session = leaving_nothing(|| env.run(&env.base(), &["probe", "tools/gone.cap"]));
    session
        .exits(10)
        .complains(&["tools/gone.cap", "No such file"])
        .says(&["harness-error: no capability was read"]);
}

#[test]
fn a_folder_without_declarations_says_what_was_looked_for() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let session = leaving_nothing(|| env.run(&repo, &["probe", "scripts"]));
    session
        .exits(10)
        .complains(&["no declaration in scripts", "`.cap`", "`entry`"]);
}

#[test]
fn every_error_of_a_declaration_is_told_with_its_place() {
    let env = TestEnvironment::new();
    let repo = env.fixture("honest");
    replace(&repo, "writes", "wirtes: read-only");
    replace(&repo, "approval", "approval: always");
    replace(&repo, "entry", "entry: sh a.sh | tee out");
    let file = repo.join("leak_scan.cap");
    let text = std::fs::read_to_string(&file).unwrap();
    let line = |start: &str| {
        let number = text.lines().position(|l| l.starts_with(start));
        number.expect("the line") + 1
    };
    let places = [
        format!("leak_scan.cap:{}:1: unknown key `wirtes`", line("wirtes")),
        format!("leak_scan.cap:{}:11: ", line("approval")),
        format!("leak_scan.cap:{}:16: unquoted `|`", line("entry")),
    ];
    let session = leaving_nothing(|| env.run(&repo, &["probe", "leak_scan.cap"])).exits(10);
    let session = session.complains(&places.each_ref().map(String::as_str));
    session.complains(&["did you mean `writes`?"]);
}

#[test]
fn a_folder_in_no_repo_says_how_to_make_it_one() {
    let env = TestEnvironment::new();
    let text = std::fs::read_to_string(fixtures().join("honest/leak_scan.cap")).unwrap();
    write(&env.base().join("loose/leak_scan.cap"), &text);
    let loose = env.base().join("loose");
    let path = loose.to_str().unwrap();
    for args in [&["probe", "."][..], &["observe", "--", "true"]] {
        let session = leaving_nothing(|| env.run(&loose, args)).exits(10);
        session.complains(&[path, "is in no git repo", "git init"]);
    }
}

#[test]
fn a_bare_repo_and_the_inside_of_a_git_folder_say_what_to_do() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    env.git(&env.base(), &["clone", "-q", "--bare", "field", "bare.git"]);
    for folder in [env.base().join("bare.git"), repo.join(".git")] {
        let session = leaving_nothing(|| env.run(&folder, &["observe", "--", "true"])).exits(10);
        session.complains(&[folder.to_str().unwrap(), "has no work tree", "clone it"]);
    }
}

#[test]
fn a_repo_without_a_commit_says_so() {
    let env = TestEnvironment::new();
    let empty = env.base().join("empty");
    std::fs::create_dir(&empty).unwrap();
    env.git(&empty, &["init", "-q"]);
    let session = leaving_nothing(|| env.run(&empty, &["observe", "--", "true"])).exits(10);
    session.complains(&[empty.to_str().unwrap(), "has no commit yet", "commit once"]);
}

#[test]
fn a_folder_to_run_in_that_is_not_here_is_named() {
    let session = probed_with("requires_cwd", "requires_cwd: /no/such folder");
    session.exits(10).complains(&[
        "honest:leak-scan",
        "requires_cwd names /no/such folder",
        "no folder here",
    ]);
}

#[test]
fn an_entry_that_is_not_there_is_named_with_the_keys_to_look_at() {
    let session = probed_with("entry", "entry: sh scripts/gone.sh");
    session
        .exits(10)
        .complains(&["scripts/gone.sh", "`entry`", "`requires_cwd`"]);
    let session = probed_with("entry", "entry: no-such-program");
    session
        .exits(10)
        .complains(&["no-such-program", "not in PATH", "install it"]);
}

#[test]
fn a_file_for_standard_input_that_is_not_there_is_named() {
    let session = probed_with(
        "calibration_positive_stdin",
        "calibration_positive_stdin: samples/gone.json",
    );
    session
        .exits(10)
        .complains(&["samples/gone.json", "standard input", "not in the repo"]);
}

#[test]
fn a_repo_of_another_user_is_refused_unless_it_is_trusted() {
    let env = TestEnvironment::new();
    let me = env.base().metadata().unwrap().uid();
    let repo = if me == 0 {
        let repo = env.repo("field");
        for entry in walkdir::WalkDir::new(&repo) {
            let entry = entry.unwrap();
            std::os::unix::fs::lchown(entry.path(), Some(4321), Some(4321)).unwrap();
        }
        repo
    } else {
        // Only root can give files away; the checkout that this was built from may be somebody else's.
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf();
        let owner = checkout.metadata().map(|m| m.uid());
        if owner.ok().is_none_or(|owner| owner == me) || !checkout.join(".git").exists() {
            return leave_out(
                "a repo of another user",
                "there is none for an ordinary user",
            );
        }
        checkout
    };
    let session = leaving_nothing(|| env.run(&repo, &["observe", "--", "true"])).exits(10);
    session.complains(&[repo.to_str().unwrap(), "belongs to", "--trust-owner"]);
    if me == 0 {
        let args = ["observe", "--trust-owner", "--", "cat", "README.md"];
        env.run(&repo, &args).exits(0).says(&["seen: read-only"]);
        // The top alone is enough to be refused: its owner decides what lies in it.
        chown(repo.join(".git"), Some(0), Some(0)).unwrap();
        env.run(&repo, &["observe", "--", "true"]).exits(10);
    }
}

#[test]
fn wrong_usage_is_64_and_says_what_is_wrong() {
    let env = TestEnvironment::new();
    let repo = env.repo("field");
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["Usage:"]),
        (&["frobnicate"], &["frobnicate"]),
        (&["probe"], &["<PATH>", "required"]),
        (&["probe", "--nonsense", "."], &["--nonsense"]),
        (&["observe"], &["<CMD>", "required"]),
        (&["observe", "true"], &["true"]),
        (
            &["observe", "--claim", "nonsense", "--", "true"],
            &["nonsense", "AXIS=VALUE"],
        ),
        (
            &["observe", "--claim", "writes=some", "--", "true"],
            &["some", "read-only, write-local"],
        ),
        (
            &["observe", "--claim", "tier=opus", "--", "true"],
            &["tier", "writes and reversibility"],
        ),
        (
            &[
                "observe",
                "--claim",
                "writes=read-only",
                "--claim",
                "writes=write-local",
                "--",
                "true",
            ],
            &["--claim", "twice"],
        ),
        (
            &["observe", "--timeout", "soon", "--", "true"],
            &["soon", "20s"],
        ),
        (
            &["observe", "--timeout", "5 parsecs", "--", "true"],
            &["5 parsecs", "unknown unit"],
        ),
        (&["observe", "--linger", "-1s", "--", "true"], &["-1"]),
        (
            &["observe", "--format", "xml", "--", "true"],
            &["xml", "json"],
        ),
        (
            &["observe", "--color", "pink", "--", "true"],
            &["pink", "never"],
        ),
        (
            &["observe", "--env", "=x", "--", "true"],
            &["--env", "KEY=VALUE"],
        ),
    ];
    for (args, texts) in cases {
        let session = leaving_nothing(|| env.run(&repo, args)).exits(64);
        assert_eq!(session.stdout, "", "{session}");
        session.complains(texts);
    }
}

#[test]
fn a_home_that_is_no_folder_is_told_with_what_to_do() {
    let env = TestEnvironment::new();
    let repo = env.fixture("honest");
    let with_home = |home: Option<&str>| {
        let mut command = env.calibrun(&repo, &["probe", "."]);
        match home {
            Some(home) => command.env("HOME", home),
            None => command.env_remove("HOME"),
        };
        leaving_nothing(|| Session::of(command)).exits(10)
    };
    with_home(None).complains(&["HOME is not set", "hint: ", "--env HOME="]);
    with_home(Some("/no/such/home")).complains(&["/no/such/home", "no folder", "hint: "]);
    with_home(Some("")).complains(&["HOME", "no folder", "hint: "]);
    // One that is given for the arms is enough.
    let given = format!("HOME={}", env.home().display());
    let mut command = env.calibrun(&repo, &["probe", "--env", &given, "."]);
    command.env_remove("HOME");
    Session::of(command).exits(0);
    // As in many containers: a HOME that is everything is a folder like any other.
    let mut command = env.calibrun(&repo, &["probe", "."]);
    command.env("HOME", "/");
    Session::of(command).exits(0);
}
