//! Where a server listens, and a socket to it whose waits end after a slice of time.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::contract::job::HostPort;

/// Longest single wait for reading or writing.
const SLICE: Duration = Duration::from_millis(100);

/// An address that a socket can be opened to.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Place {
    /// Every address of `host`; a name beginning with `/` is a socket directory.
    pub(super) fn of(host: &HostPort) -> io::Result<Vec<Place>> {
        let name = host.hostaddr.as_ref().unwrap_or(&host.host);
        if name.starts_with('/') {
            let socket = format!(".s.PGSQL.{}", host.port);
            return Ok(vec![Place::Unix(PathBuf::from(name).join(socket))]);
        }
        let addresses: Vec<_> = (name.as_str(), host.port).to_socket_addrs()?.collect();
        if addresses.is_empty() {
            return Err(io::Error::new(ErrorKind::NotFound, "the name has no address"));
        }
        Ok(addresses.into_iter().map(Place::Tcp).collect())
    }

    pub(super) fn open(&self, timeout: Duration) -> io::Result<Socket> {
        let socket = match self {
            Place::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
            Place::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, timeout)?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
        };
        match &socket {
            Socket::Unix(s) => {
                s.set_read_timeout(Some(SLICE)).and(s.set_write_timeout(Some(SLICE)))
            }
            Socket::Tcp(s) => s.set_read_timeout(Some(SLICE)).and(s.set_write_timeout(Some(SLICE))),
        }?;
        Ok(socket)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Unix(path) => path.display().fmt(f),
            Place::Tcp(address) => address.fmt(f),
        }
    }
}

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

    pub(super) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => stream.set_nonblocking(on),
            Socket::Tcp(stream) => stream.set_nonblocking(on),
        }
    }
}

/// True when nothing is wrong and nothing came either.
pub(super) fn is_slice_over(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
