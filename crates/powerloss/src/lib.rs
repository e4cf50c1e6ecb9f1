//! A file system that forgets what was not synced, for tests of power loss.
//!
//! `model` is pure: operations in, survivors out. `layer` adds faults and the rules of POSIX, `rim`
//! connects it to the kernel through FUSE, and `app` takes commands from standard input. With
//! `formatted`, one file of the layer is the disk of a real file system. Everything is kept in
//! memory.
//!
//! Assumptions: a sector is written wholly or not at all; owner, mode and times of a file survive
//! at once; a rename is atomic.

pub mod app;
mod formatted;
mod layer;
pub mod model;
mod rim;
