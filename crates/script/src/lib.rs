//! The script language of pgbench 18, whole: text in, program out, and its evaluation.
//!
//! No input or output, no clock and no threads: the caller reads the files, sends the SQL, sleeps
//! and runs the shell. A script is read once with [`parse`]; each client then has its own
//! [`ClientVariables`] and [`Prng`], and [`Script::step`] runs what needs no server.
//!
//! ```
//! use std::sync::Arc;
//! use pgdyno_script::{ClientVariables, RandomStreams, Step, Value, VariableTable, parse};
//!
//! let mut table = VariableTable::new();
//! let script = parse("demo", "\\set aid random(1, 10 * :scale)\nSELECT :aid;", &mut table)?;
//! let mut variables = ClientVariables::new(&Arc::new(table));
//! variables.set_by_name("scale", Value::Int(1));
//! let mut prng = RandomStreams::new(5432, 1, 1, true).clients[0];
//! let mut position = 0;
//! let Step::Sql(command) = script.step(&mut position, &mut variables, &mut prng)? else {
//!     panic!("the next step is the SQL command")
//! };
//! let mut sql = Vec::new();
//! command.render_simple(&variables, &mut sql);
//! assert_eq!(sql, b"SELECT 8;");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where pgbench 18 and this crate differ on purpose: [`parse`] finds a name that no variable may
//! have, and more than 16 arguments, when the script is read ([`parse_as_pgbench`] leaves both for
//! the run, as pgbench does); zero bytes, and a `\sleep` without a digit, are refused; `\setrandom`
//! of pgbench before 9.6 is accepted with a notice; a long `\sleep` does not overflow; `abs` of a
//! boolean is an error; expressions have at most 200 levels. Scripts are UTF-8, which pgbench does
//! not ask for.

mod builtin;
mod cursor;
mod error;
mod expression;
mod hash;
mod lexer;
mod meta;
mod prng;
mod read;
mod reads_only;
mod script;
mod shell;
mod sleep;
mod sql;
mod step;
mod streams;
mod text_value;
mod value;
mod variables;

pub use builtin::{BUILTINS, Builtin, BuiltinFault, builtin, find_builtin};
pub use error::{EvalError, EvalErrorKind, Notice, ScriptError, ScriptFault};
pub use expression::Expression;
pub use hash::{hash_fnv1a, hash_murmur2, permute};
pub use meta::{META_COMMANDS, MetaAction, MetaCommand};
pub use prng::{GAUSSIAN_PARAMETER_MIN, Prng, ZIPFIAN_PARAMETER_MAX, ZIPFIAN_PARAMETER_MIN};
pub use read::{parse, parse_as_pgbench};
pub use script::{Command, Script};
pub use shell::ShellCommand;
pub use sleep::SleepTime;
pub use sql::{PARAMETERS_MAX, Segment, SqlCommand};
pub use step::Step;
pub use streams::{RandomStreams, ThreadStreams, choose_script, clients_of_threads, script_at};
pub use value::Value;
pub use variables::{ClientVariables, DebugLine, Gset, VariableSlot, VariableTable, is_valid_name};
