//! A runner in a process of its own, for tests that end the runner itself.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use calibrun_sandbox::Pass;

use crate::stage::Stage;

/// First argument of such a runner; the second is the pass, the third a word that marks its processes.
pub(crate) const ROLE: &str = "__drive";

/// Runs a subject that writes into the clone without end, in processes of several kinds.
pub(crate) fn play(pass: &str, args: &[OsString]) -> ExitCode {
    let pass = if pass == Pass::Denied.name() {
        Pass::Denied
    } else {
        Pass::Contained
    };
    let mark = args[0].to_string_lossy().into_owned();
    let stage = Stage::new(pass);
    println!("{}", stage.clone_top().display());
    println!("{}", stage.repo().display());
    std::io::stdout().flush().expect("say where");
    // One of them by a file that it has open already, one that has left the session.
    let script = format!(
        r#": {mark}; exec 3>>"$TMPDIR/log" 2>/dev/null
        sh -c ': {mark}; while :; do echo x >&3; done' &
        setsid sh -c ': {mark}; while :; do echo x >> w/file; done' &
        while :; do echo x >> w/file; done"#
    );
    stage.sh(&script);
    ExitCode::SUCCESS
}
