//! Places and no-ops: what a name reached, and when nothing would have changed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use calibrun_sandbox::{Effect, FileKind, Mark, Outcome, Pass, Place, Termination};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;

use crate::host::cases;
use crate::stage::{Asked, Stage, own_marks};
use crate::subject::say;

cases! {
    Nothing =>
        what_changes_nothing_is_a_no_op_and_answered_as_the_kernel_would
        a_change_to_what_it_is_already_is_no_no_op
        what_is_missing_in_the_clone_alone_is_marked
        what_the_arm_removed_itself_is_not_missing
        a_name_goes_by_what_it_reaches
        the_wider_of_two_places_counts
        moves_between_places_are_seen_at_both_ends
        sinks_keep_nothing_and_other_devices_are_delegated
        own_output_pipes_and_entries_are_the_arms_own
        a_fifo_that_somebody_outside_reads_is_delegation
        here_documents_and_sorting_stay_in_scratch
        effects_of_the_contained_pass_are_in_the_clone_and_nowhere_else;
    Program("git") =>
        git_runs_in_a_clone;
}

fn what_changes_nothing_is_a_no_op_and_answered_as_the_kernel_would() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        stage.put("full/x", "x");
        for top in [stage.repo(), stage.clone_top()] {
            fs::hard_link(top.join("w/file"), top.join("w/same")).expect("link");
        }
        let outside = stage.outside();
        for (script, effect, end, code) in [
            ("mkdir w", Effect::Create, "/w", 1),
            ("mkdir -p w", Effect::Create, "/w", 0),
            ("mkdir missing/x", Effect::Create, "missing/x", 1),
            ("rm -f missing", Effect::Remove, "/missing", 0),
            ("rm missing", Effect::Remove, "/missing", 1),
            ("rmdir full", Effect::Remove, "/full", 1),
            ("rmdir w/file", Effect::Remove, "w/file", 1),
            ("rmdir missing", Effect::Remove, "/missing", 1),
            ("unlink full", Effect::Remove, "/full", 1),
            ("link w/file full/x", Effect::Link, "w/file", 1),
            ("link missing new", Effect::Link, "/missing", 1),
            ("ln -s x w/file", Effect::Create, "w/file", 1),
            ("mkfifo w/file", Effect::Create, "w/file", 1),
            ("echo > w", Effect::WriteOpen, "/w", 2),
            ("echo > missing/x", Effect::WriteOpen, "missing/x", 2),
            (
                "rm -f ../outside/missing",
                Effect::Remove,
                "outside/missing",
                0,
            ),
        ] {
            let script = script.replace("../outside", &outside.display().to_string());
            let run = stage.sh(&script);
            let found = run.expect(effect, run.on(end)[0].place, Outcome::NoOp, end);
            assert!(own_marks(found).is_empty(), "{script}: {}", run.list());
            assert_eq!(run.termination, Termination::Exited(code), "{script}");
            assert_eq!(run.attempts.len(), 1, "{script}: {}", run.list());
            assert!(!found.is_destructive());
        }
        // Two names of one inode: rename(2) says that it did, and did nothing.
        let run = stage.subject("rename", &["w/file".as_ref(), "w/same".as_ref()]);
        run.expect(Effect::Rename, Place::Worktree, Outcome::NoOp, "w/file");
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        // O_EXCL on what exists.
        let run = stage.subject("create", &["w/file".as_ref()]);
        run.expect(Effect::Create, Place::Worktree, Outcome::NoOp, "w/file");
        assert!(run.err().contains("exists"), "{}", run.err());
    }
}

fn a_change_to_what_it_is_already_is_no_no_op() {
    let stage = Stage::new(Pass::Denied);
    let script = "chmod 644 w/file; touch w/file; ln -sfn x w/link; mkdir new; rm w/file";
    let run = stage.sh(script);
    assert!(
        run.attempts.iter().all(|a| a.outcome == Outcome::Denied),
        "{}",
        run.list()
    );
    run.expect(Effect::Mode, Place::Worktree, Outcome::Denied, "w/file");
    run.expect(Effect::Create, Place::Worktree, Outcome::Denied, "/new");
    let removed = run.expect(Effect::Remove, Place::Worktree, Outcome::Denied, "w/file");
    assert!(removed.is_destructive());
    assert_eq!(removed.target.existed, Some(FileKind::File));
}

fn what_is_missing_in_the_clone_alone_is_marked() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        fs::write(stage.repo().join("left-out"), "x").expect("write");
        fs::create_dir(stage.repo().join("left-out-folder")).expect("mkdir");
        let run = stage.sh("rm -f left-out; rm -f nowhere; rm -f left-out-folder/x");
        assert_eq!(run.termination, Termination::Exited(0));
        let found = run.expect(Effect::Remove, Place::Worktree, Outcome::NoOp, "/left-out");
        assert!(found.marks.contains(&Mark::AbsentHere));
        let none = run.expect(Effect::Remove, Place::Worktree, Outcome::NoOp, "/nowhere");
        assert!(!none.marks.contains(&Mark::AbsentHere));
    }
}

fn what_the_arm_removed_itself_is_not_missing() {
    let stage = Stage::new(Pass::Contained);
    let run = stage.sh("rm w/file; rm -f w/file; mv w v; rm -f w/other");
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    let again = run.expect(Effect::Remove, Place::Worktree, Outcome::NoOp, "w/file");
    assert!(again.marks.is_empty(), "{}", run.list());
}

fn a_name_goes_by_what_it_reaches() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        for top in [stage.repo(), stage.clone_top()] {
            let link = |to: &Path, name: &str| {
                std::os::unix::fs::symlink(to, top.join(name)).expect("link");
            };
            link(&stage.outside(), "out");
            link(&stage.home().join(".profile"), "profile");
            link(&stage.outside().join("new"), "dangling");
            link(Path::new("loop"), "loop");
            link(Path::new(".git"), "git");
        }
        let denied = Outcome::Denied;
        let inside = if pass == Pass::Denied {
            Outcome::Denied
        } else {
            Outcome::Allowed
        };
        let in_home = if stage.sh("true").layers.home_overlay {
            Outcome::Allowed
        } else {
            Outcome::Denied
        };
        for (script, effect, place, outcome, end) in [
            (
                "echo >> out/file",
                Effect::WriteOpen,
                Place::Outside,
                denied,
                "outside/file",
            ),
            (
                "rm out/file",
                Effect::Remove,
                Place::Outside,
                denied,
                "outside/file",
            ),
            (
                "chmod 600 out/file",
                Effect::Mode,
                Place::Outside,
                denied,
                "outside/file",
            ),
            (
                "echo >> profile",
                Effect::WriteOpen,
                Place::Home,
                in_home,
                "home/.profile",
            ),
            (
                "echo > dangling",
                Effect::Create,
                Place::Outside,
                denied,
                "outside/new",
            ),
            (
                "echo > out/../new",
                Effect::Create,
                Place::Outside,
                denied,
                "/new",
            ),
            (
                "echo > git/x",
                Effect::Create,
                Place::GitDir,
                inside,
                ".git/x",
            ),
            (
                "echo > .git/../y",
                Effect::Create,
                Place::Worktree,
                inside,
                "/y",
            ),
            (
                "echo > .gitignore",
                Effect::Create,
                Place::Worktree,
                inside,
                "/.gitignore",
            ),
            (
                "echo > w//z",
                Effect::Create,
                Place::Worktree,
                inside,
                "w/z",
            ),
            (
                "echo > \"$HOME/../home/n\"",
                Effect::Create,
                Place::Home,
                in_home,
                "home/n",
            ),
            ("echo > /n", Effect::Create, Place::Outside, denied, "/n"),
            (
                "rm profile",
                Effect::Remove,
                Place::Worktree,
                inside,
                "/profile",
            ),
            (
                "echo > loop",
                Effect::WriteOpen,
                Place::Worktree,
                Outcome::NoOp,
                "/loop",
            ),
        ] {
            let run = stage.sh(script);
            run.expect(effect, place, outcome, end);
            assert_eq!(run.attempts.len(), 1, "{script}: {}", run.list());
            let failed = run.termination != Termination::Exited(0);
            assert_eq!(failed, outcome != Outcome::Allowed, "{script}");
        }
    }
}

fn the_wider_of_two_places_counts() {
    let stage = Stage::new(Pass::Contained);
    let outside = stage.outside();
    let script = format!("exec link {}/file w/stolen", outside.display());
    let run = stage.sh(&script);
    run.expect(
        Effect::Link,
        Place::Outside,
        Outcome::Denied,
        "outside/file",
    );
    let script = format!("exec link w/file {}/planted", outside.display());
    let run = stage.sh(&script);
    let found = run.expect(Effect::Link, Place::Outside, Outcome::Denied, "w/file");
    assert_eq!(found.target.place, Place::Worktree);
    let to = found.to.as_ref().expect("both ends");
    assert_eq!(to.place, Place::Outside);
    assert_eq!(to.resolved.as_deref(), Some(&*outside.join("planted")));
}

fn moves_between_places_are_seen_at_both_ends() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let run = stage.sh(r#"echo made > "$TMPDIR/x"; mv "$TMPDIR/x" w/new"#);
        let renamed = run.attempts.iter().find(|a| a.effect == Effect::Rename);
        let renamed = renamed.unwrap_or_else(|| panic!("{}", run.list()));
        assert_eq!(renamed.place, Place::Worktree);
        assert_eq!(renamed.target.place, Place::Scratch);
        assert_eq!(
            stage.in_clone("w/new").exists(),
            pass == Pass::Contained,
            "{}",
            run.list()
        );
        // Out of the clone, by a copy if need be: nothing of it is lost unseen.
        let run = stage.sh(r#"mv w/file "$TMPDIR/taken"; cat "$TMPDIR/taken""#);
        assert!(
            run.attempts.iter().any(|a| a.place == Place::Worktree
                && matches!(a.effect, Effect::Rename | Effect::Remove)),
            "{}",
            run.list()
        );
        assert_eq!(stage.in_clone("w/file").exists(), pass == Pass::Denied);
        let run = stage.sh(r#"mv "$HOME/.profile" w/profile"#);
        assert!(
            run.attempts
                .iter()
                .any(|a| a.effect == Effect::Rename && a.place == Place::Home),
            "{}",
            run.list()
        );
    }
}

fn sinks_keep_nothing_and_other_devices_are_delegated() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        for sink in ["null", "zero", "full", "random", "urandom"] {
            let path = format!("/dev/{sink}");
            let run = stage.sh(&format!(": > {path}"));
            let found = run.on(&path);
            assert!(
                found
                    .iter()
                    .all(|a| a.place == Place::DeviceSink && a.outcome == Outcome::Allowed),
                "{}",
                run.list()
            );
            assert_eq!(found.len(), 1);
            // Its metadata is not kept by nobody.
            let run = stage.sh(&format!("chmod 666 {path}"));
            run.expect(Effect::Mode, Place::Outside, Outcome::Denied, &path);
        }
        let device = "/dev/kmsg";
        if Path::new(device).exists() {
            let run = stage.sh(&format!("echo x > {device}"));
            run.expect(Effect::WriteOpen, Place::Delegated, Outcome::Denied, device);
        }
    }
}

fn own_output_pipes_and_entries_are_the_arms_own() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let run = stage.sh("echo a > /dev/stdout; echo b > /proc/self/fd/2; echo c > /dev/fd/1");
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.list());
        assert_eq!((run.out(), run.err()), ("a\nc\n".into(), "b\n".into()));
        for attempt in &run.attempts {
            assert_eq!(
                (attempt.place, attempt.outcome),
                (Place::Itself, Outcome::Allowed)
            );
        }
        let run = stage.sh("echo name > /proc/self/comm; echo 0 > /proc/$$/oom_score_adj");
        assert!(
            run.attempts.iter().all(|a| a.place == Place::Itself),
            "{}",
            run.list()
        );
        assert_eq!(run.attempts.len(), 2);
        let run = stage.sh("echo 1 > /proc/sys/kernel/panic; echo x > /proc/1/comm");
        assert!(
            run.attempts
                .iter()
                .all(|a| a.place == Place::Outside && a.outcome != Outcome::Allowed),
            "{}",
            run.list()
        );
        let run = stage.subject("memory-file", &[]);
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        assert!(
            run.attempts.iter().all(|a| a.place == Place::Itself),
            "{}",
            run.list()
        );
    }
}

/// A subject: makes, writes and reopens a file that is nowhere but in memory.
pub(crate) fn use_a_memory_file() -> io::Result<()> {
    let mut file = File::from(memfd_create(c"own", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(b"text")?;
    file.set_len(2)?;
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    say("reopen", fs::OpenOptions::new().write(true).open(&again));
    say(
        "mode",
        file.set_permissions(fs::Permissions::from_mode(0o600)),
    );
    Ok(())
}

fn a_fifo_that_somebody_outside_reads_is_delegation() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let fifo = stage.outside().join("fifo");
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).expect("make a FIFO");
        let mut reader = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&fifo)
            .expect("read it");
        let run = stage.sh(&format!("echo order > {}", fifo.display()));
        run.expect(
            Effect::WriteOpen,
            Place::Delegated,
            Outcome::Denied,
            "outside/fifo",
        );
        let mut text = String::new();
        assert_eq!(reader.read_to_string(&mut text).ok(), Some(0));
        // The same write from here does arrive.
        fs::OpenOptions::new()
            .write(true)
            .open(&fifo)
            .and_then(|mut f| f.write_all(b"x"))
            .expect("write");
        assert_eq!(reader.read_to_string(&mut text).ok(), Some(1));
        // One of the arm's own is scratch, and works.
        let run = stage.sh(
            r#"mkfifo "$TMPDIR/own" && { cat "$TMPDIR/own" & echo own > "$TMPDIR/own"; wait; }"#,
        );
        assert_eq!(run.out(), "own\n", "{}", run.list());
        assert!(run.attempts.iter().all(|a| a.place == Place::Scratch));
    }
}

fn here_documents_and_sorting_stay_in_scratch() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let run = stage.sh(
            "cat <<E\nhere\nE\nseq 1 30000 | sort -S 64k -n | tail -n 1\nx=$(mktemp) && echo made > \"$x\" && cat \"$x\" && rm \"$x\"",
        );
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        assert_eq!(run.out(), "here\n30000\nmade\n");
        assert!(
            run.attempts
                .iter()
                .all(|a| matches!(a.place, Place::Scratch | Place::DeviceSink | Place::Itself)),
            "{}",
            run.list()
        );
        assert!(run.residue.is_empty(), "{:?}", run.residue);
    }
}

fn effects_of_the_contained_pass_are_in_the_clone_and_nowhere_else() {
    let stage = Stage::new(Pass::Contained);
    stage.put("scripts/deploy.sh", "deploy\n");
    let run = stage
        .sh("rm -r scripts; echo new > w/new; mkfifo w/fifo; ln w/file w/again; mv w/file w/moved");
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    assert!(!stage.in_clone("scripts").exists());
    assert_eq!(fs::read(stage.in_clone("w/new")).expect("read"), b"new\n");
    let kind = fs::metadata(stage.in_clone("w/fifo"))
        .expect("look")
        .file_type();
    assert!(kind.is_fifo());
    assert_eq!(
        fs::read(stage.in_clone("w/moved")).expect("read"),
        b"text\n"
    );
    for (effect, end) in [
        (Effect::Remove, "scripts/deploy.sh"),
        (Effect::Remove, "/scripts"),
        (Effect::Create, "w/new"),
        (Effect::Create, "w/fifo"),
        (Effect::Link, "w/file"),
        (Effect::Rename, "w/file"),
    ] {
        run.expect(effect, Place::Worktree, Outcome::Allowed, end);
    }
    assert!(run.residue.is_empty());
}

fn git_runs_in_a_clone() {
    for pass in [Pass::Denied, Pass::Contained] {
        let mut stage = Stage::new(pass);
        let git = |folder: &Path, args: &[&str]| {
            let output = std::process::Command::new("git")
                .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
                .args(["-c", "init.defaultBranch=main", "-c", "gc.auto=0"])
                .args(args)
                .current_dir(folder)
                .env("HOME", stage.home())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .output()
                .expect("run git");
            assert!(output.status.success(), "{output:?}");
        };
        for top in [stage.repo(), stage.clone_top()] {
            fs::remove_dir_all(top.join(".git")).expect("start anew");
            git(&top, &["init", "-q"]);
            git(&top, &["add", "w"]);
            git(&top, &["commit", "-q", "-m", "first"]);
        }
        stage.env = vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ];
        let run = stage.sh("git log --format=%s && git rev-parse --verify -q HEAD >/dev/null && git cat-file -p HEAD:w/file");
        assert_eq!(run.out(), "first\ntext\n", "{}", run.err());
        assert!(
            run.attempts.iter().all(|a| a.place == Place::DeviceSink),
            "{}",
            run.list()
        );
        let run = stage.sh("echo more >> w/file; git -c user.name=t -c user.email=t@example.com -c gc.auto=0 commit -q -a -m second; git log --format=%s");
        let in_git = run.attempts.iter().filter(|a| a.place == Place::GitDir);
        assert!(in_git.count() > 0, "{}", run.list());
        let expected = if pass == Pass::Contained {
            "second\nfirst\n"
        } else {
            "first\n"
        };
        assert_eq!(run.out(), expected, "{}", run.err());
    }
}
