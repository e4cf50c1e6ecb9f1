//! Leads a connection from a connected socket to ReadyForQuery, encrypted or not. No I/O: bytes in,
//! bytes out.

use pgdyno_wire::{Advance, BytesMut, Handshake, Login, SaltedPasswords, Session};

use super::{Attempt, OpeningError, Security, TlsError, TlsStream};
use crate::contract::job::SessionAttrs;
use crate::session_attrs::Check;

/// SSLRequest: length 8, and a number in the place of the protocol version.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Negotiates with a server the encryption that an attempt needs.
#[derive(Debug)]
pub enum Negotiation {
    /// SSLRequest was sent. The server answers with one byte.
    Asked {
        stream: Box<TlsStream>,
        or_plain: bool,
    },
    Shaking(Box<TlsStream>),
    /// None if the connection is not encrypted.
    Done(Option<Box<TlsStream>>),
}

impl Negotiation {
    /// Begin. Bytes to send are appended to `out`.
    pub fn start(
        security: &Security,
        attempt: Attempt,
        out: &mut Vec<u8>,
    ) -> Result<Negotiation, TlsError> {
        match attempt {
            Attempt::Plain => Ok(Negotiation::Done(None)),
            Attempt::Tls => {
                let stream = security.stream()?;
                out.extend_from_slice(&SSL_REQUEST);
                Ok(Negotiation::Asked {
                    stream: Box::new(stream),
                    or_plain: security.prefers_tls(),
                })
            }
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self, Negotiation::Done(_))
    }

    /// Read received bytes. Bytes of the protocol are appended to `plain`, bytes to send to `out`.
    ///
    /// Errors: send `out` before you close the connection: it may have an alert.
    pub fn advance(
        &mut self,
        mut bytes: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        if let Negotiation::Asked { .. } = self
            && let Some((&answer, rest)) = bytes.split_first()
        {
            bytes = rest;
            self.answered(answer, !rest.is_empty())?;
        }
        match self {
            Negotiation::Asked { .. } => {}
            Negotiation::Done(None) => plain.extend_from_slice(bytes),
            Negotiation::Done(Some(stream)) | Negotiation::Shaking(stream) => {
                let result = stream.receive(bytes, plain);
                out.extend_from_slice(stream.to_send());
                result?;
            }
        }
        if let Negotiation::Shaking(stream) = self
            && !stream.is_handshaking()
        {
            let Negotiation::Shaking(stream) = std::mem::replace(self, Negotiation::Done(None))
            else {
                unreachable!("just seen")
            };
            *self = Negotiation::Done(Some(stream));
        }
        Ok(())
    }

    fn answered(&mut self, answer: u8, is_more: bool) -> Result<(), TlsError> {
        let asked = std::mem::replace(self, Negotiation::Done(None));
        let Negotiation::Asked { stream, or_plain } = asked else {
            unreachable!("only an asked server answers")
        };
        match answer {
            b'S' if is_more => Err(TlsError::new(
                "the server sent data that is not encrypted before TLS began",
                "a device between engine and server may have changed the data",
            )),
            b'S' => {
                *self = Negotiation::Shaking(stream);
                Ok(())
            }
            b'N' if or_plain => Ok(()),
            b'N' => Err(TlsError::new(
                "the server does not support TLS",
                "set ssl = on there, or use sslmode=prefer if a plain connection is enough",
            )),
            // Subtle: the bytes may be an error message, but without TLS anybody on the way could
            // have written them, so they are not shown.
            b'E' => Err(TlsError::new(
                "the server answered the request for TLS with an error",
                "see the server's log",
            )),
            _ => Err(TlsError::new(
                "the answer to the request for TLS does not come from PostgreSQL",
                "another program than PostgreSQL may listen there",
            )),
        }
    }
}

/// The opening of one connection.
#[derive(Debug)]
pub struct Opening {
    negotiation: Negotiation,
    /// None until the encryption is negotiated.
    handshake: Option<Handshake>,
    /// None if any kind of session is accepted.
    check: Option<Check>,
    /// The session is open, and the server was asked for its kind.
    asked: Option<Session>,
}

/// An open session.
#[derive(Debug)]
pub struct Opened {
    pub session: Session,
    pub tls: Option<Box<TlsStream>>,
    /// The bytes after ReadyForQuery, decrypted.
    pub rest: Vec<u8>,
}

impl Opening {
    /// Begin. Bytes to send are appended to `out`.
    pub fn start(
        security: &Security,
        attempt: Attempt,
        (login, attrs): (&Login, SessionAttrs),
        out: &mut Vec<u8>,
    ) -> Result<Opening, OpeningError> {
        let negotiation = Negotiation::start(security, attempt, out)?;
        let check = Check::new(attrs, login);
        let mut opening = Opening { negotiation, handshake: None, check, asked: None };
        opening.log_in(login, out)?;
        Ok(opening)
    }

    /// Read received bytes. Bytes to send are appended to `out`.
    ///
    /// Returns: the session, when it is open.
    ///
    /// Errors: send `out` before you close the connection: it may have an alert.
    pub fn advance(
        &mut self,
        bytes: &[u8],
        login: &Login,
        salted: &mut SaltedPasswords,
        out: &mut Vec<u8>,
    ) -> Result<Option<Opened>, OpeningError> {
        let mut plain = Vec::new();
        self.negotiation.advance(bytes, &mut plain, out)?;
        self.log_in(login, out)?;
        let Some(handshake) = &mut self.handshake else { return Ok(None) };
        let mut input = plain.as_slice();
        if self.asked.is_none() {
            let mut answer = BytesMut::new();
            let advance = handshake.advance(login, salted, &mut input, &mut answer);
            self.send(&answer, out);
            let Advance::Ready(session) = advance? else { return Ok(None) };
            let mut query = Vec::new();
            let is_known = match &mut self.check {
                Some(check) => check.begin(&session.parameters, &mut query)?,
                None => true,
            };
            if is_known {
                return Ok(Some(self.open(session, input)));
            }
            self.send(&query, out);
            self.asked = Some(session);
        }
        let check = self.check.as_mut().expect("it asked");
        if !check.advance(&mut input)? {
            return Ok(None);
        }
        let session = self.asked.take().expect("just seen");
        Ok(Some(self.open(session, input)))
    }

    fn open(&mut self, session: Session, rest: &[u8]) -> Opened {
        let Negotiation::Done(tls) = &mut self.negotiation else {
            unreachable!("the handshake begins when the encryption is agreed on")
        };
        Opened { session, tls: tls.take(), rest: rest.to_vec() }
    }

    /// Send the start-up message, when the encryption is negotiated.
    fn log_in(&mut self, login: &Login, out: &mut Vec<u8>) -> Result<(), OpeningError> {
        if self.handshake.is_some() {
            return Ok(());
        }
        let Negotiation::Done(tls) = &self.negotiation else { return Ok(()) };
        let mut start_up = BytesMut::new();
        let mut handshake = Handshake::start(login, &mut start_up)?;
        if let Some(hash) = tls.as_ref().and_then(|stream| stream.end_point()) {
            handshake.bind_to(hash);
        }
        self.handshake = Some(handshake);
        self.send(&start_up, out);
        Ok(())
    }

    fn send(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &mut self.negotiation {
            _ if bytes.is_empty() => {}
            Negotiation::Done(Some(stream)) => out.extend_from_slice(stream.encrypt(bytes)),
            _ => out.extend_from_slice(bytes),
        }
    }
}
