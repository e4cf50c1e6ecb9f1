//! The poller for every Linux: level-triggered epoll and one absolute timerfd.
//!
//! mio is not used: it rounds each wait up to a whole millisecond. In an open loop, each latency
//! would then be too long by as much as 1 ms. `Poller` documents the functions.

use std::io;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::{Address, Event, Token, Waker};
use crate::clock::{NEVER_NS, now_ns};

/// Maximum number of sockets to handle between two checks of the timers. A larger number saves few
/// system calls, but delays the timers.
const BATCH: usize = 64;
/// Size of the receive buffer, which all connections share. One buffer for each of 8,000
/// connections would need 500 MiB.
const RECEIVE_BYTES: usize = 64 << 10;

const TIMER: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;

struct Socket {
    fd: OwnedFd,
    connecting: bool,
    /// Bytes that the kernel has not accepted yet. If there are any, epoll also reports when the
    /// socket is writable.
    unsent: Vec<u8>,
}

/// The poller with epoll.
pub struct Epoll {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer will fire; `NEVER_NS` if it is not armed.
    armed_ns: u64,
    waker: Waker,
    sockets: Vec<Option<Socket>>,
    events: Vec<epoll::Event>,
    buffer: Box<[u8]>,
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll").field("armed_ns", &self.armed_ns).finish_non_exhaustive()
    }
}

impl Epoll {
    pub(super) fn new(waker: Waker) -> io::Result<Epoll> {
        let poller = Epoll {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            timer: timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )?,
            armed_ns: NEVER_NS,
            waker,
            sockets: Vec::new(),
            events: Vec::with_capacity(BATCH),
            buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
        };
        let add = |fd: &OwnedFd, data| {
            epoll::add(&poller.epoll, fd, EventData::new_u64(data), EventFlags::IN)
        };
        add(&poller.timer, TIMER)?;
        add(&poller.waker.0, WAKER)?;
        Ok(poller)
    }

    pub(super) fn connect(&mut self, token: Token, address: &Address) -> io::Result<bool> {
        let (fd, connected) = address.begin()?;
        let interest = if connected { EventFlags::IN } else { EventFlags::OUT };
        epoll::add(&self.epoll, &fd, EventData::new_u64(u64::from(token)), interest)?;
        let index = token as usize;
        if self.sockets.len() <= index {
            self.sockets.resize_with(index + 1, || None);
        }
        assert!(self.sockets[index].is_none(), "token {token} has a connection already");
        self.sockets[index] = Some(Socket { fd, connecting: !connected, unsent: Vec::new() });
        Ok(connected)
    }

    #[inline]
    pub(super) fn send(&mut self, token: Token, bytes: &[u8]) {
        let Some(Some(socket)) = self.sockets.get_mut(token as usize) else { return };
        if !socket.unsent.is_empty() {
            socket.unsent.extend_from_slice(bytes);
            return;
        }
        match send(&socket.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) if sent == bytes.len() => {}
            Ok(sent) => keep_unsent(&self.epoll, token, socket, &bytes[sent..]),
            Err(error) if is_passing(error) => keep_unsent(&self.epoll, token, socket, bytes),
            // Subtle: the server's last message may still be unread. So the socket is not closed
            // here: `recv` returns the message first, and then the error.
            Err(_) => {}
        }
    }

    pub(super) fn close(&mut self, token: Token) {
        // No other descriptor refers to this socket, so closing it also removes it from epoll.
        if let Some(socket) = self.sockets.get_mut(token as usize) {
            *socket = None;
        }
    }

    pub(super) fn is_sending(&self, token: Token) -> bool {
        let socket = self.sockets.get(token as usize).and_then(Option::as_ref);
        socket.is_some_and(|socket| !socket.unsent.is_empty())
    }

    #[inline]
    pub(super) fn wait(
        &mut self,
        until_ns: u64,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> io::Result<()> {
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if until_ns == 0 { Some(&no_wait) } else { None };
        if until_ns != 0 {
            self.arm(until_ns)?;
        }
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let waited = epoll::wait(&self.epoll, spare_capacity(&mut events), timeout);
        for event in &events {
            match event.data.u64() {
                TIMER => self.armed_ns = 0,
                WAKER => {
                    let _ = rustix::io::read(&self.waker.0, &mut [0_u8; 8]);
                }
                token => self.on_ready(token as Token, event.flags, on_event),
            }
        }
        self.events = events;
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Set the timer to `until_ns`. If the timer has this value already, make no system call.
    fn arm(&mut self, until_ns: u64) -> io::Result<()> {
        // Subtle: after the timer has fired, armed_ns is 0, which no instant equals. So the timer
        // is set again. Otherwise epoll would report the fired timer in each wait.
        if self.armed_ns == until_ns {
            return Ok(());
        }
        let seconds = |ns: u64| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        };
        // All zeros disarm the timer. An instant in the past fires at once.
        let at = if until_ns == NEVER_NS { seconds(0) } else { seconds(until_ns) };
        let timer = Itimerspec { it_interval: seconds(0), it_value: at };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer)?;
        self.armed_ns = until_ns;
        Ok(())
    }

    #[inline]
    fn on_ready(&mut self, token: Token, ready: EventFlags, on_event: &mut impl FnMut(Event<'_>)) {
        let Some(Some(socket)) = self.sockets.get_mut(token as usize) else { return };
        let was_connecting = socket.connecting;
        if was_connecting || ready.contains(EventFlags::OUT) {
            if let Err(error) = on_writable(&self.epoll, token, socket, on_event) {
                self.close(token);
                on_event(Event::Closed { token, error: Some(error) });
                return;
            }
            // One event a wait: the next wait reports what this socket has received.
            if was_connecting
                || !ready.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
            {
                return;
            }
        }
        match recv(&socket.fd, &mut *self.buffer, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => {
                self.close(token);
                on_event(Event::Closed { token, error: None });
            }
            Ok((_, length)) => {
                let at_ns = now_ns();
                on_event(Event::Received { token, bytes: &self.buffer[..length], at_ns });
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => {
                self.close(token);
                on_event(Event::Closed { token, error: Some(error.into()) });
            }
        }
    }
}

#[cold]
fn keep_unsent(epoll: &OwnedFd, token: Token, socket: &mut Socket, rest: &[u8]) {
    socket.unsent.extend_from_slice(rest);
    watch(epoll, token, socket, EventFlags::IN | EventFlags::OUT);
}

fn watch(epoll: &OwnedFd, token: Token, socket: &Socket, interest: EventFlags) {
    epoll::modify(epoll, &socket.fd, EventData::new_u64(u64::from(token)), interest)
        .expect("a registered descriptor can be modified");
}

/// Return whether a send that failed can succeed later.
fn is_passing(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM)
}

/// Finish the connection, or send the bytes that are left. The socket is writable.
#[cold]
fn on_writable(
    epoll: &OwnedFd,
    token: Token,
    socket: &mut Socket,
    on_event: &mut impl FnMut(Event<'_>),
) -> io::Result<()> {
    if socket.connecting {
        sockopt::socket_error(&socket.fd)??;
        socket.connecting = false;
        let flags = if socket.unsent.is_empty() { EventFlags::empty() } else { EventFlags::OUT };
        watch(epoll, token, socket, EventFlags::IN | flags);
        on_event(Event::Connected(token));
        return Ok(());
    }
    match send(&socket.fd, &socket.unsent, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
        Ok(sent) => drop(socket.unsent.drain(..sent)),
        Err(error) if is_passing(error) => {}
        // As in `send`: read the remaining bytes first.
        Err(_) => socket.unsent.clear(),
    }
    if socket.unsent.is_empty() {
        socket.unsent = Vec::new();
        watch(epoll, token, socket, EventFlags::IN);
    }
    Ok(())
}
