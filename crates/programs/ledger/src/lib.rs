//! The ledger, which shows what became of each commit: its two tables and its transaction.

mod dataset;
mod program;

pub use self::dataset::LedgerOptions;
pub use self::program::Ledger;
