//! Orders from outside: the rest of standard input, and signals.

use std::io::{self, BufRead, Read};
use std::os::unix::net::UnixStream;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Call `on_stop` when told to stop: by SIGINT, SIGTERM or SIGHUP, by a line `stop`, or by the end
/// of `input`. It may be called more than once.
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
                Ok(other) => eprintln!("pgdyno-engine: unknown order {other:?}; known is: stop"),
            }
        }
        on_stop();
    })?;
    Ok(())
}
