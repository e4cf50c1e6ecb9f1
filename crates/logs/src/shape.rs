//! The shape of a statement: its text without constants, so that equal statements are recognised
//! without a parser, and the constants apart.
//!
//! Limits: words, not grammar. Which constants may become parameters is for the grammar to decide,
//! once for each shape.

/// A constant, or the list of constants of `IN (...)`, as a part of the canonical text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Literal {
    pub start: usize,
    pub end: usize,
    pub is_list: bool,
}

/// What `scan` returns; its buffers are used again.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// The canonical text with `?` for every constant: equal for statements of one shape.
    pub key: Vec<u8>,
    /// The statement without comments and with single spaces.
    pub text: Vec<u8>,
    pub literals: Vec<Literal>,
}

/// What stands before a token, as far as it decides whether `-` is a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Operand,
    /// An operator, a comma, an opening bracket, or a word after which a value comes.
    Value,
    /// The word IN.
    In,
}

const VALUE_FOLLOWS: &[&[u8]] = &[
    b"and",
    b"or",
    b"not",
    b"between",
    b"like",
    b"ilike",
    b"limit",
    b"offset",
    b"values",
    b"set",
    b"where",
    b"then",
    b"else",
    b"when",
    b"select",
    b"returning",
    b"by",
    b"on",
    b"is",
    b"having",
    b"case",
    b"distinct",
    b"any",
    b"all",
    b"default",
    b"fetch",
    b"using",
    b"with",
];

impl Shape {
    /// Split a statement into its shape and its constants.
    pub(crate) fn scan(&mut self, sql: &[u8]) {
        self.key.clear();
        self.text.clear();
        self.literals.clear();
        let (mut at, mut before) = (0, Before::Value);
        while at < sql.len() {
            let space = space_end(sql, at);
            if space > at {
                self.space();
                at = space;
                continue;
            }
            let is_list = before == Before::In && sql[at] == b'(';
            if let Some(end) = is_list.then(|| list_end(sql, at)).flatten() {
                self.literal(&sql[at..end], true);
                (at, before) = (end, Before::Operand);
                continue;
            }
            if let Some(end) = literal_end(sql, at, before != Before::Operand) {
                self.literal(&sql[at..end], false);
                (at, before) = (end, Before::Operand);
                continue;
            }
            let end = token_end(sql, at);
            let token = &sql[at..end];
            self.key.extend_from_slice(token);
            self.text.extend_from_slice(token);
            before = before_next(token);
            at = end;
        }
        // A constant without its closing quote may end with a space, which stays.
        while self.key.last() == Some(&b' ') {
            self.text.pop();
            self.key.pop();
        }
    }

    fn space(&mut self) {
        if !self.text.is_empty() && self.text.last() != Some(&b' ') {
            self.text.push(b' ');
            self.key.push(b' ');
        }
    }

    fn literal(&mut self, raw: &[u8], is_list: bool) {
        let start = self.text.len();
        self.text.extend_from_slice(raw);
        self.key.extend_from_slice(if is_list { b"(?)" } else { b"?" });
        self.literals.push(Literal { start, end: self.text.len(), is_list });
    }
}

/// Returns the place after spaces and comments; hints of `pg_hint_plan` are not comments.
pub(crate) fn space_end(sql: &[u8], start: usize) -> usize {
    let mut at = start;
    while at < sql.len() {
        let rest = &sql[at..];
        if rest[0].is_ascii_whitespace() {
            at += 1;
        } else if rest.starts_with(b"--") {
            at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        } else if rest.starts_with(b"/*") && !rest.starts_with(b"/*+") {
            at += comment_length(rest);
        } else {
            break;
        }
    }
    at
}

fn comment_length(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn is_operator(byte: u8) -> bool {
    b"+-*/<>=~!@#%^&|`?".contains(&byte)
}

/// Returns the place after the constant that begins at `at`, with its sign.
pub(crate) fn literal_end(sql: &[u8], at: usize, may_have_sign: bool) -> Option<usize> {
    let rest = &sql[at..];
    let next = |offset: usize| rest.get(offset).copied().unwrap_or(0);
    match rest[0] {
        b'\'' => Some(at + quoted_length(rest, false)),
        b'$' if !next(1).is_ascii_digit() => dollar_length(rest).map(|length| at + length),
        b'0'..=b'9' => Some(at + number_length(rest)),
        b'.' if next(1).is_ascii_digit() => Some(at + number_length(rest)),
        b'-' if may_have_sign && !(at > 0 && is_operator(sql[at - 1])) => {
            let is_number = next(1).is_ascii_digit() || next(1) == b'.' && next(2).is_ascii_digit();
            is_number.then(|| at + 1 + number_length(&rest[1..]))
        }
        b'e' | b'E' | b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if next(1) == b'\'' => {
            let is_escaped = rest[0].eq_ignore_ascii_case(&b'e');
            Some(at + 1 + quoted_length(&rest[1..], is_escaped))
        }
        b'u' | b'U' if next(1) == b'&' && next(2) == b'\'' => {
            Some(at + 2 + quoted_length(&rest[2..], false))
        }
        _ => None,
    }
}

fn quoted_length(text: &[u8], is_escaped: bool) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\'' if text.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return at + 1,
            b'\\' if is_escaped => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn dollar_length(text: &[u8]) -> Option<usize> {
    let tag = text[1..].iter().take_while(|byte| is_word(**byte) && **byte != b'$').count();
    if text.get(tag + 1) != Some(&b'$') {
        return None;
    }
    let quote = &text[..tag + 2];
    let inner = memchr::memmem::find(&text[quote.len()..], quote);
    Some(inner.map_or(text.len(), |length| length + 2 * quote.len()))
}

fn number_length(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let is_exponent_sign = matches!(byte, b'+' | b'-')
            && matches!(text[at.saturating_sub(1)], b'e' | b'E')
            && !text.starts_with(b"0x")
            && text.get(at + 1).is_some_and(u8::is_ascii_digit);
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || is_exponent_sign) {
            break;
        }
        at += 1;
    }
    at.max(1)
}

/// Returns the place after `(1, 2, 'x')` if it is a list of constants alone.
fn list_end(sql: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at = space_end(sql, at);
        sql.get(at)?;
        at = space_end(sql, literal_end(sql, at, true)?);
        match sql.get(at)? {
            b',' => at += 1,
            b')' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// Returns the place after a word, a quoted name, or one character.
pub(crate) fn token_end(sql: &[u8], at: usize) -> usize {
    match sql[at] {
        b'"' => memchr::memchr(b'"', &sql[at + 1..]).map_or(sql.len(), |length| at + length + 2),
        byte if is_word(byte) => at + sql[at..].iter().take_while(|byte| is_word(**byte)).count(),
        // A hint stays as it is.
        b'/' if sql[at..].starts_with(b"/*+") => at + comment_length(&sql[at..]),
        _ => at + 1,
    }
}

fn before_next(token: &[u8]) -> Before {
    let first = token[0];
    if token.eq_ignore_ascii_case(b"in") {
        return Before::In;
    }
    let is_value_word = || VALUE_FOLLOWS.iter().any(|word| word.eq_ignore_ascii_case(token));
    if is_operator(first) || matches!(first, b'(' | b',' | b'[' | b':') || is_value_word() {
        return Before::Value;
    }
    Before::Operand
}

/// Write the value of a constant: without quotes, escapes resolved.
pub(crate) fn write_value(raw: &[u8], out: &mut Vec<u8>) {
    let (is_escaped, quoted) = match raw[0] {
        b'\'' => (false, raw),
        b'e' | b'E' => (true, &raw[1..]),
        b'b' | b'B' | b'x' | b'X' | b'n' | b'N' => (false, &raw[1..]),
        b'u' | b'U' => (false, &raw[2..]),
        b'$' => {
            let quote = memchr::memchr(b'$', &raw[1..]).map_or(1, |at| at + 2);
            let end = raw.len().saturating_sub(quote);
            return out.extend_from_slice(raw.get(quote..end).unwrap_or_default());
        }
        _ => return out.extend_from_slice(raw),
    };
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    let mut at = 0;
    while at < inner.len() {
        match inner[at] {
            b'\'' => at += 1,
            b'\\' if is_escaped => {
                at += 1;
                let letter = inner.get(at).copied().unwrap_or(b'\\');
                out.push(match letter {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    other => other,
                });
                at += 1;
                continue;
            }
            _ => {}
        }
        out.extend(inner.get(at));
        at += 1;
    }
}

/// Calls `take` with every constant of `(1, 2, 'x')`.
pub(crate) fn list_values(raw: &[u8], mut take: impl FnMut(&[u8])) {
    let mut at = 1;
    while at < raw.len() {
        at = space_end(raw, at);
        let Some(end) = raw.get(at).and_then(|_| literal_end(raw, at, true)) else { break };
        take(&raw[at..end]);
        at = space_end(raw, end) + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Shape, list_values, write_value};

    fn shape(sql: &str) -> (String, Vec<String>) {
        let mut shape = Shape::default();
        shape.scan(sql.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let literals = shape.literals.iter().map(|at| text(&shape.text[at.start..at.end]));
        (text(&shape.key), literals.collect())
    }

    #[test]
    fn constants_leave_the_shape() {
        let (key, literals) = shape("UPDATE a SET b = b + -17 WHERE c='it''s' AND d = 1.5e-3");
        assert_eq!(key, "UPDATE a SET b = b + ? WHERE c=? AND d = ?");
        assert_eq!(literals, ["-17", "'it''s'", "1.5e-3"]);
    }

    #[test]
    fn names_parameters_and_casts_stay() {
        let sql = "SELECT t1.a2, \"x 1\" FROM t1 WHERE a = $1::int4 AND b[2] - 3 > 0";
        assert_eq!(
            shape(sql).0,
            "SELECT t1.a2, \"x 1\" FROM t1 WHERE a = $1::int4 AND b[?] - ? > ?"
        );
        assert_eq!(shape(sql).1, ["2", "3", "0"]);
    }

    #[test]
    fn comments_do_not_make_another_shape_and_hints_do() {
        let plain = shape("SELECT 1");
        assert_eq!(shape("/* trace=12 */ SELECT  /* a /* b */ */ 1 -- end").0, plain.0);
        assert_eq!(shape("SELECT\n\t1").0, plain.0);
        assert_eq!(shape("/*+ SeqScan(a) */ SELECT 1").0, "/*+ SeqScan(a) */ SELECT ?");
    }

    #[test]
    fn a_list_of_constants_is_one_constant_of_any_length() {
        assert_eq!(shape("a IN (1, -2,'x') AND b").0, "a IN (?) AND b");
        assert_eq!(shape("a in (1)").0, "a in (?)");
        assert_eq!(shape("a IN (SELECT 1)").0, "a IN (SELECT ?)");
        let mut values = Vec::new();
        list_values(b"(1, -2,'x')", |raw| values.push(raw.to_vec()));
        assert_eq!(values, [b"1".to_vec(), b"-2".to_vec(), b"'x'".to_vec()]);
    }

    #[test]
    fn values_of_quoted_constants_have_no_quotes() {
        for (raw, value) in [
            ("'it''s'", "it's"),
            (r"E'a\'b\n'", "a'b\n"),
            ("$x$it's$x$", "it's"),
            ("-3", "-3"),
            ("x'1F'", "1F"),
            ("''", ""),
        ] {
            let mut out = Vec::new();
            write_value(raw.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), value, "{raw}");
        }
    }
}
