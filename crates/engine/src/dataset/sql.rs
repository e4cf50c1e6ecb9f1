//! SQL that every dataset needs.

/// The statement that puts the mark of a job on `table`, as the table's comment.
pub fn mark_table(table: &str, mark: &str) -> String {
    format!("comment on table {table} is {}", quote_literal(mark))
}

/// The statement that drops those of `tables` that exist.
pub fn drop_tables(tables: &[&str]) -> String {
    format!("drop table if exists {}", tables.join(", "))
}

/// A quoted identifier; it is always quoted, as in pgbench.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A string literal that is correct with both values of `standard_conforming_strings`.
pub fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!(" E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_with_quotes_and_backslashes_stays_one_literal() {
        assert_eq!(mark_table("t", "it's"), "comment on table t is 'it''s'");
        assert_eq!(mark_table("t", r"a\'b"), r"comment on table t is  E'a\\''b'");
    }
}
