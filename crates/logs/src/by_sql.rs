//! `PREPARE` and `EXECUTE` as statements of SQL. The server writes the text of the `PREPARE` into
//! the detail of each `EXECUTE`, so an `EXECUTE` is read as a call of the prepared statement.

use crate::shape::{literal_end, space_end, token_end};

/// What a statement does with statements that are prepared by SQL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BySql<'a> {
    /// It prepares or forgets one.
    Prepares,
    /// It calls one with these arguments, as they are in the text.
    Calls(Vec<&'a [u8]>),
    Nothing,
}

/// Returns what a text does; `prepared` becomes the text of the statement that it calls, without
/// its name.
pub(crate) fn read<'a>(text: &'a [u8], detail: &[u8], prepared: &mut Vec<u8>) -> BySql<'a> {
    let start = space_end(text, 0);
    let Some(first) = text.get(start..).filter(|rest| !rest.is_empty()) else {
        return BySql::Nothing;
    };
    let word = &first[..token_end(first, 0)];
    let after = &first[word.len()..];
    if word.eq_ignore_ascii_case(b"deallocate") {
        return BySql::Prepares;
    }
    if word.eq_ignore_ascii_case(b"prepare") {
        // PREPARE TRANSACTION is another statement.
        let name = &after[space_end(after, 0)..];
        let is_transaction =
            name.get(..11).is_some_and(|begin| begin.eq_ignore_ascii_case(b"transaction"));
        return if is_transaction { BySql::Nothing } else { BySql::Prepares };
    }
    if !word.eq_ignore_ascii_case(b"execute") || !read_prepared(detail, prepared) {
        return BySql::Nothing;
    }
    arguments(after).map_or(BySql::Nothing, BySql::Calls)
}

/// Find `PREPARE NAME` in a detail; a word in any language comes before it.
fn read_prepared(detail: &[u8], out: &mut Vec<u8>) -> bool {
    let word = b"PREPARE";
    let is_word = |at: &usize| {
        let begin = detail[*at..].get(..word.len());
        let space = detail.get(*at + word.len()).is_some_and(u8::is_ascii_whitespace);
        space && begin.is_some_and(|begin| begin.eq_ignore_ascii_case(word))
    };
    let Some(at) = (0..detail.len()).find(is_word) else { return false };
    let rest = &detail[at + word.len()..];
    let rest = &rest[space_end(rest, 0)..];
    if rest.is_empty() {
        return false;
    }
    out.clear();
    out.extend_from_slice(b"PREPARE p");
    out.extend_from_slice(&rest[token_end(rest, 0)..]);
    true
}

/// Returns the arguments of `NAME(1, 'x', NULL)`; None if one is not a constant.
fn arguments(text: &[u8]) -> Option<Vec<&[u8]>> {
    let mut at = space_end(text, 0);
    at = token_end_at(text, at)?;
    at = space_end(text, at);
    let mut made = Vec::new();
    if text.get(at) == Some(&b'(') {
        loop {
            at = space_end(text, at + 1);
            text.get(at)?;
            let end = match literal_end(text, at, true) {
                Some(end) => end,
                None => word_end(text, at)?,
            };
            made.push(&text[at..end]);
            at = cast_end(text, space_end(text, end));
            match text.get(at)? {
                b',' => {}
                b')' => break,
                _ => return None,
            }
        }
        at += 1;
    }
    let rest = &text[at..];
    rest.iter().all(|byte| byte.is_ascii_whitespace() || *byte == b';').then_some(made)
}

fn token_end_at(text: &[u8], at: usize) -> Option<usize> {
    text.get(at).map(|_| token_end(text, at))
}

/// Returns the place after NULL, TRUE or FALSE.
fn word_end(text: &[u8], at: usize) -> Option<usize> {
    let end = token_end_at(text, at)?;
    let word = &text[at..end];
    let is_known =
        ["null", "true", "false"].iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    is_known.then_some(end)
}

/// Returns the place after `::type`, which may have several words, and spaces.
fn cast_end(text: &[u8], at: usize) -> usize {
    if !text[at..].starts_with(b"::") {
        return at;
    }
    let is_type = |byte: &u8| byte.is_ascii_alphanumeric() || b"_ .[]\"".contains(byte);
    at + 2 + text[at + 2..].iter().take_while(|byte| is_type(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::{BySql, read};

    fn read_with(text: &str, detail: &str) -> (Option<Vec<String>>, String) {
        let mut prepared = Vec::new();
        let arguments = match read(text.as_bytes(), detail.as_bytes(), &mut prepared) {
            BySql::Calls(arguments) => Some(
                arguments.iter().map(|raw| String::from_utf8_lossy(raw).into_owned()).collect(),
            ),
            _ => None,
        };
        (arguments, String::from_utf8_lossy(&prepared).into_owned())
    }

    #[test]
    fn an_execute_has_its_arguments_and_the_text_that_was_prepared() {
        let detail = "prepare: PREPARE \"my plan\"(int, text) AS SELECT $1, $2;";
        let (arguments, prepared) = read_with("EXECUTE \"my plan\" (-5, 'it''s');", detail);
        assert_eq!(arguments.expect("arguments"), ["-5", "'it''s'"]);
        assert_eq!(prepared, "PREPARE p(int, text) AS SELECT $1, $2;");
        let detail = "Vorbereitung: prepare a as SELECT 1";
        assert_eq!(
            read_with("execute a", detail),
            (Some(vec![]), "PREPARE p as SELECT 1".to_owned())
        );
        let (arguments, _) = read_with("EXECUTE a(NULL, true, '5'::character varying)", detail);
        assert_eq!(arguments.expect("arguments"), ["NULL", "true", "'5'"]);
    }

    #[test]
    fn an_argument_that_is_computed_makes_no_call() {
        let detail = "prepare: PREPARE a AS SELECT $1";
        for text in ["EXECUTE a(1 + 2)", "EXECUTE a(now())", "EXECUTE a(1", "EXECUTE", "SELECT 1"] {
            assert_eq!(read_with(text, detail).0, None, "{text}");
        }
        assert_eq!(read_with("EXECUTE a(1)", "").0, None);
    }

    #[test]
    fn prepare_is_known_and_a_prepared_transaction_is_not_one() {
        let mut prepared = Vec::new();
        for text in ["PREPARE a AS SELECT 1", "deallocate all"] {
            assert_eq!(read(text.as_bytes(), b"", &mut prepared), BySql::Prepares, "{text}");
        }
        let text = b"PREPARE TRANSACTION 'a'";
        assert_eq!(read(text, b"", &mut prepared), BySql::Nothing);
    }
}
