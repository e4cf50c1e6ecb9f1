//! Several hosts: the right one is found, and found again when it dies.

use std::os::unix::net::UnixListener;
use std::sync::Arc;

use crate::fake::job::{MS, Run, load_on, work};
use crate::fake::{Answer, Server};
use pgdyno_engine::contract::job::{
    Arrivals, ClosedLoop, HostPort, LoadWork, Measure, SessionAttrs, Target,
};
use pgdyno_engine::contract::record::{Ending, ErrorKind};

const TRANSFER: &str = "BEGIN;\nUPDATE t SET a = 1;\nEND;\n";

fn server(standby: &'static str) -> Server {
    let server = Server::start(|_| Answer::Done);
    server.tell("in_hot_standby", standby);
    server.tell("default_transaction_read_only", "off");
    server
}

fn brief() -> LoadWork {
    let mut work = work(TRANSFER);
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 3 });
    work.measure = Measure::TransactionsPerClient(5);
    work
}

fn wanting(servers: &[&Server], attrs: SessionAttrs) -> Run {
    load_on(servers, brief(), |target| target.reach.target_session_attrs = attrs, |_| {})
}

#[test]
fn the_first_server_of_the_wanted_kind_is_taken() {
    use SessionAttrs::*;
    for (attrs, expected) in
        [(Any, 0), (ReadWrite, 1), (ReadOnly, 0), (Primary, 1), (Standby, 0), (PreferStandby, 0)]
    {
        let servers = [server("on"), server("off")];
        let run = wanting(&[&servers[0], &servers[1]], attrs);
        assert_eq!(run.counts().completed, 15, "{attrs:?}");
        assert_eq!(servers[expected].seen().commits, 15, "{attrs:?}");
        assert_eq!(run.summary().connections.lost_count, 0);
    }
}

#[test]
fn any_server_will_do_where_a_standby_was_preferred_and_none_is_there() {
    let servers = [server("off"), server("off")];
    let run = wanting(&[&servers[0], &servers[1]], SessionAttrs::PreferStandby);
    assert_eq!((run.counts().completed, servers[0].seen().commits), (15, 15));
}

#[test]
fn where_no_server_is_of_the_wanted_kind_the_run_is_refused_in_libpqs_words() {
    let servers = [server("on"), server("on")];
    let run = wanting(&[&servers[0], &servers[1]], SessionAttrs::Primary);
    let error = run.error().expect("an error");
    assert_eq!((error.kind, run.ending), (ErrorKind::Connect, Ending::Aborted));
    assert!(error.message.contains("server is in hot standby mode"), "{}", error.message);
    assert!(error.hint.contains("target_session_attrs"), "{}", error.hint);
}

#[test]
fn a_server_that_does_not_say_what_it_is_is_asked() {
    let old = |read_only| {
        Server::start(move |statement| match statement.sql.as_str() {
            "SHOW transaction_read_only" => Answer::Value(read_only),
            _ => Answer::Done,
        })
    };
    let servers = [old("on"), old("off")];
    let run = wanting(&[&servers[0], &servers[1]], SessionAttrs::ReadWrite);
    assert_eq!((run.counts().completed, servers[1].seen().commits), (15, 15));
}

#[test]
fn a_balanced_load_begins_at_every_host() {
    let servers = [server("off"), server("off")];
    let mut work = brief();
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 40 });
    let hosts = [&servers[0], &servers[1]];
    let run = load_on(&hosts, work, |target| target.reach.load_balance = true, |_| {});
    assert_eq!(run.counts().completed, 200);
    // That all 40 begin at the same of two has a chance of 2 to the power of -39.
    assert!(servers.iter().all(|server| server.connection_count() > 0));
}

#[test]
fn a_host_that_takes_connections_and_says_nothing_is_left_after_its_time() {
    let folder = std::env::temp_dir().join(format!("pgdmute{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mute = UnixListener::bind(folder.join(".s.PGSQL.5432")).expect("bind");
    let server = server("off");
    let change = |target: &mut Target| {
        let host = folder.to_str().expect("text").to_owned();
        target.hosts.insert(0, HostPort::new(host, 5432));
        // As long as a host may stand still while the other server answers.
        target.reach.timeout_ns = Some(5_000 * MS);
    };
    let run = load_on(&[&server], brief(), change, |_| {});
    assert_eq!((run.counts().completed, run.ending), (15, Ending::Completed));
    drop(mute);
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// The primary dies at its 60th statement; the standby is promoted once somebody asked it in vain.
fn failover(active: Option<u32>) -> (Run, Server, Arc<Server>) {
    let primary = Server::start(|statement| match statement.number {
        60.. => Answer::Crash,
        _ => Answer::Done,
    });
    let standby = Arc::new(server("on"));
    primary.tell("in_hot_standby", "off");
    let rising = Arc::clone(&standby);
    let director = std::thread::spawn(move || {
        while rising.connection_count() == 0 {
            std::thread::yield_now();
        }
        rising.tell("in_hot_standby", "off");
    });
    let mut work = work(TRANSFER);
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 4 });
    work.measure = Measure::TransactionsPerClient(50);
    work.connect.active_connections = active;
    let change = |target: &mut Target| {
        target.reach.target_session_attrs = SessionAttrs::Primary;
    };
    let run = load_on(&[&primary, &standby], work, change, |_| {});
    director.join().expect("it was promoted");
    (run, primary, standby)
}

#[test]
fn the_load_goes_on_at_the_server_that_took_over() {
    for active in [None, Some(2)] {
        let (run, primary, standby) = failover(active);
        let summary = run.summary();
        assert_eq!(run.ending, Ending::Completed);
        assert!(standby.seen().commits > 0);
        let connections = active.map_or(4, u64::from);
        assert_eq!(summary.connections.lost_count, connections);
        // What one of two connections does alone needs no other.
        assert!((1..=connections).contains(&summary.connections.reconnect_count));
        let counts = run.counts();
        assert_eq!(counts.completed + counts.failed + counts.unfinished, 200);
        assert_eq!(counts.unfinished, counts.in_doubt);
        let committed = summary.transactions_committed_all_phases;
        let commits = primary.seen().commits + standby.seen().commits;
        assert!((committed..=committed + summary.commits_in_doubt).contains(&commits));
    }
}

#[test]
fn the_longest_time_without_a_commit_is_told_with_its_instants() {
    let server = Server::start(|statement| {
        if statement.number == 31 {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        Answer::Done
    });
    let mut work = brief();
    work.arrivals = Arrivals::Closed(ClosedLoop { clients: 1 });
    work.measure = Measure::TransactionsPerClient(20);
    let run = load_on(&[&server], work, |_| {}, |_| {});
    let gap = run.summary().longest_gap.expect("it is longer than an interval");
    assert!(gap.ended_ns - gap.began_ns >= 200 * MS);
    let measured = &run.summary().phases[3];
    assert!(measured.began_ns <= gap.began_ns && gap.ended_ns <= measured.ended_ns);
}
