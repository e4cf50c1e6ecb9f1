//! target_session_attrs: checks that an opened session is of the wanted kind, such as read-write.
//!
//! A server of version 14 or later reports its kind at start-up (`in_hot_standby`,
//! `default_transaction_read_only`). An older server is asked by a query, as is a pooler that does
//! not pass the reports on.
//!
//! Source: manual, "Parameter Key Words" of libpq; the order and the queries are libpq's.

use std::collections::BTreeMap;

use pgdyno_wire::{Framer, Login, NEVER_SKIP, ServerError, encode, values};

use crate::contract::job::SessionAttrs;
use crate::tls::OpeningError;

const ASK_READ_ONLY: &str = "SHOW transaction_read_only";
const ASK_RECOVERY: &str = "SELECT pg_catalog.pg_is_in_recovery()";

/// The quality of a server that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trait {
    ReadOnly,
    Standby,
}

/// The check of one session: what it must be, and the part of the answer that has arrived.
#[derive(Debug)]
pub struct Check {
    quality: Trait,
    must_be: bool,
    /// Our own start-up message makes all transactions read-only, so this says nothing about the
    /// server.
    is_own_read_only: bool,
    framer: Framer,
    answer: Option<bool>,
    error: Option<ServerError>,
}

impl Check {
    /// Return the check for these attributes; None if any session fits.
    pub fn new(attrs: SessionAttrs, login: &Login) -> Option<Check> {
        let (quality, must_be) = match attrs {
            SessionAttrs::Any => return None,
            SessionAttrs::ReadWrite => (Trait::ReadOnly, false),
            SessionAttrs::ReadOnly => (Trait::ReadOnly, true),
            SessionAttrs::Primary => (Trait::Standby, false),
            SessionAttrs::Standby | SessionAttrs::PreferStandby => (Trait::Standby, true),
        };
        let own = ("default_transaction_read_only".to_owned(), "on".to_owned());
        Some(Check {
            quality,
            must_be,
            is_own_read_only: login.parameters.contains(&own),
            framer: Framer::default(),
            answer: None,
            error: None,
        })
    }

    /// Judge by the parameters that the server reported at start-up.
    ///
    /// Returns: true if they decide. If not, a query is added to `out`.
    ///
    /// Errors: the session is not of the wanted kind.
    pub fn begin(
        &mut self,
        told: &BTreeMap<String, String>,
        out: &mut Vec<u8>,
    ) -> Result<bool, OpeningError> {
        let is_on = |name: &str| told.get(name).map(|value| value == "on");
        let standby = is_on("in_hot_standby");
        let known = match self.quality {
            _ if self.is_own_read_only => standby,
            Trait::Standby => standby,
            Trait::ReadOnly => {
                standby.zip(is_on("default_transaction_read_only")).map(|(a, b)| a || b)
            }
        };
        if let Some(is_so) = known {
            return self.decide(is_so).map(|()| true);
        }
        let is_asked_of_transactions = self.quality == Trait::ReadOnly && !self.is_own_read_only;
        let sql = if is_asked_of_transactions { ASK_READ_ONLY } else { ASK_RECOVERY };
        encode::query(out, |out| out.extend_from_slice(sql.as_bytes()));
        Ok(false)
    }

    /// Read the answer to the query from `input`.
    ///
    /// Returns: true if the session is of the wanted kind; false if more bytes must come.
    ///
    /// Errors: the session is of another kind, or the server's error.
    pub fn advance(&mut self, input: &mut &[u8]) -> Result<bool, OpeningError> {
        use pgdyno_wire::{HandshakeError, ProtocolError};
        while let Some(message) =
            self.framer.next(input, NEVER_SKIP).map_err(HandshakeError::from)?
        {
            match message.tag {
                b'D' => {
                    let row = values(message.body);
                    let row = row.map_err(|_| HandshakeError::from(ProtocolError::Malformed(b'D')));
                    let value = row?.first().copied().flatten();
                    self.answer = value.map(|value| value == b"on" || value == b"t");
                }
                b'E' => self.error = Some(ServerError::parse(message.body)),
                b'Z' => {
                    if let Some(error) = self.error.take() {
                        return Err(HandshakeError::Server(error).into());
                    }
                    let is_so = self.answer.ok_or(ProtocolError::Malformed(b'D'));
                    return self.decide(is_so.map_err(HandshakeError::from)?).map(|()| true);
                }
                _ => {}
            }
        }
        Ok(false)
    }

    /// Compare the answer with what the session must be. The texts are libpq's.
    fn decide(&self, is_so: bool) -> Result<(), OpeningError> {
        if is_so == self.must_be {
            return Ok(());
        }
        Err(OpeningError::Unsuitable(match (self.quality, is_so) {
            (Trait::ReadOnly, true) => "session is read-only",
            (Trait::ReadOnly, false) => "session is not read-only",
            (Trait::Standby, true) => "server is in hot standby mode",
            (Trait::Standby, false) => "server is not in hot standby mode",
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(parameters: &[(&str, &str)]) -> Login {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Login {
            user: "ann".into(),
            password: None,
            parameters: parameters.iter().map(own).collect(),
            channel_binding: Default::default(),
            require_auth: None,
        }
    }

    fn told(standby: &str, read_only: &str) -> BTreeMap<String, String> {
        let pairs = [("in_hot_standby", standby), ("default_transaction_read_only", read_only)];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// Why a session does not fit; None if it does.
    fn judged(
        attrs: SessionAttrs,
        login: &Login,
        standby: &str,
        read_only: &str,
    ) -> Option<String> {
        let mut check = Check::new(attrs, login)?;
        let begun = check.begin(&told(standby, read_only), &mut Vec::new());
        begun.map(|is_enough| assert!(is_enough)).err().map(|error| error.to_string())
    }

    #[test]
    fn every_word_means_what_libpq_says() {
        use SessionAttrs::*;
        let cases = [
            (Any, [true, true, true]),
            (ReadWrite, [true, false, false]),
            (ReadOnly, [false, true, true]),
            (Primary, [true, true, false]),
            (Standby, [false, false, true]),
            (PreferStandby, [false, false, true]),
        ];
        for (attrs, wanted) in cases {
            let servers = [("off", "off"), ("off", "on"), ("on", "off")];
            for ((standby, read_only), is_wanted) in servers.into_iter().zip(wanted) {
                let why = judged(attrs, &login(&[]), standby, read_only);
                assert_eq!(why.is_none(), is_wanted, "{attrs:?} {standby} {read_only}: {why:?}");
            }
        }
    }

    #[test]
    fn a_load_that_only_reads_does_not_take_itself_for_a_standby() {
        let own = login(&[("default_transaction_read_only", "on")]);
        assert_eq!(judged(SessionAttrs::ReadWrite, &own, "off", "on"), None);
        let why = judged(SessionAttrs::ReadWrite, &own, "on", "on");
        assert_eq!(why.as_deref(), Some("session is read-only"));
    }

    #[test]
    fn a_server_that_does_not_tell_is_asked() {
        let message = |tag: u8, body: &[u8]| {
            let length = (body.len() as u32 + 4).to_be_bytes();
            [&[tag][..], &length, body].concat()
        };
        for (attrs, query, answer, is_wanted) in [
            (SessionAttrs::ReadWrite, ASK_READ_ONLY, "off", true),
            (SessionAttrs::ReadWrite, ASK_READ_ONLY, "on", false),
            (SessionAttrs::Primary, ASK_RECOVERY, "t", false),
            (SessionAttrs::Standby, ASK_RECOVERY, "t", true),
        ] {
            let mut check = Check::new(attrs, &login(&[])).expect("there is something to check");
            let mut out = Vec::new();
            assert!(!check.begin(&BTreeMap::new(), &mut out).expect("not known"));
            assert!(String::from_utf8_lossy(&out).contains(query));
            let length = (answer.len() as u32).to_be_bytes();
            let row = [&[0, 1][..], &length, answer.as_bytes()].concat();
            let reply = [message(b'D', &row), message(b'C', b"SHOW\0"), message(b'Z', b"I")];
            let reply = reply.concat();
            let (mut first, mut second) = reply.split_at(9);
            assert!(!check.advance(&mut first).expect("there is more to come"));
            assert_eq!(check.advance(&mut second).is_ok(), is_wanted, "{attrs:?}");
        }
    }
}
