//! What a poller tells of its connections, and what ends its wait.

use std::io;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

/// Names a connection of one poller. It is an index of a list, so choose small numbers.
pub type Token = u32;

/// An event of a connection.
#[derive(Debug)]
pub enum Event<'a> {
    Connected(Token),
    /// Bytes came. `at_ns` was read right after the system call that brought them.
    Received {
        token: Token,
        bytes: &'a [u8],
        at_ns: u64,
    },
    /// The peer closed the connection (no `error`), or the connection failed. The token is free.
    Closed {
        token: Token,
        error: Option<io::Error>,
    },
}

/// Ends another thread's wait.
#[derive(Clone, Debug)]
pub struct Waker(pub(super) Arc<OwnedFd>);

impl Waker {
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub fn wake(&self) {
        // It fails only if the counter is full. Then a wake-up is already pending.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}
