//! The rows of a captured table: for each column a value, from the number of the row.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::key::{FAN_OUT_MAX, FanOut, Key};
use super::order::{Order, Spread};
use super::tree::Tree;
use crate::distribution::{Distribution, ValueKind};
use crate::tables::{CapturedLink, CapturedOptions, CapturedTable};
use crate::values::{Places, Values};
use pgdyno_engine::dataset::piece::RowSource;

/// Everything that makes the rows of one table.
#[derive(Debug)]
pub(super) struct Table {
    rows: u64,
    columns: Vec<Column>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Column {
    source: Source,
    /// Its text may have characters that COPY wants to be escaped.
    is_escaped: bool,
}

#[derive(Debug)]
enum Source {
    Own {
        values: Arc<Values>,
        order: Order,
        places: Places,
    },
    /// A column without an order, in a table whose rows are sorted by a part of their key.
    Spread {
        values: Arc<Values>,
        spread: Spread,
        places: Places,
    },
    /// The parent of the row in a tree: a smaller value of another column, which is unique.
    Tree {
        tree: Box<Tree>,
        key: usize,
    },
    /// A column of a key or of a link: its group, and its place among the columns of the key.
    Member {
        group: usize,
        index: usize,
        is_nullable: bool,
    },
}

/// Columns whose values belong together.
#[derive(Debug)]
struct Group {
    key: Arc<Key>,
    order: Order,
    /// None if each row of the table is a row of the key.
    chosen: Option<Chosen>,
}

/// Which row of the key each row of the table refers to.
#[derive(Debug)]
struct Chosen {
    numbers: Values,
    places: Places,
    /// Rows of the table that refer to one.
    numbers_rows: u64,
    /// Columns in which rows that refer to the same row differ.
    extra: Vec<Arc<Values>>,
    /// How many rows refer to each row, if a single column numbers them: lines of orders.
    fan_out: Option<FanOut>,
}

/// The correlation from which values have an order that groups of rows must not break.
const ORDERED: f64 = 0.1;

/// The keys of all tables, by table and columns.
type Keys = BTreeMap<(String, Vec<String>), Arc<Key>>;

/// Prepare the rows of all tables.
///
/// Errors: the names and the reasons of the columns that have no values.
pub(super) fn prepared(options: &CapturedOptions) -> Result<Vec<Table>, Vec<String>> {
    let all: Vec<(usize, &CapturedTable)> = options.tables.iter().enumerate().collect();
    prepared_of(&all, options.seed)
}

/// Prepare the rows of some tables, each with its place among all tables. The tables to which their
/// links lead are among them.
pub(super) fn prepared_of(
    numbered: &[(usize, &CapturedTable)],
    seed: u64,
) -> Result<Vec<Table>, Vec<String>> {
    let mut wrong = Vec::new();
    let mut values: Vec<Vec<Arc<Values>>> = Vec::new();
    for (_, table) in numbered {
        let mut all = Vec::new();
        for column in &table.columns {
            match Values::new(&column.distribution) {
                Ok(values) => all.push(Arc::new(values)),
                Err(why) => wrong.push(format!("column {} of {}: {why}", column.name, table.name)),
            }
        }
        values.push(all);
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut keys = Keys::new();
    for ((_, table), values) in numbered.iter().zip(&values) {
        for columns in &table.keys {
            match of_names(table, columns).filter(|indexes| !indexes.is_empty()) {
                Some(indexes) => {
                    let values = indexes.iter().map(|&index| values[index].clone()).collect();
                    let of_column = |index: usize| table.columns[index].correlation;
                    let correlations: Vec<f64> = indexes.into_iter().map(of_column).collect();
                    let key = Arc::new(Key::new(values, &correlations, table.rows));
                    keys.insert((table.name.clone(), columns.clone()), key);
                }
                None => wrong.push(format!("a key of {} has an unknown column", table.name)),
            }
        }
    }
    // A table of a key that is not here, or a link to it, would have no values.
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut tables = Vec::new();
    for ((number, table), values) in numbered.iter().zip(values) {
        let seed = seed.wrapping_add((*number as u64 + 1) << 20);
        match Table::new(table, values, &keys, seed) {
            Ok(table) => tables.push(table),
            Err(why) => wrong.push(format!("{}: {why}", table.name)),
        }
    }
    if wrong.is_empty() { Ok(tables) } else { Err(wrong) }
}

fn of_names(table: &CapturedTable, names: &[String]) -> Option<Vec<usize>> {
    let index = |name| table.columns.iter().position(|column| &column.name == name);
    names.iter().map(index).collect()
}

impl Table {
    fn new(
        table: &CapturedTable,
        values: Vec<Arc<Values>>,
        keys: &Keys,
        seed: u64,
    ) -> Result<Table, String> {
        let mut groups = Vec::new();
        let mut member: Vec<Option<Source>> = table.columns.iter().map(|_| None).collect();
        let mut join = |columns: &[String], group: usize| -> Result<(), String> {
            let indexes = of_names(table, columns).ok_or("a link has an unknown column")?;
            for (place, index) in indexes.into_iter().enumerate() {
                let is_nullable = values[index].null_fraction() > 0.0;
                member[index].get_or_insert(Source::Member { group, index: place, is_nullable });
            }
            Ok(())
        };
        for columns in &table.keys {
            let key = keys[&(table.name.clone(), columns.clone())].clone();
            let leading = of_names(table, columns).ok_or("unknown column")?[key.leading()];
            let correlation = table.columns[leading].correlation;
            let order =
                Order::new(&values[leading], table.rows, correlation, seed ^ groups.len() as u64);
            join(columns, groups.len())?;
            groups.push(Group { key, order, chosen: None });
        }
        for link in &table.links {
            let group = linked(table, link, keys, seed ^ 0xff00 ^ groups.len() as u64, &values)?;
            join(&[&link.columns[..], &link.extra].concat(), groups.len())?;
            groups.push(group);
        }
        // The first key decides about groups of rows; a link has another order.
        let by_key = groups.first().filter(|_| !table.keys.is_empty());
        let group_rows = by_key.and_then(|group: &Group| group.key.group_rows());
        let mut columns = Vec::new();
        for (number, (column, values)) in table.columns.iter().zip(values).enumerate() {
            let is_escaped = needs_escapes(&column.distribution);
            let name = &column.name;
            let source = member[number].take().unwrap_or_else(|| {
                let seed = seed.wrapping_add(number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let is_key = table.columns.iter().any(|own| own.parent_in.as_ref() == Some(name));
                let has_order =
                    is_key || column.correlation.abs() >= ORDERED || values.null_fraction() > 0.0;
                if let Some(group_rows) = group_rows.filter(|_| !has_order) {
                    let spread = Spread::new(table.rows, group_rows, seed);
                    let places = values.places(table.rows);
                    return Source::Spread { values, spread, places };
                }
                let order = Order::new(&values, table.rows, column.correlation, seed);
                let places = values.places(order.values());
                Source::Own { values, order, places }
            });
            columns.push(Column { source, is_escaped });
        }
        for (number, column) in table.columns.iter().enumerate() {
            let Some(key) = &column.parent_in else { continue };
            let key = table.columns.iter().position(|own| &own.name == key);
            let key = key.ok_or("the column of a tree's parents is unknown")?;
            let is_own = |place: usize| matches!(columns[place].source, Source::Own { .. });
            if is_own(key) && is_own(number) && key != number {
                let seed = seed ^ (number as u64) << 8;
                let tree = Tree::new(&column.distribution, table.rows, column.correlation, seed)?;
                columns[number].source = Source::Tree { tree: Box::new(tree), key };
            }
        }
        Ok(Table { rows: table.rows, columns, groups })
    }
}

impl Table {
    /// Append the key of the row's parent. Returns: false, with nothing appended, for a root.
    fn write_parent(&self, tree: &Tree, key: usize, row: u64, out: &mut Vec<u8>) -> bool {
        let Source::Own { values, order, places } = &self.columns[key].source else { return false };
        let Some(parent) = order.place(row).and_then(|place| tree.parent(place)) else {
            return false;
        };
        values.write(places.number_at(parent), out);
        true
    }
}

impl Group {
    /// Number of columns.
    fn len(&self) -> usize {
        self.key.len() + self.chosen.as_ref().map_or(0, |chosen| chosen.extra.len())
    }

    /// Put the number of the value of each column in the row with this place into `numbers`.
    fn numbers(&self, place: u64, numbers: &mut [u64]) {
        let Some(chosen) = &self.chosen else {
            return self.key.numbers(place, numbers);
        };
        let (of_key, of_extra) = numbers.split_at_mut(self.key.len());
        if chosen.extra.is_empty() {
            return self.key.numbers(chosen.numbers.value(chosen.places.number_at(place)), of_key);
        }
        if let Some(fan_out) = &chosen.fan_out {
            let (number, line) = fan_out.at(place.min(chosen.numbers_rows.saturating_sub(1)));
            self.key.numbers(chosen.numbers.value(number), of_key);
            of_extra[0] = line;
            return;
        }
        let (number, mut index, _) = chosen.places.run_at(place);
        self.key.numbers(chosen.numbers.value(number), of_key);
        for (extra, number) in chosen.extra.iter().zip(of_extra).rev() {
            *number = index % extra.count().max(1);
            index /= extra.count().max(1);
        }
    }

    /// Put the number of some value of each column into `numbers`.
    fn free_numbers(&self, row: u64, numbers: &mut [u64]) {
        for (index, number) in numbers.iter_mut().enumerate() {
            *number = self.key.count(index).map_or(0, |count| row % count.max(1));
        }
    }

    fn write(&self, index: usize, number: u64, out: &mut Vec<u8>) {
        let of_key = self.key.len();
        match &self.chosen {
            Some(chosen) if index >= of_key => chosen.extra[index - of_key].write(number, out),
            _ => self.key.write(index, number, out),
        }
    }
}

fn linked(
    table: &CapturedTable,
    link: &CapturedLink,
    keys: &Keys,
    seed: u64,
    values: &[Arc<Values>],
) -> Result<Group, String> {
    let name = (link.table.clone(), link.referenced.clone());
    let key =
        keys.get(&name).ok_or_else(|| format!("a link to an unknown key of {}", link.table))?;
    if link.columns.len() != link.referenced.len() {
        return Err(format!("a link to {} has another number of columns", link.table));
    }
    // Numbers of rows are integers.
    let numbers = Distribution { kind: ValueKind::Integer, ..link.distribution.clone() };
    let numbers = Values::new(&numbers)?;
    let order = Order::new(&numbers, table.rows, link.correlation, seed);
    let places = numbers.places(order.values());
    let extra = of_names(table, &link.extra).ok_or("a link has an unknown column")?;
    let extra: Vec<Arc<Values>> = extra.into_iter().map(|index| values[index].clone()).collect();
    let rows = order.values();
    let fan_out = match extra.as_slice() {
        [line] if line.count() <= FAN_OUT_MAX => FanOut::of(line, numbers.count(), rows),
        _ => None,
    };
    let chosen = Chosen { numbers, places, extra, fan_out, numbers_rows: rows };
    Ok(Group { key: key.clone(), order, chosen: Some(chosen) })
}

/// Whether a text may have a backslash, a tab or the end of a line.
fn needs_escapes(distribution: &Distribution) -> bool {
    let is_special = |byte: u8| matches!(byte, b'\\' | b'\n' | b'\t' | b'\r');
    let known = distribution.hot.iter().map(|hot| &hot.value).chain(&distribution.bounds);
    let mut texts = known.chain(&distribution.labels);
    // An array has backslashes before the quotes of its elements.
    let is_array = distribution.kind == ValueKind::Array;
    let quotes = |text: &str| is_array && text.contains('"');
    distribution.kind == ValueKind::Bytes
        || texts.any(|text| text.bytes().any(is_special) || quotes(text))
        || distribution.element.as_deref().is_some_and(|element| {
            needs_escapes(element)
                || is_array && element.hot.iter().any(|hot| hot.value.contains('"'))
                || is_array && element.bounds.iter().any(|bound| bound.contains('"'))
        })
}

/// The rows of one table.
#[derive(Debug)]
pub(super) struct Rows {
    table: Table,
    next: u64,
    /// Value numbers of the groups in the present row.
    numbers: Vec<Vec<u64>>,
    /// The place of the present row in each group; None if the columns of the group are NULL.
    places: Vec<Option<u64>>,
}

impl Rows {
    pub(super) fn new(table: Table) -> Rows {
        let numbers = table.groups.iter().map(|group| vec![0; group.len()]).collect();
        let places = vec![None; table.groups.len()];
        Rows { table, next: 0, numbers, places }
    }

    fn push_row(&mut self, row: u64, out: &mut Vec<u8>) {
        for (index, group) in self.table.groups.iter().enumerate() {
            let place = group.order.place(row);
            self.places[index] = place;
            match place {
                Some(place) => group.numbers(place, &mut self.numbers[index]),
                // A key with a NULL is like no other one, so its other columns are free.
                None => group.free_numbers(row, &mut self.numbers[index]),
            }
        }
        for (index, column) in self.table.columns.iter().enumerate() {
            if index > 0 {
                out.push(b'\t');
            }
            let start = out.len();
            let is_written = match &column.source {
                Source::Own { values, order, places } => match order.place(row) {
                    Some(place) => {
                        values.write(places.number_at(place), out);
                        true
                    }
                    None => false,
                },
                Source::Tree { tree, key } => self.table.write_parent(tree, *key, row, out),
                Source::Spread { values, spread, places } => {
                    let place = self.places[0].unwrap_or(row);
                    values.write(places.number_at(spread.place(place)), out);
                    true
                }
                Source::Member { group, index, is_nullable } => {
                    let is_written = !(self.places[*group].is_none() && *is_nullable);
                    if is_written {
                        let number = self.numbers[*group][*index];
                        self.table.groups[*group].write(*index, number, out);
                    }
                    is_written
                }
            };
            if !is_written {
                out.extend_from_slice(b"\\N");
            } else if column.is_escaped {
                escape(out, start);
            }
        }
        out.push(b'\n');
    }
}

impl RowSource for Rows {
    fn fill(&mut self, out: &mut Vec<u8>, size: usize) -> u64 {
        let first = self.next;
        while out.len() < size && self.next < self.table.rows {
            self.push_row(self.next, out);
            self.next += 1;
        }
        self.next - first
    }

    fn count(&self) -> u64 {
        self.table.rows - self.next
    }
}

/// Escape what COPY's text format does not take as it is, from `start` on.
fn escape(out: &mut Vec<u8>, start: usize) {
    let letter = |byte: &u8| match byte {
        b'\\' => Some(b'\\'),
        b'\n' => Some(b'n'),
        b'\t' => Some(b't'),
        b'\r' => Some(b'r'),
        _ => None,
    };
    let Some(first) = out[start..].iter().position(|byte| letter(byte).is_some()) else { return };
    let rest = out.split_off(start + first);
    for byte in rest {
        match letter(&byte) {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::CapturedColumn;

    fn table(name: &str, keys: &[&[&str]], links: Vec<CapturedLink>) -> CapturedTable {
        let distribution = Distribution { distinct: 10.0, ..Distribution::default() };
        let column = |name: &str| CapturedColumn {
            name: name.into(),
            distribution: distribution.clone(),
            correlation: 0.0,
            parent_in: None,
            otherwise: Vec::new(),
        };
        let words = |names: &&[&str]| names.iter().map(|&name| name.into()).collect();
        CapturedTable {
            name: name.into(),
            is_partitioned: false,
            rows: 10,
            columns: vec![column("a"), column("b")],
            keys: keys.iter().map(words).collect(),
            links,
            indexes: Vec::new(),
            rescues: Vec::new(),
        }
    }

    fn link(columns: &[&str], referenced: &[&str], extra: &[&str]) -> CapturedLink {
        let words = |names: &[&str]| names.iter().map(|&name| name.into()).collect();
        CapturedLink {
            columns: words(columns),
            table: "parent".into(),
            referenced: words(referenced),
            extra: words(extra),
            distribution: Distribution { distinct: 10.0, ..Distribution::default() },
            correlation: 0.0,
        }
    }

    #[test]
    fn keys_and_links_that_do_not_fit_their_tables_are_errors() {
        let fits = |keys: &[&[&str]], own: CapturedLink| {
            let tables = vec![table("parent", keys, vec![]), table("child", &[], vec![own])];
            prepared(&CapturedOptions { tables, ..CapturedOptions::default() }).is_ok()
        };
        assert!(fits(&[&["a"]], link(&["a"], &["a"], &["b"])));
        assert!(!fits(&[&["a", "unknown"]], link(&["a"], &["a"], &[])));
        assert!(!fits(&[&["a", "unknown"]], link(&["a", "b"], &["a", "unknown"], &[])));
        assert!(!fits(&[&[]], link(&["a"], &[], &[])));
        assert!(!fits(&[&["a"]], link(&["unknown"], &["a"], &[])));
        assert!(!fits(&[&["a"]], link(&["a"], &["a"], &["unknown"])));
        assert!(!fits(&[&["a"]], link(&["a", "b"], &["a"], &[])));
        assert!(!fits(&[&["a", "b"]], link(&["a"], &["a", "b"], &[])));
        assert!(!fits(&[&["a"]], link(&["a"], &["b"], &[])));
    }
}
