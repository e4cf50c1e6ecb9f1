//! Events of the sockets other than replies: lost connections, notices, errors of the protocol.

use pgdyno_wire::{ProtocolError, encode};

use super::message::Message;
use super::{Starts, Worker};
use crate::client::News;
use crate::contract::job::Protocol;
use crate::contract::record::ErrorKind;
use crate::plan::Refusal;
use crate::tls::TlsError;

impl<'s, S: Starts<'s>> Worker<'s, S> {
    pub(super) fn on_news(&mut self) {
        let mut all = std::mem::take(&mut self.shard.borrow_mut().clients.news);
        for news in all.drain(..) {
            match news {
                News::Connected(token) if self.cancels.is_token(token) => {
                    self.on_cancel_connected(token);
                }
                News::Closed(token, _) if self.cancels.is_token(token) => {
                    self.on_cancel_closed(token);
                }
                News::Opening(token, bytes) if self.cancels.is_token(token) => {
                    self.on_cancel_received(token, &bytes);
                }
                News::Connected(index) => self.begin_opening(index),
                News::Opening(index, bytes) => self.advance_opening(index, &bytes),
                News::Tls(index, error) => self.on_tls(index, error),
                News::Closed(index, error) => self.on_closed(index, error),
                News::Broken(index, error) => self.on_broken(index, &error),
                News::CopyIn(index) => self.refuse_copy(index),
                News::Unsafe(index, setting) => self.on_unsafe(index, setting),
            }
        }
        // Reuse the memory, unless handling the news added more.
        let news = &mut self.shard.borrow_mut().clients.news;
        if news.is_empty() {
            *news = all;
        }
    }

    /// The server broke the protocol, so earlier messages cannot be trusted either.
    fn on_broken(&mut self, index: u32, error: &ProtocolError) {
        let message = format!("the server broke the protocol: {error}");
        let hint = "a device between engine and server may have changed the data";
        self.tell(Message::Fatal(Box::new(Refusal::new(ErrorKind::Protocol, message, hint))));
        self.shard.borrow_mut().poller.close(index);
        self.on_closed(index, None);
    }

    /// The session of a read-only load could write from now on: it ends, and the load.
    fn on_unsafe(&mut self, index: u32, setting: &str) {
        let script = {
            let shard = self.shard.borrow();
            let current = shard.clients.states[index as usize].current;
            current.map(|current| self.plan.scripts[current.script].name.clone())
        };
        let why = match setting {
            "default_transaction_read_only" => "is off",
            _ => "changes the meaning of texts",
        };
        let message = format!(
            "the load is read-only, and {setting} {why} in one of its sessions, so its next \
             transaction could write: a read-only load ends before that transaction"
        );
        let hint = format!(
            "remove what changes {setting}: a function, SET or a pooler; if the load may write, \
             add --allow-write"
        );
        let refusal = Refusal { script, ..Refusal::new(ErrorKind::ReadOnlyLost, message, hint) };
        self.tell(Message::Fatal(Box::new(refusal)));
        self.shard.borrow_mut().poller.close(index);
        self.on_closed(index, None);
    }

    /// The TLS session of an open connection has bytes to send, or has failed, which ends the
    /// connection.
    fn on_tls(&mut self, index: u32, error: Option<TlsError>) {
        {
            let shard = &mut *self.shard.borrow_mut();
            let Some(tls) = &mut shard.clients.states[index as usize].tls else { return };
            shard.poller.send(index, tls.to_send());
        }
        if let Some(error) = error {
            self.tell(Message::Fatal(Box::new(Refusal::new(
                ErrorKind::Protocol,
                error.message,
                error.hint,
            ))));
            self.shard.borrow_mut().poller.close(index);
            self.on_closed(index, None);
        }
    }

    /// COPY FROM STDIN gets no data: it ends with an error.
    fn refuse_copy(&mut self, index: u32) {
        let mut out = Vec::new();
        encode::copy_fail(&mut out, "a script cannot send COPY data");
        if self.plan.work.protocol != Protocol::Simple {
            // During COPY the server ignores a Sync, so the one that was sent is lost.
            encode::sync(&mut out);
        }
        self.shard.borrow_mut().send(index, &out);
    }
}
