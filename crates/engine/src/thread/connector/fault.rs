//! Why a connection was not made, and the message about it.

use std::fmt;
use std::io;

use pgdyno_wire::{HandshakeError, SqlState};

use crate::contract::job::HostPort;
use crate::contract::record::ErrorKind;
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::session::SessionError;
use crate::tls::OpeningError;

/// The reason why a connection was not made.
#[derive(Debug)]
pub(super) enum Fault {
    Io(io::Error),
    Opening(OpeningError),
    /// The server closed the connection before the session was open.
    HungUp,
    /// The session was not open after this time.
    TookTooLong(u64),
}

impl Fault {
    /// True if the server is starting or stopping, so that trying again may succeed.
    pub(super) fn is_starting_up(&self) -> bool {
        self.server_state().is_some_and(|state| state == SqlState::new(b"57P03"))
    }

    /// True if the server refused the user or the password.
    pub(super) fn is_about_the_password(&self) -> bool {
        let is_missing = matches!(
            self,
            Fault::Opening(OpeningError::Handshake(HandshakeError::PasswordMissing))
        );
        is_missing || self.server_state().is_some_and(|state| state.class() == "28")
    }

    /// True if the search ends here, as in libpq: the server answered and refused the user.
    pub(super) fn ends_the_search(&self) -> bool {
        let is_wrong_host = matches!(self, Fault::Opening(OpeningError::Unsuitable(_)));
        matches!(self, Fault::Opening(_)) && !is_wrong_host && !self.is_starting_up()
    }

    fn server_state(&self) -> Option<SqlState> {
        match self {
            Fault::Opening(OpeningError::Handshake(HandshakeError::Server(error))) => {
                Some(error.sqlstate)
            }
            _ => None,
        }
    }

    /// The same error, as a blocking session reports it.
    pub(super) fn as_session_error(&self, host: &HostPort) -> SessionError {
        let place = || format!("{}:{}", host.hostaddr.as_ref().unwrap_or(&host.host), host.port);
        let not_made = |kind: io::ErrorKind, text: &str| SessionError::Connect {
            place: place(),
            error: io::Error::new(kind, text),
        };
        match self {
            Fault::Opening(error) => error.clone().into(),
            Fault::HungUp => SessionError::Lost(io::ErrorKind::UnexpectedEof.into()),
            Fault::Io(error) => not_made(error.kind(), &error.to_string()),
            Fault::TookTooLong(_) => not_made(io::ErrorKind::TimedOut, "timeout expired"),
        }
    }

    /// Kind, hint and SQLSTATE of what ends the run; the message is the caller's.
    pub(super) fn refusal(&self, plan: &Plan) -> Refusal {
        match self {
            Fault::Opening(OpeningError::Tls(error)) => {
                Refusal::new(ErrorKind::Connect, "", error.hint.clone())
            }
            Fault::Opening(OpeningError::Handshake(error)) => of_handshake(error, plan),
            Fault::Opening(OpeningError::Unsuitable(_)) => {
                let hint = "name every host of the cluster, or another target_session_attrs";
                Refusal::new(ErrorKind::Connect, "", hint)
            }
            Fault::Io(_) | Fault::HungUp | Fault::TookTooLong(_) => {
                let hint = "check host and port, and that the server runs";
                Refusal::new(ErrorKind::Connect, "", hint)
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(error) => error.fmt(f),
            Fault::HungUp => f.write_str("the server closed the connection during the handshake"),
            Fault::Opening(error) => error.fmt(f),
            Fault::TookTooLong(limit_ns) => {
                write!(f, "no session within {} s", *limit_ns as f64 / 1e9)
            }
        }
    }
}

fn of_handshake(handshake: &HandshakeError, plan: &Plan) -> Refusal {
    let (kind, hint) = match handshake {
        HandshakeError::Server(error) => {
            let hint = error.hint.clone().unwrap_or_default();
            match error.sqlstate {
                SqlState::TOO_MANY_CONNECTIONS => (
                    ErrorKind::TooManyConnections,
                    format!(
                        "the load needs {} connections: raise max_connections, or use fewer \
                         clients",
                        plan.connection_count() + plan.idle_count()
                    ),
                ),
                state if state.class() == "28" => {
                    (ErrorKind::Authentication, or(hint, "check user, password and pg_hba.conf"))
                }
                state if state.class() == "3D" => {
                    (ErrorKind::Connect, or(hint, "check the name of the database"))
                }
                state if state.as_str() == "42501" => {
                    (ErrorKind::Connect, "grant CONNECT on the database to this user".to_owned())
                }
                _ => (ErrorKind::Connect, or(hint, "see the server's log")),
            }
        }
        HandshakeError::Protocol(_) => {
            (ErrorKind::Protocol, "another program than PostgreSQL may listen there".to_owned())
        }
        HandshakeError::NotBound => (
            ErrorKind::Authentication,
            "connect by TCP with TLS and scram-sha-256, or give channel_binding=prefer".to_owned(),
        ),
        HandshakeError::NotAllowed(_) => (
            ErrorKind::Authentication,
            "configure the server for a method of require_auth, or add the server's method"
                .to_owned(),
        ),
        _ => (ErrorKind::Authentication, "check user and password".to_owned()),
    };
    let sqlstate = match handshake {
        HandshakeError::Server(error) => Some(error.sqlstate.as_str().to_owned()),
        _ => None,
    };
    Refusal { sqlstate, ..Refusal::new(kind, "", hint) }
}

/// The server's own hint, or ours.
fn or(hint: String, ours: &str) -> String {
    if hint.is_empty() { ours.to_owned() } else { hint }
}
