//! Distributes the pgbench tables over the nodes of a Citus or Greenplum server.
//!
//! By account (`aid`): each table is distributed by its own key, and history by account. So one
//! node does the work on an account and on its history. With foreign keys, branches and tellers are
//! reference tables on Citus, because Citus allows foreign keys only to these. Without foreign keys
//! they are not, because an update of a reference table is an update on every node.
//!
//! By branch (`bid`): all tables are distributed by branch. Each primary key also has the branch,
//! because a key is unique only within a node.

use crate::dataset::{Distribute, DistributionColumn, PgbenchOptions};
use pgdyno_engine::contract::job::DistributedServer;

/// The order in which Citus distributes the tables. A table comes after the table that it is
/// colocated with.
const ORDER: [&str; 4] =
    ["pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history"];

/// The columns of the primary key of `table`: `column`, and also the branch if tables are
/// distributed by branch.
pub(super) fn key_columns(init: &PgbenchOptions, table: &str, column: &str) -> String {
    match init.distribute {
        Some(Distribute { column: DistributionColumn::Bid, .. }) if table != ORDER[0] => {
            format!("{column}, bid")
        }
        _ => column.to_string(),
    }
}

/// The clause after the definition of `table` in CREATE TABLE.
pub(super) fn table_clause(init: &PgbenchOptions, table: &str) -> String {
    match init.distribute {
        Some(Distribute { server: DistributedServer::Greenplum, column }) => {
            format!(" distributed by ({})", column_of(column, table))
        }
        _ => String::new(),
    }
}

/// The statements that distribute the tables after they are created. The control file of Citus puts
/// all functions into pg_catalog, where no tenant can add one that fits better.
pub(super) fn after_create(init: &PgbenchOptions) -> Vec<String> {
    let Some(Distribute { server: DistributedServer::Citus, column: by }) = init.distribute else {
        return Vec::new();
    };
    let statement = |table: &str| {
        let column = column_of(by, table);
        let neighbour = match (by, table) {
            (DistributionColumn::Bid, "pgbench_branches") => "none",
            (DistributionColumn::Bid, _) => "pgbench_branches",
            (DistributionColumn::Aid, "pgbench_history") => "pgbench_accounts",
            (DistributionColumn::Aid, _) => "none",
        };
        if init.foreign_keys && matches!(table, "pgbench_branches" | "pgbench_tellers") {
            return format!("select pg_catalog.create_reference_table('{table}')");
        }
        format!(
            "select pg_catalog.create_distributed_table('{table}', '{column}', \
             colocate_with => '{neighbour}')"
        )
    };
    ORDER.into_iter().map(statement).collect()
}

fn column_of(by: DistributionColumn, table: &str) -> &'static str {
    match (by, table) {
        (DistributionColumn::Bid, _) | (_, "pgbench_branches") => "bid",
        (DistributionColumn::Aid, "pgbench_tellers") => "tid",
        (DistributionColumn::Aid, _) => "aid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::ddl;
    use crate::dataset::ddl::tests::init;
    use pgdyno_engine::dialect::GREENPLUM;

    fn work(server: DistributedServer, column: DistributionColumn) -> PgbenchOptions {
        PgbenchOptions { distribute: Some(Distribute { server, column }), ..init(1) }
    }

    #[test]
    fn by_account_history_lies_beside_its_accounts() {
        let statements = after_create(&work(DistributedServer::Citus, DistributionColumn::Aid));
        let expected = [
            "select pg_catalog.create_distributed_table('pgbench_branches', 'bid', \
             colocate_with => 'none')",
            "select pg_catalog.create_distributed_table('pgbench_tellers', 'tid', \
             colocate_with => 'none')",
            "select pg_catalog.create_distributed_table('pgbench_accounts', 'aid', \
             colocate_with => 'none')",
            "select pg_catalog.create_distributed_table('pgbench_history', 'aid', \
             colocate_with => 'pgbench_accounts')",
        ];
        assert_eq!(statements, expected);
    }

    #[test]
    fn what_foreign_keys_point_at_is_a_reference_table() {
        let plain = work(DistributedServer::Citus, DistributionColumn::Aid);
        let statements = after_create(&PgbenchOptions { foreign_keys: true, ..plain });
        assert_eq!(statements[0], "select pg_catalog.create_reference_table('pgbench_branches')");
        assert_eq!(statements[1], "select pg_catalog.create_reference_table('pgbench_tellers')");
        assert!(statements[2].contains("pg_catalog.create_distributed_table('pgbench_accounts'"));
    }

    #[test]
    fn by_branch_every_primary_key_has_the_branch() {
        for server in [DistributedServer::Citus, DistributedServer::Greenplum] {
            let work = work(server, DistributionColumn::Bid);
            let keys = ddl::KEYS.map(|(table, column)| ddl::add_primary_key(&work, table, column));
            assert!(keys[0].contains("primary key (bid)"), "{keys:?}");
            assert!(keys[1].contains("primary key (tid, bid)"), "{keys:?}");
            assert!(keys[2].contains("primary key (aid, bid)"), "{keys:?}");
        }
        let citus = work(DistributedServer::Citus, DistributionColumn::Bid);
        assert!(after_create(&citus).iter().all(|sql| sql.contains("'bid'")));
    }

    #[test]
    fn greenplum_has_its_clause_at_the_end_of_each_table() {
        let by_account = work(DistributedServer::Greenplum, DistributionColumn::Aid);
        let ends = |work: &PgbenchOptions| {
            ddl::create_tables(work, &GREENPLUM)
                .into_iter()
                .map(|sql| sql[sql.find(" distributed").expect("a clause")..].to_string())
        };
        let columns = ["aid", "tid", "aid", "bid"].map(|c| format!(" distributed by ({c})"));
        assert!(ends(&by_account).eq(columns));
        let by_branch = work(DistributedServer::Greenplum, DistributionColumn::Bid);
        assert!(ends(&by_branch).all(|clause| clause == " distributed by (bid)"));
        assert!(after_create(&by_branch).is_empty());
    }
}
