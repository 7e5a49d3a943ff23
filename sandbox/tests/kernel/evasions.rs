//! What a subject tries that wants its work not to be seen, or done by somebody else; each beside an
//! honest twin that must not be taken for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use calibrun_sandbox::{Effect, Mark, Outcome, Pass, Place, Run};

use crate::host::cases;
use crate::stage::{Asked, Stage};

cases! {
    Program("python3") =>
        a_folder_named_by_nothing_is_the_working_folder
        a_request_to_the_network_that_changes_it_is_seen_and_one_that_asks_is_not
        messages_between_own_processes_arrive_whole_with_their_descriptors
        a_shared_mapping_of_a_writable_file_is_seen
        an_open_with_flags_in_memory_is_seen_where_it_would_write
        descriptors_do_not_signal_strangers;
    Nothing =>
        a_program_with_rights_of_its_own_is_delegation
        a_signal_that_ends_the_runner_is_no_harmless_one;
    Mounts =>
        shared_memory_that_is_left_is_listed_and_what_was_removed_is_not;
    Pids =>
        objects_of_system_v_that_are_left_are_listed
        links_of_proc_lead_right_in_a_nested_process_namespace;
}

const BOTH: [Pass; 2] = [Pass::Denied, Pass::Contained];

fn python(stage: &Stage, script: &str) -> Run {
    stage.run(&[
        "python3".as_ref(),
        "-B".as_ref(),
        "-c".as_ref(),
        script.as_ref(),
    ])
}

fn marked(run: &Run, mark: Mark) -> usize {
    run.attempts
        .iter()
        .filter(|a| a.marks.contains(&mark))
        .count()
}

fn a_folder_named_by_nothing_is_the_working_folder() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let script = format!(
            r#"
import ctypes, os
l = ctypes.CDLL(None)
os.chdir("{}")
l.syscall(452, -100, b"", 0o700, 0x1000)
l.fchownat(-100, b"", os.getuid(), -1, 0x1000)
"#,
            stage.outside().display()
        );
        let run = python(&stage, &script);
        for effect in [Effect::Mode, Effect::Owner] {
            run.expect(effect, Place::Outside, Outcome::Denied, "outside");
        }
    }
}

fn a_request_to_the_network_that_changes_it_is_seen_and_one_that_asks_is_not() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        // Of a link: 18 asks, 19 sets. The second is hidden behind the first.
        let script = r#"
import socket, struct
def request(kind): return struct.pack("=IHHII", 32, kind, 1, 1, 0) + bytes(16)
for data in [request(18), request(18) + request(19)]:
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    try: s.sendto(data, (0, 0)); print("sent")
    except OSError as e: print(e.errno)
"#;
        let run = python(&stage, script);
        assert_eq!(run.out(), "sent\n1\n");
        let changing = run.attempts.iter().filter(|a| a.effect == Effect::Kernel);
        assert_eq!(changing.count(), 1, "{}", run.list());
        run.expect(Effect::Kernel, Place::Outside, Outcome::Denied, "something");
        // SIOCSIFFLAGS: the loopback device down.
        let script = "import fcntl, socket\ntry: fcntl.ioctl(socket.socket(), 0x8914, b'lo' + bytes(38))\nexcept OSError as e: print(e.errno)";
        let run = python(&stage, script);
        run.expect(
            Effect::Kernel,
            Place::Outside,
            Outcome::Denied,
            "on a socket",
        );
        let asks = python(
            &stage,
            "import socket; print(len(socket.if_nameindex()) > 0)",
        );
        assert_eq!(asks.out(), "True\n");
        assert!(
            asks.attempts.iter().all(|a| a.effect != Effect::Kernel),
            "{}",
            asks.list()
        );
    }
}

fn messages_between_own_processes_arrive_whole_with_their_descriptors() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        // More than one call takes, on a stream and as a datagram, and a file's descriptor beside it.
        let script = r#"
import array, os, socket
a, b = socket.socketpair()
data = os.urandom(3 << 20)
if os.fork() == 0:
    b.close(); rest = memoryview(data)
    while rest: rest = rest[a.sendmsg([rest[:5], rest[5:]]):]
    os._exit(0)
a.close()
got = b""
while chunk := b.recv(1 << 16): got += chunk
print(got == data)
c, d = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
f = open("w/file")
print(c.sendmsg([b"fd"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [f.fileno()]))]))
message, fds, *_ = socket.recv_fds(d, 10, 1)
print(message, os.read(fds[0], 10))
os.wait()
"#;
        let run = python(&stage, script);
        assert_eq!(run.out(), "True\n2\nb'fd' b'text\\n'\n", "{}", run.err());
        run.expect_nothing();
    }
}

fn a_program_with_rights_of_its_own_is_delegation() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        for (name, mode) in [("plain", 0o755), ("marked", 0o6755)] {
            stage.put(name, "#!/bin/sh\n:\n");
            fs::copy("/bin/true", stage.clone_top().join(name)).expect("copy");
            let file = stage.clone_top().join(name);
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("mode");
        }
        // Set-user-id of oneself gives nothing.
        let run = stage.sh("./plain && ./marked");
        run.expect_nothing();
    }
    // Somebody else's: a program of the system's, for an ordinary user.
    if nix::unistd::Uid::effective().is_root() {
        return;
    }
    let set_id = [
        "/usr/bin/su",
        "/bin/su",
        "/usr/bin/passwd",
        "/usr/bin/mount",
    ]
    .into_iter()
    .find(|path| fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o4000 != 0));
    let stage = Stage::new(Pass::Denied);
    let run = stage.sh(&format!(
        "{} --version; :",
        set_id.expect("a set-user-id program")
    ));
    let found = run
        .attempts
        .iter()
        .find(|a| a.call == "execve")
        .expect("seen");
    assert_eq!(found.place, Place::Delegated);
}

fn a_shared_mapping_of_a_writable_file_is_seen() {
    for (open, map, expected) in [
        ("r+b", "mmap.ACCESS_WRITE", 1),
        ("r+b", "mmap.ACCESS_COPY", 0),
        ("rb", "mmap.ACCESS_READ", 0),
    ] {
        let stage = Stage::new(Pass::Contained);
        let script = format!(
            r#"
import mmap
f = open("w/file", "{open}")
m = mmap.mmap(f.fileno(), 0, access={map})
print(m[0])
"#
        );
        let run = python(&stage, &script);
        assert_eq!(run.out(), "116\n", "{}", run.err());
        assert_eq!(
            marked(&run, Mark::Mapped),
            expected,
            "{open} {map}: {}",
            run.list()
        );
    }
    // What is the subject's own is no matter.
    let stage = Stage::new(Pass::Contained);
    let run = python(
        &stage,
        "import mmap, tempfile\nf = tempfile.TemporaryFile(); f.write(b'x' * 9); f.flush()\nmmap.mmap(f.fileno(), 0)[0] = 1\nmmap.mmap(-1, 10)[0] = 1",
    );
    assert_eq!(marked(&run, Mark::Mapped), 0, "{}", run.list());
}

fn an_open_with_flags_in_memory_is_seen_where_it_would_write() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let script = |flags: &str| {
            format!(
                r#"
import ctypes, os, struct
l = ctypes.CDLL(None, use_errno=True)
print(l.syscall(437, -100, b"w/file", struct.pack("QQQ", {flags}, 0, 0), 24), ctypes.get_errno())
"#
            )
        };
        let run = python(&stage, &script("os.O_RDONLY | os.O_CLOEXEC"));
        assert_eq!(run.out(), "-1 38\n");
        run.expect_nothing();
        let run = python(&stage, &script("os.O_WRONLY | os.O_TRUNC"));
        assert_eq!(run.out(), "-1 38\n");
        run.expect(Effect::Truncate, Place::Worktree, Outcome::Denied, "w/file");
        assert_eq!(stage.sh("cat w/file").out(), "text\n");
    }
}

fn descriptors_do_not_signal_strangers() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        // FIOSETOWN: to the process that the subject descends from, and to itself.
        let script = r#"
import fcntl, os, socket, struct
for pid in [os.getppid(), os.getpid()]:
    try: fcntl.ioctl(socket.socket(), 0x8901, struct.pack("i", pid)); print("done")
    except OSError as e: print(e.errno)
"#;
        let run = python(&stage, script);
        assert_eq!(run.out(), "1\ndone\n");
        let refused = run.attempts.iter().filter(|a| a.place == Place::Outside);
        assert_eq!(refused.count(), 1, "{}", run.list());
    }
}

fn a_signal_that_ends_the_runner_is_no_harmless_one() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        for (signal, mark) in [
            ("WINCH", Mark::Runner),
            ("CHLD", Mark::Runner),
            ("KILL", Mark::AbsentHere),
            ("TERM", Mark::AbsentHere),
            ("STOP", Mark::AbsentHere),
        ] {
            let run = stage.sh(&format!("kill -{signal} $PPID; echo alive"));
            assert_eq!(run.out(), "alive\n");
            let found = run.expect(Effect::Signal, Place::Outside, Outcome::Denied, "");
            assert_eq!(found.marks, [mark], "{signal}");
        }
    }
}

fn shared_memory_that_is_left_is_listed_and_what_was_removed_is_not() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let run = stage.sh("echo x > /dev/shm/gone; rm /dev/shm/gone");
        assert_eq!(marked(&run, Mark::LeftBehind), 0, "{}", run.list());
        let run = stage.sh("echo x > /dev/shm/left");
        assert_eq!(marked(&run, Mark::LeftBehind), 1, "{}", run.list());
        let left = run
            .attempts
            .iter()
            .find(|a| a.marks.contains(&Mark::LeftBehind));
        assert_eq!(left.map(|a| a.place), Some(Place::Ipc));
    }
}

fn objects_of_system_v_that_are_left_are_listed() {
    let stage = Stage::new(Pass::Contained);
    let run = stage.sh("ipcmk -M 4096 -Q -S 1");
    assert_eq!(marked(&run, Mark::LeftBehind), 3, "{}", run.list());
    let run = stage.sh("id=$(ipcmk -M 4096 | tr -dc 0-9); ipcrm -m $id");
    assert_eq!(marked(&run, Mark::LeftBehind), 0, "{}", run.list());
}

fn links_of_proc_lead_right_in_a_nested_process_namespace() {
    for pass in BOTH {
        let stage = Stage::new(pass);
        let script = "exec 9<w/file; unshare -Up --fork sh -c ': >/proc/self/fd/9'";
        let run = stage.sh(script);
        let outcome = match pass {
            Pass::Denied => Outcome::Denied,
            Pass::Contained => Outcome::Allowed,
        };
        run.expect(Effect::Truncate, Place::Worktree, outcome, "w/file");
    }
}
