//! Errors of TLS, each with a hint for the user, and why no session was opened.

use std::fmt;

use pgdyno_wire::HandshakeError;
use rustls::{CertificateError, Error};

use super::verifier::Distrust;

/// An error of TLS: the message, and the next step for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    pub message: String,
    pub hint: String,
}

impl TlsError {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> TlsError {
        TlsError { message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TlsError {}

impl From<Error> for TlsError {
    fn from(error: Error) -> TlsError {
        match &error {
            Error::InvalidCertificate(CertificateError::Other(other)) => {
                match other.0.downcast_ref::<Distrust>() {
                    Some(distrust) => TlsError::new(&distrust.message, distrust.hint),
                    None => TlsError::new(error.to_string(), ""),
                }
            }
            Error::AlertReceived(alert) => TlsError::new(
                format!("the server ended the TLS connection: {alert:?}"),
                "the server's log may say more; it may not accept the client certificate (sslcert)",
            ),
            Error::InvalidMessage(_) => TlsError::new(
                format!("the server's answer is not TLS: {error}"),
                "a device between engine and server may have changed the data",
            ),
            _ => TlsError::new(
                format!("TLS with the server failed: {error}"),
                "the engine speaks TLS 1.2 and 1.3",
            ),
        }
    }
}

/// Why no session was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpeningError {
    Handshake(HandshakeError),
    Tls(TlsError),
    /// The session is not of the kind that target_session_attrs names; the text is the reason.
    Unsuitable(&'static str),
}

impl OpeningError {
    /// True if the other attempt of sslmode `allow` or `prefer` may succeed: TLS does not work, or
    /// the server refuses the user with (or without) encryption.
    pub fn may_be_the_encryption(&self) -> bool {
        match self {
            OpeningError::Tls(_) => true,
            OpeningError::Handshake(HandshakeError::Server(error)) => {
                let state = error.sqlstate;
                // The server is starting or full, or the database does not exist: encryption does
                // not matter.
                !matches!(state.as_str(), "57P03" | "53300") && state.class() != "3D"
            }
            OpeningError::Handshake(_) | OpeningError::Unsuitable(_) => false,
        }
    }
}

impl fmt::Display for OpeningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpeningError::Handshake(error) => error.fmt(f),
            OpeningError::Tls(error) => error.fmt(f),
            OpeningError::Unsuitable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for OpeningError {}

impl From<HandshakeError> for OpeningError {
    fn from(error: HandshakeError) -> Self {
        OpeningError::Handshake(error)
    }
}

impl From<TlsError> for OpeningError {
    fn from(error: TlsError) -> Self {
        OpeningError::Tls(error)
    }
}
