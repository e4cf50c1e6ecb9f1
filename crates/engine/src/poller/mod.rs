//! The only system calls on the network, and the only place a thread waits.
//!
//! A poller owns its thread's sockets. The caller names a connection by a token of its choice, a
//! small integer. The interface suits readiness (epoll) and completion (io_uring) alike: bytes are
//! handed in to be sent, and handed out when they have been received.

mod address;
#[cfg(test)]
mod contract_tests;
mod epoll;

use std::io;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

pub use address::{Address, resolve};
use epoll::Epoll;

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

/// One thread's sockets, timer and waker.
#[derive(Debug)]
pub enum Poller {
    Epoll(Box<Epoll>),
}

impl Poller {
    /// The best poller that this host offers; `waker` ends its waits.
    pub fn new(waker: Waker) -> io::Result<Poller> {
        Ok(Poller::Epoll(Box::new(Epoll::new(waker)?)))
    }

    /// Name of what `new` would choose.
    pub fn best_name() -> &'static str {
        "epoll"
    }

    /// As in `hello.poller`.
    pub fn name(&self) -> &'static str {
        match self {
            Poller::Epoll(_) => "epoll",
        }
    }

    /// Begin to connect; true = connected at once, else `Connected` or `Closed` follows.
    ///
    /// Errors: `WouldBlock` when a Unix socket's backlog is full: to be tried again later. After an
    /// error the token is free.
    pub fn connect(&mut self, token: Token, address: &Address) -> io::Result<bool> {
        match self {
            Poller::Epoll(epoll) => epoll.connect(token, address),
        }
    }

    /// Send bytes, at once as far as the kernel takes them; the rest is kept and sent later.
    ///
    /// A connection that turns out to be broken is reported by `Closed`, after what it had sent.
    #[inline]
    pub fn send(&mut self, token: Token, bytes: &[u8]) {
        match self {
            Poller::Epoll(epoll) => epoll.send(token, bytes),
        }
    }

    /// Let go of a connection; no event of it follows.
    pub fn close(&mut self, token: Token) {
        match self {
            Poller::Epoll(epoll) => epoll.close(token),
        }
    }

    /// True when bytes given to `send` are still here.
    pub fn is_sending(&self, token: Token) -> bool {
        match self {
            Poller::Epoll(epoll) => epoll.is_sending(token),
        }
    }

    /// Wait for events until `until_ns` (monotonic; 0 = do not wait) and hand them out.
    #[inline]
    pub fn wait(&mut self, until_ns: u64, on_event: &mut impl FnMut(Event<'_>)) -> io::Result<()> {
        match self {
            Poller::Epoll(epoll) => epoll.wait(until_ns, on_event),
        }
    }
}
