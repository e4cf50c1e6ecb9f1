//! The poller for kernels from 6.1: io_uring, with one system call in each turn of the loop.
//!
//! This call submits all sends of the turn, and then waits for replies. Each connection has one
//! receive that stays armed; received bytes are in buffers that all connections share. A send is
//! executed during its submission or not at all. So all bytes to send are in one staging area,
//! which is free again when the call returns. Only a send that was cut short or refused has a
//! completion.

mod buffers;
mod ring;

use std::collections::VecDeque;
use std::io;

use io_uring::types::Fd;
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};

use self::buffers::Buffers;
use super::{Address, Event, Token, Waker};

/// Most entries that wait for a call. If there are more, they get an additional call.
const SUBMISSIONS: u32 = 256;
/// Number of completions in the ring. If there are more, the kernel keeps a list, which is slow but
/// loses nothing.
const COMPLETIONS: u32 = 4096;
const STAGING_BYTES: usize = 64 << 10;
/// Most completions between two checks of the timers, as in epoll.
const BATCH: usize = 64;

/// Flags of a send: execute it during the submission, never wait, and send all of it if there is
/// room.
const SEND_FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL;

/// The operation to which a completion belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Operation {
    Receive,
    Send,
    /// The socket is connected, or accepts bytes again.
    Writable,
    Wake,
}

/// The name of an operation in the kernel: its kind, its token and the connection of the token.
#[derive(Clone, Copy, Debug)]
struct Name {
    operation: Operation,
    /// Counts the connections of a token. So a late completion of an old connection is recognised.
    generation: u32,
    token: Token,
}

const GENERATION_BITS: u32 = 30;

impl Name {
    #[inline]
    fn pack(self) -> u64 {
        let upper = (self.operation as u32) << GENERATION_BITS | self.generation;
        u64::from(upper) << 32 | u64::from(self.token)
    }

    #[inline]
    fn unpack(name: u64) -> Name {
        let upper = (name >> 32) as u32;
        let operation = match upper >> GENERATION_BITS {
            0 => Operation::Receive,
            1 => Operation::Send,
            2 => Operation::Writable,
            _ => Operation::Wake,
        };
        let generation = upper & ((1 << GENERATION_BITS) - 1);
        Name { operation, generation, token: name as u32 }
    }
}

/// A completion, and when it was read.
#[derive(Clone, Copy, Debug)]
struct Completion {
    name: Name,
    result: i32,
    flags: u32,
    at_ns: u64,
}

struct Socket {
    fd: OwnedFd,
    connecting: bool,
    /// Number of the last batch in which this socket had an entry.
    batch: u64,
    /// The place in the staging area of its send in that batch; empty if it has none.
    staged: std::ops::Range<usize>,
    /// Bytes that the kernel has not accepted yet. While there are some, the ring polls until the
    /// socket is writable.
    unsent: Vec<u8>,
}

#[derive(Default)]
struct Place {
    generation: u32,
    /// Number of the last wait with an event of this token.
    heard: u64,
    socket: Option<Socket>,
}

/// The poller with io_uring.
pub struct Uring {
    // Subtle: fields are dropped in this order, so the ring is closed before its memory is freed.
    ring: IoUring,
    buffers: Buffers,
    staging: Box<[u8]>,
    staged_bytes: usize,
    /// Number of the batch that is being filled.
    batch: u64,
    wait_count: u64,
    places: Vec<Place>,
    /// Completions that were taken from the ring and not handed out yet.
    completions: VecDeque<Completion>,
    waker: Waker,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").field("batch", &self.batch).finish_non_exhaustive()
    }
}

/// Check that this host offers all that the poller needs.
///
/// Errors: what the host does not offer.
pub(super) fn probe() -> io::Result<()> {
    let ring = make_ring()?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [opcode::Send::CODE, opcode::Recv::CODE, opcode::PollAdd::CODE];
    if !needed.iter().all(|&code| probe.is_supported(code)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Buffers::register(&ring.submitter()).map(drop)
}

fn make_ring() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_cqsize(COMPLETIONS)
        .build(SUBMISSIONS)
}

impl Uring {
    /// Make a ring. Call it, and all other methods, in the thread that uses it.
    pub(super) fn new(waker: Waker) -> io::Result<Uring> {
        let ring = make_ring()?;
        let buffers = Buffers::register(&ring.submitter())?;
        let mut poller = Uring {
            ring,
            buffers,
            staging: vec![0; STAGING_BYTES].into_boxed_slice(),
            staged_bytes: 0,
            batch: 1,
            wait_count: 0,
            places: Vec::new(),
            completions: VecDeque::with_capacity(2 * BATCH),
            waker,
        };
        poller.watch_waker();
        Ok(poller)
    }

    pub(super) fn connect(&mut self, token: Token, address: &Address) -> io::Result<bool> {
        let (fd, connected) = address.begin()?;
        let index = token as usize;
        if self.places.len() <= index {
            self.places.resize_with(index + 1, Place::default);
        }
        let place = &mut self.places[index];
        assert!(place.socket.is_none(), "token {token} has a connection already");
        let connecting = !connected;
        place.socket = Some(Socket { fd, connecting, batch: 0, staged: 0..0, unsent: Vec::new() });
        if connected {
            self.receive(token);
        } else {
            self.watch_writable(token);
        }
        Ok(connected)
    }

    #[inline]
    pub(super) fn send(&mut self, token: Token, bytes: &[u8]) {
        let Some(Place { socket: Some(socket), .. }) = self.places.get_mut(token as usize) else {
            return;
        };
        if !socket.unsent.is_empty() {
            socket.unsent.extend_from_slice(bytes);
            return;
        }
        // Subtle: a socket has at most one send in a batch. With two, the first could be cut short
        // and the second succeed, so bytes would be missing in between.
        let is_second = socket.batch == self.batch && !socket.staged.is_empty();
        let is_full = bytes.len() > STAGING_BYTES - self.staged_bytes;
        if is_second || is_full || self.ring.submission().is_full() {
            return self.send_beyond(token, bytes);
        }
        let staged = self.staged_bytes..self.staged_bytes + bytes.len();
        self.staging[staged.clone()].copy_from_slice(bytes);
        self.staged_bytes = staged.end;
        let begin = self.staging[staged.clone()].as_ptr();
        let entry = opcode::Send::new(Fd(socket.fd.as_raw_fd()), begin, bytes.len() as u32)
            .flags(SEND_FLAGS)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        socket.staged = staged;
        self.queue(token, Operation::Send, entry);
    }

    /// Continue `send` if the batch cannot take the bytes.
    #[cold]
    fn send_beyond(&mut self, token: Token, bytes: &[u8]) {
        self.flush();
        if bytes.len() <= STAGING_BYTES {
            return self.send(token, bytes);
        }
        let Some(socket) = &mut self.places[token as usize].socket else { return };
        match send(&socket.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) if sent == bytes.len() => return,
            Ok(sent) => socket.unsent.extend_from_slice(&bytes[sent..]),
            Err(Errno::AGAIN) => socket.unsent.extend_from_slice(bytes),
            // The connection is broken: read its last bytes first, and then report its end.
            Err(_) => return,
        }
        self.watch_writable(token);
    }

    pub(super) fn close(&mut self, token: Token) {
        let is_queued =
            |place: &Place| place.socket.as_ref().is_some_and(|socket| socket.batch == self.batch);
        if self.places.get(token as usize).is_some_and(is_queued) {
            // Entries name the descriptor by its number, which may soon belong to another socket.
            self.flush();
        }
        let Some(place) = self.places.get_mut(token as usize) else { return };
        let Some(socket) = place.socket.take() else { return };
        place.generation = (place.generation + 1) & ((1 << GENERATION_BITS) - 1);
        // Armed operations keep the connection open; shutdown ends both.
        let _ = shutdown(&socket.fd, Shutdown::Both);
    }

    pub(super) fn is_sending(&self, token: Token) -> bool {
        let socket = self.places.get(token as usize).and_then(|place| place.socket.as_ref());
        socket.is_some_and(|socket| {
            let is_staged = socket.batch == self.batch && !socket.staged.is_empty();
            is_staged || !socket.unsent.is_empty()
        })
    }

    #[inline]
    pub(super) fn wait(
        &mut self,
        until_ns: u64,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> io::Result<()> {
        let until_ns = if self.completions.is_empty() { until_ns } else { 0 };
        self.enter(until_ns)?;
        self.harvest();
        self.wait_count += 1;
        for _ in 0..BATCH {
            let Some(&completion) = self.completions.front() else { break };
            let Name { operation, token, .. } = completion.name;
            if operation != Operation::Wake {
                let place = &mut self.places[token as usize];
                if place.heard == self.wait_count {
                    // One event of a token in each wait: the caller may close the token because of
                    // it.
                    break;
                }
                place.heard = self.wait_count;
            }
            self.completions.pop_front();
            self.on_completion(completion, on_event);
        }
        Ok(())
    }
}
