//! Events of messages as servers of several versions write them, in all three formats.

use pgdyno_logs::{Beginning, Event, Prefix, Reader};

const STAMP: &str = "2026-09-21 14:13:20.123 UTC";
const T: i64 = 1_790_000_000_123_000_000;

/// What a log says, as `KIND SEVERITY SQLSTATE|WHAT|DURATION|SIZE TIME`.
fn said(log: &str, prefix: Option<&str>) -> Vec<(String, Option<i64>)> {
    let prefix = prefix.map(Prefix::new);
    let mut reader = match Beginning::of(log.as_bytes(), prefix.as_ref()) {
        Ok(beginning) => Reader::new(&beginning.format),
        Err(_) => Reader::new(&pgdyno_logs::Format::Stderr(prefix.expect("a prefix"))),
    };
    let mut events = Vec::new();
    let mut sink = |message: &pgdyno_logs::Message| {
        let Some(event) = Event::of(message) else { return };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let (name, state) = (message.severity.name(), text(&message.sqlstate));
        let (duration, size) = (number(event.duration_ns), number(event.size_bytes));
        let what = text(event.what);
        events.push((
            format!("{} {name} {state}|{what}|{duration}|{size}", event.kind),
            message.time_ns,
        ));
    };
    reader.feed(log.as_bytes(), &mut sink);
    reader.end_of_file(&mut sink);
    events
}

#[test]
fn events_are_kept_without_their_messages() {
    let cases = [
        ("checkpoint starting: time", "checkpoint_began LOG |time||"),
        (
            "checkpoint starting: immediate force wait",
            "checkpoint_began LOG |immediate force wait||",
        ),
        (
            "restartpoint complete: wrote 34 buffers (0.2%); write=3.305 s, sync=0.004 s, \
             total=3.345 s; sync files=9, longest=0.002 s, average=0.001 s; distance=267 kB",
            "checkpoint LOG ||3345000000|",
        ),
        (
            "temporary file: path \"base/pgsql_tmp/pgsql_tmp99.0\", size 14000000",
            "temporary_file LOG |||14000000",
        ),
        (
            "process 9 still waiting for ShareLock on transaction 745 after 1000.090 ms",
            "lock_wait LOG |ShareLock|1000090000|",
        ),
        (
            "process 9 acquired ShareLock on transaction 745 after 1.5 ms",
            "lock_acquired LOG |ShareLock|1500000|",
        ),
        (
            "automatic vacuum of table \"bank.public.pgbench_branches\": index scans: 0\n\
             \tpages: 0 removed, 3 remain, 3 scanned (100.00% of total)\n\
             \tsystem usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.25 s",
            "autovacuum LOG |bank.public.pgbench_branches|250000000|",
        ),
        (
            "automatic aggressive vacuum to prevent wraparound of table \"a.b.c\": index scans: 0\n\
             \tsystem usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 12.00 s",
            "autovacuum LOG |a.b.c|12000000000|",
        ),
        ("duration: 1234.500 ms  statement: SELECT 'secret'", "slow_statement LOG ||1234500000|"),
        ("server process (PID 7) was terminated by signal 9: Killed", "crash LOG |signal 9||"),
        ("client backend (PID 7) was terminated by signal 9: Killed", "crash LOG |signal 9||"),
        (
            "background worker \"parallel worker\" (PID 8) was terminated by signal 6: Aborted",
            "crash LOG |signal 6||",
        ),
        ("received fast shutdown request", "stopping LOG |fast||"),
        ("database system is ready to accept connections", "started LOG |||"),
    ];
    for (message, event) in cases {
        let log = format!("{STAMP} [42] LOG:  {message}\n");
        assert_eq!(said(&log, Some("%m [%p] ")), [(event.to_owned(), Some(T))], "{message}");
    }
}

#[test]
fn errors_are_counted_and_talk_is_not() {
    let of = |text: &str| said(&format!("{STAMP} [42] {text}\n"), Some("%m [%p] "));
    assert_eq!(of("ERROR:  deadlock detected")[0].0, "deadlock ERROR |||");
    assert_eq!(of("FEHLER:  Relation existiert nicht")[0].0, "error ERROR |||");
    assert_eq!(of("PANIC:  could not write")[0].0, "error PANIC |||");
    assert_eq!(of("LOG:  connection received: host=1.2.3.4"), []);
    assert_eq!(of("DETAIL:  whatever"), []);
}

#[test]
fn events_are_read_behind_any_prefix() {
    let cases = [
        ("%m [%p] ", format!("{STAMP} [7] "), ""),
        ("%t:%r:%u@%d:[%p]: ", "2026-09-21 14:13:20 UTC:10.0.0.1(5):me@db:[7]: ".to_owned(), ""),
        ("%n %e %q%a ", "1790000000.123 40P01 psql ".to_owned(), "40P01"),
        ("%q%-10p|%m|%%|", format!("7         |{STAMP}|%|"), ""),
        ("", String::new(), ""),
    ];
    for (prefix, line, state) in cases {
        let events = said(&format!("{line}ERROR:  deadlock detected\n"), Some(prefix));
        assert_eq!(events[0].0, format!("deadlock ERROR {state}|||"), "{prefix}");
        let second = events[0].1.map(|time_ns| time_ns / 1_000_000_000);
        assert!(prefix.is_empty() || second == Some(T / 1_000_000_000), "{prefix}");
    }
}

#[test]
fn csv_and_json_say_the_same() {
    let csv = format!("{STAMP}{}ERROR,40P01,deadlock detected,,\n", ",".repeat(11));
    let json = format!(
        "{{\"timestamp\":\"{STAMP}\",\"error_severity\":\"ERROR\",\"state_code\":\"40P01\",\
         \"message\":\"deadlock detected\"}}\n{{cut\n"
    );
    let expected = [("deadlock ERROR 40P01|||".to_owned(), Some(T))];
    assert_eq!(said(&csv, None), expected);
    assert_eq!(said(&json, None), expected);
}
