//! Reads the logs of PostgreSQL servers: bytes in, messages and statements out.
//!
//! Assumptions: the texts of a log are in encodings that keep ASCII, as all encodings of servers
//! do. Files, compression and the order of files belong to the caller. Memory is bounded by the
//! longest message and by two tables with a limit.

mod csv;
mod events;
mod guess;
mod json;
mod line;
mod lines;
mod message;
mod parameters;
mod parts;
mod prefix;
mod reader;
mod shape;
mod stderr;
mod syslog;
mod time;
mod words;

pub use events::Event;
pub use lines::{Lines, Written};
pub use message::{Counts, Message, Severity};
pub use prefix::Prefix;
pub use reader::{Beginning, Format, Reader, Trouble};
