//! The private views of temp folders and HOME, and files that have no name.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use calibrun_sandbox::{Effect, Mark, Outcome, Pass, Place, Termination};

use crate::host::cases;
use crate::raw::{Arg, call};
use crate::stage::{Asked, Stage};
use crate::subject::say;

cases! {
    Mounts =>
        a_nameless_file_gets_a_name_only_in_the_clone
        a_temp_folder_that_was_there_is_outside_even_when_it_is_touched_only
        a_home_that_is_a_temp_folder_hides_no_scratch
        what_other_programs_keep_in_a_temp_folder_is_not_shown;
    HomeOverlay =>
        a_private_home_takes_what_the_real_one_keeps;
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

fn a_home_that_is_a_temp_folder_hides_no_scratch() {
    let mut stage = Stage::new(Pass::Contained);
    stage.other_home = Some("/tmp".into());
    let run = stage.sh("echo x > \"$TMPDIR/x\" && cat \"$HOME\"/calibrun-*/x");
    assert_eq!(run.out(), "x\n", "{}", run.list());
    assert_eq!(run.attempts.len(), 1, "{}", run.list());
    run.expect(Effect::Create, Place::Scratch, Outcome::Allowed, "/x");
    assert_eq!(run.residue, [run.tmpdir.join("x")]);
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
