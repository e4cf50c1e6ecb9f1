//! `-I`: the initialization steps in the order asked for, each ended before the next begins.

use super::ddl::{self, FILLED};
use super::journal;
use super::piece::{Piece, Stage};
use super::plan;
use crate::contract::job::InitWork;
use crate::contract::record::PhaseName;

/// The stages of `steps`, letters as pgbench has them; the journal is there before the first.
pub(super) fn stages(init: &InitWork, steps: &str) -> Vec<Stage> {
    let journal = Piece::transaction("journal", PhaseName::Create, journal::create(init));
    let mut stages = vec![vec![vec![journal]]];
    for (number, step) in steps.chars().filter(|step| *step != ' ').enumerate() {
        for mut stage in stages_of(init, step) {
            for piece in stage.iter_mut().flatten() {
                // A step may come twice.
                piece.name = format!("{} {step} {}", number + 1, piece.name);
            }
            stages.push(stage);
        }
    }
    stages
}

fn stages_of(init: &InitWork, step: char) -> Vec<Stage> {
    let truncate = || {
        let sql = vec![ddl::TRUNCATE_TABLES.to_string()];
        vec![vec![Piece::transaction("truncate", PhaseName::Load, sql)]]
    };
    match step {
        'd' => {
            let sql = vec![ddl::DROP_TABLES.to_string()];
            vec![vec![vec![Piece::transaction("drop", PhaseName::Create, sql)]]]
        }
        't' => {
            let tables = Piece::transaction("create", PhaseName::Create, plan::marked_tables(init));
            vec![vec![[vec![tables], plan::marked_leaves(init)].concat()]]
        }
        'g' => vec![truncate(), plan::copies(init)],
        'G' => {
            let inserts = ddl::insert_rows(init).into_iter().zip(FILLED);
            let piece = |(sql, table): (String, &str)| {
                vec![Piece::transaction(&format!("insert {table}"), PhaseName::Load, vec![sql])]
            };
            vec![truncate(), inserts.map(piece).collect()]
        }
        'v' => vec![ddl::TABLES.map(|table| vec![vacuum(init, table)]).into()],
        'p' => vec![ddl::KEYS.map(|(table, column)| vec![key(init, table, column)]).into()],
        _ => vec![vec![plan::foreign_keys()]],
    }
}

/// As pgbench: the partitioned parent with all its leaves.
fn vacuum(init: &InitWork, table: &str) -> Piece {
    let options = match init.range_rows.is_some() || init.distribute.is_some() {
        true => "(freeze, analyze)",
        false => "analyze",
    };
    Piece::alone(table, PhaseName::Vacuum, format!("vacuum {options} {table}"))
}

fn key(init: &InitWork, table: &str, column: &str) -> Piece {
    Piece::transaction(table, PhaseName::Index, vec![ddl::add_primary_key(init, table, column)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::ddl::tests::init;
    use crate::dataset::plan::statements;

    fn place(sql: &[String], text: &str) -> usize {
        sql.iter().position(|one| one.contains(text)).unwrap_or_else(|| panic!("{text} in {sql:?}"))
    }

    #[test]
    fn steps_come_in_the_order_asked_for() {
        let asked = |steps: &str| InitWork { steps: Some(steps.into()), ..init(1) };
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
