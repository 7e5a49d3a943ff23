//! Attempts as they come in: equal ones are counted together, and memory stays bounded.

use std::collections::HashMap;
use std::ffi::OsString;

use crate::attempt::{Attempt, Effect, FileKind, Mark, Outcome, Place, Target};

/// Distinct attempts that are kept whole; later ones are counted by effect, place and outcome.
const MOST: usize = 20_000;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    effect: Effect,
    place: Place,
    outcome: Outcome,
    call: &'static str,
    target: Target,
    to: Option<Target>,
    marks: Vec<Mark>,
    program: OsString,
    command: Vec<OsString>,
}

/// The attempts of one run, in the order of their first occurrence.
#[derive(Default)]
pub(crate) struct Ledger {
    attempts: Vec<Attempt>,
    places: HashMap<Key, usize>,
    overflowed: bool,
}

impl Ledger {
    pub(crate) fn add(&mut self, mut attempt: Attempt) {
        let mut key = key_of(&attempt);
        if self.places.len() >= MOST && !self.places.contains_key(&key) {
            // What a judge needs survives: effect, place, outcome, whether content was there.
            self.overflowed = true;
            fold(&mut attempt.target);
            if let Some(to) = &mut attempt.to {
                fold(to);
            }
            attempt.program = OsString::new();
            attempt.command = Vec::new();
            key = key_of(&attempt);
        }
        match self.places.get(&key) {
            Some(index) => self.attempts[*index].count += attempt.count,
            None => {
                self.places.insert(key, self.attempts.len());
                self.attempts.push(attempt);
            }
        }
    }

    /// The attempts, and whether some could only be counted.
    pub(crate) fn finish(self) -> (Vec<Attempt>, bool) {
        (self.attempts, self.overflowed)
    }
}

fn fold(target: &mut Target) {
    target.raw = b"(more)".to_vec();
    target.resolved = None;
}

fn key_of(attempt: &Attempt) -> Key {
    Key {
        effect: attempt.effect,
        place: attempt.place,
        outcome: attempt.outcome,
        call: attempt.call,
        target: attempt.target.clone(),
        to: attempt.to.clone(),
        marks: attempt.marks.clone(),
        program: attempt.program.clone(),
        command: attempt.command.clone(),
    }
}

/// An attempt on a place that has no path.
pub(crate) fn pathless(
    effect: Effect,
    place: Place,
    outcome: Outcome,
    call: &'static str,
    raw: Vec<u8>,
) -> Attempt {
    let existed: Option<FileKind> = None;
    Attempt {
        effect,
        place,
        target: Target {
            place,
            raw,
            resolved: None,
            existed,
        },
        to: None,
        outcome,
        marks: Vec::new(),
        call,
        pid: 0,
        program: OsString::new(),
        command: Vec::new(),
        count: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(name: String) -> Attempt {
        pathless(
            Effect::Create,
            Place::Worktree,
            Outcome::Denied,
            "mkdir",
            name.into_bytes(),
        )
    }

    #[test]
    fn equal_attempts_are_counted_together_and_others_are_not() {
        let mut ledger = Ledger::default();
        for name in ["a", "b", "a", "a"] {
            ledger.add(attempt(name.into()));
        }
        let (attempts, overflowed) = ledger.finish();
        assert_eq!(attempts.iter().map(|a| a.count).collect::<Vec<_>>(), [3, 1]);
        assert!(!overflowed);
    }

    #[test]
    fn memory_stays_bounded_and_nothing_is_uncounted() {
        let mut ledger = Ledger::default();
        for n in 0..MOST + 500 {
            ledger.add(attempt(n.to_string()));
        }
        let (attempts, overflowed) = ledger.finish();
        assert!(overflowed);
        assert!(attempts.len() <= MOST + 1);
        assert_eq!(
            attempts.iter().map(|a| a.count).sum::<u64>(),
            (MOST + 500) as u64
        );
    }
}
