//! The contract with the lab: one job in, a stream of records out.
//!
//! The JSON Schema of both (`pgdyno-engine schema`) is generated from these types and from the
//! options of the datasets, and committed as `crates/pgdyno-engine/contract.schema.json`. Unknown
//! fields are refused in jobs and ignored in records.

pub mod bucket;
pub mod facts;
pub mod init;
pub mod job;
pub mod record;
mod summary;
pub mod tls;

/// Version of the contract. A job of another version is refused.
pub const FORMAT: &str = "pgdyno.contract/1";

/// Number of additions to the contract. A lab refuses an engine with a smaller number, because this
/// engine would not know all of the job. A test requires a higher number for every change of the
/// schema.
pub const REVISION: u32 = 29;
