//! The hidden roles in which the same binary is executed again.

use std::ffi::OsString;

/// First argument of the launcher.
pub(crate) const LAUNCHER: &str = "__calibrun-launcher";
/// First argument of the witness; the second says what it does.
pub(crate) const WITNESS: &str = "__calibrun-witness";

/// Plays a hidden role and exits, if this process was executed for one; returns otherwise.
///
/// Every program that calls [`crate::run`] must call this first in `main`, while it has one thread.
pub fn play_hidden_role() {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(role) if role == LAUNCHER => crate::launch::main(),
        Some(role) if role == WITNESS => {
            let rest: Vec<OsString> = args.collect();
            std::process::exit(crate::witness::main(&rest));
        }
        _ => {}
    }
}
