//! What holds of every text, every statement and every expression.

mod support;

use std::sync::Arc;

use pgdyno_script::{
    ClientVariables, Command, EvalErrorKind, MetaAction, Prng, Value, VariableTable, parse,
};
use proptest::prelude::*;

/// Pieces of scripts, so that random texts get past the first character.
const PIECES: &[&str] = &[
    "\\set a ",
    "\\set x ",
    "\\if ",
    "\\elif ",
    "\\else",
    "\\endif",
    "\\sleep ",
    "\\gset ",
    "\\aset",
    "\\shell ",
    "\\setshell n ",
    "\\setrandom r ",
    "\\startpipeline",
    "\\endpipeline",
    "\\",
    "\\;",
    "\n",
    "\n",
    "\r\n",
    " ",
    "\t",
    "\\\n",
    ";",
    ";",
    "(",
    ")",
    ",",
    "'",
    "\"",
    "$$",
    "$q$",
    "E'",
    "U&'",
    "--",
    "/*",
    "*/",
    ":",
    "::",
    ":a",
    ":b",
    ":c",
    ":d",
    ":nosuch",
    "select ",
    "begin ",
    "end",
    "create function ",
    "case when ",
    " then ",
    " else ",
    " end ",
    "random(",
    "random_zipfian(",
    "permute(",
    "hash(",
    "least(",
    "debug(",
    "sqrt(",
    "int(",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<<",
    ">>",
    "~",
    "#",
    "&",
    "|",
    "=",
    "<>",
    "<=",
    " and ",
    " or ",
    " not ",
    " is ",
    "null",
    "true",
    "1",
    "0",
    "2",
    "9223372036854775807",
    "9223372036854775808",
    "1.5",
    "1e300",
    ".",
    "ms",
    "é",
    "\u{0}",
    "?",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_without_a_crash(text in any::<String>()) {
        support::read_and_run(&text);
    }

    #[test]
    fn any_row_of_pieces_is_read_and_run_without_a_crash(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..40)
    ) {
        support::read_and_run(&pieces.concat());
    }

    #[test]
    fn statements_are_kept_word_for_word(
        statements in prop::collection::vec(statement(), 1..10),
        gap in "[ \t\n]{0,3}(-- [a-z;']{0,8}\n)?",
    ) {
        let text: String =
            statements.iter().map(|statement| format!("{gap}{statement};")).collect();
        let mut table = VariableTable::new();
        let script = parse("s", &text, &mut table).unwrap();
        let variables = ClientVariables::new(&Arc::new(table));
        let mut found = Vec::new();
        for command in script.sql_commands() {
            let mut sent = Vec::new();
            command.render_simple(&variables, &mut sent);
            found.push(String::from_utf8(sent).unwrap());
        }
        let expected: Vec<_> = statements.iter().map(|statement| format!("{statement};")).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn integer_arithmetic_equals_that_of_wider_integers(tree in arithmetic()) {
        let expected = tree.value();
        for text in [tree.text(false), tree.text(true)] {
            prop_assert_eq!(evaluate(&text), expected, "{}", text);
        }
    }

    #[test]
    fn doubles_keep_fifteen_digits_as_text(value in any::<f64>()) {
        let mut text = Vec::new();
        Value::Double(value).append_to(&mut text);
        let read: f64 = std::str::from_utf8(&text).unwrap().parse().unwrap();
        prop_assert!(read == value || (read - value).abs() <= value.abs() * 1e-14
            || (read.is_nan() && value.is_nan()) || value.abs() < f64::MIN_POSITIVE * 1e16
            || read.is_infinite());
    }
}

/// Returns a statement that ends nowhere before its end.
///
/// Its plain strings hold no backslash: behind an E'' and a line end they would continue it.
fn statement() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z]{1,6}",
        "[0-9]{1,4}",
        "'[a-z;( ]{0,5}'",
        "\"[a-z;\\\\) ]{1,5}\"",
        "E'([a-z;]|\\\\'|''){0,4}'",
        Just("$$a;'(\\$$".to_owned()),
        Just("$q$;$$;$q$".to_owned()),
        Just("/* ; /* ' */ \\ */".to_owned()),
        Just("-- ; ' \\ (\n".to_owned()),
        Just("(a; (b); c)".to_owned()),
        Just(":undefined".to_owned()),
        Just("::int".to_owned()),
        Just("é".to_owned()),
    ];
    (prop::collection::vec(part, 0..6)).prop_map(|parts| format!("select {}", parts.join(" ")))
}

/// A sum, difference, product or negation.
#[derive(Clone, Debug)]
enum Arithmetic {
    Number(i64),
    Negation(Box<Arithmetic>),
    Operation(char, Box<Arithmetic>, Box<Arithmetic>),
}

fn arithmetic() -> impl Strategy<Value = Arithmetic> {
    let number = prop_oneof![0..100i64, Just(i64::MAX), any::<i64>()].prop_map(Arithmetic::Number);
    number.prop_recursive(5, 32, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|operand| Arithmetic::Negation(Box::new(operand))),
            (prop::sample::select(&['+', '-', '*', '/', '%'][..]), inner.clone(), inner)
                .prop_map(|(op, left, right)| Arithmetic::Operation(op, left.into(), right.into())),
        ]
    })
}

impl Arithmetic {
    /// Returns the value, or what goes wrong first.
    fn value(&self) -> Result<i64, EvalErrorKind> {
        let wide = match self {
            Arithmetic::Number(value) => i128::from(*value),
            Arithmetic::Negation(operand) => -i128::from(operand.value()?),
            Arithmetic::Operation(operator, left, right) => {
                let (left, right) = (i128::from(left.value()?), i128::from(right.value()?));
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ if right == 0 => return Err(EvalErrorKind::DivisionByZero),
                    '/' => left / right,
                    _ => left % right,
                }
            }
        };
        i64::try_from(wide).map_err(|_| EvalErrorKind::OutOfRange)
    }

    /// Returns the text with all parentheses, or with those that are needed.
    fn text(&self, is_sparse: bool) -> String {
        match self {
            Arithmetic::Number(value) => value.to_string(),
            Arithmetic::Negation(operand) => format!("- {}", operand.grouped(is_sparse, 9)),
            Arithmetic::Operation(operator, left, right) => {
                let level = self.level();
                format!(
                    "{} {operator} {}",
                    left.grouped(is_sparse, level),
                    right.grouped(is_sparse, level + 1)
                )
            }
        }
    }

    fn grouped(&self, is_sparse: bool, needed: u8) -> String {
        let text = self.text(is_sparse);
        if is_sparse && self.level() >= needed { text } else { format!("({text})") }
    }

    fn level(&self) -> u8 {
        match self {
            Arithmetic::Number(_) | Arithmetic::Negation(_) => 9,
            Arithmetic::Operation('+' | '-', ..) => 1,
            Arithmetic::Operation(..) => 2,
        }
    }
}

fn evaluate(text: &str) -> Result<i64, EvalErrorKind> {
    let mut table = VariableTable::new();
    let script = parse("s", &format!("\\set x {text}"), &mut table).unwrap();
    let Command::Meta(meta) = &script.commands[0] else { panic!("a meta command") };
    let MetaAction::Set(_, expression) = &meta.action else { panic!("\\set") };
    let mut variables = ClientVariables::new(&Arc::new(table));
    match expression.evaluate(&mut variables, &mut Prng::from_seed(1), 0) {
        Ok(Value::Int(value)) => Ok(value),
        Ok(value) => panic!("{text} is {value:?}"),
        Err(error) => Err(error.kind()),
    }
}
