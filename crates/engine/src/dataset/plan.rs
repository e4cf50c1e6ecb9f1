//! What must be done to fill the tables, cut into pieces that can be done at the same time.

use std::collections::VecDeque;

use super::ddl;
use super::rows::{HashPartition, Rows};
use crate::contract::job::{InitWork, PartitionMethod};
use crate::contract::record::PhaseName;

/// Tables with rows, in the order of the progress counters.
pub(super) const FILLED: [&str; 3] = ["pgbench_accounts", "pgbench_tellers", "pgbench_branches"];

/// One table or leaf: it is filled, vacuumed and given its key by one session, in this order,
/// while other sessions do the same with other tables.
#[derive(Debug)]
pub(super) struct Unit {
    pub table: String,
    /// The rows, and the index of their counter in `FILLED`.
    pub rows: Option<(Rows, usize)>,
    pub vacuum: String,
    pub key: Option<String>,
}

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

/// All tables, those that take longest first.
pub(super) fn units(init: &InitWork, server_major: u32) -> VecDeque<Unit> {
    // Before 18 the ANALYZE of the parent reads the leaves again, so they need none of their own;
    // the parent's key adopts those of the leaves.
    let analyze = if init.partitions == 0 || server_major >= 18 { " analyze" } else { "" };
    let accounts = account_rows(init).into_iter().map(|(table, rows)| Unit {
        rows: Some((rows, 0)),
        vacuum: format!("vacuum{analyze} {table}"),
        key: Some(ddl::add_primary_key(init, &table, "aid")),
        table,
    });
    let small = |table: &str, rows, key: Option<&str>| Unit {
        table: table.into(),
        rows,
        vacuum: format!("vacuum analyze {table}"),
        key: key.map(|column| ddl::add_primary_key(init, table, column)),
    };
    accounts
        .chain([
            small(FILLED[1], Some((Rows::tellers(init.scale), 1)), Some("tid")),
            small(FILLED[2], Some((Rows::branches(init.scale), 2)), Some("bid")),
            small("pgbench_history", None, None),
        ])
        .collect()
}

/// What is left when every unit is done, one after another.
pub(super) fn conclusion(init: &InitWork, server_major: u32) -> Vec<(PhaseName, String)> {
    let mut steps = Vec::new();
    if init.partitions > 0 {
        let only = if server_major >= 18 { "only " } else { "" };
        steps.push((PhaseName::Vacuum, format!("analyze {only}pgbench_accounts")));
        steps.push((PhaseName::Index, ddl::add_primary_key(init, "pgbench_accounts", "aid")));
    }
    if init.foreign_keys {
        let keys = ddl::FOREIGN_KEYS.iter().map(|&sql| (PhaseName::ForeignKeys, sql.into()));
        steps.extend(keys);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::ddl::tests::init;

    #[test]
    fn range_partitions_share_out_every_account_once() {
        let work = InitWork { partitions: 7, ..init(3) };
        let mut expected = 1;
        for unit in units(&work, 15).into_iter().take(7) {
            let (mut rows, _) = unit.rows.expect("leaves have rows");
            let mut text = Vec::new();
            let count = rows.fill(&mut text, usize::MAX);
            assert!(text.starts_with(format!("{expected}\t").as_bytes()), "{}", unit.table);
            expected += count;
        }
        assert_eq!(expected, 300_001);
    }

    #[test]
    fn more_partitions_than_pages_of_accounts_leave_the_last_ones_empty() {
        let work = InitWork { partitions: 99_999, ..init(1) };
        let (mut rows, _) = units(&work, 15)[99_998].rows.clone().expect("leaves have rows");
        assert_eq!(rows.fill(&mut Vec::new(), usize::MAX), 0);
    }

    #[test]
    fn without_partitions_nothing_is_left_but_foreign_keys() {
        assert!(conclusion(&init(1), 15).is_empty());
        assert_eq!(conclusion(&InitWork { foreign_keys: true, ..init(1) }, 15).len(), 5);
    }
}
