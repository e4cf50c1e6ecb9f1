//! `-I`: the initialization steps in the user's order. Each step ends before the next begins.

use std::iter;

use super::ddl::{self, FILLED};
use super::plan;
use crate::dataset::PgbenchOptions;
use pgdyno_engine::contract::record::PhaseName;
use pgdyno_engine::dataset::piece::{Piece, Stage};
use pgdyno_engine::dataset::sql::drop_tables;
use pgdyno_engine::dialect::Dialect;

/// The stages of `steps`, after a stage that creates the journal.
///
/// Args: `steps`, pgbench's letters, checked; `journal`, the statements that create the journal.
pub(super) fn stages(
    init: &PgbenchOptions,
    steps: &str,
    mark: &str,
    journal: Vec<String>,
    dialect: &Dialect,
) -> Vec<Stage> {
    let journal = Piece::transaction("journal", PhaseName::Create, journal);
    let mut stages = vec![vec![vec![journal]]];
    for (number, step) in steps.chars().filter(|step| *step != ' ').enumerate() {
        for mut stage in stages_of(init, step, mark, dialect) {
            for piece in stage.iter_mut().flatten() {
                // A step may occur twice, so the number of the step makes the name unique.
                piece.name = format!("{} {step} {}", number + 1, piece.name);
            }
            stages.push(stage);
        }
    }
    stages
}

fn stages_of(init: &PgbenchOptions, step: char, mark: &str, dialect: &Dialect) -> Vec<Stage> {
    let truncate = || {
        let sql = vec![ddl::TRUNCATE_TABLES.to_string()];
        vec![vec![Piece::transaction("truncate", PhaseName::Load, sql)]]
    };
    match step {
        'd' => {
            let sql = vec![drop_tables(&ddl::ALL)];
            vec![vec![vec![Piece::transaction("drop", PhaseName::Create, sql)]]]
        }
        't' => {
            let tables = plan::marked_tables(init, mark, dialect);
            let first = Piece::transaction("create", PhaseName::Create, tables);
            vec![vec![iter::once(first).chain(plan::marked_leaves(init, mark, dialect)).collect()]]
        }
        'g' => vec![truncate(), plan::copies(init, dialect)],
        'G' => {
            let inserts = ddl::insert_rows(init).into_iter().zip(FILLED);
            let piece = |(sql, table): (String, &str)| {
                vec![Piece::transaction(&format!("insert {table}"), PhaseName::Load, vec![sql])]
            };
            vec![truncate(), inserts.map(piece).collect()]
        }
        'v' => vec![ddl::TABLES.map(|table| vec![vacuum(init, table, dialect)]).into()],
        'p' => vec![ddl::KEYS.map(|(table, column)| vec![key(init, table, column)]).into()],
        _ => vec![vec![plan::foreign_keys()]],
    }
}

/// VACUUM of a table. As in pgbench, a partitioned parent is vacuumed with all its leaves.
fn vacuum(init: &PgbenchOptions, table: &str, dialect: &Dialect) -> Piece {
    let sql = dialect.vacuum(table, init.range_rows.is_some(), true);
    Piece::alone(table, PhaseName::Vacuum, sql)
}

fn key(init: &PgbenchOptions, table: &str, column: &str) -> Piece {
    Piece::transaction(table, PhaseName::Index, vec![ddl::add_primary_key(init, table, column)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::ddl::tests::init;
    use crate::dataset::tests::statements;

    fn place(sql: &[String], text: &str) -> usize {
        sql.iter()
            .position(|statement| statement.contains(text))
            .unwrap_or_else(|| panic!("{text} in {sql:?}"))
    }

    #[test]
    fn steps_come_in_the_order_asked_for() {
        let asked = |steps: &str| PgbenchOptions { steps: Some(steps.into()), ..init(1) };
        let sql = statements(&asked("dtpgv"), 18);
        let order = [
            "drop table if exists pgbench",
            "create table pgbench_history",
            "add primary key (aid)",
            "truncate table",
            "copy pgbench_accounts",
            "vacuum analyze",
        ];
        let places = order.map(|text| place(&sql, text));
        assert!(places.is_sorted(), "{sql:?}");
        let server_side = statements(&asked("G"), 18);
        assert!(
            place(&server_side, "generate_series(1, 100000)") > place(&server_side, "truncate")
        );
        assert!(server_side.iter().all(|sql| !sql.contains("primary key (")));
    }
}
