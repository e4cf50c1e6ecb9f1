//! Whole load jobs, done in this process against a server that does what the test says.

mod checked;
mod connections;
mod failover;
mod fake;
mod journal;
mod native;
mod outcomes;
mod parts;
mod read_only;
mod stillness;
mod truth;
