//! Tokens of SQL text, as far as finding the end of a statement needs them.
//!
//! Source: the rules of psql's scanner, which pgbench shares, with standard_conforming_strings on.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Blanks and line ends.
    Space,
    /// `--` to the end of the line, without the line end.
    LineComment,
    /// `/* ... */`, which may be nested.
    BlockComment,
    /// A string, quoted identifier or dollar-quoted string.
    Quoted,
    /// A keyword or an identifier without quotes.
    Word,
    /// A number, or a parameter such as `$1`.
    Number,
    /// `:name`
    Variable,
    /// `;`
    Semicolon,
    /// `(`
    Open,
    /// `)`
    Close,
    /// `\;` or `\:`, which stand for their second character.
    Escaped,
    /// `\` before a meta command.
    Backslash,
    /// Any other character, and `::`.
    Other,
}

/// A token and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) end: usize,
}

/// Returns the token that begins at `start`, which must lie inside `text`.
///
/// What has no end, such as a string, goes on to the end of the text.
pub(crate) fn next_token(text: &[u8], start: usize) -> Token {
    let rest = &text[start..];
    let (kind, length) = match rest[0] {
        first if is_space(first) => (TokenKind::Space, count(rest, is_space)),
        b'-' if rest.starts_with(b"--") => {
            (TokenKind::LineComment, count(rest, |byte| !matches!(byte, b'\n' | b'\r')))
        }
        b'/' if rest.starts_with(b"/*") => (TokenKind::BlockComment, block_comment(rest)),
        b'\'' => (TokenKind::Quoted, string(rest, 1, false)),
        b'"' => (TokenKind::Quoted, quoted_identifier(rest)),
        b'$' => dollar(rest),
        b';' => (TokenKind::Semicolon, 1),
        b'(' => (TokenKind::Open, 1),
        b')' => (TokenKind::Close, 1),
        b'\\' if matches!(rest.get(1), Some(b';' | b':')) => (TokenKind::Escaped, 2),
        b'\\' => (TokenKind::Backslash, 1),
        b':' => colon(rest),
        b'0'..=b'9' => (TokenKind::Number, number(rest)),
        first if is_word_start(first) => word(rest),
        _ => (TokenKind::Other, 1),
    };
    Token { kind, end: start + length }
}

fn count(text: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|&byte| !belongs(byte)).unwrap_or(text.len())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c')
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || !byte.is_ascii()
}

fn is_word_byte(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn block_comment(text: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// Returns the length of a string whose contents begin at `at`, and of those that continue it
/// after blanks with a line end: they obey the same rule for backslashes.
fn string(text: &[u8], mut at: usize, has_escapes: bool) -> usize {
    while at < text.len() {
        match text[at] {
            b'\\' if has_escapes => at += 2,
            b'\'' if text.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => match continuation(&text[at + 1..]) {
                Some(skipped) if has_escapes => at += 1 + skipped,
                _ => return at + 1,
            },
            _ => at += 1,
        }
    }
    text.len()
}

/// Returns the length up to and with the quote that continues a string, if one does.
fn continuation(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut has_line_end = false;
    while let Some(&byte) = text.get(at) {
        if byte == b'\'' && has_line_end {
            return Some(at + 1);
        } else if is_space(byte) {
            has_line_end |= matches!(byte, b'\n' | b'\r');
            at += 1;
        } else if text[at..].starts_with(b"--") {
            at += count(&text[at..], |byte| !matches!(byte, b'\n' | b'\r'));
        } else {
            return None;
        }
    }
    None
}

fn quoted_identifier(text: &[u8]) -> usize {
    // A doubled quote inside ends one token and begins the next, which comes to the same.
    1 + text[1..].iter().position(|&byte| byte == b'"').map_or(text.len() - 1, |end| end + 1)
}

/// Scans what begins with `$`: a dollar-quoted string, a parameter, or only the sign.
fn dollar(text: &[u8]) -> (TokenKind, usize) {
    let tag_len = match text.get(1) {
        Some(byte) if byte.is_ascii_digit() => {
            return (TokenKind::Number, 1 + count(&text[1..], |byte| byte.is_ascii_digit()));
        }
        Some(&byte) if is_word_start(byte) => {
            count(&text[1..], |byte| is_word_byte(byte) && byte != b'$')
        }
        _ => 0,
    };
    if text.get(1 + tag_len) != Some(&b'$') {
        return (TokenKind::Other, 1);
    }
    let delimiter = &text[..tag_len + 2];
    let body = &text[delimiter.len()..];
    let end = body
        .windows(delimiter.len())
        .position(|window| window == delimiter)
        .map_or(text.len(), |at| at + 2 * delimiter.len());
    (TokenKind::Quoted, end)
}

fn colon(text: &[u8]) -> (TokenKind, usize) {
    if text.starts_with(b"::") {
        return (TokenKind::Other, 2);
    }
    // Subtle: digits may begin a name here though not in a substitution, and `$` ends it.
    match count(&text[1..], |byte| is_word_byte(byte) && byte != b'$') {
        0 => (TokenKind::Other, 1),
        name_len => (TokenKind::Variable, 1 + name_len),
    }
}

/// Returns the length of a number; a letter right behind it belongs to it, so that `1e'x'`
/// does not begin an escape string.
fn number(text: &[u8]) -> usize {
    let digits = count(text, |byte| byte.is_ascii_digit() || byte == b'_');
    match text.get(digits) {
        Some(byte) if byte.is_ascii_alphabetic() => digits + 1,
        _ => digits,
    }
}

/// Scans a word, or the string or quoted identifier it is a prefix of: `E'...'`, `U&"..."`.
fn word(text: &[u8]) -> (TokenKind, usize) {
    match text {
        [b'e' | b'E', b'\'', ..] => (TokenKind::Quoted, string(text, 2, true)),
        [b'b' | b'B' | b'x' | b'X' | b'n' | b'N', b'\'', ..] => {
            (TokenKind::Quoted, string(text, 2, false))
        }
        [b'u' | b'U', b'&', b'\'', ..] => (TokenKind::Quoted, string(text, 3, false)),
        [b'u' | b'U', b'&', b'"', ..] => (TokenKind::Quoted, 2 + quoted_identifier(&text[2..])),
        _ => (TokenKind::Word, count(text, is_word_byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits `text` into tokens, those of space left out.
    fn tokens(text: &str) -> Vec<(TokenKind, &str)> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let token = next_token(text.as_bytes(), at);
            assert!(token.end > at && token.end <= text.len(), "{text}");
            if token.kind != TokenKind::Space {
                found.push((token.kind, &text[at..token.end]));
            }
            at = token.end;
        }
        found
    }

    fn is_one_token(text: &str, kind: TokenKind) {
        assert_eq!(tokens(text), [(kind, text)]);
    }

    #[test]
    fn quoted_texts_hide_semicolons_and_backslashes() {
        for text in [
            "'a;b'",
            "'a''b;'",
            "'a\\'",
            "E'a\\';'",
            "e'a\\\\'",
            "\"a;b\"",
            "U&'a;'",
            "U&\"a;\"",
            "$$a;b$$",
            "$q$a;$$;$r$b$q$",
            "N'a;'",
            "B'0;'",
            "'open;",
            "E'\\",
            "$q$open;",
            "\"open;",
            "E'a'\n 'b\\';'",
            "E'a' -- note\n 'b\\';'",
        ] {
            is_one_token(text, TokenKind::Quoted);
        }
    }

    #[test]
    fn comments_are_nested_and_may_follow_an_operator() {
        is_one_token("/* a /* b; */ ; */", TokenKind::BlockComment);
        is_one_token("/* open ;", TokenKind::BlockComment);
        is_one_token("/*/ ; */", TokenKind::BlockComment);
        is_one_token("-- a ; ' \\", TokenKind::LineComment);
        assert_eq!(tokens("*/*;*/")[1], (TokenKind::BlockComment, "/*;*/"));
        assert_eq!(tokens("+--;")[1], (TokenKind::LineComment, "--;"));
    }

    #[test]
    fn a_dollar_inside_a_word_begins_no_string() {
        is_one_token("a$b$c", TokenKind::Word);
        is_one_token("$12", TokenKind::Number);
        assert_eq!(tokens("$a b$")[0], (TokenKind::Other, "$"));
    }

    #[test]
    fn colons_begin_variables_unless_they_cast() {
        is_one_token(":abc_1", TokenKind::Variable);
        assert_eq!(tokens("a::int")[1..], [(TokenKind::Other, "::"), (TokenKind::Word, "int")]);
        assert_eq!(tokens(":E'\\'").last(), Some(&(TokenKind::Quoted, "'\\'")));
        assert_eq!(tokens("::E'\\''").last(), Some(&(TokenKind::Quoted, "E'\\''")));
    }

    #[test]
    fn backslashes_escape_semicolons_or_begin_commands() {
        assert_eq!(tokens("\\;")[0].0, TokenKind::Escaped);
        assert_eq!(tokens("\\:")[0].0, TokenKind::Escaped);
        assert_eq!(tokens("\\gset")[0], (TokenKind::Backslash, "\\"));
    }

    #[test]
    fn a_letter_behind_a_number_begins_no_escape_string() {
        assert_eq!(tokens("1e'\\'").last(), Some(&(TokenKind::Quoted, "'\\'")));
    }
}
