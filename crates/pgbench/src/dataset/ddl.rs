//! The SQL that creates the pgbench tables: the same statements that `pgbench -i` sends.

use super::distribute::{key_columns, table_clause};
use crate::dataset::{PartitionMethod, PgbenchOptions};
use pgdyno_engine::dataset::sql::quote_identifier;
use pgdyno_engine::dialect::Dialect;

pub const ACCOUNTS_PER_BRANCH: u64 = 100_000;
pub const TELLERS_PER_BRANCH: u64 = 10;

/// From this scale on `aid` is a bigint (pgbench: SCALE_32BIT_THRESHOLD).
const SCALE_OF_BIGINT: u32 = 20_000;

/// Tables with rows, in the order of the progress counters.
pub(super) const FILLED: [&str; 3] = ["pgbench_accounts", "pgbench_tellers", "pgbench_branches"];

/// All tables, in the order in which pgbench drops them.
pub const ALL: [&str; 4] =
    ["pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"];

pub const TRUNCATE_TABLES: &str =
    "truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers";

/// All tables, in the order in which `pgbench -i` vacuums them.
pub const TABLES: [&str; 4] =
    ["pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history"];

/// Table and column of each primary key.
pub const KEYS: [(&str, &str); 3] =
    [("pgbench_branches", "bid"), ("pgbench_tellers", "tid"), ("pgbench_accounts", "aid")];

pub const FOREIGN_KEYS: [&str; 5] = [
    "alter table pgbench_tellers add constraint pgbench_tellers_bid_fkey \
     foreign key (bid) references pgbench_branches",
    "alter table pgbench_accounts add constraint pgbench_accounts_bid_fkey \
     foreign key (bid) references pgbench_branches",
    "alter table pgbench_history add constraint pgbench_history_bid_fkey \
     foreign key (bid) references pgbench_branches",
    "alter table pgbench_history add constraint pgbench_history_tid_fkey \
     foreign key (tid) references pgbench_tellers",
    "alter table pgbench_history add constraint pgbench_history_aid_fkey \
     foreign key (aid) references pgbench_accounts",
];

/// True if account numbers are bigint, as in pgbench with a large scale factor.
pub fn has_wide_accounts(scale: u32) -> bool {
    scale >= SCALE_OF_BIGINT
}

/// Statements that create the four tables. With partitions, `pgbench_accounts` is the parent.
///
/// As in pgbench, with partitions only the leaves of `pgbench_accounts` can be unlogged; the other
/// three tables stay logged. The leaves, not the parent, have the fill factor.
pub fn create_tables(init: &PgbenchOptions, dialect: &Dialect) -> Vec<String> {
    let aid = if has_wide_accounts(init.scale) { "bigint" } else { "int   " };
    let unlogged = if init.unlogged && init.partitions == 0 { " unlogged" } else { "" };
    let fill = dialect.fillfactor(init.fillfactor, 100);
    let accounts_storage = match (init.partitions, init.partition_method) {
        (0, _) => fill.clone(),
        (_, PartitionMethod::Range) => " partition by range (aid)".into(),
        (_, PartitionMethod::Hash) => " partition by hash (aid)".into(),
    };
    let tablespace = match &init.tablespace {
        Some(name) => format!(" tablespace {}", quote_identifier(name)),
        None => String::new(),
    };
    let table = |name: &str, columns: String, storage: &str| {
        let distribution = table_clause(init, name);
        format!("create{unlogged} table {name}({columns}){storage}{tablespace}{distribution}")
    };
    vec![
        table(
            "pgbench_history",
            format!("tid int,bid int,aid {aid},delta int,mtime timestamp,filler char(22)"),
            "",
        ),
        table(
            "pgbench_tellers",
            "tid int not null,bid int,tbalance int,filler char(84)".into(),
            &fill,
        ),
        table(
            "pgbench_accounts",
            format!("aid {aid} not null,bid int,abalance int,filler char(84)"),
            &accounts_storage,
        ),
        table("pgbench_branches", "bid int not null,bbalance int,filler char(88)".into(), &fill),
    ]
}

/// Statements that create the leaves of `pgbench_accounts`; none without partitions.
pub fn create_partitions(init: &PgbenchOptions, dialect: &Dialect) -> Vec<String> {
    let unlogged = if init.unlogged { " unlogged" } else { "" };
    let fill = dialect.fillfactor(init.fillfactor, 100);
    (1..=init.partitions)
        .map(|number| {
            let bounds = partition_bounds(init, number);
            format!(
                "create{unlogged} table {}\n  partition of pgbench_accounts\n  \
                 for values {bounds}{fill}",
                partition_name(number)
            )
        })
        .collect()
}

fn partition_bounds(init: &PgbenchOptions, number: u32) -> String {
    match init.partition_method {
        PartitionMethod::Hash => {
            format!("with (modulus {}, remainder {})", init.partitions, number - 1)
        }
        PartitionMethod::Range => {
            let from = match number {
                1 => "minvalue".into(),
                _ => (u64::from(number - 1) * partition_size(init) + 1).to_string(),
            };
            let to = match number == init.partitions {
                true => "maxvalue".into(),
                false => (u64::from(number) * partition_size(init) + 1).to_string(),
            };
            format!("from ({from}) to ({to})")
        }
    }
}

/// Number of accounts in each range partition. The last partition may have fewer.
pub fn partition_size(init: &PgbenchOptions) -> u64 {
    (u64::from(init.scale) * ACCOUNTS_PER_BRANCH).div_ceil(u64::from(init.partitions.max(1)))
}

/// Name of the leaf with this number, from 1.
pub fn partition_name(number: u32) -> String {
    format!("pgbench_accounts_{number}")
}

/// The statement that adds a primary key on `column` of `table`.
pub fn add_primary_key(init: &PgbenchOptions, table: &str, column: &str) -> String {
    let tablespace = match &init.index_tablespace {
        Some(name) => format!(" using index tablespace {}", quote_identifier(name)),
        None => String::new(),
    };
    let columns = key_columns(init, table, column);
    // Citus before 11.2 needs a name here: the one that PostgreSQL would choose.
    let name = match init.distribute {
        Some(_) => format!("constraint {table}_pkey "),
        None => String::new(),
    };
    format!("alter table {table} add {name}primary key ({columns}){tablespace}")
}

/// One INSERT for each table of `FILLED`, in which the server generates the rows.
pub fn insert_rows(init: &PgbenchOptions) -> [String; 3] {
    let scale = u64::from(init.scale);
    [
        format!(
            "insert into pgbench_accounts(aid,bid,abalance,filler) \
             select aid, (aid - 1) / {ACCOUNTS_PER_BRANCH} + 1, 0, '' \
             from generate_series(1, {}) as aid",
            scale * ACCOUNTS_PER_BRANCH
        ),
        format!(
            "insert into pgbench_tellers(tid,bid,tbalance) \
             select tid, (tid - 1) / {TELLERS_PER_BRANCH} + 1, 0 \
             from generate_series(1, {}) as tid",
            scale * TELLERS_PER_BRANCH
        ),
        format!(
            "insert into pgbench_branches(bid,bbalance) select bid, 0 \
             from generate_series(1, {scale}) as bid"
        ),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pgdyno_engine::dialect::POSTGRESQL;

    fn create_tables_of(init: &PgbenchOptions) -> Vec<String> {
        create_tables(init, &POSTGRESQL)
    }

    pub(in crate::dataset) fn init(scale: u32) -> PgbenchOptions {
        PgbenchOptions { scale, ..PgbenchOptions::default() }
    }

    #[test]
    fn tables_are_those_of_pgbench() {
        let statements = create_tables_of(&PgbenchOptions {
            unlogged: true,
            tablespace: Some("fast \"one\"".into()),
            ..init(1)
        });
        assert_eq!(
            statements[2],
            "create unlogged table pgbench_accounts(aid int    not null,bid int,abalance int,\
             filler char(84)) with (fillfactor=100) tablespace \"fast \"\"one\"\"\""
        );
    }

    #[test]
    fn account_numbers_become_bigint_at_scale_20000() {
        assert!(create_tables_of(&init(19_999))[2].contains("aid int "));
        assert!(create_tables_of(&init(20_000))[2].contains("aid bigint not null"));
        assert!(create_tables_of(&init(20_000))[0].contains("aid bigint,"));
    }

    #[test]
    fn range_partitions_are_open_at_both_ends_and_meet() {
        let work = PgbenchOptions { partitions: 3, unlogged: true, ..init(1) };
        assert!(create_tables_of(&work).iter().all(|sql| !sql.contains("unlogged")));
        let leaves = create_partitions(&work, &POSTGRESQL);
        assert!(leaves[0].contains("from (minvalue) to (33335) with (fillfactor=100)"));
        assert!(leaves[1].contains("from (33335) to (66669)"));
        assert!(leaves[2].contains("from (66669) to (maxvalue)"));
        assert!(leaves.iter().all(|sql| sql.starts_with("create unlogged table")));
    }
}
