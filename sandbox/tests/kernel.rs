//! The sandbox against the kernel: real subjects, real file systems, nothing faked.
//!
//! ```text
//! kernel --- no hidden role --> the tests, each in every condition that it applies to
//!        --- __subject NAME --> an odd program that a test runs inside the sandbox
//!        --- __case NAME -----> one test in this process, with layers switched off by its environment
//!        --- __drive NAME ----> a runner of its own, for tests that end the runner itself
//! ```
//!
//! Every case runs with all layers of this host, and again without namespaces. What a host lacks is
//! reported as ignored, with its reason; with `CALIBRUN_MUST_RUN=1` it is a failure.

#[path = "kernel/controls.rs"]
mod controls;
#[path = "kernel/doors.rs"]
mod doors;
#[path = "kernel/drive.rs"]
mod drive;
#[path = "kernel/ending.rs"]
mod ending;
#[path = "kernel/evasions.rs"]
mod evasions;
#[path = "kernel/files.rs"]
mod files;
#[path = "kernel/host.rs"]
mod host;
#[path = "kernel/launching.rs"]
mod launching;
#[path = "kernel/network.rs"]
mod network;
#[path = "kernel/operations.rs"]
mod operations;
#[path = "kernel/processes.rs"]
mod processes;
#[path = "kernel/races.rs"]
mod races;
#[path = "kernel/raw.rs"]
mod raw;
#[path = "kernel/records.rs"]
mod records;
#[path = "kernel/stage.rs"]
mod stage;
#[path = "kernel/subject.rs"]
mod subject;
#[path = "kernel/views.rs"]
mod views;

use std::process::ExitCode;

use host::{Case, Host};
use libtest_mimic::Arguments;

fn cases() -> impl Iterator<Item = &'static Case> {
    [
        launching::CASES,
        ending::CASES,
        files::CASES,
        records::CASES,
        views::CASES,
        operations::CASES,
        doors::CASES,
        processes::CASES,
        network::CASES,
        evasions::CASES,
        races::CASES,
        controls::CASES,
    ]
    .into_iter()
    .flatten()
}

fn main() -> ExitCode {
    calibrun_sandbox::play_hidden_role();
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let word = |n: usize| args.get(n).and_then(|a| a.to_str()).unwrap_or_default();
    match word(0) {
        subject::ROLE => return subject::play(word(1), &args[2..]),
        host::CASE_ROLE => {
            let all = cases().chain([&controls::REPORT]);
            let case = all.into_iter().find(|case| case.name == word(1));
            (case.expect("no case has this name").run)();
            return ExitCode::SUCCESS;
        }
        drive::ROLE => return drive::play(word(1), &args[2..]),
        _ => {}
    }
    let host = Host::look();
    let trials = cases().flat_map(|case| host.trials(case)).collect();
    let mut arguments = Arguments::from_args();
    // Each case is a process of its own that mostly waits: for deadlines, lingers, other processes.
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    arguments.test_threads.get_or_insert(3 * cpus);
    libtest_mimic::run(&arguments, trials).exit_code()
}
