//! What is left in the database: random numbers, tables, retries, backends.

use std::process::Output;

use crate::common::{newest_server, servers};
use crate::stand::{Stand, shape};

#[test]
fn one_seed_gives_both_programs_the_same_transactions() {
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "seed");
    stand.execute("create table drawn (n serial, client int, script int, value text)");
    for script in 1..=3 {
        stand.script(
            &format!("{script}.sql"),
            &format!(
                "\\set a random(1, 1000000)\n\\set b random_zipfian(1, 1000, 1.2)\n\
                 \\set c random_gaussian(1, 100000, 3.0)\n\\set d hash(:a + :default_seed)\n\
                 insert into drawn (client, script, value) values (:client_id, {script}, \
                 format('%s %s %s %s', :a, :b, :c, :d));\n"
            ),
        );
    }
    // The order between clients is chance; within a client it is not.
    let sql = "select client, string_agg(script || ':' || value, ';' order by n)
               from drawn group by client order by client";
    let drawn = |output: Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rows = stand.lines(sql);
        stand.execute("truncate drawn restart identity");
        rows
    };
    // Scripts are chosen by a stream of the thread: with one client each, that is not a race.
    let several = ["-f", "1.sql@2", "-f", "2.sql@1", "-f", "3.sql@5", "-c", "2", "-j", "2"];
    let single = ["-f", "1.sql", "-c", "5", "-j", "2", "-D", "default_seed=11"];
    for arguments in [&several[..], &single[..]] {
        let arguments = [arguments, &["-n", "-t", "20", "--random-seed=5432"]].concat();
        let theirs = drawn(stand.theirs(&arguments));
        assert!(theirs.len() >= 2);
        assert_eq!(drawn(stand.ours(&arguments)), theirs);
    }
}

#[test]
fn initialization_leaves_the_tables_of_pgbench() {
    for server in servers() {
        let (theirs, ours) = (Stand::new(server.clone(), "a"), Stand::new(server, "b"));
        let cases: [&[&str]; 4] = [
            &["-i", "-s", "2"],
            &["-i", "-I", "dtGvpf", "-F", "80", "-q"],
            &["-i", "-I", "d t g", "--unlogged-tables"],
            &["-i", "--partitions=3", "--foreign-keys", "-n"],
        ];
        for arguments in cases {
            let (a, b) = (theirs.theirs(arguments), ours.ours(arguments));
            let steps = |output: &Output| {
                let all = shape(&output.stderr).into_iter();
                all.filter(|line| !line.contains("tuples")).collect::<Vec<_>>()
            };
            assert_eq!(steps(&b), steps(&a), "{arguments:?}");
            assert_eq!(b.status.code(), Some(0));
            for sql in [
                "select relname, relkind, relpersistence, reloptions, relhasindex from pg_class
                 where relname like 'pgbench%' order by 1",
                "select conname, pg_get_constraintdef(oid) from pg_constraint
                 where conrelid::regclass::text like 'pgbench%' order by 1, 2",
                "select md5(string_agg(t::text, ';' order by aid)) from pgbench_accounts t",
                "select md5(string_agg(t::text, ';' order by tid)) from pgbench_tellers t",
                "select md5(string_agg(t::text, ';' order by bid)) from pgbench_branches t",
            ] {
                assert_eq!(ours.lines(sql), theirs.lines(sql), "{arguments:?}: {sql}");
            }
        }
    }
}

#[test]
fn serialization_failures_are_retried_and_counted() {
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "retries");
    stand.execute("create table counter as select 0 as n");
    stand.script(
        "count.sql",
        "begin isolation level repeatable read;\nselect n from counter;\n\
         update counter set n = n + 1;\nend;\n",
    );
    let base = ["-n", "-f", "count.sql", "-c", "4", "-j", "2", "-t", "50", "-r"];
    let number = |text: &str, line: &str| -> u64 {
        let found = text.lines().find_map(|l| l.strip_prefix(line)).expect("the line is there");
        found.split(['/', ' ']).next().and_then(|n| n.parse().ok()).expect("a number")
    };
    let count = || stand.lines("select n from counter")[0].parse::<u64>().expect("a number");

    let output = stand.ours(&[&base[..], &["--max-tries=1000"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(number(&text, "number of transactions actually processed: "), 200);
    assert!(number(&text, "total number of retries: ") > 0);
    assert_eq!(count(), 200);

    let output = stand.ours(&[&base[..], &["--failures-detailed"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let processed = number(&text, "number of transactions actually processed: ");
    let failed = number(&text, "number of serialization failures: ");
    assert_eq!(processed + failed, 200);
    assert_eq!(count(), 200 + processed);
}

#[test]
fn each_transaction_has_a_connection_of_its_own_when_asked() {
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "connect");
    stand.execute("create table backend (pid int)");
    stand.script("pid.sql", "insert into backend values (pg_backend_pid());\n");
    let output = stand.ours(&["-n", "-f", "pid.sql", "-C", "-c", "3", "-t", "5"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(stand.lines("select count(distinct pid), count(*) from backend"), ["15 | 15"]);
}

#[test]
fn under_a_rate_a_connection_is_made_when_its_transaction_is_due() {
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "due");
    stand.execute("create table seen (client int, connected timestamptz)");
    stand.script(
        "seen.sql",
        "insert into seen select :client_id, backend_start from pg_stat_activity
         where pid = pg_backend_pid();\n",
    );
    // Eight clients wait for arrivals half a second apart: none of them is connected meanwhile.
    let rate = ["-n", "-f", "seen.sql", "-C", "-c", "8", "-t", "1", "-R", "2", "--random-seed=1"];
    let output = stand.ours(&[&rate[..], &["-l", "--log-prefix", "due"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("actually processed: 8/8"), "{said}");
    let sql = "select (extract(epoch from connected) * 1e6)::int8 from seen order by client";
    let connected: Vec<_> = stand.lines(sql).iter().map(|us| us.parse::<i64>().unwrap()).collect();
    let log = stand.logged("due").concat();
    for line in log.lines() {
        let fields: Vec<i64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
        // When it ended, less how long after its time that was.
        let due_us = fields[4] * 1_000_000 + fields[5] - fields[2];
        // Two clocks drift apart by less than 10 ms in these seconds.
        let since_us = connected[fields[0] as usize] - due_us;
        assert!(since_us > -10_000, "connected {since_us} us after it was due: {line}");
    }
    assert_eq!(log.lines().count(), 8, "{log}");
}
