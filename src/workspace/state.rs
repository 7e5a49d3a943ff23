//! What each path of the pristine tree was to git.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use calibrun_sandbox::FileKind;

use super::PathState;

/// States of all paths of a tree, by path relative to its top.
#[derive(Clone, Debug, Default)]
pub struct States {
    map: BTreeMap<PathBuf, PathState>,
}

impl States {
    /// From what each path is by itself; folders get the gravest state of what they hold.
    pub(crate) fn from_paths<'p>(
        paths: impl Iterator<Item = (&'p Path, FileKind, PathState)>,
    ) -> States {
        let mut states = States::default();
        for (path, kind, state) in paths {
            let own = if kind == FileKind::Folder && state != PathState::GitInternal {
                PathState::Clean
            } else {
                state
            };
            states.add(path, own);
        }
        states
    }

    /// The same with what calibrun planted.
    pub(crate) fn with_canaries(&self, canaries: &[PathBuf]) -> States {
        let mut states = self.clone();
        for path in canaries {
            states.add(path, PathState::Canary);
        }
        states
    }

    /// What `path` (relative to the top) was before an arm ran; [`PathState::Absent`] when nothing
    /// was there, [`PathState::NotInClone`] when it is absolute or climbs out.
    pub fn of(&self, path: &Path) -> PathState {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => plain.push(name),
                Component::CurDir => {}
                Component::Prefix(_) | Component::RootDir | Component::ParentDir => {
                    return PathState::NotInClone;
                }
            }
        }
        self.map.get(&plain).copied().unwrap_or(PathState::Absent)
    }

    /// All paths with their states, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, PathState)> {
        self.map
            .iter()
            .map(|(path, state)| (path.as_path(), *state))
    }

    fn add(&mut self, path: &Path, state: PathState) {
        let mut at = Some(path);
        while let Some(current) = at {
            let slot = self
                .map
                .entry(current.to_path_buf())
                .or_insert(PathState::Clean);
            if gravity(state) > gravity(*slot) {
                *slot = state;
            } else if current != path {
                return;
            }
            // The repo's own git folder says nothing of the folder that it makes a repo.
            at = current.parent().filter(|_| current != Path::new(".git"));
        }
    }
}

/// Orders states by what a loss would cost; history cannot bring back what is graver than clean.
const fn gravity(state: PathState) -> u8 {
    match state {
        PathState::NotInClone | PathState::Absent => 0,
        PathState::Clean => 1,
        PathState::Staged => 2,
        PathState::Ignored => 3,
        PathState::Untracked => 4,
        PathState::Uncommitted => 5,
        PathState::GitInternal => 6,
        PathState::Canary => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> States {
        use FileKind::{File, Folder};
        let rows = [
            ("", Folder, PathState::Clean),
            (".git", Folder, PathState::GitInternal),
            (".git/HEAD", File, PathState::GitInternal),
            ("a", Folder, PathState::Clean),
            ("a/b", Folder, PathState::Clean),
            ("a/b/staged", File, PathState::Staged),
            ("a/clean", File, PathState::Clean),
            ("c", Folder, PathState::Clean),
            ("c/clean", File, PathState::Clean),
            ("c/junk", File, PathState::Ignored),
            ("empty", Folder, PathState::Clean),
            ("sub", Folder, PathState::Clean),
            ("sub/.git", Folder, PathState::GitInternal),
        ];
        States::from_paths(rows.iter().map(|(p, k, s)| (Path::new(*p), *k, *s)))
    }

    #[test]
    fn a_folder_has_the_gravest_state_of_what_it_holds() {
        let states = states();
        let rows = [
            ("", PathState::GitInternal),
            (".git", PathState::GitInternal),
            ("a", PathState::Staged),
            ("a/b", PathState::Staged),
            ("a/clean", PathState::Clean),
            ("c", PathState::Ignored),
            ("c/./clean", PathState::Clean),
            ("empty", PathState::Clean),
            ("sub", PathState::GitInternal),
            ("nothing", PathState::Absent),
            ("../x", PathState::NotInClone),
            ("/x", PathState::NotInClone),
        ];
        for (path, expected) in rows {
            assert_eq!(states.of(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn canaries_weigh_most_and_leave_the_original_alone() {
        let before = states();
        let after = before.with_canaries(&[PathBuf::from("c/.canary")]);
        assert_eq!(after.of(Path::new("c/.canary")), PathState::Canary);
        assert_eq!(after.of(Path::new("c")), PathState::Canary);
        assert_eq!(after.of(Path::new("c/junk")), PathState::Ignored);
        assert_eq!(after.of(Path::new("a")), PathState::Staged);
        assert_eq!(before.of(Path::new("c/.canary")), PathState::Absent);
    }
}
