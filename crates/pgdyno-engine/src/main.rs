//! The load engine as a program: its verbs, and the table of native programs and datasets.

mod app;
mod read_events;
mod read_log;
mod table;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let program = arguments.first().map(Path::new).and_then(Path::file_name);
    // A copy or a link with one of these names is the drop-in: scripts that call pgbench need no
    // change.
    if program.is_some_and(|name| name == "pgbench" || name == "pgdyno-pgbench") {
        arguments[0] = "pgbench".into();
    } else if !arguments.is_empty() {
        arguments.remove(0);
    }
    app::main(arguments)
}
