//! The file system that forgets; here, so that it comes in the same wheel as the engine.

fn main() -> std::process::ExitCode {
    pgdyno_powerloss::app::main()
}
