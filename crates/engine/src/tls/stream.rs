//! Encrypts and decrypts one connection: a TLS session between socket and protocol. No I/O.
//!
//! `receive` returns everything that the bytes so far contain. So nothing waits inside the session
//! for the next event of the socket.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::TlsError;
use super::binding::end_point;

/// A TLS session.
pub struct TlsStream {
    connection: Box<ClientConnection>,
    /// The last result of `encrypt`.
    sealed: Vec<u8>,
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").finish_non_exhaustive()
    }
}

impl TlsStream {
    pub(super) fn new(
        config: &Arc<ClientConfig>,
        name: &ServerName<'static>,
    ) -> Result<TlsStream, TlsError> {
        let mut connection = ClientConnection::new(Arc::clone(config), name.clone())?;
        // Written bytes are taken out at once. A limit would cut long statements.
        connection.set_buffer_limit(None);
        Ok(TlsStream { connection: Box::new(connection), sealed: Vec::new() })
    }

    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Read bytes of the socket. Bytes of the protocol are appended to `plain`.
    ///
    /// Errors: the session has ended. `to_send` still has the alert for the server.
    pub fn receive(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), TlsError> {
        while !bytes.is_empty() {
            match self.connection.read_tls(&mut bytes) {
                // Bytes after close_notify are ignored.
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(TlsError::new(format!("TLS failed: {error}"), "")),
            }
            let state = self.connection.process_new_packets()?;
            let length = plain.len();
            plain.resize(length + state.plaintext_bytes_to_read(), 0);
            let mut taken = length;
            while taken < plain.len() {
                match self.connection.reader().read(&mut plain[taken..]) {
                    Ok(count) => taken += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(TlsError::new(format!("TLS failed: {error}"), "")),
                }
            }
            assert_eq!(taken, plain.len(), "rustls hands out what it says it has");
        }
        Ok(())
    }

    /// True if the session itself has bytes to send.
    pub fn has_to_send(&self) -> bool {
        self.connection.wants_write()
    }

    /// Return the bytes that the session itself sends: handshake messages and alerts.
    pub fn to_send(&mut self) -> &[u8] {
        self.sealed.clear();
        self.seal()
    }

    /// Encrypt `plain`, and return the bytes for the socket.
    #[inline]
    pub fn encrypt(&mut self, plain: &[u8]) -> &[u8] {
        self.sealed.clear();
        self.connection.writer().write_all(plain).expect("there is no limit");
        self.seal()
    }

    /// Encrypt `plain` and end the session with close_notify. Returns the bytes for the socket.
    pub fn close(&mut self, plain: &[u8]) -> &[u8] {
        self.sealed.clear();
        // It fails only if the session has already ended.
        let _ = self.connection.writer().write_all(plain);
        self.connection.send_close_notify();
        self.seal()
    }

    fn seal(&mut self) -> &[u8] {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.sealed).expect("memory takes every byte");
        }
        &self.sealed
    }

    /// Return the data for channel binding of SCRAM.
    pub fn end_point(&self) -> Option<Vec<u8>> {
        end_point(self.connection.peer_certificates()?.first()?)
    }
}
