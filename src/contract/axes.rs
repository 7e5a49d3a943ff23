//! The eight axes of the capability composition contract (its section on declared axes), as one table.
//!
//! Enums, orders, names, the reader's "expected one of" and the docs page all come from the rows at
//! the end of the table macro's call: an axis or value that is not there does not exist anywhere.

use std::fmt;

/// Which way values of an axis merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// What a composition is allowed to do; the strictest value wins.
    Permission,
    /// What a capability does; the most capable value wins.
    Behaviour,
}

impl Role {
    /// The stable name that docs and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Permission => "permission",
            Role::Behaviour => "behaviour",
        }
    }
}

/// What the values of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// One value out of a closed, totally ordered list.
    TotalOrder,
    /// A set of verdict names.
    Set,
}

impl Kind {
    /// The stable name that docs and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::TotalOrder => "total order",
            Kind::Set => "set",
        }
    }
}

/// The type of an axis' values; a set axis has none, its values are free names.
macro_rules! values {
    (Set, $name:ident, $about:literal, []) => {};
    (TotalOrder, $name:ident, $about:literal, [$($variant:ident = $text:literal, $means:literal;)+]) => {
        #[doc = concat!("Axis value: ", $about, ".")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $(#[doc = $means] $variant,)+ }

        impl $name {
            /// Every value, in the declared order: permissive to strictest, or least to most capable.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The value as declarations write it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// What the value means, as a fragment.
            pub const fn about(self) -> &'static str {
                match self { $($name::$variant => $means,)+ }
            }

            /// The value with exactly this name; case and spelling are never guessed.
            pub fn parse(text: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.name() == text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

macro_rules! axes {
    ($($axis:ident = $text:literal, $role:ident, $kind:ident, $about:literal,
        [$($variant:ident = $value:literal, $means:literal;)*];)+) => {
        /// One of the eight axes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Axis { $(#[doc = concat!("`", $text, "`: ", $about, ".")] $axis,)+ }

        impl Axis {
            /// Every axis, in the contract's order.
            pub const ALL: &'static [Axis] = &[$(Axis::$axis,)+];

            /// The axis as declarations write it.
            pub const fn name(self) -> &'static str {
                match self { $(Axis::$axis => $text,)+ }
            }

            /// What the axis says, as a fragment.
            pub const fn about(self) -> &'static str {
                match self { $(Axis::$axis => $about,)+ }
            }

            /// Whether it permits or describes.
            pub const fn role(self) -> Role {
                match self { $(Axis::$axis => Role::$role,)+ }
            }

            /// Whether its values are ordered or a set.
            pub const fn kind(self) -> Kind {
                match self { $(Axis::$axis => Kind::$kind,)+ }
            }

            /// Its values in the declared order; empty for a set, whose members are verdict names.
            pub const fn values(self) -> &'static [&'static str] {
                match self { $(Axis::$axis => &[$($value,)*],)+ }
            }

            /// The axis with exactly this name.
            pub fn parse(text: &str) -> Option<Axis> {
                Axis::ALL.iter().copied().find(|axis| axis.name() == text)
            }
        }

        $(values!($kind, $axis, $about, [$($variant = $value, $means;)*]);)+
    };
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

axes! {
    Approval = "approval", Permission, TotalOrder, "what must be asked before a call", [
        Auto = "auto", "it may run without asking";
        Notify = "notify", "it may run, and somebody is told";
        Ask = "ask", "somebody is asked once";
        AskPerItem = "ask-per-item", "somebody is asked for each item";
        Forbidden = "forbidden", "it may not run";
    ];
    Reversibility = "reversibility", Permission, TotalOrder, "whether what it does can be undone", [
        Reversible = "reversible", "everything it does can be undone";
        Unknown = "unknown", "nobody knows";
        Irreversible = "irreversible", "something it does cannot be undone";
    ];
    Residency = "residency", Permission, TotalOrder, "where its findings may go", [
        Public = "public", "anywhere";
        OperatorPrivate = "operator-private", "to the operator alone";
        Company = "company", "nowhere outside the company";
    ];
    Degrade = "degrade", Permission, TotalOrder, "what follows when it cannot judge", [
        Advisory = "advisory", "the caller may go on";
        FailClosed = "fail-closed", "the caller is blocked";
    ];
    TierFloor = "tier_floor", Permission, TotalOrder, "the least model tier that may call it", [
        None = "none", "no model is needed";
        Haiku = "haiku", "haiku or above";
        Sonnet = "sonnet", "sonnet or above";
        Opus = "opus", "opus or above";
        Fable = "fable", "fable";
    ];
    VerdictBinding = "verdict_binding", Permission, Set, "the verdicts that block", [];
    Writes = "writes", Behaviour, TotalOrder, "what it writes", [
        ReadOnly = "read-only", "it writes nothing";
        WriteLocal = "write-local", "it writes on this host";
        WriteRemote = "write-remote", "it writes elsewhere";
    ];
    Judge = "judge", Behaviour, TotalOrder, "who judges", [
        Mechanical = "mechanical", "a program";
        Model = "model", "a model; its passing verdict alone clears nothing";
    ];
}

/// The axes as a Markdown table, for docs and help; a test holds the docs page equal to it.
pub fn axes_table() -> String {
    let mut out = String::from("| axis | role | values | says |\n|---|---|---|---|\n");
    for axis in Axis::ALL {
        let values = match axis.kind() {
            Kind::Set => "any set of declared verdicts".to_owned(),
            Kind::TotalOrder => {
                let quoted: Vec<String> = axis
                    .values()
                    .iter()
                    .map(|value| format!("`{value}`"))
                    .collect();
                quoted.join(" < ")
            }
        };
        out.push_str(&format!(
            "| `{axis}` | {} | {values} | {} |\n",
            axis.role().name(),
            axis.about()
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_the_contracts_order_and_roles() {
        let rows: Vec<(&str, Role, Kind)> = Axis::ALL
            .iter()
            .map(|axis| (axis.name(), axis.role(), axis.kind()))
            .collect();
        let (p, b) = (Role::Permission, Role::Behaviour);
        let (o, s) = (Kind::TotalOrder, Kind::Set);
        assert_eq!(
            rows,
            [
                ("approval", p, o),
                ("reversibility", p, o),
                ("residency", p, o),
                ("degrade", p, o),
                ("tier_floor", p, o),
                ("verdict_binding", p, s),
                ("writes", b, o),
                ("judge", b, o),
            ]
        );
    }

    #[test]
    fn values_are_ordered_as_declared() {
        assert!(Approval::Auto < Approval::Notify && Approval::AskPerItem < Approval::Forbidden);
        assert!(Reversibility::Reversible < Reversibility::Unknown);
        assert!(Reversibility::Unknown < Reversibility::Irreversible);
        assert!(Residency::OperatorPrivate < Residency::Company);
        assert!(Degrade::Advisory < Degrade::FailClosed);
        assert!(TierFloor::None < TierFloor::Haiku && TierFloor::Opus < TierFloor::Fable);
        assert!(Writes::ReadOnly < Writes::WriteLocal && Writes::WriteLocal < Writes::WriteRemote);
        assert!(Judge::Mechanical < Judge::Model);
        assert_eq!(
            Axis::Approval.values(),
            ["auto", "notify", "ask", "ask-per-item", "forbidden"]
        );
        let names: Vec<&str> = Writes::ALL.iter().map(|value| value.name()).collect();
        assert_eq!(names, Axis::Writes.values());
    }

    #[test]
    fn names_parse_back_and_nothing_else_does() {
        for value in TierFloor::ALL {
            assert_eq!(TierFloor::parse(value.name()), Some(*value));
        }
        for axis in Axis::ALL {
            assert_eq!(Axis::parse(axis.name()), Some(*axis));
        }
        for wrong in [
            "",
            "Read-Only",
            "read_only",
            "readonly",
            " read-only",
            "read-only ",
        ] {
            assert_eq!(Writes::parse(wrong), None, "{wrong:?}");
        }
    }
}
