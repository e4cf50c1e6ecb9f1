//! A socket to a server, whose waits end after a slice of time. Between two slices the session
//! looks for a stop and for its own deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use crate::poller::{Address, abstract_name, keep_alive};

/// Longest single wait for reading or writing.
const SLICE: Duration = Duration::from_millis(100);

/// Connect to `address` within `timeout`; only TCP needs it, a local server accepts at once.
pub(super) fn open(address: &Address, timeout: Duration) -> io::Result<Socket> {
    let socket = match address {
        Address::Unix(path) => {
            let place = match abstract_name(path) {
                Some(name) => SocketAddr::from_abstract_name(name)?,
                None => SocketAddr::from_pathname(path)?,
            };
            Socket::Unix(UnixStream::connect_addr(&place)?)
        }
        Address::Tcp(address, keepalive) => {
            let stream = TcpStream::connect_timeout(address, timeout)?;
            stream.set_nodelay(true)?;
            keep_alive(&stream, keepalive)?;
            Socket::Tcp(stream)
        }
    };
    match &socket {
        Socket::Unix(s) => s.set_read_timeout(Some(SLICE)).and(s.set_write_timeout(Some(SLICE))),
        Socket::Tcp(s) => s.set_read_timeout(Some(SLICE)).and(s.set_write_timeout(Some(SLICE))),
    }?;
    Ok(socket)
}

/// A connected socket. Reading and writing end with an error after `SLICE`, see `is_slice_over`.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.read(buffer),
            Socket::Tcp(stream) => stream.read(buffer),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tcp(stream) => stream.write(bytes),
        }
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => stream.write_all(bytes),
            Socket::Tcp(stream) => stream.write_all(bytes),
        }
    }

    pub(super) fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => stream.set_nonblocking(is_nonblocking),
            Socket::Tcp(stream) => stream.set_nonblocking(is_nonblocking),
        }
    }
}

/// True if the slice of time ended without bytes, which the caller tries again.
pub(super) fn is_slice_over(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
