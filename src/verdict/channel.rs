//! What an arm's end says in the words of its declaration.
//!
//! A verdict is read from the declared channel alone. Whatever is not a declared name is a harness
//! error, never a pass.

use calibrun_sandbox::{Output, Termination};

use crate::declaration::{Channel, NameClass, VerdictSpec};

/// What the declared channel gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A declared name.
    Named(String),
    /// Nothing declared; the text says why, without any of the subject's output.
    HarnessError(String),
}

impl Reading {
    /// Whether it is a declared name that says that nothing ran.
    pub fn says_nothing_ran(&self) -> bool {
        matches!(self, Reading::Named(name) if NameClass::of(name) == NameClass::NothingRan)
    }
}

impl VerdictSpec {
    /// Reads one run.
    pub fn read(&self, termination: &Termination, stdout: &Output) -> Reading {
        let code = match termination {
            Termination::Exited(code) => *code,
            Termination::Signaled(signal) => return error(format!("ended by signal {signal}")),
            Termination::TimedOut => return error("ended at the deadline"),
            Termination::NotExecuted(_) => return error("could not be executed"),
        };
        // What a shell gives when it cannot execute or find a program (POSIX, 2.8.2).
        if code == 126 || code == 127 {
            return error(format!(
                "exit code {code}: a program could not be executed or found"
            ));
        }
        let read = match self.channel {
            Channel::Exit => self.by_code(code),
            Channel::StdoutKey => self.by_key(stdout),
            Channel::Both => self.by_code(code).and_then(|by_code| {
                let by_key = self.by_key(stdout)?;
                if by_code == by_key {
                    Ok(by_code)
                } else {
                    Err(format!(
                        "exit code {code} stands for {by_code}, and standard output says {by_key}"
                    ))
                }
            }),
        };
        match read {
            Ok(name) => Reading::Named(name),
            Err(why) => error(why),
        }
    }

    fn by_code(&self, code: i32) -> Result<String, String> {
        u8::try_from(code)
            .ok()
            .filter(|code| *code <= 125)
            .and_then(|code| self.codes.get(&code))
            .cloned()
            .ok_or_else(|| format!("exit code {code} is not declared"))
    }

    fn by_key(&self, stdout: &Output) -> Result<String, String> {
        let key = self
            .stdout_key
            .as_deref()
            .filter(|key| !key.is_empty())
            .ok_or("no key is declared")?;
        // A second line could lie in what was not kept.
        if stdout.dropped > 0 {
            return Err("standard output is longer than what is kept".into());
        }
        let mut values = stdout
            .bytes
            .split(|b| *b == b'\n')
            .filter_map(|line| value_of(line, key.as_bytes()));
        let value = values
            .next()
            .ok_or_else(|| format!("no line of standard output has the key {key}"))?;
        if values.next().is_some() {
            return Err(format!(
                "more than one line of standard output has the key {key}"
            ));
        }
        self.names()
            .find(|name| name.as_bytes() == value)
            .cloned()
            .ok_or_else(|| format!("the value of {key} is not a declared name"))
    }
}

/// The value when the first non-blank text of `line` is `KEY=VALUE` or `KEY: VALUE`.
fn value_of<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let rest = line.trim_ascii().strip_prefix(key)?;
    match rest {
        [b'=', value @ ..] => Some(value.trim_ascii()),
        [b':'] => Some(b""),
        [b':', value @ ..] if value[0].is_ascii_whitespace() => Some(value.trim_ascii()),
        _ => None,
    }
}

fn error(why: impl Into<String>) -> Reading {
    Reading::HarnessError(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(channel: Channel) -> VerdictSpec {
        VerdictSpec {
            channel,
            codes: [
                (0, "PASS"),
                (1, "FAIL"),
                (3, "DID_NOT_RUN"),
                (10, crate::declaration::ReservedName::HarnessError.name()),
            ]
            .map(|(code, name)| (code, name.to_owned()))
            .into(),
            stdout_key: Some("VERDICT".into()),
        }
    }

    fn printed(text: &str) -> Output {
        Output {
            bytes: text.as_bytes().to_vec(),
            dropped: 0,
        }
    }

    #[test]
    fn a_declared_exit_code_is_its_name() {
        let read = |code| spec(Channel::Exit).read(&Termination::Exited(code), &printed(""));
        assert_eq!(read(0), Reading::Named("PASS".into()));
        assert_eq!(read(1), Reading::Named("FAIL".into()));
        assert!(read(3).says_nothing_ran());
        assert!(!read(0).says_nothing_ran());
    }

    #[test]
    fn an_end_that_is_not_declared_is_a_harness_error() {
        for end in [7, 126, 127, 256, -1].map(Termination::Exited) {
            for channel in [Channel::Exit, Channel::Both] {
                let mut spec = spec(channel);
                // Even a declaration that tries to name them does not get them.
                spec.codes
                    .extend([(126, "ODD".into()), (127, "ODD".into())]);
                let read = spec.read(&end, &printed("VERDICT=PASS\n"));
                assert!(
                    matches!(read, Reading::HarnessError(_)),
                    "{channel:?} {end:?}"
                );
            }
        }
    }

    #[test]
    fn an_arm_that_did_not_end_by_itself_gives_no_verdict_on_any_channel() {
        for end in [
            Termination::Exited(126),
            Termination::Exited(127),
            Termination::Signaled(9),
            Termination::TimedOut,
            Termination::NotExecuted("no such file".into()),
        ] {
            for channel in Channel::ALL {
                let read = spec(*channel).read(&end, &printed("VERDICT=PASS\n"));
                assert!(
                    matches!(read, Reading::HarnessError(_)),
                    "{channel:?} {end:?}"
                );
            }
        }
    }

    #[test]
    fn a_key_is_read_in_both_notations_and_only_once() {
        let read =
            |text: &str| spec(Channel::StdoutKey).read(&Termination::Exited(0), &printed(text));
        for text in [
            "VERDICT=FAIL\n",
            "noise\n  VERDICT: FAIL  \r\nmore\n",
            "VERDICT=FAIL",
            "VERDICTS=PASS\nVERDICT: FAIL\nMY_VERDICT=PASS\n",
        ] {
            assert_eq!(read(text), Reading::Named("FAIL".into()), "{text:?}");
        }
        for text in [
            "",
            "VERDICT=\n",
            "VERDICT:\n",
            "VERDICT=GOOD\n",
            "VERDICT=FAIL\nVERDICT: FAIL\n",
            "the VERDICT=FAIL\n",
            "VERDICT FAIL\n",
            "verdict=FAIL\n",
        ] {
            assert!(matches!(read(text), Reading::HarnessError(_)), "{text:?}");
        }
    }

    #[test]
    fn a_key_in_output_that_was_cut_is_not_believed() {
        let cut = Output {
            bytes: b"VERDICT=PASS\n".to_vec(),
            dropped: 1,
        };
        let read = spec(Channel::StdoutKey).read(&Termination::Exited(0), &cut);
        assert!(matches!(read, Reading::HarnessError(_)));
    }

    #[test]
    fn a_channel_without_its_key_is_not_believed() {
        let mut spec = spec(Channel::StdoutKey);
        spec.stdout_key = None;
        let read = spec.read(&Termination::Exited(0), &printed("=PASS\n: PASS\n"));
        assert!(matches!(read, Reading::HarnessError(_)));
    }

    #[test]
    fn both_channels_must_agree() {
        let read =
            |code, text: &str| spec(Channel::Both).read(&Termination::Exited(code), &printed(text));
        assert_eq!(read(0, "VERDICT=PASS\n"), Reading::Named("PASS".into()));
        for (code, text) in [(1, "VERDICT=PASS\n"), (0, ""), (7, "VERDICT=PASS\n")] {
            assert!(
                matches!(read(code, text), Reading::HarnessError(_)),
                "{code} {text:?}"
            );
        }
    }
}
