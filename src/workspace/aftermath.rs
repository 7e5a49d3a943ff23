//! Looks at a tree after an arm ran on it: what changed, and whether that can be undone.
//!
//! Nothing here should be able to block. Should something do so all the same, a deadline ends the
//! look, and the thread is left behind: a subject must not be able to stop the judgement for good.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::beneath::Beneath;
use super::{Change, Manifest, Tree, UndoReport, WorkspaceError, diff, undo, untouched};

/// How long a look may take. Reading each object of a very long history takes minutes.
const LIMIT: Duration = Duration::from_secs(1800);
/// How often the caller is asked whether to stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// Bytes of an index that is compared.
const INDEX_LIMIT: u64 = 512 << 20;

/// What an arm left.
#[derive(Clone, Debug)]
pub struct Aftermath {
    /// The tree after the run, before any undo.
    pub after: Manifest,
    /// What differs from the baseline.
    pub changes: Vec<Change>,
    /// What an undo did; `None` when nothing had changed.
    pub undo: Option<UndoReport>,
}

/// The bytes of an index below `root`.
///
/// # Errors
/// When there is none, or no regular file of at most 512 MiB that is reached without a link.
pub fn read_index(root: &Path, path: &Path) -> std::io::Result<Vec<u8>> {
    Beneath::open(root)?.read(path, INDEX_LIMIT)
}

/// Compares the tree with its baseline, and undoes what changed.
///
/// `written` are the files that were opened for writing, relative to the top. Waits half an hour at most, and asks `interrupted` several
/// times a second.
///
/// # Errors
/// Beside failing calls: [`WorkspaceError::Interrupted`], and [`WorkspaceError::Endless`] at the
/// deadline.
pub fn aftermath(
    tree: &Tree,
    written: BTreeSet<PathBuf>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Aftermath, WorkspaceError> {
    let own = tree.clone();
    within(LIMIT, &tree.root, interrupted, move || look(&own, &written))?
}

fn look(tree: &Tree, written: &BTreeSet<PathBuf>) -> Result<Aftermath, WorkspaceError> {
    let after = tree.baseline.retake(&tree.root, written)?;
    let changes = diff(&tree.baseline, &after, &tree.states);
    let undo = if untouched(&tree.baseline, &after) {
        None
    } else {
        Some(undo(tree, &tree.baseline, &after)?)
    };
    Ok(Aftermath {
        after,
        changes,
        undo,
    })
}

/// Runs `work` in a thread of its own and waits for it, but no longer than `limit`.
fn within<T: Send + 'static>(
    limit: Duration,
    path: &Path,
    interrupted: &dyn Fn() -> bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WorkspaceError> {
    let (done, wait) = channel();
    let thread = thread::Builder::new()
        .name("aftermath".to_owned())
        .spawn(move || {
            // Nobody listens any more after the deadline.
            let _ = done.send(work());
        })
        .map_err(|source| WorkspaceError::Look {
            path: path.to_path_buf(),
            source,
        })?;
    let begin = Instant::now();
    loop {
        match wait.recv_timeout(PATIENCE) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("the thread sends before it ends"),
            },
            Err(RecvTimeoutError::Timeout) if interrupted() => {
                return Err(WorkspaceError::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) if begin.elapsed() >= limit => {
                return Err(WorkspaceError::Endless {
                    path: path.to_path_buf(),
                    limit,
                });
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_never_ends_is_an_error_and_work_that_does_is_none() {
        let (never, blocked) = channel::<()>();
        let limit = Duration::from_millis(120);
        let path = Path::new("/tree");
        let endless = within(limit, path, &|| false, move || blocked.recv().is_ok());
        assert!(matches!(endless, Err(WorkspaceError::Endless { .. })));
        drop(never);
        let (never, blocked) = channel::<()>();
        let stopped = within(LIMIT, path, &|| true, move || blocked.recv().is_ok());
        assert!(matches!(stopped, Err(WorkspaceError::Interrupted)));
        drop(never);
        assert_eq!(within(limit, path, &|| true, || 7).unwrap(), 7);
    }

    #[test]
    #[should_panic(expected = "a fault of its own")]
    fn a_fault_is_not_swallowed() {
        let _ = within(LIMIT, Path::new("/tree"), &|| false, || {
            panic!("a fault of its own")
        });
    }
}
