//! The only system calls on the network, and the only place a thread waits.
//!
//! A poller owns its thread's sockets. The caller names a connection by a token of its choice, a
//! small integer. The interface suits readiness (epoll) and completion (io_uring) alike: bytes are
//! handed in to be sent, and handed out when they have been received.

mod address;
#[cfg(test)]
mod contract_tests;
mod epoll;
mod keepalive;
mod uring;

use std::io;
use std::sync::{Arc, OnceLock};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

pub use address::{Address, abstract_name, resolve};
use epoll::Epoll;
pub use keepalive::keep_alive;
use uring::Uring;

/// Names a poller (`epoll` or `io_uring`) in place of the one that would be chosen.
pub const VARIABLE: &str = "PGDYNO_POLLER";

/// With fewer connections, or fewer transactions a second, a thread sleeps between any two replies.
/// An idle host takes 5 to 10 us longer to come back through a ring than from epoll, as much as a
/// fast statement takes; at 2,000 transactions a second that is a quarter of the thread's CPU.
const RING_CONNECTIONS_MIN: usize = 5;
const RING_RATE_MIN_TPS: f64 = 5_000.0;

/// What a thread has to do, as far as it decides how it waits.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    pub connections: usize,
    /// Transactions offered a second, at most; absent in a closed loop.
    pub rate_tps: Option<f64>,
}

impl Expected {
    fn is_sparse(self) -> bool {
        let is_slow = self.rate_tps.is_some_and(|rate| rate < RING_RATE_MIN_TPS);
        is_slow || self.connections < RING_CONNECTIONS_MIN
    }
}

/// Names a connection of one poller: an index, so choose small numbers.
pub type Token = u32;

/// What happened on a connection.
#[derive(Debug)]
pub enum Event<'a> {
    Connected(Token),
    /// `at_ns` was read right after the system call that brought the bytes.
    Received {
        token: Token,
        bytes: &'a [u8],
        at_ns: u64,
    },
    /// The peer closed it (`error` absent) or it failed; the poller has let go of the token.
    Closed {
        token: Token,
        error: Option<io::Error>,
    },
}

/// Ends another thread's wait.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub fn wake(&self) {
        // It fails only when the counter is full: then the wake-up is pending anyway.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Epoll,
    Uring,
}

impl Kind {
    /// As in `hello.poller`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Epoll => "epoll",
            Kind::Uring => "io_uring",
        }
    }

    /// The kind that the environment asks for; else io_uring where this host offers it, which costs
    /// less where connections are many, and epoll elsewhere.
    ///
    /// Errors: the environment asks for what does not exist, or what this host does not offer.
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
    /// A poller of a kind; `waker` ends its waits. It is used by the thread that made it.
    pub fn new(kind: Kind, waker: Waker) -> io::Result<Poller> {
        Ok(match kind {
            Kind::Epoll => Poller::Epoll(Box::new(Epoll::new(waker)?)),
            Kind::Uring => Poller::Uring(Box::new(Uring::new(waker)?)),
        })
    }

    /// A poller for what a thread has to do: of the kind, if the environment names it; else epoll
    /// where replies come one by one, and where this thread gets no ring (memory, limits).
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

    /// Begin to connect; true = connected at once, else `Connected` or `Closed` follows.
    ///
    /// Errors: `WouldBlock` when a Unix socket's backlog is full: to be tried again later. After an
    /// error the token is free.
    pub fn connect(&mut self, token: Token, address: &Address) -> io::Result<bool> {
        match self {
            Poller::Epoll(epoll) => epoll.connect(token, address),
            Poller::Uring(uring) => uring.connect(token, address),
        }
    }

    /// Send bytes, at the latest when the thread next waits; what the kernel does not take then is
    /// kept and sent later.
    ///
    /// A connection that turns out to be broken is reported by `Closed`, after what it had sent.
    #[inline]
    pub fn send(&mut self, token: Token, bytes: &[u8]) {
        match self {
            Poller::Epoll(epoll) => epoll.send(token, bytes),
            Poller::Uring(uring) => uring.send(token, bytes),
        }
    }

    /// Let go of a connection; no event of it follows.
    pub fn close(&mut self, token: Token) {
        match self {
            Poller::Epoll(epoll) => epoll.close(token),
            Poller::Uring(uring) => uring.close(token),
        }
    }

    /// True when bytes given to `send` are still here.
    pub fn is_sending(&self, token: Token) -> bool {
        match self {
            Poller::Epoll(epoll) => epoll.is_sending(token),
            Poller::Uring(uring) => uring.is_sending(token),
        }
    }

    /// Send what would go out with the next wait; returns how many messages that were.
    pub fn submit(&mut self) -> u64 {
        match self {
            Poller::Epoll(_) => 0,
            Poller::Uring(uring) => uring.submit(),
        }
    }

    /// Wait for events until `until_ns` (monotonic; 0 = do not wait) and hand them out, at most one
    /// of each token.
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
