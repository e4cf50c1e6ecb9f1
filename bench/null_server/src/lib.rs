//! A PostgreSQL server without a database: it answers every statement at once, or exactly as late,
//! as wrong and as often as it was told. What a client measures against it is the client's own.
//!
//! Assumptions: trust authentication, no TLS, one thread. A row is one column, or the server's own
//! clock when stamps are asked for.

pub mod behaviour;
pub mod clock;
pub mod reply;
pub mod server;
pub mod session;
pub mod statement;
