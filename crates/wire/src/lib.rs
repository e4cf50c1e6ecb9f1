//! The PostgreSQL wire protocol, version 3.0: bytes in, messages out.
//!
//! No sockets and no clock: the owner of the socket feeds what it received and sends what it is
//! given. Start-up messages and encoding come from the `postgres-protocol` crate; the receiving
//! side is ours, because a load generator wants to walk over most messages without parsing them.
//!
//! Assumes `client_encoding` is UTF8 for error texts (other bytes are replaced, never refused).
//! Nothing here panics on, or allocates for, what a header merely claims.

pub mod encode;
mod error;
mod frame;
mod handshake;
mod reply;
mod require_auth;
mod rows;
mod scram;

pub use bytes::BytesMut;
pub use error::{ProtocolError, ServerError, SqlState};
pub use frame::{Framer, Message, NEVER_SKIP};
pub use handshake::{Advance, ChannelBinding, Handshake, HandshakeError, Login, Session};
pub use postgres_protocol::message::frontend;
pub use reply::{Reply, ReplyScanner, TransactionStatus};
pub use require_auth::RequireAuth;
pub use rows::{RowError, columns, messages, values};
pub use scram::SaltedPasswords;

/// Write the message that asks the server, on a separate connection, to cancel what the backend
/// of `session` is doing.
pub fn cancel_request(session: &Session, out: &mut BytesMut) {
    frontend::cancel_request(session.process_id, session.secret_key, out);
}
