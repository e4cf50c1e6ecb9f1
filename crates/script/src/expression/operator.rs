//! The operators of expressions: how strongly they bind and which function they are.

use super::function::Function;
use super::token::{ExpressionToken as Token, Keyword};

/// Binding strengths, weakest first.
pub(super) mod level {
    pub(crate) const OR: u8 = 1;
    pub(crate) const AND: u8 = 2;
    pub(crate) const NOT: u8 = 3;
    pub(crate) const IS: u8 = 4;
    pub(crate) const COMPARISON: u8 = 5;
    pub(crate) const BITS: u8 = 6;
    pub(crate) const SUM: u8 = 7;
    pub(crate) const PRODUCT: u8 = 8;
    pub(crate) const SIGN: u8 = 9;
}

/// Returns how strongly a binary operator or test binds; None for any other token.
pub(super) fn binding_of(token: Token<'_>) -> Option<u8> {
    Some(match token {
        Token::Keyword(Keyword::Or) => level::OR,
        Token::Keyword(Keyword::And) => level::AND,
        Token::Keyword(Keyword::Is | Keyword::IsNull | Keyword::NotNull) => level::IS,
        Token::Symbol("<" | ">" | "=" | "<=" | ">=" | "<>" | "!=") => level::COMPARISON,
        Token::Symbol("|" | "#" | "&" | "<<" | ">>") => level::BITS,
        Token::Symbol("+" | "-") => level::SUM,
        Token::Symbol("*" | "/" | "%") => level::PRODUCT,
        _ => return None,
    })
}

/// Returns the function of a binary operator, and whether its sides change places.
pub(super) fn function_of(symbol: &str) -> (Function, bool) {
    match symbol {
        "+" => (Function::Add, false),
        "-" => (Function::Subtract, false),
        "*" => (Function::Multiply, false),
        "/" => (Function::Divide, false),
        "%" => (Function::Modulo, false),
        "=" => (Function::Equal, false),
        "<>" | "!=" => (Function::NotEqual, false),
        "<" => (Function::Less, false),
        "<=" => (Function::LessOrEqual, false),
        ">" => (Function::Less, true),
        ">=" => (Function::LessOrEqual, true),
        "|" => (Function::BitOr, false),
        "&" => (Function::BitAnd, false),
        "#" => (Function::BitXor, false),
        "<<" => (Function::ShiftLeft, false),
        ">>" => (Function::ShiftRight, false),
        _ => unreachable!("{symbol} is not a binary operator"),
    }
}
