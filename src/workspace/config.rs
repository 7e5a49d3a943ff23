//! Git's config files, read as bytes: no file that one includes is ever opened.
//!
//! The syntax follows git-config(1). A file that does not fit it keeps its bytes as its meaning.

use std::ops::Range;

/// Name and value of a config line; a name alone means true.
///
/// The name is written `section.key` or `section.subsection.key`, section and key in lower case.
pub(crate) type Setting = (Vec<u8>, Option<Vec<u8>>);

/// What a config file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigMeaning {
    /// Its settings in their order.
    Settings(Vec<Setting>),
    /// Bytes that are no config.
    Opaque(Vec<u8>),
}

impl ConfigMeaning {
    pub(crate) fn of(bytes: Vec<u8>) -> ConfigMeaning {
        match parse(&bytes) {
            Some(lines) => ConfigMeaning::Settings(lines.into_iter().map(|l| l.setting).collect()),
            None => ConfigMeaning::Opaque(bytes),
        }
    }
}

/// The bytes of `now` without the settings that were added since `before`.
///
/// Where every setting of before is still there, in order, all others go; else those go whose names
/// are new, since a value that was there and is gone is known to nobody. `None` when nothing can be
/// taken away.
pub(crate) fn without_added(before: &[Setting], now: &[u8]) -> Option<Vec<u8>> {
    let lines = parse(now)?;
    let mut rest = before.iter().peekable();
    let kept: Vec<bool> = lines
        .iter()
        .map(|line| rest.next_if(|old| **old == line.setting).is_some())
        .collect();
    let all_there = rest.peek().is_none();
    let known = |line: &Line| before.iter().any(|(name, _)| *name == line.setting.0);
    let mut bytes = Vec::with_capacity(now.len());
    let mut at = 0;
    for (line, kept) in lines.iter().zip(kept) {
        let stays = if all_there { kept } else { known(line) };
        if !stays {
            bytes.extend_from_slice(&now[at..line.place.start]);
            at = line.place.end;
        }
    }
    bytes.extend_from_slice(&now[at..]);
    // What was cut must leave exactly the others.
    let left = parse(&bytes)?;
    (bytes != now && left.len() < lines.len()).then_some(bytes)
}

struct Line {
    setting: Setting,
    /// From the key to the end of the value, line end not included.
    place: Range<usize>,
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next byte; a carriage return before a line end is no part of a line.
    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        if byte == b'\r' && self.bytes.get(self.at) == Some(&b'\n') {
            self.at += 1;
            return Some(b'\n');
        }
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        let mut ahead = Reader {
            bytes: self.bytes,
            at: self.at,
        };
        ahead.next()
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|b| b != b'\n') {
            self.next();
        }
    }

    /// After `[`: the name of a section with a dot behind it.
    fn section(&mut self) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b']' => break,
                b' ' | b'\t' => {
                    self.subsection(&mut name)?;
                    break;
                }
                byte if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.' => {
                    name.push(byte.to_ascii_lowercase());
                }
                _ => return None,
            }
        }
        name.push(b'.');
        Some(name)
    }

    fn subsection(&mut self, name: &mut Vec<u8>) -> Option<()> {
        let mut byte = self.next()?;
        while matches!(byte, b' ' | b'\t') {
            byte = self.next()?;
        }
        if byte != b'"' {
            return None;
        }
        name.push(b'.');
        loop {
            match self.next()? {
                b'\n' => return None,
                b'"' => break,
                b'\\' => name.push(self.next().filter(|b| *b != b'\n')?),
                byte => name.push(byte),
            }
        }
        (self.next()? == b']').then_some(())
    }

    /// After `=`: the value up to the line end, which is left.
    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let mut quoted = false;
        // Spaces at the end are no part of it, unless they are quoted.
        let mut length = 0;
        loop {
            match self.peek() {
                None | Some(b'\n') => break,
                Some(b'#' | b';') if !quoted => {
                    self.skip_line();
                    break;
                }
                Some(_) => {}
            }
            match self.next()? {
                b'"' => {
                    quoted = !quoted;
                    length = value.len();
                }
                b'\\' => {
                    match self.next()? {
                        b'\n' => continue,
                        b't' => value.push(b'\t'),
                        b'n' => value.push(b'\n'),
                        b'b' => value.push(8),
                        byte @ (b'\\' | b'"') => value.push(byte),
                        _ => return None,
                    }
                    length = value.len();
                }
                byte if !quoted && byte.is_ascii_whitespace() => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                }
                byte => {
                    value.push(byte);
                    length = value.len();
                }
            }
        }
        value.truncate(length);
        (!quoted).then_some(value)
    }
}

fn parse(bytes: &[u8]) -> Option<Vec<Line>> {
    let mut reader = Reader {
        bytes,
        at: if bytes.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        },
    };
    let mut lines = Vec::new();
    let mut section: Option<Vec<u8>> = None;
    loop {
        let start = reader.at;
        let Some(byte) = reader.next() else {
            return Some(lines);
        };
        match byte {
            byte if byte.is_ascii_whitespace() => {}
            b'#' | b';' => reader.skip_line(),
            b'[' => section = Some(reader.section()?),
            byte if byte.is_ascii_alphabetic() => {
                let mut name = section.clone()?;
                name.push(byte.to_ascii_lowercase());
                while let Some(byte) = reader
                    .peek()
                    .filter(|b| b.is_ascii_alphanumeric() || *b == b'-')
                {
                    name.push(byte.to_ascii_lowercase());
                    reader.next();
                }
                while matches!(reader.peek(), Some(b' ' | b'\t')) {
                    reader.next();
                }
                let value = match reader.peek() {
                    None | Some(b'\n') => None,
                    Some(b'=') => {
                        reader.next();
                        Some(reader.value()?)
                    }
                    Some(b'#' | b';') => {
                        reader.skip_line();
                        None
                    }
                    Some(_) => return None,
                };
                lines.push(Line {
                    setting: (name, value),
                    place: start..reader.at,
                });
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Option<Vec<(String, Option<String>)>> {
        let text_of = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Some(
            parse(text.as_bytes())?
                .into_iter()
                .map(|l| (text_of(l.setting.0), l.setting.1.map(text_of)))
                .collect(),
        )
    }

    const ODD: &str = "\u{feff}; a comment\n[Core] bare = false ; said once\n\tFileMode\n\
        [remote \"Or\\\"ig]in\"]\r\n\turl = \" two  spaces \" # comment\r\n\
        \tfetch = a\\\n  b\\tc\\\\\n[old.Style]\nx = y # z\n  empty =\nspaced = a  b   \n[x]\n";

    #[test]
    fn every_way_to_write_a_setting_is_read() {
        let expected = [
            ("core.bare", Some("false")),
            ("core.filemode", None),
            ("remote.Or\"ig]in.url", Some(" two  spaces ")),
            ("remote.Or\"ig]in.fetch", Some("a  b\tc\\")),
            ("old.style.x", Some("y")),
            ("old.style.empty", Some("")),
            ("old.style.spaced", Some("a  b")),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(n, v)| ((*n).to_owned(), v.map(ToOwned::to_owned)))
            .collect();
        assert_eq!(settings(ODD).unwrap(), expected);
    }

    #[test]
    fn the_reading_is_that_of_another_reader() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, ODD).unwrap();
        let config = git2::Config::open(&path).unwrap();
        let mut theirs = Vec::new();
        let entries = config.entries(None).unwrap();
        entries
            .for_each(|e| {
                let value = e.has_value().then(|| e.value().unwrap().to_owned());
                theirs.push((e.name().unwrap().to_owned(), value));
            })
            .unwrap();
        assert_eq!(settings(ODD).unwrap(), theirs);
    }

    #[test]
    fn what_is_no_config_keeps_its_bytes() {
        for text in [
            "x = y\n",
            "[a\nx = y\n",
            "[a]\nx = \"y\n",
            "[a]\nx = \\q\n",
            "[a \"b\nc\"]\n",
            "[a]\n1 = 2\n",
            "[a]\nx y\n",
            "[a] b]\n",
        ] {
            let bytes = text.as_bytes().to_vec();
            assert_eq!(
                ConfigMeaning::of(bytes.clone()),
                ConfigMeaning::Opaque(bytes),
                "{text:?}"
            );
        }
    }

    #[test]
    fn only_what_was_added_is_taken_away() {
        let before = "[a]\n\tx = 1\n\ty = 2 ; why\n";
        let Some(old) = parse(before.as_bytes()) else {
            panic!("it is a config");
        };
        let old: Vec<Setting> = old.into_iter().map(|l| l.setting).collect();
        let rows = [
            // New names, on lines of their own and on others.
            (
                "[a]\n\tx = 1\n\ty = 2 ; why\n[include]\n\tpath = /x\n",
                true,
            ),
            ("[b] z = 3\n[a]\n\tx = 1\n\ty = 2\n", true),
            // A second value of a known name.
            ("[a]\n\tx = 1\n\tx = 3\n\ty = 2\n", true),
            // A value of before is gone.
            ("[a]\n\tx = 9\n\ty = 2\n\tz = 1\n", false),
        ];
        for (now, whole) in rows {
            let left = without_added(&old, now.as_bytes()).unwrap();
            let left = settings(std::str::from_utf8(&left).unwrap()).unwrap();
            assert_eq!(left == settings(before).unwrap(), whole, "{now:?} {left:?}");
            assert_eq!(left.len(), 2, "{now:?}");
        }
        assert_eq!(without_added(&old, before.as_bytes()), None);
        assert_eq!(without_added(&old, b"no config"), None);
    }
}
