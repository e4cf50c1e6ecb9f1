//! The reader on logs as servers write them: three formats, languages, and damage.

mod common;

use common::{parts, read_in_pieces, said};
use pgdyno_logs::{Beginning, Counts, Lines, Prefix, Reader, Trouble};
use proptest::prelude::*;
use serde_json::Value;

fn read(log: &str) -> (Vec<Value>, Counts) {
    read_in_pieces(log.as_bytes(), None, 1 << 20)
}

/// The statements, each as `KIND SHAPE PARAMETERS CONSTANTS MICROSECONDS`.
fn statements(log: &str) -> Vec<String> {
    said(&read(log).0)
}

const PREPARED: &str = "\
2026-11-24 18:39:05.195 UTC [77] LOG:  duration: 0.010 ms  parse P_1: SELECT a FROM t WHERE b = $1
2026-11-24 18:39:05.195 UTC [77] LOG:  duration: 0.030 ms  bind P_1: SELECT a FROM t WHERE b = $1
2026-11-24 18:39:05.195 UTC [77] DETAIL:  parameters: $1 = '5'
2026-11-24 18:39:05.196 UTC [77] LOG:  duration: 1.500 ms  execute P_1: SELECT a FROM t WHERE b = $1
2026-11-24 18:39:05.196 UTC [77] DETAIL:  parameters: $1 = '5'
";

#[test]
fn a_prepared_statement_has_its_parameters_and_the_time_of_its_preparation() {
    let (lines, counts) = read(PREPARED);
    assert_eq!(said(&lines), [r#""prepared" SELECT a FROM t WHERE b = $1 | ["5"] [] 1540"#]);
    assert_eq!((counts.messages, counts.unreadable_lines), (3, 0));
}

#[test]
fn the_three_formats_say_the_same() {
    let stderr = "\
2026-11-24 18:39:05.195 UTC 6b.2a LOG:  duration: 2.000 ms  statement: UPDATE t
\tSET a = 'it''s, \"x\"'
";
    let csv = "2026-11-24 18:39:05.195 UTC,\"me\",\"db\",42,\"[local]\",6b.2a,1,\"UPDATE\",\
2026-11-24 18:39:00 UTC,4/7,0,LOG,00000,\"duration: 2.000 ms  statement: UPDATE t
SET a = 'it''s, \"\"x\"\"'\",,,,,,,,,\"psql\",\"client backend\",,0\n";
    let json = concat!(
        r#"{"timestamp":"2026-11-24 18:39:05.195 UTC","user":"me","dbname":"db","pid":42,"#,
        r#""session_id":"6b.2a","line_num":1,"vxid":"4/7","error_severity":"LOG","#,
        r#""message":"duration: 2.000 ms  statement: UPDATE t\nSET a = 'it''s, \"x\"'","#,
        r#""application_name":"psql"}"#
    );
    let expected = [r#""simple" UPDATE t SET a = 'it''s, "x"' | [] ["it's, \"x\""] 2000"#];
    for log in [stderr, csv, json] {
        let (lines, counts) = read(log);
        assert_eq!(said(&lines), expected, "{log}");
        assert_eq!(lines[0]["id"], "6b.2a");
        assert_eq!(counts.unreadable_lines, 0);
    }
    let (lines, _) = read(csv);
    assert_eq!(lines[0]["application"], "psql");
    let [part] = parts(&lines).collect::<Vec<_>>()[..] else { panic!("{lines:?}") };
    // It is the first line of its session; it began 2 ms before the time of the message.
    assert_eq!((&part[2], &part[3]), (&1.into(), &0.into()));
    assert_eq!(part[4], 1_795_545_545_193_000_u64);
}

#[test]
fn statements_are_found_in_every_language() {
    for (severity, detail, message, parameters) in [
        ("LOG", "DETAIL", "Dauer: 1.000 ms  Ausführen <unnamed>: SELECT $1", "Parameter: "),
        ("LOG", "DÉTAIL", "durée : 1.000 ms  exécute <unnamed>: SELECT $1", "paramètres : "),
        ("LOG", "詳細", "期間: 1.000 ミリ秒  実行 <unnamed>: SELECT $1", "パラメータ: "),
        (
            "СООБЩЕНИЕ",
            "ПОДРОБНОСТИ",
            "продолжительность: 1.000 мс  выполнение <unnamed>: SELECT $1",
            "параметры: ",
        ),
        ("日志", "详情", "耗时: 1.000 ms  执行 <unnamed>: SELECT $1", "参数: "),
        ("LOG", "DETALHE", "duração: 1.000 ms  executar <unnamed>: SELECT $1", "parâmetros: "),
        (
            "ЗАПИСУВАННЯ",
            "ВІДОМОСТІ",
            "тривалість: 1.000 мс виконувати <unnamed>: SELECT $1",
            "параметри: ",
        ),
    ] {
        let log = format!(
            "2026-11-24 18:39:05.195 UTC [7] {severity}:  {message}\n\
             2026-11-24 18:39:05.195 UTC [7] {detail}:  {parameters}$1 = 'x'\n"
        );
        assert_eq!(statements(&log), [r#""extended" SELECT $1 | ["x"] [] 1000"#], "{message}");
    }
    let log = "2026-11-24 18:39:05.195 UTC [7] FEHLER:  Division durch Null\n\
               2026-11-24 18:39:05.195 UTC [7] ANWEISUNG:  SELECT 1/0\n";
    assert_eq!(statements(log), [r#""error" SELECT 1/0 | [] [] -1"#]);
}

#[test]
fn log_statement_gives_statements_whose_durations_follow() {
    let log = "\
2026-11-24 18:39:05.195 UTC [7] LOG:  statement: BEGIN
2026-11-24 18:39:05.196 UTC [7] LOG:  duration: 0.100 ms
2026-11-24 18:39:05.197 UTC [7] LOG:  execute S_1/C_2: FETCHED $1
2026-11-24 18:39:05.198 UTC [7] LOG:  execute fetch from S_1/C_2: FETCHED $1
";
    let expected = [r#""simple" BEGIN | [] [] 100"#, r#""prepared" FETCHED $1 | [] [] -1"#];
    assert_eq!(statements(log), expected);
}

#[test]
fn a_log_that_begins_and_ends_within_a_message_is_read() {
    let log = format!("FROM t\n\tWHERE a = 1\n{PREPARED}2026-11-24 18:39:06.0");
    let (lines, counts) = read(&log);
    assert_eq!(said(&lines).len(), 1);
    assert_eq!((counts.unreadable_lines, counts.torn_messages), (1, 1));
    let csv = "WHERE a = 1\",,,,,,,,,\"psql\"\n\
2026-11-24 18:39:05.195 UTC,\"me\",\"db\",42,\"[local]\",6b.2a,1,\"\",2026-11-24 18:39:00 UTC,4/7,0,LOG,00000,\"statement: SELECT 1\",,,,,,,,,\"\"
2026-11-24 18:39:05.195 UTC,\"me\",\"db\",42,\"[local]\",6b.2a,2,\"\",2026-11-24 18:39:00 UTC,4/7,0,LOG,00000,\"statement: SEL
2026-11-24 18:39:07.195 UTC,\"me\",\"db\",42,\"[local]\",6b.2a,9,\"\",2026-11-24 18:39:00 UTC,4/7,0,LOG,00000,\"statement: SELECT 2\",,,,,,,,,\"\"\n";
    let (lines, counts) = read(csv);
    assert_eq!(said(&lines).len(), 2, "{lines:?}");
    assert_eq!(counts.unreadable_lines, 2);
    let json = "{\"timestamp\":\"2026-11-24 18:39:05.195 UTC\",\"session_id\":\"1.2\",\"error_severity\":\"LOG\",\"message\":\"statement: SELECT 1\"}\n{\"timestamp\":\"2026-11-24 18:";
    let (lines, counts) = read(json);
    assert_eq!((said(&lines).len(), counts.torn_messages), (1, 1));
}

const IN_CSV: &str = "\
2026-11-24 18:39:05.195 UTC,\"me\",\"db\",42,\"[local]\",6b.2a,1,\"\",2026-11-24 18:39:00 UTC,4/7,0,LOG,00000,\"duration: 1.500 ms  execute P_1: SELECT a FROM t WHERE b = $1\",\"parameters: $1 = '5'\",,,,,,,,\"psql\",\"client backend\",,7123
";
const IN_JSON: &str = "\
{\"timestamp\":\"2026-11-24 18:39:05.195 UTC\",\"session_id\":\"1.2\",\"error_severity\":\"LOG\",\"message\":\"duration: 1.500 ms  execute P_1: SELECT a FROM t WHERE b = $1\",\"detail\":\"parameters: $1 = '5'\"}
";

#[test]
fn a_log_that_is_cut_at_any_byte_of_its_last_message_has_no_statement_of_what_is_left() {
    let at = PREPARED.match_indices("2026").nth(3).expect("the message with the time").0;
    for last in [&PREPARED[at..], IN_CSV, IN_JSON] {
        let whole = last.repeat(2);
        let said_once = said(&read(last).0);
        let said_twice = [said_once.clone(), said_once.clone()].concat();
        assert_eq!(said_once.len(), 1, "{last}");
        for end in last.len() + 1..whole.len() {
            let (lines, counts) = read(&whole[..end]);
            // Only the end of the line is missing: JSON is whole, and the others cannot tell.
            let is_known = end + 1 == whole.len() && last == IN_JSON;
            // A message of a server ends where its line ends, so its parameters may be missing.
            let is_line = whole[..end].ends_with('\n');
            if is_line {
                continue;
            }
            let expected = if is_known { &said_twice } else { &said_once };
            assert_eq!(&said(&lines), expected, "{}", &whole[..end]);
            assert_eq!(counts.torn_messages, u64::from(!is_known), "{}", &whole[..end]);
        }
    }
}

#[test]
fn nul_bytes_are_dropped_and_counted() {
    let log = PREPARED.replacen("\n2026", &format!("\n{}2026", "\0".repeat(9)), 1);
    let (lines, counts) = read(&log);
    assert_eq!((said(&lines).len(), counts.nul_bytes), (1, 9));
}

#[test]
fn texts_in_other_encodings_keep_their_characters_apart() {
    let log = b"2026-11-24 18:39:05.195 UTC [7] LOG:  statement: SELECT 'M\xFCller', 'M\xF6ller'\n";
    let (lines, _) = read_in_pieces(log, None, 1 << 20);
    let expected = r#""simple" SELECT 'Müller', 'Möller' | [] ["Müller","Möller"] -1"#;
    assert_eq!(said(&lines), [expected]);
}

#[test]
fn a_long_value_is_its_beginning_and_its_length() {
    let log =
        format!("2026-11-24 18:39:05.195 UTC [7] LOG:  statement: SELECT '{}'\n", "ä".repeat(1000));
    let (lines, _) = read(&log);
    let value = &lines.last().expect("a line")[8][1][0];
    assert_eq!(value["bytes"], 2000);
    assert_eq!(value["begins"].as_str().map(|text| text.chars().count()), Some(128));
}

#[test]
fn a_message_of_any_length_takes_bounded_memory() {
    let mut log = PREPARED.to_owned();
    for _ in 0..300 {
        log.push('\t');
        log.push_str(&"x".repeat(100_000));
        log.push('\n');
    }
    log.push_str(&PREPARED.replace("[77]", "[78]"));
    let (lines, counts) = read(&log);
    assert_eq!((said(&lines).len(), counts.cut_messages), (2, 1));
    let log = format!("{PREPARED}{}\n{}", "x".repeat(20 << 20), PREPARED.replace("[77]", "[78]"));
    let (lines, counts) = read(&log);
    assert_eq!((said(&lines).len(), counts.cut_messages), (2, 1));
}

#[test]
fn prefixes_with_names_that_contain_anything_are_read() {
    for (setting, line) in [
        ("%m [%p] %q%u@%d ", "2026-11-24 18:39:05.195 UTC [7] me@db "),
        (
            "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
            "2026-11-24 18:39:05 UTC [7]: [3-1] user=me,db=db,app=my app, [x],client=::1 ",
        ),
        ("%n %c %v %e %Q ", "1795545545.195 6b05d9c8.2a 4/711 00000 -123 "),
        ("%t:%r:%u@%d:[%p]:", "2026-11-24 18:39:05 UTC:10.0.0.1(5432):me@db:[7]:"),
        ("%m|%u|%d|%c|", "2026-11-24 18:39:05.195 UTC|me|db|6b05d9c8.2a|"),
        ("%-20u %m %5p %% ", "me                   2026-11-24 18:39:05.195 UTC     7 % "),
    ] {
        let log = format!("{line}LOG:  statement: SELECT 1\n");
        let (lines, counts) = read_in_pieces(log.as_bytes(), Some(setting), 1 << 20);
        assert_eq!(said(&lines).len(), 1, "{setting}");
        assert_eq!(counts.unreadable_lines, 0, "{setting}");
    }
    let found = Beginning::of(PREPARED.as_bytes(), None).expect("a log");
    assert_eq!(found.format.name(), "stderr");
}

/// Ten names and 180 places at which each may end: tried one by one, it takes years.
#[test]
fn a_line_whose_names_may_end_anywhere_is_given_up() {
    let head = "2026-11-24 18:39:05.195 UTC [7] ";
    let likely = format!("{head}{}LOG:  statement: SELECT 1\n", "a,".repeat(10));
    let never = format!("{head}{}no label\n", ",".repeat(180));
    assert!(Beginning::of(format!("{likely}{never}{PREPARED}").as_bytes(), None).is_ok());
    let prefix = format!("%m [%p] {}", "%u,".repeat(10));
    let (_, counts) = read_in_pieces(format!("{never}{likely}").as_bytes(), Some(&prefix), 64);
    assert_eq!(counts.messages, 1);
}

/// The calls of syslog(3) for messages of processes, as `write_syslog` makes them.
fn parts_of(message: &str, number: Option<usize>) -> Vec<String> {
    let said = |part: String| number.map_or(part.clone(), |number| format!("{number}-{part}"));
    if message.len() <= 900 && !message.contains('\n') {
        return vec![number.map_or(message.to_owned(), |number| format!("[{number}] {message}"))];
    }
    let mut parts = Vec::new();
    for line in message.split('\n') {
        let mut rest = line;
        while !rest.is_empty() {
            let end = if rest.len() <= 900 { rest.len() } else { rest[..900].rfind(' ').unwrap() };
            parts.push(format!("[{}] {}", said((parts.len() + 1).to_string()), &rest[..end]));
            rest = &rest[end..];
        }
    }
    parts
}

const SPLIT_NAME: &str = "user=me,db=shop ";

/// The text of a message whose lines and bytes are too many for syslog, or not.
fn split_text(at: usize) -> String {
    match at % 4 {
        0 => "SELECT a\n\tFROM t\n\t\n\tWHERE b = 'two\n\tlines'".to_owned(),
        1 => "SELECT '#012345', '#011'\tFROM t".to_owned(),
        2 => "SELECT 1".to_owned(),
        _ => format!("SELECT {} FROM t WHERE a = $1", "column_name, ".repeat(150)),
    }
}

/// 40 messages of three processes, which write in turn, part by part.
fn parts_in_turn(is_numbered: bool) -> Vec<(usize, usize, String)> {
    let mut queues = [const { Vec::new() }; 3];
    for at in 0..40 {
        let said = format!("LOG:  duration: 1.500 ms  execute <unnamed>: {}", split_text(at));
        let detail = format!("DETAIL:  parameters: $1 = '{at}'");
        let number = is_numbered.then_some(at / 3 + 1);
        let message = format!("{SPLIT_NAME}{said}\n{SPLIT_NAME}{detail}");
        let parts = parts_of(&message, number);
        queues[at % 3].extend(parts.into_iter().map(|part| (at, 70 + at % 3, part)));
    }
    let longest = queues.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..longest).flat_map(|turn| queues.iter().map(move |queue| queue.get(turn)));
    turns.flatten().cloned().collect()
}

/// A line or an entry for a part, and whether control characters are escaped.
fn in_form(form: &str, at: usize, pid: usize, text: &str) -> String {
    let escaped = text.replace('\t', "#011").replace('\n', "#012");
    let us = 1_795_542_799_000_000 + 1_000_000 * at;
    match form {
        "rsyslog" => format!("Nov 24 18:39:{at:02} db1 postgres[{pid}]: {escaped}"),
        "raw" => format!("Nov  4 18:39:{at:02} db1 postgres[{pid}]: {text}"),
        "file" => {
            format!("2026-11-24T18:39:{at:02}.123456+01:00 db1 postgres[{pid}]: {escaped}")
        }
        "RFC 5424" => {
            format!("<134>1 2026-11-24T18:39:{at:02}.1Z db1 postgres {pid} - - {escaped}")
        }
        "journal in JSON" => serde_json::json!({
            "__REALTIME_TIMESTAMP": us.to_string(), "_PID": pid.to_string(), "MESSAGE": text,
        })
        .to_string(),
        _ => {
            format!("__CURSOR=s={at}\n__REALTIME_TIMESTAMP={us}\n_PID={pid}\nMESSAGE={text}\n")
        }
    }
}

#[test]
fn messages_that_syslog_split_are_whole_again() {
    let stderr: String = (0..40)
        .map(|at| {
            let pid = 70 + at % 3;
            let head = format!("2026-11-24 18:39:{at:02}.000 UTC [{pid}] {SPLIT_NAME}");
            let said = format!("duration: 1.500 ms  execute <unnamed>: {}", split_text(at));
            format!("{head}LOG:  {said}\n{head}DETAIL:  parameters: $1 = '{at}'\n")
        })
        .collect();
    let (expected, _) = read_in_pieces(stderr.as_bytes(), Some("%m [%p] user=%u,db=%d "), 1 << 20);
    let mut expected = said(&expected);
    expected.sort();
    for form in ["rsyslog", "raw", "file", "RFC 5424", "journal in JSON", "journal"] {
        for is_numbered in [true, false] {
            let log: String = parts_in_turn(is_numbered)
                .iter()
                .map(|(at, pid, part)| format!("{}\n", in_form(form, *at, *pid, part)))
                .collect();
            let (lines, counts) = read_in_pieces(log.as_bytes(), None, 100);
            let mut seen = said(&lines);
            seen.sort();
            assert_eq!(seen, expected, "{form}, numbered: {is_numbered}");
            assert_eq!(counts.unreadable_lines, 0, "{form}, numbered: {is_numbered}");
        }
    }
}

#[test]
fn a_part_that_syslog_lost_is_counted_and_its_message_left_out() {
    let line = |text: &str| format!("Nov 24 18:39:05 db1 postgres[77]: {text}\n");
    let log = line("[1-1] me@shop LOG:  statement: SELECT a")
        + &line("[1-2] #011FROM t")
        + &line("[2-1] me@shop LOG:  statement: SELECT a")
        + &line("[2-3] #011WHERE b = 1")
        + &line("[4-2] #011FROM nowhere")
        + "Nov 24 18:39:05 db1 cron[9]: (root) CMD (true)\n"
        + &line("[5] me@shop LOG:  statement: SELECT 5");
    let (lines, counts) = read_in_pieces(log.as_bytes(), Some("%u@%d "), 7);
    assert_eq!(
        said(&lines),
        ["\"simple\" SELECT a FROM t | [] [] -1", "\"simple\" SELECT 5 | [] [\"5\"] -1"]
    );
    assert_eq!((counts.incomplete_messages, counts.unreadable_lines), (1, 2));
}

#[test]
fn a_log_without_sessions_or_time_is_refused() {
    let refused = |log: &str, setting: Option<&str>| {
        Beginning::of(log.as_bytes(), setting.map(Prefix::new).as_ref()).expect_err("refused")
    };
    let line = "2026-11-24 18:39:05.195 UTC LOG:  statement: SELECT 1\n";
    assert_eq!(refused(line, Some("%m ")), Trouble::NoSession);
    assert_eq!(refused("[7] LOG:  statement: SELECT 1\n", Some("[%p] ")), Trouble::NoTime);
    let other = "2026-11-24T18:39:05Z level=info msg=\"started\"\n".repeat(20);
    assert_eq!(refused(&other, None), Trouble::Prefix);
    // %d of a usual prefix would take in what follows it, so the prefix is guessed.
    let unknown = "2026-11-24 18:39:05.195 UTC [7] me@db 6b.2a 4/7 LOG:  statement: SELECT 1\n";
    let guessed = Beginning::of(unknown.repeat(20).as_bytes(), None).expect("guessed");
    let pgdyno_logs::Format::Stderr(prefix) = guessed.format else { panic!("stderr") };
    assert_eq!(prefix.setting(), "%m [%p] %u@%d %i %v ");
}

/// A message of a prepared statement that took 1 ms.
fn entry(session: &str, second: u32, text: &str) -> String {
    format!(
        "2026-11-24 18:39:{second:02}.000 UTC [{session}] LOG:  duration: 1.000 ms  execute P: {text}\n"
    )
}

#[test]
fn a_transaction_is_one_part_and_other_statements_are_parts_of_their_own() {
    let texts = ["BEGIN", "SELECT a", "COMMIT", "SELECT b", "BEGIN", "SELECT c", "BEGIN", "END"];
    let log: String = (0..).zip(texts).map(|(second, text)| entry("7", second, text)).collect();
    let (lines, _) = read(&log);
    let sizes: Vec<_> = parts(&lines).map(|part| part.len() - 8).collect();
    assert_eq!(sizes, [3, 1, 2, 2]);
    let first = parts(&lines).next().expect("a part");
    assert_eq!(first[7], serde_json::json!([0, 1000, 1_000_000, 1000, 2_000_000, 1000]));
    assert_eq!(first[6], 3000);
}

#[test]
fn an_error_and_the_end_of_the_log_end_a_part() {
    let failed = "2026-11-24 18:39:05.195 UTC [7] ERROR:  division by zero\n\
                  2026-11-24 18:39:05.195 UTC [7] STATEMENT:  SELECT 1/0\n";
    let log = [&entry("7", 1, "BEGIN"), failed, &entry("7", 6, "END"), &entry("8", 7, "BEGIN")];
    let (lines, _) = read(&log.concat());
    let sizes: Vec<_> = parts(&lines).map(|part| part.len() - 8).collect();
    assert_eq!(sizes, [2, 1, 1]);
}

#[test]
fn sessions_shapes_and_sequences_that_are_new_again_and_again_take_bounded_memory() {
    let log: String = (0..90_000)
        .map(|number| entry(&number.to_string(), 1, &format!("SELECT column_{number}")))
        .collect();
    let (lines, _) = read(&log);
    assert_eq!(parts(&lines).count(), 90_000);
    let gone: usize =
        lines.iter().filter_map(|line| line["gone"].as_array()).map(|numbers| numbers.len()).sum();
    assert!((30_000..90_000).contains(&gone), "{gone}");
    assert!(lines.iter().any(|line| line["forget"] == "shapes"));
    assert!(lines.iter().any(|line| line["forget"] == "sequences"));
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_lines(size in 1usize..200) {
        let whole = read(PREPARED);
        prop_assert_eq!(read_in_pieces(PREPARED.as_bytes(), None, size), whole);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        at in 0usize..400,
    ) {
        // Random bytes within a log are the hard case; alone they are refused.
        let at = at.min(PREPARED.len());
        bytes.splice(0..0, PREPARED.bytes().take(at));
        bytes.extend_from_slice(PREPARED.as_bytes());
        if Beginning::of(&bytes, None).is_ok() {
            read_in_pieces(&bytes, None, 64);
        }
    }

    #[test]
    fn no_statement_makes_the_reader_panic(sql in "[ -~äß\n']{0,60}") {
        let head = "2026-11-24 18:39:05.195 UTC [7] LOG:  statement: ";
        let log = format!("{head}SELECT 1\n{head}{}\n", sql.replace('\n', "\n\t"));
        read(&log);
    }
}

/// The sum of the written times of the last statement of each part, in microseconds.
fn took_us(values: &[Value]) -> Vec<i64> {
    parts(values).map(|part| part[6].as_i64().expect("a time")).collect()
}

fn timed(second: u32, text: &str) -> String {
    format!("2026-11-24 10:00:{second:02}.000 UTC [5] LOG:  {text}\n")
}

#[test]
fn a_fetch_is_a_part_of_the_call_whose_rows_it_fetches() {
    let mut log = timed(0, "duration: 1.000 ms  statement: BEGIN");
    log += &timed(1, "duration: 3.000 ms  execute S_1/C_2: SELECT a FROM t");
    for second in 2..11 {
        log += &timed(second, "duration: 0.500 ms  execute fetch from S_1/C_2: SELECT a FROM t");
    }
    log += &timed(12, "duration: 1.000 ms  statement: COMMIT");
    assert_eq!(statements(&log).len(), 3);
    assert_eq!(took_us(&read(&log).0), [1000 + 3000 + 9 * 500 + 1000]);
}

#[test]
fn verbose_messages_have_their_sqlstate_before_their_text() {
    let verbose = timed(0, "00000: duration: 0.200 ms  statement: SELECT 1")
        + "2026-11-24 10:00:00.000 UTC [5] LOCATION:  exec_simple_query, postgres.c:1280\n";
    let (values, counts) = read(&verbose);
    assert_eq!(said(&values), statements(&timed(0, "duration: 0.200 ms  statement: SELECT 1")));
    assert_eq!((said(&values).len(), counts.unreadable_lines), (1, 0));
}

#[test]
fn a_short_log_with_another_prefix_than_the_given_one_is_refused() {
    let line = "2026-11-24 10:00:00.000 UTC [5] a@b LOG:  duration: 0.2 ms  statement: SELECT 1\n";
    let given = Prefix::new("%m [%p] ");
    let refused = Beginning::of(line.as_bytes(), Some(&given)).expect_err("another prefix");
    assert_eq!(refused, Trouble::Prefix);
    // Of the beginning of a message alone, nobody knows.
    Beginning::of(b"2026-11-24 10:00:0", Some(&given)).expect("may be cut");
}

#[test]
fn times_without_fractions_and_durations_alone_are_told() {
    let prefix = Prefix::new("%t-%c-");
    let mut lines = Lines::default();
    let mut reader = Reader::new(&pgdyno_logs::Format::Stderr(prefix));
    let mut out = Vec::new();
    let log = "2026-11-24 10:00:00 UTC-655b1f00.1a2b-LOG:  duration: 0.25 ms\n\
               2026-11-24 10:00:01 UTC-655b1f00.1a2b-LOG:  duration: 250.5 ms  statement: S\n";
    reader.feed(log.as_bytes(), &mut |message| lines.message(message, &mut out));
    reader.end_of_file(&mut |message| lines.message(message, &mut out));
    let written = lines.written();
    assert!(written.has_whole_seconds);
    assert_eq!((written.statements, written.durations_alone), (1, 1));
    assert_eq!(written.shortest_ns, Some(250_000));
}
