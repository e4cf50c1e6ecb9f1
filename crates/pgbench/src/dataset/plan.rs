//! The pieces of work that create, fill, vacuum and index the pgbench tables.

use super::ddl::{self, FILLED};
use super::rows::{HashPartition, Rows};
use crate::dataset::{PartitionMethod, PgbenchOptions};
use pgdyno_engine::contract::record::PhaseName;
use pgdyno_engine::dataset::piece::{Chain, Copy, Piece, Stage, Work};
use pgdyno_engine::dataset::sql::mark_table;
use pgdyno_engine::dialect::{Dialect, Server};

/// Leaves created in one transaction. Each takes a few locks, and the server limits their number.
const LEAVES_PER_TRANSACTION: usize = 100;

/// Defaults for the columns that are equal in all accounts, so that COPY need not send them.
const CONSTANT_COLUMNS: &str = "alter abalance set default 0, alter filler set default ''";
const NO_CONSTANTS: &str = "alter abalance drop default, alter filler drop default";

/// The number of rows that each table of `FILLED` will have.
pub fn row_totals(init: &PgbenchOptions) -> [u64; 3] {
    let scale = u64::from(init.scale);
    [scale * ddl::ACCOUNTS_PER_BRANCH, scale * ddl::TELLERS_PER_BRANCH, scale]
}

/// The rows of `pgbench_accounts`, with the table's name; with partitions, those of each leaf.
pub fn account_rows(init: &PgbenchOptions) -> Vec<(String, Rows)> {
    let last = row_totals(init)[0];
    let leaf = |number: u32| match init.partition_method {
        PartitionMethod::Range => {
            let size = ddl::partition_size(init);
            let first = u64::from(number - 1) * size + 1;
            Rows::accounts(first, (first + size - 1).min(last))
        }
        PartitionMethod::Hash => Rows::accounts(1, last).only(HashPartition {
            modulus: init.partitions,
            remainder: number - 1,
            wide: ddl::has_wide_accounts(init.scale),
        }),
    };
    match init.partitions {
        0 => vec![(FILLED[0].into(), Rows::accounts(1, last))],
        count => (1..=count).map(|number| (ddl::partition_name(number), leaf(number))).collect(),
    }
}

/// Statements that create the empty tables and mark them. Both are one transaction, so no table is
/// ever visible without its mark.
pub(super) fn marked_tables(init: &PgbenchOptions, mark: &str, dialect: &Dialect) -> Vec<String> {
    let marks = ddl::TABLES.iter().map(|table| mark_table(table, mark));
    let distribution = super::distribute::after_create(init);
    ddl::create_tables(init, dialect).into_iter().chain(marks).chain(distribution).collect()
}

pub(super) fn marked_leaves(init: &PgbenchOptions, mark: &str, dialect: &Dialect) -> Vec<Piece> {
    let leaves = ddl::create_partitions(init, dialect);
    let chunks = leaves.chunks(LEAVES_PER_TRANSACTION).enumerate();
    let piece = |(chunk, leaves): (usize, &[String])| {
        let first = chunk * LEAVES_PER_TRANSACTION + 1;
        let marks = (first..first + leaves.len())
            .map(|number| mark_table(&ddl::partition_name(number as u32), mark));
        let sql = leaves.iter().cloned().chain(marks).collect();
        Piece::transaction(&format!("create partitions from {first}"), PhaseName::Create, sql)
    };
    chunks.map(piece).collect()
}

/// The stage that fills all tables, the largest first. Each is vacuumed and gets its key.
///
/// Subtle: if accounts come in ranges, their VACUUM is in the next stage. A transaction that still
/// fills another table would prevent VACUUM from freezing the rows.
pub(super) fn filling(init: &PgbenchOptions, server: Server) -> Stage {
    // Before 18, ANALYZE of the parent also reads the leaves, so the leaves need no separate
    // ANALYZE. The key of the parent adopts the keys of the leaves.
    let analyzes_leaf = init.partitions == 0 || server.major >= 18;
    let finished = |mut chain: Chain| {
        let Some(Work::Copy(Copy { table, counter, .. })) = chain.first().map(|first| &first.work)
        else {
            return chain;
        };
        let (analyzes, column) = [(analyzes_leaf, "aid"), (true, "tid"), (true, "bid")][*counter];
        if *counter > 0 || init.range_rows.is_none() {
            let rest = [vacuum(init, table, analyzes, server.dialect), key(init, table, column)];
            chain.extend(rest);
        }
        chain
    };
    let history = vec![vacuum(init, "pgbench_history", true, server.dialect)];
    copies(init, server.dialect).into_iter().map(finished).chain([history]).collect()
}

/// One chain for each COPY: ranges or leaves of accounts, then tellers, then branches.
pub(super) fn copies(init: &PgbenchOptions, dialect: &Dialect) -> Stage {
    let accounts: Vec<Piece> = match init.range_rows {
        Some(size) => {
            let last = row_totals(init)[0];
            let firsts = (1..=last).step_by(size.try_into().unwrap_or(usize::MAX));
            let piece = |first: u64| {
                let end = first.saturating_add(size - 1).min(last);
                let mut piece = copy(init, FILLED[0], Rows::accounts(first, end), (0, dialect));
                piece.name = format!("{} {first}-{end}", piece.name);
                piece
            };
            firsts.map(piece).collect()
        }
        None => {
            let leaves = account_rows(init).into_iter();
            leaves.map(|(table, rows)| copy(init, &table, rows, (0, dialect))).collect()
        }
    };
    let small = [
        copy(init, FILLED[1], Rows::tellers(init.scale), (1, dialect)),
        copy(init, FILLED[2], Rows::branches(init.scale), (2, dialect)),
    ];
    accounts.into_iter().chain(small).map(|piece| vec![piece]).collect()
}

/// The COPY of `rows`. If it fills accounts, columns that are equal in all rows come from defaults,
/// which only the transaction of the COPY sees. Parsing these columns, row by row, would take a
/// sixth of the server's time.
fn copy(
    init: &PgbenchOptions,
    table: &str,
    rows: Rows,
    (counter, dialect): (usize, &Dialect),
) -> Piece {
    if !dialect.copy_freezes || (counter == 0 && init.range_rows.is_some()) {
        let work = Copy {
            before: Vec::new(),
            copy: format!("copy {table} from stdin"),
            after: Vec::new(),
            table: table.into(),
            rows: Box::new(rows),
            counter,
            otherwise: None,
        };
        let name = format!("copy {table}");
        return Piece { name, phase: PhaseName::Load, work: Work::Copy(work) };
    }
    let rows = if counter == 0 { rows.without_constants() } else { rows };
    let mut piece = Piece::copy_whole(table, Box::new(rows), counter, dialect);
    if let (0, Work::Copy(work)) = (counter, &mut piece.work) {
        work.before.insert(0, format!("alter table {table} {CONSTANT_COLUMNS}"));
        work.copy = format!("copy {table}(aid, bid) from stdin with (freeze on)");
        work.after = vec![format!("alter table {table} {NO_CONSTANTS}")];
    }
    piece
}

/// The VACUUM of `table`. It freezes the rows if COPY could not.
fn vacuum(init: &PgbenchOptions, table: &str, analyzes: bool, dialect: &Dialect) -> Piece {
    let must_freeze = init.range_rows.is_some() && table == FILLED[0];
    let sql = dialect.vacuum(table, must_freeze, analyzes);
    Piece::alone(&format!("vacuum {table}"), PhaseName::Vacuum, sql)
}

fn key(init: &PgbenchOptions, table: &str, column: &str) -> Piece {
    let sql = vec![ddl::add_primary_key(init, table, column)];
    Piece::transaction(&format!("key {table}"), PhaseName::Index, sql)
}

/// The last pieces, after all tables are filled. One session does them.
pub(super) fn conclusion(init: &PgbenchOptions, server: Server) -> Vec<Piece> {
    let mut pieces = Vec::new();
    if init.range_rows.is_some() {
        pieces.push(vacuum(init, FILLED[0], false, server.dialect));
        pieces.push(key(init, FILLED[0], "aid"));
    }
    if init.partitions > 0 {
        let only = if server.major >= 18 { "only " } else { "" };
        let analyze = vec![format!("analyze {only}pgbench_accounts")];
        pieces.push(Piece::transaction("analyze pgbench_accounts", PhaseName::Vacuum, analyze));
        pieces.push(key(init, "pgbench_accounts", "aid"));
    }
    if init.foreign_keys {
        pieces.extend(foreign_keys());
    }
    pieces
}

pub(super) fn foreign_keys() -> Vec<Piece> {
    let piece = |(number, sql): (usize, &&str)| {
        let name = format!("foreign key {}", number + 1);
        Piece::transaction(&name, PhaseName::ForeignKeys, vec![sql.to_string()])
    };
    ddl::FOREIGN_KEYS.iter().enumerate().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::ddl::tests::init;
    use pgdyno_engine::dataset::piece::RowSource;
    use pgdyno_engine::dialect::POSTGRESQL;

    fn rows_of(chain: &mut Chain) -> &mut dyn RowSource {
        match &mut chain[0].work {
            Work::Copy(copy) => copy.rows.as_mut(),
            work => panic!("{work:?} has no rows"),
        }
    }

    #[test]
    fn range_partitions_share_out_every_account_once() {
        let work = PgbenchOptions { partitions: 7, ..init(3) };
        let mut expected = 1;
        for mut chain in copies(&work, &POSTGRESQL).into_iter().take(7) {
            let mut text = Vec::new();
            let count = rows_of(&mut chain).fill(&mut text, usize::MAX);
            assert!(text.starts_with(format!("{expected}\t").as_bytes()), "{chain:?}");
            expected += count;
        }
        assert_eq!(expected, 300_001);
    }

    #[test]
    fn more_partitions_than_pages_of_accounts_leave_the_last_ones_empty() {
        let work = PgbenchOptions { partitions: 99_999, ..init(1) };
        assert_eq!(
            rows_of(&mut copies(&work, &POSTGRESQL)[99_998]).fill(&mut Vec::new(), usize::MAX),
            0
        );
    }

    #[test]
    fn ranges_share_out_every_account_once_also_where_account_numbers_are_wide() {
        for (scale, size) in [(3, 70_000), (100_000, 1_000_000_000)] {
            let work = PgbenchOptions { range_rows: Some(size), ..init(scale) };
            let mut ranges = copies(&work, &POSTGRESQL);
            ranges.truncate(ranges.len() - 2);
            let counts = ranges.iter_mut().map(|chain| rows_of(chain).count());
            assert_eq!(counts.sum::<u64>(), u64::from(scale) * 100_000);
            let last = rows_of(ranges.last_mut().expect("ranges"));
            let first = u64::from(scale) * 100_000 - last.count() + 1;
            let mut text = Vec::new();
            last.fill(&mut text, 1);
            assert!(text.starts_with(format!("{first}\t").as_bytes()));
        }
    }

    #[test]
    fn without_partitions_nothing_is_left_but_foreign_keys() {
        let keyed = PgbenchOptions { foreign_keys: true, ..init(1) };
        assert!(conclusion(&init(1), Server::assumed(15, None)).is_empty());
        assert_eq!(conclusion(&keyed, Server::assumed(15, None)).len(), 5);
    }
}
