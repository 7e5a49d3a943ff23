//! What the record keeps: names of any bytes and length, counts, programs.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use calibrun_sandbox::{Effect, Gap, Outcome, Pass, Place, Termination};

use crate::host::cases;
use crate::raw::{Arg, call};
use crate::stage::{Asked, Stage};
use crate::subject::say;

cases! {
    Nothing =>
        names_that_are_no_text_are_kept
        long_paths_are_seen_to_their_end
        attempts_beyond_what_is_kept_are_counted
        equal_attempts_are_counted_together
        the_program_that_tried_is_named;
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
