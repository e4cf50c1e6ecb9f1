//! Opens a blocking session, on the first host of the target that accepts it.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use pgdyno_wire::{
    BytesMut, Framer, HandshakeError, Login, RequireAuth, SaltedPasswords, Session as BackendKey,
};

use super::socket::{Socket, open};
use super::{Answer, Session, SessionError, StopFlag, grows};
use crate::answer_limit::AnswerLimit;
use crate::contract::job::{ChannelBinding, HostPort, SessionAttrs, Target};
use crate::password::Passwords;
use crate::poller::{Address, resolve};
use crate::tls::{Attempt, Opening, Security};

/// Longest wait for one host: for the connection, and again for the login.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How the server must prove its identity: channel binding, and the authentication methods that are
/// allowed.
///
/// Errors: `require_auth` is not valid; the text is libpq's.
pub fn security(
    target: &Target,
) -> Result<(pgdyno_wire::ChannelBinding, Option<RequireAuth>), String> {
    let binding = match target.tls.channel_binding {
        ChannelBinding::Disable => pgdyno_wire::ChannelBinding::Disable,
        ChannelBinding::Prefer => pgdyno_wire::ChannelBinding::Prefer,
        ChannelBinding::Require => pgdyno_wire::ChannelBinding::Require,
    };
    let text = target.tls.require_auth.as_deref().unwrap_or_default();
    Ok((binding, RequireAuth::parse(text)?))
}

impl Session {
    /// Open a session on the first host of `target` that can be reached and is of the wanted kind.
    ///
    /// Errors: of the last host; or the first refusal by a server, which as in libpq ends the
    /// search.
    pub fn connect(target: &Target, stop: &StopFlag) -> Result<Session, SessionError> {
        let mut last = SessionError::Connect {
            place: "any host".into(),
            error: io::Error::new(ErrorKind::InvalidInput, "the list of hosts is empty"),
        };
        let asked = target.reach.target_session_attrs;
        // If no host is a standby and a standby is only preferred, any host is used.
        let last_resort = (asked == SessionAttrs::PreferStandby).then_some(SessionAttrs::Any);
        for attrs in [asked].into_iter().chain(last_resort) {
            for host in &target.hosts {
                match Session::connect_to(host, attrs, target, stop) {
                    Ok(session) => return Ok(session),
                    // As libpq: a server that refuses the user ends the search.
                    Err(error) if error.may_pass() => last = error,
                    Err(error @ SessionError::Unsuitable(_)) => last = error,
                    Err(error) => return Err(error),
                }
            }
        }
        Err(last)
    }

    /// Try every address of one host, each with and without TLS as sslmode says.
    fn connect_to(
        host: &HostPort,
        attrs: SessionAttrs,
        target: &Target,
        stop: &StopFlag,
    ) -> Result<Session, SessionError> {
        let unreachable = |place: String, error| SessionError::Connect { place, error };
        let name = || format!("{}:{}", host.host, host.port);
        let places = resolve(host, target.reach.keepalive);
        let places = places.map_err(|error| unreachable(name(), error))?;
        let security = Security::new(target, host).map_err(SessionError::Tls)?;
        let mut last = unreachable(name(), ErrorKind::NotFound.into());
        for place in places {
            let mut number = 0;
            while let Some(attempt) = security.attempt(number) {
                number += 1;
                let socket = match open(&place, CONNECT_TIMEOUT) {
                    Ok(socket) => socket,
                    Err(error) => {
                        last = unreachable(place.to_string(), error);
                        break;
                    }
                };
                let mut session = Session::new(socket, place.clone(), security.clone(), stop);
                match session.log_in(attempt, attrs, (target, host)) {
                    Ok(()) => return Ok(session),
                    Err(error) if security.attempt(number).is_none() => return Err(error),
                    Err(error) if error.may_be_the_encryption(attempt) => last = error,
                    Err(error) => return Err(error),
                }
            }
        }
        Err(last)
    }

    fn new(socket: Socket, place: Address, security: Security, stop: &StopFlag) -> Session {
        Session {
            socket,
            place,
            security,
            tls: None,
            key: BackendKey::default(),
            framer: Framer::default(),
            received: vec![0; 16 << 10],
            plain: Vec::new(),
            outgoing: BytesMut::new(),
            stop: stop.clone(),
            cancelled_at: None,
            notices: Vec::new(),
        }
    }

    fn log_in(
        &mut self,
        attempt: Attempt,
        attrs: SessionAttrs,
        (target, host): (&Target, &HostPort),
    ) -> Result<(), SessionError> {
        let login = login_of(target, host)?;
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let mut salted = SaltedPasswords::default();
        let (mut limit, mut out) = (AnswerLimit::default(), Vec::new());
        let mut opening = Opening::start(&self.security, attempt, (&login, attrs), &mut out)?;
        loop {
            self.send_raw(&out)?;
            out.clear();
            let count = self.receive_until(Some(deadline))?;
            grows(&mut limit, count)?;
            let received = &self.received[..count];
            match opening.advance(received, &login, &mut salted, &mut out) {
                Ok(None) => {}
                Ok(Some(opened)) => {
                    (self.key, self.tls) = (opened.session, opened.tls);
                    // Subtle: `rest` came in the same read as ReadyForQuery. The framer must get it
                    // before any later bytes, because a notice may begin in it.
                    let mut answer = Answer::default();
                    return self.read_input(&opened.rest, &mut answer);
                }
                Err(error) => {
                    // Send TLS's alert with the reason, if there is one. Nothing depends on it.
                    let _ = self.send_raw(&out);
                    return Err(error.into());
                }
            }
        }
    }
}

/// The login as libpq would send it, with client_encoding UTF8 so that error texts can be read.
fn login_of(target: &Target, host: &HostPort) -> Result<Login, SessionError> {
    let fixed = [
        ("database", &target.database),
        ("application_name", &target.application_name),
        ("client_encoding", &"UTF8".to_string()),
    ];
    let own = fixed.into_iter().map(|(name, value)| (name.to_string(), value.clone()));
    let options = target.options.iter().map(|(name, value)| (name.clone(), value.clone()));
    let command = target.password_command.as_deref();
    let printed = command.map(|command| Passwords::of(command, target.password.as_deref()).wait());
    // If the command fails, the old password is used; the server's answer then decides.
    let password = printed.and_then(Result::ok).map(|password| password.text);
    let (channel_binding, require_auth) =
        security(target).map_err(|why| SessionError::from(HandshakeError::NotAllowed(why)))?;
    Ok(Login {
        user: target.user.clone(),
        password: password.or_else(|| host.password.clone()).or_else(|| target.password.clone()),
        parameters: own.chain(options).collect(),
        channel_binding,
        require_auth,
    })
}
