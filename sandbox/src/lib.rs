//! Runs one argv where it can do no harm and returns every change that it tried to make.
//!
//! ```text
//! Job -> launcher (namespaces, mounts, Landlock, filter) -> subject
//!          \-> supervisor (listener: decode, resolve, classify, answer) -> Run
//! ```
//!
//! This crate knows nothing of declarations or verdicts: it confines, observes and reports.
//! Linux only. `unsafe` stands in `sys` alone.

pub mod attempt;
pub mod calls;
pub mod filter;
pub mod job;

pub use attempt::{Attempt, Effect, FileKind, Mark, Outcome, Place, Target};
pub use job::{Gap, Job, Layers, Layout, Limits, Output, Pass, Run, Stdin, Termination};
