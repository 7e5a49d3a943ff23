//! The vocabulary that declarations share: eight axes, their roles, orders and values. Pure.

pub mod axes;

pub use axes::{
    Approval, Axis, Degrade, Judge, Kind, Residency, Reversibility, Role, TierFloor, Writes,
    axes_table,
};
