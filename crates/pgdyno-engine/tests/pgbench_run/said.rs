//! Reports, progress and errors, line by line.

use std::process::Output;

use crate::common::{newest_server, servers};
use crate::stand::{Stand, shape};

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
    stand.script("bad_name.sql", "\\set x- 5\nselect 1;\n");
    stand.script("bad_shell.sql", "\\setshell 1x echo 5\nselect 1;\n");
    let many = (0..17).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    stand.script("least.sql", &format!("\\if least({many}) > 1\nselect 1;\n\\endif\n"));
    stand.script("words.sql", &format!("\\shell true{}\n", " a".repeat(255)));
    let names: String = (0..256).map(|number| format!(", :v{number}")).collect();
    let sets: String = (0..256).map(|number| format!("\\set v{number} 1\n")).collect();
    stand.script("many_variables.sql", &format!("{sets}select 1{names};\n"));
    stand.script(
        "debug.sql",
        "\\set x debug(1 + 1)\n\\if :x = 1\nselect 5;\n\\elif :x = 3\n\\elif :x = 2\n\
         select :x;\n\\elif 1\n\\else\n\\endif\n\\if 0\n\\else\n\\sleep 1us\n\\endif\n\
         select 1 as a \\gset\n\\shell  true  \"a  b\"\nselect :a, 'x';\n",
    );
    stand.script(
        "debug_pipeline.sql",
        "\\startpipeline\nselect 1;\nselect 2;\n\\syncpipeline\nselect 3;\n\\endpipeline\n",
    );
    stand.script(
        "deadlock.sql",
        "begin;\ndo $$ begin raise exception using errcode = '40P01'; end $$;\nend;\n",
    );
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
            &["-n", "-f", "bad_name.sql", "-t", "1"],
            &["-n", "-f", "bad_shell.sql", "-t", "1"],
            &["-n", "-f", "least.sql", "-t", "1"],
            &["-n", "-f", "many_variables.sql", "-t", "1"],
            &["-n", "-f", "meta.sql", "-f", "debug_pipeline.sql@0", "-M", "prepared", "-t", "1"],
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
            &["-S", "-t", "3", "-s", "1"],
            &["-n", "-S", "-t", "3", "-L", "0.0009"],
            &["-n", "-v", "-S", "-t", "1"],
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
            both_say_the_same(&stand, arguments);
        }
    }
}

fn both_say_the_same(stand: &Stand, arguments: &[&str]) {
    let (theirs, ours) = (stand.theirs(arguments), stand.ours(arguments));
    let about = format!("{arguments:?} on {}", stand.server.major);
    assert_eq!(shape(&ours.stdout), shape(&theirs.stdout), "{about}");
    assert_eq!(shape(&ours.stderr), shape(&theirs.stderr), "{about}");
    assert_eq!(ours.status.code(), theirs.status.code(), "{about}");
}

#[test]
fn debug_tells_what_each_client_does() {
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "debug");
    write_scripts(&stand);
    for arguments in [
        &["-n", "-f", "debug.sql", "-t", "2", "--debug"] as &[&str],
        &["-n", "-f", "debug.sql", "-t", "2", "--debug", "-M", "extended"],
        &["-n", "-f", "debug.sql", "-t", "2", "--debug", "-M", "prepared"],
        &["-n", "-f", "error.sql", "-T", "1", "--debug"],
        &["-n", "-f", "debug_pipeline.sql", "-t", "2", "--debug", "-M", "extended"],
        &["-n", "-f", "debug_pipeline.sql", "-t", "2", "--debug", "-M", "prepared"],
        &["-n", "-f", "deadlock.sql", "-t", "1", "--debug", "--max-tries=2"],
        &["-n", "-f", "error.sql", "-t", "1", "--debug", "-C"],
    ] {
        both_say_the_same(&stand, arguments);
    }
}

#[test]
fn a_script_that_cannot_be_read_leaves_standard_output_empty() {
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "unread");
    write_scripts(&stand);
    for (arguments, words) in [
        (&["-f", "words.sql"] as &[&str], "too many arguments in command \"shell\""),
        (&["-f", "many_variables.sql", "-M", "extended"], "statement has too many arguments"),
        (&["-f", "many_variables.sql", "-M", "prepared", "-c", "2"], "statement has too many"),
    ] {
        for output in [stand.theirs(arguments), stand.ours(arguments)] {
            assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
            assert_eq!(output.status.code(), Some(1), "{arguments:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(words), "{arguments:?}: {said}");
        }
    }
}

/// No pgbench that can be installed has this option yet: its documented behaviour.
#[test]
fn with_continue_on_error_the_next_transaction_follows_a_failed_one() {
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "continues");
    stand.execute("create table once (n int primary key)");
    stand.script("once.sql", "\\set n random(1, 1)\ninsert into once values (:n);\n");
    let arguments = ["-n", "-f", "once.sql", "-t", "5", "--continue-on-error"];
    let output = stand.ours(&[&arguments[..], &["--failures-detailed", "-r", "-l"]].concat());
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{report}");
    for line in [
        "number of transactions actually processed: 1/5\n",
        "number of failed transactions: 4 (80.000%)\n",
        "number of serialization failures: 0 (0.000%)\n",
        "number of deadlock failures: 0 (0.000%)\n",
        "number of other failures: 4 (80.000%)\n",
        "           4 insert into once values (:n);\n",
    ] {
        assert!(report.contains(line), "{line}{report}");
    }
    let log = stand.logged("pgbench_log").concat();
    assert_eq!(log.matches(" other ").count(), 4, "{log}");
    // An error in a block is rolled back, one in a pipeline ends with it; words only when asked.
    stand.script("block.sql", "begin;\ninsert into once values (1);\nend;\n");
    stand.script("pipe.sql", "\\startpipeline\ninsert into once values (1);\n\\endpipeline\n");
    for (script, protocol) in [("block.sql", "simple"), ("pipe.sql", "prepared")] {
        let arguments = ["-n", "-f", script, "-M", protocol, "-t", "2", "--continue-on-error"];
        let output = stand.ours(&arguments);
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(report.contains("number of failed transactions: 2 (100.000%)"), "{report}");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{script}");
        let told = stand.ours(&[&arguments[..], &["--verbose-errors", "-t", "1"]].concat());
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(told.contains("got an error in command") && told.contains("duplicate key"));
        assert!(told.ends_with("client 0 ends the failed transaction (try 1/1)\n"), "{told}");
    }
    // A client is still aborted by anything but an error of the server.
    stand.script("rows.sql", "select 1 where false \\gset\n");
    let output = stand.ours(&["-n", "-f", "rows.sql", "-t", "2", "--continue-on-error"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_bytes_of_a_script_go_out_as_they_are_in_its_file() {
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "bytes");
    stand.execute("create table noted (n serial, what text, client int)");
    let mut script = b"\\set n 1\n-- f\xfcr\ninsert into noted (what, client) ".to_vec();
    script.extend(b"values ('Stra\xdfe \xe9' || ':' || :n, :client_id);\n");
    script.extend(b"\\setshell b printf 'gr\xfc\xdfe' | wc -c\ninsert into noted (what) ");
    script.extend(b"values (:b::text);\n");
    stand.script_of_bytes("latin1.sql", &script);
    for protocol in ["simple", "extended", "prepared"] {
        let arguments = ["-n", "-f", "latin1.sql", "-M", protocol, "client_encoding=LATIN1"];
        let noted = |output: Output| {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let rows = stand.lines("select what, client from noted order by n");
            stand.execute("truncate noted restart identity");
            rows
        };
        let theirs = noted(stand.theirs(&arguments));
        assert!(theirs[0].starts_with("Stra\u{df}e "), "{theirs:?}");
        assert_eq!(noted(stand.ours(&arguments)), theirs, "{protocol}");
    }
}

#[test]
fn missing_tables_are_said_with_a_next_step() {
    let Some(server) = newest_server() else { return };
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
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "progress");
    let arguments = ["-n", "-S", "-T", "2", "-P", "1", "-R", "100", "-L", "500", "--random-seed=7"];
    let (theirs, ours) = (stand.theirs(&arguments), stand.ours(&arguments));
    // How many lines there are at the very end is a race in both programs.
    let first_two = |output: &Output| shape(&output.stderr).into_iter().take(2).collect::<Vec<_>>();
    assert_eq!(first_two(&ours), first_two(&theirs));
    assert_eq!(shape(&ours.stdout), shape(&theirs.stdout));
}

/// Scripts in whose commands several queries are, before `\gset` and `\aset`.
const SEVERAL_QUERIES: &[&str] = &[
    "begin \\; select 1 as one \\; commit \\gset\nselect :one;\n",
    "select 1 as one \\; create temp table if not exists zz (x int) \\gset\nselect :one;\n",
    "select 1 as one \\; select 2 as two \\gset\nselect :two;\nselect :one;\n",
    "select 1 as one \\; select 2 as two where false \\gset\n",
    "select 1 as one \\; select generate_series(1, 2) as two \\gset\n",
    "select generate_series(1, 2) as one \\; select 2 as two \\gset p_\nselect :p_two;\n",
    "select generate_series(1, 2) as one \\; select 2 as two where false \\aset\nselect :one;\n",
    "begin \\; select 1 as one \\; commit \\aset p\nselect :pone;\n",
    "select 1 as one \\; \\gset\n",
    "select 1 as one \\; copy pgbench_branches to stdout \\gset\n",
    "copy pgbench_branches to stdout \\; select 1 as one \\gset\n",
    "select 1 as one \\; select 1/0 as two \\; select 3 \\gset\n",
    "select 1 as \"a b\" \\; select 2 as two \\aset\n",
    "select 1 as two \\; select 2 as \"a b\" \\gset\n",
    "select 1 as one \\; select 2 as \"a b\" \\; select 3 as three \\aset\n",
    "select 1 \\; select \\gset\nselect 1;\n",
    "explain (costs off) select 1 \\; explain select 2 from pgbench_branches \\gset\n",
];

#[test]
fn the_last_of_several_queries_decides_and_its_number_is_that_of_pgbench() {
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "several");
    for (number, script) in SEVERAL_QUERIES.iter().enumerate() {
        let name = format!("several{number}.sql");
        stand.script(&name, script);
        let arguments = ["-n", "-f", &name, "-t", "2"];
        let (theirs, ours) = (stand.theirs(&arguments), stand.ours(&arguments));
        let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said(&ours), said(&theirs), "{script}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{script}");
        assert_eq!(shape(&ours.stdout), shape(&theirs.stdout), "{script}");
    }
}
