//! The ring itself: submits entries, takes completions, and handles each of them.

use std::io;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::fd::{AsRawFd, RawFd};
use rustix::io::Errno;
use rustix::net::{SendFlags, send, sockopt};

use super::super::{Event, Token};
use super::{Completion, Name, Operation, Place, Socket, Uring, buffers};
use crate::clock::{NEVER_NS, now_ns};

// From io_uring_enter(2).
const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 8;

impl Uring {
    /// Submit all queued entries, and wait for a completion until an instant (0 = do not wait).
    #[inline]
    pub(super) fn enter(&mut self, until_ns: u64) -> io::Result<()> {
        let count = self.ring.submission().len() as u32;
        let left_ns = match until_ns {
            0 => 0,
            NEVER_NS => NEVER_NS,
            _ => until_ns.saturating_sub(now_ns()),
        };
        let left =
            Timespec::new().sec(left_ns / 1_000_000_000).nsec((left_ns % 1_000_000_000) as u32);
        let timed = SubmitArgs::new().timespec(&left);
        let (wanted, flags, argument) = match left_ns {
            0 => (0, ENTER_GETEVENTS, None),
            NEVER_NS => (1, ENTER_GETEVENTS, None),
            _ => (1, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&timed)),
        };
        // SAFETY: the argument has the type that its flag announces. The entries point into the
        // staging area, which is written again only after all of them were submitted.
        let entered = unsafe { self.ring.submitter().enter(count, wanted, flags, argument) };
        match entered.map_err(|error| error.raw_os_error()) {
            Ok(_) => Ok(()),
            // The time is over, or completions must be taken first, which happens next.
            Err(Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)) => Ok(()),
            Err(code) => {
                Err(code.map_or_else(|| io::ErrorKind::Other.into(), io::Error::from_raw_os_error))
            }
        }
    }

    /// Take all completions off the ring. Failed sends are handled now, while their bytes still
    /// exist.
    #[inline]
    pub(super) fn harvest(&mut self) {
        let at_ns = now_ns();
        loop {
            for entry in self.ring.completion() {
                let name = Name::unpack(entry.user_data());
                let completion =
                    Completion { name, result: entry.result(), flags: entry.flags(), at_ns };
                if name.operation == Operation::Send {
                    keep_unsent(&mut self.places, &self.staging, &completion);
                }
                self.completions.push_back(completion);
            }
            if !self.ring.submission().cq_overflow() {
                break;
            }
            self.enter(0).expect("a ring that works takes what it kept");
        }
        if self.ring.submission().is_empty() {
            self.batch += 1;
            self.staged_bytes = 0;
        }
    }

    /// Submit all queued entries without waiting. Returns their number.
    ///
    /// Subtle: the call has no GETEVENTS flag. With it the call would also receive, and the time of
    /// receiving would count as the time of sending.
    pub(in super::super) fn submit(&mut self) -> u64 {
        let count = self.ring.submission().len() as u32;
        if count == 0 {
            return 0;
        }
        // SAFETY: as in `enter`, and there is no argument.
        let _ = unsafe { self.ring.submitter().enter::<()>(count, 0, 0, None) };
        self.harvest();
        u64::from(count)
    }

    /// Submit all queued entries now.
    #[cold]
    pub(super) fn flush(&mut self) {
        while !self.ring.submission().is_empty() {
            self.enter(0).expect("a ring that worked takes entries");
            self.harvest();
        }
    }

    #[inline]
    pub(super) fn queue(&mut self, token: Token, operation: Operation, entry: squeue::Entry) {
        if self.ring.submission().is_full() {
            self.flush();
        }
        let Place { generation, socket, .. } = &mut self.places[token as usize];
        if let Some(socket) = socket {
            socket.batch = self.batch;
        }
        let name = Name { operation, generation: *generation, token };
        self.push(entry.user_data(name.pack()));
    }

    #[inline]
    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: as in `enter`. A socket is not closed while an entry names it.
        unsafe { self.ring.submission().push(&entry) }.expect("there is room");
    }

    /// Arm the receive of a connection. It stays armed.
    pub(super) fn receive(&mut self, token: Token) {
        let Some(fd) = self.fd(token) else { return };
        let entry = opcode::RecvMulti::new(Fd(fd), buffers::GROUP).build();
        self.queue(token, Operation::Receive, entry);
    }

    /// Ask for one completion when a connection accepts bytes.
    pub(super) fn watch_writable(&mut self, token: Token) {
        let Some(fd) = self.fd(token) else { return };
        let interest = u32::from(PollFlags::OUT.bits());
        self.queue(token, Operation::Writable, opcode::PollAdd::new(Fd(fd), interest).build());
    }

    pub(super) fn watch_waker(&mut self) {
        if self.ring.submission().is_full() {
            self.flush();
        }
        let interest = u32::from(PollFlags::IN.bits());
        let entry = opcode::PollAdd::new(Fd(self.waker.0.as_raw_fd()), interest).multi(true);
        let name = Name { operation: Operation::Wake, generation: 0, token: 0 };
        self.push(entry.build().user_data(name.pack()));
    }

    fn fd(&self, token: Token) -> Option<RawFd> {
        self.places[token as usize].socket.as_ref().map(|socket| socket.fd.as_raw_fd())
    }

    #[inline]
    pub(super) fn on_completion(
        &mut self,
        completion: Completion,
        on_event: &mut impl FnMut(Event<'_>),
    ) {
        let Name { operation, generation, token } = completion.name;
        if operation == Operation::Wake {
            let _ = rustix::io::read(&self.waker.0, &mut [0_u8; 8]);
            if !cqueue::more(completion.flags) {
                self.watch_waker();
            }
            return;
        }
        let place = &self.places[token as usize];
        let is_current = place.generation == generation && place.socket.is_some();
        match operation {
            Operation::Receive => self.on_received(&completion, is_current, on_event),
            _ if !is_current => {}
            Operation::Writable => self.on_writable(token, on_event),
            _ => {
                // A send that failed for good leaves no bytes to send.
                if self.is_sending(token) {
                    self.watch_writable(token);
                }
            }
        }
    }

    #[inline]
    fn on_received(
        &mut self,
        completion: &Completion,
        is_current: bool,
        on_event: &mut impl FnMut(Event<'_>),
    ) {
        let Completion { name: Name { token, .. }, result, flags, at_ns } = *completion;
        let buffer = cqueue::buffer_select(flags);
        if let (Some(id), 1.., true) = (buffer, result, is_current) {
            let bytes = self.buffers.filled(id, result as usize);
            on_event(Event::Received { token, bytes, at_ns });
        }
        if let Some(id) = buffer {
            self.buffers.give_back(id);
        }
        if !is_current || cqueue::more(flags) {
            return;
        }
        match -result {
            // No buffer was left. All filled buffers are given back before this entry is submitted.
            ..=-1 | libc::ENOBUFS | libc::EAGAIN | libc::EINTR => self.receive(token),
            0 => self.tell_closed(token, None, on_event),
            code => self.tell_closed(token, Some(io::Error::from_raw_os_error(code)), on_event),
        }
    }

    fn tell_closed(
        &mut self,
        token: Token,
        error: Option<io::Error>,
        on_event: &mut impl FnMut(Event<'_>),
    ) {
        self.close(token);
        on_event(Event::Closed { token, error });
    }

    /// The connection is made, or the socket accepts bytes again.
    #[cold]
    fn on_writable(&mut self, token: Token, on_event: &mut impl FnMut(Event<'_>)) {
        let Some(socket) = &mut self.places[token as usize].socket else { return };
        if socket.connecting {
            let outcome = sockopt::socket_error(&socket.fd).and_then(|outcome| outcome);
            if let Err(error) = outcome {
                return self.tell_closed(token, Some(error.into()), on_event);
            }
            socket.connecting = false;
            self.receive(token);
            return on_event(Event::Connected(token));
        }
        match send(&socket.fd, &socket.unsent, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => drop(socket.unsent.drain(..sent)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Read the remaining bytes first.
            Err(_) => socket.unsent.clear(),
        }
        if socket.unsent.is_empty() {
            socket.unsent = Vec::new();
        } else {
            self.watch_writable(token);
        }
    }
}

/// Handle a send that was cut short or refused: keep the bytes that the kernel did not accept.
#[cold]
fn keep_unsent(places: &mut [Place], staging: &[u8], completion: &Completion) {
    let Name { generation, token, .. } = completion.name;
    let place = &mut places[token as usize];
    let Some(Socket { staged, unsent, .. }) = &mut place.socket else { return };
    if place.generation != generation {
        return;
    }
    match completion.result {
        sent @ 0.. => unsent.extend_from_slice(&staging[staged.start + sent as usize..staged.end]),
        result if -result == libc::EAGAIN => unsent.extend_from_slice(&staging[staged.clone()]),
        // The connection is broken: read its last bytes first, and then report its end.
        _ => {}
    }
}
