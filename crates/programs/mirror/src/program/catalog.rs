//! The columns whose keys a load needs, and what the database knows about them.

use crate::load::ParameterSource;
use pgdyno_engine::dataset::sql::{quote_identifier, quote_literal};
use pgdyno_engine::program::{Session, Unready};

/// Columns of one table whose values come from one row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) table: String,
    pub(super) columns: Vec<String>,
    pub(super) is_not_null: bool,
    /// The rows with the most common values come first.
    pub(super) by_frequency: bool,
    /// Rows are found by the columns after the first one.
    pub(super) is_given: bool,
}

impl Wanted {
    /// Args: names as SQL has them, quoted where it needs quotes.
    pub(super) fn new(table: &str, columns: &[&str]) -> Wanted {
        let mut wanted = Wanted {
            table: table.to_owned(),
            columns: Vec::new(),
            is_not_null: false,
            by_frequency: false,
            is_given: false,
        };
        columns.iter().for_each(|name| wanted.add(name));
        wanted
    }

    /// Args: a source that is a column.
    pub(super) fn of(source: &ParameterSource) -> Wanted {
        let ParameterSource::Column { table, column, is_not_null, by_frequency, .. } = source
        else {
            unreachable!("the caller has a column");
        };
        Wanted {
            is_not_null: *is_not_null,
            by_frequency: *by_frequency,
            ..Wanted::new(table, &[column])
        }
    }

    pub(super) fn add(&mut self, column: &str) {
        let inner = column.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        self.columns.push(inner.map_or(column.to_owned(), |name| name.replace("\"\"", "\"")));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Text,
    Uuid,
    Time,
    Other,
}

/// What the catalogs know about a column and its table.
pub(super) struct Facts {
    pub(super) kind: Kind,
    pub(super) is_unique: bool,
    /// Estimated number of rows.
    pub(super) rows: f64,
    /// The table can be sampled.
    pub(super) has_pages: bool,
}

impl Facts {
    pub(super) async fn read(
        session: Session<'_>,
        table: &str,
        column: &str,
    ) -> Result<Facts, Unready> {
        let sql = format!(
            "SELECT b.typname, EXISTS (SELECT FROM pg_catalog.pg_index i \
             WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indnkeyatts = 1 \
             AND i.indkey[0] = a.attnum), \
             (SELECT sum(greatest(p.reltuples, 0))::float8 FROM pg_catalog.pg_class p \
             WHERE p.oid = c.oid OR p.oid IN \
             (SELECT relid FROM pg_catalog.pg_partition_tree(c.oid) WHERE isleaf)), \
             c.relkind IN ('r', 'p', 'm') \
             FROM pg_catalog.pg_attribute a \
             JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
             JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
             JOIN pg_catalog.pg_type b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid) \
             WHERE a.attrelid = {}::regclass AND a.attname = {} AND NOT a.attisdropped",
            quote_literal(table),
            quote_literal(column)
        );
        let row =
            session.ask(&sql, |rows| Ok(rows.maybe_one::<(String, bool, f64, bool)>()?)).await?;
        let Some((kind, is_unique, rows, has_pages)) = row else {
            return Err(Unready::Refused {
                message: format!("table {table} has no column {column}"),
                hint: "name the database that was made from the capture".to_owned(),
            });
        };
        let kind = match kind.as_str() {
            "int2" | "int4" | "int8" => Kind::Integer,
            "text" | "varchar" | "bpchar" | "citext" => Kind::Text,
            "uuid" => Kind::Uuid,
            "timestamp" | "timestamptz" => Kind::Time,
            _ => Kind::Other,
        };
        Ok(Facts { kind, is_unique, rows, has_pages })
    }
}

/// Return the smallest and the largest value of an integer column.
pub(super) async fn ends(
    session: Session<'_>,
    wanted: &Wanted,
) -> Result<(Option<i64>, Option<i64>), Unready> {
    let (column, table) = (quote_identifier(&wanted.columns[0]), &wanted.table);
    let sql = format!("SELECT min({column}), max({column}) FROM {table}");
    Ok(session.ask(&sql, |rows| Ok(rows.one::<(Option<i64>, Option<i64>)>()?)).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_column_is_the_column_of_that_name() {
        let wanted = Wanted::new("public.\"Order\"", &["id", "\"The \"\"id\"\"\""]);
        assert_eq!(wanted.columns, ["id", "The \"id\""]);
    }
}
