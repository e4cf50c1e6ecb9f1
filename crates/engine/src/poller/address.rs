//! Where a server listens.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

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

/// Addresses of `host`, in the order of the resolver. A name that begins with `/` is a directory.
pub fn resolve(host: &HostPort, keepalive: Keepalive) -> io::Result<Vec<Address>> {
    let name = host.hostaddr.as_ref().unwrap_or(&host.host);
    if name.starts_with('/') {
        let socket = format!(".s.PGSQL.{}", host.port);
        return Ok(vec![Address::Unix(PathBuf::from(name).join(socket))]);
    }
    let addresses = (name.as_str(), host.port).to_socket_addrs()?;
    Ok(addresses.map(|address| Address::Tcp(address, keepalive)).collect())
}

impl Address {
    /// A non-blocking socket whose connecting has begun; true when it is done already.
    ///
    /// Errors: `WouldBlock` when the backlog of a Unix socket is full.
    pub(super) fn begin(&self) -> io::Result<(rustix::fd::OwnedFd, bool)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = |family| socket_with(family, SocketType::STREAM, flags, None);
        match self {
            Address::Unix(path) => {
                let socket = open(AddressFamily::UNIX)?;
                connect(&socket, &SocketAddrUnix::new(path.as_path())?)?;
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
        let host = HostPort { host: "/run/postgresql".into(), hostaddr: None, port: 5433 };
        let expected = Address::Unix("/run/postgresql/.s.PGSQL.5433".into());
        assert_eq!(resolve(&host, Keepalive::default()).expect("no lookup"), vec![expected]);
    }

    #[test]
    fn a_number_needs_no_lookup_and_is_taken_before_the_name() {
        let expected = Address::Tcp("127.0.0.1:5432".parse().expect("valid"), Keepalive::default());
        for (name, number) in [("127.0.0.1", None), ("no.such.name", Some("127.0.0.1"))] {
            let hostaddr = number.map(Into::into);
            let host = HostPort { host: name.into(), hostaddr, port: 5432 };
            assert_eq!(
                resolve(&host, Keepalive::default()).expect("a number"),
                vec![expected.clone()]
            );
        }
    }
}
