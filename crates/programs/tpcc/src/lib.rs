//! The TPC-C-like workload: its nine tables and its five transactions.

mod dataset;
mod options;
mod program;
pub mod random;
pub mod sizes;

pub use self::options::TpccOptions;
pub use self::program::TpccLike;
