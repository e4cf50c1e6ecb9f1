//! The tables of a capture: the same schema, filled from statistics.
//!
//! The lab decides what is made: statements for the schema, and a distribution for each column. One
//! transaction creates and marks everything. Then each table is one COPY, followed by its keys and
//! indexes. Foreign keys, triggers and the like come last.

mod key;
mod order;
mod refused;
mod rows;
mod tree;

use std::sync::Arc;

use self::refused::Refused;
use self::rows::{Rows, prepared};
use crate::tables::{CapturedOptions, CapturedTable};
use pgdyno_engine::contract::job::InitWork;
use pgdyno_engine::contract::record::PhaseName;
use pgdyno_engine::dataset::piece::{Chain, Piece, Stage, Work};
use pgdyno_engine::dataset::sql::quote_literal;
use pgdyno_engine::dataset::{self, Dataset};
use pgdyno_engine::dialect::Server;

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
        let whole = Arc::new(self.clone());
        let mut chains: Vec<(u64, Chain)> = filled
            .map(|(counter, (table, rows))| {
                let freezes = !table.is_partitioned && server.dialect.copy_freezes;
                let refused = Refused::new(whole.clone(), counter, freezes);
                (table.rows, filling(table, refused, Rows::new(rows)))
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
        let mut creation = self.creation.clone();
        if !self.marked.is_empty() {
            creation.push(marking(&self.marked, &how.mark));
        }
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

/// The statement that marks what was made. A name that was left out has no mark.
fn marking(things: &[String], mark: &str) -> String {
    let listed: Vec<String> = things.iter().map(|thing| quote_literal(thing)).collect();
    format!(
        "do $pgdyno$ declare thing text; begin foreach thing in array array[{}] loop begin execute \
         'comment on ' || thing || {}; exception when undefined_object or undefined_table or \
         undefined_function or wrong_object_type then null; end; end loop; end $pgdyno$",
        listed.join(", "),
        quote_literal(&format!(" is {}", quote_literal(mark)))
    )
}

fn filling(table: &CapturedTable, refused: Refused, rows: Rows) -> Chain {
    let name = &table.name;
    let copy = (table.rows > 0 && !table.columns.is_empty()).then(|| {
        let work = Work::Copy(refused.first(rows));
        Piece { name: format!("copy {name}"), phase: PhaseName::Load, work }
    });
    let indexes = table.indexes.iter().enumerate().map(|(number, sql)| {
        let title = format!("index {} of {name}", number + 1);
        Piece::transaction(&title, PhaseName::Index, vec![sql.clone()])
    });
    copy.into_iter().chain(indexes).collect()
}
