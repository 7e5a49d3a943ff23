//! Git's index file, read and patched in place.
//!
//! The file is never rewritten from a model: flags and extensions that libgit2 would drop
//! stay as the user's git wrote them, and only stat data changes. The layout follows
//! gitformat-index(5), versions 2 to 4 with SHA-1.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use sha1::{Digest, Sha1};

/// Bytes of the longest path that the system takes (`PATH_MAX`); a longer name leads to no file.
const NAME_LIMIT: usize = 4096;
/// How many times larger than their file all names together may be. Version 4 shares beginnings, so
/// that a small file could name more than any memory holds.
const NAMES_PER_BYTE: usize = 64;

/// Bits of an entry's first flag word.
const ASSUME_VALID: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
/// Bits of an entry's second flag word.
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

/// What `lstat` said of a file when git last looked, as the index keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatData {
    ctime: (u32, u32),
    mtime: (u32, u32),
    dev: u32,
    ino: u32,
    uid: u32,
    gid: u32,
    size: u32,
}

impl StatData {
    // The index keeps the low 32 bits of each field.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the index keeps the low 32 bits of each field"
    )]
    pub(crate) fn of(meta: &Metadata) -> StatData {
        StatData {
            ctime: (meta.ctime() as u32, meta.ctime_nsec() as u32),
            mtime: (meta.mtime() as u32, meta.mtime_nsec() as u32),
            dev: meta.dev() as u32,
            ino: meta.ino() as u32,
            uid: meta.uid(),
            gid: meta.gid(),
            size: meta.size() as u32,
        }
    }

    /// The same from what the system says itself.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the index keeps the low 32 bits of each field"
    )]
    pub(crate) fn of_stat(stat: &Stat) -> StatData {
        StatData {
            ctime: (stat.st_ctime as u32, stat.st_ctime_nsec as u32),
            mtime: (stat.st_mtime as u32, stat.st_mtime_nsec as u32),
            dev: stat.st_dev as u32,
            ino: stat.st_ino as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size as u32,
        }
    }

    /// Whether git would take the file for unchanged. The device is no part of it; a nanosecond
    /// part of 0 was not recorded by the writer.
    fn agrees(&self, now: &StatData) -> bool {
        let time =
            |old: (u32, u32), new: (u32, u32)| old.0 == new.0 && (old.1 == 0 || old.1 == new.1);
        time(self.mtime, now.mtime)
            && time(self.ctime, now.ctime)
            && self.ino == now.ino
            && self.uid == now.uid
            && self.gid == now.gid
            && self.size == now.size
    }
}

/// One entry of the index.
#[derive(Clone, Debug)]
pub(crate) struct IndexEntry {
    /// Relative to the top of the work tree.
    pub(crate) path: PathBuf,
    /// 0, or 1 to 3 during a conflict.
    pub(crate) stage: u8,
    /// Name of the blob (of the commit, for a submodule).
    pub(crate) oid: [u8; 20],
    /// As git keeps it: 100644, 100755, 120000, 160000, 040000 (sparse folder).
    pub(crate) mode: u32,
    /// Flags of both words but length and stage.
    pub(crate) flags: u32,
    stat: StatData,
    offset: usize,
}

impl IndexEntry {
    /// Whether the user told git to leave the file out of the work tree.
    pub(crate) fn skips_worktree(&self) -> bool {
        self.flags & u32::from(SKIP_WORKTREE) << 16 != 0
    }

    /// Whether only the name was added so far.
    pub(crate) fn is_intent_to_add(&self) -> bool {
        self.flags & u32::from(INTENT_TO_ADD) << 16 != 0
    }

    /// Whether the entry is a plain file, with any execute bit.
    pub(crate) fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    /// Whether the entry is a symbolic link.
    pub(crate) fn is_symlink(&self) -> bool {
        self.mode & 0o170_000 == 0o120_000
    }

    /// Whether the entry is a submodule's commit.
    pub(crate) fn is_submodule(&self) -> bool {
        self.mode & 0o170_000 == 0o160_000
    }

    /// Whether both entries hold the same stat data.
    pub(crate) fn has_stat_of(&self, other: &IndexEntry) -> bool {
        self.stat == other.stat
    }

    /// Whether the stat data is `now`, in every field that git compares.
    pub(crate) fn names_stat(&self, now: &StatData) -> bool {
        self.stat.agrees(now)
    }

    /// Whether the stat data is that of `meta`, and from an earlier second than the index, which was
    /// written at `index_mtime` (else a later change might not show; many builds of git compare
    /// whole seconds).
    pub(crate) fn is_fresh(&self, meta: &Metadata, index_mtime: (i64, i64)) -> bool {
        self.stat.agrees(&StatData::of(meta)) && i64::from(self.stat.mtime.0) < index_mtime.0
    }
}

/// A parsed index file with its bytes.
#[derive(Clone, Debug)]
pub(crate) struct IndexFile {
    bytes: Vec<u8>,
    /// In the order of the file: by path bytes, then stage.
    pub(crate) entries: Vec<IndexEntry>,
    /// Signature, and the range from signature to end of each extension.
    extensions: Vec<([u8; 4], std::ops::Range<usize>)>,
}

impl IndexFile {
    /// Parses the bytes of an index file; the text of an error says what was not understood.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<IndexFile, String> {
        let end = bytes.len().checked_sub(20).ok_or("it is too short")?;
        if bytes.get(..4) != Some(b"DIRC") {
            return Err("it does not begin with DIRC".to_owned());
        }
        let version = word(&bytes, 4)?;
        if !(2..=4).contains(&version) {
            return Err(format!("its version is {version}"));
        }
        let count = word(&bytes, 8)?;
        let mut entries: Vec<IndexEntry> = Vec::new();
        let mut name: Vec<u8> = Vec::new();
        let mut names = 0_usize;
        let mut at = 12;
        for _ in 0..count {
            let offset = at;
            let mut fields = [0_u32; 10];
            for (i, field) in fields.iter_mut().enumerate() {
                *field = word(&bytes, offset + 4 * i)?;
            }
            let oid = bytes
                .get(offset + 40..offset + 60)
                .ok_or("an entry is cut off")?;
            let first = half(&bytes, offset + 60)?;
            at = offset + 62;
            let mut second = 0;
            if first & EXTENDED != 0 {
                second = half(&bytes, at)?;
                at += 2;
            }
            if version == 4 {
                let strip = varint(&bytes, &mut at)?;
                let keep = name
                    .len()
                    .checked_sub(strip)
                    .ok_or("a name is cut too far")?;
                name.truncate(keep);
            } else {
                name.clear();
            }
            let rest = bytes.get(at..end).ok_or("an entry is cut off")?;
            let length = rest
                .iter()
                .position(|b| *b == 0)
                .ok_or("a name does not end")?;
            name.extend_from_slice(&rest[..length]);
            names += name.len();
            if name.len() > NAME_LIMIT || names > bytes.len().saturating_mul(NAMES_PER_BYTE) {
                return Err("its names are too long".to_owned());
            }
            at += length;
            at = if version == 4 {
                at + 1
            } else {
                offset + (at - offset + 8) / 8 * 8
            };
            entries.push(IndexEntry {
                path: PathBuf::from(OsString::from_vec(name.clone())),
                stage: (first >> 12 & 3) as u8,
                oid: oid.try_into().map_err(|_| "an entry is cut off")?,
                mode: fields[6],
                flags: u32::from(first & (ASSUME_VALID | EXTENDED)) | u32::from(second) << 16,
                stat: StatData {
                    ctime: (fields[0], fields[1]),
                    mtime: (fields[2], fields[3]),
                    dev: fields[4],
                    ino: fields[5],
                    uid: fields[7],
                    gid: fields[8],
                    size: fields[9],
                },
                offset,
            });
        }
        let mut extensions = Vec::new();
        while at < end {
            let head = bytes.get(at..at + 4).ok_or("an extension is cut off")?;
            let signature: [u8; 4] = head.try_into().map_err(|_| "an extension is cut off")?;
            let next = at + 8 + word(&bytes, at + 4)? as usize;
            if next > end {
                return Err("an extension is cut off".to_owned());
            }
            if &signature == b"link" {
                return Err("it is split (core.splitIndex)".to_owned());
            }
            extensions.push((signature, at..next));
            at = next;
        }
        if at != end {
            return Err("its length does not fit".to_owned());
        }
        Ok(IndexFile {
            bytes,
            entries,
            extensions,
        })
    }

    /// Signature and bytes of each extension.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = ([u8; 4], &[u8])> {
        self.extensions
            .iter()
            .map(|(signature, range)| (*signature, &self.bytes[range.clone()]))
    }

    /// Gives every entry for which `settles` says so the stat data of its file below `root`.
    ///
    /// Returns the latest second that any entry now names as a modification time: the index file
    /// must be dated later, or git would take entries for racy and write the file anew.
    pub(crate) fn settle(
        &mut self,
        root: &Path,
        mut settles: impl FnMut(&IndexEntry, &Path, &Metadata) -> bool,
    ) -> Option<i64> {
        let mut latest = None;
        for entry in &self.entries {
            if !entry.is_submodule() {
                latest = latest.max(Some(i64::from(entry.stat.mtime.0)));
            }
            if entry.stage != 0
                || !(entry.is_file() || entry.is_symlink())
                || entry.is_intent_to_add()
            {
                continue;
            }
            let file = root.join(&entry.path);
            let Ok(meta) = file.symlink_metadata() else {
                continue;
            };
            if !kind_agrees(entry, &meta) || !settles(entry, &file, &meta) {
                continue;
            }
            let now = StatData::of(&meta);
            let words = [
                now.ctime.0,
                now.ctime.1,
                now.mtime.0,
                now.mtime.1,
                now.dev,
                now.ino,
            ];
            for (i, value) in words.into_iter().enumerate() {
                put(&mut self.bytes, entry.offset + 4 * i, value);
            }
            for (i, value) in [now.uid, now.gid, now.size].into_iter().enumerate() {
                put(&mut self.bytes, entry.offset + 28 + 4 * i, value);
            }
            latest = latest.max(Some(i64::from(now.mtime.0)));
        }
        latest
    }

    /// Drops the untracked cache, which names folders by their stat data and would be rebuilt,
    /// and with it the table of extensions, whose digest covers it.
    pub(crate) fn drop_untracked_cache(&mut self) {
        if !self
            .extensions
            .iter()
            .any(|(signature, _)| signature == b"UNTR")
        {
            return;
        }
        for (_, range) in self
            .extensions
            .iter()
            .rev()
            .filter(|(s, _)| matches!(s, b"UNTR" | b"EOIE" | b"IEOT"))
        {
            self.bytes.drain(range.clone());
        }
        self.extensions.clear();
    }

    /// The bytes with their trailer: a digest, or zeros where the user's git leaves it out.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        let end = self.bytes.len() - 20;
        if self.bytes[end..].iter().any(|b| *b != 0) {
            let digest = Sha1::digest(&self.bytes[..end]);
            self.bytes[end..].copy_from_slice(&digest);
        }
        self.bytes
    }
}

/// One entry of an index to be written, without stat data: git looks at the file anew.
pub(crate) struct NewEntry<'a> {
    pub(crate) path: &'a Path,
    pub(crate) stage: u8,
    pub(crate) oid: [u8; 20],
    pub(crate) mode: u32,
    /// As in [`IndexEntry::flags`].
    pub(crate) flags: u32,
}

/// The bytes of an index of version 2, or 3 where a flag needs it. The entries must be in git's order:
/// by path bytes, then stage.
pub(crate) fn encode<'a>(entries: impl Iterator<Item = NewEntry<'a>>) -> Vec<u8> {
    let mut body = Vec::new();
    let (mut count, mut version, mut sparse) = (0_u32, 2_u32, false);
    for entry in entries {
        let start = body.len();
        let path = entry.path.as_os_str().as_bytes();
        // Stat data of zeros but for the mode, which lies between.
        body.extend_from_slice(&[0; 24]);
        body.extend_from_slice(&entry.mode.to_be_bytes());
        body.extend_from_slice(&[0; 12]);
        body.extend_from_slice(&entry.oid);
        let [second_high, second_low, first_high, first_low] = entry.flags.to_be_bytes();
        let length = u16::try_from(path.len()).unwrap_or(u16::MAX).min(0xfff);
        let first =
            u16::from_be_bytes([first_high, first_low]) | u16::from(entry.stage & 3) << 12 | length;
        body.extend_from_slice(&first.to_be_bytes());
        if first & EXTENDED != 0 {
            version = 3;
            body.extend_from_slice(&[second_high, second_low]);
        }
        body.extend_from_slice(path);
        let padded = (body.len() - start + 8) / 8 * 8;
        body.resize(start + padded, 0);
        sparse |= entry.mode == 0o40_000;
        count += 1;
    }
    let mut bytes = b"DIRC".to_vec();
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&count.to_be_bytes());
    bytes.append(&mut body);
    if sparse {
        // Without it git would not take entries that are folders.
        bytes.extend_from_slice(b"sdir\0\0\0\0");
    }
    let digest = Sha1::digest(&bytes);
    bytes.extend_from_slice(&digest);
    bytes
}

fn kind_agrees(entry: &IndexEntry, meta: &Metadata) -> bool {
    if entry.is_symlink() {
        meta.file_type().is_symlink()
    } else {
        meta.file_type().is_file()
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32, String> {
    let field = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    field
        .map(u32::from_be_bytes)
        .ok_or_else(|| "it is cut off".to_owned())
}

fn half(bytes: &[u8], at: usize) -> Result<u16, String> {
    let field = bytes.get(at..at + 2).and_then(|b| b.try_into().ok());
    field
        .map(u16::from_be_bytes)
        .ok_or_else(|| "it is cut off".to_owned())
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The offset encoding of pack files, which version 4 uses for name prefixes.
fn varint(bytes: &[u8], at: &mut usize) -> Result<usize, String> {
    let mut value = 0_usize;
    loop {
        let byte = *bytes.get(*at).ok_or("a number is cut off")?;
        *at += 1;
        value = value.checked_shl(7).ok_or("a number is too large")? | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        value = value.checked_add(1).ok_or("a number is too large")?;
    }
}
