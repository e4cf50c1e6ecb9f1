//! Running scripts step by step.

use std::sync::Arc;

use pgdyno_script::{
    ClientVariables, Command, EvalErrorKind, Prng, Script, Step, Value, VariableTable, parse,
};

/// A script with one client.
struct Client {
    script: Script,
    variables: ClientVariables,
    prng: Prng,
    position: usize,
}

fn client(text: &str) -> Client {
    let mut table = VariableTable::new();
    let script = parse("s", text, &mut table).unwrap();
    let variables = ClientVariables::new(&Arc::new(table));
    Client { script, variables, prng: Prng::from_seed(1), position: 0 }
}

impl Client {
    fn step(&mut self) -> Step<'_> {
        self.script.step(&mut self.position, &mut self.variables, &mut self.prng).unwrap()
    }

    /// Runs to the end; returns the SQL texts sent.
    fn sent(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        loop {
            match self.step() {
                Step::Sql(command) => sent.push(command.text.clone()),
                Step::Done => return sent,
                _ => {}
            }
        }
    }

    fn value(&self, name: &str) -> Value {
        let slot = self.variables.table().find(name).unwrap();
        self.variables.get(slot).unwrap()
    }
}

const BRANCHES: &str = "\\if :n = 1\nselect 1;\n\\if :m\nselect 11;\n\\endif\n\\elif :n = 2\n\
                        select 2;\n\\elif :n = 3\n\\else\nselect 4;\n\\endif\nselect 5;";

#[test]
fn exactly_one_branch_of_a_condition_runs() {
    for (n, m, expected) in [
        (1, 1, vec!["select 1;", "select 11;", "select 5;"]),
        (1, 0, vec!["select 1;", "select 5;"]),
        (2, 1, vec!["select 2;", "select 5;"]),
        (3, 1, vec!["select 5;"]),
        (4, 1, vec!["select 4;", "select 5;"]),
    ] {
        let mut client = client(BRANCHES);
        client.variables.set_by_name("n", Value::Int(n));
        client.variables.set_by_name("m", Value::Int(m));
        assert_eq!(client.sent(), expected, "n = {n}, m = {m}");
    }
}

#[test]
fn a_branch_that_is_not_taken_is_not_evaluated() {
    let text = "\\if false\n\\if 1 / 0\n\\elif 1 / 0\n\\endif\n\\elif true\n\\elif 1 / 0\n\\endif\nselect 1;";
    assert_eq!(client(text).sent(), ["select 1;"]);
}

#[test]
fn a_script_can_be_run_again_from_its_start() {
    let mut client = client("\\set n 1\n\\if :n = 1\nselect 1;\n\\else\nselect 2;\n\\endif");
    assert_eq!(client.sent(), ["select 1;"]);
    client.position = 0;
    assert_eq!(client.sent(), ["select 1;"]);
}

#[test]
fn steps_stop_at_whatever_needs_the_caller() {
    let mut client = client(
        "\\set t 3\n\\sleep 2 ms\n\\sleep :t us\n\\sleep 4\n\\sleep -1\n\\shell true\n\
         \\setshell n echo 1\n\\startpipeline\nselect 1;\n\\syncpipeline\n\\endpipeline\n",
    );
    for duration_ns in [2_000_000, 3_000, 4_000_000_000, 0] {
        assert!(matches!(client.step(), Step::Sleep { duration_ns: d } if d == duration_ns));
    }
    assert!(matches!(client.step(), Step::Shell(shell) if shell.assigns.is_none()));
    assert!(matches!(client.step(), Step::Shell(shell) if shell.assigns.is_some()));
    assert!(matches!(client.step(), Step::StartPipeline));
    assert!(matches!(client.step(), Step::Sql(_)));
    assert!(matches!(client.step(), Step::SyncPipeline));
    assert!(matches!(client.step(), Step::EndPipeline));
    assert!(matches!(client.step(), Step::Done));
    assert!(matches!(client.step(), Step::Done));
}

#[test]
fn single_commands_can_be_timed() {
    let mut client = client("\\set a 1\n\\if false\n\\endif\nselect 1;");
    let mut seen = Vec::new();
    loop {
        let before = client.position;
        let step = client
            .script
            .step_command(&mut client.position, &mut client.variables, &mut client.prng)
            .unwrap();
        match step {
            Step::Done => break,
            Step::Continue => seen.push((before, "meta")),
            _ => seen.push((before, "sql")),
        }
    }
    assert_eq!(seen, [(0, "meta"), (1, "meta"), (3, "sql")]);
}

#[test]
fn an_error_leaves_the_position_at_the_command_that_failed() {
    let mut client = client("select 1;\n\\set a 1\n\\if false\n\\elif :nosuch\n\\endif\n");
    client.step();
    let Client { script, variables, prng, position } = &mut client;
    let error = script.step(position, variables, prng).unwrap_err();
    assert_eq!(error.kind(), EvalErrorKind::UndefinedVariable);
    assert_eq!(*position, 3);
    assert_eq!(script.commands[3].name(), "elif");
}

#[test]
fn a_sleep_longer_than_a_32_bit_number_of_microseconds_is_kept() {
    let mut client = client("\\sleep 5000 s\n");
    assert!(matches!(client.step(), Step::Sleep { duration_ns: 5_000_000_000_000 }));
}

#[test]
fn a_sleep_takes_the_number_a_text_begins_with() {
    for (text, expected) in
        [("12abc", Some(12_000)), ("0", Some(0)), (" 5", Some(5_000)), ("x", None)]
    {
        let mut client = client("\\sleep :t us\n");
        let slot = client.variables.table().find("t").unwrap();
        client.variables.set_text(slot, text.as_bytes());
        let Client { script, variables, prng, position } = &mut client;
        let found = match script.step(position, variables, prng) {
            Ok(Step::Sleep { duration_ns }) => Some(duration_ns),
            Ok(step) => panic!("{step:?}"),
            Err(error) => {
                assert_eq!(error.kind(), EvalErrorKind::InvalidArgument);
                None
            }
        };
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn rows_become_variables_with_their_prefix() {
    let mut client = client("select 1 as a \\gset p_\n\\set b :p_a + 1\n");
    let Step::Sql(command) = client.step() else { panic!("a command") };
    let gset = command.gset.clone().unwrap();
    assert!(!gset.all);
    let row: [(&str, Option<&[u8]>); 2] = [("a", Some(b"41")), ("unread", None)];
    client.variables.assign_row(&gset, row).unwrap();
    client.step();
    assert_eq!(client.value("b"), Value::Int(42));
    let bad: [(&str, Option<&[u8]>); 1] = [("?column?", None)];
    let error = client.variables.assign_row(&gset, bad).unwrap_err();
    assert_eq!(error.message(), "gset: invalid variable name: \"p_?column?\"");
}

#[test]
fn old_random_variables_are_read_with_one_notice() {
    let mut client = client(
        "\\set nbranches 1 * :scale\n\\setrandom aid 1 :nbranches\n\\setrandom b 5 5 uniform\n\
         \\setrandom c 1 10 gaussian 2.5\n\\setrandom d -10 -1 exponential :nbranches\n",
    );
    assert_eq!(client.script.notices.len(), 1);
    assert_eq!(client.script.notices[0].line, 2);
    client.variables.set_by_name("scale", Value::Int(7));
    client.sent();
    assert_eq!(client.value("b"), Value::Int(5));
    for (name, range) in [("aid", 1..=7), ("c", 1..=10), ("d", -10..=-1)] {
        let Value::Int(value) = client.value(name) else { panic!("{name} is an integer") };
        assert!(range.contains(&value), "{name} = {value}");
    }
}

#[test]
fn old_random_variables_draw_what_the_new_form_draws() {
    let mut old = client("\\setrandom x 1 1000000\n\\setrandom y 1 1000 gaussian 5\n");
    let mut new = client("\\set x random(1, 1000000)\n\\set y random_gaussian(1, 1000, 5)\n");
    old.sent();
    new.sent();
    assert_eq!((old.value("x"), old.value("y")), (new.value("x"), new.value("y")));
}

#[test]
fn commands_are_numbered_as_pgbench_counts_them() {
    let client = client("\\set a 1\nselect 1 \\gset\n\n -- x\n select\n 2;\n\\sleep 1\nselect 3");
    let numbers: Vec<_> = client
        .script
        .commands
        .iter()
        .map(|command| match command {
            Command::Sql(sql) => (sql.command, sql.line, Some(sql.statement), command.first_line()),
            Command::Meta(meta) => (meta.command, meta.line, None, command.first_line()),
        })
        .collect();
    assert_eq!(
        numbers,
        [
            (0, 1, None, "\\set a 1"),
            (1, 2, Some(0), "select 1 "),
            (2, 5, Some(1), "select"),
            (3, 7, None, "\\sleep 1"),
            (4, 8, Some(2), "select 3"),
        ]
    );
}

#[test]
fn a_script_tells_what_it_needs() {
    let plain = client("begin;\nselect 1;\nend;").script;
    assert!(plain.reads_only() && !plain.uses_shell() && !plain.uses_pipeline());
    let writing = client("select 1;\ndelete from t;").script;
    assert!(!writing.reads_only());
    assert!(client("\\shell true\n").script.uses_shell());
    assert!(client("\\startpipeline\n\\endpipeline\n").script.uses_pipeline());
}

#[test]
fn scripts_of_one_job_share_their_variables() {
    let mut table = VariableTable::new();
    let first = parse("a", "\\set shared 5\n", &mut table).unwrap();
    let second = parse("b", "\\set seen :shared\n", &mut table).unwrap();
    let table = Arc::new(table);
    let mut variables = ClientVariables::new(&table);
    let mut prng = Prng::from_seed(1);
    first.step(&mut 0, &mut variables, &mut prng).unwrap();
    second.step(&mut 0, &mut variables, &mut prng).unwrap();
    assert_eq!(variables.get(table.find("seen").unwrap()).unwrap(), Value::Int(5));
}
