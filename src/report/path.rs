//! How reports write paths, and how anything of a subject's is made fit for a terminal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Roots;
use crate::verdict::Spot;

/// The bytes by which reports name a place.
///
/// Relative to the clone (`.` is its top), or beginning `{home}/` or `{scratch}/`, else absolute. A
/// relative path that begins with a brace gets `./` in front, so that the three cannot be mistaken.
pub(super) fn named(roots: &Roots, spot: &Spot) -> Vec<u8> {
    match spot {
        Spot::Clone(path) => {
            let bytes = path.as_os_str().as_bytes();
            match bytes.first() {
                None => b".".to_vec(),
                Some(b'{') => [b"./", bytes].concat(),
                Some(_) => bytes.to_vec(),
            }
        }
        Spot::Host(path) => absolute(roots, path),
        Spot::Raw(bytes) => bytes.clone(),
    }
}

/// The same for an absolute path. Scratch goes first: it may lie below HOME.
pub(super) fn absolute(roots: &Roots, path: &Path) -> Vec<u8> {
    let scratch = roots.scratch.iter().map(|root| (root, "{scratch}"));
    let home = roots.home.iter().map(|root| (root, "{home}"));
    for (root, word) in scratch.chain(home) {
        if let Ok(rest) = path.strip_prefix(root) {
            let rest = rest.as_os_str().as_bytes();
            return if rest.is_empty() {
                word.as_bytes().to_vec()
            } else {
                [word.as_bytes(), b"/", rest].concat()
            };
        }
    }
    path.as_os_str().as_bytes().to_vec()
}

/// `bytes` in printable ASCII alone.
///
/// What a subject wrote is data: control sequences, text that reorders what surrounds it, and bytes
/// that are no text appear as escapes. The escape character itself is doubled, so that nothing can
/// pose as an escape.
pub(super) fn printable(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                ' '..='~' if c != '\\' => out.push(c),
                _ => out.extend(c.escape_default()),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// The same for an operating system's string.
pub(super) fn printable_os(text: &OsStr) -> String {
    printable(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots() -> Roots {
        Roots {
            home: Some("/home/dev".into()),
            scratch: vec!["/home/dev/tmp/s1".into(), "/tmp/s2".into()],
        }
    }

    fn of(spot: Spot) -> String {
        String::from_utf8(named(&roots(), &spot)).expect("ASCII")
    }

    #[test]
    fn places_are_named_by_the_nearest_root() {
        for (path, want) in [
            ("/home/dev/.cache/x", "{home}/.cache/x"),
            ("/home/dev", "{home}"),
            ("/home/developer/x", "/home/developer/x"),
            ("/home/dev/tmp/s1/x", "{scratch}/x"),
            ("/tmp/s2", "{scratch}"),
            ("/etc/passwd", "/etc/passwd"),
        ] {
            assert_eq!(of(Spot::Host(path.into())), want);
        }
        assert_eq!(of(Spot::Clone("src/a".into())), "src/a");
        assert_eq!(of(Spot::Clone("".into())), ".");
        assert_eq!(of(Spot::Raw(b"192.0.2.1:80".to_vec())), "192.0.2.1:80");
    }

    #[test]
    fn a_file_cannot_pose_as_a_root() {
        assert_eq!(of(Spot::Clone("{home}/x".into())), "./{home}/x");
    }

    #[test]
    fn nothing_but_printable_ascii_reaches_a_terminal() {
        for (bytes, want) in [
            (&b"plain text ~"[..], "plain text ~"),
            (b"\x1b[31mred\x1b[0m\x07", "\\u{1b}[31mred\\u{1b}[0m\\u{7}"),
            (b"a\nb\r\t", "a\\nb\\r\\t"),
            (b"back\\slash", "back\\\\slash"),
            (b"\xff\xfe", "\\xff\\xfe"),
            ("\u{202e}rtl \u{e9}".as_bytes(), "\\u{202e}rtl \\u{e9}"),
            (b"\x9b31m", "\\x9b31m"),
            ("\u{9b}31m".as_bytes(), "\\u{9b}31m"),
            (b"\x7f", "\\u{7f}"),
        ] {
            let got = printable(bytes);
            assert_eq!(got, want);
            assert!(got.bytes().all(|b| (b' '..=b'~').contains(&b)));
        }
    }
}
