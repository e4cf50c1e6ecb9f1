//! The least client there can be: a blocking socket and a clock. What it sees of the way there and
//! back is the host's doing, and nobody's measurement can be without it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use pgdyno_engine::clock::now_ns;

use super::{PORT, Server};

/// Latencies of a number of simple queries, in nanoseconds, in the order they came.
pub(crate) fn latencies_ns(server: &Server, count: usize) -> Vec<u64> {
    let path = server.folder.join(format!(".s.PGSQL.{PORT}"));
    let mut socket = UnixStream::connect(path).expect("a server");
    let parameters = b"\0\x03\0\0user\0bare\0\0";
    socket.write_all(&(parameters.len() as u32 + 4).to_be_bytes()).expect("start-up");
    socket.write_all(parameters).expect("start-up");
    read_until_ready(&mut socket);
    let timed = |_| {
        let sent_ns = now_ns();
        socket.write_all(b"Q\0\0\0\x0eSELECT 1;\0").expect("a query");
        read_until_ready(&mut socket);
        now_ns() - sent_ns
    };
    (0..count).map(timed).collect()
}

/// An answer ends with ReadyForQuery, whose six bytes come with the rest or after it.
fn read_until_ready(socket: &mut UnixStream) {
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while !answer.ends_with(b"Z\0\0\0\x05I") {
        let length = socket.read(&mut chunk).expect("an answer");
        assert!(length > 0, "the server hung up");
        answer.extend(&chunk[..length]);
    }
}
