//! Every reason that a status can have: one table from which judges, reports and the docs page read.

use super::{Axis, Status};

/// One row is written once; a code without status, sentence or remedy does not compile.
macro_rules! reasons {
    ($($variant:ident = $code:literal, $axes:expr, $status:ident, $about:literal, $settles:literal;)+) => {
        /// Why a claim has the status that it has. Ordered by the table: contradictions first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ReasonCode { $(#[doc = $about] $variant,)+ }

        impl ReasonCode {
            /// Every code, in the order of the table.
            pub const ALL: &'static [ReasonCode] = &[$(ReasonCode::$variant,)+];

            /// The stable name, which is also the anchor in the docs page.
            pub const fn code(self) -> &'static str {
                match self { $(ReasonCode::$variant => $code,)+ }
            }

            /// The axes on which it can appear.
            pub const fn axes(self) -> &'static [Axis] {
                match self { $(ReasonCode::$variant => $axes,)+ }
            }

            /// The status to which it leads.
            pub const fn status(self) -> Status {
                match self { $(ReasonCode::$variant => Status::$status,)+ }
            }

            /// What it says, in one sentence.
            pub const fn about(self) -> &'static str {
                match self { $(ReasonCode::$variant => $about,)+ }
            }

            /// What to do, or what would settle the question.
            pub const fn settles(self) -> &'static str {
                match self { $(ReasonCode::$variant => $settles,)+ }
            }
        }
    };
}

const WRITES: &[Axis] = &[Axis::Writes];
const UNDO: &[Axis] = &[Axis::Reversibility];
const BOTH: &[Axis] = &[Axis::Writes, Axis::Reversibility];

reasons! {
    WriteAttempted = "write-attempted", WRITES, Contradicted,
        "An arm tried to change the content or the names of the repo.",
        "Declare write-local, or stop the write; for a cache, switch it off (for example python -B, or --no-cache).";
    MetadataAttempted = "metadata-attempted", WRITES, Contradicted,
        "An arm tried to change modes, owners, times, attributes or flags.",
        "Declare write-local, or leave metadata alone.";
    OutsideAttempted = "outside-attempted", WRITES, Contradicted,
        "An arm tried to change HOME, another path, another process or the kernel, or left shared memory or the like behind.",
        "Declare write-local, or keep what it writes below TMPDIR and remove what it shares.";
    CanaryTouched = "canary-touched", WRITES, Contradicted,
        "An arm tried to change something that calibrun had planted; a real file in its place would have been hit too.",
        "Find out why the arm acts on files that it did not make.";
    EffectWithoutAttempt = "effect-without-attempt", WRITES, Contradicted,
        "A contained pass changed the clone, and no counted attempt explains it: the observer missed something.",
        "Report it: besides the claim, the instrument itself is in doubt.";
    UntrackedLost = "untracked-lost", UNDO, Contradicted,
        "An untracked file was removed or changed, or that was refused, and no history holds its content.",
        "Declare irreversible, or keep away from files that are not tracked.";
    IgnoredLost = "ignored-lost", UNDO, Contradicted,
        "An ignored file was removed or changed, or that was refused, and no history holds its content.",
        "Declare irreversible, or keep away from ignored files.";
    UncommittedLost = "uncommitted-lost", UNDO, Contradicted,
        "An uncommitted edit was removed or changed, or that was refused.",
        "Declare irreversible, or refuse to work on a tree with uncommitted edits.";
    StagedLost = "staged-lost", UNDO, Contradicted,
        "Staged content was removed or changed, or that was refused.",
        "Declare irreversible, or refuse to work while something is staged.";
    ConfigLost = "config-lost", UNDO, Contradicted,
        "The former text of git's config, of a hook or of an info file is gone, or its removal was refused.",
        "Declare irreversible, or pass settings with git -c.";
    HistoryLost = "history-lost", UNDO, Contradicted,
        "A ref, a reflog, a stash or an object of before is gone, or its removal was refused.",
        "Declare irreversible, or leave refs, reflogs and stashes in place.";
    OutsideDestroyed = "outside-destroyed", UNDO, Contradicted,
        "An arm tried to remove, cut, replace or move what exists in HOME or elsewhere outside the clone.",
        "Declare irreversible, or keep away from it.";
    UndoDiffers = "undo-differs", UNDO, Contradicted,
        "After the undo the tree was not what it had been.",
        "Declare irreversible, or leave behind what an undo needs.";
    NoEnforcement = "no-enforcement", BOTH, ClaimOnly,
        "The layers that refuse writes were not all in force.",
        "Run on a kernel with Landlock ABI 3 or later; calibrun doctor says what is missing.";
    NoObserver = "no-observer", BOTH, ClaimOnly,
        "Attempts could not be observed, so none seen means nothing.",
        "Run where a seccomp listener can be installed; calibrun doctor says why it cannot here.";
    InstrumentUncalibrated = "instrument-uncalibrated", BOTH, ClaimOnly,
        "The witness program's writes were not all seen and refused, or an effect was missed.",
        "Run calibrun doctor; nothing can be believed until the controls hold.";
    ArmDidNotRun = "arm-did-not-run", BOTH, ClaimOnly,
        "An arm or a pass of it is missing, could not be executed, or says that nothing ran.",
        "Make the arm run here: install what it needs, or correct its argv.";
    ArmVerdictUnexpected = "arm-verdict-unexpected", BOTH, ClaimOnly,
        "In the contained pass an arm did not end as it must.",
        "Make the declared arms land as declared, and the others end by themselves.";
    ArmsDoNotSeparate = "arms-do-not-separate", BOTH, ClaimOnly,
        "Both declared arms gave one and the same verdict, so nothing shows that anything was measured.",
        "Declare two arms whose right answers differ.";
    ArmTimedOut = "arm-timed-out", BOTH, ClaimOnly,
        "An arm was ended at the deadline; what it would have done next is unknown.",
        "Give it more time with --timeout, or an argv that ends.";
    ProcessOutlivedArm = "process-outlived-arm", BOTH, ClaimOnly,
        "Processes of an arm were still there after the linger; what they would have done is unknown.",
        "Let the arm wait for what it starts.";
    EgressAttempted = "egress-attempted", BOTH, ClaimOnly,
        "An arm tried to reach a network; a read there cannot be told from a write.",
        "Switch the network use off.";
    DelegationAttempted = "delegation-attempted", BOTH, ClaimOnly,
        "An arm tried to reach something on whose other end somebody else acts.",
        "Run it without the daemon, device or terminal that it asks.";
    UndecodableEvent = "undecodable-event", BOTH, ClaimOnly,
        "An event could not be decoded, was not kept, or came through a door that cannot be observed.",
        "Run it without io_uring and the like.";
    AbsentHere = "absent-here", BOTH, ClaimOnly,
        "An arm acted on something that is absent only in the sandbox; the real one may exist.",
        "Run where the target is present.";
    NotCarried = "not-carried", BOTH, ClaimOnly,
        "Something of the repo could not be carried into the clone, so an arm could not act on it.",
        "Take it out of the repo, or make it fit.";
    MaskedRead = "masked-read", BOTH, ClaimOnly,
        "An arm read something that had been masked, and may have behaved otherwise for it.",
        "Run without masking.";
    TempNotPrivate = "temp-not-private", BOTH, ClaimOnly,
        "An arm used a shared temp folder that this host cannot make private.",
        "Use TMPDIR, or run where mount namespaces are available.";
    WriteOpenUnresolved = "write-open-unresolved", BOTH, ClaimOnly,
        "An arm opened an existing file for writing, and nothing tells whether it would have written: the file lies outside the clone, or was mapped, and a mapped change that is put back leaves no trace.",
        "Open it for reading only.";
    MetadataNotContained = "metadata-not-contained", BOTH, ClaimOnly,
        "A metadata change was refused in the contained pass, since this host cannot contain it.",
        "Run where mount namespaces are available.";
    Nondeterministic = "nondeterministic", BOTH, ClaimOnly,
        "Repeats differ in their verdict or in what they attempted.",
        "Make the arm do the same each time.";
    EffectsOutside = "effects-outside", UNDO, ClaimOnly,
        "An arm acted, or tried to act, outside the clone, where no undo was shown.",
        "Keep effects within the repo.";
    MetadataNotKept = "metadata-not-kept", UNDO, ClaimOnly,
        "An arm changed, or tried to change, metadata that git does not keep.",
        "Leave modes (but the executable bit of tracked files), owners, attributes and flags alone.";
    PersistsExecution = "persists-execution", UNDO, ClaimOnly,
        "An arm changed a hook, a config, an attribute, a filter or a start-up file of HOME that can run code later.",
        "Leave them alone; what runs later is beyond any undo.";
    RiskedInBetween = "risked-in-between", UNDO, ClaimOnly,
        "Content that no history holds, or a part of the history itself, was changed and put back; a kill in between would have lost it.",
        "Work on a copy.";
    UndoUnproven = "undo-unproven", UNDO, ClaimOnly,
        "Effects were made or tried, and their undo was not proven.",
        "An undo that restores the tree would settle it.";
    DeclaredUnknown = "declared-unknown", UNDO, ClaimOnly,
        "The declaration says unknown, which claims nothing; the measured value stands beside it.",
        "Declare the measured value.";
    TopOfOrder = "top-of-order", BOTH, ClaimOnly,
        "The declared value is the widest of its order: nothing could contradict it.",
        "Nothing needs to be settled; a narrower value could be verified.";
    WithinClaim = "within-claim", WRITES, Verified,
        "Everything that was attempted is within the claim, in these arms, on this tree and this host.",
        "Nothing; what was not seen is listed in the report.";
    NothingChanged = "nothing-changed", UNDO, Verified,
        "Nothing was left behind that an undo would have to restore.",
        "Nothing; what was not seen is listed in the report.";
    UndoProven = "undo-proven", UNDO, Verified,
        "Every effect was undone from the clone's own history and index, and the tree was restored.",
        "Nothing; what was not seen is listed in the report.";
}

impl ReasonCode {
    /// The place in the docs that explains it.
    pub fn docs(self) -> String {
        format!("docs/verdicts.md#{}", self.code())
    }

    /// The code that `text` names.
    pub fn parse(text: &str) -> Option<ReasonCode> {
        Self::ALL.iter().copied().find(|c| c.code() == text)
    }
}

/// The whole of `docs/verdicts.md`: what a status means, then every reason by status.
pub fn verdicts_page() -> String {
    let mut page = String::from(PREAMBLE);
    for (status, heading) in [
        (Status::Contradicted, "Contradicted"),
        (Status::ClaimOnly, "Claim-only"),
        (Status::Verified, "Verified"),
    ] {
        page.push_str(&format!("\n## {heading}\n"));
        for code in ReasonCode::ALL.iter().filter(|c| c.status() == status) {
            let axes: Vec<&str> = code.axes().iter().map(|a| a.name()).collect();
            page.push_str(&format!(
                "\n### {}\n\nAxis: {}. {}\n\nWhat settles it: {}\n",
                code.code(),
                axes.join(", "),
                code.about(),
                code.settles()
            ));
        }
    }
    page
}

const PREAMBLE: &str = "\
# Verdicts

<!-- Written from the table in src/verdict/reason.rs; a test holds the two equal. -->

Each claim gets one of three statuses.

| status | meaning |
|---|---|
| verified | everything that was seen is within the claim |
| contradicted | something was seen that the claim denies |
| claim-only | nobody knows; the reasons say why, and what would settle it |

One contradiction wins over everything. Otherwise one reason for claim-only is enough. Only when
there is neither is a claim verified, and then for these arms, this tree and this host.

The order of `writes` is `read-only`, `write-local`, `write-remote`. Local writes are within a
`write-local` claim; network use and delegation leave it claim-only. Reversible means that what the
arm left in the clone, by its own history and index, suffices to restore what was there.

A planted file stands for what a user may have in its place. On `writes` it is `canary-touched`; on
`reversibility` it counts as the untracked file (denied pass), the ignored file (contained pass) or
the piece of history that it stands for.
";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_docs_page_equals_the_table() {
        let written = include_str!("../../docs/verdicts.md");
        assert_eq!(
            written,
            verdicts_page(),
            "write verdicts_page() to docs/verdicts.md"
        );
    }

    #[test]
    fn codes_are_unique_and_are_read_back() {
        let codes: BTreeSet<&str> = ReasonCode::ALL.iter().map(|c| c.code()).collect();
        assert_eq!(codes.len(), ReasonCode::ALL.len());
        for code in ReasonCode::ALL {
            assert_eq!(ReasonCode::parse(code.code()), Some(*code));
            assert!(
                code.code()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'-')
            );
        }
        assert_eq!(ReasonCode::parse("no-such-code"), None);
    }

    #[test]
    fn every_code_has_its_own_anchor_on_the_page() {
        let page = verdicts_page();
        for code in ReasonCode::ALL {
            assert_eq!(
                page.matches(&format!("\n### {}\n", code.code())).count(),
                1,
                "{code:?}"
            );
        }
    }

    #[test]
    fn the_order_puts_contradictions_first_and_verified_last() {
        let statuses: Vec<Status> = ReasonCode::ALL.iter().map(|c| c.status()).collect();
        let mut sorted = statuses.clone();
        sorted.sort_by(|a, b| b.cmp(a));
        assert_eq!(statuses, sorted);
        assert_eq!(statuses.first(), Some(&Status::Contradicted));
        assert_eq!(statuses.last(), Some(&Status::Verified));
    }
}
