//! A server under the test's control: one thread a connection, answers as a closure says, and its
//! own clock beside every statement.

pub(crate) mod bare;
pub(crate) mod job;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use pgdyno_engine::clock::now_ns;

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
    /// One row with this value.
    Value(&'static str),
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

    /// Sessions opened from now on are told this parameter.
    pub(crate) fn tell(&self, name: &'static str, value: &'static str) {
        let mut told = self.state.told.lock().unwrap();
        told.retain(|(known, _)| *known != name);
        told.push((name, value));
    }

    /// Wait until so many sessions have said goodbye: it is sent, and read a moment later.
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

struct Connection {
    state: Arc<State>,
    stream: UnixStream,
    number: u32,
    prepared: HashMap<String, String>,
    status: u8,
    out: Vec<u8>,
    /// When its last statement came; 0 before the first.
    received_ns: u64,
}

impl Connection {
    fn new(state: Arc<State>, stream: UnixStream, number: u32) -> Connection {
        Connection {
            state,
            stream,
            number,
            prepared: HashMap::new(),
            status: b'I',
            out: Vec::new(),
            received_ns: 0,
        }
    }

    fn serve(mut self) {
        // The end of a connection is an error of some read or write, and the end of the thread.
        let _ = self.serve_until_closed();
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn serve_until_closed(&mut self) -> io::Result<()> {
        if !self.start_up()? {
            return Ok(());
        }
        let mut bound = None;
        loop {
            let (tag, body) = self.read()?;
            match tag {
                b'Q' => {
                    let sql = text(&body);
                    self.execute(&sql)?;
                    self.ready()?;
                }
                b'P' => {
                    let mut parts = body.split(|&byte| byte == 0).map(text);
                    let (name, sql) = (parts.next().unwrap(), parts.next().unwrap());
                    if let Some(at) = sql.find("missing_table") {
                        self.error_at("42P01", at + 1);
                    } else if let Some(at) = sql.find(":nosuch") {
                        self.error_at("42601", at + 1);
                    } else {
                        self.state.seen.lock().unwrap().parses += 1;
                        self.prepared.insert(name, sql);
                        self.message(b'1', b"");
                    }
                }
                b'B' => {
                    let mut parts = body.split(|&byte| byte == 0).map(text);
                    let (_, name) = (parts.next(), parts.next().unwrap());
                    bound = self.prepared.get(&name).cloned();
                    self.message(b'2', b"");
                }
                b'E' => {
                    let sql = bound.clone().expect("bound before it is executed");
                    self.execute(&sql)?;
                }
                b'S' => self.ready()?,
                b'f' => {
                    self.state.seen.lock().unwrap().copy_fails += 1;
                    self.error("57014");
                    // In the simple protocol the error is followed by ReadyForQuery.
                    self.ready()?;
                }
                b'X' => {
                    self.state.seen.lock().unwrap().terminates += 1;
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// True when a session begins.
    fn start_up(&mut self) -> io::Result<bool> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        self.stream.read_exact(&mut body)?;
        let code = u32::from_be_bytes(body[..4].try_into().unwrap());
        if code == 80_877_102 {
            let connection = u32::from_be_bytes(body[4..8].try_into().unwrap());
            self.state.seen.lock().unwrap().cancels += 1;
            *self.state.cancelled.lock().unwrap().entry(connection).or_default() += 1;
            self.state.was_cancelled.notify_all();
            return Ok(false);
        }
        self.state.connection_count.fetch_add(1, Ordering::Relaxed);
        if let Some(state) = (self.state.admit)(self.number) {
            self.error(state);
            self.flush()?;
            return Ok(false);
        }
        self.message(b'R', &[0; 4]);
        self.message(b'S', b"server_version\x0015.7\0");
        let told = self.state.told.lock().unwrap().clone();
        for (name, value) in told {
            self.message(b'S', format!("{name}\0{value}\0").as_bytes());
        }
        let key = [self.number.to_be_bytes(), [0, 0, 0, 9]].concat();
        self.message(b'K', &key);
        self.ready()?;
        Ok(true)
    }

    fn read(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let received_ns = now_ns();
        let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
        self.stream.read_exact(&mut body)?;
        if matches!(head[0], b'Q' | b'E') {
            self.received_ns = received_ns;
        }
        Ok((head[0], body))
    }

    fn execute(&mut self, sql: &str) -> io::Result<()> {
        let received_ns = self.received_ns;
        let number = {
            let mut seen = self.state.seen.lock().unwrap();
            seen.statements.push(sql.to_owned());
            seen.connections.push(self.number);
            seen.statements.len()
        };
        let statement = Statement { number, sql: sql.to_owned() };
        let word = sql.split([' ', ';']).next().unwrap_or_default().to_ascii_uppercase();
        match (self.state.answer)(&statement) {
            Answer::Done => self.done(&word),
            Answer::Error(state) => self.error(state),
            Answer::Value(value) => {
                let length = (value.len() as u32).to_be_bytes();
                let row = [&[0, 1][..], &length, value.as_bytes()].concat();
                self.message(b'D', &row);
                self.message(b'C', b"SHOW\0");
            }
            Answer::UntilCancelled => {
                self.wait_for_cancel();
                self.error("57014");
            }
            Answer::DoneWhenCancelled => {
                self.wait_for_cancel();
                self.done(&word);
            }
            Answer::Cut(number) => {
                self.state.cut(number);
                self.done(&word);
            }
            Answer::Crash => {
                self.state.crash();
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Answer::Close => return Err(io::ErrorKind::ConnectionAborted.into()),
            Answer::CopyIn => {
                self.message(b'G', &[0, 0, 0]);
                self.flush()?;
                let (tag, _) = self.read()?;
                assert_eq!(tag, b'f', "CopyFail");
                self.state.seen.lock().unwrap().copy_fails += 1;
                self.error("57014");
            }
        }
        self.state.seen.lock().unwrap().stamps.push((received_ns, now_ns()));
        Ok(())
    }

    fn done(&mut self, word: &str) {
        match word {
            "BEGIN" => self.status = b'T',
            "END" | "COMMIT" => {
                self.status = b'I';
                self.state.seen.lock().unwrap().commits += 1;
            }
            "ROLLBACK" => self.status = b'I',
            "SELECT" => {
                self.message(b'T', b"\0\x01one\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\0\0\0\0\0\0");
                self.message(b'D', b"\0\x01\0\0\0\x011");
            }
            _ => {}
        }
        let tag = if word == "END" { "COMMIT" } else { word };
        self.message(b'C', format!("{tag}\0").as_bytes());
    }

    fn error(&mut self, state: &str) {
        if self.status == b'T' {
            self.status = b'E';
        }
        let body = format!("SERROR\0VERROR\0C{state}\0Mas the test wants\0\0");
        self.message(b'E', body.as_bytes());
    }

    /// With a place in the statement, counted from 1.
    fn error_at(&mut self, state: &str, position: usize) {
        let body = format!("SERROR\0VERROR\0C{state}\0Mas the test wants\0P{position}\0\0");
        self.message(b'E', body.as_bytes());
    }

    fn wait_for_cancel(&self) {
        let mut cancelled = self.state.cancelled.lock().unwrap();
        while !cancelled.contains_key(&self.number) {
            cancelled = self.state.was_cancelled.wait(cancelled).unwrap();
        }
    }

    fn ready(&mut self) -> io::Result<()> {
        let status = self.status;
        self.message(b'Z', &[status]);
        self.flush()
    }

    fn message(&mut self, tag: u8, body: &[u8]) {
        self.out.push(tag);
        self.out.extend((body.len() as u32 + 4).to_be_bytes());
        self.out.extend(body);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&std::mem::take(&mut self.out))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}
