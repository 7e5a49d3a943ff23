//! How a subject starts: what it is given, what is taken from it, and where it finds itself.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use calibrun_sandbox::{Effect, Outcome, Pass, Place, RunError, Stdin, Termination};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::host::cases;
use crate::raw::{Arg, call};
use crate::stage::{Asked, Stage};

cases! {
    Nothing =>
        the_environment_is_the_jobs_and_tmpdir
        standard_input_is_empty_or_the_declared_file
        standard_input_reaches_no_further_than_the_subject
        a_bare_name_is_looked_up_in_the_jobs_path
        a_file_without_an_interpreter_line_is_run_by_sh
        what_cannot_be_executed_says_why
        bytes_that_are_no_text_reach_the_subject
        the_working_folder_is_below_the_clone
        jobs_that_cannot_be_run_are_errors
        signals_start_with_their_default_actions
        no_descriptor_is_inherited
        there_is_no_controlling_terminal
        no_right_is_left
        core_dumps_start_no_program;
    Mounts =>
        the_clone_stands_where_the_repo_is
        the_temp_root_is_hidden
        temp_folders_show_what_was_there_and_keep_what_is_made_to_themselves;
    Pids =>
        only_the_arms_processes_are_shown_in_the_contained_pass;
}

const BOTH: [Pass; 2] = [Pass::Denied, Pass::Contained];

fn the_environment_is_the_jobs_and_tmpdir() {
    for pass in BOTH {
        let mut stage = Stage::new(pass);
        stage.env.push(("TMPDIR".into(), "/elsewhere".into()));
        stage.env.push(("COLOUR".into(), "blue".into()));
        let run = stage.run(&["env".as_ref()]);
        let out = run.out();
        let mut names: Vec<_> = out.lines().filter_map(|l| l.split('=').next()).collect();
        names.sort_unstable();
        assert_eq!(names, ["COLOUR", "HOME", "PATH", "TMPDIR"]);
        assert!(
            out.lines()
                .any(|l| l == format!("TMPDIR={}", run.tmpdir.display()))
        );
        let run = stage.sh(r#"test -d "$TMPDIR" && test -w "$TMPDIR" && ls -A "$TMPDIR" | wc -l"#);
        assert_eq!(run.out().trim(), "0");
    }
}

fn standard_input_is_empty_or_the_declared_file() {
    let mut stage = Stage::new(Pass::Contained);
    assert_eq!(stage.sh("wc -c").out().trim(), "0");
    stage.put("input", "given\n");
    stage.stdin = Stdin::File("input".into());
    let run = stage.sh("cat; echo x >&0");
    assert_eq!(run.out(), "given\n", "and it cannot be written to");
    stage.stdin = Stdin::File("missing".into());
    let error = stage.try_run(&["true".as_ref()], &|| false).err();
    assert!(matches!(error, Some(RunError::Confine(_))), "{error:?}");
}

fn standard_input_reaches_no_further_than_the_subject() {
    let mut stage = Stage::new(Pass::Denied);
    stage.put("input", "given\n");
    stage.stdin = Stdin::File("input".into());
    let before = fs::metadata(stage.clone_top().join("input")).expect("stat");
    // By its number, by its magic link, and opened anew for writing.
    let run =
        stage.sh("chmod 777 /proc/self/fd/0; touch -d @1 /dev/stdin; echo x >>/proc/self/fd/0");
    let after = fs::metadata(stage.clone_top().join("input")).expect("stat");
    assert_eq!(before.permissions(), after.permissions());
    assert_eq!(before.modified().ok(), after.modified().ok());
    for effect in [Effect::Mode, Effect::WriteOpen] {
        assert!(
            run.attempts.iter().any(|a| a.effect == effect
                && a.place == Place::Worktree
                && a.outcome == Outcome::Denied),
            "{effect}: {:?}",
            run.attempts
        );
    }
}

/// Puts an executable file into the clone.
fn program(stage: &Stage, path: &str, text: &str) {
    stage.put(path, text);
    for top in [stage.repo(), stage.clone_top()] {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(top.join(path), mode).expect("chmod");
    }
}

fn a_bare_name_is_looked_up_in_the_jobs_path() {
    let mut stage = Stage::new(Pass::Denied);
    program(&stage, "one/tool", "#!/bin/sh\necho one $0\n");
    program(&stage, "two/tool", "#!/bin/sh\necho two $0\n");
    stage.put("zero/tool", "not executable");
    for (path, expected) in [
        ("zero:one:two", Some("one")),
        ("two:one", Some("two")),
        ("/nowhere:one", Some("one")),
        ("zero", None),
        ("", None),
    ] {
        stage.env = vec![("PATH".into(), path.into())];
        let run = stage.run(&["tool".as_ref()]);
        match expected {
            Some(word) => assert!(run.out().starts_with(word), "{path}: {}", run.list()),
            None => assert!(
                matches!(run.termination, Termination::NotExecuted(_)),
                "{path}: {:?}",
                run.termination
            ),
        }
    }
    // With a slash the PATH does not matter, and the name starts from the working folder.
    stage.env = vec![("PATH".into(), "two".into())];
    stage.cwd = "one".into();
    let run = stage.run(&["./tool".as_ref()]);
    assert!(run.out().starts_with("one"), "{}", run.list());
    run.expect_nothing();
}

fn a_file_without_an_interpreter_line_is_run_by_sh() {
    let stage = Stage::new(Pass::Denied);
    program(&stage, "script", "echo \"$# $1\"; exit 4\n");
    let run = stage.run(&["./script".as_ref(), "a b".as_ref(), "".as_ref()]);
    assert_eq!(run.termination, Termination::Exited(4));
    assert_eq!(run.out(), "2 a b\n");
    let run = Stage::sh(&stage, "./script x");
    assert_eq!(run.out(), "1 x\n", "as a shell does it");
}

fn what_cannot_be_executed_says_why() {
    let stage = Stage::new(Pass::Denied);
    program(&stage, "script", "#!/no/such/interpreter\n");
    for name in ["./script", "./missing", "missing", "./w", "./w/file"] {
        let run = stage.run(&[name.as_ref()]);
        let Termination::NotExecuted(why) = &run.termination else {
            panic!("{name}: {:?}", run.termination);
        };
        assert!(!why.is_empty());
        run.expect_nothing();
    }
}

fn bytes_that_are_no_text_reach_the_subject() {
    let mut stage = Stage::new(Pass::Denied);
    let odd = OsStr::from_bytes(b"\xff\xfe \n");
    stage.env.push(("ODD".into(), odd.to_owned()));
    let script = r#"printf %s "$ODD"; printf %s "$1" >&2"#;
    let run = stage.run(&[
        "sh".as_ref(),
        "-c".as_ref(),
        script.as_ref(),
        "sh".as_ref(),
        odd,
    ]);
    assert_eq!(run.stdout.bytes, odd.as_bytes());
    assert_eq!(run.stderr.bytes, odd.as_bytes());
}

fn the_working_folder_is_below_the_clone() {
    let mut stage = Stage::new(Pass::Contained);
    stage.cwd = "w".into();
    let run = stage.sh("pwd -P; cat file; echo more >> file");
    assert_eq!(run.out(), format!("{}/w\ntext\n", run.top.display()));
    run.expect(
        Effect::WriteOpen,
        Place::Worktree,
        Outcome::Allowed,
        "w/file",
    );
    stage.cwd = "missing".into();
    let error = stage.try_run(&["true".as_ref()], &|| false).err();
    assert!(matches!(error, Some(RunError::Confine(_))), "{error:?}");
}

fn jobs_that_cannot_be_run_are_errors() {
    let stage = Stage::new(Pass::Denied);
    let run = |argv: &[&OsStr]| stage.try_run(argv, &|| false).err();
    assert!(matches!(run(&[]), Some(RunError::EmptyArgv)));
    assert!(matches!(run(&["".as_ref()]), Some(RunError::EmptyArgv)));
    let nul = run(&["echo".as_ref(), "a\0b".as_ref()]);
    assert!(matches!(nul, Some(RunError::NulByte(_))), "{nul:?}");
}

fn signals_start_with_their_default_actions() {
    let stage = Stage::new(Pass::Denied);
    // The runner, a Rust program, ignores SIGPIPE; its subject must not.
    let run = stage.run(&["cat".as_ref(), "/proc/self/status".as_ref()]);
    let field = |name: &str| {
        let text = run.out();
        let line = text.lines().find_map(|l| l.strip_prefix(name));
        line.map(|l| l.trim().to_owned())
            .expect("a field of status(5)")
    };
    for name in ["SigIgn:", "SigBlk:"] {
        assert_eq!(field(name).trim_start_matches('0'), "", "{name}");
    }
    let run = stage.sh("yes | head -n 1");
    assert_eq!((run.out(), run.err()), ("y\n".into(), String::new()));
}

/// A subject: writes through every descriptor that it was not given.
pub(crate) fn try_descriptors() -> io::Result<()> {
    for number in 3..256 {
        let wrote = call(
            libc::SYS_write,
            &mut [Arg::N(number), Arg::R(b"x"), Arg::N(1)],
        );
        let made = call(
            libc::SYS_mkdirat,
            &mut [Arg::N(number), Arg::S(c"made"), Arg::N(0o755)],
        );
        if wrote.is_ok() || made.is_ok() {
            println!("open {number}");
        }
    }
    println!("listed {}", fs::read_dir("/proc/self/fd")?.count());
    Ok(())
}

fn no_descriptor_is_inherited() {
    let stage = Stage::new(Pass::Contained);
    let file = OpenOptions::new()
        .append(true)
        .open(stage.outside().join("file"))
        .expect("open");
    let folder = File::open(stage.outside()).expect("open");
    for fd in [&file, &folder] {
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty())).expect("let it be inherited");
    }
    // A child of this process does inherit them, so that the subject does not is the sandbox's doing.
    let ours = crate::host::this_program()
        .args([crate::subject::ROLE, "descriptors"])
        .output()
        .expect("run a child");
    let ours = String::from_utf8_lossy(&ours.stdout).into_owned();
    assert!(
        ours.contains(&format!("open {}\n", file.as_raw_fd())),
        "{ours}"
    );
    assert!(
        ours.contains(&format!("open {}\n", folder.as_raw_fd())),
        "{ours}"
    );
    fs::remove_dir(stage.outside().join("made")).expect("the child made it");
    let run = stage.subject("descriptors", &[]);
    // Standard three, and the one that lists.
    assert_eq!(run.out(), "listed 4\n");
}

fn there_is_no_controlling_terminal() {
    let stage = Stage::new(Pass::Denied);
    let run = stage.sh("echo x > /dev/tty");
    assert!(
        matches!(run.termination, Termination::Exited(code) if code != 0),
        "{}",
        run.list()
    );
    run.expect(
        Effect::WriteOpen,
        Place::DeviceSink,
        Outcome::Allowed,
        "/dev/tty",
    );
    // Field 7 of stat(5) is the terminal, fields 1 and 6 are process and session.
    let run = stage.run(&["cat".as_ref(), "/proc/self/stat".as_ref()]);
    let out = run.out();
    let fields: Vec<_> = out.split_whitespace().collect();
    assert_eq!(fields[6], "0");
    assert_eq!(fields[0], fields[5], "it leads a session of its own");
}

fn no_right_is_left() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let run = stage.run(&["cat".as_ref(), "/proc/self/status".as_ref()]);
        let status = run.out();
        let field = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name));
            line.expect("a field of status(5)").trim()
        };
        assert!(run.layers.capabilities_dropped);
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(field(set).trim_start_matches('0'), "", "{set}");
        }
        // Without any privilege nobody can empty it; with no_new_privs it gives nothing either.
        if run.layers.user_namespace || nix::unistd::Uid::effective().is_root() {
            assert_eq!(field("CapBnd:").trim_start_matches('0'), "");
        }
        assert_eq!(field("NoNewPrivs:"), "1");
        assert_eq!(field("Seccomp:"), "2");
        let uid = nix::unistd::Uid::effective().to_string();
        assert_eq!(field("Uid:").split_whitespace().next(), Some(uid.as_str()));
    }
}

fn core_dumps_start_no_program() {
    let stage = Stage::new(Pass::Denied);
    let run = stage.run(&["cat".as_ref(), "/proc/self/limits".as_ref()]);
    let out = run.out();
    let line = out.lines().find(|l| l.starts_with("Max core file size"));
    let mut words = line.expect("the limit").split_whitespace().skip(4);
    // 0 would still start a program that core_pattern names.
    assert_eq!((words.next(), words.next()), (Some("1"), Some("1")));
}

fn the_clone_stands_where_the_repo_is() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        fs::write(stage.in_clone("only-here"), "clone\n").expect("write");
        let run = stage.sh("pwd -P; cat only-here; cat ../outside/file; ls ..");
        assert_eq!(run.top, stage.repo());
        let expected = format!(
            "{}\nclone\ntheirs\nhome\noutside\nrepo\n",
            stage.repo().display()
        );
        assert_eq!(run.out(), expected, "{}", run.err());
        run.expect_nothing();
        // A sibling is the real one, and it is out of reach.
        let run = stage.sh("echo x >> ../outside/file");
        run.expect(
            Effect::WriteOpen,
            Place::Outside,
            Outcome::Denied,
            "outside/file",
        );
    }
}

fn the_temp_root_is_hidden() {
    let stage = Stage::new(Pass::Contained);
    fs::write(stage.work().join("x"), "x").expect("write");
    let list = format!("ls -A {}", stage.work().display());
    let seen = std::process::Command::new("sh")
        .args(["-c", &list])
        .output();
    assert_eq!(seen.expect("list").stdout, b"x\n");
    let run = stage.sh(&list);
    assert_ne!(run.termination, Termination::Exited(0));
    assert_eq!(run.out(), "");
}

fn temp_folders_show_what_was_there_and_keep_what_is_made_to_themselves() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let theirs = tempfile::Builder::new()
            .prefix("sandbox-test-")
            .tempdir_in("/tmp")
            .expect("a folder");
        let file = theirs.path().join("file");
        fs::write(&file, "theirs\n").expect("write");
        let name = OsString::from(format!(
            "/tmp/calibrun-test-made-{}-{}",
            std::process::id(),
            pass
        ));
        let script = r#"cat "$1/file"; echo own > "$2"; cat "$2"; echo x >> "$1/file"; echo y > "$1/new"; echo shm > /dev/shm/calibrun-test; rm "$1/file""#;
        let run = stage.run(&[
            "sh".as_ref(),
            "-c".as_ref(),
            script.as_ref(),
            "sh".as_ref(),
            theirs.path().as_ref(),
            &name,
        ]);
        assert!(run.layers.temp_overlay, "{:?}", run.layers.missing);
        assert_eq!(run.out(), "theirs\nown\n", "{}", run.err());
        let made = name.to_string_lossy().into_owned();
        run.expect(Effect::Create, Place::Scratch, Outcome::Allowed, &made);
        run.expect(Effect::WriteOpen, Place::Outside, Outcome::Denied, "/file");
        run.expect(Effect::Create, Place::Outside, Outcome::Denied, "/new");
        run.expect(Effect::Remove, Place::Outside, Outcome::Denied, "/file");
        run.expect(
            Effect::Create,
            Place::Ipc,
            Outcome::Allowed,
            "/dev/shm/calibrun-test",
        );
        assert_eq!(
            run.residue,
            [
                OsStr::new("/dev/shm/calibrun-test").into(),
                std::path::PathBuf::from(&name)
            ]
        );
        assert!(!std::path::Path::new(&name).exists());
        assert!(!std::path::Path::new("/dev/shm/calibrun-test").exists());
        assert_eq!(fs::read(&file).expect("read"), b"theirs\n");
        assert_eq!(fs::read_dir(theirs.path()).expect("list").count(), 1);
    }
}

fn only_the_arms_processes_are_shown_in_the_contained_pass() {
    let count = |pass| {
        let run = Stage::new(pass).sh("ls /proc | grep -c '^[0-9]'");
        run.out().trim().parse::<u32>().expect("a number")
    };
    assert!(count(Pass::Contained) <= 4);
    // The denied pass shows the host's, so that what looks for others finds them.
    assert!(count(Pass::Denied) > 4);
}
