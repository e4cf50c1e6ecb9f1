//! Keys that exist in the database, and keys that do not exist yet.
//!
//! They are read before the load, because a copy has other rows than the source.

use std::sync::atomic::{AtomicU64, Ordering};

use pgdyno_script::Prng;

use super::super::{Session, Unready};
use super::number::write_instant;
use super::slots::Value;
use crate::contract::job::ClockPair;
use crate::dataset::sql::{quote_identifier, quote_literal};
use crate::values::Values;

/// Most rows of a table whose keys are kept.
const ROWS_MAX: u64 = 50_000;
/// A unique column is a range if at most this share of the range has no row.
const GAP_RATIO_MAX: f64 = 0.05;

/// Columns of one table whose values come from one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) table: String,
    pub(super) columns: Vec<String>,
    pub(super) is_not_null: bool,
}

impl Wanted {
    /// Args: names as SQL has them, quoted where it needs quotes.
    pub(super) fn new(table: &str, columns: &[&str]) -> Wanted {
        let mut wanted =
            Wanted { table: table.to_owned(), columns: Vec::new(), is_not_null: false };
        columns.iter().for_each(|name| wanted.add(name));
        wanted
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

/// Values that exist.
#[derive(Debug)]
pub(super) enum Existing {
    /// Nearly every number of the range is a key.
    Range { least: i64, most: i64 },
    /// Rows of the table, drawn at random. `values` has the columns of a row next to each other.
    Rows { width: usize, values: Vec<Option<Box<[u8]>>> },
}

impl Existing {
    async fn read(session: Session<'_>, wanted: &Wanted) -> Result<Existing, Unready> {
        let width = wanted.columns.len();
        let facts = Facts::read(session, &wanted.table, &wanted.columns[0]).await?;
        if width == 1 && facts.kind == Kind::Integer && facts.is_unique {
            let (least, most) = ends(session, wanted).await?;
            if let (Some(least), Some(most)) = (least, most)
                && ((most - least + 1) as f64) * (1.0 - GAP_RATIO_MAX) <= facts.rows.max(1.0)
            {
                return Ok(Existing::Range { least, most });
            }
        }
        let columns: Vec<_> =
            wanted.columns.iter().map(|name| quote_identifier(name) + "::text").collect();
        let percent = 120.0 * ROWS_MAX as f64 / facts.rows.max(1.0);
        let sample = match facts.has_pages && percent < 100.0 {
            true => format!(" TABLESAMPLE SYSTEM ({percent})"),
            false => String::new(),
        };
        let (list, table) = (columns.join(", "), &wanted.table);
        let some = match wanted.is_not_null {
            true => format!(" WHERE {} IS NOT NULL", quote_identifier(&wanted.columns[0])),
            false => String::new(),
        };
        let sql = format!("SELECT {list} FROM {table}{sample}{some} LIMIT {ROWS_MAX}");
        let values = session
            .ask(&sql, |rows| {
                let mut values = Vec::new();
                while rows.next_columns(|_, value| values.push(value.map(Box::from)))? {}
                Ok(values)
            })
            .await?;
        Ok(Existing::Rows { width, values })
    }

    /// Choose a row.
    ///
    /// Args: `access`, the distribution of the accesses; absent = every row is equally likely.
    /// `range`, the ends of the column in the source.
    pub(super) fn choose(
        &self,
        access: Option<&Values>,
        range: Option<(i64, i64)>,
        random: &mut Prng,
    ) -> Chosen {
        let mut drawn = Vec::new();
        let is_drawn = access.is_some_and(|access| access.draw(random, &mut drawn));
        match *self {
            Existing::Range { least, most } => {
                let asked = std::str::from_utf8(&drawn).ok().and_then(|text| text.parse().ok());
                Chosen::Number(match asked {
                    Some(asked) if is_drawn => moved(asked, range, (least, most)),
                    _ => random.uniform(least, most),
                })
            }
            Existing::Rows { width, ref values } => match values.len() / width {
                0 => Chosen::Nothing,
                // A value of the source always means the same row, so hot values stay hot.
                count if is_drawn => Chosen::Row((mixed(&drawn) % count as u64) as usize),
                count => Chosen::Row(random.offset(count as u64 - 1) as usize),
            },
        }
    }

    /// Return a column of a row of a table that is not a range.
    pub(super) fn column(&self, row: usize, column: usize) -> Value<'_> {
        match self {
            Existing::Range { .. } => None,
            Existing::Rows { width, values } => values[row * width + column].as_deref(),
        }
    }
}

/// The key that a step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    Number(i64),
    Row(usize),
    /// The table is empty.
    Nothing,
}

/// Return the place in `to` that corresponds to a place in `from`.
fn moved(value: i64, from: Option<(i64, i64)>, to: (i64, i64)) -> i64 {
    let from = from.unwrap_or(to);
    let (length, space) = (distance(to), distance(from));
    let offset = (i128::from(value) - i128::from(from.0)).clamp(0, space as i128) as u128;
    let scaled = (offset * length).checked_div(space).unwrap_or(0);
    (i128::from(to.0) + scaled as i128) as i64
}

/// Return the length of a range; 0 if its ends are the wrong way round.
fn distance((least, most): (i64, i64)) -> u128 {
    (i128::from(most) - i128::from(least)).max(0) as u128
}

/// FNV-1a, and then a mixture of its bits.
fn mixed(text: &[u8]) -> u64 {
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    scrambled(hash)
}

/// The last steps of splitmix64: every input has another output.
fn scrambled(number: u64) -> u64 {
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
enum Kind {
    Integer,
    Text,
    Uuid,
    Time,
    Other,
}

/// What the catalogs know about a column and its table.
struct Facts {
    kind: Kind,
    is_unique: bool,
    /// Estimated number of rows.
    rows: f64,
    /// The table can be sampled.
    has_pages: bool,
}

impl Facts {
    async fn read(session: Session<'_>, table: &str, column: &str) -> Result<Facts, Unready> {
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
async fn ends(
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

    #[test]
    fn a_place_of_the_source_is_the_same_place_in_the_copy() {
        assert_eq!(moved(1, Some((1, 1000)), (1, 100)), 1);
        assert_eq!(moved(1000, Some((1, 1000)), (1, 100)), 100);
        assert_eq!(moved(500, Some((0, 1000)), (100, 200)), 150);
        assert_eq!(moved(7, None, (1, 100)), 7);
        assert_eq!(moved(7, None, (1, 5)), 5);
        assert_eq!(moved(i64::MAX, Some((i64::MIN, i64::MAX)), (i64::MIN, i64::MAX)), i64::MAX);
    }

    #[test]
    fn a_hot_value_of_the_source_is_a_hot_row_of_the_copy() {
        let rows = (0..100).map(|number: u32| Some(number.to_string().into_bytes().into()));
        let keys = Existing::Rows { width: 2, values: rows.collect() };
        let hot = r#"{"kind":"text","distinct":1,"hot":[{"value":"xyz","fraction":1.0}]}"#;
        let hot = Values::new(&serde_json::from_str(hot).unwrap()).unwrap();
        let mut random = Prng::from_seed(1);
        let mut draw = || keys.choose(Some(&hot), None, &mut random);
        let first = draw();
        assert!((0..20).all(|_| draw() == first));
        let Chosen::Row(row) = first else { panic!("{first:?}") };
        let text = |column| String::from_utf8(keys.column(row, column).unwrap().into()).unwrap();
        assert_eq!(text(0).parse::<usize>().unwrap() + 1, text(1).parse::<usize>().unwrap());
        let mut random = Prng::from_seed(2);
        let drawn: BTreeSet<_> =
            (0..500).map(|_| format!("{:?}", keys.choose(None, None, &mut random))).collect();
        assert_eq!(drawn.len(), 50);
    }
}
