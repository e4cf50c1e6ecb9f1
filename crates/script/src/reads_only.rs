//! Whether an SQL text writes, as far as its words tell.

use crate::lexer::{TokenKind, next_token};

/// Statements that never write, whatever follows their first word.
const HARMLESS: &[&str] = &[
    "abort",
    "begin",
    "close",
    "end",
    "fetch",
    "move",
    "release",
    "reset",
    "savepoint",
    "set",
    "show",
    "start",
];
/// Statements that do not write unless one of their words says so.
const QUERIES: &[&str] = &["declare", "explain", "select", "table", "values", "with"];
/// Words that make a query write or lock rows, wherever they stand without quotes.
const WRITING: &[&str] =
    &["call", "create", "delete", "execute", "insert", "into", "merge", "refresh", "update"];
/// Functions of PostgreSQL itself that change or lock something, by the beginning of their names.
const WRITING_FUNCTIONS: &[&str] = &[
    "dblink",
    "lo_",
    "lowrite",
    "nextval",
    "pg_advisory",
    "pg_backup",
    "pg_cancel",
    "pg_clear",
    "pg_copy",
    "pg_create",
    "pg_current_xact_id",
    "pg_drop",
    "pg_file_",
    "pg_import",
    "pg_log_",
    "pg_logical",
    "pg_notify",
    "pg_promote",
    "pg_reload",
    "pg_replication",
    "pg_restore",
    "pg_rotate",
    "pg_start_backup",
    "pg_stat_reset",
    "pg_stat_statements_reset",
    "pg_stop_backup",
    "pg_switch",
    "pg_terminate",
    "pg_try_advisory",
    "pg_wal_replay",
    "setval",
    "txid_current",
];

/// Returns whether every statement of `text` is a query, `SHOW` or transaction control, without
/// data-modifying parts, row locks, `SELECT INTO` or a writing function of PostgreSQL itself.
///
/// Limits: a function made by users may write, which its call does not show; a variable may put
/// any text into a statement. What is not recognised counts as writing.
pub(crate) fn is_read_only(text: &str) -> bool {
    let mut statement = Statement::default();
    let mut at = 0;
    while at < text.len() {
        let token = next_token(text.as_bytes(), at);
        match token.kind {
            TokenKind::Semicolon if statement.is_read_only() => statement = Statement::default(),
            TokenKind::Semicolon => return false,
            TokenKind::Word => statement.words.push(text[at..token.end].to_ascii_lowercase()),
            TokenKind::Space | TokenKind::LineComment | TokenKind::BlockComment => {}
            // A parenthesis may open a query; anything else in front is not recognised.
            TokenKind::Open => statement.called.extend(statement.words.last().cloned()),
            _ if statement.words.is_empty() => statement.begins_unknown = true,
            _ => {}
        }
        at = token.end;
    }
    statement.is_read_only()
}

#[derive(Default)]
struct Statement {
    /// Words without quotes, in lower case.
    words: Vec<String>,
    /// Those of them that a parenthesis follows somewhere.
    called: Vec<String>,
    begins_unknown: bool,
}

impl Statement {
    fn is_read_only(&self) -> bool {
        let Some(first) = self.words.first().map(String::as_str) else {
            return !self.begins_unknown;
        };
        if self.begins_unknown {
            return false;
        }
        let second = self.words.get(1).map(String::as_str);
        match first {
            "commit" | "rollback" => second != Some("prepared"),
            _ if HARMLESS.contains(&first) => true,
            // To the client; a file of the server, or a program, would be written to.
            "copy" => self.has("to", "stdout") && !self.writes(),
            _ if QUERIES.contains(&first) => !self.writes(),
            _ => false,
        }
    }

    fn has(&self, word: &str, next: &str) -> bool {
        self.words.windows(2).any(|pair| pair[0] == word && pair[1] == next)
    }

    fn writes(&self) -> bool {
        let is_lock = |pair: &[String]| {
            matches!(pair[0].as_str(), "for" | "key") && matches!(pair[1].as_str(), "share" | "key")
        };
        self.words.windows(2).any(is_lock)
            || self.words.iter().any(|word| WRITING.contains(&word.as_str()))
            || self
                .called
                .iter()
                .any(|word| WRITING_FUNCTIONS.iter().any(|name| word.starts_with(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_transaction_control_read_only() {
        for text in [
            "SELECT 1;",
            "select abalance from pgbench_accounts where aid = :aid",
            "",
            ";",
            "-- x",
            "BEGIN; SELECT 1; END;",
            "start transaction read only",
            "COMMIT",
            "ROLLBACK TO a",
            "(select 1) union (select 2)",
            "VALUES (1)",
            "TABLE t",
            "SHOW all",
            "SET a = 'x'",
            "with a as (select 1) select * from a",
            "select 'insert into t' as \"update\"",
            "select /* delete */ 1 -- update",
            "explain select 1",
            "fetch all from c",
            "select x from t for",
            "savepoint a",
            "select lo_revenue from lineorder",
            "select set_config('a', 'b', false)",
            "copy t to stdout",
            "COPY t (a, b) TO STDOUT WITH (FORMAT csv)",
            "copy (select * from t where a = 1) to stdout",
        ] {
            assert!(is_read_only(text), "{text}");
        }
    }

    #[test]
    fn whatever_may_write_is_not_read_only() {
        for text in [
            "INSERT INTO t VALUES (1)",
            "update t set a = 1",
            "delete from t",
            "truncate t",
            "merge into t using s on true when matched then do nothing",
            "select * from t for update",
            "select * from t for share",
            "select * from t for no key update",
            "select * from t for key share",
            "select * into a from b",
            "with a as (insert into t values (1) returning *) select 1",
            "select nextval('s')",
            "select pg_catalog.setval('s', 1)",
            "call p()",
            "do $$ $$",
            "create table t ()",
            "vacuum",
            "copy t from stdin",
            "copy t to '/tmp/file'",
            "copy t to program 'cat'",
            "copy (delete from t returning *) to stdout",
            "copy (select nextval('s')) to stdout",
            "explain analyze delete from t",
            "commit prepared 'x'",
            "rollback prepared 'x'",
            "prepare transaction 'x'",
            "lock t",
            ":anything",
            "1",
            "select 1; drop table t",
            "execute p",
            "notify a",
            "checkpoint",
            "select pg_terminate_backend(1)",
            "select lo_create(0)",
            "grant select on t to u",
        ] {
            assert!(!is_read_only(text), "{text}");
        }
    }
}
