//! Places and no-ops: what a name reached, and when nothing would have changed.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use calibrun_sandbox::{Effect, FileKind, Gap, Mark, Outcome, Pass, Place, Termination};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;

use crate::host::cases;
use crate::raw::{Arg, call};
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
        names_that_are_no_text_are_kept
        long_paths_are_seen_to_their_end
        attempts_beyond_what_is_kept_are_counted
        equal_attempts_are_counted_together
        the_program_that_tried_is_named
        here_documents_and_sorting_stay_in_scratch
        effects_of_the_contained_pass_are_in_the_clone_and_nowhere_else;
    Mounts =>
        a_nameless_file_gets_a_name_only_in_the_clone
        a_temp_folder_that_was_there_is_outside_even_when_it_is_touched_only
        what_other_programs_keep_in_a_temp_folder_is_not_shown;
    HomeOverlay =>
        a_private_home_takes_what_the_real_one_keeps;
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

/// A subject: makes files below `top` whose names are no text.
pub(crate) fn make_odd_names(top: &Path) -> io::Result<()> {
    for name in [&b"\xff\xfe"[..], b"new\nline", b"\x1b[31m", b" "] {
        say("made", File::create_new(top.join(OsStr::from_bytes(name))));
    }
    Ok(())
}

fn names_that_are_no_text_are_kept() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let run = stage.subject("names", &["w".as_ref()]);
        let raw: Vec<_> = run.attempts.iter().map(|a| a.target.raw.clone()).collect();
        assert_eq!(
            raw,
            [&b"w/\xff\xfe"[..], b"w/new\nline", b"w/\x1b[31m", b"w/ "]
        );
        for attempt in &run.attempts {
            let resolved = attempt.target.resolved.as_ref().expect("a path");
            assert!(resolved.starts_with(&run.top));
            assert!(
                resolved
                    .as_os_str()
                    .as_bytes()
                    .ends_with(&attempt.target.raw)
            );
        }
    }
}

/// A subject: paths of the greatest length that the kernel takes, and of one byte more.
pub(crate) fn make_long_paths() -> io::Result<()> {
    for length in [300, 4095, 4096, 9000] {
        let mut path = "./".repeat(5000)[..length - 5].to_owned();
        if path.ends_with('.') {
            path.replace_range(path.len() - 1.., "/");
        }
        path.push_str(&format!("n{length:04}"));
        assert_eq!(path.len(), length);
        let path = CString::new(path).expect("no NUL");
        say(
            &length.to_string(),
            call(
                libc::SYS_mkdirat,
                &mut [Arg::N(libc::AT_FDCWD.into()), Arg::S(&path), Arg::N(0o755)],
            ),
        );
    }
    Ok(())
}

/// A subject: goes so deep that no absolute name is short enough, and writes there.
pub(crate) fn go_deep() -> io::Result<()> {
    let name = "d".repeat(200);
    let top = std::env::temp_dir();
    std::env::set_current_dir(top)?;
    for _ in 0..25 {
        if fs::create_dir(&name).is_err() {
            break;
        }
        std::env::set_current_dir(&name)?;
    }
    say("deep", fs::write("bottom", "x"));
    Ok(())
}

fn long_paths_are_seen_to_their_end() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let run = stage.subject("long-paths", &[]);
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        let (outcome, answer) = if pass == Pass::Denied {
            (Outcome::Denied, "EROFS")
        } else {
            (Outcome::Allowed, "done")
        };
        for length in ["0300", "4095"] {
            run.expect(
                Effect::Create,
                Place::Worktree,
                outcome,
                &format!("/n{length}"),
            );
            assert!(
                run.said(length.trim_start_matches('0')).starts_with(answer),
                "{}",
                run.out()
            );
        }
        for length in ["4096", "9000"] {
            assert!(
                run.said(length).starts_with("ENAMETOOLONG"),
                "{}",
                run.out()
            );
            assert!(run.on(&format!("/n{length}")).is_empty());
        }
        assert!(!run.gaps.contains(&Gap::UndecodableEvent));
        let run = stage.subject("deep-folder", &[]);
        // No absolute name leads there, so where it is cannot be told: refused, and said.
        assert!(run.said("deep").starts_with("EPERM"), "{}", run.out());
        assert!(run.gaps.contains(&Gap::UndecodableEvent), "{}", run.list());
    }
}

/// A subject: `count` attempts, each on a name of its own.
pub(crate) fn make_many(count: i32) -> io::Result<()> {
    for n in 0..count {
        let _ = fs::create_dir(format!("n{n}"));
    }
    Ok(())
}

fn attempts_beyond_what_is_kept_are_counted() {
    let stage = Stage::new(Pass::Denied);
    let run = stage.subject("many", &["20500".as_ref()]);
    assert_eq!(run.termination, Termination::Exited(0));
    assert_eq!(run.count(Effect::Create), 20_500);
    assert!(run.gaps.contains(&Gap::AttemptsDropped), "{:?}", run.gaps);
    assert!(
        run.attempts
            .iter()
            .all(|a| a.place == Place::Worktree && a.outcome == Outcome::Denied)
    );
    assert!(run.attempts.len() < 20_500);
}

fn equal_attempts_are_counted_together() {
    let stage = Stage::new(Pass::Denied);
    let run =
        stage.sh("i=0; while [ $i -lt 2000 ]; do echo x 2>/dev/null > w/file; i=$((i+1)); done");
    let found = run.expect(Effect::Truncate, Place::Worktree, Outcome::Denied, "w/file");
    assert_eq!(found.count, 2000);
    assert!(!run.gaps.contains(&Gap::AttemptsDropped));
}

fn the_program_that_tried_is_named() {
    let stage = Stage::new(Pass::Denied);
    let run = stage.sh("mkdir one; touch w/file; echo x > two");
    let by = |end: &str| run.on(end)[0].program.to_string_lossy().into_owned();
    assert_eq!(by("/one"), program_behind("mkdir"));
    assert_eq!(by("w/file"), program_behind("touch"));
    assert_eq!(by("/two"), program_behind("sh"));
}

/// The last name of what a command's name leads to: `dash` for `sh` on some hosts.
fn program_behind(name: &str) -> String {
    let folders = ["/usr/local/bin", "/usr/bin", "/bin"];
    let real = folders
        .iter()
        .find_map(|folder| fs::canonicalize(Path::new(folder).join(name)).ok());
    let name = real.and_then(|r| r.file_name().map(OsStr::to_owned));
    name.expect("the command is there")
        .to_string_lossy()
        .into_owned()
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

/// A subject: makes a file without a name and then gives it one, in `w` and in `elsewhere`.
pub(crate) fn name_a_nameless_file(elsewhere: &Path) -> io::Result<()> {
    let cwd = || Arg::N(libc::AT_FDCWD.into());
    let make = |folder: &Path| {
        fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_TMPFILE)
            .open(folder)
    };
    let name = |file: &File, to: &Path| {
        let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("no NUL");
        let to = CString::new(to.as_os_str().as_bytes()).expect("no NUL");
        let follow = Arg::N(libc::AT_SYMLINK_FOLLOW.into());
        call(
            libc::SYS_linkat,
            &mut [cwd(), Arg::S(&from), cwd(), Arg::S(&to), follow],
        )
    };
    let mut file = make(Path::new("w"))?;
    file.write_all(b"nameless\n")?;
    say("outside", name(&file, &elsewhere.join("planted")));
    say("inside", name(&file, Path::new("w/named")));
    say("made-outside", make(elsewhere));
    Ok(())
}

fn a_nameless_file_gets_a_name_only_in_the_clone() {
    let stage = Stage::new(Pass::Contained);
    let run = stage.subject("nameless", &[stage.outside().as_ref()]);
    assert_eq!(run.said("inside"), "done", "{}", run.list());
    assert!(run.said("outside").starts_with("EROFS"));
    assert!(run.said("made-outside").starts_with("EROFS"));
    let text = fs::read(stage.in_clone("w/named")).expect("read");
    assert_eq!(text, b"nameless\n");
    let links: Vec<_> = run
        .attempts
        .iter()
        .filter(|a| a.effect == Effect::Link)
        .map(|a| (a.place, a.outcome))
        .collect();
    assert_eq!(
        links,
        [
            (Place::Outside, Outcome::Denied),
            (Place::Worktree, Outcome::Allowed)
        ]
    );
}

fn a_temp_folder_that_was_there_is_outside_even_when_it_is_touched_only() {
    let theirs = tempfile::Builder::new()
        .prefix("sandbox-test-")
        .tempdir_in("/tmp")
        .expect("a folder");
    let stage = Stage::new(Pass::Contained);
    let path = theirs.path().display();
    let run = stage.sh(&format!(
        "chmod 700 {path}; touch {path}; rmdir {path}; rm -rf /tmp/calibrun-test-none"
    ));
    assert!(theirs.path().is_dir());
    for effect in [Effect::Mode, Effect::Times, Effect::Remove] {
        let found = run
            .attempts
            .iter()
            .find(|a| a.effect == effect && a.outcome == Outcome::Denied);
        assert_eq!(
            found.map(|a| a.place),
            Some(Place::Outside),
            "{}",
            run.list()
        );
    }
}

fn a_private_home_takes_what_the_real_one_keeps() {
    let stage = Stage::new(Pass::Contained);
    fs::create_dir(stage.home().join("folder")).expect("mkdir");
    fs::write(stage.home().join("folder/old"), "old\n").expect("write");
    let run = stage.sh(
        "echo more >> \"$HOME/.profile\"; cat \"$HOME/.profile\"; echo x > \"$HOME/new\"; \
         chmod 600 \"$HOME/folder/old\"; rm -r \"$HOME/folder\"; ls -A \"$HOME\"",
    );
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    assert_eq!(run.out(), "umask 022\nmore\n.profile\nnew\n");
    for (effect, end) in [
        (Effect::WriteOpen, "home/.profile"),
        (Effect::Create, "home/new"),
        (Effect::Mode, "folder/old"),
        (Effect::Remove, "folder/old"),
        (Effect::Remove, "home/folder"),
    ] {
        run.expect(effect, Place::Home, Outcome::Allowed, end);
    }
    assert_eq!(run.attempts.len(), 5, "{}", run.list());
    let left = [".profile", "folder", "new"].map(|name| stage.home().join(name));
    assert_eq!(run.residue, left);
    // The next run begins with the real one again; and a pass that denies has none of its own.
    let run = stage.sh("ls -A \"$HOME\"");
    assert_eq!(run.out(), ".profile\nfolder\n");
    let run = Stage::new(Pass::Denied).sh("echo x > \"$HOME/new\"");
    run.expect(Effect::Create, Place::Home, Outcome::Denied, "home/new");
    assert!(!run.layers.home_overlay);
}

fn what_other_programs_keep_in_a_temp_folder_is_not_shown() {
    let theirs = tempfile::Builder::new()
        .prefix("hsperfdata_sandbox-test-")
        .tempdir_in("/tmp")
        .expect("a folder");
    fs::write(theirs.path().join("1"), "x").expect("write");
    let name = theirs.path().display().to_string();
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let run = stage.sh(&format!("ls -d {name}; rm -rf {name}; rm -f {name}/1"));
        assert_eq!(run.out(), "", "{}", run.list());
        assert!(!run.attempts.is_empty());
        for attempt in &run.attempts {
            assert_eq!(attempt.outcome, Outcome::NoOp, "{}", run.list());
            assert!(attempt.marks.contains(&Mark::AbsentHere), "{}", run.list());
        }
        assert!(run.residue.is_empty(), "{:?}", run.residue);
        // One of that name that the arm makes is its own.
        let run = stage.sh(&format!(
            "mkdir {name} && echo own > {name}/1 && cat {name}/1"
        ));
        assert_eq!(run.out(), "own\n", "{}", run.list());
        assert!(
            run.attempts.iter().all(|a| a.place == Place::Scratch),
            "{}",
            run.list()
        );
        assert_eq!(fs::read(theirs.path().join("1")).expect("read"), b"x");
    }
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
