//! What the fuzz target and the tests of its corpus do with a text.

use std::sync::Arc;

use pgdyno_script::{ClientVariables, Prng, Script, Step, Value, VariableTable, parse};

/// Reads a text and, when it is a script, runs it once; checks what holds of every script.
pub(crate) fn read_and_run(text: &str) {
    let mut table = VariableTable::new();
    match parse("script", text, &mut table) {
        Ok(script) => run(text, &script, &Arc::new(table)),
        Err(error) => {
            // The end of the text is a place too.
            assert!(error.line <= text.matches('\n').count() + 1, "{error}");
            assert!(error.column <= error.source_line.chars().count() + 1, "{error}");
            assert!(error.to_string().starts_with("script:"), "{error}");
        }
    }
}

fn run(text: &str, script: &Script, table: &Arc<VariableTable>) {
    assert!(!script.commands.is_empty());
    for command in &script.commands {
        assert!(command.line() <= text.matches('\n').count() + 1);
        assert!(text.contains(command.first_line()) || text.contains('\\'));
    }
    let mut variables = ClientVariables::new(table);
    // Text rather than a number, so that conversions are met too.
    for (name, value) in [("a", "7"), ("b", "1.5"), ("c", "on"), ("d", "x")] {
        if let Some(slot) = table.find(name) {
            variables.set_text(slot, value.as_bytes());
        }
    }
    variables.set_by_name("default_seed", Value::Int(1));
    let mut prng = Prng::from_seed(1);
    let mut position = 0;
    // Every command is passed once at most, because scripts have no loops.
    for _ in 0..=script.commands.len() {
        match script.step(&mut position, &mut variables, &mut prng) {
            Ok(Step::Done) => return,
            Ok(Step::Sql(command)) => {
                let mut sent = Vec::new();
                command.render_simple(&variables, &mut sent);
                let mut count = 0;
                command.write_params(&variables, &mut Vec::new(), |_| count += 1);
                assert_eq!(count, command.parameters.len());
            }
            Ok(Step::Shell(shell)) => {
                let _ = shell.command_line(&variables);
            }
            Ok(_) => {}
            Err(error) => {
                assert!(!error.message().is_empty());
                return;
            }
        }
    }
    panic!("the script did not end");
}
