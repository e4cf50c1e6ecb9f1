//! Rows that the server refuses, in another form: the column that it names gets other values.
//!
//! The server judges every value: its type's input function, a domain, a partition, an expression.
//! What it refuses is not known before. So a column gets the next of its distributions, then single
//! values, then its default. If the server names no column, the table is changed as the job says,
//! then columns are left out one after another, and at last the table has no rows. Each change is
//! written into the table of what is left out, in the transaction of the rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use pgdyno_engine::dataset::piece::{Copy, Otherwise, ServerError};
use pgdyno_engine::dataset::sql::quote_literal;

use super::rows::{Rows, prepared_of};
use crate::distribution::{Distribution, ValueKind};
use crate::tables::{CapturedColumn, CapturedOptions, CapturedTable};

/// Columns that are left out one after another, if the server names none.
const SEARCHED_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Refused {
    options: Arc<CapturedOptions>,
    /// Place of the table.
    index: usize,
    freezes: bool,
    /// Columns with other values: how many forms the server has refused, and the first reason.
    changed: BTreeMap<usize, (usize, String)>,
    /// Columns that lost NOT NULL.
    nullable: Vec<usize>,
    /// How many of the table's rescues are in use, and why.
    rescues: Vec<String>,
    /// The column that is left out to see whether it is the reason.
    searched: usize,
    /// Why the table has no rows.
    empty: Option<String>,
}

impl Refused {
    pub(super) fn new(options: Arc<CapturedOptions>, index: usize, freezes: bool) -> Refused {
        Refused {
            options,
            index,
            freezes,
            changed: BTreeMap::new(),
            nullable: Vec::new(),
            rescues: Vec::new(),
            searched: 0,
            empty: None,
        }
    }

    /// The copy as it is meant.
    pub(super) fn first(self, rows: Rows) -> Copy {
        let columns: Vec<&CapturedColumn> = self.table().columns.iter().collect();
        let copy = self.copy(&columns, rows, Vec::new());
        Copy { otherwise: Some(Box::new(self)), ..copy }
    }

    fn table(&self) -> &CapturedTable {
        &self.options.tables[self.index]
    }

    fn copy(&self, columns: &[&CapturedColumn], rows: Rows, more: Vec<String>) -> Copy {
        let table = self.table();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let truncate = self.freezes.then(|| format!("truncate {}", table.name));
        let freeze = if self.freezes { " with (freeze on)" } else { "" };
        let listed =
            if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        Copy {
            before: truncate.into_iter().chain(more).collect(),
            copy: format!("copy {}{listed} from stdin{freeze}", table.name),
            after: Vec::new(),
            table: table.name.clone(),
            rows: Box::new(rows),
            counter: self.index,
            otherwise: None,
        }
    }

    /// The place of the column that an error names.
    fn named(&self, error: &ServerError) -> Option<usize> {
        let columns = &self.table().columns;
        let place = |name: &str| {
            let quoted = format!("\"{}\"", name.replace('"', "\"\""));
            columns.iter().position(|column| column.name == quoted)
        };
        if error.sqlstate.as_str() == "23502" {
            // A NULL of a column that is left out, too.
            return place(error.message.split('"').nth(1)?);
        }
        let line = error.context.as_deref()?.lines().find(|line| line.starts_with("COPY "))?;
        let (_, rest) = line.split_once(", column ")?;
        columns.iter().enumerate().map(|(index, _)| index).find(|&index| {
            let bare = columns[index].name.trim_matches('"').replace("\"\"", "\"");
            rest.strip_prefix(&bare).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        })
    }

    /// Number of forms that a column has besides its own: the last one is its default.
    fn forms(&self, column: usize) -> usize {
        self.table().columns[column].otherwise.len() + self.options.candidates.len() + 1
    }

    /// Let the column have its next form. Returns: false if there is none.
    fn step(&mut self, column: usize, why: &str) -> bool {
        let forms = self.forms(column);
        let entry = self.changed.entry(column).or_insert_with(|| (0, why.to_string()));
        entry.0 += 1;
        entry.0 <= forms
    }

    /// The distribution of a column in its present form; None if it is left out.
    fn form(&self, column: usize) -> Option<Distribution> {
        let own = &self.table().columns[column];
        let Some((tried, _)) = self.changed.get(&column) else {
            return Some(own.distribution.clone());
        };
        if let Some(other) = own.otherwise.get(tried - 1) {
            return Some(other.clone());
        }
        let candidate = self.options.candidates.get(tried - 1 - own.otherwise.len())?;
        Some(Distribution {
            kind: ValueKind::Other,
            null_fraction: own.distribution.null_fraction,
            distinct: 1.0,
            bounds: vec![candidate.clone()],
            ..Distribution::default()
        })
    }

    fn change(&mut self, error: &ServerError) -> bool {
        let why = &error.message;
        if !matches!(&error.sqlstate.as_str()[..2], "22" | "23" | "42" | "54" | "P0" | "0A" | "2F")
        {
            return false;
        }
        if let Some(column) = self.named(error) {
            let is_left_out = self.form(column).is_none();
            if is_left_out && !self.nullable.contains(&column) {
                self.nullable.push(column);
                return true;
            }
            if !is_left_out && self.step(column, why) {
                return true;
            }
        }
        if self.rescues.len() < self.table().rescues.len() {
            self.rescues.push(why.clone());
            return true;
        }
        // Only one column at a time is left out to see whether it is the reason.
        if let Some(before) = self.searched.checked_sub(1) {
            self.changed.remove(&before);
        }
        while self.searched < self.table().columns.len().min(SEARCHED_MAX) {
            let column = self.searched;
            self.searched += 1;
            if !self.changed.contains_key(&column) {
                self.changed.insert(column, (self.forms(column), why.clone()));
                return true;
            }
        }
        let is_first = self.empty.is_none();
        self.empty.get_or_insert_with(|| why.clone());
        is_first
    }

    /// The statements that note what is different.
    fn notes(&self) -> Vec<String> {
        let (table, left_out) = (self.table(), &self.options.left_out);
        if left_out.is_empty() {
            return Vec::new();
        }
        let note = |kind: &str, name: &str, instead: &str, why: &str| {
            let texts = [kind, name, &table.name, instead, why].map(quote_literal);
            format!("insert into {left_out} values ({})", texts.join(", "))
        };
        if let Some(why) = &self.empty {
            return vec![note("rows", &table.name, "", why)];
        }
        let mut notes = Vec::new();
        for (&column, (tried, why)) in &self.changed {
            let own = &table.columns[column];
            let instead = match self.form(column) {
                None => "its default, or NULL".to_string(),
                Some(_) if *tried <= own.otherwise.len() => "other values of its type".into(),
                Some(form) => format!("only the value {}", form.bounds[0]),
            };
            let name = format!("{}.{}", table.name, own.name);
            notes.push(note("values of the column", &name, &instead, why));
        }
        let used = table.rescues.iter().zip(&self.rescues);
        notes.extend(used.map(|(rescue, why)| note("rows", &table.name, &rescue.words, why)));
        notes
    }

    fn again(&self) -> Option<Copy> {
        let mut table = self.table().clone();
        if self.empty.is_some() {
            table.rows = 0;
        }
        let mut left_out = Vec::new();
        for (index, column) in table.columns.iter_mut().enumerate() {
            match self.form(index) {
                Some(distribution) => column.distribution = distribution,
                None => left_out.push(column.name.clone()),
            }
            if self.changed.contains_key(&index) {
                column.parent_in = None;
            }
        }
        table.columns.retain(|column| !left_out.contains(&column.name));
        let touched: Vec<String> =
            self.changed.keys().map(|&index| self.table().columns[index].name.clone()).collect();
        let is_whole = |columns: &[String]| !columns.iter().any(|name| touched.contains(name));
        table.keys.retain(|key| is_whole(key));
        table.links.retain(|link| is_whole(&link.columns) && is_whole(&link.extra));
        table.columns.iter_mut().for_each(|column| {
            column.parent_in = column.parent_in.take().filter(|name| !touched.contains(name));
        });
        let mut numbered = vec![(self.index, &table)];
        for (number, other) in self.options.tables.iter().enumerate() {
            let is_linked = table.links.iter().any(|link| link.table == other.name);
            if number != self.index && is_linked {
                numbered.push((number, other));
            }
        }
        let rows = prepared_of(&numbered, self.options.seed).ok()?.into_iter().next()?;
        let rescues = table.rescues.iter().take(self.rescues.len()).map(|own| own.sql.clone());
        let drop_not_null = |&column: &usize| {
            let (name, column) = (&table.name, &self.table().columns[column].name);
            format!("alter table {name} alter column {column} drop not null")
        };
        let nullable = self.nullable.iter().map(drop_not_null);
        let more = rescues.chain(nullable).chain(self.notes()).collect();
        let columns: Vec<&CapturedColumn> = table.columns.iter().collect();
        Some(self.copy(&columns, Rows::new(rows), more))
    }
}

impl Otherwise for Refused {
    fn after(&mut self, error: &ServerError) -> Option<Copy> {
        loop {
            if !self.change(error) {
                return None;
            }
            if let Some(copy) = self.again() {
                return Some(copy);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Refused {
        let distribution = Distribution {
            kind: ValueKind::Integer,
            distinct: 3.0,
            bounds: vec!["1".into(), "3".into()],
            ..Distribution::default()
        };
        let column = |name: &str| CapturedColumn {
            name: name.into(),
            distribution: distribution.clone(),
            ..CapturedColumn::default()
        };
        let table = CapturedTable {
            name: "t".into(),
            rows: 3,
            columns: vec![column("\"a\""), column("\"b\"")],
            keys: vec![vec!["\"a\"".into(), "\"b\"".into()]],
            ..CapturedTable::default()
        };
        let options = CapturedOptions {
            tables: vec![table],
            left_out: "left_out".into(),
            candidates: vec!["it's".into()],
            ..CapturedOptions::default()
        };
        Refused::new(Arc::new(options), 0, true)
    }

    fn error(sqlstate: &str, message: &str, context: &str) -> ServerError {
        let fields = [("C", sqlstate), ("M", message), ("W", context)];
        let body: Vec<u8> =
            fields.iter().flat_map(|(code, text)| format!("{code}{text}\0").into_bytes()).collect();
        ServerError::parse(&[body, vec![0]].concat())
    }

    #[test]
    fn a_column_gets_a_value_that_may_fit_then_its_default_and_then_may_be_null() {
        let mut refused = refused();
        let unfit = error("22P02", "invalid input", "COPY t, line 1, column a: \"1\"");
        let copy = refused.after(&unfit).expect("another form");
        assert!(copy.before.iter().any(|sql| sql.contains("only the value it''s")), "{copy:?}");
        let copy = refused.after(&unfit).expect("another form");
        assert_eq!(copy.copy, "copy t (\"b\") from stdin with (freeze on)");
        let null = error("23502", "null value in column \"a\" of relation \"t\"", "");
        let copy = refused.after(&null).expect("another form");
        assert!(copy.before.contains(&"alter table t alter column \"a\" drop not null".into()));
    }

    #[test]
    fn a_refusal_without_a_column_ends_with_an_empty_table_and_a_full_disk_ends_the_load() {
        let mut refused = refused();
        let unknown = error("22012", "division by zero", "");
        let copies: Vec<String> =
            std::iter::from_fn(|| refused.after(&unknown)).map(|copy| copy.copy).collect();
        assert_eq!(copies.len(), 3, "{copies:?}");
        assert!(copies[0].contains("(\"b\")") && copies[1].contains("(\"a\")"));
        assert!(super::tests::refused().after(&error("53100", "disk full", "")).is_none());
    }
}
