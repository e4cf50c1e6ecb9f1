//! Expressions of `\set`, `\if` and `\elif`.

mod evaluate;
mod function;
mod operator;
mod parser;
mod token;

use crate::error::EvalError;
use crate::prng::Prng;
use crate::value::Value;
use crate::variables::{ClientVariables, DebugLine, VariableSlot};

pub(crate) use function::{Function, nearest_name};
pub(crate) use parser::parse_expression;
pub(crate) use token::blank_length;

/// A compiled expression: constants are folded, variables are slots.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Constant(Value),
    Variable(VariableSlot),
    Binary(Function, Box<[Node; 2]>),
    Call(Function, Box<[Node]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Case(Box<Case>),
}

#[derive(Clone, Debug, PartialEq)]
struct Case {
    /// Condition and result of each WHEN.
    branches: Vec<(Node, Node)>,
    otherwise: Node,
}

impl Expression {
    /// Returns the value of the expression for one client.
    ///
    /// Args: `command` is the index of the command it stands in, for `debug(...)`.
    /// Errors: in the words of pgbench, such as `bigint mul out of range`.
    #[inline]
    pub fn evaluate(
        &self,
        variables: &mut ClientVariables,
        prng: &mut Prng,
        command: usize,
    ) -> Result<Value, EvalError> {
        let mut evaluation = Evaluation { variables, prng, command };
        evaluation.value(&self.root)
    }

    /// Returns the value when it is the same every time.
    pub fn constant(&self) -> Option<Value> {
        match self.root {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the call of a function whose arguments are variables or constants.
    pub(crate) fn call(function: Function, arguments: Vec<Argument>) -> Self {
        let mut nodes = arguments.into_iter().map(|argument| match argument {
            Argument::Variable(slot) => Node::Variable(slot),
            Argument::Constant(value) => Node::Constant(value),
        });
        Self { root: Node::strict(function, nodes.by_ref().collect()) }
    }
}

/// An argument of [`Expression::call`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument {
    Variable(VariableSlot),
    Constant(Value),
}

/// What an expression reads and changes while it is evaluated.
struct Evaluation<'a> {
    variables: &'a mut ClientVariables,
    prng: &'a mut Prng,
    command: usize,
}

impl Evaluation<'_> {
    fn debug(&mut self, value: Value) {
        let mut text = value.type_name().to_owned().into_bytes();
        if value != Value::Null {
            text.push(b' ');
            value.append_to(&mut text);
        }
        let value = String::from_utf8_lossy(&text).into_owned();
        self.variables.push_debug_line(DebugLine { command: self.command, value });
    }
}
