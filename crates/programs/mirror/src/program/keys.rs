//! Keys that exist in the database, and keys that do not exist yet.
//!
//! They are read before the load, because a copy has other rows than the source.

use std::sync::atomic::{AtomicU64, Ordering};

use super::existing::Existing;
use super::number::write_instant;
use crate::load::ParameterSource;
use pgdyno_engine::contract::job::ClockPair;
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

/// The keys of a run.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) existing: Vec<Existing>,
    pub(super) fresh: Vec<Fresh>,
}

impl Keys {
    /// Read the keys of these columns, and the largest key of each column that gets new ones.
    ///
    /// Errors: the database lacks a column, or a column has a type for which no new key is known.
    pub(super) async fn read(
        session: Session<'_>,
        wanted: &[Wanted],
        fresh: &[Wanted],
        terminals: u32,
    ) -> Result<Keys, Unready> {
        let mut keys = Keys { existing: Vec::new(), fresh: Vec::new() };
        for wanted in wanted {
            keys.existing.push(Existing::read(session, wanted).await?);
        }
        for wanted in fresh {
            keys.fresh.push(Fresh::read(session, wanted, terminals).await?);
        }
        Ok(keys)
    }
}

/// The last steps of splitmix64: every input has another output.
pub(super) fn scrambled(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// New keys of one column. Each terminal has every n-th number above `base`, so no two are equal.
#[derive(Debug)]
pub(super) struct Fresh {
    kind: Kind,
    base: u64,
    /// How many keys each terminal has used.
    used: Vec<AtomicU64>,
}

impl Fresh {
    async fn read(session: Session<'_>, wanted: &Wanted, terminals: u32) -> Result<Fresh, Unready> {
        let kind = Facts::read(session, &wanted.table, &wanted.columns[0]).await?.kind;
        let base = match kind {
            Kind::Integer => {
                ends(session, wanted).await?.1.map_or(1, |most| most.max(0) as u64 + 1)
            }
            // Later runs begin higher: no run makes a million keys a second.
            Kind::Text | Kind::Uuid | Kind::Time => ClockPair::now().unix_ns / 1000,
            Kind::Other => {
                return Err(Unready::Refused {
                    message: format!(
                        "column {} of {} has a type for which no new keys are known",
                        wanted.columns[0], wanted.table
                    ),
                    hint: "new keys may be integers, text, uuid or times".to_owned(),
                });
            }
        };
        Ok(Fresh { kind, base, used: (0..terminals).map(|_| AtomicU64::new(0)).collect() })
    }

    /// Append the next key of a terminal.
    pub(super) fn write(&self, terminal: u32, out: &mut Vec<u8>) {
        // Relaxed: only the thread of this terminal uses its counter.
        let used = self.used[terminal as usize].fetch_add(1, Ordering::Relaxed);
        let number = self.base + u64::from(terminal) + used * self.used.len() as u64;
        match self.kind {
            Kind::Text => out.extend_from_slice(format!("{number:x}").as_bytes()),
            Kind::Time => write_instant(number as i64, out),
            Kind::Uuid => {
                let (high, low) = (scrambled(number), scrambled(!number));
                let text = format!(
                    "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                    high >> 32,
                    high >> 16 & 0xffff,
                    high & 0xfff,
                    low >> 52,
                    low & 0xffff_ffff_ffff
                );
                out.extend_from_slice(text.as_bytes());
            }
            Kind::Integer | Kind::Other => {
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
        }
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
    use std::collections::BTreeSet;

    use super::*;

    fn fresh(kind: Kind, base: u64) -> Fresh {
        Fresh { kind, base, used: (0..3).map(|_| AtomicU64::new(0)).collect() }
    }

    fn next(keys: &Fresh, terminal: u32) -> String {
        let mut out = Vec::new();
        keys.write(terminal, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn new_keys_are_above_the_base_and_never_the_same() {
        let keys = fresh(Kind::Integer, 101);
        assert_eq!([next(&keys, 0), next(&keys, 2), next(&keys, 0)], ["101", "103", "104"]);
        for kind in [Kind::Text, Kind::Uuid, Kind::Time] {
            let keys = fresh(kind, 1_700_000_000_000_000);
            let all: BTreeSet<_> = (0..3000).map(|number| next(&keys, number % 3)).collect();
            assert_eq!(all.len(), 3000, "{kind:?}");
        }
        let uuid = next(&fresh(Kind::Uuid, 5), 0);
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    }

    #[test]
    fn a_quoted_column_is_the_column_of_that_name() {
        let wanted = Wanted::new("public.\"Order\"", &["id", "\"The \"\"id\"\"\""]);
        assert_eq!(wanted.columns, ["id", "The \"id\""]);
    }
}
