//! The drop-in against the real pgbench, on the same servers: the same lines, the same random
//! numbers, the same tables.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use common::{Server, bin_dirs, lines, servers};

/// A database with the pgbench tables, scripts to run, and both programs.
struct Stand {
    server: Arc<Server>,
    database: String,
    folder: PathBuf,
}

impl Stand {
    fn new(server: Arc<Server>, stem: &str) -> Stand {
        let database = server.create_database(stem);
        let folder = std::env::temp_dir().join(format!("pgdyno-{database}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for scripts");
        let stand = Stand { server, database, folder };
        let made = stand.ours(&["-i", "-q", "-s", "1"]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        stand
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("a script");
    }

    fn ours(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgdyno-engine"));
        self.run(command.arg("pgbench"), arguments)
    }

    /// The newest pgbench there is.
    fn theirs(&self, arguments: &[&str]) -> Output {
        let bin = bin_dirs().pop().expect("servers were found");
        self.run(&mut Command::new(bin.join("pgbench")), arguments)
    }

    fn run(&self, command: &mut Command, arguments: &[&str]) -> Output {
        command.env("PGHOST", self.server.socket_dir()).env("PGPORT", "5432");
        command.env("PGUSER", "postgres").env("PGDATABASE", &self.database).env("LC_ALL", "C");
        command.args(arguments).current_dir(&self.folder).output().expect("it runs")
    }

    /// The logs whose names begin with `prefix`.
    fn logged(&self, prefix: &str) -> Vec<String> {
        let files = fs::read_dir(&self.folder).expect("the folder").flatten();
        let files = files.filter(|f| f.file_name().to_string_lossy().starts_with(prefix));
        files.map(|file| fs::read_to_string(file.path()).expect("a log")).collect()
    }

    fn lines(&self, sql: &str) -> Vec<String> {
        lines(&mut self.server.session(&self.database), sql)
    }

    fn execute(&self, sql: &str) {
        self.server.session(&self.database).query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Numbers replaced by `N`, the first line left out: it names the program.
fn shape(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| !line.starts_with("pgbench ("));
    let mut shapes: Vec<String> = lines.map(|line| shape_of_line(line).trim_end().into()).collect();
    // Clients fail in any order.
    if shapes.iter().any(|line| line.contains("aborted in command")) {
        shapes.sort();
    }
    shapes
}

fn shape_of_line(line: &str) -> String {
    let mut out = String::new();
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        if c.is_ascii_digit() {
            while characters.next_if(|c| c.is_ascii_digit() || *c == '.').is_some() {}
            out.push('N');
        } else if c == ' ' {
            while characters.next_if_eq(&' ').is_some() {}
            out.push(' ');
        } else {
            out.push(c);
        }
    }
    out
}

/// Scripts that are right, and scripts that are wrong in every way.
fn write_scripts(stand: &Stand) {
    stand.script("set.sql", "\\set x random(1, 5)\nselect :x;\n\\sleep 1 us\n");
    stand.script("error.sql", "begin;\nselect 1/0;\nend;\n");
    stand.script("undefined.sql", "\\set x :nope + 1\n");
    stand.script("open.sql", "begin;\nselect 1;\n");
    stand.script("rows.sql", "select 1 where false \\gset\n");
    stand.script("name.sql", "select 1 \\gset p_\nselect :p_nope;\n");
    stand.script("missing.sql", "select * from\n  nowhere;\n");
    stand.script("noise.sql", "do $$ begin raise notice 'hi'; raise warning 'w'; end $$;\n");
    stand.script("context.sql", "do $$ begin perform 1/0; end $$;\n");
    stand.script("copy.sql", "copy pgbench_branches to stdout;\n");
    stand.script("copy_in.sql", "copy pgbench_history from stdin;\n");
    stand.script("ended.sql", "select pg_terminate_backend(pg_backend_pid());\n");
    stand.script("shell.sql", "\\shell echo hello\n\\setshell n echo 5\nselect :n;\n");
    stand.script("shell_fails.sql", "\\shell false\n");
    stand.script("silent.sql", "\\setshell x true\n");
    stand.script("twice.sql", "\\startpipeline\n\\startpipeline\n");
    stand.script("no_pipeline.sql", "\\endpipeline\n");
    stand.script("gset.sql", "\\startpipeline\nselect 1 as a \\gset\n\\endpipeline\n");
    stand.script("two_rows.sql", "select generate_series(1, 2) as x \\gset\n");
    let long = ["1, "; 60].concat();
    stand.script("long.sql", &format!("select {long}nope, {long}1;\n"));
    stand.script(
        "meta.sql",
        "\\set x random(1, 5)\n\\if :x < 3\n\\sleep 1 ms\n\\else\n\\set y 1\n\\endif\n\
         \\startpipeline\nselect 1;\nselect :x;\n\\endpipeline\n",
    );
}

#[test]
fn every_line_of_the_report_is_one_of_pgbench() {
    let newest = servers().iter().map(|server| server.major).max();
    for server in servers() {
        let stand = Stand::new(server, "lines");
        write_scripts(&stand);
        let of_scripts: &[&[&str]] = &[
            &["-n", "-f", "noise.sql", "-t", "2"],
            &["-n", "-f", "context.sql"],
            &["-n", "-f", "copy.sql"],
            &["-n", "-f", "copy_in.sql"],
            &["-n", "-f", "ended.sql", "-t", "2"],
            &["-n", "-f", "ended.sql", "-C"],
            &["-n", "-f", "shell.sql", "-t", "2", "-r"],
            &["-n", "-f", "shell_fails.sql"],
            &["-n", "-f", "silent.sql"],
            &["-n", "-f", "twice.sql"],
            &["-n", "-f", "twice.sql", "-M", "extended"],
            &["-n", "-f", "no_pipeline.sql", "-M", "prepared"],
            &["-n", "-f", "gset.sql", "-M", "prepared"],
            &["-n", "-f", "two_rows.sql"],
            &["-n", "-f", "long.sql"],
            &["-n", "-f", "meta.sql", "-M", "prepared", "-r", "-t", "5"],
            &["-n", "-S", "-t", "2", "-h", "127.0.0.1", "-p", "1"],
            &["-n", "-S", "-t", "2", "-p", "99999"],
            &["-n", "-S", "-t", "2", "service=no_such_service"],
        ];
        let cases: &[&[&str]] = &[
            &["-S", "-t", "3"],
            &["-t", "2", "-c", "3", "-j", "2", "-v"],
            &["-N", "-n", "-t", "3", "-r", "-M", "prepared"],
            &["-S", "-t", "3", "-L", "1000", "-r", "-M", "extended"],
            &["-S", "-t", "3", "-s", "7"],
            &["-f", "set.sql", "-s", "3", "-t", "2"],
            &["-f", "set.sql@3", "-b", "select-only@1", "-r", "-t", "30", "--max-tries=2"],
            &["-n", "-S", "-C", "-t", "3", "--failures-detailed", "--max-tries", "2"],
            &["-n", "-S", "-R", "2000", "-L", "900", "-t", "20"],
            &["-n", "-S", "-T", "1", "-c", "2", "--max-tries=0", "--failures-detailed"],
            &["-n", "-f", "error.sql", "-c", "2"],
            &["-n", "-f", "error.sql", "--exit-on-abort", "-T", "5"],
            &["-n", "-f", "undefined.sql"],
            &["-n", "-f", "open.sql"],
            &["-n", "-f", "rows.sql"],
            &["-n", "-f", "name.sql"],
            &["-n", "-f", "missing.sql"],
            &["-S", "-d", "no_such_database"],
            &["-S", "-U", "no_such_user"],
        ];
        // What is wrong with a script does not depend on the server.
        let others = if Some(stand.server.major) == newest { of_scripts } else { &[] };
        for arguments in cases.iter().chain(others) {
            let (theirs, ours) = (stand.theirs(arguments), stand.ours(arguments));
            let about = format!("{arguments:?} on {}", stand.server.major);
            assert_eq!(shape(&ours.stdout), shape(&theirs.stdout), "{about}");
            assert_eq!(shape(&ours.stderr), shape(&theirs.stderr), "{about}");
            assert_eq!(ours.status.code(), theirs.status.code(), "{about}");
        }
    }
}

#[test]
fn missing_tables_are_said_with_a_next_step() {
    let Some(server) = servers().pop() else { return };
    let stand = Stand::new(server, "empty");
    stand.execute("drop table pgbench_branches, pgbench_history");
    for arguments in [&["-t", "1"] as &[&str], &["-i", "-I", "v"]] {
        let (theirs, ours) = (stand.theirs(arguments), stand.ours(arguments));
        assert_eq!(shape(&ours.stderr), shape(&theirs.stderr), "{arguments:?}");
        assert_eq!(ours.status.code(), theirs.status.code());
    }
}

#[test]
fn progress_and_seed_are_told_as_pgbench_tells_them() {
    let Some(server) = servers().pop() else { return };
    let stand = Stand::new(server, "progress");
    let arguments = ["-n", "-S", "-T", "2", "-P", "1", "-R", "100", "-L", "500", "--random-seed=7"];
    let (theirs, ours) = (stand.theirs(&arguments), stand.ours(&arguments));
    // How many lines there are at the very end is a race in both programs.
    let first_two = |output: &Output| shape(&output.stderr).into_iter().take(2).collect::<Vec<_>>();
    assert_eq!(first_two(&ours), first_two(&theirs));
    assert_eq!(shape(&ours.stdout), shape(&theirs.stdout));
}

#[test]
fn one_seed_gives_both_programs_the_same_transactions() {
    let Some(server) = servers().pop() else { return };
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
    // Scripts are chosen by a stream of the thread: with one client each, that is no race.
    let several = ["-f", "1.sql@2", "-f", "2.sql@1", "-f", "3.sql@5", "-c", "2", "-j", "2"];
    let one = ["-f", "1.sql", "-c", "5", "-j", "2", "-D", "default_seed=11"];
    for arguments in [&several[..], &one[..]] {
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
    let Some(server) = servers().pop() else { return };
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
    let Some(server) = servers().pop() else { return };
    let stand = Stand::new(server, "connect");
    stand.execute("create table backend (pid int)");
    stand.script("pid.sql", "insert into backend values (pg_backend_pid());\n");
    let output = stand.ours(&["-n", "-f", "pid.sql", "-C", "-c", "3", "-t", "5"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(stand.lines("select count(distinct pid), count(*) from backend"), ["15 | 15"]);
}

#[test]
fn the_log_has_a_line_for_each_transaction_in_the_form_of_pgbench() {
    let Some(server) = servers().pop() else { return };
    let stand = Stand::new(server, "log");
    let arguments = [
        "-n",
        "-S",
        "-c",
        "3",
        "-j",
        "2",
        "-t",
        "40",
        "-R",
        "5000",
        "--max-tries=2",
        "-l",
        "--log-prefix",
    ];
    let logged = |prefix: &str| {
        let texts = stand.logged(prefix);
        assert_eq!(texts.len(), 2, "one file a thread");
        texts.concat().lines().map(shape_of_line).collect::<Vec<_>>()
    };
    stand.theirs(&[&arguments[..], &["theirs"]].concat());
    stand.ours(&[&arguments[..], &["ours"]].concat());
    let (theirs, ours) = (logged("theirs"), logged("ours"));
    assert_eq!(ours.len(), 120);
    assert_eq!(ours, theirs);
}

#[test]
fn each_client_has_its_own_number_of_transactions_under_a_rate_too() {
    let Some(server) = servers().pop() else { return };
    let stand = Stand::new(server, "rate");
    stand.script("slow.sql", "select pg_sleep(0.02) where :client_id = 0;\n");
    let arguments = ["-n", "-f", "slow.sql", "-c", "3", "-t", "30", "-R", "2000", "-L", "8"];
    let output = stand.ours(&[&arguments[..], &["-l", "--log-prefix", "rate"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut by_client = [0; 3];
    let mut skipped = 0;
    for line in stand.logged("rate")[0].lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        assert_eq!(fields.len(), 7, "{line}");
        by_client[fields[0].parse::<usize>().expect("a client")] += 1;
        skipped += usize::from(fields[2] == "skipped");
        let number: usize = fields[1].parse().expect("a number");
        assert_eq!(number, by_client[fields[0].parse::<usize>().expect("a client")]);
    }
    assert_eq!(by_client, [30; 3], "transactions and skipped arrivals of each client");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!("number of transactions skipped: {skipped} ")), "{text}");
    assert!(text.contains(&format!("actually processed: {}/90", 90 - skipped)), "{text}");
    assert!(skipped > 0, "the slow client is late");
}

#[test]
fn the_intervals_of_the_log_are_whole_seconds_that_add_up() {
    let Some(server) = servers().pop() else { return };
    let stand = Stand::new(server, "intervals");
    let arguments = [
        "-n",
        "-S",
        "-T",
        "4",
        "-c",
        "2",
        "-R",
        "200",
        "-L",
        "1000",
        "-l",
        "--aggregate-interval=1",
        "--max-tries=2",
        "--failures-detailed",
    ];
    stand.ours(&[&arguments[..], &["--log-prefix", "ours"]].concat());
    stand.theirs(&[&arguments[..], &["--log-prefix", "theirs"]].concat());
    for prefix in ["ours", "theirs"] {
        let text = stand.logged(prefix).concat();
        let rows: Vec<Vec<u64>> = text
            .lines()
            .map(|line| line.split(' ').map(|field| field.parse().expect("a number")).collect())
            .collect();
        assert!(rows.len() >= 3, "{prefix}: {text}");
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(row.len(), 15, "{prefix}: {text}");
            assert_eq!(row[0], rows[0][0] + index as u64, "{prefix}: whole seconds: {text}");
            let (count, sum, least, most) = (row[1], row[2], row[4], row[5]);
            assert!(least * count <= sum + count && sum <= most * count + count, "{text}");
            assert!(row[6] <= sum + count, "{prefix}: the lag is part of the latency: {text}");
        }
        let total: u64 = rows.iter().map(|row| row[1] + row[10]).sum();
        assert!((300..=900).contains(&total), "{prefix}: 200 a second were due: {text}");
    }
}

#[test]
fn a_server_that_dies_aborts_its_clients() {
    let Some(bin) = bin_dirs().pop() else { return };
    let server = Arc::new(Server::start(&bin, ""));
    let stand = Stand::new(server.clone(), "dies");
    stand.script(
        "die.sql",
        "\\if :client_id = 0\nselect pg_sleep(0.2);\n\\else\nselect 1;\n\\endif\n",
    );
    let killer = std::thread::spawn(move || {
        let mut session = server.session("postgres");
        let sleeping = "select 1 from pg_stat_activity
                        where query like '%pg_sleep%' and pid <> pg_backend_pid()";
        while lines(&mut session, sleeping).is_empty() {}
        server.kill();
    });
    let output = stand.ours(&["-n", "-f", "die.sql", "-c", "2", "-T", "30"]);
    killer.join().expect("the server was stopped");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.matches("aborted in command").count(), 2, "{said}");
    assert!(said.contains("server closed the connection unexpectedly"), "{said}");
    assert!(said.ends_with("the above results are incomplete.\n"), "{said}");
}
