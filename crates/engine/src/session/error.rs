//! Why a session cannot go on.

use std::fmt;
use std::io;

use pgdyno_wire::{HandshakeError, ProtocolError, ServerError};

use crate::tls::{Attempt, OpeningError, TlsError};

#[derive(Debug)]
pub enum SessionError {
    /// No host could be reached; the last one tried and why.
    Connect {
        place: String,
        error: io::Error,
    },
    /// The server could be reached and there is no session.
    Handshake(Box<HandshakeError>),
    /// A statement failed.
    Server(Box<ServerError>),
    /// The connection ended in the middle.
    Lost(io::Error),
    Protocol(ProtocolError),
    /// TLS was asked for and cannot be had.
    Tls(TlsError),
    /// The session is not of the kind that target_session_attrs names.
    Unsuitable(&'static str),
    Stopped,
}

impl SessionError {
    /// True when connecting a moment later, or to another host, may do: nobody is there, or the
    /// server is still starting (57P03).
    pub fn may_pass(&self) -> bool {
        match self {
            SessionError::Connect { .. } | SessionError::Lost(_) => true,
            error => error.refusal().is_some_and(|refusal| refusal.sqlstate.as_str() == "57P03"),
        }
    }

    /// True when the other attempt of sslmode `allow` or `prefer` may do better.
    pub(super) fn may_be_the_encryption(&self, attempt: Attempt) -> bool {
        match self {
            SessionError::Tls(error) => OpeningError::from(error.clone()).may_be_the_encryption(),
            SessionError::Handshake(error) => {
                OpeningError::from((**error).clone()).may_be_the_encryption()
            }
            // Some servers close at a request for TLS.
            SessionError::Lost(_) => attempt == Attempt::Tls,
            _ => false,
        }
    }

    /// What the server said when it did not let the user in.
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
