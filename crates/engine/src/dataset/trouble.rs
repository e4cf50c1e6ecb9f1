//! Messages of a failed load: the server's own words, and a next step.

use pgdyno_wire::ServerError;

use crate::contract::record::{ErrorKind, Failure};
use crate::session::{Session, SessionError};

/// An error, and what was being done: "copy pgbench_accounts".
#[derive(Debug)]
pub(super) struct Trouble {
    doing: String,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Session(SessionError),
    /// The job does not fit the server or its tables.
    Refused {
        what: String,
        hint: String,
    },
}

impl Trouble {
    pub(super) fn of_session(doing: &str, error: SessionError) -> Trouble {
        Trouble { doing: doing.into(), cause: Cause::Session(error) }
    }

    pub(super) fn refused(doing: &str, what: &str, hint: &str) -> Trouble {
        Trouble {
            doing: doing.into(),
            cause: Cause::Refused { what: what.into(), hint: hint.into() },
        }
    }

    pub(super) fn is_stop(&self) -> bool {
        matches!(self.cause, Cause::Session(SessionError::Stopped))
    }

    /// The error record.
    pub(super) fn failure(&self, time_ns: u64) -> Failure {
        let (kind, sqlstate, text, hint) = match &self.cause {
            Cause::Session(error) => describe_session(error),
            Cause::Refused { what, hint } => (ErrorKind::Init, None, what.clone(), hint.clone()),
        };
        Failure {
            time_ns,
            kind,
            message: format!("{}: {text}", self.doing),
            hint,
            sqlstate,
            script: None,
            line: None,
            column: None,
        }
    }
}

/// Run `sql`. An error names the statement itself as what was being done.
pub(super) fn run_statement(session: &mut Session, sql: &str) -> Result<(), Trouble> {
    run_as(session, sql, sql)
}

/// Run `sql` as one transaction. An error names `doing` as what was being done.
pub(super) fn run_as(session: &mut Session, doing: &str, sql: &str) -> Result<(), Trouble> {
    session.query(sql).map(|_| ()).map_err(|error| Trouble::of_session(doing, error))
}

/// Kind, SQLSTATE, text and hint.
type Description = (ErrorKind, Option<String>, String, String);

fn describe_session(error: &SessionError) -> Description {
    match (error, error.refusal()) {
        (SessionError::Server(error), _) => describe(ErrorKind::Init, error),
        (_, Some(error)) => describe(kind_of_refusal(error), error),
        (error, None) => {
            let (kind, hint) = kind_of(error);
            (kind, None, error.to_string(), hint.to_string())
        }
    }
}

fn describe(kind: ErrorKind, error: &ServerError) -> Description {
    let text = match &error.detail {
        Some(detail) => format!("{} ({detail})", error.message),
        None => error.message.clone(),
    };
    let hint = match (next_step(error.sqlstate.as_str()), &error.hint) {
        (Some(step), _) => step.to_string(),
        (None, Some(hint)) => hint.clone(),
        (None, None) => "see the server's log".into(),
    };
    (kind, Some(error.sqlstate.as_str().to_string()), text, hint)
}

/// The next step for the errors that a load may meet, by SQLSTATE.
fn next_step(sqlstate: &str) -> Option<&'static str> {
    Some(match sqlstate {
        "42P07" => "drop or rename the existing tables, or name another database with -d",
        "42710" | "42723" => {
            "an object of yours has this name: rename or drop it, or name another database with -d"
        }
        "2BP01" => {
            "objects of yours depend on these tables: keep them and name another database, or drop \
             those objects yourself"
        }
        "08P01" => "see the log of the server, or of the pooler before it: it refused a message",
        state if state.starts_with("08") => {
            "start the node that the server cannot reach, and see its log"
        }
        "53100" => {
            "the server's disk is full: the load needs room for the tables, and as much again for \
             WAL; free space, choose another tablespace or a smaller dataset"
        }
        "53200" => "the server is out of memory: use fewer jobs or a smaller maintenance_work_mem",
        "53300" => "use fewer jobs, or raise max_connections of the server",
        "42501" => "the user needs CREATE on the schema: GRANT CREATE ON SCHEMA public TO <user>",
        "3F000" => "no schema of search_path exists: create one, or set search_path",
        "25006" => "the server is a standby or the database read-only: connect to the primary",
        "3D000" => "create the database first, or name another one",
        "28P01" | "28000" => "check user and password, and pg_hba.conf of the server",
        "55P03" | "40P01" => "end the session that holds the tables (see pg_locks), or try again",
        "57014" => "if nobody cancelled the statement, raise statement_timeout for this role",
        "57P01" | "57P02" => "the server was shut down: start it and load again",
        "57P03" => "the server is starting up or shutting down: try again in a moment",
        _ => return None,
    })
}

fn kind_of_refusal(error: &ServerError) -> ErrorKind {
    match (error.sqlstate.as_str(), error.sqlstate.class()) {
        ("53300", _) => ErrorKind::TooManyConnections,
        (_, "28") => ErrorKind::Authentication,
        _ => ErrorKind::Connect,
    }
}

fn kind_of(error: &SessionError) -> (ErrorKind, &str) {
    match error {
        SessionError::Connect { .. } => {
            (ErrorKind::Connect, "check host and port, and that the server runs and listens there")
        }
        SessionError::Lost(_) => (
            ErrorKind::ConnectionLost,
            "the server's log says why it ended the connection; a full disk under pg_wal stops it",
        ),
        SessionError::Protocol(_) => {
            (ErrorKind::Protocol, "check that a PostgreSQL server listens there")
        }
        SessionError::Tls(error) => (ErrorKind::Connect, &error.hint),
        SessionError::Unsuitable(_) => {
            (ErrorKind::Connect, "name every host of the cluster, or another target_session_attrs")
        }
        SessionError::Handshake(_) => {
            (ErrorKind::Authentication, "check the password and pg_hba.conf of the server")
        }
        SessionError::Server(_) | SessionError::Stopped => (ErrorKind::Init, ""),
    }
}
