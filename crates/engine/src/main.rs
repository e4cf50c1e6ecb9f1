use std::process::ExitCode;

fn main() -> ExitCode {
    pgdyno_engine::app::main(std::env::args_os().skip(1).collect())
}
