//! A server under the test's control: one thread a connection, answers as a closure says, and its
//! own clock with every statement.

pub(crate) mod bare;
mod connection;
pub(crate) mod job;

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use pgdyno_engine::clock::now_ns;

use connection::Connection;

const PORT: u16 = 5432;

/// A statement that came.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    /// Number among all statements of the server, from 1; parses and pings are none.
    pub(crate) number: usize,
    pub(crate) sql: String,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Its command tag, as the first word demands.
    Done,
    Error(&'static str),
    /// Success with this command tag.
    Tag(&'static str),
    /// One row with this value.
    Value(&'static str),
    /// Success, and a report that this parameter has another value.
    Tells(&'static str, &'static str),
    /// No answer until a CancelRequest for the connection comes; then query_canceled.
    UntilCancelled,
    /// No answer until a CancelRequest comes; then success all the same.
    DoneWhenCancelled,
    /// The connection ends without an answer.
    Close,
    /// Ask for COPY data; the client's CopyFail is then an error.
    CopyIn,
    /// Break another connection, known by its number among all that came, and then succeed.
    Cut(usize),
    /// End as a crash would: every connection breaks, and nobody listens.
    Crash,
}

/// What the server saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) statements: Vec<String>,
    /// When each came and when its answer left, by the server's clock.
    pub(crate) stamps: Vec<(u64, u64)>,
    /// Connections of the statements, in their order.
    pub(crate) connections: Vec<u32>,
    pub(crate) parses: u64,
    pub(crate) commits: u64,
    pub(crate) cancels: u64,
    pub(crate) terminates: u64,
    pub(crate) copy_fails: u64,
}

struct State {
    folder: PathBuf,
    answer: Box<dyn Fn(&Statement) -> Answer + Send + Sync>,
    /// Answers to start-up messages: an SQLSTATE refuses, none admits.
    admit: Box<dyn Fn(u32) -> Option<&'static str> + Send + Sync>,
    /// Parameters told at start-up.
    told: Mutex<Vec<(&'static str, &'static str)>>,
    seen: Mutex<Seen>,
    /// Connections that a CancelRequest named.
    cancelled: Mutex<HashMap<u32, u64>>,
    was_cancelled: Condvar,
    is_closed: AtomicBool,
    connection_count: AtomicU32,
    streams: Mutex<Vec<UnixStream>>,
}

/// A running server; its folder and threads end with it.
pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    state: Arc<State>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Statement) -> Answer + Send + Sync + 'static) -> Server {
        Server::start_admitting(answer, |_| None)
    }

    pub(crate) fn start_admitting(
        answer: impl Fn(&Statement) -> Answer + Send + Sync + 'static,
        admit: impl Fn(u32) -> Option<&'static str> + Send + Sync + 'static,
    ) -> Server {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("pgd{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let listener = UnixListener::bind(folder.join(format!(".s.PGSQL.{PORT}"))).expect("bind");
        let state = Arc::new(State {
            folder: folder.clone(),
            answer: Box::new(answer),
            admit: Box::new(admit),
            told: Mutex::default(),
            seen: Mutex::default(),
            cancelled: Mutex::default(),
            was_cancelled: Condvar::new(),
            is_closed: AtomicBool::new(false),
            connection_count: AtomicU32::new(0),
            streams: Mutex::default(),
        });
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                if accepting.is_closed.load(Ordering::Acquire) {
                    return;
                }
                let state = Arc::clone(&accepting);
                // Numbered here: the threads that serve may begin in any order.
                let mut streams = state.streams.lock().unwrap();
                let number = streams.len() as u32;
                streams.push(stream.try_clone().expect("a descriptor"));
                drop(streams);
                thread::spawn(move || Connection::new(state, stream, number).serve());
            }
        });
        Server { folder, state }
    }

    pub(crate) fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.state.seen.lock().unwrap()
    }

    /// Sessions opened from now on receive this parameter.
    pub(crate) fn tell(&self, name: &'static str, value: &'static str) {
        let mut told = self.state.told.lock().unwrap();
        told.retain(|(known, _)| *known != name);
        told.push((name, value));
    }

    /// Wait until this number of sessions have said goodbye: it is read a moment after it is sent.
    pub(crate) fn await_terminates(&self, count: u64) {
        let begun_ns = now_ns();
        while self.seen().terminates < count {
            let seen = self.seen().terminates;
            assert!(now_ns() - begun_ns < 60_000_000_000, "{seen} of {count} said goodbye");
            thread::yield_now();
        }
    }

    /// Sessions that were opened.
    pub(crate) fn connection_count(&self) -> u32 {
        self.state.connection_count.load(Ordering::Acquire)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The accepting thread leaves at the next connection, which is this one.
        self.state.is_closed.store(true, Ordering::Release);
        let _ = UnixStream::connect(self.folder.join(format!(".s.PGSQL.{PORT}")));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl State {
    fn cut(&self, number: usize) {
        let _ = self.streams.lock().unwrap()[number].shutdown(Shutdown::Both);
    }

    fn crash(&self) {
        self.is_closed.store(true, Ordering::Release);
        let _ = std::fs::remove_file(self.folder.join(format!(".s.PGSQL.{PORT}")));
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
