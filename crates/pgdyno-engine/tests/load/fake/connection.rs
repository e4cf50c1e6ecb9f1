//! One connection of the server under the test's control: as much of the protocol as a load uses.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pgdyno_engine::clock::now_ns;

use super::{Answer, State, Statement};

pub(super) struct Connection {
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
    pub(super) fn new(state: Arc<State>, stream: UnixStream, number: u32) -> Connection {
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

    pub(super) fn serve(mut self) {
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
            Answer::Tag(tag) => {
                if tag == "ROLLBACK" {
                    self.status = b'I';
                }
                self.message(b'C', format!("{tag}\0").as_bytes());
            }
            Answer::Value(value) => {
                let length = (value.len() as u32).to_be_bytes();
                let row = [&[0, 1][..], &length, value.as_bytes()].concat();
                self.message(b'D', &row);
                self.message(b'C', b"SHOW\0");
            }
            Answer::Tells(name, value) => {
                self.done(&word);
                self.message(b'S', format!("{name}\0{value}\0").as_bytes());
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
