//! The index of every git folder of a tree, before a contained pass and after it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use crate::workspace::{Tree, index_kept, read_index};

/// The bytes of each index, by git folder relative to the top; `None` where there is none.
///
/// An index that is not a regular file, or cannot be read, is left out, and so counts as not kept.
pub(super) struct Indexes(BTreeMap<PathBuf, Option<Vec<u8>>>);

impl Indexes {
    /// Reads them all.
    pub(super) fn read(tree: &Tree) -> Indexes {
        let read = |dir: &PathBuf| {
            // A link or a FIFO in its place is no index, whatever is on its other end.
            let bytes = match read_index(&tree.root, &dir.join("index")) {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(_) => return None,
            };
            Some((dir.clone(), bytes))
        };
        Indexes(tree.git_dirs.iter().filter_map(read).collect())
    }

    /// Whether each git folder of `tree` still has an index that says the same.
    pub(super) fn kept_in(&self, tree: &Tree, after: &Indexes) -> BTreeMap<PathBuf, bool> {
        let kept = |dir: &PathBuf| match (self.0.get(dir), after.0.get(dir)) {
            (Some(None), Some(None)) => true,
            (Some(Some(before)), Some(Some(after))) => match tree.work_trees.get(dir) {
                Some(top) => index_kept(before, after, &tree.root, top),
                None => before == after,
            },
            _ => false,
        };
        let dirs = tree.git_dirs.iter();
        dirs.map(|dir| (dir.clone(), kept(dir))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;

    use super::*;
    use crate::workspace::{Manifest, States};

    fn git(dir: &Path, args: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{args:?}");
    }

    /// A tree with a repo at its top, one below it, and one that never had an index.
    fn tree(root: &Path) -> Tree {
        let repos = [("", ".git"), ("sub", "sub/.git"), ("new", "new/.git")];
        for (top, _) in repos {
            let dir = root.join(top);
            fs::create_dir_all(&dir).unwrap();
            git(&dir, &["init", "-q"]);
            if top != "new" {
                fs::write(dir.join("a"), "one\n").unwrap();
                git(&dir, &["add", "a"]);
            }
        }
        let git_dirs: Vec<PathBuf> = repos.iter().map(|(_, dir)| dir.into()).collect();
        Tree {
            root: root.into(),
            parent: root.into(),
            repo: root.into(),
            work_trees: repos
                .iter()
                .map(|(top, dir)| (dir.into(), top.into()))
                .collect(),
            temp_root: root.into(),
            canaries: Vec::new(),
            states: Arc::new(States::default()),
            baseline: Arc::new(Manifest::take(root, &git_dirs).unwrap()),
            git_dirs,
        }
    }

    fn kept_after(act: impl Fn(&Path)) -> Vec<(String, bool)> {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path());
        let before = Indexes::read(&tree);
        act(dir.path());
        let kept = before.kept_in(&tree, &Indexes::read(&tree));
        kept.into_iter()
            .map(|(dir, kept)| (dir.to_string_lossy().into_owned(), kept))
            .collect()
    }

    fn expect(top: bool, new: bool, sub: bool) -> Vec<(String, bool)> {
        [(".git", top), ("new/.git", new), ("sub/.git", sub)]
            .map(|(dir, kept)| (dir.to_owned(), kept))
            .into()
    }

    #[test]
    fn each_index_is_compared_with_its_own_work_tree() {
        assert_eq!(kept_after(|_| {}), expect(true, true, true));
        let refreshed = kept_after(|root| {
            let index = root.join("sub/.git/index");
            let before = fs::read(&index).unwrap();
            let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(9);
            let file = fs::File::options().write(true).open(root.join("sub/a"));
            file.unwrap().set_modified(old).unwrap();
            git(&root.join("sub"), &["status"]);
            assert_ne!(fs::read(&index).unwrap(), before);
        });
        assert_eq!(refreshed, expect(true, true, true));
        let staged = kept_after(|root| {
            fs::write(root.join("sub/a"), "two\n").unwrap();
            git(&root.join("sub"), &["add", "a"]);
        });
        assert_eq!(staged, expect(true, true, false));
    }

    #[test]
    fn an_index_that_is_gone_new_or_no_file_was_not_kept() {
        let gone = kept_after(|root| fs::remove_file(root.join(".git/index")).unwrap());
        assert_eq!(gone, expect(false, true, true));
        let made = kept_after(|root| fs::write(root.join("new/.git/index"), b"").unwrap());
        assert_eq!(made, expect(true, false, true));
        // A link to a copy reads the same, and is another thing.
        let linked = kept_after(|root| {
            fs::rename(root.join(".git/index"), root.join("copy")).unwrap();
            symlink("../copy", root.join(".git/index")).unwrap();
        });
        assert_eq!(linked, expect(false, true, true));
        // Reading a FIFO would wait for ever.
        let fifo = kept_after(|root| {
            let index = root.join("sub/.git/index");
            fs::remove_file(&index).unwrap();
            let made = Command::new("mkfifo").arg(&index).status().unwrap();
            assert!(made.success());
        });
        assert_eq!(fifo, expect(true, true, false));
    }
}
