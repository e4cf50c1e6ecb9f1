//! The four tables of pgbench, with the same contents as `pgbench -i`.
//!
//! One transaction creates the tables. Then sessions take one table, or leaf, after another:
//! TRUNCATE and COPY with FREEZE in one transaction, so that rows arrive frozen and visible; then
//! VACUUM ANALYZE; then the primary key. Foreign keys come last. All pages equal those of
//! `pgbench -i`, with one exception: here the leaves of a partitioned table are frozen. With
//! `range_rows`, all sessions copy into one table, and VACUUM freezes the rows afterwards.

pub mod ddl;
mod distribute;
mod options;
mod plan;
mod rows;
mod steps_asked;

pub use self::options::{Distribute, DistributionColumn, PartitionMethod, PgbenchOptions};
pub use self::plan::{account_rows, row_totals};
pub use self::rows::Rows;

use pgdyno_engine::contract::job::{DistributedServer, InitWork};
use pgdyno_engine::dataset::piece::Stage;
use pgdyno_engine::dataset::{self, Dataset};
use pgdyno_engine::dialect::Server;

impl Dataset for PgbenchOptions {
    fn tables(&self) -> Vec<&str> {
        ddl::ALL.to_vec()
    }

    fn row_totals(&self) -> Vec<(&str, u64)> {
        ddl::FILLED.into_iter().zip(row_totals(self)).collect()
    }

    fn stages(&self, how: &InitWork, server: Server) -> Vec<Stage> {
        let dialect = server.dialect;
        let options = &limited(self, dialect.batch_rows);
        if let Some(steps) = &options.steps {
            let journal = dataset::create_journal(self, how);
            return steps_asked::stages(options, steps, &how.mark, journal, dialect);
        }
        let tables = plan::marked_tables(options, &how.mark, dialect);
        let tables = dataset::creation(self, how, tables);
        let leaves = plan::marked_leaves(options, &how.mark, dialect);
        vec![
            vec![[tables].into_iter().chain(leaves).collect()],
            plan::filling(options, server),
            vec![plan::conclusion(options, server)],
        ]
    }

    fn broken_rules(&self) -> Vec<(String, &'static str)> {
        const CORRECT: &str = "correct the job";
        let PgbenchOptions { scale, partitions, range_rows, foreign_keys, .. } = *self;
        let mut broken = Vec::new();
        let mut rule = |holds: bool, message: &str, hint| {
            if !holds {
                broken.push((message.to_string(), hint));
            }
        };
        rule(scale > 0, "scale must be above 0, got 0", CORRECT);
        if let Some(fill) = self.fillfactor {
            let message = format!("fillfactor must be 10 to 100, got {fill}");
            rule((10..=100).contains(&fill), &message, CORRECT);
        }
        rule(range_rows != Some(0), "range_rows must be above 0, got 0", CORRECT);
        let both =
            "range_rows and partitions exclude each other: partitions already load in parallel";
        rule(range_rows.is_none() || partitions == 0, both, CORRECT);
        if let Some(steps) = &self.steps {
            let is_known =
                !steps.trim().is_empty() && steps.chars().all(|c| "dtgGvpf ".contains(c));
            let message = format!("steps must be letters of \"dtgGvpf\", got \"{steps}\"");
            rule(is_known, &message, "such as dtgvp");
        }
        if let Some(distribute) = self.distribute {
            rule(partitions == 0, "a distributed table cannot have partitions", CORRECT);
            // A row of history has a random branch, which need not be the branch of its account.
            rule(
                !(foreign_keys && distribute.column == DistributionColumn::Bid),
                "rows that are distributed by bid cannot have foreign keys",
                "distribute by aid, or leave the foreign keys out",
            );
        }
        broken
    }

    fn index_rows_max(&self) -> u64 {
        row_totals(self)[0] / u64::from(self.partitions.max(1))
    }

    fn is_unlogged(&self) -> bool {
        self.unlogged
    }

    fn distributed_server(&self) -> Option<DistributedServer> {
        self.distribute.map(|distribute| distribute.server)
    }

    fn title_words(&self) -> Vec<String> {
        let range = self.range_rows.map(|rows| format!("range_rows={rows}"));
        let steps = self.steps.as_ref().map(|steps| format!("steps={}", steps.replace(' ', "")));
        range.into_iter().chain(steps).collect()
    }

    fn is_creator(&self) -> bool {
        self.steps.is_none()
    }
}

/// The options of a load whose transactions copy at most `batch_rows` accounts. Partitions have a
/// transaction each, whatever their size.
fn limited(options: &PgbenchOptions, batch_rows: Option<u64>) -> PgbenchOptions {
    let mut options = options.clone();
    if let (Some(rows), 0) = (batch_rows, options.partitions) {
        options.range_rows = Some(options.range_rows.map_or(rows, |asked| asked.min(rows)));
    }
    options
}

#[cfg(test)]
pub(super) mod tests {
    use super::ddl::tests::init;
    use super::*;
    use pgdyno_engine::contract::job::LoadShare;
    use pgdyno_engine::dataset::Done;
    use pgdyno_engine::dataset::Options;
    use pgdyno_engine::dataset::piece::{Piece, Turn, pieces, turns};
    use pgdyno_engine::dialect::YUGABYTEDB;

    fn how(options: &PgbenchOptions) -> InitWork {
        InitWork {
            dataset: options.in_job(),
            jobs: 1,
            mark: String::new(),
            drop_existing: false,
            resume: false,
            keep_unfinished: false,
            share: None,
        }
    }

    fn staged(options: &PgbenchOptions, server_major: u32) -> Vec<Stage> {
        options.stages(&how(options), Server::assumed(server_major, None))
    }

    pub(super) fn statements(options: &PgbenchOptions, server_major: u32) -> Vec<String> {
        pgdyno_engine::dataset::statements(options, &how(options), server_major)
    }

    #[test]
    fn what_was_done_is_not_done_again_and_vacuum_waits_for_every_range() {
        let work = PgbenchOptions { range_rows: Some(100_000), ..init(2) };
        let done = |names: &[&str]| names.iter().map(|name| (name.to_string(), 0)).collect();
        let all = || staged(&work, 15);
        let total = pieces(&all()).count();
        let rest = turns(all(), &done(&["create", "copy pgbench_accounts 1-100000"]), None);
        assert_eq!(rest.iter().flat_map(|turn| turn.stage.iter().flatten()).count(), total - 2);
        assert_eq!(rest[0].stage[0][0].name, "copy pgbench_accounts 100001-200000");
        let last = &rest[rest.len() - 1];
        let names: Vec<_> = last.stage[0].iter().map(|piece| &piece.name).collect();
        assert_eq!(names, ["vacuum pgbench_accounts", "key pgbench_accounts"]);
        assert_eq!(last.after, total - 2);

        let everything = pieces(&all()).map(|piece| (piece.name.clone(), 0)).collect();
        assert!(turns(all(), &everything, None).is_empty());
    }

    #[test]
    fn engines_that_share_a_load_do_each_piece_once_and_the_first_does_what_has_one_chain() {
        let work = PgbenchOptions { range_rows: Some(30_000), ..init(2) };
        let all = || staged(&work, 15);
        let of = |place| turns(all(), &Done::new(), Some(LoadShare { place, count: 3 }));
        let shares: Vec<_> = (0..3).map(of).collect();
        let named = |turns: &[Turn]| -> Vec<String> {
            let pieces = turns.iter().flat_map(|turn| turn.stage.iter().flatten());
            pieces.map(|piece| piece.name.clone()).collect()
        };
        let mut names: Vec<_> = shares.iter().flat_map(|turns| named(turns)).collect();
        let mut expected: Vec<_> = pieces(&all()).map(|piece| piece.name.clone()).collect();
        names.sort();
        expected.sort();
        assert_eq!(names, expected);
        assert_eq!(shares[0][0].after, 0);
        assert_eq!(shares[0][0].stage[0][0].name, "create");
        for share in &shares[1..] {
            assert_eq!((share.len(), share[0].after), (1, 1), "only the stage that fills tables");
        }
    }

    #[test]
    fn every_piece_has_a_name_of_its_own() {
        for work in [
            PgbenchOptions { partitions: 250, foreign_keys: true, ..init(1) },
            PgbenchOptions { range_rows: Some(1000), ..init(1) },
            PgbenchOptions { steps: Some("dtgdtGvvpf".into()), ..init(1) },
        ] {
            let stages = staged(&work, 18);
            let names: Vec<_> = pieces(&stages).map(|piece| &piece.name).collect();
            let mut unique = names.clone();
            unique.sort();
            unique.dedup();
            assert_eq!(unique.len(), names.len(), "{names:?}");
        }
    }

    #[test]
    fn what_freeze_cannot_do_vacuum_does() {
        let ranges = PgbenchOptions { range_rows: Some(50_000), ..init(1) };
        let sql = statements(&ranges, 15);
        assert!(sql.contains(&"copy pgbench_accounts from stdin".into()));
        assert!(sql.contains(&"vacuum (freeze, analyze) pgbench_accounts".into()));
        assert!(sql.contains(&"copy pgbench_tellers from stdin with (freeze on)".into()));
        let plain = statements(&init(1), 15);
        assert!(plain.contains(&"vacuum analyze pgbench_accounts".into()));
        assert!(plain.iter().all(|sql| !sql.contains("(freeze, ")));
    }

    #[test]
    fn a_server_of_another_dialect_is_sent_only_what_it_knows() {
        let server = Server { major: 15, dialect: &YUGABYTEDB };
        let stages = init(1).stages(&how(&init(1)), server);
        let mut sql: Vec<String> = pieces(&stages).flat_map(Piece::statements).collect();
        sql.retain(|statement| !statement.starts_with("insert into pgdyno_load"));
        for unknown in ["freeze", "fillfactor", "vacuum", "truncate"] {
            assert!(sql.iter().all(|statement| !statement.contains(unknown)), "{unknown}: {sql:?}");
        }
        assert!(sql.contains(&"analyze pgbench_accounts".into()));
        let copies =
            sql.iter().filter(|statement| *statement == "copy pgbench_accounts from stdin");
        assert_eq!(copies.count(), 5, "at most 20,000 rows each");
    }
}
