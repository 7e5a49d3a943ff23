//! The last steps before execution, taken by the process that becomes the subject.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{dup2_stdin, read, setsid};

use super::wire::Order;
use super::{Ground, mounts, restrict, say};
use crate::calls::NATIVE;
use crate::filter;
use crate::job::Pass;
use crate::sys::process::{close_from_on_exec, execute, reset_signals};
use crate::sys::seccomp::install_listener;

/// Confines this process and executes the order's argv. Never returns.
pub(super) fn become_it(order: &Order, ground: Ground, report: &OwnedFd, wait: &OwnedFd) -> ! {
    if let Err(why) = confine(order, ground, report, wait) {
        say(report.as_fd(), &format!("failed {why}"));
        std::process::exit(127);
    }
    // From here on the descriptor table is this process's own.
    let why = run(order, ground);
    say(report.as_fd(), &why);
    std::process::exit(127);
}

fn confine(order: &Order, ground: Ground, report: &OwnedFd, wait: &OwnedFd) -> Result<(), String> {
    // Should init fail before it reaps, nobody else would end this process.
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|e| format!("bind to init: {e}"))?;
    // A session of its own: no controlling terminal, and a group that can be signalled as one.
    setsid().map_err(|e| format!("new session: {e}"))?;
    // One byte, not none: with none the kernel still starts a dump program that core_pattern names
    // (core(5)); one byte is too little for a file, too.
    setrlimit(Resource::RLIMIT_CORE, 1, 1).map_err(|e| format!("no core dumps: {e}"))?;
    let top = if ground.mounts {
        &order.repo
    } else {
        &order.clone
    };
    let cwd = top.join(&order.cwd);
    std::env::set_current_dir(&cwd).map_err(|e| format!("enter {}: {e}", cwd.display()))?;
    if !order.stdin.as_os_str().is_empty() {
        let path = top.join(&order.stdin);
        let file = File::open(&path)
            .map_err(|e| format!("open {} for standard input: {e}", path.display()))?;
        dup2_stdin(&file).map_err(|e| format!("take {} as standard input: {e}", path.display()))?;
    }
    if order.off.is_off("landlock") {
        say(report.as_fd(), "missing Landlock: switched off");
    } else {
        match restrict::apply(&writable(order, ground)) {
            Ok(abi) => say(report.as_fd(), &format!("layer landlock {abi}")),
            // Without it nothing may run.
            Err(why) => return Err(format!("no-enforcement Landlock: {why}")),
        }
    }
    reset_signals();
    if order.off.is_off("listener") {
        say(report.as_fd(), "missing listener: switched off");
    } else {
        match install_listener(&filter::program(NATIVE)) {
            Ok(fd) => say(report.as_fd(), &format!("listener {fd}")),
            Err(why) => say(report.as_fd(), &format!("missing listener: {why}")),
        }
    }
    say(report.as_fd(), "ready");
    let mut byte = [0u8];
    read(wait, &mut byte).map_err(|e| format!("wait for release: {e}"))?;
    close_from_on_exec(3).map_err(|e| format!("close descriptors: {e}"))?;
    say(report.as_fd(), "apart");
    Ok(())
}

/// Folders below which the kernel lets this pass write.
fn writable(order: &Order, ground: Ground) -> Vec<PathBuf> {
    let mut list = Vec::new();
    if ground.mounts {
        list.extend(mounts::temp_folders());
        list.extend(
            [PathBuf::from("/dev/shm")]
                .into_iter()
                .filter(|p| p.is_dir()),
        );
    } else {
        list.push(order.shared_tmpdir.clone());
    }
    if order.pass == Pass::Contained {
        list.push(if ground.mounts {
            order.repo.clone()
        } else {
            order.clone.clone()
        });
    }
    if ground.home {
        list.push(order.home.clone());
    }
    list
}

/// Executes; returns why it could not.
fn run(order: &Order, ground: Ground) -> String {
    let c = |text: &OsString| {
        CString::new(text.as_bytes()).map_err(|_| "argument holds a NUL byte".to_owned())
    };
    let mut env = order.env.clone();
    let tmpdir = if ground.mounts {
        &order.tmpdir
    } else {
        &order.shared_tmpdir
    };
    let mut entry = OsString::from("TMPDIR=");
    entry.push(tmpdir);
    env.push(entry);
    let lists = order
        .argv
        .iter()
        .map(c)
        .collect::<Result<Vec<_>, _>>()
        .and_then(|argv| {
            env.iter()
                .map(c)
                .collect::<Result<Vec<_>, _>>()
                .map(|env| (argv, env))
        });
    let (argv, envp) = match lists {
        Ok(lists) => lists,
        Err(why) => return why,
    };
    let mut last = std::io::Error::from_raw_os_error(libc::ENOENT);
    for candidate in candidates(order) {
        let Ok(path) = CString::new(candidate.clone().into_vec()) else {
            continue;
        };
        let error = execute(&path, &argv, &envp);
        match error.raw_os_error() {
            // As execvp(3): a file that is no binary and has no #! line is a shell script.
            Some(libc::ENOEXEC) => {
                let mut script = vec![c"sh".to_owned(), path];
                script.extend(argv.iter().skip(1).cloned());
                return execute(&c"/bin/sh".to_owned(), &script, &envp).to_string();
            }
            // As execvp(3): go on with the next folder, remember a refusal.
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => last = error,
            _ => return error.to_string(),
        }
    }
    last.to_string()
}

fn candidates(order: &Order) -> Vec<OsString> {
    let Some(program) = order.argv.first() else {
        return Vec::new();
    };
    if program.as_bytes().contains(&b'/') {
        return vec![program.clone()];
    }
    let path = order
        .env
        .iter()
        .rev()
        .find_map(|entry| entry.as_bytes().strip_prefix(b"PATH="));
    let path = path.unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
    path.split(|b| *b == b':')
        .map(|folder| if folder.is_empty() { &b"."[..] } else { folder })
        .map(|folder| OsString::from_vec([folder, b"/", program.as_bytes()].concat()))
        .collect()
}
