//! The launch order as bytes: what the supervisor hands to the launcher it executes.
//!
//! Length-prefixed fields in a fixed order, little-endian. Both ends are the same binary, so there
//! is no version; a short or long message is an error.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::job::Pass;
use crate::switch::Switches;

/// Everything that the launcher needs, resolved by the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub argv: Vec<OsString>,
    pub env: Vec<OsString>,
    pub pass: Pass,
    /// Host path of the tree to run in.
    pub clone: PathBuf,
    /// Where the subject shall see it, when mounts are available.
    pub repo: PathBuf,
    /// Working folder below the top of the clone.
    pub cwd: PathBuf,
    /// File for standard input, below the top of the clone; empty for none.
    pub stdin: PathBuf,
    /// The user's HOME, which gets a private overlay in the contained pass.
    pub home: PathBuf,
    /// Paths in temp folders that the subject must not find: other programs' bookkeeping.
    pub hidden: Vec<OsString>,
    /// Host folder for the private temp folders' contents.
    pub scratch: PathBuf,
    /// Hidden from the subject where mounts are available.
    pub temp_root: PathBuf,
    /// TMPDIR as the subject sees it when temp folders are private.
    pub tmpdir: PathBuf,
    /// TMPDIR when they are not: a folder that exists on the host.
    pub shared_tmpdir: PathBuf,
    /// User and group to run as: the caller's own.
    pub uid: u32,
    pub gid: u32,
    /// Whether the supervisor can write an identity map for every user.
    pub full_map: bool,
    /// Layers that a test has switched off.
    pub off: Switches,
}

/// The message is not an order.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed launch order at byte {0}")]
pub(crate) struct Malformed(pub usize);

impl Order {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_list(&mut out, &self.argv);
        put_list(&mut out, &self.env);
        put_list(&mut out, &self.hidden);
        for path in self.paths() {
            put(&mut out, path.as_os_str().as_bytes());
        }
        out.push(match self.pass {
            Pass::Denied => 0,
            Pass::Contained => 1,
        });
        out.extend_from_slice(&self.uid.to_le_bytes());
        out.extend_from_slice(&self.gid.to_le_bytes());
        out.push(u8::from(self.full_map));
        put(&mut out, self.off.to_text().as_bytes());
        out
    }

    fn paths(&self) -> [&Path; 9] {
        [
            &self.clone,
            &self.repo,
            &self.cwd,
            &self.stdin,
            &self.home,
            &self.scratch,
            &self.temp_root,
            &self.tmpdir,
            &self.shared_tmpdir,
        ]
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Order, Malformed> {
        let mut reader = Reader { bytes, at: 0 };
        let argv = reader.list()?;
        let env = reader.list()?;
        let hidden = reader.list()?;
        let mut path = || reader.string().map(PathBuf::from);
        let (clone, repo, cwd) = (path()?, path()?, path()?);
        let (stdin, home, scratch) = (path()?, path()?, path()?);
        let (temp_root, tmpdir, shared_tmpdir) = (path()?, path()?, path()?);
        let pass = match reader.byte()? {
            0 => Pass::Denied,
            1 => Pass::Contained,
            _ => return Err(Malformed(reader.at)),
        };
        let (uid, gid) = (reader.number()?, reader.number()?);
        let full_map = reader.byte()? != 0;
        let off = Switches::from_text(&reader.string()?.to_string_lossy());
        if reader.at != bytes.len() {
            return Err(Malformed(reader.at));
        }
        Ok(Order {
            argv,
            env,
            pass,
            clone,
            repo,
            cwd,
            stdin,
            home,
            hidden,
            scratch,
            temp_root,
            tmpdir,
            shared_tmpdir,
            uid,
            gid,
            full_map,
            off,
        })
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_list(out: &mut Vec<u8>, list: &[OsString]) {
    out.extend_from_slice(&(list.len() as u32).to_le_bytes());
    for item in list {
        put(out, item.as_bytes());
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, n: usize) -> Result<&[u8], Malformed> {
        let end = self
            .at
            .checked_add(n)
            .filter(|end| *end <= self.bytes.len())
            .ok_or(Malformed(self.at))?;
        let slice = &self.bytes[self.at..end];
        self.at = end;
        Ok(slice)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|b| b[0])
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        let b = self.take(4)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn string(&mut self) -> Result<OsString, Malformed> {
        let n = self.number()? as usize;
        self.take(n).map(|b| OsString::from_vec(b.to_vec()))
    }

    fn list(&mut self) -> Result<Vec<OsString>, Malformed> {
        let n = self.number()?;
        (0..n).map(|_| self.string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order {
            argv: vec!["sh".into(), "".into(), OsString::from_vec(vec![0xff, b'a'])],
            env: vec!["A=1".into()],
            pass: Pass::Contained,
            clone: "/dev/shm/x/clone".into(),
            repo: "/home/u/repo".into(),
            cwd: "sub".into(),
            stdin: "in.txt".into(),
            home: "/home/u".into(),
            hidden: vec!["/tmp/x".into()],
            scratch: "/dev/shm/x/s".into(),
            temp_root: "/dev/shm/x".into(),
            tmpdir: "/tmp/t".into(),
            shared_tmpdir: "/tmp/s".into(),
            uid: 1000,
            gid: 70_000,
            full_map: true,
            off: Switches::default(),
        }
    }

    #[test]
    fn an_order_reads_back_as_it_was() {
        assert_eq!(Order::decode(&order().encode()), Ok(order()));
    }

    #[test]
    fn every_shortened_order_is_refused() {
        let bytes = order().encode();
        for n in 0..bytes.len() {
            assert!(Order::decode(&bytes[..n]).is_err(), "cut at {n}");
        }
        let mut long = bytes;
        long.push(0);
        assert!(Order::decode(&long).is_err());
    }
}
