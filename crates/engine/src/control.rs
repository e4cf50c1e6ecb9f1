//! Listens for the order to stop: on standard input after the job, and by signals.

use std::io::{self, BufRead, Read};
use std::os::unix::net::UnixStream;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Call `on_stop` at SIGINT, SIGTERM or SIGHUP, at a line `stop`, or at the end of `input`.
///
/// Limits: `on_stop` may be called more than once.
pub fn listen(
    input: impl BufRead + Send + 'static,
    on_stop: impl Fn() + Clone + Send + 'static,
) -> io::Result<()> {
    let (mut signals, sender) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    let stop = on_stop.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        while matches!(signals.read(&mut [0]), Ok(1)) {
            stop();
        }
    })?;
    thread::Builder::new().name("orders".into()).spawn(move || {
        for line in input.lines() {
            match line.as_deref().map(str::trim) {
                Ok("stop") | Err(_) => break,
                Ok("") => {}
                Ok(other) => eprintln!("pgdyno-engine: unknown order {other:?}, must be stop"),
            }
        }
        on_stop();
    })?;
    Ok(())
}
