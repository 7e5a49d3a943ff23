//! The exit codes of every command: one table, from which the command line and the docs page read.

use crate::verdict::Status;

/// Commands that share their exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandGroup {
    /// Commands that judge claims by running something.
    Judging,
    /// The registration bar.
    Check,
    /// A search over many repos.
    Scan,
    /// Composition and calls.
    Calling,
    /// Commands that ask whether something recorded holds.
    Holding,
    /// Commands that only do something.
    Doing,
    /// Every command.
    Any,
}

impl CommandGroup {
    /// Every group, in the order of the table.
    pub const ALL: &'static [CommandGroup] = &[
        CommandGroup::Judging,
        CommandGroup::Check,
        CommandGroup::Scan,
        CommandGroup::Calling,
        CommandGroup::Holding,
        CommandGroup::Doing,
        CommandGroup::Any,
    ];

    /// The commands of the group; empty for all.
    pub const fn commands(self) -> &'static [&'static str] {
        match self {
            CommandGroup::Judging => &["observe", "probe", "reprobe", "review", "substrate"],
            CommandGroup::Check => &["check"],
            CommandGroup::Scan => &["scan"],
            CommandGroup::Calling => &["merge", "call"],
            CommandGroup::Holding => &["receipt", "card", "tiers"],
            CommandGroup::Doing => &[
                "demo", "doctor", "init", "explain", "schema", "report", "clean",
            ],
            CommandGroup::Any => &[],
        }
    }
}

/// One row is written once; a variant without code or meaning does not compile.
macro_rules! exit_codes {
    ($($variant:ident = $group:ident, $code:literal, $about:literal;)+) => {
        /// How calibrun ended. Several variants share a number: what it means depends on the command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ExitCode { $(#[doc = $about] $variant,)+ }

        impl ExitCode {
            /// Every row, in the order of the table.
            pub const ALL: &'static [ExitCode] = &[$(ExitCode::$variant,)+];

            /// The number.
            pub const fn code(self) -> u8 {
                match self { $(ExitCode::$variant => $code,)+ }
            }

            /// The commands to which the row belongs.
            pub const fn group(self) -> CommandGroup {
                match self { $(ExitCode::$variant => CommandGroup::$group,)+ }
            }

            /// What it means.
            pub const fn about(self) -> &'static str {
                match self { $(ExitCode::$variant => $about,)+ }
            }
        }
    };
}

exit_codes! {
    Verified = Judging, 0, "verified, or nothing is claimed";
    Contradicted = Judging, 1, "contradicted";
    ClaimOnly = Judging, 3, "claim-only";
    Registrable = Check, 0, "registrable; with --declaration-only: valid";
    Rejected = Check, 1, "rejected";
    ScanComplete = Scan, 0, "complete";
    ScanPartial = Scan, 4, "partial";
    Passed = Calling, 0, "pass";
    Pending = Calling, 1, "pending: not clearing, stale, or an error with which a reversible consumer may go on";
    Blocked = Calling, 2, "blocked: a binding verdict, forbidden, or an error for an irreversible consumer";
    Escalate = Calling, 3, "escalate: somebody must be asked";
    Violation = Calling, 4, "the composition violates the contract";
    NotCallable = Calling, 5, "not callable: dispatch instead";
    Holds = Holding, 0, "holds";
    DoesNotHold = Holding, 1, "does not hold";
    Done = Doing, 0, "done";
    HarnessError = Any, 10, "harness error: calibrun itself could not do what was asked";
    Usage = Any, 64, "wrong usage";
}

impl ExitCode {
    /// The code of one judged claim, or of none.
    pub const fn of(status: Option<Status>) -> ExitCode {
        match status {
            None | Some(Status::Verified) => ExitCode::Verified,
            Some(Status::ClaimOnly) => ExitCode::ClaimOnly,
            Some(Status::Contradicted) => ExitCode::Contradicted,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> std::process::ExitCode {
        std::process::ExitCode::from(code.code())
    }
}

/// The whole of `docs/exit-codes.md`.
pub fn exit_codes_page() -> String {
    let mut page = String::from(
        "\
# Exit codes

<!-- Written from the table in src/exit.rs; a test holds the two equal. -->

A batch exits with the gravest result, by meaning and not by number: harness error, then
contradicted, then claim-only, then verified. A batch in which nothing was judged is a harness error.

| commands | code | meaning |
|---|---|---|
",
    );
    for group in CommandGroup::ALL {
        let commands: Vec<String> = group.commands().iter().map(|c| format!("`{c}`")).collect();
        for (i, code) in ExitCode::ALL
            .iter()
            .filter(|c| c.group() == *group)
            .enumerate()
        {
            let name = match (i, commands.is_empty()) {
                (0, true) => "any".to_owned(),
                (0, false) => commands.join(", "),
                _ => String::new(),
            };
            page.push_str(&format!(
                "| {name} | {} | {} |\n",
                code.code(),
                code.about()
            ));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_docs_page_equals_the_table() {
        let written = include_str!("../docs/exit-codes.md");
        assert_eq!(
            written,
            exit_codes_page(),
            "write exit_codes_page() to docs/exit-codes.md"
        );
    }

    #[test]
    fn no_command_has_one_number_with_two_meanings() {
        for group in CommandGroup::ALL
            .iter()
            .filter(|g| **g != CommandGroup::Any)
        {
            let rows: Vec<u8> = ExitCode::ALL
                .iter()
                .filter(|c| c.group() == *group || c.group() == CommandGroup::Any)
                .map(|c| c.code())
                .collect();
            let distinct: BTreeSet<u8> = rows.iter().copied().collect();
            assert_eq!(distinct.len(), rows.len(), "{group:?}");
            assert!(distinct.contains(&0) && distinct.contains(&10) && distinct.contains(&64));
        }
    }

    #[test]
    fn a_command_is_in_one_group() {
        let all: Vec<&str> = CommandGroup::ALL
            .iter()
            .flat_map(|g| g.commands())
            .copied()
            .collect();
        let distinct: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn statuses_keep_their_published_numbers() {
        let codes = [
            None,
            Some(Status::Verified),
            Some(Status::Contradicted),
            Some(Status::ClaimOnly),
        ]
        .map(|s| ExitCode::of(s).code());
        assert_eq!(codes, [0, 0, 1, 3]);
        assert_eq!(ExitCode::HarnessError.code(), 10);
        assert_eq!(ExitCode::Usage.code(), 64);
    }
}
