//! One walk over the field repo's work tree: what is there, and what each path is to git.
//!
//! States are found by content. Index flags (assume-unchanged) and stat data are not believed,
//! but for files whose bytes pass through a filter that only the user's git could run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use calibrun_sandbox::FileKind;
use git2::{AttrCheckFlags, AttrValue, ObjectType, Repository};

use super::index::{IndexEntry, IndexFile};
use super::manifest::Moment;
use super::{PathState, WorkspaceError, content};

/// One path of the work tree.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Relative to the top; empty for the top itself.
    pub(crate) path: PathBuf,
    pub(crate) kind: FileKind,
    /// Bytes of a regular file, else 0.
    pub(crate) size: u64,
    /// For a folder only what is known of itself; see [`super::States`] for the whole.
    pub(crate) state: PathState,
    /// The topmost ignored path at or above this one; budgets go by it.
    pub(crate) ignored_root: Option<Arc<Path>>,
}

/// Everything that one walk found, parents before children.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    pub(crate) items: Vec<Item>,
    /// What could not be looked into, one line each.
    pub(crate) unreadable: Vec<String>,
    /// Git folders below the top, but for the repo's own; relative to the top.
    pub(crate) nested_git_dirs: Vec<PathBuf>,
    /// `.git` files of nested repos whose git folder lies elsewhere.
    pub(crate) foreign_git_files: Vec<PathBuf>,
    /// Repos below the top whose git folder comes along.
    pub(crate) nested: Vec<NestedRepo>,
    /// Whether tracked or untracked, unignored files differ from the commit.
    pub(crate) dirty: bool,
}

/// A submodule or nested repo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NestedRepo {
    /// Its work tree, relative to the top.
    pub(crate) top: PathBuf,
    /// Its git folder as the clone has it, relative to the top.
    pub(crate) git_dir: PathBuf,
}

/// What `lstat` says that a path is.
pub(crate) fn kind_of(meta: &Metadata) -> FileKind {
    let kind = meta.file_type();
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Folder
    } else if kind.is_symlink() {
        FileKind::Symlink
    } else if kind.is_fifo() {
        FileKind::Fifo
    } else if kind.is_socket() {
        FileKind::Socket
    } else if kind.is_char_device() || kind.is_block_device() {
        FileKind::Device
    } else {
        FileKind::Other
    }
}

/// Reads and parses the index of a git folder; a missing one is empty (`None`).
pub(crate) fn read_index(git_dir: &Path) -> Result<Option<(IndexFile, Moment)>, WorkspaceError> {
    let path = git_dir.join("index");
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(WorkspaceError::Stat { path, source }),
    };
    let bytes = content::read(&path).map_err(|source| WorkspaceError::Read {
        path: path.clone(),
        source,
    })?;
    match IndexFile::parse(bytes) {
        Ok(index) => Ok(Some((index, (meta.mtime(), meta.mtime_nsec())))),
        Err(what) => Err(WorkspaceError::Unsupported {
            path,
            what: format!(
                "its index is not understood: {what}; `git update-index --no-split-index` or `git reset` may help"
            ),
        }),
    }
}

/// A repo opened without any check or code of its own, its work tree set by hand.
pub(crate) fn open_repo(git_dir: &Path, top: &Path) -> Result<Repository, WorkspaceError> {
    let fail = |source| WorkspaceError::OpenRepo {
        path: git_dir.to_path_buf(),
        source,
    };
    // Opening as bare skips libgit2's own owner check; ours has a message that helps.
    let repo = Repository::open_bare(git_dir).map_err(fail)?;
    repo.set_workdir(top, false).map_err(fail)?;
    Ok(repo)
}

/// Where a `.git` file leads, as far as the text says; relative to nothing but its own folder.
pub(crate) fn read_git_file(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let bytes = content::read(path).map_err(|source| WorkspaceError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    let fail = |what: &str| WorkspaceError::GitFile {
        path: path.to_path_buf(),
        what: what.to_owned(),
    };
    let text = bytes
        .strip_prefix(b"gitdir: ")
        .ok_or_else(|| fail("it does not begin with `gitdir: `"))?;
    let end = text
        .iter()
        .rposition(|b| !matches!(b, b'\n' | b'\r'))
        .map_or(0, |i| i + 1);
    let target = path
        .parent()
        .unwrap_or(path)
        .join(OsStr::from_bytes(&text[..end]));
    target
        .canonicalize()
        .map_err(|e| fail(&format!("{}: {e}", target.display())))
}

struct Context {
    repo: Repository,
    top: PathBuf,
    /// Path of this repo's top relative to the whole walk's.
    prefix: PathBuf,
    index: BTreeMap<PathBuf, IndexEntry>,
    conflicts: BTreeSet<PathBuf>,
    head: BTreeMap<PathBuf, ([u8; 20], u32)>,
    index_mtime: Moment,
    file_mode: bool,
    auto_crlf: bool,
    seen: BTreeSet<PathBuf>,
    dirty: bool,
}

impl Context {
    fn open(git_dir: &Path, top: &Path, prefix: PathBuf) -> Result<Context, WorkspaceError> {
        let repo = open_repo(git_dir, top)?;
        let read = |source| WorkspaceError::ReadHead {
            path: git_dir.to_path_buf(),
            source,
        };
        let mut head = BTreeMap::new();
        let tree = repo.head().and_then(|h| h.peel_to_tree()).map_err(read)?;
        list_tree(&repo, &tree, Path::new(""), &mut head).map_err(read)?;
        drop(tree);
        let (entries, index_mtime) = match read_index(git_dir)? {
            Some((index, mtime)) => (index.entries, mtime),
            None => (Vec::new(), (0, 0)),
        };
        let mut index = BTreeMap::new();
        let mut conflicts = BTreeSet::new();
        for entry in entries {
            if entry.stage == 0 {
                index.insert(entry.path.clone(), entry);
            } else {
                conflicts.insert(entry.path);
            }
        }
        let config = repo.config().map_err(|source| WorkspaceError::Config {
            path: git_dir.join("config"),
            source,
        })?;
        let file_mode = config.get_bool("core.filemode").unwrap_or(true);
        let auto_crlf = match config.get_string("core.autocrlf") {
            Ok(value) => {
                value.eq_ignore_ascii_case("input")
                    || config.get_bool("core.autocrlf").unwrap_or(false)
            }
            Err(_) => false,
        };
        Ok(Context {
            repo,
            top: top.to_path_buf(),
            prefix,
            index,
            conflicts,
            head,
            index_mtime,
            file_mode,
            auto_crlf,
            seen: BTreeSet::new(),
            dirty: false,
        })
    }

    fn is_ignored(&self, path: &Path, folder: bool) -> bool {
        // The slash tells libgit2 that patterns for folders apply.
        let mut name = path.as_os_str().to_os_string();
        if folder {
            name.push("/");
        }
        self.repo.is_path_ignored(Path::new(&name)).unwrap_or(false)
    }

    /// State of a tracked path that exists.
    fn tracked(&self, path: &Path, meta: &Metadata) -> PathState {
        let Some(entry) = self.index.get(path) else {
            return PathState::Uncommitted;
        };
        if entry.is_intent_to_add()
            || self.conflicts.contains(path)
            || !self.same_as_index(entry, meta)
        {
            return PathState::Uncommitted;
        }
        match self.head.get(path) {
            Some((oid, mode)) if *oid == entry.oid && *mode == entry.mode => PathState::Clean,
            Some(_) | None => PathState::Staged,
        }
    }

    fn same_as_index(&self, entry: &IndexEntry, meta: &Metadata) -> bool {
        let file = self.top.join(&entry.path);
        if entry.is_symlink() {
            return meta.file_type().is_symlink()
                && file
                    .read_link()
                    .is_ok_and(|t| content::blob_of(t.as_os_str().as_bytes()) == entry.oid);
        }
        if !entry.is_file() || !meta.is_file() {
            return false;
        }
        let executable = meta.permissions().mode() & 0o100 != 0;
        if self.file_mode && executable != (entry.mode & 0o100 != 0) {
            return false;
        }
        match content::digests(&file) {
            Ok(digests) if digests.blob == entry.oid => true,
            Ok(_) => self.same_when_converted(entry, &file, meta),
            Err(_) => false,
        }
    }

    /// Whether the bytes are the entry's once git has converted them on their way in.
    fn same_when_converted(&self, entry: &IndexEntry, file: &Path, meta: &Metadata) -> bool {
        let attribute = |name: &str| {
            let value =
                self.repo
                    .get_attr_bytes(&entry.path, name, AttrCheckFlags::FILE_THEN_INDEX);
            match AttrValue::from_bytes(value.unwrap_or(None)) {
                AttrValue::String(text) => Some(text.as_bytes().to_vec()),
                AttrValue::Bytes(bytes) => Some(bytes.to_vec()),
                AttrValue::True => Some(b"true".to_vec()),
                AttrValue::False => Some(b"false".to_vec()),
                AttrValue::Unspecified => None,
            }
        };
        let set = |name: &str| attribute(name).is_some_and(|v| v != b"false");
        // Only the user's git could run these, so its own last look is all there is.
        if set("filter") || set("ident") || set("working-tree-encoding") {
            return entry.is_fresh(meta, self.index_mtime);
        }
        let converts = match attribute("text") {
            Some(value) => value != b"false",
            None => set("eol") || self.auto_crlf,
        };
        if !converts {
            return false;
        }
        let Ok(bytes) = content::read(file) else {
            return false;
        };
        if bytes.contains(&0) {
            return false;
        }
        let mut unix = Vec::with_capacity(bytes.len());
        for (i, byte) in bytes.iter().enumerate() {
            if !(*byte == b'\r' && bytes.get(i + 1) == Some(&b'\n')) {
                unix.push(*byte);
            }
        }
        content::blob_of(&unix) == entry.oid
    }

    /// Whether something in the commit or index is missing from the other or from the work tree.
    fn has_absences(&self) -> bool {
        let sparse: Vec<&Path> = self
            .index
            .values()
            .filter(|e| e.mode == 0o40_000)
            .map(|e| e.path.as_path())
            .collect();
        let unindexed = self.head.keys().any(|path| {
            !self.index.contains_key(path)
                && !self.conflicts.contains(path)
                && !sparse.iter().any(|folder| path.starts_with(folder))
        });
        let missing = self.index.values().any(|entry| {
            (entry.is_file() || entry.is_symlink())
                && !entry.skips_worktree()
                && !self.seen.contains(&entry.path)
        });
        unindexed || missing || !self.conflicts.is_empty()
    }
}

fn list_tree(
    repo: &Repository,
    tree: &git2::Tree<'_>,
    at: &Path,
    into: &mut BTreeMap<PathBuf, ([u8; 20], u32)>,
) -> Result<(), git2::Error> {
    for entry in tree {
        let path = at.join(OsStr::from_bytes(entry.name_bytes()));
        if entry.kind() == Some(ObjectType::Tree) {
            list_tree(repo, &repo.find_tree(entry.id())?, &path, into)?;
        } else {
            let mut oid = [0; 20];
            oid.copy_from_slice(&entry.id().as_bytes()[..20]);
            into.insert(path, (oid, entry.filemode().cast_unsigned()));
        }
    }
    Ok(())
}

/// Walks the work tree of the repo whose git folder is `git_dir`.
pub(crate) fn survey(git_dir: &Path, top: &Path) -> Result<Survey, WorkspaceError> {
    let meta = top
        .symlink_metadata()
        .map_err(|source| WorkspaceError::Stat {
            path: top.to_path_buf(),
            source,
        })?;
    let mut walk = Walk {
        whole_top: top,
        git_dir,
        found: Survey::default(),
    };
    walk.push(PathBuf::new(), &meta, PathState::Clean, None);
    let mut context = Context::open(git_dir, top, PathBuf::new())?;
    walk.folder(&mut context, Path::new(""), None)?;
    walk.found.dirty = context.dirty || context.has_absences();
    Ok(walk.found)
}

struct Walk<'a> {
    whole_top: &'a Path,
    git_dir: &'a Path,
    found: Survey,
}

impl Walk<'_> {
    fn push(
        &mut self,
        path: PathBuf,
        meta: &Metadata,
        state: PathState,
        ignored_root: Option<Arc<Path>>,
    ) {
        let kind = kind_of(meta);
        self.found.items.push(Item {
            path,
            kind,
            size: if kind == FileKind::File {
                meta.len()
            } else {
                0
            },
            state,
            ignored_root,
        });
    }

    /// Names in a folder, sorted; a folder that cannot be listed is noted.
    fn names(&mut self, whole: &Path) -> Vec<std::ffi::OsString> {
        let listed = std::fs::read_dir(self.whole_top.join(whole)).and_then(|dir| {
            dir.map(|e| e.map(|e| e.file_name()))
                .collect::<Result<Vec<_>, _>>()
        });
        match listed {
            Ok(mut names) => {
                names.sort();
                names
            }
            Err(error) => {
                self.found
                    .unreadable
                    .push(format!("{}/: cannot be listed: {error}", whole.display()));
                Vec::new()
            }
        }
    }

    fn meta(&mut self, whole: &Path) -> Option<Metadata> {
        match self.whole_top.join(whole).symlink_metadata() {
            Ok(meta) => Some(meta),
            Err(error) => {
                self.found
                    .unreadable
                    .push(format!("{}: cannot be looked at: {error}", whole.display()));
                None
            }
        }
    }

    fn folder(
        &mut self,
        context: &mut Context,
        rel: &Path,
        ignored: Option<Arc<Path>>,
    ) -> Result<(), WorkspaceError> {
        for name in self.names(&context.prefix.join(rel)) {
            let inner = rel.join(&name);
            let whole = context.prefix.join(&inner);
            if whole == Path::new(".git") {
                continue;
            }
            let Some(meta) = self.meta(&whole) else {
                continue;
            };
            if name == ".git" {
                self.git_entry(&whole, &meta, ignored.clone());
            } else if meta.is_dir() {
                let mut inner_ignored = ignored.clone();
                if inner_ignored.is_none() && context.is_ignored(&inner, true) {
                    inner_ignored = Some(Arc::from(whole.as_path()));
                }
                self.push(
                    whole.clone(),
                    &meta,
                    PathState::Clean,
                    inner_ignored.clone(),
                );
                let entry = context
                    .index
                    .get(&inner)
                    .filter(|e| e.is_submodule())
                    .cloned();
                let nested = inner_ignored.is_none() || entry.is_some();
                if nested
                    && self
                        .whole_top
                        .join(&whole)
                        .join(".git")
                        .symlink_metadata()
                        .is_ok()
                {
                    context.dirty |=
                        self.nested_repo(&whole, entry.as_ref(), context.head.get(&inner))?;
                } else {
                    self.folder(context, &inner, inner_ignored)?;
                }
            } else {
                context.seen.insert(inner.clone());
                let tracked =
                    context.index.contains_key(&inner) || context.conflicts.contains(&inner);
                let (state, root) = if tracked {
                    (context.tracked(&inner, &meta), None)
                } else if ignored.is_some() {
                    (PathState::Ignored, ignored.clone())
                } else if context.is_ignored(&inner, false) {
                    (PathState::Ignored, Some(Arc::from(whole.as_path())))
                } else {
                    (PathState::Untracked, None)
                };
                context.dirty |= matches!(state, PathState::Staged | PathState::Uncommitted)
                    // Git never lists sockets, FIFOs and devices.
                    || state == PathState::Untracked && matches!(kind_of(&meta), FileKind::File | FileKind::Symlink);
                self.push(whole, &meta, state, root);
            }
        }
        Ok(())
    }

    /// Walks a repo below another; returns whether the outer one is dirty for it.
    fn nested_repo(
        &mut self,
        whole: &Path,
        entry: Option<&IndexEntry>,
        head: Option<&([u8; 20], u32)>,
    ) -> Result<bool, WorkspaceError> {
        let top = self.whole_top.join(whole);
        let marker = top.join(".git");
        let git_dir = if marker.is_dir() {
            marker.canonicalize().ok()
        } else {
            read_git_file(&marker).ok()
        };
        let inside =
            git_dir.filter(|dir| dir.starts_with(self.whole_top) || dir.starts_with(self.git_dir));
        let context = inside.and_then(|dir| {
            let context = Context::open(&dir, &top, whole.to_path_buf()).ok()?;
            let commit = context
                .repo
                .head()
                .and_then(|h| h.peel_to_commit())
                .ok()?
                .id();
            Some((context, commit))
        });
        let Some((mut context, commit)) = context else {
            // Its history cannot be read from within the clone: nothing in it is known to be kept.
            self.plain_folder(whole, PathState::Untracked)?;
            return Ok(true);
        };
        if let Some(git_dir) = self.in_clone(context.repo.path()) {
            self.found.nested.push(NestedRepo {
                top: whole.to_path_buf(),
                git_dir,
            });
        }
        self.folder(&mut context, Path::new(""), None)?;
        let same = entry.is_some_and(|e| e.oid == commit.as_bytes()[..])
            && entry.map(|e| e.oid) == head.map(|(oid, _)| *oid);
        Ok(!same || context.dirty || context.has_absences())
    }

    /// Where the clone has a folder of the field, relative to its top.
    fn in_clone(&self, path: &Path) -> Option<PathBuf> {
        match path.strip_prefix(self.git_dir) {
            Ok(inner) => Some(Path::new(".git").join(inner)),
            Err(_) => path
                .strip_prefix(self.whole_top)
                .ok()
                .map(Path::to_path_buf),
        }
    }

    /// Everything below a folder, in one state.
    fn plain_folder(&mut self, whole: &Path, state: PathState) -> Result<(), WorkspaceError> {
        for name in self.names(whole) {
            let inner = whole.join(&name);
            let Some(meta) = self.meta(&inner) else {
                continue;
            };
            if name == ".git" {
                self.git_entry(&inner, &meta, None);
            } else if meta.is_dir() {
                self.push(inner.clone(), &meta, PathState::Clean, None);
                self.plain_folder(&inner, state)?;
            } else {
                self.push(inner, &meta, state, None);
            }
        }
        Ok(())
    }

    /// The `.git` of a nested repo: a folder with all below it, or a file that names one.
    fn git_entry(&mut self, whole: &Path, meta: &Metadata, ignored: Option<Arc<Path>>) {
        self.push(
            whole.to_path_buf(),
            meta,
            PathState::GitInternal,
            ignored.clone(),
        );
        if meta.is_dir() {
            self.found.nested_git_dirs.push(whole.to_path_buf());
            self.git_folder(whole, ignored);
        } else {
            let target = read_git_file(&self.whole_top.join(whole));
            let inside =
                target.is_ok_and(|t| t.starts_with(self.whole_top) || t.starts_with(self.git_dir));
            if !inside {
                self.found.foreign_git_files.push(whole.to_path_buf());
            }
        }
    }

    fn git_folder(&mut self, whole: &Path, ignored: Option<Arc<Path>>) {
        for name in self.names(whole) {
            let inner = whole.join(name);
            let Some(meta) = self.meta(&inner) else {
                continue;
            };
            self.push(
                inner.clone(),
                &meta,
                PathState::GitInternal,
                ignored.clone(),
            );
            if meta.is_dir() {
                self.git_folder(&inner, ignored.clone());
            }
        }
    }
}
