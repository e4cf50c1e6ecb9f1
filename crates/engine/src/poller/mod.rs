//! The sockets of a load thread: all system calls on the network, and the only place it waits.
//!
//! The caller names a connection by a token, a small integer of its choice. It passes bytes to be
//! sent, and gets events with the bytes that were received. This interface suits readiness (epoll)
//! and completion (io_uring) alike.

mod address;
#[cfg(test)]
mod contract_tests;
mod epoll;
mod event;
mod keepalive;
mod uring;

use std::io;
use std::sync::OnceLock;

pub use address::{Address, abstract_name, resolve};
use epoll::Epoll;
pub use event::{Event, Token, Waker};
pub use keepalive::keep_alive;
use uring::Uring;

/// The environment variable that names the poller, `epoll` or `io_uring`.
pub const VARIABLE: &str = "PGDYNO_POLLER";

/// With fewer connections, or fewer transactions per second, a thread sleeps between any two
/// replies. On an idle host it wakes 5 to 10 us later from a ring than from epoll, as long as a
/// fast statement takes. At 2,000 transactions per second this is a quarter of the thread's CPU.
const RING_CONNECTIONS_MIN: usize = 5;
const RING_RATE_MIN_TPS: f64 = 5_000.0;

/// The expected work of a thread, which decides how it waits.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    pub connections: usize,
    /// Highest offered rate, in transactions per second; None in a closed loop.
    pub rate_tps: Option<f64>,
}

impl Expected {
    fn is_sparse(self) -> bool {
        let is_slow = self.rate_tps.is_some_and(|rate| rate < RING_RATE_MIN_TPS);
        is_slow || self.connections < RING_CONNECTIONS_MIN
    }
}

/// The two kinds of pollers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Epoll,
    Uring,
}

impl Kind {
    /// The name in `hello.poller`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Epoll => "epoll",
            Kind::Uring => "io_uring",
        }
    }

    /// Return the kind that the environment names. Without it: io_uring if this host offers it,
    /// because it costs less with many connections; else epoll.
    ///
    /// Errors: the environment names an unknown kind, or a kind that this host does not offer.
    pub fn choose() -> io::Result<Kind> {
        static OFFER: OnceLock<Result<(), io::ErrorKind>> = OnceLock::new();
        let asked = asked();
        let probe = || *OFFER.get_or_init(|| uring::probe().map_err(|error| error.kind()));
        Kind::chosen(asked.as_deref(), || Ok(probe()?))
    }

    fn chosen(asked: Option<&str>, probe: impl FnOnce() -> io::Result<()>) -> io::Result<Kind> {
        match asked {
            None | Some("") => Ok(probe().map_or(Kind::Epoll, |()| Kind::Uring)),
            Some("epoll") => Ok(Kind::Epoll),
            Some("io_uring") => probe().map(|()| Kind::Uring).map_err(|error| {
                let message =
                    format!("{VARIABLE}=io_uring, but this host does not offer it: {error}");
                io::Error::new(error.kind(), message)
            }),
            Some(other) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{VARIABLE} must be epoll or io_uring, got \"{other}\""),
            )),
        }
    }
}

fn asked() -> Option<String> {
    std::env::var_os(VARIABLE).map(|name| name.to_string_lossy().into_owned())
}

/// One thread's sockets, timer and waker.
#[derive(Debug)]
pub enum Poller {
    Epoll(Box<Epoll>),
    Uring(Box<Uring>),
}

impl Poller {
    /// Make a poller of a kind. `waker` ends its waits.
    ///
    /// Limits: only the thread that made the poller may use it.
    pub fn new(kind: Kind, waker: Waker) -> io::Result<Poller> {
        Ok(match kind {
            Kind::Epoll => Poller::Epoll(Box::new(Epoll::new(waker)?)),
            Kind::Uring => Poller::Uring(Box::new(Uring::new(waker)?)),
        })
    }

    /// Make the poller for a thread. If the environment names a kind, it is `kind`. If not, it is
    /// epoll when replies come one by one, or when this thread cannot get a ring (memory, limits).
    pub fn for_thread(expected: Expected, kind: Kind, waker: Waker) -> io::Result<Poller> {
        if asked().is_some_and(|name| !name.is_empty()) {
            return Poller::new(kind, waker);
        }
        let kind = if expected.is_sparse() { Kind::Epoll } else { kind };
        Poller::made(kind, waker, Uring::new)
    }

    fn made(
        kind: Kind,
        waker: Waker,
        ring: impl FnOnce(Waker) -> io::Result<Uring>,
    ) -> io::Result<Poller> {
        if kind == Kind::Uring
            && let Ok(uring) = ring(waker.clone())
        {
            return Ok(Poller::Uring(Box::new(uring)));
        }
        Poller::new(Kind::Epoll, waker)
    }

    pub fn kind(&self) -> Kind {
        match self {
            Poller::Epoll(_) => Kind::Epoll,
            Poller::Uring(_) => Kind::Uring,
        }
    }

    /// Begin to connect.
    ///
    /// Returns: true if the connection is made already; if false, `Connected` or `Closed` follows.
    ///
    /// Errors: `WouldBlock` if the backlog of a Unix socket is full: try again later. After an
    /// error the token is free.
    pub fn connect(&mut self, token: Token, address: &Address) -> io::Result<bool> {
        match self {
            Poller::Epoll(epoll) => epoll.connect(token, address),
            Poller::Uring(uring) => uring.connect(token, address),
        }
    }

    /// Send bytes, at the latest with the next wait. Bytes that the kernel does not accept are
    /// kept, and sent later.
    ///
    /// If the connection is broken, `Closed` reports it after the bytes that the peer had sent.
    #[inline]
    pub fn send(&mut self, token: Token, bytes: &[u8]) {
        match self {
            Poller::Epoll(epoll) => epoll.send(token, bytes),
            Poller::Uring(uring) => uring.send(token, bytes),
        }
    }

    /// Close a connection. No event of it follows.
    pub fn close(&mut self, token: Token) {
        match self {
            Poller::Epoll(epoll) => epoll.close(token),
            Poller::Uring(uring) => uring.close(token),
        }
    }

    /// Return true if bytes given to `send` have not left yet.
    pub fn is_sending(&self, token: Token) -> bool {
        match self {
            Poller::Epoll(epoll) => epoll.is_sending(token),
            Poller::Uring(uring) => uring.is_sending(token),
        }
    }

    /// Send now what would leave with the next wait. Returns the number of messages.
    pub fn submit(&mut self) -> u64 {
        match self {
            Poller::Epoll(_) => 0,
            Poller::Uring(uring) => uring.submit(),
        }
    }

    /// Wait for events until `until_ns` (monotonic; 0 = do not wait), and pass them to `on_event`:
    /// at most one for each token.
    #[inline]
    pub fn wait(&mut self, until_ns: u64, on_event: &mut impl FnMut(Event<'_>)) -> io::Result<()> {
        match self {
            Poller::Epoll(epoll) => epoll.wait(until_ns, on_event),
            Poller::Uring(uring) => uring.wait(until_ns, on_event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: fn() -> io::Result<()> = || Ok(());
    const REFUSED: fn() -> io::Result<()> = || Err(io::ErrorKind::PermissionDenied.into());

    #[test]
    fn a_thread_that_gets_no_ring_waits_with_epoll() {
        let waker = Waker::new().expect("an eventfd");
        let none = |_| Err(io::ErrorKind::OutOfMemory.into());
        let mut poller = Poller::made(Kind::Uring, waker.clone(), none).expect("epoll is there");
        assert_eq!(poller.kind(), Kind::Epoll);
        waker.wake();
        poller.wait(u64::MAX, &mut |_| {}).expect("the waker ends it");
    }

    #[test]
    fn replies_that_come_one_by_one_are_waited_for_with_epoll_unless_the_environment_says() {
        let offered = Kind::choose().expect("a poller");
        let made = |connections, rate_tps| {
            let waker = Waker::new().expect("an eventfd");
            let expected = Expected { connections, rate_tps };
            Poller::for_thread(expected, offered, waker).expect("a poller").kind()
        };
        assert_eq!(made(1_000, None), offered);
        assert_eq!(made(1_000, Some(RING_RATE_MIN_TPS)), offered);
        let sparse = if asked().is_some() { offered } else { Kind::Epoll };
        assert_eq!(made(RING_CONNECTIONS_MIN - 1, None), sparse);
        assert_eq!(made(8_000, Some(2_000.0)), sparse);
    }

    fn chosen(asked: Option<&str>, probe: fn() -> io::Result<()>) -> Result<Kind, String> {
        Kind::chosen(asked, probe).map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_wish_it_is_io_uring_where_the_host_offers_it() {
        assert_eq!(chosen(None, OFFERED), Ok(Kind::Uring));
        assert_eq!(chosen(Some(""), OFFERED), Ok(Kind::Uring));
        assert_eq!(chosen(None, REFUSED), Ok(Kind::Epoll));
        assert_eq!(chosen(Some(""), REFUSED), Ok(Kind::Epoll));
    }

    #[test]
    fn a_wish_is_granted_or_refused_by_name() {
        assert_eq!(chosen(Some("epoll"), OFFERED), Ok(Kind::Epoll));
        assert_eq!(chosen(Some("io_uring"), OFFERED), Ok(Kind::Uring));
        let error = chosen(Some("io_uring"), REFUSED).expect_err("it is not offered");
        assert_eq!(
            error,
            "PGDYNO_POLLER=io_uring, but this host does not offer it: permission denied"
        );
        let error = chosen(Some("kqueue"), OFFERED).expect_err("no such poller");
        assert_eq!(error, "PGDYNO_POLLER must be epoll or io_uring, got \"kqueue\"");
    }
}
