//! Trees in which an arm left links, FIFOs and files that claim to be something: nothing outside is
//! touched or followed, nothing hangs, and what cannot be read is never the same as nothing.

use std::sync::mpsc;
use std::time::Duration;

use calibrun::workspace::{aftermath, index_kept, read_index};
use rustix::fs::{CWD, FileType, Mode};

use super::*;

fn fifo(path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// Looks at the tree after `act` as a probe does, and fails if that takes too long.
fn aftermath_of(repo: &Repo, act: impl FnOnce(&Path)) -> (Vec<Change>, UndoReport) {
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    act(&tree.root);
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let found = aftermath(&tree, Default::default(), &|| false);
        done.send(found).unwrap();
    });
    let found = wait
        .recv_timeout(Duration::from_secs(120))
        .expect("the look hangs")
        .unwrap();
    let undo = found.undo.expect("something was changed");
    assert_eq!(workspace.not_carried(), [] as [&str; 0]);
    (found.changes, undo)
}

fn has_residue(report: &UndoReport, path: &str, what: Difference) -> bool {
    report
        .residue
        .iter()
        .any(|r| r.path == Path::new(path) && r.what == what)
}

/// A repo of the user's that lies elsewhere, with something staged and settings of its own.
fn victim() -> Repo {
    let victim = busy_repo();
    victim.write("precious.txt", "staged\n");
    victim.git(&["add", "precious.txt"]);
    victim.git(&["config", "precious.key", "42"]);
    victim.git(&["tag", "precious"]);
    victim
}

/// A repo with a submodule and all that a busy one has.
fn with_submodule(library: &Repo) -> Repo {
    let repo = busy_repo();
    repo.git(&["stash", "-q"]);
    let from = library.top.to_str().unwrap();
    let allow = "protocol.file.allow=always";
    repo.git(&["-c", allow, "submodule", "--quiet", "add", from, "lib"]);
    repo.git(&["commit", "-qm", "with a submodule"]);
    repo
}

#[test]
fn an_undo_follows_no_link_out_of_the_tree() {
    let library = Repo::new();
    let repo = with_submodule(&library);
    let victim = victim();
    let git_dir = victim.top.join(".git");
    let link = |target: &Path, at: PathBuf| {
        remove(&at);
        symlink(target, at).unwrap();
    };
    let before = snapshot(&victim.top);
    // What is lost to each, and how.
    let acts: [Act<'_>; 9] = [
        (".git", &|top| {
            fs::rename(top.join(".git"), top.join(".git2")).unwrap();
            link(&git_dir, top.join(".git"));
        }),
        (".git/modules/lib", &|top| {
            link(&git_dir, top.join(".git/modules/lib"))
        }),
        (".git/modules/lib", &|top| {
            fs::create_dir(victim.base.path().join("modules")).ok();
            symlink(&git_dir, victim.base.path().join("modules/lib")).ok();
            link(
                &victim.base.path().join("modules"),
                top.join(".git/modules"),
            );
        }),
        (".git/refs", &|top| {
            link(&git_dir.join("refs"), top.join(".git/refs"))
        }),
        (".git/refs/heads", &|top| {
            link(&git_dir.join("refs/heads"), top.join(".git/refs/heads"))
        }),
        (".git/logs", &|top| {
            link(&git_dir.join("logs"), top.join(".git/logs"))
        }),
        (".git/objects", &|top| {
            link(&git_dir.join("objects"), top.join(".git/objects"))
        }),
        (".git/config", &|top| {
            for name in ["index", "config", "packed-refs"] {
                link(&git_dir.join(name), top.join(".git").join(name));
            }
        }),
        ("src/lib.txt", &|top| {
            link(&victim.top, top.join("src"));
            link(&victim.top, top.join("scripts"));
        }),
    ];
    for (lost, act) in acts {
        let (_, report) = aftermath_of(&repo, act);
        assert_eq!(snapshot(&victim.top), before, "{lost}");
        let path = Path::new(lost);
        // Links go and history comes back where the arm left it; else it is lost.
        let back = report.brought_back.iter().any(|p| p.starts_with(path));
        let left = report.residue.iter().any(|r| r.path.starts_with(path));
        assert!(back || left, "{lost}: {:?}", report.residue);
    }
}

#[test]
fn names_that_an_arm_wrote_lead_no_removal_out_of_the_tree() {
    let repo = busy_repo();
    let victim = repo.base.path().join("victim");
    write(&victim, "precious\n");
    let (_, report) = aftermath_of(&repo, |top| {
        let packed = top.join(".git/packed-refs");
        let mut text = fs::read_to_string(&packed).unwrap_or_default();
        let oid = git(top, &["rev-parse", "HEAD"]);
        let up = "../".repeat(top.components().count() + 2);
        let absolute = victim.display();
        for name in [
            absolute.to_string(),
            format!("{up}{absolute}"),
            format!("refs/{up}{absolute}"),
            "config".to_owned(),
        ] {
            text += &format!("{} {name}\n", oid.trim());
        }
        fs::write(&packed, text).unwrap();
    });
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
    // Each of them was an added line, and goes.
    assert_eq!(report.residue, []);
}

#[test]
fn a_file_that_has_a_name_elsewhere_too_is_not_written_to() {
    let repo = Repo::new();
    let outside = repo.base.path().join("outside.txt");
    write(&outside, "precious\n");
    fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
    let (_, report) = aftermath_of(&repo, |top| {
        for name in ["README", "scripts/run.sh"] {
            fs::remove_file(top.join(name)).unwrap();
            fs::hard_link(&outside, top.join(name)).unwrap();
        }
    });
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious\n");
    assert_eq!(outside.metadata().unwrap().mode() & 0o7777, 0o644);
    assert_eq!(report.residue, []);
    // One that the tree itself had under two names is.
    symlink("README", repo.top.join("link")).unwrap();
    fs::hard_link(repo.top.join("README"), repo.top.join("second")).unwrap();
    let (_, report) = aftermath_of(&repo, |top| write(top.join("README"), "other\n"));
    assert_eq!(report.residue, []);
}

#[test]
fn the_index_is_compared_without_leaving_the_tree() {
    let repo = Repo::new();
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    let kept = |before: &[u8], after: &[u8]| index_kept(before, after, &tree.root, Path::new(""));
    let before = read_index(&tree.root, Path::new(".git/index")).unwrap();
    let outside = repo.base.path().join("src");
    write(outside.join("lib.txt"), "library\n");
    // The same bytes, reached by a link; a git that follows it records the file's own stat.
    fs::remove_dir_all(tree.root.join("src")).unwrap();
    fs::create_dir(tree.root.join("src")).unwrap();
    fs::copy(outside.join("lib.txt"), tree.root.join("src/lib.txt")).unwrap();
    // A time that is not the index's own, or git would not believe the file to be settled.
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(1000);
    let file = fs::File::options()
        .write(true)
        .open(tree.root.join("src/lib.txt"));
    file.unwrap().set_modified(long_ago).unwrap();
    git(&tree.root, &["status"]);
    let after = read_index(&tree.root, Path::new(".git/index")).unwrap();
    assert_ne!(before, after);
    assert!(kept(&before, &after));
    fs::rename(tree.root.join("src"), repo.base.path().join("moved")).unwrap();
    symlink(repo.base.path().join("moved"), tree.root.join("src")).unwrap();
    assert!(!kept(&before, &after));
    // Nor through a link above the work tree, as when a submodule's folder is moved away.
    let (base, moved) = (repo.base.path(), repo.base.path().join("field"));
    symlink(base, tree.root.join("out")).unwrap();
    fs::remove_dir_all(&moved).unwrap();
    fs::create_dir(&moved).unwrap();
    // The file keeps its times when the folder moves.
    fs::rename(base.join("moved"), moved.join("src")).unwrap();
    assert!(index_kept(&before, &after, base, Path::new("field")));
    let out = Path::new("out/field");
    assert!(!index_kept(&before, &after, &tree.root, out));
}

/// As an ordinary user; root is refused nothing, and so opens nothing.
#[test]
fn a_closed_file_that_has_a_name_elsewhere_too_stays_closed() {
    let repo = Repo::new();
    let outside = repo.base.path().join("outside.txt");
    write(&outside, "precious\n");
    fs::set_permissions(&outside, Permissions::from_mode(0o000)).unwrap();
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    fs::remove_file(tree.root.join("README")).unwrap();
    fs::hard_link(&outside, tree.root.join("README")).unwrap();
    fs::set_permissions(tree.root.join("src/lib.txt"), Permissions::from_mode(0o000)).unwrap();
    let after = retake(&tree);
    assert_eq!(outside.metadata().unwrap().mode() & 0o7777, 0o000);
    let changes = diff(&tree.baseline, &after, &tree.states);
    assert!(has(&changes, "README", ChangeKind::Content));
    assert!(has(&changes, "src/lib.txt", ChangeKind::Mode));
    assert!(!has(&changes, "src/lib.txt", ChangeKind::Content));
}

#[test]
fn what_is_no_regular_file_is_never_opened_and_counts_as_gone() {
    let repo = busy_repo();
    repo.git(&["pack-refs", "--all"]);
    let blob = repo.git(&["rev-parse", "HEAD:README"]);
    let (folder, file) = blob.trim().split_at(2);
    let object = format!(".git/objects/{folder}/{file}");
    assert!(repo.top.join(&object).is_file());
    let rows = [
        (".git/index", None),
        (".git/HEAD", None),
        (".git/config", Some(Difference::Config)),
        (".git/packed-refs", None),
        (".git/logs/HEAD", Some(Difference::Reflog)),
        (object.as_str(), Some(Difference::Objects)),
    ];
    type Make = fn(&Path);
    let makes: [(&str, Make); 3] = [
        ("a fifo", |path| fifo(path)),
        ("a socket", |path| {
            // A socket's path must be short; its inode stays when it is moved.
            let near = path.ancestors().find(|p| p.join(".git").is_dir()).unwrap();
            let short = tempfile::tempdir_in(near.parent().unwrap()).unwrap();
            drop(std::os::unix::net::UnixListener::bind(short.path().join("s")).unwrap());
            fs::rename(short.path().join("s"), path).unwrap();
        }),
        ("a link to one that blocks", |path| {
            let beside = path.with_extension("fifo");
            fifo(&beside);
            symlink(&beside, path).unwrap();
        }),
    ];
    for (what, make) in makes {
        for (path, lost) in rows {
            let (changes, report) = aftermath_of(&repo, |top| {
                remove(&top.join(path));
                make(&top.join(path));
            });
            assert!(has(&changes, path, ChangeKind::Content), "{what}: {path}");
            if let Some(lost) = lost {
                let found = report
                    .residue
                    .iter()
                    .any(|r| Path::new(path).starts_with(&r.path) && r.what == lost);
                assert!(found, "{what}: {path}: {:?}", report.residue);
            }
        }
    }
}

#[test]
fn what_is_new_in_a_git_folder_and_no_file_is_taken_away() {
    let repo = busy_repo();
    let (_, report) = aftermath_of(&repo, |top| {
        let at = top.join(".git");
        fifo(&at.join("X_HEAD"));
        fifo(&at.join("refs/heads/fifo"));
        fifo(&at.join("objects/fifo"));
        fifo(&at.join("packed-refs.lock"));
        symlink("/", at.join("objects/ab.link")).unwrap();
        symlink("/", at.join("refs/heads/link")).unwrap();
    });
    assert_eq!(report.residue, []);
    assert_eq!(report.removed.len(), 6);
}

#[test]
fn a_config_that_includes_something_is_read_by_its_own_lines_alone() {
    let repo = busy_repo();
    let (changes, report) = aftermath_of(&repo, |top| {
        fifo(&top.join("blocks"));
        let config = top.join(".git/config");
        let mut text = fs::read_to_string(&config).unwrap();
        text += "[include]\n\tpath = ../blocks\n[includeIf \"gitdir:/**\"]\n\tpath = ../blocks\n";
        fs::write(&config, text).unwrap();
    });
    assert!(has(&changes, ".git/config", ChangeKind::Content));
    assert_eq!(report.residue, []);
}

#[test]
fn a_config_that_cannot_be_understood_still_has_its_bytes() {
    let repo = busy_repo();
    repo.write("sub/file", "x");
    git(&repo.top.join("sub"), &["init", "-q"]);
    fs::write(repo.top.join("sub/.git/config"), "no config\n").unwrap();
    let lost = residue_of(&repo, |top| {
        fs::write(top.join("sub/.git/config"), "nothing\n").unwrap();
    });
    assert_eq!(lost, [("sub/.git/config".to_owned(), Difference::Config)]);
    assert_eq!(residue_of(&repo, |_| {}), []);
}

#[test]
fn files_that_pretend_to_any_size_end_in_residue() {
    let repo = busy_repo();
    let grow = |path: PathBuf, size: u64| {
        let file = fs::File::options()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.set_len(size).unwrap();
    };
    for (path, size, what) in [
        (".git/refs/heads/main", 5000, Difference::Ref),
        (".git/refs/heads/huge", 1 << 40, Difference::Ref),
        (".git/logs/HEAD", 1 << 40, Difference::Reflog),
        (".git/config", 1 << 40, Difference::Config),
        (".git/index", 1 << 40, Difference::Index),
    ] {
        let found = residue_of(&repo, |top| grow(top.join(path), size));
        assert!(
            found.contains(&(path.to_owned(), what)),
            "{path}: {found:?}"
        );
    }
    // In the work tree it is read as far as there are bytes, not holes.
    let (changes, report) = aftermath_of(&repo, |top| {
        grow(top.join("README"), 1 << 42);
        grow(top.join("new"), 1 << 42);
    });
    assert!(has(&changes, "README", ChangeKind::Content));
    assert_eq!(report.residue, []);
}

#[test]
fn objects_that_cannot_be_listed_are_not_the_same_as_none() {
    let repo = busy_repo();
    let junk = |top: &Path| {
        for end in ["idx", "pack"] {
            let name = format!(".git/objects/pack/pack-{}.{end}", "12".repeat(20));
            write(top.join(name), "junk");
        }
    };
    // Afterwards, the arm did it.
    let lost = residue_of(&repo, junk);
    assert!(
        lost.contains(&(".git/objects".to_owned(), Difference::Objects)),
        "{lost:?}"
    );
    // Before, it is said, and nothing is lost by it.
    assert_eq!(repo.workspace().not_carried(), [] as [&str; 0]);
    junk(&repo.top);
    let mut workspace = repo.workspace();
    let tree = workspace.fresh().unwrap();
    let said = workspace.not_carried();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with(".git/objects: cannot be listed"));
    workspace.fresh().unwrap();
    assert_eq!(workspace.not_carried().len(), 1);
    assert_eq!(restored(&tree.baseline, &retake(&tree)), []);
}

#[test]
fn objects_that_are_borrowed_or_lie_behind_a_link_are_said_to_be_unknown() {
    let other = busy_repo();
    let repo = busy_repo();
    repo.write("one/file", "x");
    repo.write("two/file", "x");
    for name in ["one", "two"] {
        git(&repo.top.join(name), &["init", "-q"]);
    }
    let objects = other.top.join(".git/objects");
    write(
        repo.top.join("one/.git/objects/info/alternates"),
        &format!("{}\n", objects.display()),
    );
    remove(&repo.top.join("two/.git/objects"));
    symlink(&objects, repo.top.join("two/.git/objects")).unwrap();
    let mut workspace = repo.workspace();
    workspace.fresh().unwrap();
    let said = workspace.not_carried().join("\n");
    assert!(said.contains("one/.git/objects: borrows"), "{said}");
    assert!(said.contains("two/.git/objects: is no folder"), "{said}");
}

#[test]
fn a_git_folder_that_was_put_back_shows_as_another() {
    let repo = busy_repo();
    let copy = |from: &Path, to: &Path| {
        let status = Command::new("cp").arg("-a").args([from, to]).status();
        assert!(status.unwrap().success());
    };
    let aside = repo.base.path().join("aside");
    for path in [".git", ".git/logs", ".git/refs/stash", ".git/logs/HEAD"] {
        let (changes, report) = aftermath_of(&repo, |top| {
            remove(&aside);
            copy(&top.join(path), &aside);
            remove(&top.join(path));
            copy(&aside, &top.join(path));
        });
        assert!(
            has(&changes, path, ChangeKind::Inode),
            "{path}: {changes:?}"
        );
        assert!(
            changes
                .iter()
                .any(|c| c.kind == ChangeKind::Inode && c.in_git_dir),
            "{path}"
        );
        assert_eq!(report.residue, [], "{path}");
    }
    // What is only read or written in place is no other.
    let (changes, _) = aftermath_of(&repo, |top| write(top.join(".git/description"), "x\n"));
    assert!(!changes.iter().any(|c| c.kind == ChangeKind::Inode));
}

#[test]
fn a_file_that_comes_back_with_other_permissions_is_not_all_restored() {
    let repo = busy_repo();
    let set = |path: &str, mode| {
        fs::set_permissions(repo.top.join(path), Permissions::from_mode(mode)).unwrap();
    };
    set("README", 0o600);
    set("scripts/run.sh", 0o700);
    let (_, report) = aftermath_of(&repo, |top| {
        fs::remove_file(top.join("README")).unwrap();
        fs::remove_file(top.join("stashed.txt")).unwrap();
        fs::remove_file(top.join("scripts/run.sh")).unwrap();
    });
    let made = |mode: u32| {
        let probe = repo.base.path().join("probe");
        remove(&probe);
        fs::File::create(&probe).unwrap();
        probe.metadata().unwrap().mode() & 0o777 & mode
    };
    // Under a umask that takes all from the others nothing is lost.
    let differs = made(0o077) != 0;
    assert_eq!(has_residue(&report, "README", Difference::Mode), differs);
    assert_eq!(
        has_residue(&report, "scripts/run.sh", Difference::Mode),
        differs
    );
    assert!(
        !report
            .residue
            .iter()
            .any(|r| r.path == Path::new("stashed.txt"))
    );
    // Changed in place, a file keeps its permissions.
    let (_, report) = aftermath_of(&repo, |top| write(top.join("README"), "other\n"));
    assert_eq!(report.residue, []);
}

#[test]
fn new_folders_go_however_deep_they_are() {
    let repo = Repo::new();
    let (_, report) = aftermath_of(&repo, |top| {
        use rustix::fs::{OFlags, mkdirat, openat};
        let mut at = fs::File::open(top).map(std::os::fd::OwnedFd::from).unwrap();
        // Twice as long as any path may be.
        let name = "n".repeat(200);
        for _ in 0..40 {
            mkdirat(&at, &name, Mode::from_raw_mode(0o755)).unwrap();
            at = openat(
                &at,
                &name,
                OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .unwrap();
        }
    });
    assert_eq!(report.residue, []);
}
