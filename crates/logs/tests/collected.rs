//! Logs whose lines other programs put into lines of theirs.

mod common;

use common::{read_in_pieces, said};
use pgdyno_logs::{Beginning, Trouble};

/// A line of a program that collects the output of a server.
fn collected(form: &str, at: usize, text: &str) -> String {
    let time = format!("2026-11-24T18:39:{at:02}");
    match form {
        "Docker" => serde_json::json!({
            "log": format!("{text}\n"), "stream": "stderr", "time": format!("{time}.5Z"),
        })
        .to_string(),
        "Kubernetes" => format!("{time}.123456789Z stderr F {text}"),
        "with times" => format!("{time}.5+01:00 {text}"),
        _ => serde_json::json!({
            "labels": {"names": ["db", "]"]}, "textPayload": text, "timestamp": format!("{time}.5Z"),
        })
        .to_string(),
    }
}

#[test]
fn a_log_that_programs_for_containers_collected_has_its_statements() {
    let texts = [
        "[77] me@shop LOG:  statement: SELECT a",
        "\tFROM t",
        "[77] me@shop LOG:  duration: 1.500 ms",
        "[78] me@shop LOG:  duration: 0.500 ms  execute <unnamed>: SELECT $1::text",
        "[78] me@shop DETAIL:  parameters: $1 = 'x: y'",
    ];
    for form in ["Docker", "Kubernetes", "with times", "a cloud"] {
        let lines = (0..).zip(texts).map(|(at, text)| collected(form, at, text) + "\n");
        let (lines, counts) = read_in_pieces(lines.collect::<String>().as_bytes(), None, 50);
        assert_eq!(
            said(&lines),
            [
                "\"simple\" SELECT a FROM t | [] [] 1500",
                "\"extended\" SELECT $1::text | [\"x: y\"] [] 500"
            ],
            "{form}"
        );
        assert_eq!((counts.unreadable_lines, counts.messages), (0, 3), "{form}");
    }
    // A host of applications names the database where syslog has a host.
    let line = |text: &str| format!("2026-11-24T18:39:05+00:00 app[postgres.7]: [BLUE] {text}\n");
    let log = line("[15-1]  sql_error_code = 00000 LOG:  duration: 1.500 ms  execute P: SELECT $1")
        + &line("[15-2]  sql_error_code = 00000 DETAIL:  parameters: $1 = '5'");
    let (lines, counts) = read_in_pieces(log.as_bytes(), None, 50);
    assert_eq!(said(&lines), ["\"prepared\" SELECT $1 | [\"5\"] [] 1500"]);
    assert_eq!((lines[0]["id"].as_str(), counts.unreadable_lines), (Some("postgres.7"), 0));
}

#[test]
fn a_log_whose_newest_line_is_first_is_refused() {
    let text = "[77] me@shop LOG:  duration: 1.500 ms  statement: SELECT 1";
    let mut lines: Vec<String> = (0..9).map(|at| collected("a cloud", at, text) + "\n").collect();
    assert!(Beginning::of(lines.concat().as_bytes(), None).is_ok());
    lines.reverse();
    let refused = Beginning::of(lines.concat().as_bytes(), None).expect_err("reversed");
    assert_eq!(refused, Trouble::NewestFirst);
}

#[test]
fn records_that_another_program_wrote_again_are_read() {
    let record = serde_json::json!({
        "log_time": "2026-11-24 18:39:05.195 UTC", "user_name": "me", "database_name": "db",
        "process_id": "42", "session_id": "6b.2a", "session_line_num": "1",
        "error_severity": "LOG", "message": "duration: 2.000 ms  statement: SELECT 'x'",
        "application_name": "psql",
    });
    let operator = serde_json::json!({
        "level": "info", "ts": 1_669_575_482.09, "logger": "postgres", "record": record,
    });
    let csv = "\"2026-11-24 18:39:05.195 UTC\",\"me\",\"db\",\"42\",\"[local]\",\"6b.2a\",\"1\",\
\"SELECT\",\"2026-11-24 18:39:00 UTC\",\"4/7\",\"0\",\"LOG\",\"00000\",\
\"duration: 2.000 ms  statement: SELECT 'x'\",,,,,,,,,\"psql\",\"client backend\",,0\n";
    for log in [operator.to_string().as_str(), csv] {
        let (lines, counts) = read_in_pieces(log.as_bytes(), None, 1 << 20);
        assert_eq!(said(&lines), ["\"simple\" SELECT 'x' | [] [\"x\"] 2000"], "{log}");
        assert_eq!(
            (lines[0]["id"].as_str(), lines[0]["user"].as_str()),
            (Some("6b.2a"), Some("me"))
        );
        assert_eq!(counts.unreadable_lines, 0);
    }
}
