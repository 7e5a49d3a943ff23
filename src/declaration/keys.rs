//! Every key of a declaration, in one table: both readers, "did you mean" and the docs page use it.

use super::model::Notation;

/// Whether a key must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Required {
    /// In every declaration.
    Always,
    /// When the verdict's channel is `stdout-key` or `both`.
    WithStdout,
    /// It may be left out.
    No,
}

impl Required {
    /// The stable text that the docs page shows.
    pub const fn name(self) -> &'static str {
        match self {
            Required::Always => "yes",
            Required::WithStdout => "with `stdout-key`, `both`",
            Required::No => "no",
        }
    }
}

/// How a key's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One string.
    Text,
    /// Arguments: a list in YAML, shell words in the flat notation.
    Argv,
    /// Names: a list in YAML, `A B` or `[A, B]` in the flat notation.
    List,
    /// Codes with their names: a mapping in YAML, `0=PASS 1=FAIL` in the flat notation.
    Codes,
    /// Free properties, a mapping of mappings.
    Properties,
}

macro_rules! keys {
    ($($key:ident = $nested:literal, $flat:expr, $required:ident, $shape:ident, $about:literal;)+) => {
        /// A key of a declaration.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key { $(#[doc = concat!("`", $nested, "`: ", $about, ".")] $key,)+ }

        impl Key {
            /// Every key, in the order of the docs page.
            pub const ALL: &'static [Key] = &[$(Key::$key,)+];

            /// The key in YAML; points separate the levels of nesting.
            pub const fn nested(self) -> &'static str {
                match self { $(Key::$key => $nested,)+ }
            }

            /// The key in the flat notation, `None` where that notation lacks it.
            pub const fn flat(self) -> Option<&'static str> {
                match self { $(Key::$key => $flat,)+ }
            }

            /// Whether it must be there.
            pub const fn required(self) -> Required {
                match self { $(Key::$key => Required::$required,)+ }
            }

            pub(super) const fn shape(self) -> Shape {
                match self { $(Key::$key => Shape::$shape,)+ }
            }

            /// What it says, as a fragment.
            pub const fn about(self) -> &'static str {
                match self { $(Key::$key => $about,)+ }
            }
        }
    };
}

keys! {
    Id = "id", Some("id"), Always, Text, "what the capability is called, one word such as `project:capability`";
    Summary = "summary", Some("summary"), No, Text, "one line for people";
    Tags = "tags", Some("tags"), No, List, "words to find it by";
    Entry = "entry", Some("entry"), Always, Argv, "the program and its fixed arguments";
    RequiresCwd = "requires_cwd", Some("requires_cwd"), Always, Text, "the folder to run in: an absolute path, or `SELF` for the top of the repo that holds the declaration";
    InputStdin = "input.stdin", None, No, Text, "what callers give on standard input: `none` or `json:NAME`";
    InputArgs = "input.args", None, No, Argv, "what callers pass after the entry; no arm uses it";
    VerdictChannel = "verdict.channel", Some("verdict_channel"), Always, Text, "where the verdict is read: `exit`, `stdout-key` or `both`";
    VerdictEnum = "verdict.enum", Some("verdict_enum"), Always, Codes, "every exit code and the verdict it means";
    VerdictStdoutKey = "verdict.stdout_key", Some("verdict_stdout_key"), WithStdout, Text, "the key of the one line of output that holds the verdict";
    Approval = "constraints.approval", Some("approval"), No, Text, "axis: what must be asked before a call";
    Writes = "constraints.writes", Some("writes"), No, Text, "axis: what it writes; a claim that is put to the test";
    Reversibility = "constraints.reversibility", Some("reversibility"), No, Text, "axis: whether what it does can be undone; a claim that is put to the test";
    Residency = "constraints.residency", Some("residency"), No, Text, "axis: where its findings may go";
    Degrade = "constraints.degrade", Some("degrade"), No, Text, "axis: what follows when it cannot judge";
    TierFloor = "constraints.tier_floor", Some("tier_floor"), No, Text, "axis: the least model tier that may call it";
    Judge = "constraints.judge", Some("judge"), No, Text, "axis: who judges";
    VerdictBinding = "constraints.verdict_binding", Some("verdict_binding"), No, List, "axis: the verdicts that block";
    PositiveArgs = "calibration.known_positive.args", Some("calibration_positive_args"), No, Argv, "arguments of the known positive arm, after the entry";
    PositiveStdin = "calibration.known_positive.stdin", Some("calibration_positive_stdin"), No, Text, "a file of the repo that the known positive arm reads on standard input";
    PositiveExpect = "calibration.known_positive.expect", Some("calibration_positive_expect"), Always, Text, "the verdict that the known positive arm must yield";
    NegativeArgs = "calibration.known_negative.args", Some("calibration_negative_args"), No, Argv, "arguments of the known negative arm, after the entry";
    NegativeStdin = "calibration.known_negative.stdin", Some("calibration_negative_stdin"), No, Text, "a file of the repo that the known negative arm reads on standard input";
    NegativeExpect = "calibration.known_negative.expect", Some("calibration_negative_expect"), Always, Text, "the verdict that the known negative arm must yield";
    UpstreamArgv = "upstream_argv", Some("upstream_argv"), No, Text, "whether it takes the verdict of the capability before it as an argument: `yes` or `no`";
    EchoesUpstream = "echoes_upstream", Some("echoes_upstream"), No, Text, "whether its output repeats the verdict of the capability before it: `yes` or `no`";
    Registered = "registered", None, No, Text, "the day of registration, `YYYY-MM-DD`";
    ProbeRef = "probe_ref", None, No, Text, "the commit, or the like, at the last probe that held";
    Properties = "properties", None, No, Properties, "further properties: `NAME: {value, class, on_exceed}`";
}

impl Key {
    /// The key as `notation` writes it; for one that the notation lacks, its name in YAML.
    pub fn name(self, notation: Notation) -> &'static str {
        match notation {
            Notation::Yaml => self.nested(),
            Notation::Flat => match self.flat() {
                Some(flat) => flat,
                None => self.nested(),
            },
        }
    }

    pub(super) fn by_flat(name: &str) -> Option<Key> {
        Key::ALL
            .iter()
            .copied()
            .find(|key| key.flat() == Some(name))
    }

    pub(super) fn by_nested(name: &str) -> Option<Key> {
        Key::ALL.iter().copied().find(|key| key.nested() == name)
    }

    /// Every key that lies below the mapping `name` in YAML.
    pub(super) fn below(name: &str) -> Vec<Key> {
        let inside = |key: &Key| {
            key.nested()
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('.'))
        };
        Key::ALL.iter().copied().filter(inside).collect()
    }
}

/// The keys as a Markdown table; a test holds the docs page equal to it.
pub fn keys_table() -> String {
    let mut out = String::from("| YAML | flat | required | what it is |\n|---|---|---|---|\n");
    for key in Key::ALL {
        let flat = match key.flat() {
            Some(flat) => format!("`{flat}`"),
            None => "-".to_owned(),
        };
        out.push_str(&format!(
            "| `{}` | {flat} | {} | {} |\n",
            key.nested(),
            key.required().name(),
            key.about()
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Axis;

    #[test]
    fn every_axis_of_the_contract_has_its_key() {
        for axis in Axis::ALL {
            assert!(
                Key::by_nested(&format!("constraints.{axis}")).is_some(),
                "{axis}"
            );
            assert!(Key::by_flat(axis.name()).is_some(), "{axis}");
        }
        assert_eq!(Key::below("constraints").len(), Axis::ALL.len());
    }

    #[test]
    fn no_two_keys_share_a_name() {
        for (index, key) in Key::ALL.iter().enumerate() {
            for other in &Key::ALL[index + 1..] {
                assert_ne!(key.nested(), other.nested());
                assert!(
                    key.flat().is_none() || key.flat() != other.flat(),
                    "{key:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_required_exists_in_both_notations() {
        for key in Key::ALL {
            assert!(
                key.required() == Required::No || key.flat().is_some(),
                "{key:?}"
            );
        }
    }
}
