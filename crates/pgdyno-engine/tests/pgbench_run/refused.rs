//! Connections that are not made, and those that end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::sync::Arc;

use pgdyno_engine::session::Session;

use crate::common::{Server, bin_dirs, lines, never, until};
use crate::stand::{Stand, shape};

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
        until(&|| "no client sleeps".into(), || !lines(&mut session, sleeping).is_empty());
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

/// Whose connection it was is chance.
fn said(output: &Output) -> Vec<String> {
    shape(&output.stderr)
}

/// Backends end after their clients: until then they have places that the next would find taken.
fn wait_until_alone(stand: &Stand) {
    let others = "select 1 from pg_stat_activity
                  where backend_type = 'client backend' and pid <> pg_backend_pid()";
    until(&|| "backends of other clients are left".into(), || {
        // As long as it waits it has one of the places, and the last one may be taken.
        let session = Session::connect(&stand.server.target("postgres"), &never());
        session.is_ok_and(|mut session| lines(&mut session, others).is_empty())
    });
}

#[test]
fn what_a_server_refuses_is_said_as_pgbench_says_it() {
    let Some(bin) = bin_dirs().pop() else { return };
    let limits = "max_connections=6\nsuperuser_reserved_connections=0\nmax_wal_senders=0\n\
                  reserved_connections=0\n";
    let server = Arc::new(Server::start(&bin, limits));
    let stand = Stand::new(server, "refused");
    stand.execute("create role pat login password 'right'");
    stand.script("sleep.sql", "select pg_sleep(60);\n");
    // Who has found a place keeps it until six others were refused: there are six places.
    let log = format!("{}/log", stand.server.socket_dir());
    let refusals = format!("regexp_count(pg_read_file('{log}'), 'too many clients')");
    stand.script(
        "hold.sql",
        &format!(
            "do $$ begin while {refusals} < :refused + 6 loop perform pg_sleep(0.01);\n\
             end loop; end $$;\n"
        ),
    );
    for arguments in [
        &["-n", "-S", "-c", "12", "-t", "1"] as &[&str],
        &["-n", "-S", "-U", "pat", "-t", "1"],
        &["-S", "-U", "pat", "-t", "1"],
        &["-n", "-f", "sleep.sql", "-d", "options='-c statement_timeout=50'"],
        &["-n", "-S", "-h", "no..such..host"],
    ] {
        wait_until_alone(&stand);
        let theirs = stand.theirs(arguments);
        wait_until_alone(&stand);
        let ours = stand.ours(arguments);
        assert_eq!(said(&ours), said(&theirs), "{arguments:?}");
        assert_eq!(shape(&ours.stdout), shape(&theirs.stdout), "{arguments:?}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{arguments:?}");
    }
    // With -C a client that finds no place is done, and the others go on; how many is chance.
    let hold = |program: fn(&Stand, &[&str]) -> Output| {
        wait_until_alone(&stand);
        let refused = format!("refused={}", stand.lines(&format!("select {refusals}"))[0]);
        program(&stand, &["-n", "-f", "hold.sql", "-C", "-c", "12", "-t", "1", "-D", &refused])
    };
    let (theirs, ours) = (hold(Stand::theirs), hold(Stand::ours));
    let kinds = |output: &Output| {
        let mut lines = said(output);
        lines.sort();
        lines.dedup();
        lines
    };
    assert_eq!(kinds(&ours), kinds(&theirs));
    assert_eq!((ours.status.code(), theirs.status.code()), (Some(2), Some(2)));
}

#[test]
fn a_wrong_password_is_said_with_the_file_that_it_is_from() {
    let Some(bin) = bin_dirs().pop() else { return };
    let server = Arc::new(Server::start(&bin, ""));
    let stand = Stand::new(server.clone(), "password");
    stand.execute("create role pat login password 'right'");
    let loaded = "select pg_conf_load_time()";
    let before = stand.lines(loaded);
    let rules = server.data().join("pg_hba.conf");
    fs::write(&rules, "local all pat scram-sha-256\nlocal all all trust\n").expect("rules");
    stand.execute("select pg_reload_conf()");
    until(&|| "the rules are not read".into(), || stand.lines(loaded) != before);
    let file = stand.file("passwords");
    fs::write(&file, "*:*:*:pat:wrong\n").expect("a password file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("for its owner");
    let by_file = format!("passfile={}", file.display());
    for conninfo in [by_file.as_str(), "password=wrong", "passfile=/dev/null password=right"] {
        let arguments = ["-n", "-U", "pat", "-f", "one.sql", "-t", "1", conninfo];
        stand.script("one.sql", "select 1;\n");
        let (theirs, ours) = (stand.theirs(&arguments), stand.ours(&arguments));
        assert_eq!(said(&ours), said(&theirs), "{conninfo}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{conninfo}");
    }
}
