//! Logs of transactions, and what they say of rates.

use crate::common::newest_server;
use crate::stand::{Stand, shape_of_line};

#[test]
fn the_log_has_a_line_for_each_transaction_in_the_form_of_pgbench() {
    let Some(server) = newest_server() else { return };
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
    let Some(server) = newest_server() else { return };
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
    let Some(server) = newest_server() else { return };
    let stand = Stand::new(server, "intervals");
    // While the last transaction of each client lasts, the interval of all others comes to its end.
    stand.script(
        "slow_end.sql",
        "\\set n :n + 1\n\\if :n < 150\nselect 1;\n\\else\nselect pg_sleep(1.1);\n\\endif\n",
    );
    let arguments = [
        "-n",
        "-f",
        "slow_end.sql",
        "-D",
        "n=0",
        "-t",
        "150",
        "-c",
        "2",
        "-R",
        "100",
        "-L",
        "60000",
        "-l",
        "--aggregate-interval=1",
        "--max-tries=2",
        "--failures-detailed",
        "--random-seed=1",
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
        assert!((298..=300).contains(&total), "{prefix}: all but the last: {text}");
    }
}
