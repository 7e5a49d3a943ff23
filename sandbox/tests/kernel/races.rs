//! What a subject rewrites while it is looked at: the record may be wrong, the refusal may not.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use calibrun_sandbox::{Effect, Outcome, Pass, Place, Run, Termination};

use crate::host::cases;
use crate::raw::{self, Arg, call};
use crate::stage::{Asked, Stage, has_room_outside_temp};

cases! {
    Nothing =>
        a_path_that_is_swapped_opens_nothing_outside
        a_path_that_is_swapped_changes_no_mode_outside
        signals_repeat_nothing_and_lose_nothing;
    Mounts =>
        what_slips_into_a_private_copy_is_found_and_reaches_no_real_file;
}

/// A path buffer that a second thread keeps flipping between two names of equal length.
struct Flipping {
    names: [CString; 2],
    stop: AtomicBool,
}

impl Flipping {
    fn new(one: &Path, two: &Path) -> Flipping {
        let text = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let (mut one, mut two) = (text(one), text(two));
        // Slashes at the start count as one, so the shorter name can be filled up.
        let length = one.len().max(two.len());
        for name in [&mut one, &mut two] {
            while name.len() < length {
                name.insert(0, b'/');
            }
        }
        Flipping {
            names: [one, two].map(|n| CString::new(n).expect("no NUL")),
            stop: AtomicBool::new(false),
        }
    }

    /// Calls `act` `times` times with a buffer that is being flipped.
    fn during(&self, times: i32, mut act: impl FnMut(i64)) {
        let buffer = raw::Shared::new(self.names[0].as_bytes_with_nul());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !self.stop.load(Ordering::Relaxed) {
                    for name in &self.names {
                        buffer.store(name.as_bytes_with_nul());
                    }
                }
            });
            for _ in 0..times {
                act(buffer.address());
            }
            self.stop.store(true, Ordering::Relaxed);
        });
    }
}

/// A subject: opens for writing while the name is swapped; writes what it gets.
pub(crate) fn swap_while_opening(one: &Path, two: &Path, times: i32) -> io::Result<()> {
    let mut opened = 0;
    Flipping::new(one, two).during(times, |name| {
        let mut args = [
            Arg::N(libc::AT_FDCWD.into()),
            Arg::N(name),
            Arg::N((libc::O_WRONLY | libc::O_APPEND).into()),
            Arg::N(0),
        ];
        if let Ok(fd) = call(libc::SYS_openat, &mut args) {
            opened += 1;
            let _ = call(
                libc::SYS_write,
                &mut [Arg::N(fd), Arg::R(b"swapped\n"), Arg::N(8)],
            );
            let _ = call(libc::SYS_close, &mut [Arg::N(fd)]);
        }
    });
    println!("opened {opened}");
    println!("second {}", fs::metadata(two)?.len());
    Ok(())
}

/// A subject: changes a mode while the name is swapped.
pub(crate) fn swap_while_changing_modes(one: &Path, two: &Path, times: i32) -> io::Result<()> {
    let mut changed = 0;
    Flipping::new(one, two).during(times, |name| {
        let mut args = [Arg::N(libc::AT_FDCWD.into()), Arg::N(name), Arg::N(0o777)];
        changed += i32::from(call(libc::SYS_fchmodat, &mut args).is_ok());
    });
    println!("changed {changed}");
    Ok(())
}

const TIMES: u64 = 600;

fn a_path_that_is_swapped_opens_nothing_outside() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let outside = stage.outside().join("file");
        let before = fs::read(&outside).expect("read");
        let inside = stage.top().join("w/file");
        let times = TIMES.to_string();
        let run = stage.subject(
            "swap-open",
            &[inside.as_ref(), outside.as_ref(), times.as_ref()],
        );
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        assert_eq!(fs::read(&outside).expect("read"), before);
        assert_eq!(tried(&run), TIMES, "{}", run.list());
        let opened: u64 = run.said("opened").parse().expect("a number");
        let slipped = run.said("second").parse::<usize>().expect("a length") - before.len();
        let written = fs::read(stage.in_clone("w/file")).expect("read").len() - 5;
        assert_eq!((written + slipped) as u64, 8 * opened);
        // A file in a temp folder has a private copy that may be reached; never unnoticed.
        assert_eq!(found_afterwards(&run), slipped > 0, "{}", run.list());
        assert!(slipped == 0 || !has_room_outside_temp());
        assert_eq!(written > 0, pass == Pass::Contained, "{}", run.list());
    }
}

/// Attempts as they were made: the count does not depend on the name.
fn tried(run: &Run) -> u64 {
    let made = run.attempts.iter().filter(|a| a.call != FOUND);
    made.map(|a| a.count).sum()
}

/// What stands in place of a call where a change was found and no attempt had been seen.
const FOUND: &str = "(found afterwards)";

fn found_afterwards(run: &Run) -> bool {
    run.attempts
        .iter()
        .any(|a| a.call == FOUND && a.place == Place::Outside)
}

fn what_slips_into_a_private_copy_is_found_and_reaches_no_real_file() {
    let theirs = tempfile::Builder::new()
        .prefix("sandbox-test-")
        .tempdir_in("/tmp")
        .expect("a folder");
    let victim = theirs.path().join("file");
    fs::write(&victim, "theirs\n").expect("write");
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        // Scratch, where the kernel decides, against what was there before.
        let own = format!("/tmp/sandbox-own-{}", std::process::id());
        let run = stage.subject(
            "swap-open",
            &[own.as_ref(), victim.as_ref(), TIMES.to_string().as_ref()],
        );
        assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
        assert_eq!(fs::read(&victim).expect("read"), b"theirs\n");
        assert_eq!(tried(&run), TIMES, "{}", run.list());
        let slipped = run.said("second") != "7";
        assert_eq!(found_afterwards(&run), slipped, "{}", run.list());
    }
}

fn a_path_that_is_swapped_changes_no_mode_outside() {
    for pass in [Pass::Denied, Pass::Contained] {
        let stage = Stage::new(pass);
        let outside = stage.outside().join("file");
        let mode = |path: &Path| fs::metadata(path).expect("look").permissions().mode() & 0o777;
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o640)).expect("chmod");
        let inside = stage.top().join("w/file");
        let times = TIMES.to_string();
        let run = stage.subject(
            "swap-mode",
            &[inside.as_ref(), outside.as_ref(), times.as_ref()],
        );
        assert_eq!(mode(&outside), 0o640);
        assert_eq!(tried(&run), TIMES, "{}", run.list());
        let changed: u64 = run.said("changed").parse().expect("a number");
        let writable = pass == Pass::Contained && run.layers.mounts;
        let slipped = found_afterwards(&run);
        assert_eq!(changed > 0, writable || slipped, "{}", run.list());
        assert!(!slipped || !has_room_outside_temp());
        assert_eq!(mode(&stage.in_clone("w/file")) == 0o777, writable);
    }
}

/// A subject: makes `count` folders while a signal comes every 200 microseconds.
pub(crate) fn write_in_a_storm(top: &Path, count: i32) -> io::Result<()> {
    raw::storm(200, libc::SA_RESTART);
    let mut made = 0;
    for n in 0..count {
        made += i32::from(fs::create_dir(top.join(n.to_string())).is_ok());
    }
    raw::storm(0, libc::SA_RESTART);
    println!("made {made}");
    Ok(())
}

fn signals_repeat_nothing_and_lose_nothing() {
    let stage = Stage::new(Pass::Contained);
    let run = stage.subject("storm", &["w".as_ref(), "300".as_ref()]);
    assert_eq!(run.termination, Termination::Exited(0), "{}", run.err());
    assert_eq!(run.said("made"), "300", "{}", run.list());
    assert_eq!(run.count(Effect::Create), 300, "none twice, none lost");
    assert!(
        run.attempts
            .iter()
            .all(|a| (a.place, a.outcome) == (Place::Worktree, Outcome::Allowed))
    );
}
