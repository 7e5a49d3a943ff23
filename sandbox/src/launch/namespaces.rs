//! Which namespaces this host lets us enter, found by entering them.

use std::io;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Uid, getgid, getuid};

use super::wire::Order;
use crate::channel::Channel;
use crate::job::Pass;

/// What was entered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entered {
    pub user: bool,
    pub mounts: bool,
    pub net: bool,
    pub uts: bool,
    pub pid: bool,
    pub ipc: bool,
    /// Why something was not, one line each.
    pub missing: Vec<String>,
}

/// Enters as many namespaces as the host allows, in one call where possible.
pub(crate) fn enter(order: &Order, channel: &Channel) -> Entered {
    let mut missing = Vec::new();
    if !order.off.is_off("user-namespace") {
        for wanted in wishes(order) {
            match unshare(CloneFlags::CLONE_NEWUSER | wanted) {
                Ok(()) => match map_identity(order, channel) {
                    Ok(()) => return entered(true, wanted, missing),
                    Err(why) => {
                        missing.push(format!("user namespace: {why}"));
                        return Entered {
                            missing,
                            ..Entered::default()
                        };
                    }
                },
                Err(errno) => missing.push(format!("user namespace with {wanted:?}: {errno}")),
            }
        }
    }
    if Uid::effective().is_root() {
        for wanted in wishes(order) {
            match unshare(wanted) {
                Ok(()) => return entered(false, wanted, missing),
                Err(errno) => missing.push(format!("{wanted:?}: {errno}")),
            }
        }
    }
    Entered {
        missing,
        ..Entered::default()
    }
}

/// From all that is wanted to the mounts alone.
fn wishes(order: &Order) -> Vec<CloneFlags> {
    let mut base = CloneFlags::empty();
    if !order.off.is_off("mounts") {
        base |= CloneFlags::CLONE_NEWNS;
    }
    let network = if order.off.is_off("net") {
        CloneFlags::empty()
    } else {
        CloneFlags::CLONE_NEWNET
    };
    let mut tree = CloneFlags::empty();
    // A new /proc must be mounted for a private process tree to make sense.
    if order.pass == Pass::Contained && !base.is_empty() && !order.off.is_off("pid") {
        tree = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    }
    let uts = CloneFlags::CLONE_NEWUTS;
    let mut list = vec![
        base | network | uts | tree,
        base | network | tree,
        base | network,
        base,
    ];
    list.retain(|flags| !flags.is_empty());
    list.dedup();
    list
}

/// Lets the processes of a new tree have numbers that nobody has on the host, as seen before its own
/// /proc is mounted: a script that signals a child which has ended must not be taken to mean one of
/// the host's. See `ns_last_pid` in proc_sys_kernel(5), Linux 3.3.
pub(super) fn number_apart() -> io::Result<()> {
    let most = std::fs::read_to_string("/proc/sys/kernel/pid_max")?;
    let most: i32 = most.trim().parse().unwrap_or(1 << 15);
    let entries = std::fs::read_dir("/proc")?.flatten();
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse().ok());
    let start = middle_of_widest_gap(numbers.collect(), most);
    std::fs::write("/proc/sys/kernel/ns_last_pid", start.to_string())
}

/// The middle of the longest run of free numbers up to `most`: the host goes on counting at its lower end.
fn middle_of_widest_gap(mut taken: Vec<i32>, most: i32) -> i32 {
    taken.extend([1, most]);
    taken.sort_unstable();
    let gaps = taken.windows(2).map(|pair| (pair[1] - pair[0], pair[0]));
    gaps.max().map_or(1, |(width, start)| start + width / 2)
}

fn entered(user: bool, flags: CloneFlags, missing: Vec<String>) -> Entered {
    Entered {
        user,
        mounts: flags.contains(CloneFlags::CLONE_NEWNS),
        net: flags.contains(CloneFlags::CLONE_NEWNET),
        uts: flags.contains(CloneFlags::CLONE_NEWUTS),
        pid: flags.contains(CloneFlags::CLONE_NEWPID),
        ipc: flags.contains(CloneFlags::CLONE_NEWIPC),
        missing,
    }
}

/// Root gets the identity for every user, so that owners look as they are; others for themselves.
fn map_identity(order: &Order, channel: &Channel) -> Result<(), String> {
    if order.full_map {
        channel.send("map", None).map_err(|e| e.to_string())?;
        match channel.receive() {
            Ok(Some((reply, _))) if reply == "mapped" => return Ok(()),
            Ok(Some(_)) => {}
            Ok(None) => return Err("the supervisor has gone".into()),
            Err(e) => return Err(e.to_string()),
        }
    }
    // After unshare the ids read as the overflow id, so the order's own ids are passed in the map.
    let (uid, gid) = (order.uid, order.gid);
    let write =
        |file: &str, text: String| std::fs::write(file, text).map_err(|e| format!("{file}: {e}"));
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    if (getuid().as_raw(), getgid().as_raw()) != (uid, gid) {
        return Err(Errno::EPERM.to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::middle_of_widest_gap;

    #[test]
    fn numbers_begin_in_the_middle_of_the_widest_gap() {
        assert_eq!(
            middle_of_widest_gap(vec![1, 2, 900, 1000], 32_768),
            1000 + 31_768 / 2
        );
        assert_eq!(
            middle_of_widest_gap(vec![20_000, 5, 32_000], 32_768),
            5 + 19_995 / 2
        );
        assert_eq!(middle_of_widest_gap(vec![], 32_768), 1 + 32_767 / 2);
    }
}
