//! SQL that every dataset needs.

/// Put the mark of a job on `table`.
pub fn mark_table(table: &str, mark: &str) -> String {
    format!("comment on table {table} is {}", quote_literal(mark))
}

/// Drop whichever of `tables` are there.
pub fn drop_tables(tables: &[&str]) -> String {
    format!("drop table if exists {}", tables.join(", "))
}

/// Always quoted, as pgbench does.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Right for either value of `standard_conforming_strings`.
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
