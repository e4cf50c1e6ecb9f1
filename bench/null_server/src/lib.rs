//! A PostgreSQL server without a database: it answers every statement at once, or exactly as late,
//! and with the requested faults. A client that measures against it measures itself.
//!
//! Assumptions: trust authentication, no TLS, one thread. A row is one column, or the server's own
//! clock when stamps are asked for.

pub mod behaviour;
pub mod canned;
pub mod clock;
pub mod reply;
pub mod server;
pub mod session;
pub mod statement;
