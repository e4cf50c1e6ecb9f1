//! Every fault of a script has its place, its message and, where there is one, its next step.

use std::sync::Arc;

use pgdyno_script::{ClientVariables, Command, Prng, VariableTable, parse, parse_as_pgbench};

struct Fault {
    text: &'static str,
    line: usize,
    column: usize,
    message: &'static str,
    hint: Option<&'static str>,
}

const fn fault(
    text: &'static str,
    (line, column): (usize, usize),
    message: &'static str,
    hint: &'static str,
) -> Fault {
    let hint = if hint.is_empty() { None } else { Some(hint) };
    Fault { text, line, column, message, hint }
}

const SET_SYNTAX: &str = "syntax error in command \"set\": ";

#[rustfmt::skip]
const EXPRESSIONS: &[Fault] = &[
    fault("\\set x", (1, 7), "expected a value, found the end of the line", ""),
    fault("\\set x 1 + * 2\n", (1, 12), "expected a value, found \"*\"", ""),
    fault("select 1;\n  \\set x 1 2\n", (2, 12), "expected an operator or the end of the line, found \"2\"", ""),
    fault("\\set x \\\n 1 + \\\n )", (3, 2), "expected a value, found \")\"", ""),
    fault("\\set x (1", (1, 10), "expected \")\", found the end of the line", ""),
    fault("\\set x 1 < 2 < 3", (1, 14), "expected parentheses around one of two comparisons, found \"<\"", ""),
    fault("\\set x 1 is 2", (1, 13), "expected NULL, TRUE or FALSE, found \"2\"", ""),
    fault("\\set x random 1", (1, 15), "expected \"(\", found \"1\"", ""),
    fault("\\set x random(1 2)", (1, 17), "expected \",\" or \")\", found \"2\"", ""),
    fault("\\set x case 1 end", (1, 13), "expected WHEN, found \"1\"", ""),
    fault("\\set x case when 1 end", (1, 20), "expected THEN, found \"end\"", ""),
    fault("\\set x case when 1 then 2", (1, 26), "expected WHEN, ELSE or END, found the end of the line", ""),
    fault("\\set x 9223372036854775808", (1, 8), "expected a value, found \"9223372036854775808\"",
        "the largest integer is 9223372036854775807"),
    fault("\\set x 1 /* one */", (1, 11), "expected a value, found \"*\"",
        "write a comment on a separate line that begins with --"),
];

#[rustfmt::skip]
const COMMANDS: &[Fault] = &[
    fault("\\set x 1 -- one", (1, 13), "unexpected function name (one) in command \"set\"",
        "write a comment on a separate line that begins with --"),
    fault("\\set x randm(1, 2)", (1, 8), "unexpected function name (randm) in command \"set\"", "did you mean random?"),
    fault("\\set x aid + 1", (1, 8), "unexpected function name (aid) in command \"set\"",
        "a variable is written with a colon, as :name"),
    fault("\\set x 1 + random(1)", (1, 12), "unexpected number of arguments (random) in command \"set\"",
        "random takes 2, not 1"),
    fault("\\set x hash()", (1, 8), "unexpected number of arguments (hash) in command \"set\"",
        "hash takes 1, and a seed if you like, not 0"),
    fault("\\set x least()", (1, 8), "at least one argument expected (least) in command \"set\"",
        "least takes one or more, not 0"),
    fault("\\set x least(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17)", (1, 8),
        "too many function arguments, maximum is 16 in command \"set\"", "least takes one or more, not 17"),
    fault("\\set x 'a'", (1, 8), "unexpected character (') in command \"set\"", ""),
    fault("\\set x 1 + €", (1, 12), "unexpected function name (€) in command \"set\"",
        "a variable is written with a colon, as :name"),
    fault("\\set x 99999999999999999999", (1, 8), "bigint constant overflow (99999999999999999999) in command \"set\"", ""),
    fault("\\set x 1e999", (1, 8), "double constant overflow (1e999) in command \"set\"", ""),
    fault("\\set", (1, 5), "missing argument in command \"set\"", "the form is \\set NAME EXPRESSION"),
    fault("\\set :x 1", (1, 6), "invalid variable name: \":x\" in command \"set\"",
        "a variable that is set is written without a colon: x"),
    fault("\\set 1x 1", (1, 6), "invalid variable name: \"1x\" in command \"set\"",
        "a name is made of letters, digits and _, and no digit is first"),
    fault("\\sett x 1", (1, 2), "invalid command in command \"sett\"", "did you mean \\set?"),
    fault("\\include a.sql", (1, 2), "invalid command in command \"include\"",
        "the meta commands are \\set, \\sleep, \\if, \\elif, \\else, \\endif, \\gset, \\aset, \\shell, \
         \\setshell, \\startpipeline, \\syncpipeline, \\endpipeline, \\setrandom"),
    fault("\\sleep", (1, 7), "missing argument in command \"sleep\"", "the form is \\sleep NUMBER|:NAME [us|ms|s]"),
    fault("\\sleep 1 ms now", (1, 13), "too many arguments in command \"sleep\"",
        "the form is \\sleep NUMBER|:NAME [us|ms|s]"),
    fault("\\sleep 0.5", (1, 9), "unrecognized time unit, must be us, ms or s (.5) in command \"sleep\"",
        "a fraction is written in a smaller unit: 500 ms, not 0.5 s"),
    fault("\\sleep - ms", (1, 8), "invalid sleep time, must be an integer (-) in command \"sleep\"", ""),
    fault("\\sleep 5 min", (1, 10), "unrecognized time unit, must be us, ms or s (min) in command \"sleep\"", ""),
    fault("\\setshell x", (1, 10), "missing argument in command \"setshell\"",
        "the form is \\setshell NAME COMMAND [ARGUMENT ...]"),
    fault("\\shell", (1, 7), "missing command in command \"shell\"", "the form is \\shell COMMAND [ARGUMENT ...]"),
    fault("\\setrandom x 1", (1, 11), "missing argument in command \"setrandom\"",
        "the form is \\setrandom NAME MIN MAX [uniform | gaussian PARAMETER | exponential PARAMETER]"),
    fault("\\setrandom x 1 y", (1, 16), "invalid number (y) in command \"setrandom\"",
        "a bound is a number or a variable, as :name"),
    fault("\\setrandom x 1 2 zipf 3", (1, 18), "unrecognized distribution in command \"setrandom\"",
        "the form is \\setrandom NAME MIN MAX [uniform | gaussian PARAMETER | exponential PARAMETER]"),
    fault("\\endpipeline now", (1, 14), "unexpected argument in command \"endpipeline\"",
        "\\endpipeline takes no argument"),
    fault("select 1; \\gset a b", (1, 19), "too many arguments in command \"gset\"", "the form is \\gset [PREFIX]"),
    fault("\\gset", (1, 1), "\\gset must follow an SQL command",
        "it stands in the place of the semicolon, one for each command"),
    fault("select 1 \\aset\n \\aset", (2, 2), "\\aset must follow an SQL command",
        "it stands in the place of the semicolon, one for each command"),
];

#[rustfmt::skip]
const STRUCTURE: &[Fault] = &[
    fault("", (1, 1), "empty command list for script \"s\"", "a script needs at least one command"),
    fault("-- a\n\n", (3, 1), "empty command list for script \"s\"", "a script needs at least one command"),
    fault("select 1;\n\0", (2, 1), "a script must not contain zero bytes", ""),
    fault("select 1;\n\\if 1\nselect 2;", (2, 1),
        "condition error in script \"s\" command 4: \\if without matching \\endif", ""),
    fault("\\endif", (1, 1), "condition error in script \"s\" command 1: \\endif without matching \\if", ""),
    fault("\\if 1\n\\else\n \\elif 1\n\\endif", (3, 2), "condition error in script \"s\" command 3: \\elif after \\else", ""),
    fault("\\if 1\n\\else\n\\else\n\\endif", (3, 1), "condition error in script \"s\" command 3: \\else after \\else", ""),
];

#[test]
fn every_fault_has_its_place_message_and_next_step() {
    for (table, prefix) in [(EXPRESSIONS, SET_SYNTAX), (COMMANDS, ""), (STRUCTURE, "")] {
        for row in table {
            let error = parse("s", row.text, &mut VariableTable::new()).unwrap_err();
            assert_eq!(error.message, format!("{prefix}{}", row.message), "{:?}", row.text);
            assert_eq!((error.line, error.column), (row.line, row.column), "{:?}", row.text);
            assert_eq!(error.hint.as_deref(), row.hint, "{:?}", row.text);
        }
    }
}

#[test]
fn pgbench_finds_two_faults_only_when_the_command_runs() {
    let many = (0..17).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    for (text, message) in [
        ("\\set x- 1 + 1".to_owned(), "set: invalid variable name: \"x-\""),
        ("\\setshell 1x echo 5".to_owned(), "setshell: invalid variable name: \"1x\""),
        (format!("\\set x least({many})"), "too many function arguments, maximum is 16"),
        (
            format!("\\if greatest({many}) > 1\n\\endif"),
            "too many function arguments, maximum is 16",
        ),
    ] {
        assert!(parse("s", &text, &mut VariableTable::new()).is_err(), "{text}");
        let mut table = VariableTable::new();
        let script = parse_as_pgbench("s", &text, &mut table).expect("read without a fault");
        let mut variables = ClientVariables::new(&Arc::new(table));
        let mut prng = Prng::from_seed(1);
        let error = script.step(&mut 0, &mut variables, &mut prng).unwrap_err();
        assert_eq!(error.message(), message, "{text}");
    }
    // What is wrong with the text itself is found at once by both.
    for text in ["\\set x- 1 +", "\\setshell 1x", "\\set x random(1, 2, 3)"] {
        assert!(parse_as_pgbench("s", text, &mut VariableTable::new()).is_err(), "{text}");
    }
}

#[test]
fn a_command_has_at_most_256_words() {
    for (words, is_read) in [(256, true), (257, false)] {
        let text = format!("\\shell true{}", " a".repeat(words - 2));
        let found = parse("s", &text, &mut VariableTable::new());
        assert_eq!(found.is_ok(), is_read, "{words} words");
        if let Err(error) = found {
            assert_eq!(error.message, "too many arguments in command \"shell\"");
        }
    }
}

#[test]
fn debug_shows_the_words_of_a_command_as_pgbench_does() {
    for (text, shown) in [
        ("\\set x 1 + 2", "set x"),
        ("\\if :x > 1\n\\endif", "if"),
        ("\\sleep 1us", "sleep 1us us"),
        ("\\sleep 1", "sleep 1"),
        ("\\sleep :d  ms", "sleep :d ms"),
        ("\\shell  echo   \"a  b\"  \\\n :d", "shell echo \"a b\" :d"),
    ] {
        let script = parse("s", text, &mut VariableTable::new()).expect("a script");
        let Command::Meta(meta) = &script.commands[0] else { panic!("{text} is a meta command") };
        assert_eq!(meta.debug_words(), shown);
    }
}

#[test]
fn an_error_is_shown_with_its_line_and_a_caret() {
    let text = "select 1;\n\\set x 1 + randm(1, 2)\n";
    let error = parse("orders.sql", text, &mut VariableTable::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "orders.sql:2:12: unexpected function name (randm) in command \"set\"\n\
         \\set x 1 + randm(1, 2)\n           ^ error found here\nhint: did you mean random?"
    );
}

/// On a stack like that of the main thread, where scripts are parsed: the frames of unoptimised
/// code are large.
#[test]
fn deep_nesting_is_refused_and_not_a_crash() {
    let parsing = std::thread::Builder::new().stack_size(8 << 20).spawn(refuse_deep_nesting);
    parsing.expect("a thread").join().expect("every expression is refused");
}

fn refuse_deep_nesting() {
    for expression in [
        "(".repeat(100_000),
        "-".repeat(100_000),
        "not ".repeat(100_000),
        "case when ".repeat(100_000),
        "abs(".repeat(100_000),
        format!("1{}", " + :x".repeat(100_000)),
    ] {
        let text = format!("\\set x {expression}");
        let error = parse("s", &text, &mut VariableTable::new()).unwrap_err();
        assert!(error.message.starts_with("expression is nested too deeply"), "{}", error.message);
    }
}

#[test]
fn the_65537th_variable_is_refused() {
    let mut table = VariableTable::new();
    for number in 0..65_536 {
        assert!(table.intern(&format!("v{number}")).is_some());
    }
    assert!(table.intern("v0").is_some());
    for text in ["\\set x 1", "select :x", "\\sleep :x", "\\shell :x", "\\set v0 :x"] {
        let error = parse("s", text, &mut table).unwrap_err();
        assert!(error.message.starts_with("too many variables"), "{}", error.message);
    }
}
