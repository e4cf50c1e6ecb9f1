//! The connections and terminals of a thread, and what their sockets receive.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use pgdyno_wire::{ProtocolError, Reply};

use super::connection::{Connection, Seat};
use super::terminal::Terminal;
use crate::poller::Event;
use crate::recorder::Traffic;
use crate::tls::TlsError;

/// An event of a connection that the loop handles after it has read all sockets.
#[derive(Debug)]
pub enum News {
    Connected(u32),
    /// Bytes for a connection that is being opened, or for a cancel request.
    Opening(u32, Vec<u8>),
    Closed(u32, Option<io::Error>),
    Broken(u32, ProtocolError),
    /// The TLS session has bytes to send, or has failed.
    Tls(u32, Option<TlsError>),
    /// The server waits for COPY data.
    CopyIn(u32),
    /// The answer, of which this was seen, has no end.
    Endless(u32, String),
    /// In a read-only load: with this setting, the session could write from now on.
    Unsafe(u32, &'static str),
}

/// The connections and terminals of a thread, and the transactions that can continue.
#[derive(Debug)]
pub struct Clients {
    /// The clients' connections, followed by the idle connections.
    pub connections: Vec<Connection>,
    pub terminals: Vec<Terminal>,
    /// Clients whose transaction can continue, in the order of their replies.
    pub ready: VecDeque<u32>,
    pub news: Vec<News>,
    /// The load has not begun, so each answer has limits.
    pub limits_answers: bool,
    /// No transaction may follow on a connection whose transactions are not read-only any more.
    is_read_only: bool,
    /// The reader of messages between replies.
    between: Reply,
    /// The bytes that a TLS session decrypted.
    plain: Vec<u8>,
}

impl Clients {
    pub fn new(
        connections: Vec<Connection>,
        terminals: Vec<Terminal>,
        is_read_only: bool,
    ) -> Clients {
        Clients {
            connections,
            terminals,
            ready: VecDeque::new(),
            news: Vec::new(),
            limits_answers: true,
            is_read_only,
            between: Reply::default(),
            plain: Vec::new(),
        }
    }

    /// Return the connection with this index, and its terminal.
    #[inline]
    pub fn seat(&mut self, index: u32) -> Seat<'_> {
        let connection = &mut self.connections[index as usize];
        let terminal = &mut self.terminals[connection.terminal as usize];
        Seat { connection, terminal }
    }

    /// Handle an event of the poller. Only replies to statements are handled at once; other events
    /// become news.
    #[inline]
    pub fn on_event(&mut self, event: Event<'_>, traffic: &mut Traffic) {
        match event {
            Event::Received { token, bytes, at_ns } => {
                traffic.bytes_received += bytes.len() as u64;
                self.on_received(token, bytes, at_ns);
            }
            Event::Connected(token) => self.news.push(News::Connected(token)),
            Event::Closed { token, error } => self.news.push(News::Closed(token, error)),
        }
    }

    #[inline]
    fn on_received(&mut self, token: u32, bytes: &[u8], at_ns: u64) {
        let connection = self.connections.get_mut(token as usize);
        let is_up = connection.as_ref().is_some_and(|connection| connection.is_up());
        if let Some(connection) = connection
            && (!is_up || self.limits_answers && connection.ready_wanted > 0)
            && let Err(seen) = connection.limit.grows(bytes.len(), Instant::now())
        {
            // Subtle: the reply stays incomplete, so nothing more is sent on this connection.
            return self.news.push(News::Endless(token, seen));
        }
        match self.connections.get_mut(token as usize) {
            Some(client) if client.is_up() => match client.tls {
                None => self.on_plain(token, bytes, at_ns),
                Some(_) => self.on_sealed(token, bytes, at_ns),
            },
            _ => self.news.push(News::Opening(token, bytes.to_vec())),
        }
    }

    /// Decrypt all bytes, so that nothing stays in the TLS session.
    #[inline(never)]
    fn on_sealed(&mut self, token: u32, bytes: &[u8], at_ns: u64) {
        let Some(tls) = &mut self.connections[token as usize].tls else { return };
        let mut plain = std::mem::take(&mut self.plain);
        let result = tls.receive(bytes, &mut plain);
        if tls.has_to_send() || result.is_err() {
            self.news.push(News::Tls(token, result.err()));
        }
        if !plain.is_empty() {
            self.on_plain(token, &plain, at_ns);
        }
        plain.clear();
        self.plain = plain;
    }

    /// Read bytes of the protocol, for a client with an open session.
    #[inline]
    pub fn on_plain(&mut self, token: u32, mut bytes: &[u8], at_ns: u64) {
        let connection = &mut self.connections[token as usize];
        if connection.ready_wanted > 0 {
            let fed =
                connection.scanner.feed(&mut bytes, connection.ready_wanted, &mut connection.reply);
            if let Some(results_ns) = &mut connection.results_ns {
                results_ns.resize(connection.reply.command_count as usize, at_ns);
            }
            if self.is_read_only
                && let Some(setting) = connection.reply.unsafe_setting
            {
                // Subtle: the reply stays incomplete, so nothing more is sent on this connection.
                self.news.push(News::Unsafe(token, setting));
                return;
            }
            match fed {
                Ok(true) => {
                    connection.ready_wanted = 0;
                    connection.replied_ns = at_ns;
                    self.ready.push_back(token);
                }
                Ok(false) => {
                    if connection.copies {
                        // Its rows follow, or an error forbids them.
                        if connection.reply.copy_in || connection.reply.error.is_some() {
                            connection.replied_ns = at_ns;
                            self.ready.push_back(token);
                        }
                    } else if connection.reply.copy_in {
                        connection.reply.copy_in = false;
                        self.news.push(News::CopyIn(token));
                    }
                    return;
                }
                Err(error) => {
                    self.news.push(News::Broken(token, error));
                    return;
                }
            }
        }
        if !bytes.is_empty() {
            self.on_unasked(token, bytes);
        }
    }

    /// Read messages between replies: notices, changed parameters, or the error before the end of
    /// the connection.
    #[cold]
    fn on_unasked(&mut self, token: u32, mut bytes: &[u8]) {
        let connection = &mut self.connections[token as usize];
        self.between.reset(false);
        match connection.scanner.feed(&mut bytes, 0, &mut self.between) {
            Err(error) => self.news.push(News::Broken(token, error)),
            Ok(_) if self.between.ready_count > 0 => {
                // A reply that nobody awaits: client and server do not agree any more.
                self.news.push(News::Broken(token, ProtocolError::Unexpected(b'Z')));
            }
            Ok(_) => {
                connection.last_words = self.between.error.take().or(connection.last_words.take());
                if self.is_read_only
                    && let Some(setting) = self.between.unsafe_setting
                {
                    self.news.push(News::Unsafe(token, setting));
                }
            }
        }
    }
}
