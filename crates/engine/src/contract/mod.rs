//! The contract with the lab: one job in, a stream of records out.
//!
//! The JSON Schema of both (`pgdyno-engine schema`) is generated from these types and committed as
//! `crates/engine/contract.schema.json`. Unknown fields are refused in jobs and ignored in records.

pub mod bucket;
pub mod corpus;
mod corpus_jobs;
pub mod facts;
pub mod init;
pub mod job;
pub mod record;
mod summary;
pub mod tls;

/// Version of the contract; a job of another one is refused.
pub const FORMAT: &str = "pgdyno.contract/1";

/// How often it was added to. A lab refuses an engine of a smaller one, which would not know all
/// that it may be asked; a test has it raised with every change of the schema.
pub const REVISION: u32 = 11;
