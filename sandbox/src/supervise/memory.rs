//! Reading what a trapped call points to.

use std::io::IoSliceMut;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Longest path that the kernel takes, its final NUL included (limits.h).
const PATH_MAX: usize = 4096;
const PAGE: usize = 4096;
/// Below the least address that a process may map: a null pointer and its neighbours.
const NULL_PAGE: u64 = 4096;

/// Why memory could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// A null pointer: the kernel could not read it either.
    Null,
    /// Longer than the kernel takes.
    TooLong,
    /// Readable to the kernel, perhaps, but not to us.
    Hidden,
}

/// `length` bytes at `address` of thread `tid`.
pub(crate) fn bytes(tid: i32, address: u64, length: usize) -> Result<Vec<u8>, Unread> {
    if address < NULL_PAGE {
        return Err(Unread::Null);
    }
    let mut buffer = vec![0u8; length];
    let mut filled = 0;
    while filled < length {
        let n = read_some(tid, address + filled as u64, &mut buffer[filled..])?;
        filled += n;
    }
    Ok(buffer)
}

/// The NUL-terminated string at `address`, without its NUL.
pub(crate) fn string(tid: i32, address: u64) -> Result<Vec<u8>, Unread> {
    if address < NULL_PAGE {
        return Err(Unread::Null);
    }
    let mut text = Vec::new();
    let mut at = address;
    while text.len() < PATH_MAX {
        // Never across a page border at once: the next page may not be there, and need not be.
        let room = (PAGE - (at as usize % PAGE)).min(PATH_MAX - text.len());
        let mut chunk = [0u8; PAGE];
        let n = read_some(
            tid,
            at,
            &mut chunk[..room.min(if text.is_empty() { 256 } else { PAGE })],
        )?;
        match chunk[..n].iter().position(|b| *b == 0) {
            Some(end) => {
                text.extend_from_slice(&chunk[..end]);
                return Ok(text);
            }
            None => text.extend_from_slice(&chunk[..n]),
        }
        at += n as u64;
    }
    Err(Unread::TooLong)
}

fn read_some(tid: i32, address: u64, into: &mut [u8]) -> Result<usize, Unread> {
    let remote = [RemoteIoVec {
        base: address as usize,
        len: into.len(),
    }];
    loop {
        match process_vm_readv(Pid::from_raw(tid), &mut [IoSliceMut::new(into)], &remote) {
            Ok(0) => return Err(Unread::Hidden),
            Ok(n) => return Ok(n),
            Err(Errno::EINTR) => {}
            Err(_) => return Err(Unread::Hidden),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn strings_end_at_their_nul_even_across_pages() {
        let mut page = vec![b'a'; 3 * PAGE];
        // From the middle of a page, over at least one border, to a NUL.
        page[PAGE + 700] = 0;
        for start in [100 + 700, PAGE, PAGE + 699, PAGE + 700] {
            let text = string(own(), page[start..].as_ptr() as u64).unwrap();
            assert_eq!(text.len(), PAGE + 700 - start);
            assert!(text.iter().all(|b| *b == b'a'));
        }
    }

    #[test]
    fn null_long_and_unmapped_are_told_apart() {
        assert_eq!(string(own(), 0), Err(Unread::Null));
        let long = vec![b'a'; 2 * PATH_MAX];
        assert_eq!(string(own(), long.as_ptr() as u64), Err(Unread::TooLong));
        assert_eq!(bytes(own(), u64::MAX - 4096, 8), Err(Unread::Hidden));
        assert_eq!(
            bytes(i32::MAX, long.as_ptr() as u64, 8),
            Err(Unread::Hidden)
        );
    }
}
