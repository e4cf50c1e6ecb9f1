//! What a statement would answer, told from its first words.

use std::rc::Rc;

use crate::canned::Canned;

/// What executing a statement does to the transaction it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    None,
    Begin,
    Commit,
    Rollback,
    CopyIn,
}

/// What rows a statement answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    None,
    /// One row with one integer; where stamps are asked for, with two clocks instead.
    One,
    /// One row with one integer, stamps or not: a client acts on a count.
    Count,
    /// What pgbench asks about the partitions of its accounts: `1, NULL, 0`.
    Partitions,
}

/// One parsed statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub effect: Effect,
    pub rows: Rows,
    /// Command tag; empty for an empty query.
    pub tag: Box<str>,
    /// Highest `$n`.
    pub parameters: u16,
    /// The listed result, if there is one for this statement.
    pub canned: Option<Rc<Canned>>,
}

impl Statement {
    /// Parse one statement; comments in front are not understood.
    pub fn parse(text: &str) -> Statement {
        let text = text.trim();
        let word = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
        let word = word.to_ascii_uppercase();
        let second = text.split_whitespace().nth(1).unwrap_or("").to_ascii_uppercase();
        let returns = text.to_ascii_uppercase().contains(" RETURNING ");
        let (effect, rows, tag) = match word.as_str() {
            "BEGIN" => (Effect::Begin, Rows::None, "BEGIN".to_owned()),
            "START" => (Effect::Begin, Rows::None, "START TRANSACTION".to_owned()),
            "COMMIT" | "END" => (Effect::Commit, Rows::None, "COMMIT".to_owned()),
            "ROLLBACK" | "ABORT" => (Effect::Rollback, Rows::None, "ROLLBACK".to_owned()),
            "SELECT" | "WITH" | "VALUES" | "TABLE" if text.contains("partstrat") => {
                (Effect::None, Rows::Partitions, "SELECT 1".to_owned())
            }
            "SELECT" if text.contains("count(") => {
                (Effect::None, Rows::Count, "SELECT 1".to_owned())
            }
            "SELECT" | "WITH" | "VALUES" | "TABLE" => {
                (Effect::None, Rows::One, "SELECT 1".to_owned())
            }
            "SHOW" => (Effect::None, Rows::One, "SHOW".to_owned()),
            "INSERT" => (Effect::None, rows_if(returns), "INSERT 0 1".to_owned()),
            "UPDATE" | "DELETE" | "MERGE" => (Effect::None, rows_if(returns), format!("{word} 1")),
            "COPY" => (Effect::CopyIn, Rows::None, "COPY 0".to_owned()),
            "CREATE" | "DROP" | "ALTER" | "TRUNCATE" => {
                (Effect::None, Rows::None, format!("{word} {second}"))
            }
            _ => (Effect::None, Rows::None, word),
        };
        let parameters = highest_parameter(text);
        Statement { effect, rows, tag: tag.into(), parameters, canned: None }
    }

    /// The command tag up to its number.
    pub fn tag_without_count(&self) -> &str {
        self.tag.trim_end_matches(|c: char| c.is_ascii_digit())
    }

    /// The statements of a simple query, in order; a semicolon inside quotes separates nothing.
    pub fn split(text: &str) -> impl Iterator<Item = Statement> + '_ {
        let mut in_quotes = false;
        text.split(move |c: char| {
            in_quotes ^= c == '\'';
            c == ';' && !in_quotes
        })
        .filter(|part| !part.trim().is_empty())
        .map(Statement::parse)
    }
}

fn rows_if(returns: bool) -> Rows {
    if returns { Rows::One } else { Rows::None }
}

fn highest_parameter(text: &str) -> u16 {
    let numbers = text.split('$').skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    });
    numbers.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_answers_by_its_first_word() {
        let update = Statement::parse("UPDATE a SET b = b + $2 WHERE c = $1");
        assert_eq!((&*update.tag, update.rows, update.parameters), ("UPDATE 1", Rows::None, 2));
        assert_eq!(Statement::parse("select 1").rows, Rows::One);
        assert_eq!(Statement::parse("END").effect, Effect::Commit);
        assert_eq!(&*Statement::parse("insert into a values (1)").tag, "INSERT 0 1");
        assert_eq!(Statement::parse("update a set b = 1 returning b").rows, Rows::One);
        assert_eq!(&*Statement::parse("create table a (b int)").tag, "CREATE TABLE");
    }

    #[test]
    fn a_simple_query_may_hold_several_statements() {
        let tags: Vec<_> = Statement::split("BEGIN; SELECT ';'; END;").map(|s| s.tag).collect();
        assert_eq!(tags, ["BEGIN".into(), "SELECT 1".into(), "COMMIT".into()]);
    }
}
