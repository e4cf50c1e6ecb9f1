//! The errors of a blocking session, and which of them another attempt may avoid.

use std::fmt;
use std::io;

use pgdyno_wire::{HandshakeError, ProtocolError, ServerError};

use crate::tls::{Attempt, OpeningError, TlsError};

#[derive(Debug)]
pub enum SessionError {
    /// No host could be reached: the last host that was tried, and its error.
    Connect {
        place: String,
        error: io::Error,
    },
    /// The server was reached, but refused the session.
    Handshake(Box<HandshakeError>),
    /// A statement failed.
    Server(Box<ServerError>),
    /// The connection was lost while the session was open.
    Lost(io::Error),
    Protocol(ProtocolError),
    /// TLS is required and cannot be used.
    Tls(TlsError),
    /// The session is not of the kind that target_session_attrs names.
    Unsuitable(&'static str),
    /// The stop flag was set.
    Stopped,
}

impl SessionError {
    /// True if another attempt, later or on another host, may succeed: the host does not answer, or
    /// its server is still starting (57P03).
    pub fn may_pass(&self) -> bool {
        match self {
            SessionError::Connect { .. } | SessionError::Lost(_) => true,
            error => error.refusal().is_some_and(|refusal| refusal.sqlstate.as_str() == "57P03"),
        }
    }

    /// True if the other attempt of sslmode `allow` or `prefer` (with or without TLS) may succeed.
    pub(super) fn may_be_the_encryption(&self, attempt: Attempt) -> bool {
        match self {
            SessionError::Tls(error) => OpeningError::from(error.clone()).may_be_the_encryption(),
            SessionError::Handshake(error) => {
                OpeningError::from((**error).clone()).may_be_the_encryption()
            }
            // Some servers close the connection when they get a request for TLS.
            SessionError::Lost(_) => attempt == Attempt::Tls,
            _ => false,
        }
    }

    /// The server's error if it refused the login.
    pub fn refusal(&self) -> Option<&ServerError> {
        match self {
            SessionError::Handshake(error) => match &**error {
                HandshakeError::Server(refusal) => Some(refusal),
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Connect { place, error } => {
                write!(f, "could not connect to {place}: {error}")
            }
            SessionError::Handshake(error) => error.fmt(f),
            SessionError::Server(error) => error.fmt(f),
            SessionError::Lost(error) => {
                write!(f, "the connection to the server was lost: {error}")
            }
            SessionError::Protocol(error) => error.fmt(f),
            SessionError::Tls(error) => error.fmt(f),
            SessionError::Unsuitable(why) => f.write_str(why),
            SessionError::Stopped => f.write_str("told to stop"),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<ProtocolError> for SessionError {
    fn from(error: ProtocolError) -> Self {
        SessionError::Protocol(error)
    }
}

impl From<HandshakeError> for SessionError {
    fn from(error: HandshakeError) -> Self {
        SessionError::Handshake(Box::new(error))
    }
}

impl From<OpeningError> for SessionError {
    fn from(error: OpeningError) -> Self {
        match error {
            OpeningError::Handshake(error) => error.into(),
            OpeningError::Tls(error) => SessionError::Tls(error),
            OpeningError::Unsuitable(why) => SessionError::Unsuitable(why),
        }
    }
}
