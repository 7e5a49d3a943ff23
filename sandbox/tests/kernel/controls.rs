//! The witness: an instrument that works passes, and one with a layer off does not.

use std::process::{Command, Output};

use calibrun_sandbox::switch::Switches;
use calibrun_sandbox::{Calibration, Gap, Pass, calibrate};

use crate::host::{CASE_ROLE, cases};
use crate::stage::Stage;

cases! {
    Nothing =>
        an_instrument_that_works_passes
        without_landlock_it_fails
        without_a_listener_it_fails;
    Mounts =>
        without_mounts_the_run_says_so
        without_a_private_home_the_layers_say_so;
    MountsAndRoom =>
        without_private_temp_folders_the_run_says_so;
    Net =>
        without_a_private_network_the_run_says_so;
    Pids =>
        without_a_process_tree_the_run_says_so;
}

/// A case that is only run by others: prints what a calibration found.
pub(crate) const REPORT: crate::host::Case = crate::host::Case {
    name: "kernel::controls::report",
    needs: crate::host::Need::Nothing,
    run: || {
        println!("{:#?}", calibration());
        let run = Stage::new(Pass::Contained).sh("true");
        println!("{:?} {:?}", run.layers, run.gaps);
    },
};

fn calibration() -> Calibration {
    let stage = Stage::new(Pass::Denied);
    let job = stage.job(&["true".as_ref()]);
    calibrate(&job, &stage.work(), &|| false).expect("the witness can be run")
}

/// Calibrates in a process with `layer` off as well.
fn report_without(layer: &str) -> String {
    let mut off = std::env::var(Switches::VARIABLE).unwrap_or_default();
    if !off.is_empty() {
        off.push(',');
    }
    off.push_str(layer);
    // The witness is this program, so it must lie where no layer that may be missing hides it.
    let stage = Stage::new(Pass::Denied);
    let copy = stage.outside().join("kernel");
    std::fs::copy(std::env::current_exe().expect("this program"), &copy).expect("copy it");
    let output: Output = Command::new(copy)
        .args([CASE_ROLE, REPORT.name])
        .env(Switches::VARIABLE, off)
        .output()
        .expect("run this program");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn an_instrument_that_works_passes() {
    let found = calibration();
    assert_eq!(found.failures, Vec::<String>::new());
    assert!(found.writes >= 40, "{found:?}");
    assert_eq!((found.seen, found.denied), (found.writes, found.writes));
    assert_eq!(found.reader_attempts, 0);
    assert!(found.layers.landlock_abi.is_some() && found.layers.listener);
    assert!(found.layers.no_new_privs && found.layers.capabilities_dropped);
}

/// That something failed, and not everything for another reason.
fn expect_failure(report: &str, line: &str) {
    assert!(report.contains(line), "{report}");
    assert!(!report.contains("the witness ended with"), "{report}");
    assert!(!report.contains("did not come to it"), "{report}");
}

fn without_landlock_it_fails() {
    let report = report_without("landlock");
    expect_failure(&report, "landlock_abi: None");
    expect_failure(&report, "Landlock does not keep the subject");
}

fn without_a_listener_it_fails() {
    let report = report_without("listener");
    expect_failure(&report, "listener: false");
    expect_failure(&report, "create-in-worktree: was not seen");
    expect_failure(&report, "connect-inet: was not seen");
}

/// A layer that is only wanted: what is left still refuses everything, and the run names the lack.
fn only_missing(layer: &str, field: &str, gap: Option<Gap>) {
    let with = Stage::new(Pass::Contained).sh("true");
    assert!(format!("{:?}", with.layers).contains(&format!("{field}: true")));
    assert!(
        gap.is_none_or(|gap| !with.gaps.contains(&gap)),
        "{:?}",
        with.gaps
    );
    let report = report_without(layer);
    assert!(report.contains(&format!("{field}: false")), "{report}");
    assert!(
        gap.is_none_or(|gap| report.contains(&format!("{gap:?}"))),
        "{report}"
    );
    assert!(report.contains("failures: []"), "{report}");
}

fn without_mounts_the_run_says_so() {
    only_missing("mounts", "mounts", Some(Gap::NoMounts));
}

fn without_private_temp_folders_the_run_says_so() {
    only_missing("temp-overlay", "temp_overlay", Some(Gap::TempNotOverlaid));
}

fn without_a_private_home_the_layers_say_so() {
    only_missing("home-overlay", "home_overlay", None);
}

fn without_a_private_network_the_run_says_so() {
    only_missing("net", "net_namespace", Some(Gap::NoPrivateNet));
}

fn without_a_process_tree_the_run_says_so() {
    only_missing("pid", "pid_namespace", Some(Gap::NoPidNamespace));
}
