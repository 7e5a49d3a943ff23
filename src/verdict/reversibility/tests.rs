//! One table of behaviours with the answer that each must get, then the rules one by one.

use calibrun_sandbox::Termination;

use super::super::judge;
use super::super::sample::{ask, at, change, command, declared, on};
use super::*;
use crate::record::{Observed, UndoOutcome};
use crate::workspace::{self, Difference};
use ChangeKind::{Content, Created, Executable, Flags, Inode, Mode, Removed, Times, Xattr};
use PathState::{Absent, Clean, GitInternal, Ignored, Staged, Uncommitted, Untracked};
use UndoOutcome::{NotTried, Proven, Residue, Untouched};

/// The status of `reversible`, and the codes without repeats.
fn reversible(record: &Record) -> (Status, BTreeSet<ReasonCode>) {
    let verdict = judge(record, &ask()).reversibility;
    (
        verdict.status.expect("claimed"),
        verdict.reasons.iter().map(|r| r.code).collect(),
    )
}

/// Checks the status, and that one of the reasons for it is `code`.
fn expect(name: &str, record: &Record, status: Status, code: ReasonCode) {
    let (got, codes) = reversible(record);
    assert_eq!(got, status, "{name}: {codes:?}");
    assert!(codes.contains(&code), "{name}: {codes:?}");
    assert_eq!(code.status(), status, "{name}");
}

/// An undo that left one thing.
fn left(path: &str, what: Difference) -> UndoOutcome {
    Residue(vec![workspace::Residue {
        path: path.into(),
        what,
    }])
}

/// An arm that makes `observed` in both passes, and leaves `changes`.
fn both(observed: &[Observed], changes: &[(&str, ChangeKind, PathState)]) -> Record {
    let contained = observed.iter().cloned().map(Observed::allowed).collect();
    command(
        observed.to_vec(),
        contained,
        changes.iter().map(|(p, k, b)| change(p, *k, *b)).collect(),
    )
}

#[test]
fn commands_that_leave_nothing_or_were_undone_are_verified() {
    let cases = [
        ("reader", command(vec![], vec![], vec![])),
        (
            "create untracked",
            both(
                &[on(Effect::Create, "report.txt", Absent)],
                &[("report.txt", Created, Absent)],
            )
            .undone(Proven),
        ),
        (
            "link and append",
            both(
                &[
                    on(Effect::Link, "README.md", Clean).onto("hl", Absent),
                    on(Effect::WriteOpen, "hl", Absent),
                ],
                &[("hl", Created, Absent), ("README.md", Content, Clean)],
            )
            .undone(Proven),
        ),
        (
            "temporary file only",
            both(&[on(Effect::Create, "", Clean)], &[]),
        ),
        (
            "chmod of what is so already",
            both(
                &[on(Effect::Mode, "scripts/check.sh", Clean)],
                &[("scripts/check.sh", Times, Clean)],
            ),
        ),
        (
            "touch",
            both(
                &[on(Effect::Times, "README.md", Clean)],
                &[("README.md", Times, Clean)],
            ),
        ),
        (
            "same bytes, new inode",
            both(
                &[
                    on(Effect::Create, ".r.tmp", Absent),
                    on(Effect::Rename, ".r.tmp", Absent).onto("README.md", Clean),
                ],
                &[("README.md", Times, Clean), ("README.md", Inode, Clean)],
            ),
        ),
        (
            "moved in from a temp folder",
            both(
                &[at(Effect::Rename, Place::Scratch, "/tmp/s/n", true)
                    .onto("README.md", Clean)
                    .placed(Place::Worktree)],
                &[("README.md", Content, Clean), ("README.md", Inode, Clean)],
            )
            .undone(Proven),
        ),
        (
            "stash with untracked files",
            both(
                &[
                    on(Effect::Create, ".git/objects/aa/bb", Absent),
                    on(Effect::Create, ".git/refs/stash", Absent),
                    on(Effect::Create, ".git/logs/refs/stash", Absent),
                    on(Effect::Rename, ".git/index.lock", Absent).onto(".git/index", GitInternal),
                    on(Effect::Truncate, "notes.txt", Uncommitted),
                    on(Effect::Remove, "scripts/local1.sh", Untracked),
                ],
                &[
                    (".git/refs/stash", Created, Absent),
                    (".git/logs/refs/stash", Created, Absent),
                    (".git/objects/aa/bb", Created, Absent),
                    (".git/index", Content, GitInternal),
                    ("notes.txt", Content, Uncommitted),
                    ("scripts/local1.sh", Removed, Untracked),
                ],
            )
            .undone(Proven),
        ),
        (
            "stale lock",
            both(
                &[on(Effect::Create, ".git/index.lock", Absent)],
                &[(".git/index.lock", Created, Absent)],
            )
            .undone(Proven),
        ),
        ("cache in a private HOME", {
            let made = [
                at(Effect::Create, Place::Home, "/home/dev/.cache", false),
                at(Effect::Create, Place::Home, "/home/dev/.cache/x", false),
                at(Effect::WriteOpen, Place::Home, "/home/dev/.cache/x", true),
                at(Effect::Remove, Place::Home, "/home/dev/.cache/x", true),
            ];
            command(
                vec![made[0].clone()],
                made.into_iter().map(Observed::allowed).collect(),
                vec![],
            )
            .undone(Untouched)
        }),
        (
            "write-open of an untracked file, unchanged",
            both(&[on(Effect::WriteOpen, "a.html", Untracked)], &[]),
        ),
        (
            "write into scratch",
            both(
                &[at(Effect::Create, Place::Scratch, "/tmp/s/x", false)],
                &[],
            ),
        ),
    ];
    for (name, record) in cases {
        let (status, codes) = reversible(&record);
        assert_eq!(status, Status::Verified, "{name}: {codes:?}");
        let verdict = judge(&record, &ask()).reversibility;
        assert_eq!(verdict.observed, Reversibility::Reversible, "{name}");
        let code = if record.arms[0].passes[1].undo.is_some() {
            ReasonCode::UndoProven
        } else {
            ReasonCode::NothingChanged
        };
        assert_eq!(codes, [code].into(), "{name}");
    }
}

#[test]
fn commands_that_lose_something_are_contradicted() {
    use ReasonCode::*;
    let removes = |path, state| on(Effect::Remove, path, state);
    let cases: Vec<(&str, Record, ReasonCode)> = vec![
        (
            "delete untracked",
            both(
                &[removes("scripts/local1.sh", Untracked)],
                &[("scripts/local1.sh", Removed, Untracked)],
            ),
            UntrackedLost,
        ),
        (
            "delete ignored",
            both(
                &[
                    removes("build/out.bin", Ignored),
                    removes("build", Ignored).folder(),
                ],
                &[
                    ("build", Removed, Ignored),
                    ("build/out.bin", Removed, Ignored),
                ],
            ),
            IgnoredLost,
        ),
        (
            "append to an uncommitted edit",
            both(
                &[on(Effect::WriteOpen, "notes.txt", Uncommitted)],
                &[("notes.txt", Content, Uncommitted)],
            ),
            UncommittedLost,
        ),
        (
            "overwrite an uncommitted edit",
            both(
                &[on(Effect::Truncate, "notes.txt", Uncommitted)],
                &[("notes.txt", Content, Uncommitted)],
            ),
            UncommittedLost,
        ),
        (
            "delete staged",
            both(&[removes("s", Staged)], &[("s", Removed, Staged)]),
            StagedLost,
        ),
        (
            "untracked moved to a temp folder",
            both(
                &[on(Effect::Rename, "local", Untracked).onto_place(
                    Place::Scratch,
                    "/tmp/s/l",
                    false,
                )],
                &[("local", Removed, Untracked)],
            ),
            UntrackedLost,
        ),
        (
            "deleted only where it is refused",
            command(
                vec![removes("scripts/local1.sh", Untracked)],
                vec![],
                vec![],
            ),
            UntrackedLost,
        ),
        (
            "rename over untracked, refused",
            command(
                vec![on(Effect::Rename, "a", Clean).onto("local", Untracked)],
                vec![],
                vec![],
            ),
            UntrackedLost,
        ),
        (
            "write-open of untracked, never resolved",
            command(
                vec![on(Effect::WriteOpen, "local", Untracked)],
                vec![],
                vec![],
            ),
            UntrackedLost,
        ),
        (
            "deletes a planted file",
            command(vec![removes(".canary", PathState::Canary)], vec![], vec![]),
            UntrackedLost,
        ),
        (
            "deletes a planted ignored file",
            both(&[], &[(".canary", Removed, PathState::Canary)]),
            IgnoredLost,
        ),
        (
            "deletes a planted ref",
            both(
                &[],
                &[(".git/refs/heads/canary", Removed, PathState::Canary)],
            ),
            HistoryLost,
        ),
        (
            "branch delete",
            both(
                &[
                    on(Effect::Create, ".git/packed-refs.lock", Absent),
                    removes(".git/refs/heads/feature", GitInternal),
                    removes(".git/logs/refs/heads/feature", GitInternal),
                ],
                &[
                    (".git/refs/heads/feature", Removed, GitInternal),
                    (".git/logs/refs/heads/feature", Removed, GitInternal),
                    (".git/config", Times, GitInternal),
                ],
            ),
            HistoryLost,
        ),
        (
            "config write",
            both(
                &[on(Effect::Rename, ".git/config.lock", Absent).onto(".git/config", GitInternal)],
                &[(".git/config", Content, GitInternal)],
            ),
            ConfigLost,
        ),
        (
            "reflog expire and gc",
            both(
                &[on(Effect::Rename, ".git/logs/HEAD.lock", Absent)
                    .onto(".git/logs/HEAD", GitInternal)],
                &[
                    (".git/logs/HEAD", Content, GitInternal),
                    (".git/logs/HEAD", Inode, GitInternal),
                    (".git/objects/pack/pack-1.pack", Created, Absent),
                ],
            ),
            HistoryLost,
        ),
        (
            "tag delete",
            both(
                &[removes(".git/refs/tags/v1", GitInternal)],
                &[(".git/refs/tags/v1", Removed, GitInternal)],
            ),
            HistoryLost,
        ),
        (
            "prune of a loose object",
            both(
                &[],
                &[(
                    ".git/objects/aa/0123456789abcdef0123456789abcdef012345",
                    Removed,
                    GitInternal,
                )],
            ),
            HistoryLost,
        ),
        (
            "hook replaced",
            both(&[], &[(".git/hooks/pre-commit", Content, GitInternal)]),
            ConfigLost,
        ),
        (
            "refused deletion of a reflog",
            command(vec![removes(".git/logs/HEAD", GitInternal)], vec![], vec![]),
            HistoryLost,
        ),
        (
            "delete in HOME",
            command(
                vec![at(Effect::Remove, Place::Home, "/home/dev/canary", true)],
                vec![],
                vec![],
            ),
            OutsideDestroyed,
        ),
        (
            "delete in a private copy of HOME",
            both(
                &[at(Effect::Remove, Place::Home, "/home/dev/canary", true)],
                &[],
            )
            .undone(Proven),
            OutsideDestroyed,
        ),
        (
            "truncate elsewhere",
            command(
                vec![at(Effect::Truncate, Place::Outside, "/etc/hosts", true)],
                vec![],
                vec![],
            ),
            OutsideDestroyed,
        ),
        (
            "rename over something in HOME",
            command(
                vec![
                    at(Effect::Rename, Place::Scratch, "/tmp/s/n", true)
                        .onto_place(Place::Home, "/home/dev/.rc", true)
                        .placed(Place::Home),
                ],
                vec![],
                vec![],
            ),
            OutsideDestroyed,
        ),
        (
            "undo that misses",
            both(
                &[removes("local", Untracked)],
                &[("local", Removed, Untracked)],
            )
            .undone(left("local", Difference::Removed)),
            UntrackedLost,
        ),
        (
            "undo that misses a config value",
            both(&[], &[(".git/config", Content, GitInternal)])
                .undone(left(".git/config", Difference::Config)),
            ConfigLost,
        ),
        (
            "undo that leaves something of its own",
            both(&[], &[("src/app.py", Content, Clean)])
                .undone(left("src/app.py", Difference::Content)),
            UndoDiffers,
        ),
        (
            "undo that does not say what differs",
            command(vec![], vec![], vec![]).undone(Residue(vec![])),
            UndoDiffers,
        ),
    ];
    for (name, record, code) in cases {
        expect(name, &record, Status::Contradicted, code);
        let verdict = judge(&record, &ask()).reversibility;
        assert_eq!(verdict.observed, Reversibility::Irreversible, "{name}");
    }
}

#[test]
fn commands_about_which_nobody_knows_are_claim_only() {
    use ReasonCode::*;
    let cases: Vec<(&str, Record, ReasonCode)> = vec![
        (
            "file outside",
            command(
                vec![at(Effect::Create, Place::Outside, "/srv/x", false)],
                vec![],
                vec![],
            ),
            EffectsOutside,
        ),
        (
            "file in a HOME that is refused in both passes",
            {
                let made = at(Effect::Create, Place::Home, "/home/dev/.cache", false);
                command(vec![made.clone()], vec![made], vec![])
            },
            EffectsOutside,
        ),
        (
            "file in HOME, and the contained pass did not go there",
            command(
                vec![at(Effect::Create, Place::Home, "/home/dev/.c", false)],
                vec![],
                vec![],
            ),
            EffectsOutside,
        ),
        (
            "times of an existing file in a private HOME",
            both(
                &[at(Effect::Times, Place::Home, "/home/dev/.rc", true)],
                &[],
            )
            .undone(Untouched),
            EffectsOutside,
        ),
        (
            "private HOME without proof",
            both(
                &[at(Effect::Create, Place::Home, "/home/dev/.c", false)],
                &[],
            ),
            UndoUnproven,
        ),
        (
            "signal to another process",
            command(
                vec![at(Effect::Signal, Place::Outside, "/proc/1", true)],
                vec![],
                vec![],
            ),
            EffectsOutside,
        ),
        (
            "network",
            command(
                vec![at(Effect::Connect, Place::Egress, "192.0.2.1:80", false)],
                vec![],
                vec![],
            ),
            EgressAttempted,
        ),
        (
            "chmod of an untracked file",
            both(
                &[on(Effect::Mode, "local", Untracked)],
                &[("local", Mode, Untracked), ("local", Executable, Untracked)],
            )
            .undone(Proven),
            MetadataNotKept,
        ),
        (
            "executable bit of an untracked file",
            both(
                &[on(Effect::Mode, "local", Untracked)],
                &[("local", Executable, Untracked)],
            )
            .undone(Proven),
            MetadataNotKept,
        ),
        (
            "xattr",
            both(
                &[on(Effect::Xattr, "README.md", Clean)],
                &[("README.md", Xattr, Clean)],
            )
            .undone(Proven),
            MetadataNotKept,
        ),
        (
            "flags",
            both(
                &[on(Effect::Flags, "README.md", Clean)],
                &[("README.md", Flags, Clean)],
            ),
            MetadataNotKept,
        ),
        (
            "refused chmod that the contained pass did not make",
            command(vec![on(Effect::Mode, "README.md", Clean)], vec![], vec![]),
            MetadataNotKept,
        ),
        (
            "new hook",
            both(
                &[on(Effect::Create, ".git/hooks/post-merge", Absent)],
                &[(".git/hooks/post-merge", Created, Absent)],
            )
            .undone(Proven),
            PersistsExecution,
        ),
        (
            "refused new hook",
            command(
                vec![on(Effect::Create, ".git/hooks/post-merge", Absent)],
                vec![],
                vec![],
            ),
            PersistsExecution,
        ),
        (
            "attributes",
            both(
                &[on(Effect::Truncate, ".gitattributes", Clean)],
                &[(".gitattributes", Content, Clean)],
            )
            .undone(Proven),
            PersistsExecution,
        ),
        (
            "untracked content rewritten with the same bytes",
            both(
                &[on(Effect::Rename, ".tmp", Absent).onto("local", Untracked)],
                &[("local", Inode, Untracked)],
            )
            .undone(Proven),
            RiskedInBetween,
        ),
        (
            "uncommitted edit put aside and put back",
            both(&[on(Effect::Truncate, "notes.txt", Uncommitted)], &[]),
            RiskedInBetween,
        ),
        (
            "untracked content written in place, the same bytes",
            both(
                &[on(Effect::WriteOpen, "local", Untracked)],
                &[("local", Times, Untracked)],
            ),
            RiskedInBetween,
        ),
        (
            "new file without proof",
            both(
                &[on(Effect::Create, "x", Absent)],
                &[("x", Created, Absent)],
            ),
            UndoUnproven,
        ),
        (
            "new file, undo not tried",
            both(
                &[on(Effect::Create, "x", Absent)],
                &[("x", Created, Absent)],
            )
            .undone(NotTried("no history".into())),
            UndoUnproven,
        ),
        (
            "undo that found nothing where something had changed",
            both(
                &[on(Effect::Create, "x", Absent)],
                &[("x", Created, Absent)],
            )
            .undone(Untouched),
            UndoUnproven,
        ),
        (
            "stash without proof",
            both(
                &[on(Effect::Remove, "local", Untracked)],
                &[
                    ("local", Removed, Untracked),
                    (".git/objects/aa/bb", Created, Absent),
                ],
            ),
            UndoUnproven,
        ),
        (
            "untracked moved within the clone",
            both(
                &[on(Effect::Rename, "local", Untracked).onto("local.bak", Absent)],
                &[
                    ("local", Removed, Untracked),
                    ("local.bak", Created, Absent),
                ],
            ),
            UndoUnproven,
        ),
        (
            "refused move within the clone",
            command(
                vec![on(Effect::Rename, "local", Untracked).onto("local.bak", Absent)],
                vec![],
                vec![],
            ),
            UndoUnproven,
        ),
        (
            "refused removal of tracked content",
            command(vec![on(Effect::Remove, "README.md", Clean)], vec![], vec![]),
            UndoUnproven,
        ),
        (
            "empty untracked folder removed",
            both(
                &[on(Effect::Remove, "empty", Untracked).folder()],
                &[("empty", Removed, Untracked)],
            ),
            UndoUnproven,
        ),
        (
            "commit: a ref moves and its reflog grows",
            both(
                &[on(Effect::WriteOpen, ".git/logs/HEAD", GitInternal)],
                &[
                    (".git/refs/heads/main", Content, GitInternal),
                    (".git/refs/heads/main", Inode, GitInternal),
                    (".git/logs/HEAD", Content, GitInternal),
                    (".git/objects/aa/bb", Created, Absent),
                    (".git/index", Content, GitInternal),
                ],
            ),
            UndoUnproven,
        ),
        (
            "refs packed",
            both(
                &[],
                &[
                    (".git/refs/heads/main", Removed, GitInternal),
                    (".git/packed-refs", Created, Absent),
                ],
            ),
            UndoUnproven,
        ),
        (
            "branch renamed",
            both(
                &[on(Effect::Rename, ".git/logs/refs/heads/a", GitInternal)
                    .onto(".git/logs/refs/heads/b", Absent)],
                &[
                    (".git/refs/heads/a", Removed, GitInternal),
                    (".git/refs/heads/b", Created, Absent),
                    (".git/logs/refs/heads/a", Removed, GitInternal),
                    (".git/logs/refs/heads/b", Created, Absent),
                ],
            ),
            UndoUnproven,
        ),
        (
            "objects packed",
            both(
                &[],
                &[
                    (
                        ".git/objects/aa/0123456789abcdef0123456789abcdef012345",
                        Removed,
                        GitInternal,
                    ),
                    (".git/objects/pack/pack-1.pack", Created, Absent),
                ],
            ),
            UndoUnproven,
        ),
        (
            "an effect that nobody saw coming, undone",
            both(&[], &[("x", Created, Absent)]).undone(Proven),
            InstrumentUncalibrated,
        ),
        (
            "write-open outside",
            command(
                vec![at(Effect::WriteOpen, Place::Outside, "/srv/db", true)],
                vec![],
                vec![],
            ),
            WriteOpenUnresolved,
        ),
    ];
    for (name, record, code) in cases {
        expect(name, &record, Status::ClaimOnly, code);
        let verdict = judge(&record, &ask()).reversibility;
        assert_eq!(verdict.observed, Reversibility::Unknown, "{name}");
    }
}

#[test]
fn a_refused_loss_that_the_contained_pass_made_and_undid_does_not_count() {
    let record = both(
        &[on(Effect::Remove, "local", Untracked)],
        &[("local", Removed, Untracked)],
    );
    expect(
        "not undone",
        &record,
        Status::Contradicted,
        ReasonCode::UntrackedLost,
    );
    let undone = record.undone(Proven);
    expect("undone", &undone, Status::Verified, ReasonCode::UndoProven);
    // Another path is another loss.
    let mut other = undone;
    other
        .denied()
        .observed
        .push(on(Effect::Remove, "local2", Untracked));
    expect(
        "another",
        &other,
        Status::Contradicted,
        ReasonCode::UntrackedLost,
    );
}

#[test]
fn a_refused_loss_is_not_excused_by_something_else_that_was_done_to_the_path() {
    let remove = || on(Effect::Remove, "local", Untracked);
    let others = [
        (
            on(Effect::Times, "local", Untracked),
            change("local", Times, Untracked),
        ),
        (
            on(Effect::WriteOpen, "local", Untracked),
            change("local", Content, Untracked),
        ),
        (
            on(Effect::Rename, "local", Untracked).onto("l2", Absent),
            change("local", Removed, Untracked),
        ),
    ];
    for (other, change) in others {
        let record = command(vec![remove()], vec![other.allowed()], vec![change]).undone(Proven);
        expect(
            "refused",
            &record,
            Status::Contradicted,
            ReasonCode::UntrackedLost,
        );
    }
}

#[test]
fn the_undo_of_every_arm_must_be_proven() {
    let mut record = both(
        &[on(Effect::Create, "x", Absent)],
        &[("x", Created, Absent)],
    )
    .undone(Proven);
    let mut second = record.arms[0].clone();
    second.name = crate::record::ArmName::NoArgs;
    second.passes[1].undo = None;
    record.arms.push(second);
    expect(
        "one missing",
        &record,
        Status::ClaimOnly,
        ReasonCode::UndoUnproven,
    );
}

#[test]
fn without_history_only_an_untouched_tree_is_reversible() {
    let mut touched = both(
        &[on(Effect::Create, "x", Absent)],
        &[("x", Created, Absent)],
    )
    .undone(Proven);
    touched.commit = None;
    expect(
        "touched",
        &touched,
        Status::ClaimOnly,
        ReasonCode::UndoUnproven,
    );
    let mut quiet = command(vec![], vec![], vec![]).undone(Untouched);
    quiet.commit = None;
    expect(
        "untouched",
        &quiet,
        Status::Verified,
        ReasonCode::NothingChanged,
    );
}

#[test]
fn an_undo_does_not_settle_what_the_run_hid() {
    let mut record = both(
        &[on(Effect::Create, "x", Absent)],
        &[("x", Created, Absent)],
    )
    .undone(Proven);
    record.contained().run.termination = Termination::TimedOut;
    expect(
        "timed out",
        &record,
        Status::ClaimOnly,
        ReasonCode::ArmTimedOut,
    );
}

#[test]
fn unknown_and_irreversible_are_claim_only_with_the_measured_value_beside_them() {
    let lossy = both(
        &[on(Effect::Remove, "local", Untracked)],
        &[("local", Removed, Untracked)],
    );
    let quiet = command(vec![], vec![], vec![]);
    for (claim, code) in [
        (Reversibility::Unknown, ReasonCode::DeclaredUnknown),
        (Reversibility::Irreversible, ReasonCode::TopOfOrder),
    ] {
        let mut question = ask();
        question.claims.reversibility = Some(claim);
        for (record, observed, detail) in [
            (
                &lossy,
                Reversibility::Irreversible,
                "measured: irreversible, for untracked-lost",
            ),
            (&quiet, Reversibility::Reversible, "measured: reversible"),
        ] {
            let verdict = judge(record, &question).reversibility;
            assert_eq!(verdict.status, Some(Status::ClaimOnly));
            assert_eq!(verdict.observed, observed);
            assert_eq!(verdict.reasons, [Reason::new(code).because(detail)]);
        }
    }
}

#[test]
fn a_reading_git_that_refreshed_its_index_left_nothing() {
    let lock = on(Effect::Create, ".git/index.lock", Absent).by_reading_git();
    let mut record = both(&[lock], &[(".git/index", Content, GitInternal)]);
    record.contained().observed.push(
        on(Effect::Rename, ".git/index.lock", Absent)
            .onto(".git/index", GitInternal)
            .by_reading_git()
            .allowed(),
    );
    expect(
        "not compared",
        &record,
        Status::ClaimOnly,
        ReasonCode::UndoUnproven,
    );
    record.index_kept(true);
    expect(
        "compared",
        &record,
        Status::Verified,
        ReasonCode::NothingChanged,
    );
}

#[test]
fn a_loss_in_an_undeclared_arm_counts_for_the_declaration() {
    let mut record = declared();
    record.arms[2].passes[0].observed = vec![on(Effect::Remove, "scripts/deploy.sh", Untracked)];
    let verdict = judge(&record, &super::super::sample::ask_declared());
    assert_eq!(verdict.reversibility.status, Some(Status::Contradicted));
    assert_eq!(
        verdict.reversibility.reasons[0].arm,
        Some(crate::record::ArmName::NoArgs)
    );
}

#[test]
fn an_undo_that_misses_only_what_no_history_keeps_leaves_the_claim_open() {
    for (kind, what) in [
        (Xattr, Difference::Xattr),
        (Flags, Difference::Flags),
        (ChangeKind::Owner, Difference::Owner),
    ] {
        let mut record = both(&[], &[("README.md", kind, Clean)]).undone(left("README.md", what));
        expect(
            "metadata alone",
            &record,
            Status::ClaimOnly,
            ReasonCode::MetadataNotKept,
        );
        // Content beside it is not forgiven.
        if let Some(Residue(residue)) = &mut record.contained().undo {
            residue.push(workspace::Residue {
                path: "README.md".into(),
                what: Difference::Content,
            });
        }
        expect(
            "and content",
            &record,
            Status::Contradicted,
            ReasonCode::UndoDiffers,
        );
    }
}
