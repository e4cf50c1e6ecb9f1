//! The loop: one thread, level-triggered epoll, one timer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::behaviour::Behaviour;
use crate::clock::{now_ns, timespec};
use crate::reply::STAMP_WIDTH;
use crate::session::{Answer, Session, Tally};

const UNIX: u64 = 0;
const TCP: u64 = 1;
const TIMER: u64 = 2;
const INPUT: u64 = 3;
const FIRST_CONNECTION: u64 = 16;

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

struct Connection {
    stream: Stream,
    session: Session,
    /// The beginning of a message whose end has not come yet.
    partial: Vec<u8>,
    /// Answers that are not due yet, with when they are and when their statements came.
    waiting: VecDeque<(u64, u64, Answer)>,
    busy_until_ns: u64,
    /// Bytes the socket did not take.
    unsent: Vec<u8>,
    closes: bool,
}

/// A listening server; `run` ends when standard input does.
pub struct Server {
    epoll: OwnedFd,
    timer: OwnedFd,
    unix: Option<UnixListener>,
    tcp: Option<TcpListener>,
    behaviour: Behaviour,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    tally: Tally,
    first_ns: Option<u64>,
    log: Option<Box<dyn Write>>,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("tally", &self.tally).finish_non_exhaustive()
    }
}

impl Server {
    /// Listen on a socket file, on a TCP address, or on both.
    pub fn new(
        socket: Option<&Path>,
        address: Option<SocketAddr>,
        behaviour: Behaviour,
        log: Option<Box<dyn Write>>,
    ) -> io::Result<Server> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        let server = Server {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            timer,
            unix: socket.map(UnixListener::bind).transpose()?,
            tcp: address.map(TcpListener::bind).transpose()?,
            behaviour,
            connections: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            tally: Tally::default(),
            first_ns: None,
            log,
            buffer: vec![0; 1 << 16],
        };
        if let Some(listener) = &server.unix {
            listener.set_nonblocking(true)?;
            server.watch(listener.as_fd(), UNIX)?;
        }
        if let Some(listener) = &server.tcp {
            listener.set_nonblocking(true)?;
            server.watch(listener.as_fd(), TCP)?;
        }
        server.watch(server.timer.as_fd(), TIMER)?;
        // A file or /dev/null cannot be watched: such a server is ended by a signal.
        let _ = server.watch(io::stdin().as_fd(), INPUT);
        Ok(server)
    }

    /// The TCP port the system chose.
    pub fn tcp_port(&self) -> Option<u16> {
        self.tcp
            .as_ref()
            .and_then(|listener| listener.local_addr().ok())
            .map(|address| address.port())
    }

    /// Serve until standard input ends; return what was done.
    pub fn run(&mut self) -> io::Result<Tally> {
        let mut events = Vec::with_capacity(1024);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    UNIX | TCP => self.accept()?,
                    TIMER => self.answer_due()?,
                    INPUT => {
                        if io::stdin().read(&mut self.buffer)? == 0 {
                            return Ok(self.tally);
                        }
                    }
                    token => self.serve((token - FIRST_CONNECTION) as usize)?,
                }
            }
            if let Some(log) = &mut self.log {
                log.flush()?;
            }
        }
    }

    fn watch(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN)?)
    }

    fn accept(&mut self) -> io::Result<()> {
        // A few at a time: others wait for answers meanwhile.
        for _ in 0..64 {
            let unix = self.unix.as_ref().map(|listener| listener.accept());
            let stream = match unix {
                Some(Ok((stream, _))) => Stream::Unix(stream),
                _ => match self.tcp.as_ref().map(|listener| listener.accept()) {
                    Some(Ok((stream, _))) => {
                        stream.set_nodelay(true)?;
                        Stream::Tcp(stream)
                    }
                    _ => return Ok(()),
                },
            };
            let index = self.free.pop().unwrap_or(self.connections.len());
            if index == self.connections.len() {
                self.connections.push(None);
            }
            stream.set_nonblocking()?;
            self.watch(stream.as_fd(), FIRST_CONNECTION + index as u64)?;
            self.connections[index] = Some(Connection {
                stream,
                session: Session::new(index as u32 + 1),
                partial: Vec::new(),
                waiting: VecDeque::new(),
                busy_until_ns: 0,
                unsent: Vec::new(),
                closes: false,
            });
        }
        Ok(())
    }

    /// Read what came, answer it or let the answer wait.
    fn serve(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return Ok(());
        };
        if !connection.unsent.is_empty() {
            self.write(index, &[])?;
            return Ok(());
        }
        let read = match connection.stream.read(&mut self.buffer) {
            Ok(0) => return self.close(index),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_) => return self.close(index),
        };
        let received_ns = now_ns();
        let mut answer = Answer::default();
        let (behaviour, tally) = (&self.behaviour, &mut self.tally);
        let mut feed = |session: &mut Session, bytes: &[u8]| {
            session.feed(bytes, received_ns, behaviour, tally, &mut answer)
        };
        if connection.partial.is_empty() {
            let used = feed(&mut connection.session, &self.buffer[..read]);
            connection.partial.extend_from_slice(&self.buffer[used..read]);
        } else {
            connection.partial.extend_from_slice(&self.buffer[..read]);
            let used = feed(&mut connection.session, &connection.partial);
            connection.partial.drain(..used);
        }
        if answer.statements > 0 && !self.behaviour.is_immediate() {
            let first_ns = *self.first_ns.get_or_insert(received_ns);
            let due_ns = self.behaviour.due_ns(
                received_ns,
                connection.busy_until_ns,
                first_ns,
                answer.statements,
            );
            connection.busy_until_ns = due_ns;
            connection.waiting.push_back((due_ns, received_ns, answer));
            self.due.push(Reverse((due_ns, index)));
            return self.answer_due();
        }
        self.send(index, received_ns, answer)
    }

    /// Send every answer that is due, then set the timer to the next one.
    fn answer_due(&mut self) -> io::Result<()> {
        let _ = rustix::io::read(&self.timer, &mut [0; 8][..]);
        let now = now_ns();
        while let Some(Reverse((due_ns, index))) = self.due.peek().copied() {
            if due_ns > now {
                let at = Itimerspec { it_interval: timespec(0), it_value: timespec(due_ns) };
                timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at)?;
                break;
            }
            self.due.pop();
            // Subtle: the place may have been taken by a newer connection; its answers are its own.
            let waiting =
                self.connections[index].as_mut().map(|connection| &mut connection.waiting);
            if let Some(waiting) = waiting
                && waiting.front().is_some_and(|(due_ns, ..)| *due_ns <= now)
                && let Some((_, received_ns, answer)) = waiting.pop_front()
            {
                self.send(index, received_ns, answer)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, index: usize, received_ns: u64, mut answer: Answer) -> io::Result<()> {
        if self.behaviour.stamps && answer.statements > 0 {
            let sent_ns = now_ns();
            let stamp = format!("{sent_ns:0width$}", width = STAMP_WIDTH);
            for at in &answer.stamps {
                answer.bytes[*at..at + STAMP_WIDTH].copy_from_slice(stamp.as_bytes());
            }
            if let Some(log) = &mut self.log {
                for _ in 0..answer.statements {
                    writeln!(log, "{received_ns} {sent_ns} {index}")?;
                }
            }
        }
        if let Some(connection) = self.connections[index].as_mut() {
            connection.closes |= answer.closes;
        }
        self.write(index, &answer.bytes)
    }

    /// Write what is left over and `bytes`; what the socket does not take waits for it.
    fn write(&mut self, index: usize, bytes: &[u8]) -> io::Result<()> {
        let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
        let was_waiting = !connection.unsent.is_empty();
        let mut left = bytes;
        let joined;
        if was_waiting {
            connection.unsent.extend_from_slice(bytes);
            joined = std::mem::take(&mut connection.unsent);
            left = &joined;
        }
        while !left.is_empty() {
            match connection.stream.write(left) {
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.close(index),
            }
        }
        connection.unsent = left.to_vec();
        if connection.unsent.is_empty() && connection.closes {
            return self.close(index);
        }
        let is_waiting = !connection.unsent.is_empty();
        if is_waiting != was_waiting {
            let interest = if is_waiting { EventFlags::OUT } else { EventFlags::IN };
            let token = EventData::new_u64(FIRST_CONNECTION + index as u64);
            epoll::modify(&self.epoll, connection.stream.as_fd(), token, interest)?;
        }
        Ok(())
    }

    fn close(&mut self, index: usize) -> io::Result<()> {
        if let Some(connection) = self.connections[index].take() {
            epoll::delete(&self.epoll, connection.stream.as_fd())?;
            self.free.push(index);
        }
        Ok(())
    }
}

impl Stream {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => stream.set_nonblocking(true),
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }
}
