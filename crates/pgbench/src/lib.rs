//! `pgdyno-engine pgbench`: pgbench 18, option for option and line for line, on this engine.
//!
//! `options` reads the command line. `init` does `-i`. `run` generates the load with the same
//! threads as the lab's jobs. In each thread a `witness` counts and decides as pgbench does.

mod combinations;
mod conninfo;
pub mod dataset;
mod getopt;
mod init;
mod log;
mod options;
mod password;
mod progress;
mod report;
mod run;
mod say;
mod scripts;
mod security;
mod seed;
mod stats;
mod values;
mod witness;

use std::process::ExitCode;

use self::say::{Fault, print, version};

const HELP: &str = include_str!("help.txt");

/// Run as pgbench with these arguments.
pub fn main(arguments: &[&str]) -> ExitCode {
    match arguments.first() {
        Some(&"--help" | &"-?") => return print(HELP),
        Some(&"--version" | &"-V") => {
            return print(&format!("pgbench (PostgreSQL) {}\n", version()));
        }
        _ => {}
    }
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    match try_main(&arguments) {
        Ok(exit_code) => ExitCode::from(exit_code),
        Err(fault) => {
            fault.print();
            ExitCode::from(fault.exit_code)
        }
    }
}

fn try_main(arguments: &[String]) -> Result<u8, Fault> {
    let mut options = options::read(arguments)?;
    // As in libpq, faults in the settings of a connection are reported when it connects.
    let purpose = if options.is_init { "initialization" } else { "setup" };
    let (mut target, password_file) = conninfo::target(&options)
        .map_err(|fault| fault.and(format!("could not create connection for {purpose}")))?;
    options.password_file = password_file;
    match options.is_init {
        true => init::run(&options, &mut target).map(|()| 0),
        false => run::run(&options, &mut target),
    }
}
