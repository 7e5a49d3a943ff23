//! What was changed in the contained pass and put back before its end: the tree shows nothing, and a
//! kill in between would have lost it.

use std::path::Path;

use calibrun_sandbox::{Effect, FileKind};

use super::super::ReasonCode;
use super::super::evidence::{Destroyed, Item};
use super::super::gitdir::{self, GitPart};
use super::{Contained, holds_objects, unkept};
use crate::workspace::PathState;

/// Content that no history holds, changed in the contained pass and put back before its end.
pub(super) fn risked(
    item: &Item<'_>,
    destroyed: &[Destroyed<'_>],
    contained: &Contained<'_>,
) -> Option<ReasonCode> {
    let observed = item.observed;
    let opened = observed.attempt.effect == Effect::WriteOpen
        && unseen(item).is_some()
        && observed
            .path
            .as_deref()
            .is_some_and(|path| !contained.content_differs(path));
    let back = |end: &Destroyed<'_>| {
        end.path.is_some_and(|path| {
            if unkept(end.state) {
                return !contained.content_differs(path);
            }
            let folder = end.target.existed == Some(FileKind::Folder);
            is_precious(end.state, path, folder)
                && !replaced_in_one_step(item, path)
                && is_back(path, contained)
        })
    };
    (opened || destroyed.iter().any(back)).then_some(ReasonCode::RiskedInBetween)
}

/// A write-open that shows no change, when a change that was put back would have been a risk.
pub(super) fn unseen(item: &Item<'_>) -> Option<ReasonCode> {
    let (state, path) = (item.observed.state, item.observed.path.as_deref()?);
    (unkept(state) || is_precious(state, path, false)).then_some(ReasonCode::RiskedInBetween)
}

/// Whether what `path` named is there again; of a reflog, whether anything is, since it grows.
fn is_back(path: &Path, contained: &Contained<'_>) -> bool {
    if gitdir::part(path) == GitPart::Logs {
        !contained.is_gone(path)
    } else {
        !contained.content_differs(path)
    }
}

/// Whether `path` is a part of a git folder whose loss no other part makes good.
fn is_precious(state: PathState, path: &Path, folder: bool) -> bool {
    state == PathState::GitInternal
        && match gitdir::part(path) {
            GitPart::Objects => folder || holds_objects(path),
            GitPart::Refs
            | GitPart::PackedRefs
            | GitPart::Head
            | GitPart::Logs
            | GitPart::Config
            | GitPart::Hooks
            | GitPart::Attributes
            | GitPart::Info
            | GitPart::Index
            | GitPart::Other => true,
            GitPart::IndexLock | GitPart::Volatile => false,
        }
}

/// Whether the attempt renames over `path` as git does (gitrepository-layout(5), git-pack-refs(1)):
/// from the lock of that file, or within the objects, whose names follow from their content.
fn replaced_in_one_step(item: &Item<'_>, path: &Path) -> bool {
    let observed = item.observed;
    let (Effect::Rename, Some(from)) = (observed.attempt.effect, observed.path.as_deref()) else {
        return false;
    };
    if observed.to_path.as_deref() != Some(path) || observed.state != PathState::Absent {
        return false;
    }
    let named = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        from.as_os_str() == name
    };
    let part = gitdir::part(path);
    named(".lock")
        || (part == GitPart::PackedRefs && named(".new"))
        || (part == GitPart::Objects && gitdir::part(from) == GitPart::Objects)
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::{ask, change, command, on};
    use super::super::super::{Status, judge};
    use super::*;
    use crate::record::{Observed, Record, UndoOutcome};
    use crate::workspace::ChangeKind;

    const GIT: PathState = PathState::GitInternal;
    const ABSENT: PathState = PathState::Absent;

    /// The parts of a git folder that nothing else makes good.
    const PRECIOUS: &[&str] = &[
        ".git/refs/stash",
        ".git/refs/tags/v1",
        ".git/packed-refs",
        ".git/HEAD",
        ".git/logs/HEAD",
        ".git/logs/refs/stash",
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/info/exclude",
        ".git/info/attributes",
        ".git/index",
        ".git/objects/aa/0123456789abcdef0123456789abcdef012345",
        ".git/objects/pack/pack-1.pack",
        ".git/annex/objects/x",
        ".git/modules/sub/HEAD",
    ];

    /// An arm that tries `observed` in both passes, and of which only times and inodes tell.
    fn put_back(observed: &[Observed]) -> Record {
        let changes = observed
            .iter()
            .flat_map(|o| [&o.path, &o.to_path])
            .flatten()
            .map(|path| change(&path.to_string_lossy(), ChangeKind::Inode, GIT))
            .collect();
        let contained = observed.iter().cloned().map(Observed::allowed).collect();
        command(observed.to_vec(), contained, changes).undone(UndoOutcome::Proven)
    }

    fn status(record: &Record) -> (Status, Vec<ReasonCode>) {
        let verdict = judge(record, &ask()).reversibility;
        let codes = verdict.reasons.iter().map(|r| r.code).collect();
        (verdict.status.expect("claimed"), codes)
    }

    fn at_risk(record: &Record) -> bool {
        let (status, codes) = status(record);
        assert_ne!(status, Status::Contradicted, "{codes:?}");
        let risked = codes.contains(&ReasonCode::RiskedInBetween);
        assert_eq!(risked, status == Status::ClaimOnly, "{codes:?}");
        risked
    }

    #[test]
    fn a_part_of_a_git_folder_that_was_removed_and_put_back_was_at_risk() {
        for path in PRECIOUS {
            for effect in [Effect::Remove, Effect::Truncate, Effect::WriteOpen] {
                let record = put_back(&[on(effect, path, GIT)]);
                assert!(at_risk(&record), "{effect} {path}");
            }
            let away = on(Effect::Rename, path, GIT).onto(".git/aside", ABSENT);
            let back = on(Effect::Rename, ".git/aside", ABSENT).onto(path, ABSENT);
            assert!(at_risk(&put_back(&[away, back])), "{path} moved");
            // From somewhere else, over it: not how git does it.
            let over = on(Effect::Rename, ".git/saved", GIT).onto(path, GIT);
            let from_tree = on(Effect::Rename, "saved", ABSENT).onto(path, GIT);
            for over in [over, from_tree] {
                assert!(at_risk(&put_back(&[over])), "{path} renamed over");
            }
        }
        for folder in [".git", ".git/refs", ".git/objects", ".git/modules/sub"] {
            let away = on(Effect::Rename, folder, GIT)
                .onto("aside", ABSENT)
                .folder();
            assert!(at_risk(&put_back(&[away])), "{folder}");
        }
    }

    #[test]
    fn what_git_makes_and_drops_by_itself_was_not() {
        for path in [
            ".git/ORIG_HEAD",
            ".git/FETCH_HEAD",
            ".git/COMMIT_EDITMSG",
            ".git/info/refs",
            ".git/objects/info/commit-graph",
            ".git/objects/pack/pack-1.idx",
        ] {
            for effect in [Effect::Remove, Effect::Truncate] {
                assert!(
                    !at_risk(&put_back(&[on(effect, path, GIT)])),
                    "{effect} {path}"
                );
            }
        }
        for path in PRECIOUS {
            // Made by the arm itself.
            let own = on(Effect::Remove, path, ABSENT);
            assert!(!at_risk(&put_back(&[own])), "{path}");
            let lock = format!("{path}.lock");
            let normal = [
                on(Effect::Create, &lock, ABSENT),
                on(Effect::WriteOpen, &lock, ABSENT),
                on(Effect::Rename, &lock, ABSENT).onto(path, GIT),
            ];
            assert!(!at_risk(&put_back(&normal)), "{path}");
        }
        let pack = on(
            Effect::Rename,
            ".git/objects/pack/.tmp-7-pack-1.pack",
            ABSENT,
        )
        .onto(".git/objects/pack/pack-1.pack", GIT);
        let refs = on(Effect::Rename, ".git/packed-refs.new", ABSENT).onto(".git/packed-refs", GIT);
        assert!(!at_risk(&put_back(&[pack, refs])));
    }

    #[test]
    fn a_reflog_that_grew_after_it_was_gone_was_at_risk_all_the_same() {
        let grown = |effect| {
            let log = on(effect, ".git/logs/HEAD", GIT);
            let content = change(".git/logs/HEAD", ChangeKind::Content, GIT);
            command(vec![log.clone()], vec![log.allowed()], vec![content])
                .undone(UndoOutcome::Proven)
        };
        assert!(at_risk(&grown(Effect::Remove)));
        assert!(at_risk(&grown(Effect::Truncate)));
        // Git appends in place.
        assert!(!at_risk(&grown(Effect::WriteOpen)));
    }

    #[test]
    fn a_mapped_file_was_at_risk_only_where_history_does_not_hold_it() {
        for (path, state, risked) in [
            ("notes.txt", PathState::Untracked, true),
            ("cache.ign", PathState::Ignored, true),
            ("notes.txt", PathState::Uncommitted, true),
            (".git/refs/stash", GIT, true),
            ("README.md", PathState::Clean, false),
            ("own", ABSENT, false),
            (".git/objects/pack/pack-1.idx", GIT, false),
        ] {
            let open = || on(Effect::WriteOpen, path, state);
            let mapped = open().marked(calibrun_sandbox::Mark::Mapped).allowed();
            let record = command(vec![open()], vec![open().allowed(), mapped], vec![]);
            assert_eq!(at_risk(&record), risked, "{path} {state:?}");
            let writes = judge(&record, &ask()).writes.status;
            assert_eq!(writes, Some(Status::ClaimOnly), "{path}");
        }
    }
}
