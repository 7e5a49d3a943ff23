//! Git's optional index refresh: what `git status` and its like do on the side (git-status(1),
//! BACKGROUND REFRESH).
//!
//! Git makes `index.lock`, writes the new index into it, and renames it over `index`; where it has
//! nothing to write, it removes the lock. Nothing else is part of a refresh: an index that is
//! removed, cut or opened for writing in place was not refreshed, whoever did it.

use std::collections::BTreeSet;
use std::path::Path;

use calibrun_sandbox::{Effect, Pass, Termination};

use super::gitdir::{self, GitPart};
use super::{PassReading, reading};
use crate::record::{ArmRecord, Observed, PassRecord};
use crate::workspace::{ChangeKind, PathState};

/// The git folders in which a refresh by `arm` was optional and without effect: refusing it changed
/// neither exit code nor verdict, the index says the same, and no lock was left.
pub(super) fn optional_in<'a>(arm: &'a ArmRecord, readings: &[PassReading]) -> BTreeSet<&'a Path> {
    let (Some(denied), Some(contained)) = (arm.pass(Pass::Denied), arm.pass(Pass::Contained))
    else {
        return BTreeSet::new();
    };
    let same_end = matches!(contained.run.termination, Termination::Exited(_))
        && denied.run.termination == contained.run.termination
        && reading(readings, arm.name, Pass::Denied)
            == reading(readings, arm.name, Pass::Contained);
    if !same_end {
        return BTreeSet::new();
    }
    contained
        .index_kept
        .iter()
        .filter(|(_, kept)| **kept)
        .map(|(dir, _)| dir.as_path())
        .filter(|dir| !leaves_more(contained, dir))
        .collect()
}

/// Whether more than bytes, times and inode of the index changed, or its lock is still there.
fn leaves_more(contained: &PassRecord, dir: &Path) -> bool {
    let part_of_refresh = |kind| {
        matches!(
            kind,
            ChangeKind::Content | ChangeKind::Times | ChangeKind::Inode
        )
    };
    contained
        .changes
        .iter()
        .filter(|c| c.path.parent() == Some(dir))
        .any(|c| {
            let part = gitdir::part(&c.path);
            part == GitPart::IndexLock || (part == GitPart::Index && !part_of_refresh(c.kind))
        })
}

/// Whether `observed` is a step of such a refresh, in one of the folders `optional`.
pub(super) fn is_of(observed: &Observed, pass: Pass, optional: &BTreeSet<&Path>) -> bool {
    let Some(dir) = folder_of(observed.path.as_deref(), GitPart::IndexLock) else {
        return false;
    };
    // A lock of before is somebody else's.
    let own = observed.reading_git && observed.state == PathState::Absent;
    if !own || !optional.contains(dir) {
        return false;
    }
    match observed.attempt.effect {
        Effect::Create => observed.attempt.to.is_none(),
        // Without its lock, which the denied pass refuses, git does nothing more.
        Effect::WriteOpen | Effect::Mode | Effect::Times | Effect::Remove => {
            pass == Pass::Contained
        }
        Effect::Rename => {
            pass == Pass::Contained
                && folder_of(observed.to_path.as_deref(), GitPart::Index) == Some(dir)
        }
        Effect::Truncate
        | Effect::Link
        | Effect::Owner
        | Effect::Xattr
        | Effect::Flags
        | Effect::Connect
        | Effect::Bind
        | Effect::Send
        | Effect::Signal
        | Effect::Limit
        | Effect::Mount
        | Effect::Kernel => false,
    }
}

/// The git folder that holds `path`, when that is its index or its lock.
fn folder_of(path: Option<&Path>, part: GitPart) -> Option<&Path> {
    path.filter(|p| gitdir::part(p) == part)?.parent()
}

#[cfg(test)]
mod tests {
    use calibrun_sandbox::Outcome;

    use super::super::evidence::{Harmless, Standing};
    use super::super::sample::{ask, change, command, on};
    use super::super::{Question, Status, judge};
    use super::*;
    use crate::record::Record;

    const ABSENT: PathState = PathState::Absent;
    const GIT: PathState = PathState::GitInternal;

    fn lock(effect: Effect, dir: &str) -> Observed {
        on(effect, &format!("{dir}/index.lock"), ABSENT).by_reading_git()
    }

    fn over(dir: &str) -> Observed {
        lock(Effect::Rename, dir).onto(&format!("{dir}/index"), GIT)
    }

    /// A `git status` that rewrites the index in `dir`.
    fn rewriting(dir: &str) -> Record {
        let index = format!("{dir}/index");
        let mut record = command(
            vec![lock(Effect::Create, dir)],
            vec![lock(Effect::Create, dir).allowed(), over(dir).allowed()],
            vec![
                change(dir, ChangeKind::Times, GIT),
                change(&index, ChangeKind::Content, GIT),
                change(&index, ChangeKind::Inode, GIT),
            ],
        );
        record.contained().index_kept.insert(dir.into(), true);
        record
    }

    fn status(record: &Record) -> Status {
        judge(record, &ask()).writes.status.expect("claimed")
    }

    #[test]
    fn a_refresh_by_a_reading_git_is_not_counted_unless_strict() {
        for dir in [".git", ".git/modules/sub", "vendor/.git"] {
            let record = rewriting(dir);
            let verdict = judge(&record, &ask());
            assert_eq!(verdict.verdict, Some(Status::Verified), "{verdict:?}");
            assert_eq!(
                verdict.evidence.of(0, 0),
                [Standing::NotCounted(Harmless::IndexRefresh)]
            );
            let strict = Question {
                strict: true,
                ..ask()
            };
            let counted = judge(&record, &strict).writes.status;
            assert_eq!(counted, Some(Status::Contradicted));
        }
    }

    #[test]
    fn a_lock_that_is_written_or_dropped_is_part_of_it() {
        let mut record = command(vec![lock(Effect::Create, ".git")], vec![], vec![]);
        record.index_kept(true);
        for effect in [
            Effect::Create,
            Effect::Mode,
            Effect::WriteOpen,
            Effect::Times,
            Effect::Remove,
        ] {
            record
                .contained()
                .observed
                .push(lock(effect, ".git").allowed());
        }
        assert_eq!(status(&record), Status::Verified);
    }

    #[test]
    fn nothing_but_the_lock_is_part_of_it() {
        let index = |effect| on(effect, ".git/index", GIT).by_reading_git();
        let mut attempts: Vec<Observed> = Effect::ALL.iter().map(|e| index(*e)).collect();
        attempts.extend([
            index(Effect::Rename).onto(".git/index.old", ABSENT),
            on(Effect::Rename, ".git/other", GIT)
                .onto(".git/index", GIT)
                .by_reading_git(),
            lock(Effect::Rename, ".git").onto(".git/HEAD", GIT),
            lock(Effect::Rename, ".git").onto(".git/modules/sub/index", GIT),
            lock(Effect::Link, ".git").onto(".git/index", GIT),
            lock(Effect::Truncate, ".git"),
            on(Effect::Create, ".git/HEAD.lock", ABSENT).by_reading_git(),
            // Somebody else's lock, that was there before.
            on(Effect::Remove, ".git/index.lock", GIT).by_reading_git(),
            on(Effect::Rename, ".git/index.lock", GIT)
                .onto(".git/index", GIT)
                .by_reading_git(),
            // A folder that was not compared.
            lock(Effect::Create, "made/.git"),
        ]);
        for attempt in attempts {
            let mut contained = rewriting(".git");
            contained
                .contained()
                .observed
                .push(attempt.clone().allowed());
            let mut denied = rewriting(".git");
            denied.denied().observed.push(attempt.clone());
            for record in [contained, denied] {
                assert_ne!(status(&record), Status::Verified, "{attempt:?}");
            }
        }
    }

    #[test]
    fn the_denied_pass_gets_no_further_than_the_lock() {
        for attempt in [
            over(".git"),
            lock(Effect::Remove, ".git"),
            lock(Effect::WriteOpen, ".git"),
            lock(Effect::Mode, ".git"),
        ] {
            let mut record = rewriting(".git");
            record.denied().observed.push(attempt.clone());
            assert_eq!(status(&record), Status::Contradicted, "{attempt:?}");
            // Where nothing would have changed, nothing did.
            let last = record.denied().observed.len() - 1;
            record.denied().observed[last].attempt.outcome = Outcome::NoOp;
            assert_eq!(status(&record), Status::Verified);
        }
    }

    #[test]
    fn a_refresh_with_any_condition_missing_counts() {
        let spoilers: [fn(&mut Record); 10] = [
            |r| r.contained().index_kept.clear(),
            |r| r.index_kept(false),
            |r| {
                r.contained().index_kept.clear();
                r.contained()
                    .index_kept
                    .insert(".git/modules/a".into(), true);
            },
            |r| r.denied().run.termination = Termination::Exited(1),
            |r| r.denied().observed[0].reading_git = false,
            |r| {
                r.arms[0].passes.remove(0);
            },
            |r| {
                let left = change(".git/index.lock", ChangeKind::Created, ABSENT);
                r.contained().changes.push(left);
            },
            |r| {
                let mode = change(".git/index", ChangeKind::Mode, GIT);
                r.contained().changes.push(mode);
            },
            |r| {
                let gone = change(".git/index", ChangeKind::Removed, GIT);
                r.contained().changes.push(gone);
            },
            |r| {
                let times = change(".git/modules/a/index", ChangeKind::Content, GIT);
                r.contained().changes.push(times);
            },
        ];
        for (i, spoil) in spoilers.into_iter().enumerate() {
            let mut record = rewriting(".git");
            spoil(&mut record);
            assert_eq!(status(&record), Status::Contradicted, "condition {i}");
        }
    }
}
