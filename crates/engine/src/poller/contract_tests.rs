//! What every poller must do; run against each implementation.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use super::{Address, Event, Kind, Poller, Waker};
use crate::clock::now_ns;
use crate::contract::job::Keepalive;

const SECOND_NS: u64 = 1_000_000_000;

/// A listening Unix socket, removed at the end.
struct Listening {
    listener: UnixListener,
    path: PathBuf,
}

impl Listening {
    fn new() -> Listening {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pgdp{}-{number}", std::process::id()));
        Listening { listener: UnixListener::bind(&path).expect("bind"), path }
    }

    /// Connect a token, and return the server's end.
    fn pair(&self, poller: &mut Poller, token: u32) -> UnixStream {
        let connected = poller.connect(token, &Address::Unix(self.path.clone())).expect("connect");
        if !connected {
            wait_for(poller, |event| event == Seen::Connected(token));
        }
        self.listener.accept().expect("accept").0
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// An event without its borrowed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Connected(u32),
    Received(u32, Vec<u8>),
    Closed(u32, bool),
}

fn events(poller: &mut Poller, until_ns: u64) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut last_ns = 0;
    let mut on_event = |event: Event<'_>| {
        seen.push(match event {
            Event::Connected(token) => Seen::Connected(token),
            Event::Received { token, bytes, at_ns } => {
                assert!((last_ns..=now_ns()).contains(&at_ns));
                last_ns = at_ns;
                Seen::Received(token, bytes.to_vec())
            }
            Event::Closed { token, error } => Seen::Closed(token, error.is_some()),
        });
    };
    poller.wait(until_ns, &mut on_event).expect("a wait");
    seen
}

/// What the next wait brings that brings something: a signal may end one before.
fn first_events(poller: &mut Poller) -> Vec<Seen> {
    let mut seen = Vec::new();
    while seen.is_empty() {
        seen = events(poller, now_ns() + 10 * SECOND_NS);
    }
    seen
}

/// Wait until an event is the one that is wanted; at most 60 s.
fn wait_for(poller: &mut Poller, is_wanted: impl Fn(Seen) -> bool) {
    let deadline_ns = now_ns() + 60 * SECOND_NS;
    while now_ns() < deadline_ns {
        if events(poller, deadline_ns).into_iter().any(&is_wanted) {
            return;
        }
    }
    panic!("the event did not come");
}

/// One of each kind that this host offers.
fn pollers() -> Vec<Poller> {
    pollers_with(&Waker::new().expect("an eventfd"))
}

fn pollers_with(waker: &Waker) -> Vec<Poller> {
    let offered = super::uring::probe().is_ok().then_some(Kind::Uring);
    [Kind::Epoll]
        .into_iter()
        .chain(offered)
        .map(|kind| Poller::new(kind, waker.clone()).expect("a poller"))
        .collect()
}

#[test]
fn bytes_go_both_ways_under_their_token() {
    for mut poller in pollers() {
        let listening = Listening::new();
        let mut servers: Vec<_> = (0..3).map(|token| listening.pair(&mut poller, token)).collect();
        for (token, server) in servers.iter_mut().enumerate() {
            poller.send(token as u32, &[token as u8; 3]);
            assert_eq!(events(&mut poller, 0), []);
            let mut received = [9; 3];
            server.read_exact(&mut received).expect("bytes");
            assert_eq!(received, [token as u8; 3]);
        }
        servers[1].write_all(b"one").expect("write");
        wait_for(&mut poller, |event| event == Seen::Received(1, b"one".to_vec()));
    }
}

#[test]
fn what_the_kernel_does_not_take_at_once_is_sent_later_and_in_order() {
    for mut poller in pollers() {
        let listening = Listening::new();
        let mut server = listening.pair(&mut poller, 0);
        let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
        poller.send(0, &sent[..2_000_000]);
        assert!(poller.is_sending(0));
        poller.send(0, &sent[2_000_000..]);
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; 3_000_000];
            server.read_exact(&mut received).expect("all bytes");
            server.write_all(b"thanks").expect("write");
            received
        });
        wait_for(&mut poller, |event| event == Seen::Received(0, b"thanks".to_vec()));
        assert!(reader.join().expect("the reader") == sent, "the bytes differ");
        assert!(!poller.is_sending(0));
    }
}

#[test]
fn last_words_are_received_before_the_end_is_told_and_the_token_is_free_then() {
    for mut poller in pollers() {
        let listening = Listening::new();
        let mut server = listening.pair(&mut poller, 5);
        server.write_all(b"goodbye").expect("write");
        drop(server);
        // The connection is broken for sending, and that must not lose what can be read.
        poller.send(5, b"are you there?");
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.extend(events(&mut poller, now_ns() + 10 * SECOND_NS));
        }
        assert_eq!(seen[0], Seen::Received(5, b"goodbye".to_vec()));
        assert!(matches!(seen[1], Seen::Closed(5, _)), "{seen:?}");
        let mut server = listening.pair(&mut poller, 5);
        server.write_all(b"again").expect("write");
        wait_for(&mut poller, |event| event == Seen::Received(5, b"again".to_vec()));
    }
}

#[test]
fn who_closes_after_last_words_does_not_hear_of_the_end_any_more() {
    for mut poller in pollers() {
        let listening = Listening::new();
        let mut server = listening.pair(&mut poller, 0);
        server.write_all(b"goodbye").expect("write");
        drop(server);
        assert_eq!(first_events(&mut poller), [Seen::Received(0, b"goodbye".to_vec())]);
        poller.close(0);
        assert_eq!(events(&mut poller, now_ns() + 20_000_000), []);
    }
}

#[test]
fn a_closed_token_is_silent() {
    for mut poller in pollers() {
        let listening = Listening::new();
        let mut server = listening.pair(&mut poller, 0);
        server.write_all(b"too late").expect("write");
        poller.close(0);
        assert_eq!(events(&mut poller, now_ns() + 20_000_000), []);
        // The end, or a reset because of the bytes that nobody read.
        assert!(!matches!(server.read(&mut [0; 1]), Ok(1..)));
    }
}

#[test]
fn a_refused_connection_is_an_error_now_or_a_closed_event_later() {
    for mut poller in pollers() {
        let missing = Address::Unix("/nonexistent/socket".into());
        assert!(poller.connect(0, &missing).is_err());
        // Nobody listens on the port, and nobody else can while the socket has it.
        let deaf = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&deaf, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("bind");
        let port = getsockname(&deaf).expect("bound").try_into().expect("an address");
        match poller.connect(0, &Address::Tcp(port, Keepalive::default())) {
            Err(_) => {}
            Ok(_) => wait_for(&mut poller, |event| event == Seen::Closed(0, true)),
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = Address::Tcp(listener.local_addr().expect("bound"), Keepalive::default());
        if !poller.connect(0, &address).expect("connect") {
            wait_for(&mut poller, |event| event == Seen::Connected(0));
        }
        let mut server = listener.accept().expect("accept").0;
        server.write_all(b"tcp").expect("write");
        wait_for(&mut poller, |event| event == Seen::Received(0, b"tcp".to_vec()));
    }
}

#[test]
fn a_full_backlog_is_said_at_once_and_takes_more_later() {
    for mut poller in pollers() {
        let listening = Listening::new();
        rustix::net::listen(&listening.listener, 1).expect("a shorter backlog");
        let address = Address::Unix(listening.path.clone());
        let full = (0..10).find(|&token| poller.connect(token, &address).is_err());
        let token = full.expect("a backlog of one takes few");
        let error = poller.connect(token, &address).expect_err("still full");
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        let _first = listening.listener.accept().expect("accept");
        assert!(poller.connect(token, &address).is_ok());
    }
}

#[test]
fn a_wait_ends_at_its_time_or_when_it_is_woken() {
    let waker = Waker::new().expect("an eventfd");
    for mut poller in pollers_with(&waker) {
        for wait_ns in [1_000_000, 300_000, 0, 2_000_000] {
            let until_ns = now_ns() + wait_ns;
            while now_ns() < until_ns {
                assert_eq!(events(&mut poller, until_ns), []);
            }
        }
        // An instant that has passed does not wait, nor does 0.
        events(&mut poller, 1);
        events(&mut poller, 0);
        waker.wake();
        waker.wake();
        let begun_ns = now_ns();
        events(&mut poller, begun_ns + 100 * SECOND_NS);
        assert!(now_ns() < begun_ns + 50 * SECOND_NS);
    }
}

#[test]
fn sends_of_one_turn_keep_their_order_whatever_their_number_and_size() {
    for mut poller in pollers() {
        let listening = Listening::new();
        let count = 300;
        let mut servers: Vec<_> =
            (0..count).map(|token| listening.pair(&mut poller, token)).collect();
        let large = vec![7; 100_000];
        for part in [&b"first "[..], b"second ", &large, b" last"] {
            (0..count).for_each(|token| {
                if part.len() < 100 || token < 2 {
                    poller.send(token, part);
                }
            });
        }
        assert_eq!(events(&mut poller, 0), []);
        for (token, server) in servers.iter_mut().enumerate() {
            let middle = if token < 2 { large.as_slice() } else { &[] };
            let expected = [b"first second ", middle, b" last"].concat();
            let mut received = vec![0; expected.len()];
            server.read_exact(&mut received).expect("bytes");
            assert!(received == expected, "token {token}");
        }
    }
}

#[test]
fn a_flood_from_many_servers_is_received_whole() {
    for mut poller in pollers() {
        let listening = Listening::new();
        let mut servers: Vec<_> = (0..20).map(|token| listening.pair(&mut poller, token)).collect();
        let expected: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
        servers.iter_mut().for_each(|server| server.write_all(&expected).expect("room"));
        let mut received = vec![Vec::new(); 20];
        while received.iter().any(|bytes| bytes.len() < expected.len()) {
            for event in events(&mut poller, now_ns() + 10 * SECOND_NS) {
                let Seen::Received(token, bytes) = event else { panic!("{event:?}") };
                received[token as usize].extend(bytes);
            }
        }
        assert!(received.iter().all(|bytes| *bytes == expected));
    }
}

#[test]
fn a_token_used_again_hears_nothing_of_its_former_connection() {
    for mut poller in pollers() {
        let listening = Listening::new();
        for round in 0..20_u8 {
            let mut server = listening.pair(&mut poller, 0);
            server.write_all(b"old").expect("write");
            if round % 2 == 0 {
                poller.send(0, b"a farewell");
            }
            poller.close(0);
            let mut server = listening.pair(&mut poller, 0);
            server.write_all(&[round]).expect("write");
            assert_eq!(first_events(&mut poller), [Seen::Received(0, vec![round])]);
            poller.close(0);
        }
    }
}

#[test]
fn what_was_sent_before_a_close_arrives() {
    for mut poller in pollers() {
        let listening = Listening::new();
        let mut server = listening.pair(&mut poller, 0);
        poller.send(0, b"farewell");
        poller.close(0);
        let mut received = Vec::new();
        server.read_to_end(&mut received).expect("bytes and the end");
        assert_eq!(received, b"farewell");
    }
}
