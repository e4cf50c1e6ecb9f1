//! Tokens of expressions.

use crate::text_value::parse_double;
use crate::variables::is_name_byte;

/// What a token of an expression is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ExpressionToken<'a> {
    Integer(i64),
    /// 9223372036854775808, which is a number only behind a minus sign.
    IntegerBeyondMax,
    Double(f64),
    /// `:name`, without the colon.
    Variable(&'a str),
    /// A name of a function.
    Name(&'a str),
    Keyword(Keyword),
    /// An operator, parenthesis or comma.
    Symbol(&'static str),
    /// The end of the line or of the script.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    And,
    Or,
    Not,
    Is,
    IsNull,
    NotNull,
    Case,
    When,
    Then,
    Else,
    End,
    Null,
    True,
    False,
}

const KEYWORDS: &[(&str, Keyword)] = &[
    ("and", Keyword::And),
    ("or", Keyword::Or),
    ("not", Keyword::Not),
    ("is", Keyword::Is),
    ("isnull", Keyword::IsNull),
    ("notnull", Keyword::NotNull),
    ("case", Keyword::Case),
    ("when", Keyword::When),
    ("then", Keyword::Then),
    ("else", Keyword::Else),
    ("end", Keyword::End),
    ("null", Keyword::Null),
    ("true", Keyword::True),
    ("false", Keyword::False),
];

/// Longer ones first, so that `<=` is not taken for `<`.
const SYMBOLS: &[&str] = &[
    "<>", "!=", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "=", "<", ">", "|", "&", "#", "~",
    "(", ")", ",",
];

/// Reads the token at or behind `start`; returns it with where it begins and ends.
///
/// A newline is not read: the token at the end of a line is empty.
/// Errors: message and place of a character or number that is not a token.
pub(crate) fn next_expression_token(
    text: &str,
    start: usize,
) -> Result<(ExpressionToken<'_>, usize, usize), (String, usize)> {
    let begin = start + blank_length(&text[start..]);
    let rest = &text[begin..];
    let Some(first) = rest.chars().next().filter(|&c| c != '\n') else {
        return Ok((ExpressionToken::End, begin, begin));
    };
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        return Ok((ExpressionToken::Symbol(symbol), begin, begin + symbol.len()));
    }
    if first.is_ascii_digit() || first == '.' {
        let length = number_length(rest);
        if length > 0 {
            let token = number(&rest[..length]).map_err(|message| (message, begin))?;
            return Ok((token, begin, begin + length));
        }
    }
    let name_len = |text: &str| text.bytes().position(|byte| !is_name_byte(byte));
    if first == ':' {
        let length = name_len(&rest[1..]).unwrap_or(rest.len() - 1);
        if length > 0 {
            let name = &rest[1..=length];
            return Ok((ExpressionToken::Variable(name), begin, begin + 1 + length));
        }
    }
    match name_len(rest).unwrap_or(rest.len()) {
        0 => Err((format!("unexpected character ({first})"), begin)),
        length => Ok((name_or_keyword(&rest[..length]), begin, begin + length)),
    }
}

/// Returns the length of blanks and continuations (a backslash at the end of a line).
pub(crate) fn blank_length(text: &str) -> usize {
    let mut at = 0;
    loop {
        at += match text.as_bytes()[at..] {
            [b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c', ..] => 1,
            [b'\\', b'\n', ..] => 2,
            [b'\\', b'\r', b'\n', ..] => 3,
            _ => return at,
        };
    }
}

fn name_or_keyword(name: &str) -> ExpressionToken<'_> {
    KEYWORDS
        .iter()
        .find(|(keyword, _)| keyword.eq_ignore_ascii_case(name))
        .map_or(ExpressionToken::Name(name), |&(_, keyword)| ExpressionToken::Keyword(keyword))
}

/// Returns the length of the number at the start of `text`: digits, with a point or exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        bytes[from..].iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len() - from)
    };
    let integer = digits(0);
    let mut length = integer;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits(length + 1);
        if integer + fraction == 0 {
            return 0;
        }
        length += 1 + fraction;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = if length + 1 + sign < bytes.len() { digits(length + 1 + sign) } else { 0 };
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}

fn number(text: &str) -> Result<ExpressionToken<'static>, String> {
    if text == "9223372036854775808" {
        return Ok(ExpressionToken::IntegerBeyondMax);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text
            .parse()
            .map(ExpressionToken::Integer)
            .map_err(|_| format!("bigint constant overflow ({text})"));
    }
    parse_double(text)
        .map(ExpressionToken::Double)
        .ok_or_else(|| format!("double constant overflow ({text})"))
}
