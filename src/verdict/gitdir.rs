//! What a path in a git folder is to git (gitrepository-layout(5)).

use std::ffi::OsStr;
use std::path::Path;

/// The part of a git folder to which a path belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum GitPart {
    /// Objects and packs, and the files that only speed them up.
    Objects,
    /// A loose ref.
    Refs,
    /// The packed refs.
    PackedRefs,
    /// The checked-out branch or commit.
    Head,
    /// A reflog, that of the stash included.
    Logs,
    /// Settings.
    Config,
    /// Programs that git runs.
    Hooks,
    /// Attributes that can name a filter, in the git folder or in the tree.
    Attributes,
    /// Excludes and the like.
    Info,
    /// The index.
    Index,
    /// The lock under which the index is rewritten.
    IndexLock,
    /// A lock, a remembered head or a message: git makes and drops them by itself.
    Volatile,
    /// Anything else, or no path in a git folder.
    Other,
}

/// The part to which `path` belongs, relative to the top of the clone.
///
/// The git folders of submodules (`modules/NAME`) and of linked worktrees (`worktrees/NAME`) are
/// entered.
pub(crate) fn part(path: &Path) -> GitPart {
    let names: Vec<&OsStr> = path.iter().collect();
    let Some(git) = names.iter().rposition(|n| *n == ".git") else {
        return match path.file_name() {
            Some(name) if name == ".gitattributes" => GitPart::Attributes,
            _ => GitPart::Other,
        };
    };
    let inside = &names[git + 1..];
    let inside = match inside.first() {
        Some(first) if *first == "modules" || *first == "worktrees" => {
            // A submodule's name may have several parts; its own git folder begins at the first known one.
            let known = inside
                .iter()
                .skip(2)
                .position(|n| part_of(&[n]) != GitPart::Other);
            known.map_or(&[][..], |at| &inside[2 + at..])
        }
        _ => inside,
    };
    part_of(inside)
}

fn part_of(inside: &[&OsStr]) -> GitPart {
    let Some(first) = inside.first().and_then(|n| n.to_str()) else {
        return GitPart::Other;
    };
    if first == "index.lock" {
        return GitPart::IndexLock;
    }
    if inside
        .last()
        .and_then(|n| n.to_str())
        .is_some_and(|n| n.ends_with(".lock"))
    {
        return GitPart::Volatile;
    }
    match first {
        "objects" => GitPart::Objects,
        "refs" => GitPart::Refs,
        "packed-refs" => GitPart::PackedRefs,
        "HEAD" => GitPart::Head,
        "logs" => GitPart::Logs,
        "config" | "config.worktree" => GitPart::Config,
        "hooks" => GitPart::Hooks,
        "info" => match inside.get(1).and_then(|n| n.to_str()) {
            Some("attributes") => GitPart::Attributes,
            // Generated for dumb transports by git-update-server-info(1).
            Some("refs") => GitPart::Volatile,
            _ => GitPart::Info,
        },
        "index" => GitPart::Index,
        "ORIG_HEAD" | "FETCH_HEAD" | "MERGE_HEAD" | "MERGE_MSG" | "MERGE_MODE" | "AUTO_MERGE"
        | "COMMIT_EDITMSG" | "SQUASH_MSG" | "gc.pid" | "gc.log" => GitPart::Volatile,
        _ => GitPart::Other,
    }
}

impl GitPart {
    /// Whether a change here can make git run something later.
    pub(crate) const fn runs_later(self) -> bool {
        match self {
            GitPart::Config | GitPart::Hooks | GitPart::Attributes => true,
            GitPart::Objects
            | GitPart::Refs
            | GitPart::PackedRefs
            | GitPart::Head
            | GitPart::Logs
            | GitPart::Info
            | GitPart::Index
            | GitPart::IndexLock
            | GitPart::Volatile
            | GitPart::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_belong_to_the_part_that_git_says() {
        for (path, want) in [
            (".git/refs/heads/main", GitPart::Refs),
            (".git/refs/heads/main.lock", GitPart::Volatile),
            (".git/packed-refs", GitPart::PackedRefs),
            (".git/HEAD", GitPart::Head),
            (".git/logs/HEAD", GitPart::Logs),
            (".git/logs/refs/stash", GitPart::Logs),
            (".git/config", GitPart::Config),
            (".git/hooks/pre-commit", GitPart::Hooks),
            (".git/info/attributes", GitPart::Attributes),
            (".git/info/exclude", GitPart::Info),
            (".git/info/refs", GitPart::Volatile),
            (".git/index", GitPart::Index),
            (".git/index.lock", GitPart::IndexLock),
            (".git/ORIG_HEAD", GitPart::Volatile),
            (".git/objects/pack/pack-1.pack", GitPart::Objects),
            (".git/modules/a/b/refs/heads/x", GitPart::Refs),
            (".git/modules/refs/config", GitPart::Config),
            (".git/worktrees/w/HEAD", GitPart::Head),
            ("sub/.git/config", GitPart::Config),
            ("src/.gitattributes", GitPart::Attributes),
            ("config", GitPart::Other),
            (".git/annex/x", GitPart::Other),
            (".git", GitPart::Other),
        ] {
            assert_eq!(part(Path::new(path)), want, "{path}");
        }
    }
}
