//! The tables of a capture: the same schema, filled from statistics.
//!
//! The lab decides what is made: statements for the schema, and a distribution for each column. One
//! transaction creates and marks everything. Then each table is one COPY, followed by its keys and
//! indexes. Foreign keys, triggers and the like come last.

mod key;
mod order;
mod rows;
mod tree;

use self::rows::{Rows, prepared};
use crate::tables::{CapturedOptions, CapturedTable};
use pgdyno_engine::contract::job::InitWork;
use pgdyno_engine::contract::record::PhaseName;
use pgdyno_engine::dataset::piece::{Chain, Copy, Piece, Stage, Work};
use pgdyno_engine::dataset::sql::quote_literal;
use pgdyno_engine::dataset::{self, Dataset};
use pgdyno_engine::dialect::{Dialect, Server};

impl Dataset for CapturedOptions {
    fn tables(&self) -> Vec<&str> {
        self.tables.iter().map(|table| table.name.as_str()).collect()
    }

    fn row_totals(&self) -> Vec<(&str, u64)> {
        self.tables.iter().map(|table| (table.name.as_str(), table.rows)).collect()
    }

    fn stages(&self, how: &InitWork, server: Server) -> Vec<Stage> {
        // `broken_rules` has refused the job if a table cannot be prepared.
        let tables = prepared(self).unwrap_or_default();
        let filled = self.tables.iter().zip(tables).enumerate();
        let mut chains: Vec<(u64, Chain)> = filled
            .map(|(counter, (table, rows))| {
                (table.rows, filling(table, Rows::new(rows), counter, server.dialect))
            })
            .collect();
        // The longest work begins first.
        chains.sort_by_key(|(rows, _)| std::cmp::Reverse(*rows));
        let completion = self.completion.iter().enumerate().map(|(number, sql)| {
            let name = format!("completion {}", number + 1);
            Piece::transaction(&name, PhaseName::ForeignKeys, vec![sql.clone()])
        });
        let vacuum = self.tables.iter().map(|table| {
            let sql = server.dialect.vacuum(&table.name, false, true);
            vec![Piece::alone(&format!("vacuum {}", table.name), PhaseName::Vacuum, sql)]
        });
        let mark = quote_literal(&how.mark);
        let marks = self.marked.iter().map(|thing| format!("comment on {thing} is {mark}"));
        let creation = self.creation.iter().cloned().chain(marks).collect();
        vec![
            vec![vec![dataset::creation(self, how, creation)]],
            chains.into_iter().map(|(_, chain)| chain).collect(),
            vec![completion.collect()],
            vacuum.collect(),
        ]
    }

    fn broken_rules(&self) -> Vec<(String, &'static str)> {
        let wrong = prepared(self).err().unwrap_or_default();
        wrong.into_iter().map(|message| (message, "correct the job")).collect()
    }

    fn index_rows_max(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).max().unwrap_or(0)
    }

    fn removal(&self) -> String {
        match self.removal.is_empty() {
            true => "select".into(),
            false => self.removal.join("; "),
        }
    }
}

fn filling(table: &CapturedTable, rows: Rows, counter: usize, dialect: &Dialect) -> Chain {
    let name = &table.name;
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    // A partitioned table takes no frozen rows.
    let is_frozen = !table.is_partitioned && dialect.copy_freezes;
    let freeze = if is_frozen { " with (freeze on)" } else { "" };
    let copy = Copy {
        before: if is_frozen { vec![format!("truncate {name}")] } else { Vec::new() },
        copy: format!("copy {name} ({}) from stdin{freeze}", columns.join(", ")),
        after: Vec::new(),
        table: name.clone(),
        rows: Box::new(rows),
        counter,
    };
    let copy =
        Piece { name: format!("copy {name}"), phase: PhaseName::Load, work: Work::Copy(copy) };
    let indexes = table.indexes.iter().enumerate().map(|(number, sql)| {
        let title = format!("index {} of {name}", number + 1);
        Piece::transaction(&title, PhaseName::Index, vec![sql.clone()])
    });
    let is_filled = table.rows > 0 && !columns.is_empty();
    is_filled.then_some(copy).into_iter().chain(indexes).collect()
}
