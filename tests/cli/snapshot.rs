//! A folder to the last detail, to be compared with itself later.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    owner: (u32, u32),
    size: u64,
    links: u64,
    inode: u64,
    modified: (i64, i64),
    /// Moves with every change of the inode, a passing hard link included.
    changed: (i64, i64),
    /// Bytes of a file, target of a link.
    content: Vec<u8>,
}

/// Every entry below a folder, itself included.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Snapshot(BTreeMap<PathBuf, Entry>);

impl Snapshot {
    pub(super) fn of(top: &Path) -> Snapshot {
        let mut entries = BTreeMap::new();
        let mut left = vec![top.to_path_buf()];
        while let Some(path) = left.pop() {
            let meta = path.symlink_metadata().expect("an entry");
            let content = if meta.is_symlink() {
                let target = fs::read_link(&path).expect("a link");
                target.as_os_str().as_bytes().to_vec()
            } else if meta.is_file() {
                fs::read(&path).expect("a file")
            } else {
                let inner = fs::read_dir(&path).expect("a folder");
                left.extend(inner.map(|entry| entry.expect("an entry").path()));
                Vec::new()
            };
            let entry = Entry {
                mode: meta.mode(),
                owner: (meta.uid(), meta.gid()),
                size: meta.size(),
                links: meta.nlink(),
                inode: meta.ino(),
                modified: (meta.mtime(), meta.mtime_nsec()),
                changed: (meta.ctime(), meta.ctime_nsec()),
                content,
            };
            entries.insert(path, entry);
        }
        Snapshot(entries)
    }

    /// Asserts that the folder is now what it was.
    #[track_caller]
    pub(super) fn still_holds(&self, top: &Path) {
        let now = Snapshot::of(top);
        let paths = self.0.keys().chain(now.0.keys());
        let mut differing: Vec<&Path> = paths
            .filter(|path| self.0.get(*path) != now.0.get(*path))
            .map(PathBuf::as_path)
            .collect();
        differing.dedup();
        for path in &differing {
            let (was, is) = (self.0.get(*path), now.0.get(*path));
            eprintln!("{}\n  was {was:?}\n  is  {is:?}", path.display());
        }
        assert!(differing.is_empty(), "changed: {differing:?}");
    }
}

#[test]
fn a_snapshot_sees_content_modes_times_and_links() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let spoil: [&dyn Fn(); 4] = [
        &|| fs::write(&file, "other").expect("a write"),
        &|| {
            let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
            let handle = fs::File::options().write(true).open(&file).expect("a file");
            handle.set_times(times).expect("times");
        },
        &|| {
            fs::hard_link(&file, folder.path().join("second")).expect("a link");
            fs::remove_file(folder.path().join("second")).expect("a removal");
        },
        &|| fs::write(folder.path().join("new"), "").expect("a file"),
    ];
    for (number, change) in spoil.iter().enumerate() {
        fs::write(&file, "bytes").expect("a file");
        let before = Snapshot::of(folder.path());
        assert_eq!(before, Snapshot::of(folder.path()));
        // The clock that stamps inodes has a tick of its own.
        std::thread::sleep(std::time::Duration::from_millis(20));
        change();
        assert_ne!(before, Snapshot::of(folder.path()), "change {number}");
    }
}
