//! The handshake, from an open socket to ReadyForQuery: start-up, authentication, parameters.

use std::collections::BTreeMap;
use std::fmt;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;

use crate::error::{ProtocolError, ServerError};
use crate::frame::{Framer, NEVER_SKIP};
use crate::frontend;
use crate::require_auth::RequireAuth;
use crate::scram::{
    Binding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, SaltedPasswords, Scram, ScramError,
};

/// The user, the password and the parameters of a login.
#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: Option<String>,
    /// The other parameters of the start-up message: `database`, `application_name`, settings.
    pub parameters: Vec<(String, String)>,
    pub channel_binding: ChannelBinding,
    /// Authentication methods that the server may request; `None` = all.
    pub require_auth: Option<RequireAuth>,
}

/// Whether SCRAM is bound to the TLS channel. If SCRAM is bound, a machine between client and
/// server cannot relay the login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelBinding {
    Disable,
    #[default]
    Prefer,
    /// The login fails if the server does not bind the authentication.
    Require,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password never reaches a log.
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Parameters that the server reported, with the process and the cancel key of the new backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    pub process_id: i32,
    pub secret_key: i32,
    pub parameters: BTreeMap<String, String>,
}

/// State of the handshake after `Handshake::advance`.
#[derive(Debug, PartialEq, Eq)]
pub enum Advance {
    /// Send the bytes in `out`, if any, and call `advance` again with the bytes of the answer.
    Continue,
    /// The session is open; later bytes stay in the input.
    Ready(Session),
}

/// Why the handshake failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    Server(ServerError),
    Protocol(ProtocolError),
    /// The server asks for a password, and none was given.
    PasswordMissing,
    /// The server asks for a method that this client does not support.
    Unsupported(String),
    /// The server could not prove that it knows the password.
    ServerNotAuthentic,
    /// `ChannelBinding::Require`, and the server asks for a method that cannot be bound.
    NotBound,
    /// `require_auth` does not allow the method that the server requests, or does not allow that
    /// the server requests none. The text is libpq's.
    NotAllowed(String),
    /// A start-up parameter or the password has a zero byte.
    ZeroByte,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Server(error) => error.fmt(f),
            HandshakeError::Protocol(error) => error.fmt(f),
            HandshakeError::PasswordMissing => {
                f.write_str("the server asks for a password and none was given")
            }
            HandshakeError::Unsupported(method) => write!(
                f,
                "the server asks for {method} authentication; supported are trust, password, md5 \
                 and SCRAM-SHA-256"
            ),
            HandshakeError::ServerNotAuthentic => {
                f.write_str("the server could not prove that it knows the password")
            }
            HandshakeError::NotBound => f.write_str(
                "channel_binding=require, and the server offers no authentication that is bound \
                 to the TLS channel",
            ),
            HandshakeError::NotAllowed(why) => f.write_str(why),
            HandshakeError::ZeroByte => {
                f.write_str("user, password or a start-up parameter has a zero byte")
            }
        }
    }
}

impl std::error::Error for HandshakeError {}

impl From<ProtocolError> for HandshakeError {
    fn from(error: ProtocolError) -> Self {
        HandshakeError::Protocol(error)
    }
}

impl From<std::io::Error> for HandshakeError {
    /// A zero byte is the only error of the encoders of `postgres-protocol`.
    fn from(_: std::io::Error) -> Self {
        HandshakeError::ZeroByte
    }
}

impl From<ScramError> for HandshakeError {
    fn from(error: ScramError) -> Self {
        match error {
            ScramError::Malformed => ProtocolError::Malformed(b'R').into(),
            ScramError::TooManyIterations => HandshakeError::Unsupported(
                "SCRAM-SHA-256 with more than 1,000,000 iterations".into(),
            ),
            ScramError::ServerNotAuthentic => HandshakeError::ServerNotAuthentic,
        }
    }
}

/// One connection's handshake.
pub struct Handshake {
    framer: Framer,
    session: Session,
    stage: Stage,
    /// Under TLS, the hash of the server's certificate (`tls-server-end-point`).
    end_point: Option<Vec<u8>>,
}

enum Stage {
    /// Before AuthenticationOk.
    Authenticate,
    /// A password was sent, hashed or not.
    Answered,
    Scram(Scram),
    /// SCRAM is complete; the server may now send AuthenticationOk.
    Verified,
    /// After AuthenticationOk.
    Authenticated,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake").finish_non_exhaustive()
    }
}

impl Handshake {
    /// Write the start-up message to `out`.
    ///
    /// Errors: `ZeroByte`, if a parameter has a zero byte.
    pub fn start(login: &Login, out: &mut BytesMut) -> Result<Handshake, HandshakeError> {
        let parameters = login.parameters.iter().map(|(name, value)| (&**name, &**value));
        frontend::startup_message([("user", &*login.user)].into_iter().chain(parameters), out)?;
        Ok(Handshake {
            framer: Framer::default(),
            session: Session::default(),
            stage: Stage::Authenticate,
            end_point: None,
        })
    }

    /// Set the hash of the server's certificate, to which SCRAM is bound.
    ///
    /// Source: RFC 5929, section 4.
    pub fn bind_to(&mut self, tls_server_end_point: Vec<u8>) {
        self.end_point = Some(tls_server_end_point);
    }

    /// Read the received bytes of `input`, and append the answer to `out`.
    ///
    /// Errors: after any error the caller must close the connection.
    pub fn advance(
        &mut self,
        login: &Login,
        salted: &mut SaltedPasswords,
        input: &mut &[u8],
        out: &mut BytesMut,
    ) -> Result<Advance, HandshakeError> {
        while let Some(message) = self.framer.next(input, NEVER_SKIP)? {
            match (message.tag, &self.stage) {
                (b'E', _) => return Err(HandshakeError::Server(ServerError::parse(message.body))),
                (b'R', Stage::Authenticated) => return Err(ProtocolError::Unexpected(b'R').into()),
                (b'R', stage) => {
                    may_ask(message.body, stage, login)?;
                    let end_point = self.end_point.as_deref();
                    let own = (&mut self.stage, end_point);
                    authenticate(own, message.body, login, salted, out)?;
                }
                // Not needed: notices, and the message of a server with an older minor version.
                (b'N' | b'v', _) => {}
                (b'S', Stage::Authenticated) => {
                    let (name, value) = parameter(message.body)?;
                    self.session.parameters.insert(name, value);
                }
                (b'K', Stage::Authenticated) => {
                    // Protocol 3.0: two integers. A server sends longer keys only for 3.2.
                    let key: [u8; 8] =
                        message.body.try_into().map_err(|_| ProtocolError::Malformed(b'K'))?;
                    let [a, b, c, d, e, f, g, h] = key;
                    self.session.process_id = i32::from_be_bytes([a, b, c, d]);
                    self.session.secret_key = i32::from_be_bytes([e, f, g, h]);
                }
                (b'Z', Stage::Authenticated) => {
                    return Ok(Advance::Ready(std::mem::take(&mut self.session)));
                }
                (tag, _) => return Err(ProtocolError::Unexpected(tag).into()),
            }
        }
        Ok(Advance::Continue)
    }
}

/// Check that the user allows the method that the server requests. `ChannelBinding::Require` allows
/// SCRAM only, because no other method can be bound.
fn may_ask(body: &[u8], stage: &Stage, login: &Login) -> Result<(), HandshakeError> {
    let code = body.first_chunk::<4>().map(|code| u32::from_be_bytes(*code));
    let Some(code) = code else { return Err(ProtocolError::Malformed(b'R').into()) };
    let is_unbound = matches!((code, stage), (0 | 3 | 5, Stage::Authenticate | Stage::Answered));
    if login.channel_binding == ChannelBinding::Require && is_unbound {
        return Err(HandshakeError::NotBound);
    }
    let is_answered = matches!(stage, Stage::Answered | Stage::Verified);
    let judged = login.require_auth.as_ref().map(|required| required.judge(code, is_answered));
    judged.unwrap_or(Ok(())).map_err(HandshakeError::NotAllowed)
}

/// Answer one Authentication message.
fn authenticate(
    (stage, end_point): (&mut Stage, Option<&[u8]>),
    body: &[u8],
    login: &Login,
    salted: &mut SaltedPasswords,
    out: &mut BytesMut,
) -> Result<(), HandshakeError> {
    let malformed = ProtocolError::Malformed(b'R');
    let (code, rest) = body.split_first_chunk::<4>().ok_or(malformed.clone())?;
    let password = || login.password.as_deref().ok_or(HandshakeError::PasswordMissing);
    match (u32::from_be_bytes(*code), &mut *stage) {
        (0, Stage::Authenticate | Stage::Answered | Stage::Verified) => {
            *stage = Stage::Authenticated;
        }
        (3, Stage::Authenticate | Stage::Answered) => {
            frontend::password_message(password()?.as_bytes(), out)?;
            *stage = Stage::Answered;
        }
        (5, Stage::Authenticate | Stage::Answered) => {
            let salt: [u8; 4] = rest.try_into().map_err(|_| malformed)?;
            let hash = md5_hash(login.user.as_bytes(), password()?.as_bytes(), salt);
            frontend::password_message(hash.as_bytes(), out)?;
            *stage = Stage::Answered;
        }
        (10, Stage::Authenticate) => {
            password()?;
            let (mechanism, binding) = choose_mechanism(rest, login, end_point)?;
            let scram = Scram::new(binding);
            frontend::sasl_initial_response(mechanism, scram.first().as_bytes(), out)?;
            *stage = Stage::Scram(scram);
        }
        (11, Stage::Scram(scram)) => {
            let answer = scram.answer(rest, password()?, salted)?;
            frontend::sasl_response(answer.as_bytes(), out)?;
        }
        (12, Stage::Scram(scram)) => {
            scram.verify(rest)?;
            *stage = Stage::Verified;
        }
        (0 | 3 | 5 | 10 | 11 | 12, _) => return Err(ProtocolError::Unexpected(b'R').into()),
        (2, _) => return Err(HandshakeError::Unsupported("Kerberos V5".into())),
        (7 | 8, _) => return Err(HandshakeError::Unsupported("GSSAPI".into())),
        (9, _) => return Err(HandshakeError::Unsupported("SSPI".into())),
        (code, _) => return Err(HandshakeError::Unsupported(format!("number {code}"))),
    }
    Ok(())
}

/// The strongest mechanism both sides have.
fn choose_mechanism(
    offered: &[u8],
    login: &Login,
    end_point: Option<&[u8]>,
) -> Result<(&'static str, Binding), HandshakeError> {
    let offered: Vec<_> = offered
        .split(|&byte| byte == 0)
        .take_while(|name| !name.is_empty())
        .map(String::from_utf8_lossy)
        .collect();
    let offers = |name: &str| offered.iter().any(|offer| offer == name);
    match (login.channel_binding, end_point) {
        (ChannelBinding::Prefer | ChannelBinding::Require, Some(hash))
            if offers(SCRAM_SHA_256_PLUS) =>
        {
            Ok((SCRAM_SHA_256_PLUS, Binding::EndPoint(hash.to_vec())))
        }
        (ChannelBinding::Require, _) => Err(HandshakeError::NotBound),
        (ChannelBinding::Prefer, Some(_)) if offers(SCRAM_SHA_256) => {
            Ok((SCRAM_SHA_256, Binding::NotOffered))
        }
        _ if offers(SCRAM_SHA_256) => Ok((SCRAM_SHA_256, Binding::None)),
        _ => Err(HandshakeError::Unsupported(format!("SASL {}", offered.join(", ")))),
    }
}

/// Name and value of a ParameterStatus message.
fn parameter(body: &[u8]) -> Result<(String, String), ProtocolError> {
    let mut parts = body.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    match (parts.next(), parts.next()) {
        (Some(name), Some(value)) => Ok((name.into_owned(), value.into_owned())),
        _ => Err(ProtocolError::Malformed(b'S')),
    }
}
