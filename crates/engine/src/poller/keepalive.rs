//! TCP keepalive, with which a socket detects a dead peer.

use std::io;
use std::time::Duration;

use rustix::fd::AsFd;
use rustix::net::sockopt;

use crate::contract::job::Keepalive;

/// Set the options of a TCP socket as libpq does. A value of 0 keeps the system's default.
pub fn keep_alive(socket: impl AsFd, keepalive: &Keepalive) -> io::Result<()> {
    let given = |value: Option<u32>| value.filter(|&value| value > 0);
    let seconds = |value: Option<u32>| given(value).map(|value| Duration::from_secs(value.into()));
    if !keepalive.off {
        sockopt::set_socket_keepalive(&socket, true)?;
        if let Some(idle) = seconds(keepalive.idle_s) {
            sockopt::set_tcp_keepidle(&socket, idle)?;
        }
        if let Some(interval) = seconds(keepalive.interval_s) {
            sockopt::set_tcp_keepintvl(&socket, interval)?;
        }
        if let Some(count) = given(keepalive.count) {
            sockopt::set_tcp_keepcnt(&socket, count)?;
        }
    }
    if let Some(timeout_ms) = given(keepalive.user_timeout_ms) {
        sockopt::set_tcp_user_timeout(&socket, timeout_ms)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_socket_has_what_was_asked_for_and_else_what_the_system_has() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = || TcpStream::connect(listener.local_addr().expect("bound")).expect("heard");
        let (asked, untouched) = (socket(), socket());
        let keepalive = Keepalive {
            idle_s: Some(31),
            interval_s: Some(0),
            count: Some(4),
            user_timeout_ms: Some(5_000),
            ..Keepalive::default()
        };
        keep_alive(&asked, &keepalive).expect("set");
        assert!(sockopt::socket_keepalive(&asked).expect("read"));
        assert_eq!(sockopt::tcp_keepidle(&asked).expect("read"), Duration::from_secs(31));
        assert_eq!(
            sockopt::tcp_keepintvl(&asked).expect("read"),
            sockopt::tcp_keepintvl(&untouched).expect("read")
        );
        assert_eq!(sockopt::tcp_keepcnt(&asked).expect("read"), 4);
        assert_eq!(sockopt::tcp_user_timeout(&asked).expect("read"), 5_000);
        keep_alive(&untouched, &Keepalive { off: true, ..keepalive }).expect("set");
        assert!(!sockopt::socket_keepalive(&untouched).expect("read"));
    }
}
