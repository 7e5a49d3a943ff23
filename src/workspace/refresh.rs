//! Git's optional index refresh: whether an index that was written anew says the same as before.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::beneath::Beneath;
use super::content;
use super::index::{IndexEntry, IndexFile, StatData};

/// Extensions that a refresh may write, drop or change: they hold what can be computed from the rest.
const DERIVED: &[[u8; 4]] = &[*b"TREE", *b"UNTR", *b"EOIE", *b"IEOT"];

/// Whether `after` differs from `before` in nothing but stat data that is true: every entry kept
/// path, stage, object, mode and flags; only derived extensions differ; and where stat data is new, it
/// is that of the file in the work tree, and the file's bytes are those of the entry's object. The work
/// tree is `top`, relative to the tree `root`, in which no link is followed.
///
/// An index that cannot be parsed was not kept.
pub fn index_kept(before: &[u8], after: &[u8], root: &Path, top: &Path) -> bool {
    if before == after {
        return true;
    }
    let (Ok(before), Ok(after)) = (
        IndexFile::parse(before.to_vec()),
        IndexFile::parse(after.to_vec()),
    ) else {
        return false;
    };
    if before.entries.len() != after.entries.len() || lasting(&before) != lasting(&after) {
        return false;
    }
    let Ok(tree) = Beneath::open(root) else {
        return false;
    };
    before.entries.iter().zip(&after.entries).all(|(old, new)| {
        let same = (&old.path, old.stage, old.oid, old.mode, old.flags)
            == (&new.path, new.stage, new.oid, new.mode, new.flags);
        same && (old.has_stat_of(new) || is_true(new, &tree, &top.join(&new.path)))
    })
}

/// Extensions that say something of their own, with their bytes.
fn lasting(index: &IndexFile) -> Vec<([u8; 4], &[u8])> {
    index
        .extensions()
        .filter(|(signature, _)| !DERIVED.contains(signature))
        .collect()
}

/// Whether the entry's stat data is that of its file, and the file's bytes those of its object. The
/// names in an index, and what lies there, may be the subject's.
fn is_true(entry: &IndexEntry, tree: &Beneath, path: &Path) -> bool {
    if entry.is_symlink() {
        let target = tree.read_link(path);
        return tree
            .stat(path)
            .is_ok_and(|stat| entry.names_stat(&StatData::of_stat(&stat)))
            && target.is_ok_and(|t| content::blob_of(t.as_os_str().as_bytes()) == entry.oid);
    }
    let Ok(found) = tree.find(path) else {
        return false;
    };
    entry.is_file()
        && entry.names_stat(&StatData::of_stat(found.stat()))
        && found
            .open()
            .and_then(content::digests_of)
            .is_ok_and(|d| d.blob == entry.oid)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::process::Command;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn kept(before: &[u8], after: &[u8], top: &Path) -> bool {
        // The work tree is a folder of the tree, as a submodule's is.
        let (root, top) = (top.parent().unwrap(), top.file_name().unwrap());
        index_kept(before, after, root, Path::new(top))
    }

    fn git(dir: &Path, args: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{args:?}");
    }

    /// A repo whose file `a` has an old time, and its index.
    fn repo() -> (tempfile::TempDir, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q"]);
        for file in ["a", "b"] {
            fs::write(dir.path().join(file), "one\n").unwrap();
            age(&dir.path().join(file), 1000);
        }
        git(dir.path(), &["add", "."]);
        git(dir.path(), &["commit", "-qm", "one"]);
        let index = index(dir.path());
        (dir, index)
    }

    fn age(file: &Path, seconds: u64) {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        File::options()
            .write(true)
            .open(file)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }

    fn index(dir: &Path) -> Vec<u8> {
        fs::read(dir.join(".git/index")).unwrap()
    }

    #[test]
    fn a_status_after_a_touch_keeps_the_index() {
        let (dir, before) = repo();
        age(&dir.path().join("a"), 500);
        git(dir.path(), &["status"]);
        let after = index(dir.path());
        assert_ne!(
            before, after,
            "the refresh must have been written for this test to mean anything"
        );
        assert!(kept(&before, &after, dir.path()));
    }

    #[test]
    fn what_says_something_else_does_not_keep_it() {
        type Case = (&'static str, fn(&Path));
        let changes: [Case; 5] = [
            ("add -u", |dir| {
                fs::write(dir.join("a"), "two\n").unwrap();
                git(dir, &["add", "-u"]);
            }),
            ("a flag", |dir| {
                git(dir, &["update-index", "--assume-unchanged", "a"])
            }),
            ("a mode", |dir| {
                git(dir, &["update-index", "--chmod=+x", "a"])
            }),
            ("read-tree", |dir| git(dir, &["read-tree", "--empty"])),
            ("a new entry", |dir| {
                fs::write(dir.join("c"), "c").unwrap();
                git(dir, &["add", "c"]);
            }),
        ];
        for (name, change) in changes {
            let (dir, before) = repo();
            change(dir.path());
            assert!(!kept(&before, &index(dir.path()), dir.path()), "{name}");
        }
    }

    #[test]
    fn stat_data_that_hides_a_dirty_file_does_not_keep_it() {
        let (dir, before) = repo();
        age(&dir.path().join("a"), 500);
        git(dir.path(), &["status"]);
        let after = index(dir.path());
        // The same size, other bytes, and the times that the index names.
        let time = fs::metadata(dir.path().join("a"))
            .unwrap()
            .modified()
            .unwrap();
        fs::write(dir.path().join("a"), "two\n").unwrap();
        File::options()
            .write(true)
            .open(dir.path().join("a"))
            .unwrap()
            .set_modified(time)
            .unwrap();
        assert!(!kept(&before, &after, dir.path()));
    }

    #[test]
    fn rubbish_was_not_kept() {
        let (dir, before) = repo();
        assert!(!kept(&before, b"", dir.path()));
        assert!(!kept(&before, &before[..before.len() - 1], dir.path()));
    }
}
