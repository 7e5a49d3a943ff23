//! Which objects git can still reach from what lies in a git folder: refs, reflogs, stashes, index.
//!
//! A dangling object may be read until the next clean-up, but nothing names it; it is no history.

use std::collections::HashSet;
use std::path::Path;

use git2::{ObjectType, Oid};

use super::beneath::Beneath;
use super::gitstate::{GitState, IndexMeaning};
use super::objects::ObjectStore;

/// The objects of one git folder and what leads to them.
pub(crate) struct Reach {
    store: ObjectStore,
    found: HashSet<Oid>,
}

impl Reach {
    /// Walks from every handle of `state`, which must have been read just now from the git folder
    /// `dir` of the tree. `None` when its objects cannot be read safely: then nothing is reached.
    pub(crate) fn of(tree: &Beneath, dir: &Path, state: &GitState) -> Option<Reach> {
        let mut reach = Reach {
            store: ObjectStore::open(tree, &dir.join("objects")).ok()??,
            found: HashSet::new(),
        };
        let mut pending: Vec<Oid> = state
            .refs
            .values()
            .filter_map(|value| parse(value))
            .collect();
        for log in state.reflogs.values() {
            for line in log.split(|b| *b == b'\n') {
                let mut words = line.split(|b| *b == b' ');
                pending.extend(
                    [words.next(), words.next()]
                        .into_iter()
                        .flatten()
                        .filter_map(parse),
                );
            }
        }
        if let IndexMeaning::Entries(entries) = &state.index {
            pending.extend(
                entries
                    .values()
                    .filter(|e| e.mode != 0o160_000)
                    .filter_map(|e| Oid::from_bytes(&e.oid).ok()),
            );
        }
        while let Some(oid) = pending.pop() {
            if reach.found.contains(&oid) {
                continue;
            }
            // What cannot be read (or whose bytes do not fit its name) leads nowhere.
            let Some(object) = reach.store.read(oid) else {
                continue;
            };
            match object.kind() {
                ObjectType::Commit | ObjectType::Tag => pending.extend(header_oids(object.data())),
                ObjectType::Tree => pending.extend(tree_oids(object.data())),
                ObjectType::Blob | ObjectType::Any => {}
            }
            drop(object);
            reach.found.insert(oid);
        }
        Some(reach)
    }

    /// Whether git can reach the object.
    pub(crate) fn has(&self, oid: &[u8]) -> bool {
        Oid::from_bytes(oid).is_ok_and(|oid| self.found.contains(&oid))
    }

    /// Whether the hex name in a ref is that of an object that git can reach.
    pub(crate) fn has_named(&self, name: &[u8]) -> bool {
        parse(name).is_some_and(|oid| self.found.contains(&oid))
    }

    /// The bytes of a blob that git can reach.
    pub(crate) fn blob(&self, oid: &[u8; 20]) -> Option<Vec<u8>> {
        let oid = Oid::from_bytes(oid)
            .ok()
            .filter(|oid| self.found.contains(oid))?;
        let object = self.store.read(oid)?;
        (object.kind() == ObjectType::Blob).then(|| object.data().to_vec())
    }
}

fn parse(hex: &[u8]) -> Option<Oid> {
    let text = std::str::from_utf8(hex).ok().filter(|t| t.len() == 40)?;
    Oid::from_str(text).ok().filter(|oid| !oid.is_zero())
}

/// Names in the header of a commit or tag: its tree, parents, or target.
fn header_oids(data: &[u8]) -> Vec<Oid> {
    data.split(|b| *b == b'\n')
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            let name = [&b"tree "[..], b"parent ", b"object "]
                .iter()
                .find_map(|key| line.strip_prefix(*key))?;
            parse(name)
        })
        .collect()
}

/// Names in a tree, but for submodules' commits, which are another repo's.
fn tree_oids(mut data: &[u8]) -> Vec<Oid> {
    let mut found = Vec::new();
    while let Some(end) = data.iter().position(|b| *b == 0) {
        let Some(name) = data.get(end + 1..end + 21) else {
            break;
        };
        if !data.starts_with(b"160000 ") {
            found.extend(Oid::from_bytes(name));
        }
        data = &data[end + 21..];
    }
    found
}
