//! Keys that exist in the database, and which of them a transaction uses.

use std::collections::HashMap;
use std::ops::Range;

use pgdyno_script::Prng;

use super::catalog::{Facts, Kind, Wanted, ends};
use super::number::scrambled;
use super::slots::Value;
use super::step::Access;
use pgdyno_engine::dataset::sql::quote_identifier;
use pgdyno_engine::program::{Session, Unready};

/// Most rows of a table whose keys are kept.
const ROWS_MAX: u64 = 50_000;
/// A unique column of a large table is a range if at most this share of the range has no row.
const GAP_RATIO_MAX: f64 = 0.05;

/// Values that exist.
#[derive(Debug)]
pub(super) enum Existing {
    /// Every number of the range is a key; of a large table, nearly every one.
    Range { least: i64, most: i64 },
    /// Rows of the table, drawn at random. `values` has the columns of a row next to each other.
    /// `ordered`: the numbers of the first column, each with its row; empty if it has others.
    Rows { width: usize, values: Vec<Option<Box<[u8]>>>, ordered: Vec<(i64, u32)> },
    /// Rows of the table by the values of all columns but the first. `values` has the rows with
    /// equal ones next to each other.
    Given {
        width: usize,
        values: Vec<Option<Box<[u8]>>>,
        places: HashMap<Vec<Box<[u8]>>, Range<usize>>,
    },
}

impl Existing {
    pub(super) async fn read(session: Session<'_>, wanted: &Wanted) -> Result<Existing, Unready> {
        let width = wanted.columns.len();
        let facts = Facts::read(session, &wanted.table, &wanted.columns[0]).await?;
        if width == 1 && facts.kind == Kind::Integer && facts.is_unique && !wanted.by_frequency {
            let (least, most) = ends(session, wanted).await?;
            if let (Some(least), Some(most)) = (least, most) {
                let length = (most - least + 1) as f64;
                let is_range = match facts.rows <= ROWS_MAX as f64 {
                    // A row cannot refer to a key that is missing.
                    true => length == count(session, &wanted.table).await? as f64,
                    false => length * (1.0 - GAP_RATIO_MAX) <= facts.rows,
                };
                if is_range {
                    return Ok(Existing::Range { least, most });
                }
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
        let mut values = session
            .ask(&sql, |rows| {
                let mut values = Vec::new();
                while rows.next_columns(|_, value| values.push(value.map(Box::from)))? {}
                Ok(values)
            })
            .await?;
        if wanted.is_given {
            return Ok(Existing::given(width, &values));
        }
        if wanted.by_frequency {
            values = by_frequency(&values, width);
        }
        Ok(Existing::of_rows(width, values, facts.kind == Kind::Integer && !wanted.by_frequency))
    }

    fn of_rows(width: usize, values: Vec<Option<Box<[u8]>>>, is_integer: bool) -> Existing {
        let mut ordered: Vec<(i64, u32)> = Vec::new();
        if is_integer {
            let firsts = values.iter().step_by(width.max(1)).zip(0..);
            ordered
                .extend(firsts.filter_map(|(value, row)| Some((number(value.as_deref()?)?, row))));
            ordered.sort_unstable();
        }
        Existing::Rows { width, values, ordered }
    }

    fn given(width: usize, values: &Row) -> Existing {
        let mut rows: Vec<&Row> = values.chunks(width).collect();
        rows.sort_by(|a, b| a[1..].cmp(&b[1..]));
        let mut places: HashMap<Vec<Box<[u8]>>, Range<usize>> = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            // A row with NULL is not equal to anything.
            if let Some(key) = row[1..].iter().cloned().collect::<Option<Vec<_>>>() {
                places.entry(key).or_insert(place..place).end = place + 1;
            }
        }
        let values = rows.into_iter().flatten().cloned().collect();
        Existing::Given { width, values, places }
    }

    /// Choose a row that has these values in all columns but the first.
    pub(super) fn choose_given(&self, given: &[Value<'_>], random: &mut Prng) -> Option<usize> {
        let Existing::Given { places, .. } = self else { return None };
        let key: Option<Vec<Box<[u8]>>> = given.iter().map(|value| value.map(Box::from)).collect();
        let rows = places.get(&key?)?;
        Some(random.uniform(rows.start as i64, rows.end as i64 - 1) as usize)
    }

    /// Choose a row.
    ///
    /// Args: `own`, the place of the client among all (0..1) if it takes the value that it keeps.
    pub(super) fn choose(&self, access: &Access, own: Option<f64>, random: &mut Prng) -> Chosen {
        let mut drawn = Vec::new();
        let is_drawn = access.values.as_deref().is_some_and(|values| match own {
            Some(share) => values.write_at_share(share, &mut drawn),
            None => values.draw(random, &mut drawn),
        });
        let place = |random: &mut Prng, (least, most): (i64, i64)| match own {
            Some(share) => least + (share * (distance((least, most)) as f64 + 1.0)) as i64,
            None => random.uniform(least, most),
        };
        if access.by_frequency && access.values.is_some() && !is_drawn {
            return Chosen::Nothing;
        }
        let asked = is_drawn.then(|| number(&drawn)).flatten();
        match *self {
            Existing::Range { least, most } => Chosen::Number(match asked {
                Some(asked) => moved(asked, access.range, (least, most)),
                None => place(random, (least, most)),
            }),
            Existing::Rows { width, ref values, ref ordered } => {
                let count = values.len() / width;
                // A value of the source always means the same row, so hot values stay hot.
                let of_all = |drawn: &[u8]| (mixed(drawn) % count as u64) as usize;
                let share = || std::str::from_utf8(&drawn).ok()?.parse::<f64>().ok();
                match (asked, ordered.first(), ordered.last()) {
                    _ if count == 0 => Chosen::Nothing,
                    _ if access.by_frequency && is_drawn => {
                        let row = share().unwrap_or(0.0) * count as f64;
                        Chosen::Row((row.max(0.0) as usize).min(count - 1))
                    }
                    (Some(asked), Some(first), Some(last)) => {
                        let wanted = moved(asked, access.range, (first.0, last.0));
                        Chosen::Row(near(ordered, wanted, mixed(&drawn)))
                    }
                    _ if is_drawn => Chosen::Row(of_all(&drawn)),
                    _ => Chosen::Row(place(random, (0, count as i64 - 1)) as usize),
                }
            }
            Existing::Given { .. } => Chosen::Nothing,
        }
    }

    /// Return a column of a row of a table that is not a range.
    pub(super) fn column(&self, row: usize, column: usize) -> Value<'_> {
        match self {
            Existing::Range { .. } => None,
            Existing::Rows { width, values, .. } | Existing::Given { width, values, .. } => {
                values[row * width + column].as_deref()
            }
        }
    }
}

async fn count(session: Session<'_>, table: &str) -> Result<i64, Unready> {
    let sql = format!("SELECT count(*) FROM {table}");
    Ok(session.ask(&sql, |rows| Ok(rows.one::<(i64,)>()?)).await?.0)
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The values of a row.
type Row = [Option<Box<[u8]>>];

/// Return the rows, the most common ones first, equal ones together.
fn by_frequency(values: &Row, width: usize) -> Vec<Option<Box<[u8]>>> {
    let mut counts: HashMap<&Row, u32> = HashMap::new();
    values.chunks(width).for_each(|row| *counts.entry(row).or_default() += 1);
    let mut rows: Vec<_> = values.chunks(width).collect();
    rows.sort_by(|a, b| counts[b].cmp(&counts[a]).then_with(|| a.cmp(b)));
    rows.into_iter().flatten().cloned().collect()
}

/// Return a row whose number is the wanted one, or else the next larger one. `hash` chooses one of
/// several rows.
fn near(ordered: &[(i64, u32)], wanted: i64, hash: u64) -> usize {
    let begin = ordered.partition_point(|&(number, _)| number < wanted).min(ordered.len() - 1);
    let nearest = ordered[begin].0;
    let count = ordered[begin..].partition_point(|&(number, _)| number == nearest);
    ordered[begin + (hash % count as u64) as usize].1 as usize
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::values::Values;

    const EVENLY: Access = Access { values: None, range: None, kept: 0.0, by_frequency: false };

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
    fn a_share_of_the_rows_is_a_value_by_its_frequency() {
        let rows: Vec<_> = ["b", "rare", "a", "b", "often", "often", "b", "often", "often"]
            .map(|text| Some(text.as_bytes().into()))
            .into();
        let keys = Existing::of_rows(1, by_frequency(&rows, 1), false);
        let mut random = Prng::from_seed(1);
        for (share, wanted) in [("0.0", "often"), ("0.5", "b"), ("1", "rare")] {
            let given = format!(
                r#"{{"kind":"real","distinct":1,"hot":[{{"value":"{share}","fraction":1.0}}]}}"#
            );
            let given = Values::new(&serde_json::from_str(&given).unwrap()).unwrap();
            let access = Access { values: Some(Box::new(given)), by_frequency: true, ..EVENLY };
            let Chosen::Row(row) = keys.choose(&access, None, &mut random) else { panic!() };
            assert_eq!(keys.column(row, 0).unwrap(), wanted.as_bytes());
        }
    }

    #[test]
    fn a_share_that_is_null_is_no_row() {
        let keys = Existing::of_rows(1, vec![Some("a".as_bytes().into())], false);
        let given = r#"{"kind":"real","distinct":1,"null_fraction":1.0,"bounds":["0","1"]}"#;
        let given = Values::new(&serde_json::from_str(given).unwrap()).unwrap();
        let access = Access { values: Some(Box::new(given)), by_frequency: true, ..EVENLY };
        assert_eq!(keys.choose(&access, None, &mut Prng::from_seed(1)), Chosen::Nothing);
    }

    #[test]
    fn a_row_is_chosen_that_has_the_given_values() {
        let text = |value: &str| Some(Box::from(value.as_bytes()));
        let rows = [("1", Some("a")), ("2", Some("b")), ("3", Some("a")), ("4", None)];
        let values: Vec<_> =
            rows.iter().flat_map(|(id, of)| [text(id), of.and_then(text)]).collect();
        let keys = Existing::given(2, &values);
        let mut random = Prng::from_seed(1);
        let mut ids = BTreeSet::new();
        for _ in 0..50 {
            let row = keys.choose_given(&[Some(b"a")], &mut random).unwrap();
            ids.insert(keys.column(row, 0).unwrap().to_vec());
        }
        assert_eq!(ids, BTreeSet::from([b"1".to_vec(), b"3".to_vec()]));
        assert_eq!(keys.choose_given(&[Some(b"c")], &mut random), None);
        assert_eq!(keys.choose_given(&[None], &mut random), None);
    }

    #[test]
    fn clients_keep_values_that_are_spread_over_all() {
        let rows =
            (0..80).map(|number: u32| Some((number % 4 * 5).to_string().into_bytes().into()));
        let keys = Existing::of_rows(1, rows.collect(), true);
        let own = r#"{"kind":"integer","distinct":4,"hot":[{"value":"1","fraction":0.25},
            {"value":"2","fraction":0.25},{"value":"3","fraction":0.25},{"value":"4","fraction":0.25}]}"#;
        let own = Values::new(&serde_json::from_str(own).unwrap()).unwrap();
        let access =
            Access { values: Some(Box::new(own)), range: Some((1, 4)), kept: 1.0, ..EVENLY };
        let mut random = Prng::from_seed(1);
        for (keys, wanted) in [
            (&keys, ["0", "5", "10", "15"].map(str::to_owned)),
            (&Existing::Range { least: 11, most: 14 }, [11, 12, 13, 14].map(|n| n.to_string())),
        ] {
            let drawn = [0.5, 1.5, 2.5, 3.5].map(|terminal| {
                match keys.choose(&access, Some(terminal / 4.0), &mut random) {
                    Chosen::Number(number) => number.to_string(),
                    Chosen::Row(row) => {
                        String::from_utf8(keys.column(row, 0).unwrap().into()).unwrap()
                    }
                    Chosen::Nothing => String::new(),
                }
            });
            assert_eq!(drawn, wanted);
        }
        let range = Existing::Range { least: 1, most: 100 };
        let first = range.choose(&EVENLY, Some(0.005), &mut random);
        assert_eq!(first, Chosen::Number(1));
    }

    #[test]
    fn a_hot_value_of_the_source_is_a_hot_row_of_the_copy() {
        let rows = (0..100).map(|number: u32| Some(number.to_string().into_bytes().into()));
        let keys = Existing::of_rows(2, rows.collect(), false);
        let hot = r#"{"kind":"text","distinct":1,"hot":[{"value":"xyz","fraction":1.0}]}"#;
        let hot = Values::new(&serde_json::from_str(hot).unwrap()).unwrap();
        let mut random = Prng::from_seed(1);
        let hot = Access { values: Some(Box::new(hot)), ..EVENLY };
        let mut draw = || keys.choose(&hot, None, &mut random);
        let first = draw();
        assert!((0..20).all(|_| draw() == first));
        let Chosen::Row(row) = first else { panic!("{first:?}") };
        let text = |column| String::from_utf8(keys.column(row, column).unwrap().into()).unwrap();
        assert_eq!(text(0).parse::<usize>().unwrap() + 1, text(1).parse::<usize>().unwrap());
        let mut random = Prng::from_seed(2);
        let drawn: BTreeSet<_> =
            (0..500).map(|_| format!("{:?}", keys.choose(&EVENLY, None, &mut random))).collect();
        assert_eq!(drawn.len(), 50);
    }
}
