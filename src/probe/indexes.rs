//! The index of every git folder of a tree, before a contained pass and after it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use crate::workspace::{Tree, index_kept};

/// The bytes of each index, by git folder relative to the top; `None` where there is none.
///
/// An index that is not a regular file, or cannot be read, is left out, and so counts as not kept.
pub(super) struct Indexes(BTreeMap<PathBuf, Option<Vec<u8>>>);

impl Indexes {
    /// Reads them all.
    pub(super) fn read(tree: &Tree) -> Indexes {
        let read = |dir: &PathBuf| {
            let path = tree.root.join(dir).join("index");
            let bytes = match path.symlink_metadata() {
                // A link or a FIFO in its place is no index, whatever is on its other end.
                Ok(meta) if meta.is_file() => Some(fs::read(path).ok()?),
                Ok(_) => return None,
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
                Some(top) => index_kept(before, after, &tree.root.join(top)),
                None => before == after,
            },
            _ => false,
        };
        let dirs = tree.git_dirs.iter();
        dirs.map(|dir| (dir.clone(), kept(dir))).collect()
    }
}
