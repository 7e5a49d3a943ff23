//! The pristine copy of a field repo, and the trees that passes run on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use calibrun_sandbox::FileKind;

use super::carry::{self, Notes};
use super::equality::untouched;
use super::manifest::{Entry, Manifest, Moment};
use super::survey::{self, Survey};
use super::{
    FieldRepo, PathState, States, TempPlaces, TempRoot, WorkspaceError, canary, clone, content,
};

/// What a caller decides about a workspace.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folders that hold an entry, relative to the top; each gets canaries.
    pub entry_dirs: Vec<PathBuf>,
    /// Eight hex digits that name this workspace's canaries; random, so that no subject knows them.
    pub canary_id: String,
    /// Bytes of ignored files that are carried over.
    pub ignored_bytes: u64,
    /// Number of ignored files that are carried over.
    pub ignored_files: u64,
    /// Where the copies may lie.
    pub places: TempPlaces,
}

impl Options {
    /// 512 MiB and 200 000 ignored files, on `/dev/shm` or else `/tmp`.
    pub fn new(canary_id: impl Into<String>) -> Options {
        Options {
            entry_dirs: Vec::new(),
            canary_id: canary_id.into(),
            ignored_bytes: 512 << 20,
            ignored_files: 200_000,
            places: TempPlaces::default(),
        }
    }
}

/// What the preparation is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Measuring the repo and finding room for its copies.
    Measure,
    /// Copying the git folder.
    GitFolder,
    /// Copying the working state.
    Files,
    /// Settling the index.
    Index,
    /// Making sure that the repo did not change meanwhile.
    Check,
}

/// The pristine copy of a field repo in a temp root of its own; all goes when it is dropped.
#[derive(Debug)]
pub struct Workspace {
    root: TempRoot,
    field_top: PathBuf,
    name: OsString,
    pristine: PathBuf,
    /// Git folder and work tree of each repo in the copy, relative to its top.
    repos: Vec<(PathBuf, PathBuf)>,
    git_dirs: Vec<PathBuf>,
    states: Arc<States>,
    plan: canary::Plan,
    index_mtime: Moment,
    notes: Notes,
    trees: u32,
    first: Option<Arc<Manifest>>,
}

/// One copy for passes to run on.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The copy's top on this host.
    pub root: PathBuf,
    /// The folder, in the temp root and of this tree alone, that holds `root` and nothing else.
    pub parent: PathBuf,
    /// The field repo's own top, where a subject sees the copy if mounts are available.
    pub repo: PathBuf,
    /// Git folders, relative to `root`.
    pub git_dirs: Vec<PathBuf>,
    /// The top of the work tree of each git folder that has one; both relative to `root`.
    pub work_trees: BTreeMap<PathBuf, PathBuf>,
    /// The temp root that holds everything.
    pub temp_root: PathBuf,
    /// Planted files, relative to `root`, sorted.
    pub canaries: Vec<PathBuf>,
    /// What each path was to git before any arm ran.
    pub states: Arc<States>,
    /// Everything in the tree before any arm ran.
    pub baseline: Arc<Manifest>,
}

impl Workspace {
    /// Copies the field repo's history and working state into a new temp root.
    ///
    /// # Errors
    /// When there is no room, when something cannot be written, when the repo's index, HEAD or refs
    /// change meanwhile. What only cannot be read is left out and listed by
    /// [`Workspace::not_carried`].
    pub fn prepare(
        field: &FieldRepo,
        options: &Options,
        progress: &dyn Fn(Stage),
    ) -> Result<Workspace, WorkspaceError> {
        progress(Stage::Measure);
        let before = fingerprint(field);
        let mut notes = Notes::default();
        let (paths, left_out) = select(&field.survey, options, &mut notes);
        let files: u64 = field
            .survey
            .items
            .iter()
            .filter(|item| !is_left_out(item, &left_out))
            .map(|item| item.size.next_multiple_of(4096).max(4096))
            .sum();
        let one = files + clone::size_of_git_dir(field)?;
        // The pristine copy, the denied tree, a contained one, and room for what an arm writes.
        let root = TempRoot::with_room(
            one.saturating_mul(3).saturating_add(64 << 20),
            &options.places,
        )?;
        let name = field
            .top()
            .file_name()
            .map_or_else(|| OsString::from("root"), ToOwned::to_owned);
        let parent = root.path().join("pristine");
        carry::make_folder(&parent)?;
        let pristine = parent.join(&name);
        carry::make_folder(&pristine)?;

        progress(Stage::GitFolder);
        let git_dir = pristine.join(".git");
        clone::clone_git_dir(field, &git_dir, &mut notes)?;

        progress(Stage::Files);
        carry::copy_paths(field.top(), &pristine, paths.iter().copied(), &mut notes)?;
        for path in &field.survey.foreign_git_files {
            notes.not_carried.push(format!(
                "{}: leads to a git folder outside the repo, which is not carried over",
                path.display()
            ));
        }

        progress(Stage::Index);
        let mut repos = vec![(PathBuf::from(".git"), PathBuf::new())];
        repos.extend(
            field
                .survey
                .nested
                .iter()
                .map(|n| (n.git_dir.clone(), n.top.clone())),
        );
        repos.retain(|(dir, _)| pristine.join(dir).is_dir());
        let mut git_dirs: Vec<PathBuf> = repos.iter().map(|(dir, _)| dir.clone()).collect();
        git_dirs.extend(
            field
                .survey
                .nested_git_dirs
                .iter()
                .filter(|dir| pristine.join(dir).is_dir())
                .cloned(),
        );
        git_dirs.sort();
        git_dirs.dedup();
        let mut index_mtime = None;
        for (dir, top) in &repos {
            let settled = settle_from_field(field, &pristine, dir, top)?;
            index_mtime = index_mtime.max(settled);
        }
        let states = states_of(&pristine, &field.survey)?;
        let index_mtime = match index_mtime {
            Some(mtime) => mtime,
            None => mtime_of(&git_dir)?,
        };
        for (dir, _) in &repos {
            let index = pristine.join(dir).join("index");
            if index.exists() {
                carry::set_mtime(&index, index_mtime)?;
            }
        }

        progress(Stage::Check);
        if let Some((path, _)) = before
            .into_iter()
            .zip(fingerprint(field))
            .find(|(a, b)| a != b)
            .map(|(a, _)| a)
        {
            return Err(WorkspaceError::ChangedMeanwhile { path });
        }
        let plan = canary::Plan {
            id: options.canary_id.clone(),
            folders: canary::folders(&pristine, &options.entry_dirs),
            recent: index_mtime,
        };
        Ok(Workspace {
            root,
            field_top: field.top().to_path_buf(),
            name,
            pristine,
            repos,
            git_dirs,
            states: Arc::new(states),
            plan,
            index_mtime,
            notes,
            trees: 0,
            first: None,
        })
    }

    /// What could not be carried over, or not be read in a copy, one line each; any of them leaves
    /// claims unsettled. Complete once the last tree was made.
    pub fn not_carried(&self) -> &[String] {
        &self.notes.not_carried
    }

    /// Remarks on the copy that take nothing from it.
    pub fn remarks(&self) -> &[String] {
        &self.notes.remarks
    }

    /// The temp root of all copies.
    pub fn temp_root(&self) -> &TempRoot {
        &self.root
    }

    /// Gives the temp root away, to be kept or removed by the caller.
    pub fn into_temp_root(self) -> TempRoot {
        self.root
    }

    /// The field repo's own top.
    pub fn field_top(&self) -> &Path {
        &self.field_top
    }

    /// States of the pristine copy, without canaries.
    pub fn states(&self) -> &States {
        &self.states
    }

    /// The untouched copy that all trees are made from; not for arms.
    pub fn pristine(&self) -> &Path {
        &self.pristine
    }

    /// A tree for denied passes, to be bound read-only: with canaries that git lists, and canary
    /// refs.
    pub fn denied(&mut self) -> Result<Tree, WorkspaceError> {
        let (parent, root) = self.copy("denied")?;
        let canaries = canary::plant_files(&root, &self.plan, &self.states)?;
        canary::plant_refs(&root, &self.plan)?;
        self.tree(parent, root, canaries)
    }

    /// A tree for a contained pass: private, writable, with canaries that git ignores.
    ///
    /// # Errors
    /// Beside failing calls: [`WorkspaceError::CopyDiffers`] when it is not what the first one was.
    pub fn fresh(&mut self) -> Result<Tree, WorkspaceError> {
        let (parent, root) = self.copy("contained")?;
        canary::exclude(&root, &self.plan)?;
        let canaries = canary::plant_files(&root, &self.plan, &self.states)?;
        let tree = self.tree(parent, root, canaries)?;
        match &self.first {
            None => self.first = Some(tree.baseline.clone()),
            Some(first) => same_copy(first, &tree.baseline)?,
        }
        Ok(tree)
    }

    /// The same tree if the pass that ended with `after` left it untouched; else it is removed
    /// whole, and a fresh one is made. A tree is never mended.
    pub fn reuse_or_fresh(&mut self, tree: Tree, after: &Manifest) -> Result<Tree, WorkspaceError> {
        if untouched(&tree.baseline, after) {
            return Ok(tree);
        }
        self.remove(tree)?;
        self.fresh()
    }

    /// Removes a tree that is no longer needed.
    pub fn remove(&self, tree: Tree) -> Result<(), WorkspaceError> {
        self.root
            .discard(&tree.parent)
            .map_err(|source| WorkspaceError::Remove {
                path: tree.parent,
                source,
            })
    }

    fn copy(&mut self, kind: &str) -> Result<(PathBuf, PathBuf), WorkspaceError> {
        let parent = self.root.path().join(format!("{kind}-{}", self.trees));
        self.trees += 1;
        carry::make_folder(&parent)?;
        let root = parent.join(&self.name);
        let mut notes = Notes::default();
        carry::copy_tree(&self.pristine, &root, &mut notes)?;
        // The pristine copy is ours and still: nothing in it may have become unreadable.
        if let Some(line) = notes.not_carried.into_iter().chain(notes.remarks).next() {
            return Err(WorkspaceError::CopyDiffers {
                path: PathBuf::new(),
                what: line,
            });
        }
        Ok((parent, root))
    }

    fn tree(
        &mut self,
        parent: PathBuf,
        root: PathBuf,
        canaries: Vec<PathBuf>,
    ) -> Result<Tree, WorkspaceError> {
        for (dir, top) in &self.repos {
            let Some((mut index, mtime)) = survey::read_index(&self.pristine.join(dir))? else {
                continue;
            };
            let pristine = self.pristine.join(top);
            index.settle(&root.join(top), |entry, _, _| {
                pristine
                    .join(&entry.path)
                    .symlink_metadata()
                    .is_ok_and(|m| entry.is_fresh(&m, mtime))
            });
            write_index(&root.join(dir), index.into_bytes(), self.index_mtime)?;
        }
        let baseline = Manifest::take(&root, &self.git_dirs)?;
        for line in baseline.gaps() {
            if !self.notes.not_carried.contains(&line) {
                self.notes.not_carried.push(line);
            }
        }
        Ok(Tree {
            root,
            parent,
            repo: self.field_top.clone(),
            git_dirs: self.git_dirs.clone(),
            work_trees: self.repos.iter().cloned().collect(),
            temp_root: self.root.path().to_path_buf(),
            states: Arc::new(self.states.with_canaries(&canaries)),
            canaries,
            baseline: Arc::new(baseline),
        })
    }
}

fn is_left_out(item: &survey::Item, left_out: &BTreeSet<Arc<Path>>) -> bool {
    item.ignored_root
        .as_ref()
        .is_some_and(|root| left_out.contains(root))
}

/// The paths to copy, and the topmost ignored paths that are beyond the budget.
fn select<'f>(
    survey: &'f Survey,
    options: &Options,
    notes: &mut Notes,
) -> (Vec<&'f Path>, BTreeSet<Arc<Path>>) {
    let mut roots: BTreeMap<Arc<Path>, (u64, u64)> = BTreeMap::new();
    for item in &survey.items {
        if let Some(root) = &item.ignored_root {
            let sums = roots.entry(root.clone()).or_default();
            sums.0 += item.size;
            sums.1 += u64::from(item.kind != FileKind::Folder);
        }
    }
    let left_out = carry::over_budget(&roots, options.ignored_bytes, options.ignored_files);
    for root in &left_out {
        let (bytes, files) = roots.get(root).copied().unwrap_or_default();
        notes.not_carried.push(format!(
            "{}: ignored, {files} files with {bytes} bytes, beyond the budget of {} files and {} bytes",
            root.display(),
            options.ignored_files,
            options.ignored_bytes
        ));
    }
    notes.not_carried.extend(survey.unreadable.iter().cloned());
    // A folder that is left out still comes along as far as it holds tracked files.
    let mut needed: BTreeSet<&Path> = BTreeSet::new();
    for item in survey
        .items
        .iter()
        .filter(|item| !is_left_out(item, &left_out))
    {
        needed.extend(item.path.ancestors());
    }
    let paths = survey
        .items
        .iter()
        .map(|item| item.path.as_path())
        .filter(|path| needed.contains(path))
        .collect();
    (paths, left_out)
}

/// What changes when somebody works on the repo's history: file and cheap stamp.
fn fingerprint(field: &FieldRepo) -> Vec<(PathBuf, Option<carry::Stamp>)> {
    let stamp = |path: PathBuf| {
        let stamp = path.symlink_metadata().ok().map(|m| carry::stamp(&m));
        (path, stamp)
    };
    let mut found: Vec<_> = ["HEAD", "index", "logs/HEAD"]
        .iter()
        .map(|n| stamp(field.git_dir().join(n)))
        .collect();
    found.push(stamp(field.common_dir().join("packed-refs")));
    found.push(stamp(field.common_dir().join("config")));
    let refs = walkdir::WalkDir::new(field.common_dir().join("refs")).sort_by_file_name();
    found.extend(refs.into_iter().flatten().map(|e| stamp(e.into_path())));
    found
}

fn states_of(pristine: &Path, survey: &Survey) -> Result<States, WorkspaceError> {
    let known: BTreeMap<&Path, PathState> = survey
        .items
        .iter()
        .map(|i| (i.path.as_path(), i.state))
        .collect();
    let mut rows = Vec::new();
    for path in carry::list(pristine)? {
        let meta =
            pristine
                .join(&path)
                .symlink_metadata()
                .map_err(|source| WorkspaceError::Stat {
                    path: pristine.join(&path),
                    source,
                })?;
        let state = if path.starts_with(".git") {
            PathState::GitInternal
        } else {
            known
                .get(path.as_path())
                .copied()
                .unwrap_or(PathState::Untracked)
        };
        rows.push((path, survey::kind_of(&meta), state));
    }
    Ok(States::from_paths(
        rows.iter().map(|(p, k, s)| (p.as_path(), *k, *s)),
    ))
}

/// Settles a copied index against the copied files, and returns its new modification time.
///
/// An entry is settled when the field's own git would take its file for unchanged, or when the
/// bytes as they are make the entry's blob; every other entry stays as dirty as it was.
fn settle_from_field(
    field: &FieldRepo,
    pristine: &Path,
    dir: &Path,
    top: &Path,
) -> Result<Option<Moment>, WorkspaceError> {
    let target = pristine.join(dir);
    let Some((mut index, _)) = survey::read_index(&target)? else {
        return Ok(None);
    };
    let field_dir = match dir.strip_prefix(".git") {
        Ok(inner) => field.git_dir().join(inner),
        Err(_) => field.top().join(dir),
    };
    let field_mtime = mtime_of(&field_dir.join("index"))?;
    let field_top = field.top().join(top);
    index.drop_untracked_cache();
    let latest = index.settle(&pristine.join(top), |entry, file, meta| {
        let original = field_top.join(&entry.path).symlink_metadata();
        let fresh = original.is_ok_and(|original| {
            entry.is_fresh(&original, field_mtime)
                && (original.mtime(), original.mtime_nsec(), original.len())
                    == (meta.mtime(), meta.mtime_nsec(), meta.len())
        });
        fresh || raw_blob(entry, file) == Some(entry.oid)
    });
    let index_path = target.join("index");
    write_index(&target, index.into_bytes(), field_mtime)?;
    // Dated when it was written, but a second later than every entry.
    let later = latest.map(|second| (second + 1, 0));
    let natural = mtime_now(&index_path)?;
    Ok(later.max(Some(natural)))
}

fn raw_blob(entry: &super::index::IndexEntry, file: &Path) -> Option<[u8; 20]> {
    use std::os::unix::ffi::OsStrExt;
    if entry.is_symlink() {
        return file
            .read_link()
            .ok()
            .map(|t| content::blob_of(t.as_os_str().as_bytes()));
    }
    content::digests(file).ok().map(|d| d.blob)
}

fn mtime_of(path: &Path) -> Result<Moment, WorkspaceError> {
    let meta = path
        .symlink_metadata()
        .map_err(|source| WorkspaceError::Stat {
            path: path.to_path_buf(),
            source,
        })?;
    Ok((meta.mtime(), meta.mtime_nsec()))
}

/// The file system's own idea of now, by way of the change time, which nobody can set.
fn mtime_now(path: &Path) -> Result<Moment, WorkspaceError> {
    let meta = path
        .symlink_metadata()
        .map_err(|source| WorkspaceError::Stat {
            path: path.to_path_buf(),
            source,
        })?;
    Ok((meta.ctime(), meta.ctime_nsec()))
}

/// Replaces the index of a git folder in a copy; the folder keeps its times.
fn write_index(git_dir: &Path, bytes: Vec<u8>, mtime: Moment) -> Result<(), WorkspaceError> {
    use std::io::Write;
    let path = git_dir.join("index");
    let stat = |source| WorkspaceError::Stat {
        path: path.clone(),
        source,
    };
    let write = |source| WorkspaceError::Write {
        path: path.clone(),
        source,
    };
    let folder = git_dir.symlink_metadata().map_err(stat)?;
    let mode = path.symlink_metadata().map_err(stat)?.mode() & 0o7777;
    fs::remove_file(&path).map_err(write)?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(write)?;
    file.write_all(&bytes).map_err(write)?;
    file.set_permissions(<fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode))
        .map_err(write)?;
    drop(file);
    carry::set_mtime(&path, mtime)?;
    carry::set_times(git_dir, &folder)
}

/// Whether a later copy is what the first one was; inode numbers and change times apart, and the
/// stat data in index files, which hold both.
fn same_copy(first: &Manifest, second: &Manifest) -> Result<(), WorkspaceError> {
    let differs = |path: &Path, what: &str| {
        Err(WorkspaceError::CopyDiffers {
            path: path.to_path_buf(),
            what: what.to_owned(),
        })
    };
    let comparable = |manifest: &Manifest, path: &Path, entry: &Entry| {
        let is_index = path.file_name().is_some_and(|n| n == "index")
            && path
                .parent()
                .is_some_and(|dir| manifest.git_dirs().iter().any(|d| d == dir));
        let mut entry = entry.clone();
        entry.inode = 0;
        entry.born = None;
        entry.ctime = (0, 0);
        if entry.kind == FileKind::Folder {
            entry.size = 0;
        }
        if is_index {
            entry.sha256 = None;
            entry.blob = None;
        }
        entry
    };
    let paths: BTreeSet<&PathBuf> = first
        .entries()
        .keys()
        .chain(second.entries().keys())
        .collect();
    for path in paths {
        match (first.get(path), second.get(path)) {
            (Some(a), Some(b)) if comparable(first, path, a) == comparable(second, path, b) => {}
            (Some(_), Some(_)) => return differs(path, "its content or metadata"),
            (Some(_), None) => return differs(path, "it is missing"),
            (None, _) => return differs(path, "it is new"),
        }
    }
    for (dir, old) in &first.git {
        if second.git.get(dir).is_none_or(|new| {
            new.index != old.index
                || new.refs != old.refs
                || new.config != old.config
                || new.gaps != old.gaps
        }) {
            return differs(dir, "what the git folder means");
        }
    }
    Ok(())
}
