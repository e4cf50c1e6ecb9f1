//! Holds the language against what real pgbench programs made of the same scripts.
//!
//! `golden/golden.json` is recorded by `golden/record.py` from the scripts in
//! `golden/accepted.py` and `golden/refused.py`.

use std::sync::Arc;

use pgdyno_script::{
    ClientVariables, EvalError, Prng, RandomStreams, Script, SqlCommand, Step, Value,
    VariableTable, choose_script, clients_of_threads, find_builtin, parse,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    recorded_with: Vec<String>,
    values: Vec<Case<Vec<Vec<String>>>>,
    choices: Vec<Case<Vec<String>>>,
    failures: Vec<(String, Vec<String>)>,
    refusals: Vec<(String, String)>,
    parameters: Vec<(String, String)>,
    statements: Vec<Statements>,
    builtins: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Case<Rows> {
    scripts: Vec<String>,
    seed: u64,
    clients: usize,
    threads: usize,
    transactions: usize,
    defines: Vec<String>,
    rows: Rows,
}

#[derive(Deserialize)]
struct Statements {
    script: String,
    protocol: String,
    sent: Vec<(String, String)>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/golden.json")).unwrap()
}

/// The scripts of a case, its clients and their random streams, set up as pgbench does.
struct Run {
    scripts: Vec<Script>,
    weights: Vec<u32>,
    streams: RandomStreams,
    clients: Vec<ClientVariables>,
}

impl<Rows> Case<Rows> {
    fn run(&self) -> Run {
        let mut table = VariableTable::new();
        let mut scripts = Vec::new();
        let mut weights = Vec::new();
        for script in &self.scripts {
            let (text, weight) = script.split_once("\n@").unwrap_or((script, "1"));
            scripts.push(parse("script", text, &mut table).unwrap());
            weights.push(weight.parse().unwrap());
        }
        let is_defined =
            |name: &str| self.defines.iter().any(|d| d.split('=').next() == Some(name));
        let draws_seed = !is_defined("default_seed");
        let streams = RandomStreams::new(self.seed, self.clients, self.threads, draws_seed);
        let table = Arc::new(table);
        let clients = (0..self.clients)
            .map(|id| {
                let mut variables = ClientVariables::new(&table);
                variables.set_by_name("scale", Value::Int(3));
                variables.set_by_name("client_id", Value::Int(id as i64));
                variables.set_by_name("default_seed", Value::Int(streams.default_seed));
                variables.set_by_name("random_seed", Value::Int(self.seed as i64));
                for define in &self.defines {
                    let (name, text) = define.split_once('=').unwrap();
                    if let Some(slot) = table.find(name) {
                        variables.set_text(slot, text.as_bytes());
                    }
                }
                variables
            })
            .collect();
        Run { scripts, weights, streams, clients }
    }
}

/// Runs a script that needs no server; returns what it printed.
fn printed(
    script: &Script,
    variables: &mut ClientVariables,
    prng: &mut Prng,
) -> Result<Vec<String>, EvalError> {
    let mut position = 0;
    while !matches!(script.step(&mut position, variables, prng)?, Step::Done) {}
    Ok(variables.take_debug_lines().into_iter().map(|line| line.value).collect())
}

#[test]
fn the_recordings_come_from_pgbench_15_and_18() {
    let versions = golden().recorded_with;
    assert!(versions[0].starts_with("pgbench (PostgreSQL) 15."), "{versions:?}");
    assert!(versions[1].starts_with("pgbench (PostgreSQL) 18."), "{versions:?}");
}

#[test]
fn every_value_of_every_client_equals_that_of_pgbench() {
    for case in golden().values {
        let mut run = case.run();
        let mut rows = case.rows.iter();
        for _ in 0..case.transactions {
            for (variables, prng) in run.clients.iter_mut().zip(&mut run.streams.clients) {
                let mut found = vec!["0".to_owned()];
                found.extend(printed(&run.scripts[0], variables, prng).unwrap());
                assert_eq!(&found, rows.next().unwrap(), "{}", case.scripts[0]);
            }
        }
        assert_eq!(rows.next(), None);
    }
}

#[test]
fn every_client_runs_the_same_scripts_as_in_pgbench() {
    for case in golden().choices {
        let mut run = case.run();
        let mut chosen = vec![String::new(); case.clients];
        let threads = clients_of_threads(case.clients, case.threads);
        for (clients, streams) in threads.into_iter().zip(&mut run.streams.threads) {
            for _ in 0..case.transactions {
                for client in clients.clone() {
                    let script = choose_script(&run.weights, &mut streams.choose);
                    chosen[client].push_str(&script.to_string());
                }
            }
        }
        assert_eq!(chosen, case.rows);
    }
}

#[test]
fn scripts_that_fail_give_pgbenchs_messages() {
    for (text, messages) in golden().failures {
        let mut table = VariableTable::new();
        let script = parse("script0.sql", &text, &mut table).unwrap();
        let mut variables = ClientVariables::new(&Arc::new(table));
        variables.set_by_name("default_seed", Value::Int(1));
        let mut prng = Prng::from_seed(1);
        let mut position = 0;
        let error = loop {
            match script.step(&mut position, &mut variables, &mut prng) {
                Ok(Step::Shell(shell)) => {
                    position -= 1;
                    let line = shell.command_line(&variables);
                    break line.and_then(|_| shell.result(b"abc\n", &variables)).unwrap_err();
                }
                Ok(step) => assert!(!matches!(step, Step::Done), "{text} did not fail"),
                Err(error) => break error,
            }
        };
        // Of a message of several lines, the first was recorded.
        assert_eq!(error.message().lines().next().unwrap(), messages[0], "{text}");
        let command = &script.commands[position];
        let expected = format!(
            "client 0 aborted in command {position} ({}) of script 0; {}",
            command.name(),
            command.failure()
        );
        assert_eq!(expected, messages[1], "{text}");
    }
}

#[test]
fn scripts_that_are_refused_are_refused_in_pgbenchs_words() {
    for (text, message) in golden().refusals {
        let error = parse("script0.sql", &text, &mut VariableTable::new()).unwrap_err();
        // pgbench names the line when it knows it.
        let (line, words) = match message.strip_prefix("script0.sql:") {
            Some(rest) => {
                let (line, words) = rest.split_once(": ").unwrap();
                (Some(line.parse::<usize>().unwrap()), words)
            }
            None => (None, message.as_str()),
        };
        assert!(error.message.starts_with(words), "{text:?}: {words} became {}", error.message);
        assert!(line.is_none_or(|line| line == error.line), "{text:?}: line {}", error.line);
    }
}

#[test]
fn too_many_variables_are_refused_where_pgbench_does() {
    for (text, message) in golden().parameters {
        let mut table = VariableTable::new();
        let script = parse("script0.sql", &text, &mut table).unwrap();
        let error = script.check_parameters().unwrap_err();
        assert!(message.starts_with(&error.message), "{message} became {}", error.message);
        let fewer = text.replacen(" + :v0", "", 1);
        assert!(parse("script0.sql", &fewer, &mut table).unwrap().check_parameters().is_ok());
    }
}

/// Returns what the server logs of a command that is sent by `protocol`.
fn logged(command: &SqlCommand, protocol: &str, variables: &ClientVariables) -> (String, String) {
    if protocol == "simple" {
        let mut text = Vec::new();
        command.render_simple(variables, &mut text);
        return (String::from_utf8(text).unwrap(), String::new());
    }
    let mut params = Vec::new();
    command.write_params(variables, &mut Vec::new(), |param| {
        let shown = param.map_or("NULL".to_owned(), |param| {
            format!("'{}'", String::from_utf8_lossy(param).replace('\'', "''"))
        });
        params.push(format!("${} = {shown}", params.len() + 1));
    });
    let detail = if params.is_empty() {
        String::new()
    } else {
        format!("parameters: {}", params.join(", "))
    };
    (command.parameterized.to_string(), detail)
}

#[test]
fn the_server_is_sent_what_pgbench_sends() {
    for case in golden().statements {
        let mut table = VariableTable::new();
        let script = parse("script", &case.script, &mut table).unwrap();
        let mut variables = ClientVariables::new(&Arc::new(table));
        if let Some(slot) = variables.table().find("text") {
            variables.set_text(slot, b"a b");
        }
        let mut prng = Prng::from_seed(1);
        let mut position = 0;
        for (text, detail) in &case.sent {
            let command = loop {
                match script.step(&mut position, &mut variables, &mut prng).unwrap() {
                    // An empty statement leaves nothing in the log of the extended protocol.
                    Step::Sql(command) if command.text == ";" && case.protocol != "simple" => {}
                    Step::Sql(command) => break command,
                    step => panic!("{:?}: {text} was sent, not {step:?}", case.script),
                }
            };
            let (our_text, our_detail) = logged(command, &case.protocol, &variables);
            assert_eq!(&our_text, text);
            if detail != "refused by the server" {
                assert_eq!(&our_detail, detail);
            }
            if let Some(gset) = &command.gset {
                let row: [(&str, Option<&[u8]>); 5] = [
                    ("x", Some(b"2")),
                    ("y", None),
                    ("z", Some(b"a'b")),
                    ("a", Some(b"1")),
                    ("b", Some(b"2")),
                ];
                variables.assign_row(gset, row).unwrap();
            }
        }
    }
}

#[test]
fn built_in_scripts_are_those_of_pgbench_word_for_word() {
    for (name, shown) in golden().builtins {
        let builtin = find_builtin(&name).unwrap();
        assert!(builtin.is_of_pgbench);
        let ours = format!("-- {}: {}\n{}\n", builtin.name, builtin.description, builtin.text);
        assert_eq!(ours, shown);
    }
}
