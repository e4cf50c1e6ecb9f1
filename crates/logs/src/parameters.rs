//! The parameters of a statement: `$1 = '5', $2 = NULL` in the detail of its message.

/// One parameter, in the order of their numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parameter<'a> {
    Null,
    /// With its quotes, in which a quote is written twice; a number has none.
    Quoted(&'a [u8]),
    /// The detail ends within this parameter, or cannot be read from here on.
    Cut,
}

/// How far into the detail the first parameter may begin: a word in any language comes before.
const WORD_BYTES_MAX: usize = 80;

/// Yields the parameters of a detail; nothing if it has none. The word before them is in the
/// server's language, and is not needed.
pub(crate) fn parameters(detail: &[u8]) -> impl Iterator<Item = Parameter<'_>> {
    let window = &detail[..detail.len().min(WORD_BYTES_MAX)];
    let mut rest = memchr::memmem::find(window, b"$1 = ").map(|at| &detail[at..]);
    let mut number = 0;
    std::iter::from_fn(move || {
        let text = rest.take().filter(|text| !text.is_empty())?;
        number += 1;
        let Some(value) = after_name(text, number) else { return Some(Parameter::Cut) };
        let (parameter, after) = if let Some(after) = value.strip_prefix(b"NULL") {
            (Parameter::Null, after)
        } else if let Some(length) = quoted_length(value) {
            (Parameter::Quoted(&value[..length]), &value[length..])
        } else {
            return Some(Parameter::Cut);
        };
        rest = after.strip_prefix(b", ");
        Some(parameter)
    })
}

/// What follows `$NUMBER = `.
fn after_name(text: &[u8], number: u64) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"$")?;
    let rest = rest.strip_prefix(itoa::Buffer::new().format(number).as_bytes())?;
    rest.strip_prefix(b" = ")
}

fn quoted_length(text: &[u8]) -> Option<usize> {
    text.strip_prefix(b"'")?;
    let mut at = 1;
    loop {
        at += memchr::memchr(b'\'', text.get(at..)?)? + 1;
        if text.get(at) != Some(&b'\'') {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Parameter, parameters};

    fn read(detail: &str) -> Vec<Parameter<'_>> {
        parameters(detail.as_bytes()).collect()
    }

    #[test]
    fn parameters_are_read_in_every_language() {
        let expected = [Parameter::Quoted(b"'5'"), Parameter::Null, Parameter::Quoted(b"'it''s'")];
        for word in ["parameters: ", "Parameters: ", "paramètres : ", "パラメータ: ", ""] {
            assert_eq!(read(&format!("{word}$1 = '5', $2 = NULL, $3 = 'it''s'")), expected);
        }
    }

    #[test]
    fn a_comma_within_a_text_does_not_begin_a_parameter() {
        let detail = "parameters: $1 = 'a'', $2 = ''b', $2 = ''";
        let expected = [Parameter::Quoted(b"'a'', $2 = ''b'"), Parameter::Quoted(b"''")];
        assert_eq!(read(detail), expected);
    }

    #[test]
    fn a_cut_detail_ends_with_a_cut_parameter() {
        let first = Parameter::Quoted(b"'5'");
        assert_eq!(read("parameters: $1 = '5', $2 = 'abc"), [first, Parameter::Cut]);
        assert_eq!(read("parameters: $1 = '5', $"), [Parameter::Quoted(b"'5'"), Parameter::Cut]);
        assert_eq!(read("prepare: PREPARE a AS SELECT 1"), []);
    }
}
