//! What an arm left in scratch, HOME and shared memory, as found when its last process had ended.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::session::Session;
use crate::attempt::{Attempt, Effect, Mark, Outcome, Place};
use crate::launch::temp_folders;
use crate::supervise::ledger::pathless;

impl Session<'_> {
    /// Lists what is left in scratch, and what was changed there that was not the arm's own.
    pub(super) fn look_at_scratch(&mut self) {
        let tmpdir = self.tmpdir();
        if !self.layers.mounts {
            self.residue
                .extend(list(&tmpdir).into_iter().map(|rest| tmpdir.join(rest)));
            self.residue.sort();
            return;
        }
        let places = self.places();
        for (index, temp) in temp_folders().iter().enumerate() {
            let upper = self.order.scratch.join(format!("temp{index}/upper"));
            let place = if self.layers.temp_overlay {
                upper
            } else {
                self.inside(temp)
            };
            for rest in list(&place) {
                let path = temp.join(&rest);
                let hidden = places.hidden.contains(&path) && is_whiteout(&place.join(&rest));
                if path == tmpdir || hidden {
                    continue;
                }
                // The supervisor refuses both; whatever is found came past it.
                let old = places.is_shown(&path);
                let in_old_folder = path
                    .parent()
                    .is_some_and(|p| p != temp && places.is_shown(p));
                if self.layers.temp_overlay && (old || in_old_folder) {
                    self.attempts.push(unseen(Place::Outside, &path));
                }
                self.residue.push(path);
            }
        }
        let shm = Path::new("/dev/shm");
        self.residue.extend(
            list(&self.inside(shm))
                .into_iter()
                .map(|rest| shm.join(rest)),
        );
        // Mount points that the private folders needed are no residue of the arm's, and neither is
        // what is mounted there.
        let mut private = temp_folders();
        private.push(shm.to_owned());
        let below = |path: &&PathBuf| private.iter().any(|t| *path != t && path.starts_with(t));
        let mounted = [&self.order.repo, &self.order.home];
        let mounted: Vec<_> = mounted.into_iter().filter(below).collect();
        let needed: Vec<_> = mounted.iter().copied().chain([&tmpdir]).collect();
        self.residue.retain(|path| {
            !needed.iter().any(|n| n.starts_with(path))
                && !mounted.iter().any(|m| path.starts_with(m))
        });
        for path in self.residue.iter().filter(|path| path.starts_with(shm)) {
            let mut attempt = left_behind(path.as_os_str().as_bytes().to_vec());
            attempt.target.resolved = Some(path.clone());
            self.attempts.push(attempt);
        }
        self.look_at_home();
        self.residue.sort();
    }

    /// Compares what is in the private HOME with what was seen.
    fn look_at_home(&mut self) {
        if !self.layers.home_overlay {
            return;
        }
        let home = &self.job.layout.home;
        let upper = self.order.scratch.join("home/upper");
        let seen: HashSet<PathBuf> = self
            .attempts
            .iter()
            .flat_map(|attempt| [Some(&attempt.target), attempt.to.as_ref()])
            .flatten()
            .filter(|target| target.place == Place::Home)
            .filter_map(|target| target.resolved.clone())
            .collect();
        let mut found = Vec::new();
        for rest in list(&upper) {
            let path = home.join(&rest);
            // A folder is copied up when something in it is; what came with a moved folder was not named.
            let explained = seen
                .iter()
                .any(|seen| seen.starts_with(&path) || path.starts_with(seen));
            if !explained {
                found.push(unseen(Place::Home, &path));
            }
            self.residue.push(path);
        }
        self.attempts.extend(found);
    }

    /// `path` in the subject's view.
    fn inside(&self, path: &Path) -> PathBuf {
        let relative = path.strip_prefix("/").unwrap_or(path);
        PathBuf::from(format!("/proc/{}/root", self.init)).join(relative)
    }
}

/// A change that was found afterwards and never seen as an attempt.
fn unseen(place: Place, path: &Path) -> Attempt {
    let raw = path.as_os_str().as_bytes().to_vec();
    let mut attempt = pathless(
        Effect::WriteOpen,
        place,
        Outcome::Allowed,
        "(found afterwards)",
        raw,
    );
    attempt.target.resolved = Some(path.to_owned());
    attempt
}

/// An ipc object that outlived the arm.
pub(super) fn left_behind(raw: Vec<u8>) -> Attempt {
    let mut attempt = pathless(
        Effect::Create,
        Place::Ipc,
        Outcome::Allowed,
        "(found afterwards)",
        raw,
    );
    attempt.marks.push(Mark::LeftBehind);
    attempt
}

/// Whether a name in an overlay's upper folder says that there is nothing.
fn is_whiteout(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|meta| meta.file_type().is_char_device() && meta.rdev() == 0)
}

/// Everything below `top`, relative to it; unreadable folders are named but not entered.
fn list(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(top.join(&folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}
