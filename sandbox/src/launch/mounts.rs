//! The subject's view of the file system: everything read-only but clone and scratch.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::mount::MsFlags;
use nix::sys::stat::{Mode, SFlag, mknod};

use super::wire::Order;
use crate::job::Pass;
use crate::sys::mount;

/// What the mounts turned out to be.
pub(crate) struct View {
    /// `/tmp` and `/var/tmp` are overlays of the real ones.
    pub overlaid: bool,
    /// `/proc` belongs to the private process tree.
    pub own_proc: bool,
    /// HOME is an overlay of the real one.
    pub home: bool,
    /// Why something is not as wished, one line each.
    pub missing: Vec<String>,
}

/// One step that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub(crate) struct MountError {
    step: String,
    source: io::Error,
}

fn at<T>(step: impl FnOnce() -> String, result: io::Result<T>) -> Result<T, MountError> {
    result.map_err(|source| MountError {
        step: step(),
        source,
    })
}

/// Builds the view. Runs in the init process, in a mount namespace of its own, single-threaded.
///
/// Detached trees are taken first, then everything is made read-only, then they are attached: what
/// was detached is not touched by the sweep, and the clone comes last because it may lie below
/// anything else.
pub(crate) fn build(
    order: &Order,
    private_pids: bool,
    user_namespace: bool,
) -> Result<View, MountError> {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    let none: Option<&str> = None;
    at(
        || "make / private".into(),
        nix::mount::mount(none, "/", none, private, none).map_err(io::Error::from),
    )?;
    let clone = at(
        || format!("copy the mount of {}", order.clone.display()),
        mount::clone_tree(&order.clone),
    )?;
    let temps = temp_folders();
    let mut overlaid = true;
    let mut missing = Vec::new();
    let mut attachments: Vec<(OwnedFd, PathBuf)> = Vec::new();
    for (index, temp) in temps.iter().enumerate() {
        let tree = if order.off.is_off("temp-overlay") {
            Err(io::Error::from_raw_os_error(libc::ENODEV))
        } else {
            overlay(
                temp,
                &order.scratch.join(format!("temp{index}")),
                &order.hidden,
                user_namespace,
            )
        };
        let tree = match tree {
            Ok(tree) => tree,
            Err(error) => {
                overlaid = false;
                missing.push(format!("overlay of {}: {error}", temp.display()));
                at(|| format!("private {}", temp.display()), private_folder())?
            }
        };
        attachments.push((tree, temp.clone()));
    }
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        attachments.push((
            at(|| "private /dev/shm".into(), private_folder())?,
            shm.to_owned(),
        ));
    }
    let mut home = wants_home(order);
    if home {
        match overlay(
            &order.home,
            &order.scratch.join("home"),
            &[],
            user_namespace,
        ) {
            Ok(tree) => attachments.push((tree, order.home.clone())),
            Err(error) => {
                home = false;
                missing.push(format!("overlay of HOME: {error}"));
            }
        }
    }
    let proc = if private_pids && !order.off.is_off("proc") {
        Some(at(
            || "new /proc".into(),
            mount::new_filesystem(c"proc", &[], mount::PRIVATE),
        )?)
    } else {
        None
    };
    at(
        || "make everything read-only".into(),
        mount::make_read_only_below(Path::new("/")),
    )?;
    for (tree, target) in &attachments {
        // HOME may lie below a private folder, which has just covered it.
        if !target.is_dir() {
            at(
                || format!("make {}", target.display()),
                std::fs::create_dir_all(target),
            )?;
        }
        at(
            || format!("attach {}", target.display()),
            mount::attach(tree, target),
        )?;
    }
    let own_proc = proc.is_some();
    if let Some(proc) = proc {
        at(
            || "make /proc read-only".into(),
            mount::make_tree_read_only(&proc),
        )?;
        at(
            || "attach /proc".into(),
            mount::attach(&proc, Path::new("/proc")),
        )?;
    }
    // What the private folders have covered must be there again as a mount point.
    if !order.repo.is_dir() {
        at(
            || format!("make {}", order.repo.display()),
            std::fs::create_dir_all(&order.repo),
        )?;
    }
    if order.pass == Pass::Denied {
        at(
            || "make the clone read-only".into(),
            mount::make_tree_read_only(&clone),
        )?;
    }
    hide(&order.temp_root)?;
    at(
        || format!("attach the clone at {}", order.repo.display()),
        mount::attach(&clone, &order.repo),
    )?;
    at(
        || format!("make {}", order.tmpdir.display()),
        std::fs::create_dir_all(&order.tmpdir),
    )?;
    let mode = std::fs::Permissions::from_mode(0o700);
    at(
        || "set the mode of TMPDIR".into(),
        std::fs::set_permissions(&order.tmpdir, mode),
    )?;
    Ok(View {
        overlaid,
        own_proc,
        home,
        missing,
    })
}

/// The temp folders of this host, without repeats when one is a link to the other.
pub(crate) fn temp_folders() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in ["/tmp", "/var/tmp"] {
        if let Ok(real) = std::fs::canonicalize(folder)
            && real.is_dir()
            && real != Path::new("/")
            && !found.contains(&real)
        {
            found.push(real);
        }
    }
    found
}

/// Whether HOME gets an overlay: in the contained pass, and where it is neither everything nor in the
/// clone, which is writable already.
fn wants_home(order: &Order) -> bool {
    order.pass == Pass::Contained
        && !order.off.is_off("home-overlay")
        && order.home.parent().is_some()
        && !order.home.starts_with(&order.repo)
        && order.home.is_dir()
}

/// An overlay of `lower` whose changes land in `place`, a folder outside `lower`.
fn overlay(
    lower: &Path,
    place: &Path,
    hidden: &[OsString],
    user_namespace: bool,
) -> io::Result<OwnedFd> {
    let (upper, work) = (place.join("upper"), place.join("work"));
    for folder in [place, &upper, &work] {
        std::fs::create_dir(folder)?;
    }
    // The top of an overlay has the mode of its upper folder.
    let mode = std::fs::metadata(lower)?.permissions().mode();
    std::fs::set_permissions(&upper, std::fs::Permissions::from_mode(mode & 0o7777))?;
    for path in hidden.iter().map(Path::new) {
        if path.parent() == Some(lower)
            && let Some(name) = path.file_name()
        {
            // A whiteout: the name is not there (Documentation/filesystems/overlayfs.rst).
            mknod(&upper.join(name), SFlag::S_IFCHR, Mode::empty(), 0)?;
        }
    }
    let text = |path: &Path| {
        CString::new(path.as_os_str().as_bytes())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    };
    let (lower, upper, work) = (text(lower)?, text(&upper)?, text(&work)?);
    let mut options = vec![
        (c"lowerdir", Some(lower.as_c_str())),
        (c"upperdir", Some(upper.as_c_str())),
        (c"workdir", Some(work.as_c_str())),
    ];
    if user_namespace {
        // Without it the overlay keeps its marks in trusted.*, which a user namespace may not write.
        options.push((c"userxattr", None));
    }
    mount::new_filesystem(c"overlay", &options, mount::PRIVATE)
}

fn private_folder() -> io::Result<OwnedFd> {
    mount::new_filesystem(c"tmpfs", &[(c"mode", Some(c"1777"))], mount::PRIVATE)
}

/// Names in a temp folder that belong to other running programs and mean nothing to the subject but
/// trouble: a Java VM keeps a file for each VM of the user, and removes those of dead ones.
pub(crate) fn hidden_in(temps: &[PathBuf]) -> Vec<PathBuf> {
    let mut hidden = Vec::new();
    for temp in temps {
        let Ok(entries) = std::fs::read_dir(temp) else {
            continue;
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        hidden.extend(
            names
                .filter(|name| name.as_bytes().starts_with(b"hsperfdata_"))
                .map(|name| temp.join(name)),
        );
    }
    hidden.sort();
    hidden
}

/// Covers the temp root with an empty read-only folder, where the subject could see it.
fn hide(temp_root: &Path) -> Result<(), MountError> {
    if !temp_root.is_dir() {
        return Ok(()); // already covered by a private folder
    }
    let empty = at(
        || "an empty folder".into(),
        mount::new_filesystem(
            c"tmpfs",
            &[(c"mode", Some(c"0555"))],
            mount::PRIVATE | libc::MOUNT_ATTR_RDONLY,
        ),
    )?;
    at(
        || format!("hide {}", temp_root.display()),
        mount::attach(&empty, temp_root),
    )
}
