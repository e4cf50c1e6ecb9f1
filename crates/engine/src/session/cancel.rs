//! Stops a blocking session while a statement runs: CancelRequest, then a short patience.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use pgdyno_wire::{BytesMut, cancel_request};

use super::socket::{is_slice_over, open};
use super::{Session, SessionError};
use crate::tls::{Attempt, Negotiation};

/// Longest wait for a cancelled statement to end; after it the connection is given up.
const CANCEL_GRACE: Duration = Duration::from_millis(1000);

impl Session {
    /// Run between two slices of a wait, or after bytes came: cancel the statement if the stop flag
    /// is set.
    ///
    /// Errors: `Lost` after `deadline`; `Stopped` if the statement cannot be cancelled, or has not
    /// ended after `CANCEL_GRACE`.
    pub(super) fn between_slices(&mut self, deadline: Option<Instant>) -> Result<(), SessionError> {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(SessionError::Lost(ErrorKind::TimedOut.into()));
        }
        if !self.is_stopped() {
            return Ok(());
        }
        match self.cancelled_at {
            None if self.key.process_id == 0 => Err(SessionError::Stopped),
            None => {
                self.cancelled_at = Some(Instant::now());
                // A request that fails is like a request without effect: the grace time ends both.
                let _ = self.cancel();
                Ok(())
            }
            Some(at) if at.elapsed() > CANCEL_GRACE => Err(SessionError::Stopped),
            Some(_) => Ok(()),
        }
    }

    /// Ask the server, on a separate connection, to cancel this session's statement.
    fn cancel(&self) -> io::Result<()> {
        let mut request = BytesMut::new();
        cancel_request(&self.key, &mut request);
        let mut socket = open(&self.place, CANCEL_GRACE)?;
        let attempt = if self.tls.is_some() { Attempt::Tls } else { Attempt::Plain };
        let (mut plain, mut out, mut received) = (Vec::new(), Vec::new(), [0; 4096]);
        let mut negotiation =
            Negotiation::start(&self.security, attempt, &mut out).map_err(io::Error::other)?;
        let deadline = Instant::now() + CANCEL_GRACE;
        while !negotiation.is_done() {
            socket.write_all(&out)?;
            out.clear();
            match socket.read(&mut received) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => negotiation
                    .advance(&received[..count], &mut plain, &mut out)
                    .map_err(io::Error::other)?,
                Err(error) if is_slice_over(&error) && Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        }
        match &mut negotiation {
            Negotiation::Done(Some(tls)) => out.extend_from_slice(tls.encrypt(&request)),
            _ => out.extend_from_slice(&request),
        }
        socket.write_all(&out)?;
        // The server closes the connection after it has signalled the backend.
        let _ = socket.read(&mut received);
        Ok(())
    }
}
