//! The model of a declaration: what was written, typed, and nothing that follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::contract::{Approval, Degrade, Judge, Residency, Reversibility, TierFloor, Writes};

/// An enum whose variants have a stable written name.
macro_rules! closed {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $doc])+ $variant,)+ }

        impl $name {
            /// Every variant, in the order of the docs.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The names of [`Self::ALL`], in the same order.
            pub const NAMES: &'static [&'static str] = &[$($text,)+];

            /// The name as it is written.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// The variant with exactly this name.
            pub fn parse(text: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|variant| variant.name() == text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

closed! {
    /// In which notation a declaration was written.
    Notation {
        /// Nested YAML, the contract's own schema.
        Yaml = "yaml",
        /// One `key: value` a line.
        Flat = "flat",
    }
}

impl Notation {
    /// The notation that a file's extension stands for.
    pub fn of(path: &Path) -> Option<Notation> {
        let extension = path.extension()?.to_str()?;
        if extension.eq_ignore_ascii_case("cap") {
            Some(Notation::Flat)
        } else if extension.eq_ignore_ascii_case("yaml") || extension.eq_ignore_ascii_case("yml") {
            Some(Notation::Yaml)
        } else {
            None
        }
    }
}

closed! {
    /// Where a verdict is read.
    Channel {
        /// The exit code.
        Exit = "exit",
        /// One line of standard output.
        StdoutKey = "stdout-key",
        /// Both, which must agree.
        Both = "both",
    }
}

impl Channel {
    /// Whether a line of standard output is read.
    pub const fn reads_stdout(self) -> bool {
        match self {
            Channel::Exit => false,
            Channel::StdoutKey | Channel::Both => true,
        }
    }
}

closed! {
    /// How a free property merges.
    PropertyClass {
        /// The strictest value wins.
        Constraint = "constraint",
        /// The outer layer's value wins.
        Preference = "preference",
    }
}

closed! {
    /// What happens when a numeric bound is exceeded; without it no number says which is stricter.
    OnExceed {
        /// The action is blocked.
        Block = "block",
        /// The check is skipped.
        Skip = "skip",
    }
}

closed! {
    /// Verdict names that have a meaning of their own.
    ReservedName {
        /// It ran, and what it looks for is in order.
        Pass = "PASS",
        /// Nothing ran.
        DidNotRun = "DID_NOT_RUN",
        /// Nothing ran.
        NotRun = "NOT_RUN",
        /// There was nothing to run on.
        NoTarget = "NO_TARGET",
        /// It was passed over.
        Skipped = "SKIPPED",
        /// Nothing was measured.
        Unmeasured = "UNMEASURED",
        /// It is not set up.
        NotConfigured = "NOT_CONFIGURED",
        /// The subject itself failed.
        HarnessError = "HARNESS_ERROR",
    }
}

impl ReservedName {
    /// What the name says.
    pub const fn class(self) -> NameClass {
        match self {
            ReservedName::Pass => NameClass::Passing,
            ReservedName::DidNotRun
            | ReservedName::NotRun
            | ReservedName::NoTarget
            | ReservedName::Skipped
            | ReservedName::Unmeasured
            | ReservedName::NotConfigured => NameClass::NothingRan,
            ReservedName::HarnessError => NameClass::HarnessError,
        }
    }
}

/// What a verdict's name alone says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameClass {
    /// The passing verdict.
    Passing,
    /// Nothing ran.
    NothingRan,
    /// The subject itself failed.
    HarnessError,
    /// Any other name; it means what its registrant says.
    Free,
}

impl NameClass {
    /// The class of a verdict's name; every name that is not reserved is free.
    pub fn of(name: &str) -> NameClass {
        match ReservedName::parse(name) {
            Some(reserved) => reserved.class(),
            None => NameClass::Free,
        }
    }

    /// Whether an arm may expect a verdict of this class: one that shows that something was judged.
    pub const fn may_be_expected(self) -> bool {
        match self {
            NameClass::Passing | NameClass::Free => true,
            NameClass::NothingRan | NameClass::HarnessError => false,
        }
    }
}

/// One declaration, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// What the capability is called; unique in its file.
    pub id: String,
    /// One line for people.
    pub summary: Option<String>,
    /// Words to find it by, in the written order.
    pub tags: Vec<String>,
    /// Program and fixed arguments; never empty, nor is its first word.
    pub entry: Vec<String>,
    /// Where it runs.
    pub requires_cwd: Cwd,
    /// What callers give it; no arm uses it.
    pub input: Option<Input>,
    /// Where its verdict is read, and what may be read there.
    pub verdict: VerdictSpec,
    /// Its values on the eight axes.
    pub constraints: Constraints,
    /// The two declared arms.
    pub calibration: Calibration,
    /// Whether it takes the verdict of the capability before it as an argument.
    pub upstream_argv: Option<bool>,
    /// Whether its output repeats the verdict of the capability before it.
    pub echoes_upstream: Option<bool>,
    /// Day of registration, `YYYY-MM-DD`.
    pub registered: Option<String>,
    /// What was probed when it last held, as written.
    pub probe_ref: Option<String>,
    /// Further properties by name.
    pub properties: BTreeMap<String, Property>,
    /// Where all this was read.
    pub source: Source,
}

/// The folder that a capability must be run in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cwd {
    /// The top of the repo that holds the declaration; written `SELF`.
    SelfRepo,
    /// This absolute path, perhaps of another machine.
    Absolute(PathBuf),
}

/// What callers give a capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// On standard input.
    pub stdin: InputStdin,
    /// After the entry, with placeholders as the registrant wrote them.
    pub args: Vec<String>,
}

/// What callers give a capability on standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputStdin {
    /// Nothing; written `none`, or left out.
    None,
    /// JSON of the schema with this name; written `json:NAME`.
    Json(String),
}

/// Where a verdict is read, and what may be read there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictSpec {
    /// Where.
    pub channel: Channel,
    /// Exit codes (0 to 125) with the names they mean; neither occurs twice, never empty.
    pub codes: BTreeMap<u8, String>,
    /// The key of the output line; always there when the channel reads one.
    pub stdout_key: Option<String>,
}

impl VerdictSpec {
    /// The name that an exit code means.
    pub fn name_of(&self, code: u8) -> Option<&str> {
        self.codes.get(&code).map(String::as_str)
    }

    /// The declared names, sorted, each once.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.codes.values().collect::<BTreeSet<_>>().into_iter()
    }

    /// Whether `name` is declared.
    pub fn declares(&self, name: &str) -> bool {
        self.codes.values().any(|declared| declared == name)
    }
}

/// What is declared on each axis; `None` where nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// What must be asked before a call.
    pub approval: Option<Approval>,
    /// What it writes.
    pub writes: Option<Writes>,
    /// Whether what it does can be undone.
    pub reversibility: Option<Reversibility>,
    /// Where its findings may go.
    pub residency: Option<Residency>,
    /// What follows when it cannot judge.
    pub degrade: Option<Degrade>,
    /// The least model tier that may call it.
    pub tier_floor: Option<TierFloor>,
    /// Who judges.
    pub judge: Option<Judge>,
    /// The verdicts that block; an empty set is declared, too.
    pub verdict_binding: Option<BTreeSet<String>>,
}

/// The two arms that a registrant declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The arm that shows the verdict of a case known to be so.
    pub known_positive: ArmSpec,
    /// The arm that shows the verdict of the opposite case.
    pub known_negative: ArmSpec,
}

/// One declared arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArmSpec {
    /// Arguments after the entry.
    pub args: Vec<String>,
    /// A file inside the repo, relative to its top, read on standard input.
    pub stdin: Option<String>,
    /// The declared verdict that it must yield.
    pub expect: String,
}

/// A property that is no axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its value, as written.
    pub value: PropertyValue,
    /// How it merges; `None` when not declared, which the contract takes for a constraint.
    pub class: Option<PropertyClass>,
    /// For a numeric bound, what exceeding it does.
    pub on_exceed: Option<OnExceed>,
}

/// A property's value; numbers keep their spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// A string.
    Text(String),
    /// A number, spelled as written.
    Number(String),
    /// A boolean.
    Boolean(bool),
}

/// Where a declaration was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, as it was named.
    pub path: PathBuf,
    /// The line of its first key, from 1.
    pub line: u32,
    /// SHA-256 in hex of its own text: the whole file where it has the file to itself, else its
    /// item of the list, from the first key to the end of the last value.
    pub sha256: String,
    /// In which notation.
    pub notation: Notation,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_exact_and_all_others_are_free() {
        assert_eq!(NameClass::of("PASS"), NameClass::Passing);
        assert_eq!(NameClass::of("HARNESS_ERROR"), NameClass::HarnessError);
        for name in [
            "DID_NOT_RUN",
            "NOT_RUN",
            "NO_TARGET",
            "SKIPPED",
            "UNMEASURED",
            "NOT_CONFIGURED",
        ] {
            assert_eq!(NameClass::of(name), NameClass::NothingRan, "{name}");
            assert!(!NameClass::of(name).may_be_expected(), "{name}");
        }
        for name in ["CLEAN", "LEAK", "pass", "FAIL", "SKIP", ""] {
            assert_eq!(NameClass::of(name), NameClass::Free, "{name}");
        }
        assert_eq!(ReservedName::ALL.len(), 8);
    }

    #[test]
    fn the_extension_alone_chooses_the_notation() {
        assert_eq!(Notation::of(Path::new("a/b.cap")), Some(Notation::Flat));
        assert_eq!(Notation::of(Path::new("a/b.YML")), Some(Notation::Yaml));
        assert_eq!(Notation::of(Path::new("b.yaml")), Some(Notation::Yaml));
        assert_eq!(Notation::of(Path::new("b.md")), None);
        assert_eq!(Notation::of(Path::new(".cap")), None);
    }
}
