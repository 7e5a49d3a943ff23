//! A declaration between reading and checking: each key's value with its places, in no notation.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::keys::Key;
use super::model::Property;
use super::problem::Pos;

/// Something at a place.
#[derive(Clone, Debug)]
pub(super) struct Spot<T> {
    pub(super) at: Pos,
    pub(super) value: T,
}

/// One entry of the verdict enum.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) code: Spot<String>,
    /// `None` when it could not be read, and that has been reported.
    pub(super) name: Option<Spot<String>>,
}

/// One word of a list; `None` when it could not be read, and that has been reported.
pub(super) type Word = Spot<Option<String>>;

/// A key's value, by the key's shape.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Words(Vec<Word>),
    Codes(Vec<Code>),
    Properties(BTreeMap<String, Property>),
    /// The key is there, its value could not be read, and that has been reported.
    Unread,
}

/// The values of one declaration.
pub(super) struct Written {
    /// The place of its first key.
    pub(super) start: Pos,
    /// SHA-256 in hex of its own text.
    pub(super) sha256: String,
    /// Each key that occurs.
    pub(super) values: BTreeMap<Key, Spot<Value>>,
}

impl Written {
    pub(super) fn new(start: Pos, own_text: &str) -> Written {
        let digest = Sha256::digest(own_text.as_bytes());
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Written {
            start,
            sha256,
            values: BTreeMap::new(),
        }
    }

    /// The place of a key's value, or of the declaration where the key is missing.
    pub(super) fn place_of(&self, key: Key) -> Pos {
        self.values.get(&key).map_or(self.start, |value| value.at)
    }
}
