//! calibrun runs a declared capability where it can do no harm, watches what it tries, and says of
//! each claim: verified, contradicted, or claim-only.
//!
//! ```text
//! declaration -> plan -> workspace (clone) -> sandbox run -> record -> verdict -> report
//! ```
//!
//! Data walks one way; each stage borrows what came before and returns a new value.
#![forbid(unsafe_code)]

pub mod cli;
pub mod contract;
pub mod declaration;
pub mod exit;
pub mod plan;
pub mod probe;
pub mod record;
pub mod report;
pub mod verdict;
pub mod workspace;
