//! The table of all connection parameters of libpq 18: each is supported, ignored or refused by
//! name.
//!
//! Source: manual, "Parameter Key Words" and "Environment Variables" of libpq.

use std::collections::BTreeMap;
use std::env;

use crate::say::{Fault, fault};

/// Parameters by name.
pub(super) type Parameters = BTreeMap<String, String>;

/// The environment variable with this name, unless it is empty.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// How a parameter is treated.
#[derive(Clone, Copy, Debug)]
enum State {
    Served,
    /// Ignored: it is about GSSAPI or compression, which are never used here, or pgbench overrides
    /// it.
    Idle,
    /// Supported with these values, which are libpq's words. A number has no list.
    Only {
        served: &'static [&'static str],
        others: &'static [&'static str],
        step: &'static str,
    },
    /// Refused with any value. The value of a secret is not shown.
    Refused {
        step: &'static str,
        is_secret: bool,
    },
}

use State::{Idle, Served};

const NO_LIST: &str = "revocation lists are not supported: remove the parameter";
const NO_OAUTH: &str = "OAuth is not supported: remove the parameter";

const fn refused(step: &'static str) -> State {
    State::Refused { step, is_secret: false }
}

const fn secret(step: &'static str) -> State {
    State::Refused { step, is_secret: true }
}

const fn only(
    served: &'static [&'static str],
    others: &'static [&'static str],
    step: &'static str,
) -> State {
    State::Only { served, others, step }
}

/// Name, environment variable (empty = none) and treatment, in the order of libpq's table.
const PARAMETERS: [(&str, &str, State); 50] = [
    ("service", "PGSERVICE", Served),
    ("user", "PGUSER", Served),
    ("password", "PGPASSWORD", Served),
    ("passfile", "PGPASSFILE", Served),
    ("channel_binding", "PGCHANNELBINDING", Served),
    ("connect_timeout", "PGCONNECT_TIMEOUT", Served),
    ("dbname", "PGDATABASE", Served),
    ("host", "PGHOST", Served),
    ("hostaddr", "PGHOSTADDR", Served),
    ("port", "PGPORT", Served),
    ("client_encoding", "PGCLIENTENCODING", Served),
    ("options", "PGOPTIONS", Served),
    ("application_name", "PGAPPNAME", Served),
    ("fallback_application_name", "", Idle),
    ("keepalives", "", Served),
    ("keepalives_idle", "", Served),
    ("keepalives_interval", "", Served),
    ("keepalives_count", "", Served),
    ("tcp_user_timeout", "", Served),
    ("sslmode", "PGSSLMODE", Served),
    (
        "sslnegotiation",
        "PGSSLNEGOTIATION",
        only(&["postgres"], &["direct"], "give sslnegotiation=postgres"),
    ),
    ("sslcompression", "PGSSLCOMPRESSION", Idle),
    ("sslcert", "PGSSLCERT", Served),
    ("sslkey", "PGSSLKEY", Served),
    (
        "sslcertmode",
        "PGSSLCERTMODE",
        only(&["disable", "allow"], &["require"], "give sslcertmode=allow"),
    ),
    ("sslpassword", "", secret("use an sslkey without encryption: openssl pkey -in KEY -out COPY")),
    ("sslrootcert", "PGSSLROOTCERT", Served),
    ("sslcrl", "PGSSLCRL", refused(NO_LIST)),
    ("sslcrldir", "PGSSLCRLDIR", refused(NO_LIST)),
    ("sslsni", "PGSSLSNI", Served),
    ("requirepeer", "PGREQUIREPEER", refused("the server's owner is not checked: remove it")),
    ("require_auth", "PGREQUIREAUTH", Served),
    (
        "min_protocol_version",
        "PGMINPROTOCOLVERSION",
        only(
            &["3.0"],
            &["3.2", "latest"],
            "use min_protocol_version=3.0: later versions are not supported",
        ),
    ),
    ("max_protocol_version", "PGMAXPROTOCOLVERSION", only(&["3.0", "3.2", "latest"], &[], "")),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", Served),
    ("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", Served),
    (
        "gssencmode",
        "PGGSSENCMODE",
        only(&["disable", "prefer"], &["require"], "give gssencmode=disable"),
    ),
    ("krbsrvname", "PGKRBSRVNAME", Idle),
    ("gsslib", "PGGSSLIB", Idle),
    ("gssdelegation", "PGGSSDELEGATION", Idle),
    ("replication", "", refused("replication is not supported: remove the parameter")),
    ("target_session_attrs", "PGTARGETSESSIONATTRS", Served),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS", Served),
    ("scram_client_key", "", secret("give the password itself")),
    ("scram_server_key", "", secret("give the password itself")),
    ("oauth_issuer", "", refused(NO_OAUTH)),
    ("oauth_client_id", "", refused(NO_OAUTH)),
    ("oauth_client_secret", "", secret(NO_OAUTH)),
    ("oauth_scope", "", refused(NO_OAUTH)),
    ("sslkeylogfile", "", refused("session keys are never written: remove the parameter")),
];

/// The parameters of one connection, from all sources.
#[derive(Debug)]
pub(crate) struct Settings {
    given: Parameters,
    service: Parameters,
}

/// True for a parameter that libpq has.
pub(super) fn is_known(name: &str) -> bool {
    PARAMETERS.iter().any(|(known, ..)| *known == name)
}

impl Settings {
    /// Return the parameters of the command line, of the service that it or the environment names,
    /// and of the environment.
    ///
    /// Errors: a parameter that is not supported, with its name.
    pub(super) fn new(
        given: Parameters,
        read_service: impl FnOnce(&str) -> Result<Parameters, Fault>,
    ) -> Result<Settings, Fault> {
        let mut settings = Settings { given, service: Parameters::new() };
        if let Some(name) = settings.get("service") {
            settings.service = read_service(&name)?;
        }
        for (name, _, state) in PARAMETERS {
            settings.refuse(name, state)?;
        }
        Ok(settings)
    }

    /// Return the value of a parameter; None if it is empty.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.word(name).filter(|value| !value.is_empty())
    }

    /// As `get`, but return an empty value, too: libpq refuses it for these parameters.
    pub(crate) fn word(&self, name: &str) -> Option<String> {
        let known = PARAMETERS.iter().find(|(known, ..)| *known == name);
        let (_, variable_name, _) = known.expect("the table has every parameter");
        let given = self.given.get(name).or_else(|| self.service.get(name)).cloned();
        given.or_else(|| std::env::var(variable_name).ok()).or_else(|| match name {
            // As libpq: an older variable.
            "sslmode" => variable("PGREQUIRESSL")
                .filter(|v| v.starts_with('1'))
                .map(|_| "require".to_owned()),
            _ => None,
        })
    }

    /// Return the value of a parameter that is a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i32>, Fault> {
        let Some(text) = self.word(name) else { return Ok(None) };
        let number = text.trim_ascii().parse().map_err(|_| {
            fault(format!("invalid integer value \"{text}\" for connection option \"{name}\""))
        })?;
        Ok(Some(number))
    }

    fn refuse(&self, name: &str, state: State) -> Result<(), Fault> {
        let not_supported = |shown: &str, step: &str| {
            Err(fault(format!("{name}{shown} is not supported")).hint(step))
        };
        match state {
            Served | Idle => Ok(()),
            State::Only { served, others, step } => match self.word(name) {
                None => Ok(()),
                Some(value) if served.contains(&&*value) => Ok(()),
                Some(value) if others.contains(&&*value) => {
                    not_supported(&format!(" \"{value}\""), step)
                }
                Some(value) => Err(fault(format!("invalid {name} value: \"{value}\""))),
            },
            State::Refused { step, is_secret } => match self.get(name) {
                None => Ok(()),
                Some(_) if is_secret => not_supported("", step),
                Some(value) => not_supported(&format!(" \"{value}\""), step),
            },
        }
    }
}

#[cfg(test)]
impl Settings {
    /// Only these parameters, without the environment.
    pub(crate) fn of(given: &[(&str, &str)]) -> Result<Settings, Fault> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Settings::new(given.iter().map(own).collect(), |_| Ok(Parameters::new()))
    }
}
