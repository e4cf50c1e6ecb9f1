//! The addresses of a server: looks a host up, and opens a socket to one of its addresses.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};

use super::keepalive::keep_alive;
use crate::contract::job::{HostPort, Keepalive};

/// One address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr, Keepalive),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "socket {}", path.display()),
            Address::Tcp(address, _) => write!(f, "{address}"),
        }
    }
}

/// Return the addresses of `host`, in the order of the resolver. A host that begins with `/` is the
/// directory of a Unix socket; a host that begins with `@` is the name of an abstract socket.
pub fn resolve(host: &HostPort, keepalive: Keepalive) -> io::Result<Vec<Address>> {
    let name = host.hostaddr.as_ref().unwrap_or(&host.host);
    if host.is_socket() {
        let socket = format!(".s.PGSQL.{}", host.port);
        return Ok(vec![Address::Unix(PathBuf::from(name).join(socket))]);
    }
    let addresses = (name.as_str(), host.port).to_socket_addrs()?;
    Ok(addresses.map(|address| Address::Tcp(address, keepalive)).collect())
}

/// Return the name of an abstract socket: the path without its `@`, as in libpq. None for a file.
pub fn abstract_name(path: &Path) -> Option<&[u8]> {
    path.as_os_str().as_bytes().strip_prefix(b"@")
}

impl Address {
    /// Open a non-blocking socket, and begin to connect.
    ///
    /// Returns: the socket, and true if it is connected already.
    ///
    /// Errors: `WouldBlock` if the backlog of a Unix socket is full.
    pub(super) fn begin(&self) -> io::Result<(rustix::fd::OwnedFd, bool)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = |family| socket_with(family, SocketType::STREAM, flags, None);
        match self {
            Address::Unix(path) => {
                let socket = open(AddressFamily::UNIX)?;
                let place = match abstract_name(path) {
                    Some(name) => SocketAddrUnix::new_abstract_name(name)?,
                    None => SocketAddrUnix::new(path.as_path())?,
                };
                connect(&socket, &place)?;
                Ok((socket, true))
            }
            Address::Tcp(address, keepalive) => {
                let family =
                    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = open(family)?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                keep_alive(&socket, keepalive)?;
                match connect(&socket, address) {
                    Ok(()) => Ok((socket, true)),
                    Err(rustix::io::Errno::INPROGRESS) => Ok((socket, false)),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_becomes_the_socket_in_it() {
        let host = HostPort::new("/run/postgresql", 5433);
        let expected = Address::Unix("/run/postgresql/.s.PGSQL.5433".into());
        assert_eq!(resolve(&host, Keepalive::default()).expect("no lookup"), vec![expected]);
    }

    #[test]
    fn an_abstract_socket_is_the_name_behind_its_sign() {
        let host = HostPort::new("@pg/main", 5433);
        let found = resolve(&host, Keepalive::default()).expect("no lookup");
        let [Address::Unix(path)] = found.as_slice() else { panic!("one socket: {found:?}") };
        assert_eq!(abstract_name(path), Some(&b"pg/main/.s.PGSQL.5433"[..]));
        assert_eq!(found[0].to_string(), "socket @pg/main/.s.PGSQL.5433");
        assert_eq!(abstract_name(Path::new("/tmp/@x")), None);
    }

    #[test]
    fn a_number_needs_no_lookup_and_is_taken_before_the_name() {
        let expected = Address::Tcp("127.0.0.1:5432".parse().expect("valid"), Keepalive::default());
        for (name, number) in [("127.0.0.1", None), ("no.such.name", Some("127.0.0.1"))] {
            let hostaddr = number.map(Into::into);
            let host = HostPort { hostaddr, ..HostPort::new(name, 5432) };
            assert_eq!(
                resolve(&host, Keepalive::default()).expect("a number"),
                vec![expected.clone()]
            );
        }
    }
}
