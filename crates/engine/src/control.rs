//! Listens for orders: on standard input after the job, and by signals.

use std::io::{self, BufRead, Read};
use std::os::unix::net::UnixStream;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// An order to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Begin the load at this instant, on the monotonic clock.
    Start {
        at_ns: u64,
    },
    Stop,
}

/// Call `on_order` at SIGINT, SIGTERM or SIGHUP, at a line `stop`, or at the end of `input` with
/// `Stop`, and at a line `start INSTANT` with `Start`.
///
/// Limits: `Stop` may come more than once.
pub fn listen(
    input: impl BufRead + Send + 'static,
    on_order: impl Fn(Order) + Clone + Send + 'static,
) -> io::Result<()> {
    let (mut signals, sender) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    let on_signal = on_order.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        while matches!(signals.read(&mut [0]), Ok(1)) {
            on_signal(Order::Stop);
        }
    })?;
    thread::Builder::new().name("orders".into()).spawn(move || {
        for line in input.lines() {
            let Ok(line) = line else { break };
            match line.trim() {
                "" => {}
                text => match order(text) {
                    Some(Order::Stop) => break,
                    Some(start) => on_order(start),
                    None => eprintln!(
                        "pgdyno-engine: unknown order {text:?}, must be stop or start INSTANT"
                    ),
                },
            }
        }
        on_order(Order::Stop);
    })?;
    Ok(())
}

fn order(text: &str) -> Option<Order> {
    match text.split_once(' ') {
        None if text == "stop" => Some(Order::Stop),
        Some(("start", at_ns)) => at_ns.parse().ok().map(|at_ns| Order::Start { at_ns }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_to_start_has_an_instant() {
        assert_eq!(order("start 12"), Some(Order::Start { at_ns: 12 }));
        assert_eq!(order("stop"), Some(Order::Stop));
        for wrong in ["start", "start x", "start -1", "stop 1", "begin 12"] {
            assert_eq!(order(wrong), None, "{wrong}");
        }
    }
}
