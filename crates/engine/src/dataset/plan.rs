//! What must be done to make the tables, cut into pieces that can be done at the same time.
//!
//! A piece is one transaction (or one VACUUM) with a name in the journal, so that a load that was
//! cut off goes on with the pieces that are missing. Chains of a stage are worked off side by side,
//! stages one after another.

use super::ddl::{self, FILLED};
use super::journal::{self, Done};
use super::piece::{Chain, Copy, Piece, Stage, Work, pieces};
use super::rows::{HashPartition, Rows};
use super::steps_asked;
use crate::contract::job::{InitWork, PartitionMethod};
use crate::contract::record::PhaseName;

/// Leaves created in one transaction: each takes a few locks, of which the server has a limit.
const LEAVES_PER_TRANSACTION: usize = 100;

/// Accounts whose branch is the same in every row are sent without what is the same in all.
const CONSTANT_COLUMNS: &str = "alter abalance set default 0, alter filler set default ''";
const NO_CONSTANTS: &str = "alter abalance drop default, alter filler drop default";

/// How many rows each table of `FILLED` will have.
pub fn row_totals(init: &InitWork) -> [u64; 3] {
    let scale = u64::from(init.scale);
    [scale * ddl::ACCOUNTS_PER_BRANCH, scale * ddl::TELLERS_PER_BRANCH, scale]
}

/// The rows of `pgbench_accounts`: those of the table, or of each leaf.
pub fn account_rows(init: &InitWork) -> Vec<(String, Rows)> {
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

/// The whole load, stage by stage.
pub(super) fn stages(init: &InitWork, server_major: u32) -> Vec<Stage> {
    match &init.steps {
        Some(steps) => steps_asked::stages(init, steps),
        None => vec![
            vec![creation(init)],
            filling(init, server_major),
            vec![conclusion(init, server_major)],
        ],
    }
}

/// The stages without what is done; chains and stages without work are gone.
pub(super) fn left(mut stages: Vec<Stage>, done: &Done) -> Vec<Stage> {
    for stage in &mut stages {
        for chain in stage.iter_mut() {
            chain.retain(|piece| !done.contains_key(&piece.name));
        }
        stage.retain(|chain| !chain.is_empty());
    }
    stages.retain(|stage| !stage.is_empty());
    stages
}

/// The stages with only those accounts whose number is at most `last`.
pub(super) fn narrowed(mut stages: Vec<Stage>, last: u64) -> Vec<Stage> {
    for piece in stages.iter_mut().flatten().flatten() {
        if let Work::Copy(copy) = &mut piece.work
            && copy.counter == 0
        {
            copy.rows = copy.rows.clone().up_to(last);
        }
    }
    stages
}

/// Every statement of the load, in the order of a load by one session.
pub(super) fn statements(init: &InitWork, server_major: u32) -> Vec<String> {
    let stages = stages(init, server_major);
    let close = journal::CLOSE.split("; ").map(String::from);
    pieces(&stages).flat_map(Piece::statements).chain(close).collect()
}

/// Make the empty tables, marked as ours from the first moment they exist.
fn creation(init: &InitWork) -> Vec<Piece> {
    // Subtle: a load that goes on comes here only if the server crashed and emptied the journal.
    let is_replacing = init.drop_existing || init.resume;
    let drop = is_replacing.then(|| ddl::DROP_TABLES.to_string());
    let tables = drop.into_iter().chain(journal::create(init)).chain(marked_tables(init));
    let first = Piece::transaction("create", PhaseName::Create, tables.collect());
    [vec![first], marked_leaves(init)].concat()
}

pub(super) fn marked_tables(init: &InitWork) -> Vec<String> {
    let marks = ddl::TABLES.iter().map(|table| ddl::mark_table(table, &init.mark));
    let distribution = super::distribute::after_create(init);
    ddl::create_tables(init).into_iter().chain(marks).chain(distribution).collect()
}

pub(super) fn marked_leaves(init: &InitWork) -> Vec<Piece> {
    let leaves = ddl::create_partitions(init);
    let chunks = leaves.chunks(LEAVES_PER_TRANSACTION).enumerate();
    let piece = |(chunk, leaves): (usize, &[String])| {
        let first = chunk * LEAVES_PER_TRANSACTION + 1;
        let marks = (first..first + leaves.len())
            .map(|number| ddl::mark_table(&ddl::partition_name(number as u32), &init.mark));
        let sql = leaves.iter().cloned().chain(marks).collect();
        Piece::transaction(&format!("create partitions from {first}"), PhaseName::Create, sql)
    };
    chunks.map(piece).collect()
}

/// Fill all tables, those that take longest first; each is vacuumed and gets its key.
///
/// Subtle: accounts that came in ranges are vacuumed in the next stage, because a transaction that
/// still fills another table would keep their rows from being frozen.
fn filling(init: &InitWork, server_major: u32) -> Stage {
    // Before 18 the ANALYZE of the parent reads the leaves again, so they need none of their own;
    // the parent's key adopts those of the leaves.
    let analyze = if init.partitions == 0 || server_major >= 18 { " analyze" } else { "" };
    let finished = |mut chain: Chain| {
        let Some(Work::Copy(copy)) = chain.first().map(|piece| piece.work.clone()) else {
            return chain;
        };
        let (analyze, column) =
            [(analyze, "aid"), (" analyze", "tid"), (" analyze", "bid")][copy.counter];
        if copy.counter > 0 || init.range_rows.is_none() {
            chain.push(vacuum(init, &copy.table, analyze));
            chain.push(key(init, &copy.table, column));
        }
        chain
    };
    let history = vec![vacuum(init, "pgbench_history", " analyze")];
    copies(init).into_iter().map(finished).chain([history]).collect()
}

/// A chain for each COPY: ranges or leaves of accounts, then tellers, then branches.
pub(super) fn copies(init: &InitWork) -> Stage {
    let accounts: Vec<Piece> = match init.range_rows {
        Some(size) => {
            let last = row_totals(init)[0];
            let firsts = (1..=last).step_by(size.try_into().unwrap_or(usize::MAX));
            let piece = |first: u64| {
                let end = first.saturating_add(size - 1).min(last);
                let mut piece = copy(init, FILLED[0], Rows::accounts(first, end), 0);
                piece.name = format!("{} {first}-{end}", piece.name);
                piece
            };
            firsts.map(piece).collect()
        }
        None => {
            let leaves = account_rows(init).into_iter();
            leaves.map(|(table, rows)| copy(init, &table, rows, 0)).collect()
        }
    };
    let small = [
        copy(init, FILLED[1], Rows::tellers(init.scale), 1),
        copy(init, FILLED[2], Rows::branches(init.scale), 2),
    ];
    accounts.into_iter().chain(small).map(|piece| vec![piece]).collect()
}

/// Subtle: TRUNCATE in the same transaction is what allows FREEZE, and with `wal_level = minimal`
/// spares the WAL. Columns that are the same in every row come from defaults that only this
/// transaction sees: a sixth of the server's time is parsing them, row by row.
fn copy(init: &InitWork, table: &str, rows: Rows, counter: usize) -> Piece {
    let is_frozen = init.distribute.is_none() && (counter > 0 || init.range_rows.is_none());
    let work = match (is_frozen, counter) {
        (false, _) => Copy {
            before: Vec::new(),
            copy: format!("copy {table} from stdin"),
            after: Vec::new(),
            table: table.into(),
            rows,
            counter,
        },
        (true, 0) => Copy {
            before: vec![
                format!("alter table {table} {CONSTANT_COLUMNS}"),
                format!("truncate {table}"),
            ],
            copy: format!("copy {table}(aid, bid) from stdin with (freeze on)"),
            after: vec![format!("alter table {table} {NO_CONSTANTS}")],
            table: table.into(),
            rows: rows.without_constants(),
            counter,
        },
        (true, _) => Copy {
            before: vec![format!("truncate {table}")],
            copy: format!("copy {table} from stdin with (freeze on)"),
            after: Vec::new(),
            table: table.into(),
            rows,
            counter,
        },
    };
    Piece { name: format!("copy {table}"), phase: PhaseName::Load, work: Work::Copy(work) }
}

/// Rows that COPY could not freeze are frozen here.
fn vacuum(init: &InitWork, table: &str, analyze: &str) -> Piece {
    let thaws = init.distribute.is_some() || (init.range_rows.is_some() && table == FILLED[0]);
    let sql = match thaws {
        true => format!("vacuum (freeze, analyze) {table}"),
        false => format!("vacuum{analyze} {table}"),
    };
    Piece::alone(&format!("vacuum {table}"), PhaseName::Vacuum, sql)
}

fn key(init: &InitWork, table: &str, column: &str) -> Piece {
    let sql = vec![ddl::add_primary_key(init, table, column)];
    Piece::transaction(&format!("key {table}"), PhaseName::Index, sql)
}

/// What is left when every table is filled, one after another.
fn conclusion(init: &InitWork, server_major: u32) -> Vec<Piece> {
    let mut pieces = Vec::new();
    if init.range_rows.is_some() {
        pieces.push(vacuum(init, FILLED[0], ""));
        pieces.push(key(init, FILLED[0], "aid"));
    }
    if init.partitions > 0 {
        let only = if server_major >= 18 { "only " } else { "" };
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

    fn rows_of(piece: &Piece) -> Rows {
        match &piece.work {
            Work::Copy(copy) => copy.rows.clone(),
            work => panic!("{work:?} has no rows"),
        }
    }

    #[test]
    fn range_partitions_share_out_every_account_once() {
        let work = InitWork { partitions: 7, ..init(3) };
        let mut expected = 1;
        for chain in copies(&work).into_iter().take(7) {
            let mut text = Vec::new();
            let count = rows_of(&chain[0]).fill(&mut text, usize::MAX);
            assert!(text.starts_with(format!("{expected}\t").as_bytes()), "{chain:?}");
            expected += count;
        }
        assert_eq!(expected, 300_001);
    }

    #[test]
    fn more_partitions_than_pages_of_accounts_leave_the_last_ones_empty() {
        let work = InitWork { partitions: 99_999, ..init(1) };
        let mut rows = rows_of(&copies(&work)[99_998][0]);
        assert_eq!(rows.fill(&mut Vec::new(), usize::MAX), 0);
    }

    #[test]
    fn ranges_share_out_every_account_once_also_where_account_numbers_are_wide() {
        for (scale, size) in [(3, 70_000), (100_000, 1_000_000_000)] {
            let work = InitWork { range_rows: Some(size), ..init(scale) };
            let mut ranges = copies(&work);
            ranges.truncate(ranges.len() - 2);
            let counts = ranges.iter().map(|chain| rows_of(&chain[0]).count());
            assert_eq!(counts.sum::<u64>(), u64::from(scale) * 100_000);
            let last = rows_of(&ranges[ranges.len() - 1][0]);
            let mut text = Vec::new();
            last.clone().fill(&mut text, 1);
            let first = u64::from(scale) * 100_000 - last.count() + 1;
            assert!(text.starts_with(format!("{first}\t").as_bytes()));
        }
    }

    #[test]
    fn without_partitions_nothing_is_left_but_foreign_keys() {
        assert!(conclusion(&init(1), 15).is_empty());
        assert_eq!(conclusion(&InitWork { foreign_keys: true, ..init(1) }, 15).len(), 5);
    }

    #[test]
    fn what_was_done_is_not_done_again_and_vacuum_waits_for_every_range() {
        let work = InitWork { range_rows: Some(100_000), ..init(2) };
        let done = |names: &[&str]| names.iter().map(|name| (name.to_string(), 0)).collect();
        let all = stages(&work, 15);
        let total = pieces(&all).count();
        let rest = left(all.clone(), &done(&["create", "copy pgbench_accounts 1-100000"]));
        assert_eq!(pieces(&rest).count(), total - 2);
        assert_eq!(rest[0][0][0].name, "copy pgbench_accounts 100001-200000");
        let last: Vec<_> = rest[rest.len() - 1][0].iter().map(|piece| &piece.name).collect();
        assert_eq!(last, ["vacuum pgbench_accounts", "key pgbench_accounts"]);

        let everything = pieces(&all).map(|piece| (piece.name.clone(), 0)).collect();
        assert!(left(all, &everything).is_empty());
    }

    #[test]
    fn every_piece_has_a_name_of_its_own() {
        for work in [
            InitWork { partitions: 250, foreign_keys: true, ..init(1) },
            InitWork { range_rows: Some(1000), ..init(1) },
            InitWork { steps: Some("dtgdtGvvpf".into()), ..init(1) },
        ] {
            let stages = stages(&work, 18);
            let names: Vec<_> = pieces(&stages).map(|piece| &piece.name).collect();
            let mut unique = names.clone();
            unique.sort();
            unique.dedup();
            assert_eq!(unique.len(), names.len(), "{names:?}");
        }
    }

    #[test]
    fn what_freeze_cannot_do_vacuum_does() {
        let ranges = InitWork { range_rows: Some(50_000), ..init(1) };
        let sql = statements(&ranges, 15);
        assert!(sql.contains(&"copy pgbench_accounts from stdin".into()));
        assert!(sql.contains(&"vacuum (freeze, analyze) pgbench_accounts".into()));
        assert!(sql.contains(&"copy pgbench_tellers from stdin with (freeze on)".into()));
        let plain = statements(&init(1), 15);
        assert!(plain.contains(&"vacuum analyze pgbench_accounts".into()));
        assert!(plain.iter().all(|sql| !sql.contains("(freeze, ")));
    }
}
