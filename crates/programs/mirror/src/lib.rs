//! The mirror of a capture: tables filled from statistics, and transactions from templates.

mod dataset;
pub mod distribution;
pub mod load;
mod program;
pub mod tables;
pub mod values;

pub use self::program::Mirror;
pub use self::tables::CapturedOptions;
