//! Parsing of expressions: operator precedence as in pgbench's grammar.

use super::function::{
    ARGUMENTS_MAX, Arity, FUNCTIONS, Function, find_function, nearest_name, too_many_arguments,
};
use super::operator::{binding_of, function_of, level};
use super::token::{ExpressionToken as Token, Keyword, next_expression_token};
use super::{Case, Expression, Node};
use crate::cursor::Reading;
use crate::value::Value;
use crate::variables::VariableTable;

/// Most operators on the way from the top of an expression to its deepest value, and most open
/// parentheses, calls, CASEs and signs.
const DEPTH_MAX: usize = 200;

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpressionFault {
    /// In pgbench's words.
    pub(crate) message: String,
    /// What was expected instead.
    pub(crate) detail: Option<String>,
    /// Where it is, as an offset in the text of the script.
    pub(crate) offset: usize,
    pub(crate) hint: Option<String>,
}

type Parsed<T> = Result<T, ExpressionFault>;

/// Parses the expression that begins at `start` and goes on to the end of the line.
///
/// Returns the expression and the offset of the line end.
pub(crate) fn parse_expression(
    text: &str,
    start: usize,
    variables: &mut VariableTable,
    reading: Reading,
) -> Parsed<(Expression, usize)> {
    let (token, depth) = (Token::End, 0);
    let mut parser = Parser { text, token, begin: start, end: start, depth, variables, reading };
    parser.advance()?;
    let operand = parser.operators(level::OR)?;
    if parser.token != Token::End {
        return Err(parser.unexpected("an operator or the end of the line"));
    }
    Ok((Expression { root: operand.node }, parser.begin))
}

struct Parser<'a> {
    text: &'a str,
    /// The token looked at, and where it begins and ends.
    token: Token<'a>,
    begin: usize,
    end: usize,
    depth: usize,
    variables: &'a mut VariableTable,
    reading: Reading,
}

/// A part of an expression and how deep it is.
struct Operand {
    node: Node,
    depth: usize,
}

impl Operand {
    fn leaf(node: Node) -> Self {
        Self { node, depth: 0 }
    }
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Parsed<()> {
        let (token, begin, end) =
            next_expression_token(self.text, self.end).map_err(|(message, offset)| {
                ExpressionFault { message, detail: None, offset, hint: None }
            })?;
        (self.token, self.begin, self.end) = (token, begin, end);
        Ok(())
    }

    fn accept(&mut self, token: Token<'_>) -> Parsed<bool> {
        if self.token != token {
            return Ok(false);
        }
        self.advance()?;
        Ok(true)
    }

    fn expect(&mut self, token: Token<'_>, wanted: &str) -> Parsed<()> {
        if self.accept(token)? { Ok(()) } else { Err(self.unexpected(wanted)) }
    }

    /// Returns the fault that something else than `wanted` was found.
    fn unexpected(&self, wanted: &str) -> ExpressionFault {
        let token = match self.token {
            Token::End => "the end of the line".to_owned(),
            _ => format!("\"{}\"", &self.text[self.begin..self.end]),
        };
        ExpressionFault {
            message: "syntax error".to_owned(),
            detail: Some(format!("expected {wanted}, found {token}")),
            offset: self.begin,
            hint: self.comment_hint(),
        }
    }

    /// Returns what to do when the token looked at seems to stand in a comment.
    fn comment_hint(&self) -> Option<String> {
        let before = self.text[..self.begin].trim_end_matches([' ', '\t']);
        let is_comment =
            before.ends_with("--") || (before.ends_with('/') && self.token == Token::Symbol("*"));
        is_comment.then(|| "write a comment on a separate line that begins with --".to_owned())
    }

    fn fault(&self, offset: usize, message: String) -> ExpressionFault {
        ExpressionFault { message, detail: None, offset, hint: None }
    }

    /// Makes an operand of `parts`, one level deeper than the deepest of them.
    fn combine<const N: usize>(
        &self,
        parts: [Operand; N],
        make: impl FnOnce([Node; N]) -> Node,
    ) -> Parsed<Operand> {
        let depth = 1 + parts.iter().map(|part| part.depth).max().unwrap_or(0);
        self.check_depth(depth)?;
        Ok(Operand { node: make(parts.map(|part| part.node)), depth })
    }

    fn check_depth(&self, depth: usize) -> Parsed<()> {
        if depth <= DEPTH_MAX {
            return Ok(());
        }
        Err(ExpressionFault {
            message: format!("expression is nested too deeply (maximum is {DEPTH_MAX} levels)"),
            detail: None,
            offset: self.begin,
            hint: Some("compute a part of it in a variable of its own".to_owned()),
        })
    }

    /// Parses an operand and the operators behind it that bind at least as strongly as `weakest`.
    fn operators(&mut self, weakest: u8) -> Parsed<Operand> {
        self.depth += 1;
        self.check_depth(self.depth)?;
        let mut left = self.prefix()?;
        let mut was_comparison = false;
        while let Some(binding) = binding_of(self.token).filter(|&binding| binding >= weakest) {
            let is_comparison = binding == level::COMPARISON;
            if is_comparison && was_comparison {
                return Err(self.unexpected("parentheses around one of two comparisons"));
            }
            was_comparison = is_comparison;
            left =
                if binding == level::IS { self.test(left)? } else { self.binary(left, binding)? };
        }
        self.depth -= 1;
        Ok(left)
    }

    /// Parses the operator looked at and its right side.
    fn binary(&mut self, left: Operand, binding: u8) -> Parsed<Operand> {
        let operator = self.token;
        self.advance()?;
        let right = self.operators(binding + 1)?;
        let (function, is_swapped) = match operator {
            Token::Keyword(Keyword::And) => {
                return self.combine([left, right], |both| Node::And(Box::new(both)));
            }
            Token::Keyword(Keyword::Or) => {
                return self.combine([left, right], |both| Node::Or(Box::new(both)));
            }
            Token::Symbol(symbol) => function_of(symbol),
            _ => unreachable!("only these tokens bind"),
        };
        // Subtle: a > b is b < a, so that b is evaluated first, as pgbench does; it matters when
        // both are random.
        let sides = if is_swapped { [right, left] } else { [left, right] };
        self.combine(sides, |both| Node::strict(function, both.into()))
    }

    /// Parses what follows a value in `IS [NOT] NULL|TRUE|FALSE`, `ISNULL` and `NOTNULL`.
    fn test(&mut self, left: Operand) -> Parsed<Operand> {
        let (value, is_negated) = match self.token {
            Token::Keyword(Keyword::IsNull) => (Value::Null, false),
            Token::Keyword(Keyword::NotNull) => (Value::Null, true),
            _ => {
                self.advance()?;
                let is_negated = self.accept(Token::Keyword(Keyword::Not))?;
                let value = match self.token {
                    Token::Keyword(Keyword::Null) => Value::Null,
                    Token::Keyword(Keyword::True) => Value::Bool(true),
                    Token::Keyword(Keyword::False) => Value::Bool(false),
                    _ => return Err(self.unexpected("NULL, TRUE or FALSE")),
                };
                (value, is_negated)
            }
        };
        self.advance()?;
        self.combine([left], |[node]| {
            let is = Node::strict(Function::Is, vec![node, Node::Constant(value)]);
            if is_negated { Node::strict(Function::Not, vec![is]) } else { is }
        })
    }

    /// Parses a value with the signs before it.
    fn prefix(&mut self) -> Parsed<Operand> {
        match self.token {
            Token::Symbol("+") => {
                self.advance()?;
                self.operators(level::SIGN)
            }
            Token::Symbol("-") => {
                self.advance()?;
                if self.accept(Token::IntegerBeyondMax)? {
                    return Ok(Operand::leaf(Node::Constant(Value::Int(i64::MIN))));
                }
                let operand = self.operators(level::SIGN)?;
                let zero = Operand::leaf(Node::Constant(Value::Int(0)));
                self.combine([zero, operand], |both| Node::strict(Function::Subtract, both.into()))
            }
            Token::Symbol("~") => {
                self.advance()?;
                let operand = self.operators(level::BITS + 1)?;
                let ones = Operand::leaf(Node::Constant(Value::Int(-1)));
                self.combine([ones, operand], |both| Node::strict(Function::BitXor, both.into()))
            }
            Token::Keyword(Keyword::Not) => {
                self.advance()?;
                let operand = self.operators(level::NOT)?;
                self.combine([operand], |[node]| Node::strict(Function::Not, vec![node]))
            }
            _ => self.primary(),
        }
    }

    fn primary(&mut self) -> Parsed<Operand> {
        let constant = match self.token {
            Token::Integer(value) => Value::Int(value),
            Token::Double(value) => Value::Double(value),
            Token::Keyword(Keyword::Null) => Value::Null,
            Token::Keyword(Keyword::True) => Value::Bool(true),
            Token::Keyword(Keyword::False) => Value::Bool(false),
            Token::Variable(name) => {
                let node = self.variable(name)?;
                self.advance()?;
                return Ok(Operand::leaf(node));
            }
            Token::Name(name) => return self.call(name),
            Token::Keyword(Keyword::Case) => return self.case(),
            Token::Symbol("(") => {
                self.advance()?;
                let operand = self.operators(level::OR)?;
                self.expect(Token::Symbol(")"), "\")\"")?;
                return Ok(operand);
            }
            Token::IntegerBeyondMax => {
                let mut fault = self.unexpected("a value");
                fault.hint = Some("the largest integer is 9223372036854775807".to_owned());
                return Err(fault);
            }
            _ => return Err(self.unexpected("a value")),
        };
        self.advance()?;
        Ok(Operand::leaf(Node::Constant(constant)))
    }

    fn variable(&mut self, name: &str) -> Parsed<Node> {
        self.variables.intern(name).map(Node::Variable).ok_or_else(|| {
            self.fault(self.begin, "too many variables (maximum is 65536)".to_owned())
        })
    }

    fn call(&mut self, name: &'a str) -> Parsed<Operand> {
        let begin = self.begin;
        let Some(&(name, function, arity)) = find_function(name) else {
            let mut fault = self.fault(begin, format!("unexpected function name ({name})"));
            let nearest = nearest_name(name, FUNCTIONS.iter().map(|(known, ..)| *known));
            fault.hint = Some(match (self.comment_hint(), nearest) {
                (Some(hint), _) => hint,
                (None, Some(nearest)) => format!("did you mean {nearest}?"),
                (None, None) => "a variable is written with a colon, as :name".to_owned(),
            });
            return Err(fault);
        };
        self.advance()?;
        self.expect(Token::Symbol("("), "\"(\"")?;
        let mut arguments = Vec::new();
        let mut depth = 0;
        if self.token != Token::Symbol(")") {
            // An empty place before the first comma is not an argument at all, as in pgbench.
            if self.token != Token::Symbol(",") {
                let argument = self.operators(level::OR)?;
                depth = argument.depth;
                arguments.push(argument.node);
            }
            while self.accept(Token::Symbol(","))? {
                let argument = self.operators(level::OR)?;
                depth = depth.max(argument.depth);
                arguments.push(argument.node);
            }
        }
        if self.token != Token::Symbol(")") {
            return Err(self.unexpected("\",\" or \")\""));
        }
        if let Some(fault) = arity.fault(name, arguments.len(), self.reading) {
            return Err(ExpressionFault { offset: begin, ..fault });
        }
        if matches!(arity, Arity::WithSeed(least) if arguments.len() == least) {
            arguments.push(self.variable("default_seed")?);
        }
        self.advance()?;
        self.check_depth(depth + 1)?;
        Ok(Operand { node: Node::strict(function, arguments), depth: depth + 1 })
    }

    fn case(&mut self) -> Parsed<Operand> {
        self.advance()?;
        let mut branches = Vec::new();
        let mut depth = 0;
        while self.accept(Token::Keyword(Keyword::When))? {
            let condition = self.operators(level::OR)?;
            self.expect(Token::Keyword(Keyword::Then), "THEN")?;
            let result = self.operators(level::OR)?;
            depth = depth.max(condition.depth).max(result.depth);
            branches.push((condition.node, result.node));
        }
        if branches.is_empty() {
            return Err(self.unexpected("WHEN"));
        }
        let otherwise = if self.accept(Token::Keyword(Keyword::Else))? {
            self.operators(level::OR)?
        } else {
            Operand::leaf(Node::Constant(Value::Null))
        };
        self.expect(Token::Keyword(Keyword::End), "WHEN, ELSE or END")?;
        let depth = 1 + depth.max(otherwise.depth);
        self.check_depth(depth)?;
        let case = Case { branches, otherwise: otherwise.node };
        Ok(Operand { node: Node::Case(Box::new(case)), depth })
    }
}

impl Arity {
    /// Returns the error of a call of `name` with this number of arguments, without its place.
    fn fault(self, name: &str, count: usize, reading: Reading) -> Option<ExpressionFault> {
        let (is_right, usage) = match self {
            Arity::Exactly(wanted) => (count == wanted, format!("{name} takes {wanted}")),
            Arity::WithSeed(least) => (
                count == least || count == least + 1,
                format!("{name} takes {least}, and a seed if you like"),
            ),
            Arity::AtLeastOne => (count >= 1, format!("{name} takes one or more")),
        };
        let message = match self {
            _ if is_right && (count <= ARGUMENTS_MAX || reading == Reading::AsPgbench) => {
                return None;
            }
            Arity::AtLeastOne if is_right => too_many_arguments(),
            Arity::AtLeastOne => format!("at least one argument expected ({name})"),
            _ => format!("unexpected number of arguments ({name})"),
        };
        let hint = Some(format!("{usage}, not {count}"));
        Some(ExpressionFault { message, detail: None, offset: 0, hint })
    }
}
