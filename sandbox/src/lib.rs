//! Runs one argv where it can do no harm and returns every change that it tried to make.
//!
//! ```text
//! Job -> launcher (namespaces, mounts, Landlock, filter) -> subject
//!          \-> supervisor (listener: decode, resolve, locate, answer) -> Run
//! ```
//!
//! This crate knows nothing of declarations or verdicts: it confines, observes and reports.
//! Linux only. `unsafe` stands in `sys` alone.

mod address;
pub mod attempt;
pub mod calls;
mod channel;
mod control;
pub mod filter;
pub mod job;
mod launch;
mod places;
mod process;
mod resolve;
mod roles;
mod run;
mod supervise;
pub mod switch;
pub mod sys;
mod witness;

pub use attempt::{Attempt, Effect, FileKind, Mark, Outcome, Place, Target};
pub use control::{Calibration, ControlError, calibrate};
pub use job::{Gap, Job, Layers, Layout, Limits, Output, Pass, Run, Stdin, Termination};
pub use roles::play_hidden_role;
pub use run::{RunError, run};
