//! Errors of TLS, each with a hint for the user.

use std::fmt;

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
