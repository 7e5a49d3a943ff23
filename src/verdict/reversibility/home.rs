//! What an arm does in HOME, of which the contained pass has a private copy where the host can.

use calibrun_sandbox::{Attempt, Effect, Outcome, Pass, Place, Target};

use super::super::evidence::{Item, Made};
use super::super::startup;
use super::Contained;

/// Whether an attempt in HOME makes or changes only what can be removed again.
///
/// What is created in a private copy of HOME can be removed; a change of what was there cannot be
/// undone. A creation that the denied pass refused is of the same kind where the contained pass
/// made the same, or something beside it.
pub(super) fn is_removable(item: &Item<'_>, contained: &Contained<'_>, made: &Made<'_>) -> bool {
    let attempt = &item.observed.attempt;
    if attempt.place != Place::Home {
        return false;
    }
    let own = |target: &Target| {
        target.place != Place::Home || target.existed.is_none() || made.before(item.index, target)
    };
    let performed = match (item.pass.pass, attempt.outcome) {
        (_, Outcome::Allowed) => true,
        (Pass::Denied, Outcome::Denied) => {
            let new = attempt.to.as_ref().unwrap_or(&attempt.target);
            contained.made_like(new)
        }
        (Pass::Contained, Outcome::Denied) | (_, Outcome::NoOp | Outcome::Unknown) => false,
    };
    let creates = match attempt.effect {
        Effect::Create | Effect::Link | Effect::Rename | Effect::Bind => true,
        Effect::WriteOpen
        | Effect::Truncate
        | Effect::Remove
        | Effect::Mode
        | Effect::Owner
        | Effect::Times
        | Effect::Xattr
        | Effect::Flags => attempt.outcome == Outcome::Allowed,
        Effect::Connect
        | Effect::Send
        | Effect::Signal
        | Effect::Limit
        | Effect::Mount
        | Effect::Kernel => false,
    };
    performed && creates && own(&attempt.target) && attempt.to.as_ref().is_none_or(own)
}

/// Whether either end of the attempt is a start-up file in HOME.
pub(super) fn runs_later(attempt: &Attempt) -> bool {
    std::iter::once(&attempt.target)
        .chain(&attempt.to)
        .any(|end| {
            end.place == Place::Home && end.resolved.as_deref().is_some_and(startup::runs_later)
        })
}

#[cfg(test)]
mod tests {
    use super::super::super::sample::{ask, at, command};
    use super::super::super::{ReasonCode, Status, judge};
    use crate::record::{Observed, Record, UndoOutcome};
    use ReasonCode::{
        EffectsOutside, OutsideDestroyed, PersistsExecution, UndoProven, WriteOpenUnresolved,
    };
    use calibrun_sandbox::{Effect, Place};

    fn home(effect: Effect, name: &str, exists: bool) -> Observed {
        at(effect, Place::Home, &format!("/home/dev/{name}"), exists)
    }

    fn onto(observed: Observed, name: &str, exists: bool) -> Observed {
        observed.onto_place(Place::Home, &format!("/home/dev/{name}"), exists)
    }

    fn codes(record: Record) -> (Status, Vec<ReasonCode>) {
        let verdict = judge(&record.undone(UndoOutcome::Untouched), &ask());
        assert_ne!(verdict.writes.status, Some(Status::Verified));
        let mut codes: Vec<_> = verdict
            .reversibility
            .reasons
            .iter()
            .map(|r| r.code)
            .collect();
        codes.dedup();
        (verdict.reversibility.status.expect("claimed"), codes)
    }

    /// A contained pass alone.
    fn contained(observed: Vec<Observed>) -> (Status, Vec<ReasonCode>) {
        let allowed = observed.into_iter().map(Observed::allowed).collect();
        codes(command(vec![], allowed, vec![]))
    }

    #[test]
    fn what_the_arm_made_in_a_private_home_may_be_changed_and_removed() {
        let folder = home(Effect::Create, ".c", false);
        let every = [
            Effect::WriteOpen,
            Effect::Truncate,
            Effect::Remove,
            Effect::Mode,
            Effect::Owner,
            Effect::Times,
            Effect::Xattr,
            Effect::Flags,
        ];
        for effect in every {
            let own = vec![
                folder.clone(),
                home(Effect::Create, ".c/x", false),
                home(effect, ".c/x", true),
            ];
            assert_eq!(contained(own), (Status::Verified, vec![UndoProven]));
        }
        // A folder that came to its name with everything in it.
        for effect in every {
            let moved = vec![
                home(Effect::Create, ".c.tmp", false),
                home(Effect::Create, ".c.tmp/x", false),
                onto(home(Effect::Rename, ".c.tmp", true), ".c", false),
                home(effect, ".c/x", true),
            ];
            assert_eq!(contained(moved), (Status::Verified, vec![UndoProven]));
        }
        // Over what it had made, and a second name for it.
        let more = vec![
            home(Effect::Create, "a", false),
            home(Effect::Create, "b", false),
            onto(home(Effect::Link, "a", true), "c", false),
            home(Effect::Truncate, "c", true),
            onto(home(Effect::Rename, "a", true), "b", true),
        ];
        assert_eq!(contained(more), (Status::Verified, vec![UndoProven]));
    }

    #[test]
    fn what_existed_in_home_cannot_be_changed_and_undone() {
        let cases = [
            (home(Effect::Remove, "x", true), OutsideDestroyed),
            (home(Effect::Truncate, "x", true), OutsideDestroyed),
            (
                onto(home(Effect::Rename, "x", true), "y", false),
                OutsideDestroyed,
            ),
            (home(Effect::Mode, "x", true), EffectsOutside),
            (home(Effect::Owner, "x", true), EffectsOutside),
            (home(Effect::Times, "x", true), EffectsOutside),
            (home(Effect::Xattr, "x", true), EffectsOutside),
            (home(Effect::Flags, "x", true), EffectsOutside),
            (
                onto(home(Effect::Link, "x", true), "y", false),
                EffectsOutside,
            ),
            (home(Effect::WriteOpen, "x", true), WriteOpenUnresolved),
        ];
        for (attempt, code) in cases {
            for before in [
                vec![],
                // A creation of something else, or of the same only later.
                vec![home(Effect::Create, "other", false)],
                vec![home(Effect::Create, "x.d", false)],
            ] {
                let mut observed = before;
                observed.push(attempt.clone());
                observed.push(home(Effect::Create, "x", false));
                let (status, found) = contained(observed);
                assert_eq!(status, code.status(), "{attempt:?}");
                assert!(found.contains(&code), "{attempt:?} {found:?}");
            }
        }
        let over = vec![
            home(Effect::Create, "t", false),
            onto(home(Effect::Rename, "t", true), "x", true),
        ];
        assert_eq!(contained(over).0, Status::Contradicted);
    }

    #[test]
    fn a_second_name_does_not_make_content_the_arms_own() {
        for effect in [Effect::Truncate, Effect::Remove] {
            let record = vec![
                home(Effect::Create, "new", false),
                onto(home(Effect::Link, "x", true), "new.hl", false),
                home(effect, "new.hl", true),
            ];
            assert_eq!(contained(record).0, Status::Contradicted, "{effect}");
        }
    }

    #[test]
    fn a_refused_creation_is_excused_by_one_like_it_in_the_private_copy() {
        let made = |name| home(Effect::Create, name, false);
        let with = |denied: Observed, contained: Vec<Observed>| {
            let contained = contained.into_iter().map(Observed::allowed).collect();
            codes(command(vec![denied], contained, vec![]))
        };
        let verified = (Status::Verified, vec![UndoProven]);
        assert_eq!(with(made(".c"), vec![made(".c"), made(".c/x")]), verified);
        // Temp files have another name in each run.
        assert_eq!(with(made(".c/tmp1"), vec![made(".c/tmp2")]), verified);
        assert_eq!(with(made(".c/d/tmp1"), vec![made(".c")]), verified);
        let open = (Status::ClaimOnly, vec![EffectsOutside]);
        assert_eq!(with(made(".c"), vec![]), open);
        assert_eq!(with(made(".d/x"), vec![made(".c/x")]), open);
        // Refused in the copy itself.
        let refused = command(vec![], vec![made(".c").allowed(), made(".c/s")], vec![]);
        assert_eq!(codes(refused), open);
        // A change of what exists is never excused.
        let times = home(Effect::Times, ".c", true);
        assert_eq!(with(times, vec![made(".c/x")]).0, Status::ClaimOnly);
        let gone = home(Effect::Remove, ".c/x", true);
        assert_eq!(with(gone, vec![made(".c/y")]).0, Status::Contradicted);
    }

    #[test]
    fn a_start_up_file_runs_later_whether_or_not_it_can_be_removed() {
        let direct = vec![home(Effect::Create, ".bashrc", false)];
        let moved = vec![
            home(Effect::Create, ".gitconfig.lock", false),
            onto(
                home(Effect::Rename, ".gitconfig.lock", true),
                ".gitconfig",
                false,
            ),
        ];
        for observed in [direct, moved] {
            let (status, found) = contained(observed);
            assert_eq!(
                (status, found),
                (Status::ClaimOnly, vec![PersistsExecution])
            );
        }
    }
}
