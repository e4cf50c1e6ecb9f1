//! The hot receive path: reads the answer to a flush and keeps only what a transaction needs.

use crate::error::{ProtocolError, ServerError};
use crate::frame::Framer;

/// State of the session's transaction, from ReadyForQuery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionStatus {
    #[default]
    Idle,
    InBlock,
    /// In a transaction block after an error; only ROLLBACK is possible.
    FailedBlock,
}

/// Maximum size of captured rows, in bytes (16 MiB).
const MAX_CAPTURED: usize = 16 << 20;

/// Maximum number of notices that are kept from one answer.
const MAX_NOTICES: usize = 1000;

/// The answer to one flush. The owner reuses one `Reply`, so that an answer allocates nothing.
#[derive(Debug, Default, PartialEq)]
pub struct Reply {
    /// Keep RowDescription, DataRow, CommandComplete and EmptyQueryResponse in `captured`.
    pub capture: bool,
    /// Header and body of each captured message; `messages` reads them.
    pub captured: Vec<u8>,
    /// `captured` reached its maximum size; it ends with a whole message.
    pub captured_overflow: bool,
    /// Rows of the last statement that ended.
    pub row_count: u64,
    /// Rows of the statement that has not ended.
    rows_begun: u64,
    /// Number of CommandComplete and EmptyQueryResponse messages.
    pub command_count: u32,
    /// Number of ParseComplete messages.
    pub parse_count: u32,
    /// Number of ReadyForQuery messages.
    pub ready_count: u32,
    pub status: TransactionStatus,
    /// The first error.
    pub error: Option<Box<ServerError>>,
    /// The server waits for COPY data: answer CopyFail.
    pub copy_in: bool,
    /// The answer had a COPY, in either direction.
    pub has_copy: bool,
    /// Keep notices in `notices`; `reset` does not change this field.
    pub keeps_notices: bool,
    /// Notices and warnings, the first thousand.
    pub notices: Vec<ServerError>,
    /// The tag of the last CommandComplete was COMMIT.
    pub committed: bool,
    /// A setting that keeps a read-only load harmless, and that the server reported as changed.
    pub unsafe_setting: Option<&'static str>,
}

impl Reply {
    /// Clear the last answer and keep its memory.
    #[inline]
    pub fn reset(&mut self, capture: bool) {
        self.captured.clear();
        let captured = std::mem::take(&mut self.captured);
        let Reply { status, keeps_notices, .. } = *self;
        *self = Reply { capture, captured, status, keeps_notices, ..Reply::default() };
    }

    fn end_statement(&mut self) {
        self.command_count += 1;
        self.row_count = std::mem::take(&mut self.rows_begun);
    }
}

/// Reads the messages of one connection after its handshake.
#[derive(Debug, Default)]
pub struct ReplyScanner {
    framer: Framer,
}

impl ReplyScanner {
    /// Read `input` into `reply` until `ready_wanted` ReadyForQuery messages have arrived.
    ///
    /// If `ready_wanted` is 0, all bytes are read. An idle connection uses this: it may receive a
    /// notice, or the error with which the server closes the connection.
    ///
    /// Returns: true if the messages arrived, false if more bytes are needed.
    #[inline]
    pub fn feed(
        &mut self,
        input: &mut &[u8],
        ready_wanted: u32,
        reply: &mut Reply,
    ) -> Result<bool, ProtocolError> {
        let capture = reply.capture;
        while let Some(message) =
            self.framer.next(input, |tag| matches!(tag, b'D' | b'T') && !capture || tag == b'd')?
        {
            match message.tag {
                b'D' => {
                    reply.rows_begun += 1;
                    keep(reply, message.tag, message.body);
                }
                b'Z' => {
                    reply.status = match message.body {
                        b"I" => TransactionStatus::Idle,
                        b"T" => TransactionStatus::InBlock,
                        b"E" => TransactionStatus::FailedBlock,
                        _ => return Err(ProtocolError::Malformed(b'Z')),
                    };
                    reply.ready_count += 1;
                    if reply.ready_count == ready_wanted {
                        return Ok(true);
                    }
                }
                b'C' => {
                    reply.end_statement();
                    reply.committed = message.body == b"COMMIT\0";
                    keep(reply, message.tag, message.body);
                }
                b'I' => {
                    reply.end_statement();
                    keep(reply, message.tag, message.body);
                }
                b'1' => reply.parse_count += 1,
                b'T' => keep(reply, message.tag, message.body),
                b'E' if reply.error.is_none() => {
                    reply.error = Some(Box::new(ServerError::parse(message.body)));
                }
                b'G' | b'W' => (reply.copy_in, reply.has_copy) = (true, true),
                b'H' => reply.has_copy = true,
                b'N' if reply.keeps_notices && reply.notices.len() < MAX_NOTICES => {
                    reply.notices.push(ServerError::parse(message.body));
                }
                // Authentication is over.
                b'R' | b'K' | b'v' => return Err(ProtocolError::Unexpected(message.tag)),
                b'S' => {
                    reply.unsafe_setting = reply.unsafe_setting.or(unsafe_setting(message.body))
                }
                // BindComplete, NoData.
                _ => {}
            }
        }
        Ok(false)
    }
}

/// The settings that a read-only session needs. With another value of the first, its next
/// transaction could write; with one of the others, the server may find other ends of strings than
/// the check of the text did, and so other statements.
pub const READ_ONLY_SETTINGS: [(&str, &str); 3] = [
    ("default_transaction_read_only", "on"),
    ("standard_conforming_strings", "on"),
    ("client_encoding", "UTF8"),
];

/// The setting in this ParameterStatus, if it has another value than a read-only session needs.
#[cold]
fn unsafe_setting(body: &[u8]) -> Option<&'static str> {
    let mut parts = body.split(|&byte| byte == 0);
    let (name, value) = (parts.next()?, parts.next()?);
    let needed = READ_ONLY_SETTINGS.iter().find(|(needed, _)| needed.as_bytes() == name);
    needed.filter(|(_, needed)| needed.as_bytes() != value).map(|(name, _)| *name)
}

#[inline]
fn keep(reply: &mut Reply, tag: u8, body: &[u8]) {
    if !reply.capture {
        return;
    }
    if reply.captured.len() + body.len() > MAX_CAPTURED {
        reply.captured_overflow = true;
    }
    if !reply.captured_overflow {
        reply.captured.push(tag);
        reply.captured.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        reply.captured.extend_from_slice(body);
    }
}
