//! What servers that speak PostgreSQL's protocol do differently: one row for each, in one table.
//!
//! Loads of datasets send only what the server's row allows, and every load retries the codes of
//! this table. PostgreSQL and Citus are tested on real servers. The other rows are the vendors'
//! documentation.

use pgdyno_wire::SqlState;

use crate::contract::job::DistributedServer;
use crate::session::{Session, SessionError};

/// A server as far as a load of a dataset must know it.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// Major version of PostgreSQL.
    pub major: u32,
    pub dialect: &'static Dialect,
}

/// One row of the table.
#[derive(Debug)]
pub struct Dialect {
    pub name: &'static str,
    pub is_tested: bool,
    /// How a session recognises it.
    sign: Sign,
    /// COPY may freeze the rows of a table that the same transaction emptied.
    pub copy_freezes: bool,
    /// Tables may have `with (fillfactor=...)`.
    pub has_fillfactor: bool,
    /// VACUUM does something; if not, the tables get ANALYZE only.
    pub vacuums: bool,
    pub foreign_keys: ForeignKeys,
    /// Most rows that one transaction copies into the accounts of pgbench; None = no limit.
    pub batch_rows: Option<u64>,
    /// One message has one statement: a coordinator passes the text of a message on to its
    /// workers, and a worker accepts a single statement.
    pub sends_one_by_one: bool,
    /// The codes after which the same transaction may succeed.
    retries: &'static [SqlState],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKeys {
    Everywhere,
    /// Only between rows that surely are on the same node.
    SameNode,
    /// Accepted and not enforced.
    NotEnforced,
}

#[derive(Clone, Copy, Debug)]
enum Sign {
    /// No other row fits.
    Otherwise,
    /// The job asks for tables that this extension distributes. Other tables of such a server are
    /// plain PostgreSQL.
    Extension(&'static str),
    /// `version()` has one of these words.
    Version(&'static [&'static str]),
    /// The server has settings whose names begin like this.
    Settings(&'static str),
}

const STANDARD: &[SqlState] = &[SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED];

pub static POSTGRESQL: Dialect = Dialect {
    name: "PostgreSQL",
    is_tested: true,
    sign: Sign::Otherwise,
    copy_freezes: true,
    has_fillfactor: true,
    vacuums: true,
    foreign_keys: ForeignKeys::Everywhere,
    batch_rows: None,
    sends_one_by_one: false,
    retries: STANDARD,
};

/// A deadlock over several nodes has the code of any other one.
pub static CITUS: Dialect = Dialect {
    name: "Citus",
    sign: Sign::Extension("citus"),
    copy_freezes: false,
    foreign_keys: ForeignKeys::SameNode,
    sends_one_by_one: true,
    ..POSTGRESQL
};

pub static GREENPLUM: Dialect = Dialect {
    name: "Greenplum or Cloudberry",
    is_tested: false,
    sign: Sign::Version(&["Greenplum", "Cloudberry"]),
    copy_freezes: false,
    foreign_keys: ForeignKeys::NotEnforced,
    sends_one_by_one: true,
    ..POSTGRESQL
};

/// Sources: yugabyte-db issues 5156 and 25044 (FREEZE), 19284 (fillfactor), 3229 (one large
/// transaction); "Transaction error codes in YSQL".
pub static YUGABYTEDB: Dialect = Dialect {
    name: "YugabyteDB",
    is_tested: false,
    sign: Sign::Version(&["-YB-"]),
    copy_freezes: false,
    has_fillfactor: false,
    vacuums: false,
    batch_rows: Some(20_000),
    ..POSTGRESQL
};

/// Source: "DDL limitations" and "Loading data" of the manual. Its tables are distributed by
/// settings of the session, which the role or the connection must have.
pub static LIMITLESS: Dialect = Dialect {
    name: "Aurora Limitless",
    is_tested: false,
    sign: Sign::Settings("rds_aurora.limitless_"),
    copy_freezes: false,
    has_fillfactor: false,
    foreign_keys: ForeignKeys::SameNode,
    sends_one_by_one: true,
    ..POSTGRESQL
};

pub static DIALECTS: [&Dialect; 5] = [&POSTGRESQL, &CITUS, &GREENPLUM, &YUGABYTEDB, &LIMITLESS];

/// True if another try of the transaction may succeed. The codes mean the same on all servers, so
/// no server has to be recognised.
pub fn is_retried(state: SqlState) -> bool {
    DIALECTS.iter().any(|dialect| dialect.retries.contains(&state))
}

impl Server {
    /// A server of which only the version is known, or nothing: it does what was asked of it.
    pub fn assumed(major: u32, asked: Option<DistributedServer>) -> Server {
        let dialect = match asked {
            None => &POSTGRESQL,
            Some(DistributedServer::Citus) => &CITUS,
            Some(DistributedServer::Greenplum) => &GREENPLUM,
        };
        Server { major, dialect }
    }

    /// Recognise the server of a session.
    ///
    /// Args: `asked`, the server for which the job distributes its tables.
    pub fn of(
        session: &mut Session,
        asked: Option<DistributedServer>,
    ) -> Result<Server, SessionError> {
        let assumed = Server::assumed(session.server_major(), asked);
        if asked.is_some() {
            return Ok(assumed);
        }
        for dialect in DIALECTS {
            let is_looked_for = matches!(dialect.sign, Sign::Version(_) | Sign::Settings(_));
            if is_looked_for && dialect.fits(session)? {
                return Ok(Server { dialect, ..assumed });
            }
        }
        Ok(assumed)
    }
}

impl Dialect {
    /// True if the server of this session has the row's sign.
    pub fn fits(&self, session: &mut Session) -> Result<bool, SessionError> {
        let condition = match self.sign {
            Sign::Otherwise => "true".into(),
            Sign::Extension(name) => {
                format!("exists (select from pg_extension where extname = '{name}')")
            }
            Sign::Version(words) => format!("version() ~* '{}'", words.join("|")),
            Sign::Settings(start) => {
                format!("exists (select from pg_settings where starts_with(name, '{start}'))")
            }
        };
        Ok(!session.query(&format!("select where {condition}"))?.is_empty())
    }

    /// The VACUUM of a table, or the ANALYZE that takes its place.
    ///
    /// Args: `must_freeze`, COPY did not freeze the rows; `analyze`, if VACUUM shall also ANALYZE.
    pub fn vacuum(&self, table: &str, must_freeze: bool, analyze: bool) -> String {
        match (self.vacuums, must_freeze || !self.copy_freezes, analyze) {
            (false, ..) => format!("analyze {table}"),
            (true, true, _) => format!("vacuum (freeze, analyze) {table}"),
            (true, false, true) => format!("vacuum analyze {table}"),
            (true, false, false) => format!("vacuum {table}"),
        }
    }

    /// The clause of CREATE TABLE with a fill factor.
    ///
    /// Args: `asked`, by the user, and therefore sent to every server; `usual`, the dataset's.
    pub fn fillfactor(&self, asked: Option<u8>, usual: u8) -> String {
        match asked.or(self.has_fillfactor.then_some(usual)) {
            Some(percent) => format!(" with (fillfactor={percent})"),
            None => String::new(),
        }
    }

    /// What a load of a dataset says about a server that nobody tested; None if it is tested.
    pub fn caution(&self) -> Option<String> {
        let words = [
            (!self.copy_freezes).then_some("COPY without FREEZE"),
            (!self.has_fillfactor).then_some("no fill factor"),
            (!self.vacuums).then_some("ANALYZE instead of VACUUM"),
            self.batch_rows.map(|_| "small transactions"),
        ];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        (!self.is_tested).then(|| format!("the server is {}: {}", self.name, words.join(", ")))
    }

    /// The row of the table in the documentation.
    #[cfg(test)]
    fn documented(&self) -> String {
        let word = |holds: bool| if holds { "yes" } else { "no" };
        let keys = match self.foreign_keys {
            ForeignKeys::Everywhere => "yes",
            ForeignKeys::SameNode => "on the same node",
            ForeignKeys::NotEnforced => "not enforced",
        };
        let batch = self.batch_rows.map_or("no limit".into(), |rows| format!("{rows} rows"));
        let codes: Vec<&str> = self.retries.iter().map(SqlState::as_str).collect();
        [
            self.name,
            word(self.is_tested),
            word(self.copy_freezes),
            word(self.has_fillfactor),
            if self.vacuums { "yes" } else { "ANALYZE" },
            keys,
            &batch,
            &codes.join(", "),
        ]
        .join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_this_table() {
        let text = include_str!("../../../docs/distributed.md");
        for dialect in DIALECTS {
            let row = dialect.documented();
            assert!(text.contains(&format!("| {row} |")), "docs/distributed.md needs | {row} |");
        }
    }

    #[test]
    fn only_tested_servers_need_no_caution() {
        assert!(POSTGRESQL.caution().is_none() && CITUS.caution().is_none());
        let caution = YUGABYTEDB.caution().expect("untested");
        assert!(caution.ends_with("ANALYZE instead of VACUUM, small transactions"), "{caution}");
    }
}
