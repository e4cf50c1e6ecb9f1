//! The PostgreSQL wire protocol, version 3.0: bytes in, messages out.
//!
//! This crate has no sockets and no clock. The owner of a socket passes in the bytes that it
//! received, and sends the bytes that this crate returns. The `postgres-protocol` crate encodes
//! the start-up messages. Receiving is written here, because a load generator skips most messages
//! without parsing them.
//!
//! Assumptions: error texts are UTF-8 (`client_encoding` is UTF8). Other bytes are replaced, never
//! refused. A header can claim any length: the claim alone never causes a panic or an allocation.

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
pub use reply::{READ_ONLY_SETTINGS, Reply, ReplyScanner, TransactionStatus};
pub use require_auth::RequireAuth;
pub use rows::{RowError, columns, messages, values};
pub use scram::SaltedPasswords;

/// Write CancelRequest: the server then cancels the statement of the backend of `session`. The
/// message is sent on a separate connection.
pub fn cancel_request(session: &Session, out: &mut BytesMut) {
    frontend::cancel_request(session.process_id, session.secret_key, out);
}
