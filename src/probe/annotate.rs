//! What the workspace knows of the paths of each attempt, beside the attempt.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use calibrun_sandbox::{Attempt, Effect, Outcome, Place, Run, Target};

use crate::record::Observed;
use crate::workspace::{PathState, Tree};

/// Takes the attempts out of `run` and annotates each.
pub(super) fn observed(run: &mut Run, tree: &Tree, home: &Path) -> Vec<Observed> {
    let attempts = std::mem::take(&mut run.attempts);
    let arm_could_write = Writable::of(run, &attempts, home);
    let annotate = |attempt: Attempt| {
        let path = in_clone(&attempt.target, &run.top);
        let to_path = attempt.to.as_ref().and_then(|to| in_clone(to, &run.top));
        let state = |path: &Option<PathBuf>| {
            path.as_ref()
                .map_or(PathState::NotInClone, |p| tree.states.of(p))
        };
        let reading_git = is_reading_git(&attempt.command, &arm_could_write);
        Observed {
            state: state(&path),
            to_state: state(&to_path),
            path,
            to_path,
            reading_git,
            attempt,
        }
    };
    attempts.into_iter().map(annotate).collect()
}

/// Paths in the clone that an arm opened for writing or made, relative to its top: their content is
/// compared whatever their times say.
pub(super) fn opened_for_writing(run: &Run) -> BTreeSet<PathBuf> {
    let writes = |effect: Effect| {
        matches!(
            effect,
            Effect::WriteOpen | Effect::Truncate | Effect::Create
        )
    };
    let attempts = run
        .attempts
        .iter()
        .filter(|a| writes(a.effect) && a.outcome == Outcome::Allowed);
    attempts
        .filter_map(|a| in_clone(&a.target, &run.top))
        .collect()
}

/// The target relative to the top of the clone, when it lies there.
fn in_clone(target: &Target, top: &Path) -> Option<PathBuf> {
    if !matches!(target.place, Place::Worktree | Place::GitDir) {
        return None;
    }
    target
        .resolved
        .as_ref()?
        .strip_prefix(top)
        .ok()
        .map(Path::to_owned)
}

/// Folders in which a program may be the arm's own.
struct Writable<'a>(Vec<&'a Path>);

impl<'a> Writable<'a> {
    /// The clone, every temp folder, and HOME when the arm changed anything there.
    fn of(run: &'a Run, attempts: &[Attempt], home: &'a Path) -> Writable<'a> {
        let ends = |a: &Attempt| {
            let to = a.to.as_ref().map(|to| to.place);
            a.target.place == Place::Home || to == Some(Place::Home)
        };
        let at_home = attempts
            .iter()
            .any(|a| a.outcome == Outcome::Allowed && (a.place == Place::Home || ends(a)));
        let roots = std::iter::once(run.top.as_path())
            .chain(run.scratch_roots())
            .chain(at_home.then_some(home));
        Writable(roots.collect())
    }

    fn holds(&self, path: &Path) -> bool {
        self.0.iter().any(|root| path.starts_with(root))
    }
}

/// Commands of git that only read, but refresh the index on the side (git-status(1), BACKGROUND REFRESH).
const REFRESHING: &[&str] = &["status", "diff", "describe"];

/// Options that say where the repo lies, with their value in the same word.
const WITH_VALUE: &[&[u8]] = &[b"--git-dir=", b"--work-tree=", b"--namespace="];

/// Whether `command` is a git that the arm cannot have put there, running one of those.
fn is_reading_git(command: &[OsString], arm_could_write: &Writable<'_>) -> bool {
    let Some((exe, arguments)) = command.split_first() else {
        return false;
    };
    let exe = Path::new(exe);
    if arm_could_write.holds(exe) || exe.file_name().is_none_or(|name| name != "git") {
        return false;
    }
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let text = argument.as_encoded_bytes();
        match text {
            // These take a value of their own; what -c sets could be anything, a hook of this git too.
            b"-C" | b"--git-dir" | b"--work-tree" | b"--namespace" => {
                arguments.next();
            }
            _ if WITH_VALUE.iter().any(|option| text.starts_with(option)) => {}
            b"--no-pager" | b"-P" | b"--paginate" | b"-p" | b"--literal-pathspecs" => {}
            _ => return REFRESHING.iter().any(|name| name.as_bytes() == text),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::sample;

    #[test]
    fn a_program_in_home_may_be_the_arms_own_once_it_wrote_there() {
        let run = sample::pass(calibrun_sandbox::Pass::Contained, vec![], vec![]).run;
        let home = Path::new("/home/dev");
        let made = || sample::at(Effect::Create, Place::Home, "/home/dev/.c", false);
        let moved = sample::at(Effect::Rename, Place::Scratch, "/tmp/x", true)
            .onto_place(Place::Home, "/home/dev/bin/git", true)
            .placed(Place::Outside);
        let elsewhere = sample::at(Effect::Create, Place::Scratch, "/tmp/x", false);
        for (observed, own) in [
            (made().allowed(), true),
            (moved.allowed(), true),
            (made(), false),
            (elsewhere.allowed(), false),
        ] {
            let writable = Writable::of(&run, std::slice::from_ref(&observed.attempt), home);
            assert_eq!(writable.holds(Path::new("/home/dev/bin/git")), own);
            assert!(writable.holds(&run.top.join("git")));
            assert!(writable.holds(Path::new("/dev/shm/git")));
            assert!(!writable.holds(Path::new("/usr/bin/git")));
        }
    }

    fn reads(command: &[&str]) -> bool {
        let roots = Writable(vec![
            Path::new("/home/dev/repo"),
            Path::new("/tmp"),
            Path::new("/home/dev/tools"),
        ]);
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        is_reading_git(&command, &roots)
    }

    #[test]
    fn a_git_that_only_reads_is_known_by_its_place_and_its_command() {
        for command in [
            &["/usr/bin/git", "status"][..],
            &["/usr/bin/git", "-C", "sub", "status", "--porcelain"],
            &["/usr/bin/git", "--no-pager", "diff"],
            &["/usr/bin/git", "--git-dir=.git", "describe", "--dirty"],
            &["/home/dev/other/git", "status"],
        ] {
            assert!(reads(command), "{command:?}");
        }
        for command in [
            &[][..],
            &["/usr/bin/git"],
            &["/usr/bin/git", "add", "status"],
            &["/usr/bin/git", "-C", "status", "commit"],
            &["/usr/bin/git", "-c", "core.fsmonitor=x", "status"],
            &["/usr/bin/env", "status"],
            &["/home/dev/repo/git", "status"],
            &["/tmp/x/git", "status"],
            &["/home/dev/tools/bin/git", "status"],
            &["/usr/bin/git (deleted)", "status"],
        ] {
            assert!(!reads(command), "{command:?}");
        }
    }
}
