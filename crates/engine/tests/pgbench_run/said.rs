//! Reports, progress and errors, line by line.

use std::process::Output;

use crate::common::servers;
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
fn the_bytes_of_a_script_go_out_as_they_are_in_its_file() {
    let Some(server) = servers().pop() else { return };
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
