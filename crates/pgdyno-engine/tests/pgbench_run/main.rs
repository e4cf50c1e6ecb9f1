//! The drop-in against the real pgbench, on the same servers: the same lines, the same random
//! numbers, the same tables.

#[path = "../../../engine/tests/common/mod.rs"]
mod common;
mod done;
mod logged;
mod refused;
mod said;
mod stand;
