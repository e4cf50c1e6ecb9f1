//! A read-only load whose server does not report `default_transaction_read_only`: it is asked.
//!
//! From PostgreSQL 14 on the server reports a change before the next transaction. An older server,
//! and a pooler that does not pass the report on, are asked before every transaction. SHOW changes
//! nothing, so behind a pooler it leaves no setting in the session of another client.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use pgdyno_wire::{encode, messages, values};

use super::{Client, Lost, News};

const READ_ONLY: &str = "default_transaction_read_only";

/// True if the server must be asked before the transaction that would begin now.
#[inline]
pub(super) fn must_ask(client: Client<'_>) -> bool {
    client.plan.work.read_only && client.connection(|c| c.asks_read_only && !c.is_in_block())
}

/// Check that the transaction that would begin now cannot write.
///
/// The future is boxed, and callers ask `must_ask` first: a check is rare, and its state would make
/// each transaction larger and slower.
///
/// Errors: it could write; the connection is then closed, and the load ends.
pub(super) fn check(client: Client<'_>) -> Pin<Box<dyn Future<Output = Result<(), Lost>> + '_>> {
    Box::pin(ask(client))
}

async fn ask(client: Client<'_>) -> Result<(), Lost> {
    client
        .exchange(true, |_, out, _| {
            encode::query(out, |out| out.extend_from_slice(b"SHOW default_transaction_read_only"));
            1
        })
        .await?;
    if client.connection(|c| is_on(&c.reply.captured)) {
        return Ok(());
    }
    client.shard().clients.news.push(News::Unsafe(client.index, READ_ONLY));
    poll_fn(|_| client.connection(|c| if c.is_up() { Poll::Pending } else { Poll::Ready(()) }))
        .await;
    Err(client.connection(|c| c.lost()))
}

fn is_on(captured: &[u8]) -> bool {
    let row = messages(captured).find(|message| message.tag == b'D');
    row.and_then(|row| values(row.body).ok()?.first().copied().flatten()) == Some(b"on")
}

/// True if another transaction may follow this statement in a pipeline. A read-only load waits for
/// its reply, because the reply says whether the next transaction is still read-only.
pub(super) fn may_end_a_transaction(text: &str) -> bool {
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    !["select", "with", "values", "table"].contains(&word.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_queries_are_known_to_leave_the_transaction_open() {
        for text in ["SELECT 1", "with a AS (SELECT 1) SELECT 2", "VALUES(1)", "TABLE t"] {
            assert!(!may_end_a_transaction(text), "{text}");
        }
        for text in ["COMMIT", "/* */ END", "(SELECT 1)", "PREPARE TRANSACTION 'a'", "CALL p()"] {
            assert!(may_end_a_transaction(text), "{text}");
        }
    }
}
