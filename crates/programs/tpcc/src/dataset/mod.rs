//! The nine tables of the TPC-C-like workload.
//!
//! Each table or leaf is one COPY with FREEZE in a separate transaction, then VACUUM ANALYZE, its
//! key and its index. With `range_warehouses`, ranges of warehouses are separate COPYs, and VACUUM
//! freezes the rows afterwards. Sessions load several tables at the same time, and start with the
//! largest. Foreign keys come last. On Citus, COPY cannot freeze, so VACUUM freezes the rows.

mod ddl;
mod rows;

use self::ddl::{ALL, BY_SIZE, FOREIGN_KEYS, Table};
use self::rows::Rows;
use crate::options::TpccOptions;
use crate::sizes::A_LAST_NAME;
use pgdyno_engine::contract::job::{DistributedServer, InitWork};
use pgdyno_engine::contract::record::PhaseName;
use pgdyno_engine::dataset::piece::{Chain, Copy, Piece, Stage, Work};
use pgdyno_engine::dataset::sql::mark_table;
use pgdyno_engine::dataset::{self, Dataset};
use pgdyno_engine::dialect::{Dialect, ForeignKeys, Server};

/// Leaves of one table that are created in one transaction. Each takes a few locks.
const LEAVES_PER_TRANSACTION: u32 = 100;

const WAREHOUSES_MAX: u32 = 1_000_000;

impl Dataset for TpccOptions {
    fn tables(&self) -> Vec<&str> {
        ALL.to_vec()
    }

    fn row_totals(&self) -> Vec<(&str, u64)> {
        BY_SIZE.map(|table| (table.name(), table.rows_of(self.warehouses))).into()
    }

    fn stages(&self, how: &InitWork, server: Server) -> Vec<Stage> {
        let tables = BY_SIZE.iter().enumerate();
        let filled = tables.flat_map(|(i, table)| self.filling(*table, i, server.dialect));
        vec![
            vec![self.creation(how, server.dialect)],
            filled.collect(),
            self.ranged(server.dialect),
            self.parents(),
            vec![self.foreign_keys(server.dialect)],
        ]
    }

    fn broken_rules(&self) -> Vec<(String, &'static str)> {
        let TpccOptions { warehouses, partitions, distribute, .. } = *self;
        let mut broken = Vec::new();
        let mut rule = |holds: bool, message: String| {
            if !holds {
                broken.push((message, "correct the job"));
            }
        };
        rule(
            (1..=WAREHOUSES_MAX).contains(&warehouses),
            format!("warehouses must be 1 to {WAREHOUSES_MAX}, got {warehouses}"),
        );
        if let Some(fill) = self.fillfactor {
            let message = format!("fillfactor must be 10 to 100, got {fill}");
            rule((10..=100).contains(&fill), message);
        }
        let c_last = self.c_last;
        rule(c_last <= A_LAST_NAME, format!("c_last must be 0 to {A_LAST_NAME}, got {c_last}"));
        rule(self.range_warehouses != Some(0), "range_warehouses must be above 0, got 0".into());
        rule(
            partitions == 0 || distribute.is_none(),
            "a distributed table cannot have partitions".into(),
        );
        rule(
            distribute != Some(DistributedServer::Greenplum),
            "this dataset can be distributed on Citus only".into(),
        );
        broken
    }

    fn index_rows_max(&self) -> u64 {
        Table::OrderLine.rows_of(self.warehouses) / u64::from(self.partitions.max(1))
    }

    fn is_unlogged(&self) -> bool {
        self.unlogged
    }

    fn distributed_server(&self) -> Option<DistributedServer> {
        self.distribute
    }

    fn title_words(&self) -> Vec<String> {
        self.range_warehouses.iter().map(|size| format!("range_warehouses={size}")).collect()
    }
}

impl TpccOptions {
    /// The pieces that create the empty tables and leaves. The same transaction marks them.
    fn creation(&self, how: &InitWork, dialect: &Dialect) -> Chain {
        let options = self;
        let tables = || (1..=ALL.len()).map(|number| BY_SIZE[place_of(number)]);
        let mut sql: Vec<String> = tables().map(|table| table.create(options, dialect)).collect();
        sql.extend(ALL.iter().map(|table| mark_table(table, &how.mark)));
        if options.distribute.is_some() {
            sql.extend(tables().map(Table::distribute));
        }
        let mut chain = vec![dataset::creation(self, how, sql)];
        for table in BY_SIZE.into_iter().filter(|table| table.is_partitioned(options)) {
            for first in (1..=options.partitions).step_by(LEAVES_PER_TRANSACTION as usize) {
                let last = options.partitions.min(first + LEAVES_PER_TRANSACTION - 1);
                let leaves = (first..=last).flat_map(|number| {
                    let mark = mark_table(&table.leaf(number), &how.mark);
                    [table.create_leaf(options, number, dialect), mark]
                });
                let name = format!("create partitions of {} from {first}", table.name());
                chain.push(Piece::transaction(&name, PhaseName::Create, leaves.collect()));
            }
        }
        chain
    }

    /// The chains that fill one table: one chain, or one for each leaf.
    fn filling(&self, table: Table, counter: usize, dialect: &Dialect) -> Stage {
        let options = self;
        let rows = |partition| {
            let what = (options.seed, options.c_last);
            Box::new(Rows::new(table, what, (1, options.warehouses), partition))
        };
        if let Some(size) = table.range_warehouses(options) {
            let range = |first: u32| {
                let last = first.saturating_add(size - 1).min(options.warehouses);
                let what = (options.seed, options.c_last);
                let rows = Rows::new(table, what, (first, last), None);
                let name = format!("copy {} {first}-{last}", table.name());
                let copy = Copy {
                    before: Vec::new(),
                    copy: format!("copy {} from stdin", table.name()),
                    after: Vec::new(),
                    table: table.name().into(),
                    rows: Box::new(rows),
                    counter,
                    otherwise: None,
                };
                vec![Piece { name, phase: PhaseName::Load, work: Work::Copy(copy) }]
            };
            return (1..=options.warehouses).step_by(size as usize).map(range).collect();
        }
        if !table.is_partitioned(options) {
            return vec![self.chain(
                table,
                table.name().to_string(),
                rows(None),
                (counter, dialect),
            )];
        }
        let leaf = |number: u32| {
            let rows = rows(Some((options.partitions, number - 1)));
            self.chain(table, table.leaf(number), rows, (counter, dialect))
        };
        (1..=options.partitions).map(leaf).collect()
    }

    fn chain(
        &self,
        table: Table,
        name: String,
        rows: Box<Rows>,
        (counter, dialect): (usize, &Dialect),
    ) -> Chain {
        let copy = Piece::copy_whole(&name, rows, counter, dialect);
        let vacuum = dialect.vacuum(&name, false, true);
        [copy].into_iter().chain(finished(table, &name, vacuum)).collect()
    }

    /// The stage after all ranges are filled: VACUUM freezes the rows, then keys and indexes.
    fn ranged(&self, dialect: &Dialect) -> Stage {
        let tables = BY_SIZE.into_iter().filter(|table| table.range_warehouses(self).is_some());
        let chain = |table: Table| {
            let vacuum = dialect.vacuum(table.name(), true, true);
            finished(table, table.name(), vacuum)
        };
        tables.map(chain).collect()
    }

    /// The stage after all leaves are filled: keys and indexes of the parents, which adopt those of
    /// the leaves.
    fn parents(&self) -> Stage {
        let parents = BY_SIZE.into_iter().filter(|table| table.is_partitioned(self));
        let chain = |table: Table| {
            let name = table.name();
            let analyze = vec![format!("analyze {name}")];
            let analyze =
                Piece::transaction(&format!("analyze {name}"), PhaseName::Vacuum, analyze);
            [analyze].into_iter().chain(indexes(table, name)).collect()
        };
        parents.map(chain).collect()
    }

    fn foreign_keys(&self, dialect: &Dialect) -> Chain {
        if !self.foreign_keys {
            return Vec::new();
        }
        // On Citus, a foreign key must contain the distribution column of both tables, or refer to
        // a table that every node has. The customer of a payment and the stock of an order line may
        // belong to another warehouse.
        let is_possible = |table: &str, columns: &str, referred: &str| {
            let is_local = |known: &Table| {
                known.name() == table
                    && known.warehouse_column().is_some_and(|column| columns.starts_with(column))
            };
            dialect.foreign_keys != ForeignKeys::SameNode
                || referred == Table::Item.name()
                || BY_SIZE.iter().any(is_local)
        };
        let keys = FOREIGN_KEYS.into_iter().enumerate();
        let piece = |(number, (table, columns, referred)): (usize, (&str, &str, &str))| {
            let sql = format!(
                "alter table {table} add constraint {table}_{referred}_fkey \
                 foreign key ({columns}) references {referred}"
            );
            let name = format!("foreign key {}", number + 1);
            Piece::transaction(&name, PhaseName::ForeignKeys, vec![sql])
        };
        let is_made = |&(_, (table, columns, referred)): &(usize, (&str, &str, &str))| {
            is_possible(table, columns, referred)
        };
        keys.filter(is_made).map(piece).collect()
    }
}

/// The pieces after all rows of `name`, a table or leaf: VACUUM, key and index.
fn finished(table: Table, name: &str, vacuum: String) -> Chain {
    let vacuum = Piece::alone(&format!("vacuum {name}"), PhaseName::Vacuum, vacuum);
    [vacuum].into_iter().chain(indexes(table, name)).collect()
}

fn indexes(table: Table, name: &str) -> Chain {
    let statements = table.index_statements(name).into_iter().enumerate();
    let piece = |(number, sql)| {
        let title = format!("index {} {name}", number + 1);
        Piece::transaction(&title, PhaseName::Index, vec![sql])
    };
    statements.map(piece).collect()
}

/// Index in `BY_SIZE` of the table with this number.
fn place_of(number: usize) -> usize {
    BY_SIZE.iter().position(|table| *table as usize == number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_engine::dataset::Options;
    use pgdyno_engine::dataset::piece::pieces;

    fn statements(options: TpccOptions) -> Vec<String> {
        let how = InitWork {
            dataset: options.in_job(),
            jobs: 1,
            mark: "mark".into(),
            drop_existing: false,
            resume: false,
            keep_unfinished: false,
            share: None,
        };
        let stages = options.stages(&how, Server::assumed(18, None));
        let mut names: Vec<&String> = pieces(&stages).map(|piece| &piece.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "every piece has its own name");
        pgdyno_engine::dataset::statements(&options, &how, 18)
    }

    #[test]
    fn every_table_is_made_marked_filled_and_indexed() {
        let options = TpccOptions { warehouses: 3, foreign_keys: true, ..TpccOptions::default() };
        let sql = statements(options);
        for table in ALL {
            for begin in
                [format!("create table {table}("), format!("comment on table {table} is 'mark'")]
            {
                assert!(sql.iter().any(|statement| statement.starts_with(&begin)), "{begin}");
            }
            let copy = format!("copy {table} from stdin with (freeze on)");
            assert!(sql.contains(&copy), "{copy}");
        }
        let keys = sql.iter().filter(|statement| {
            statement.starts_with("alter table") && statement.contains("primary key")
        });
        assert_eq!(keys.count(), 8, "every table but history");
        assert_eq!(sql.iter().filter(|statement| statement.contains("foreign key (")).count(), 10);
    }

    #[test]
    fn ranges_of_warehouses_are_copied_apart_and_frozen_after_all() {
        let ranges =
            TpccOptions { warehouses: 5, range_warehouses: Some(2), ..TpccOptions::default() };
        let sql = statements(ranges);
        let count = |text: &str| sql.iter().filter(|statement| *statement == text).count();
        assert_eq!(count("copy stock from stdin"), 3);
        assert_eq!(count("copy item from stdin with (freeze on)"), 1);
        assert_eq!(count("copy district from stdin with (freeze on)"), 1);
        let place = |text: &str| sql.iter().rposition(|statement| statement == text);
        assert!(place("copy stock from stdin") < place("vacuum (freeze, analyze) order_line"));
    }

    #[test]
    fn partitions_have_a_copy_each_and_citus_no_frozen_ones() {
        let partitioned = TpccOptions { warehouses: 3, partitions: 2, ..TpccOptions::default() };
        let sql = statements(partitioned);
        assert!(sql.contains(&"copy stock_2 from stdin with (freeze on)".into()));
        assert!(!sql.contains(&"copy stock from stdin with (freeze on)".into()));
        let citus = TpccOptions {
            warehouses: 3,
            distribute: Some(DistributedServer::Citus),
            foreign_keys: true,
            ..TpccOptions::default()
        };
        let sql = statements(citus);
        assert!(sql.contains(&"select pg_catalog.create_reference_table('item')".into()));
        assert!(sql.iter().all(|statement| !statement.contains("freeze on")));
        let keys: Vec<_> =
            sql.iter().filter(|statement| statement.contains("foreign key (")).collect();
        assert_eq!(keys.len(), 8, "all that stay within a warehouse, and the items");
        assert!(keys.iter().all(|key| !key.contains("supply_w_id") && !key.contains("h_c_w_id")));
    }
}
