//! One blocking connection: simple queries, COPY from the client, cancel.
//!
//! All work outside the hot path uses it: loading a dataset, preparing and cleaning up a run. Each
//! wait consists of slices of 100 ms, and the session reads the stop flag after every slice. If the
//! flag is set, the session cancels the running statement and returns `Stopped`.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pgdyno_wire::{
    BytesMut, Framer, HandshakeError, NEVER_SKIP, ProtocolError, ServerError,
    Session as BackendKey, frontend, values,
};

mod cancel;
mod error;
mod open;
mod socket;

pub use self::error::SessionError;
pub use self::open::security;
use self::socket::{Socket, is_slice_over};
use crate::answer_limit::AnswerLimit;
use crate::poller::Address;
use crate::tls::{Security, TlsStream};

/// Bytes of one CopyData message. 64 KiB to 1 MiB cost the server the same; 64 KiB stay in cache.
const COPY_MESSAGE_BYTES: usize = 64 << 10;

/// Maximum number of notices that are kept between two calls of `take_notices`.
const MAX_NOTICES: usize = 1000;

/// True when the work must stop. All parts of the work share the flag.
pub type StopFlag = Arc<AtomicBool>;

/// A row in text format; None is NULL.
pub type Row = Vec<Option<String>>;

/// An open connection. Dropping it ends the backend, which rolls back an open transaction.
#[derive(Debug)]
pub struct Session {
    socket: Socket,
    place: Address,
    security: Security,
    tls: Option<Box<TlsStream>>,
    key: BackendKey,
    framer: Framer,
    received: Vec<u8>,
    /// Under TLS: the decrypted bytes of `received`.
    plain: Vec<u8>,
    outgoing: BytesMut,
    stop: StopFlag,
    /// When the CancelRequest for the running statement was sent.
    cancelled_at: Option<Instant>,
    /// Warnings and notices of the server since the last `take_notices`.
    notices: Vec<ServerError>,
}

/// The server's reply to one simple query.
#[derive(Debug, Default)]
struct Answer {
    rows: Vec<Row>,
    error: Option<Box<ServerError>>,
    copy_in: bool,
    is_ready: bool,
    limit: AnswerLimit,
}

/// Note a piece of an answer. Errors: the answer is too long or takes too long.
fn grows(limit: &mut AnswerLimit, count: usize) -> Result<(), SessionError> {
    let grown = limit.grows(count, Instant::now());
    grown.map_err(|seen| SessionError::Lost(io::Error::new(ErrorKind::InvalidData, seen)))
}

impl Session {
    /// Run `sql` (one or more statements) and return the rows, if any, in text format.
    ///
    /// Errors: after `Server` the session is still usable; after any other error, drop the session.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Row>, SessionError> {
        self.send_query(sql)?;
        let mut answer = Answer::default();
        self.await_ready(&mut answer)?;
        self.finish(answer)
    }

    /// Run the COPY FROM STDIN statement `sql`.
    ///
    /// Args: `fill` appends the next data to the buffer it gets, and nothing at the end of the
    /// data; its second argument is the size in bytes at which a message is full. `sent` is called
    /// with the size of each message, in bytes, after the message was sent.
    ///
    /// Errors: as `query`; the transaction is then rolled back, with the copied rows.
    pub fn copy_in(
        &mut self,
        sql: &str,
        mut fill: impl FnMut(&mut Vec<u8>, usize),
        mut sent: impl FnMut(u64),
    ) -> Result<(), SessionError> {
        self.send_query(sql)?;
        let mut answer = Answer::default();
        while !answer.copy_in && !answer.is_ready {
            self.receive_into(&mut answer)?;
        }
        let mut message = Vec::with_capacity(COPY_MESSAGE_BYTES + 256);
        while answer.error.is_none() {
            message.clear();
            message.extend_from_slice(&[b'd', 0, 0, 0, 0]);
            fill(&mut message, COPY_MESSAGE_BYTES);
            let is_end = message.len() == 5;
            if is_end || self.is_stopped() {
                self.end_copy(is_end)?;
                break;
            }
            let length = message.len() as u32 - 1;
            message[1..5].copy_from_slice(&length.to_be_bytes());
            self.send(&message)?;
            sent(message.len() as u64);
            // During COPY the server sends only an error, and then ignores the rest of the data.
            self.receive_what_is_there(&mut answer)?;
        }
        self.await_ready(&mut answer)?;
        self.finish(answer).map(|_| ())
    }

    fn end_copy(&mut self, is_complete: bool) -> Result<(), SessionError> {
        self.outgoing.clear();
        match is_complete {
            true => frontend::copy_done(&mut self.outgoing),
            false => frontend::copy_fail("told to stop", &mut self.outgoing)
                .map_err(HandshakeError::from)?,
        }
        let out = std::mem::take(&mut self.outgoing);
        self.send(&out)
    }

    /// Exchange a Sync message: one round trip, without work for the server.
    pub fn sync(&mut self) -> Result<(), SessionError> {
        self.outgoing.clear();
        frontend::sync(&mut self.outgoing);
        let out = std::mem::take(&mut self.outgoing);
        self.send(&out)?;
        let mut answer = Answer::default();
        self.await_ready(&mut answer)?;
        self.finish(answer).map(|_| ())
    }

    /// Process id of the backend, as the server reported it; 0 if the server did not.
    pub fn process_id(&self) -> i32 {
        self.key.process_id
    }

    /// A parameter that the server reported at start-up, such as `server_version`.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.key.parameters.get(name).map(String::as_str)
    }

    /// Major version of the server; 0 if the server did not report it.
    pub fn server_major(&self) -> u32 {
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        self.parameter("server_version").and_then(|v| digits(v).parse().ok()).unwrap_or(0)
    }

    /// Return the notices and warnings since the last call.
    pub fn take_notices(&mut self) -> Vec<ServerError> {
        std::mem::take(&mut self.notices)
    }

    fn send_query(&mut self, sql: &str) -> Result<(), SessionError> {
        if self.is_stopped() {
            return Err(SessionError::Stopped);
        }
        self.cancelled_at = None;
        self.outgoing.clear();
        frontend::query(sql, &mut self.outgoing).map_err(HandshakeError::from)?;
        let out = std::mem::take(&mut self.outgoing);
        self.send(&out)
    }

    fn await_ready(&mut self, answer: &mut Answer) -> Result<(), SessionError> {
        while !answer.is_ready {
            self.receive_into(answer)?;
        }
        Ok(())
    }

    /// Return the rows or the error. An error after the stop flag was set is our own cancel:
    /// `Stopped`.
    fn finish(&self, answer: Answer) -> Result<Vec<Row>, SessionError> {
        match answer.error {
            Some(_) if self.is_stopped() => Err(SessionError::Stopped),
            Some(error) => Err(SessionError::Server(error)),
            None => Ok(answer.rows),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        match &mut self.tls {
            None => self.send_raw(bytes),
            Some(tls) => {
                let sealed = tls.encrypt(bytes).to_vec();
                self.send_raw(&sealed)
            }
        }
    }

    fn send_raw(&mut self, mut bytes: &[u8]) -> Result<(), SessionError> {
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_slice_over(&error) => self.between_slices(None)?,
                Err(error) => return Err(self.last_words(error)),
            }
        }
        Ok(())
    }

    /// Return the server's last error message if it sent one, else the error of the socket.
    fn last_words(&mut self, error: io::Error) -> SessionError {
        let mut answer = Answer::default();
        while self.receive_what_is_there(&mut answer).is_ok_and(|count| count > 0) {}
        match answer.error {
            Some(error) => SessionError::Server(error),
            None => SessionError::Lost(error),
        }
    }

    /// Wait for bytes, and return how many were written to `received`.
    fn receive_until(&mut self, deadline: Option<Instant>) -> Result<usize, SessionError> {
        loop {
            match self.socket.read(&mut self.received) {
                Ok(0) => return Err(SessionError::Lost(ErrorKind::UnexpectedEof.into())),
                // Bytes without an end leave no slice in which a stop could be seen.
                Ok(count) => return self.between_slices(deadline).map(|()| count),
                Err(error) if is_slice_over(&error) => self.between_slices(deadline)?,
                Err(error) => return Err(SessionError::Lost(error)),
            }
        }
    }

    fn receive_into(&mut self, answer: &mut Answer) -> Result<(), SessionError> {
        match self.receive_until(None) {
            Ok(count) => self.read_messages(count, answer),
            // A server that shuts down sends the reason before it closes the connection.
            Err(SessionError::Lost(lost)) => Err(match answer.error.take() {
                Some(error) => SessionError::Server(error),
                None => SessionError::Lost(lost),
            }),
            Err(error) => Err(error),
        }
    }

    fn receive_what_is_there(&mut self, answer: &mut Answer) -> Result<usize, SessionError> {
        self.socket.set_nonblocking(true).map_err(SessionError::Lost)?;
        let result = self.socket.read(&mut self.received);
        self.socket.set_nonblocking(false).map_err(SessionError::Lost)?;
        match result {
            Ok(0) => Err(SessionError::Lost(ErrorKind::UnexpectedEof.into())),
            Ok(count) => self.read_messages(count, answer).map(|()| count),
            Err(error) if is_slice_over(&error) => Ok(0),
            Err(error) => Err(SessionError::Lost(error)),
        }
    }

    fn read_messages(&mut self, count: usize, answer: &mut Answer) -> Result<(), SessionError> {
        grows(&mut answer.limit, count)?;
        let Some(tls) = &mut self.tls else {
            let received = std::mem::take(&mut self.received);
            let result = self.read_input(&received[..count], answer);
            self.received = received;
            return result;
        };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let decrypted = tls.receive(&self.received[..count], &mut plain);
        let to_send = tls.to_send().to_vec();
        let result = self.read_input(&plain, answer);
        self.plain = plain;
        self.send_raw(&to_send)?;
        decrypted.map_err(SessionError::Tls)?;
        result
    }

    /// Read all messages of `input` into `answer`.
    fn read_input(&mut self, mut input: &[u8], answer: &mut Answer) -> Result<(), SessionError> {
        while let Some(message) = self.framer.next(&mut input, NEVER_SKIP)? {
            match message.tag {
                b'D' => answer.rows.push(row(message.body)?),
                b'E' if answer.error.is_none() => {
                    answer.error = Some(Box::new(ServerError::parse(message.body)));
                }
                b'N' if self.notices.len() < MAX_NOTICES => {
                    self.notices.push(ServerError::parse(message.body));
                }
                b'G' => answer.copy_in = true,
                b'Z' => answer.is_ready = true,
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.outgoing.clear();
        frontend::terminate(&mut self.outgoing);
        // Errors are ignored: without Terminate, the server only logs a lost client.
        let _ = self.socket.set_nonblocking(true);
        let _ = match &mut self.tls {
            None => self.socket.write(&self.outgoing),
            Some(tls) => self.socket.write(tls.close(&self.outgoing)),
        };
    }
}

fn row(body: &[u8]) -> Result<Row, SessionError> {
    let fields = values(body).map_err(|_| ProtocolError::Malformed(b'D'))?;
    Ok(fields
        .into_iter()
        .map(|field| field.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        .collect())
}
