//! The two axes that a probe can judge, each in the order of the composition contract.

macro_rules! axis {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal, $about:literal;)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $(#[doc = $about] $variant,)+ }

        impl $name {
            /// Every value, in the contract's order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The name as a declaration writes it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// The value that `text` names; `None` when it is no member.
            pub fn parse(text: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|v| v.name() == text)
            }
        }
    };
}

axis! {
    /// What a capability writes, from the narrowest value to the widest.
    Writes {
        ReadOnly = "read-only", "changes nothing";
        WriteLocal = "write-local", "changes this machine at most";
        WriteRemote = "write-remote", "may change other machines";
    }
}

axis! {
    /// Whether what a capability does can be undone, from permissive to strict.
    Reversibility {
        Reversible = "reversible", "can be undone from what is left behind";
        Unknown = "unknown", "nobody says";
        Irreversible = "irreversible", "cannot be undone";
    }
}
