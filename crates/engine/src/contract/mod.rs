//! The contract with the lab: one job in, a stream of records out.
//!
//! The JSON Schema of both (`pgdyno-engine schema`) is generated from these types and committed as
//! `crates/engine/contract.schema.json`. Unknown fields are refused in jobs and ignored in records.

pub mod bucket;
pub mod corpus;
pub mod job;
pub mod record;
pub mod tls;

/// Version of the contract; the lab refuses an engine that speaks another one.
pub const FORMAT: &str = "pgdyno.contract/1";
