//! TLS: the settings of a host, the check of its certificate, and encryption.
//!
//! `Security` has the settings for connections to one host. `Opening` leads a connected socket to
//! ReadyForQuery. `TlsStream` encrypts an open connection. Only `files` does I/O: it reads
//! certificates before any connection is made.
//!
//! Source: manual, "SSL Support" (libpq) and "SSL Session Encryption" (protocol).

mod binding;
mod certificate;
mod error;
mod files;
mod name;
mod opening;
mod stream;
#[cfg(test)]
mod tests;
mod verifier;

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SupportedProtocolVersion};

pub use self::error::{OpeningError, TlsError};
pub use self::opening::{Negotiation, Opened, Opening};
pub use self::stream::TlsStream;
use self::verifier::Verifier;
use crate::contract::job::{HostPort, Target};
use crate::contract::tls::{ChannelBinding, SslMode, TlsVersion};
use crate::poller::Address;

/// One way to try a connection: encrypted or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Plain,
    Tls,
}

/// One address of a host, with the settings for secure connections to it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The host as the target names it.
    pub host: HostPort,
    pub address: Address,
    pub security: Security,
}

/// The settings for secure connections to one host.
#[derive(Clone)]
pub struct Security {
    /// Tried in this order, each if the attempt before it was refused.
    attempts: &'static [Attempt],
    /// None if no attempt is encrypted.
    config: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Security").field(&self.attempts).finish()
    }
}

impl Security {
    /// Return the settings that `target` has for connections to `host`, one of its hosts.
    ///
    /// Errors: a file is missing or cannot be used, or settings contradict each other.
    pub fn new(target: &Target, host: &HostPort) -> Result<Security, TlsError> {
        let attempts: &[Attempt] = match target.sslmode {
            // As libpq: a Unix socket does not leave the host, so it is never encrypted.
            _ if host.is_socket() => &[Attempt::Plain],
            SslMode::Disable => &[Attempt::Plain],
            SslMode::Allow => &[Attempt::Plain, Attempt::Tls],
            SslMode::Prefer => &[Attempt::Tls, Attempt::Plain],
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[Attempt::Tls],
        };
        let needs_tls = attempts.contains(&Attempt::Tls);
        if !needs_tls && target.tls.channel_binding == ChannelBinding::Require {
            return Err(TlsError::new(
                "channel_binding=require needs TLS, and this connection has none",
                "connect by TCP with sslmode=require, or give channel_binding=prefer",
            ));
        }
        let config = if needs_tls { Some(config(target, host)?) } else { None };
        Ok(Security { attempts, config })
    }

    /// Return the attempt with this number, from 0; None if there are no more.
    pub fn attempt(&self, number: usize) -> Option<Attempt> {
        self.attempts.get(number).copied()
    }

    /// True if a plain connection is accepted when the server has no TLS.
    fn prefers_tls(&self) -> bool {
        self.attempts == [Attempt::Tls, Attempt::Plain]
    }

    fn stream(&self) -> Result<TlsStream, TlsError> {
        let (config, name) = self.config.as_ref().expect("an attempt with TLS has one");
        TlsStream::new(config, name)
    }
}

fn config(
    target: &Target,
    host: &HostPort,
) -> Result<(Arc<ClientConfig>, ServerName<'static>), TlsError> {
    let settings = &target.tls;
    if target.sslmode == SslMode::VerifyFull && host.host.is_empty() {
        return Err(TlsError::new(
            "sslmode=verify-full checks the certificate's host name, but no host name is given",
            "give host in addition to hostaddr",
        ));
    }
    let provider = Arc::new(default_provider());
    let verifier = Verifier {
        algorithms: provider.signature_verification_algorithms,
        roots: files::roots(target.sslmode, settings)?,
        host: (target.sslmode == SslMode::VerifyFull).then(|| host.host.clone()),
    };
    let client = files::client_certificate(settings, &provider)?;
    let least = settings.ssl_min_protocol_version.unwrap_or(TlsVersion::V12);
    let most = settings.ssl_max_protocol_version.unwrap_or(TlsVersion::V13);
    let all: [(TlsVersion, &'static SupportedProtocolVersion); 2] =
        [(TlsVersion::V13, &TLS13), (TlsVersion::V12, &TLS12)];
    let versions: Vec<_> = all
        .into_iter()
        .filter(|(version, _)| (least..=most).contains(version))
        .map(|(_, version)| version)
        .collect();
    if versions.is_empty() {
        return Err(TlsError::new(
            "ssl_min_protocol_version is above ssl_max_protocol_version",
            "leave both out for TLS 1.2 and 1.3",
        ));
    }
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some(pair) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair))),
    };
    // As libpq: each connection has a full handshake, so that its cost is measured.
    config.resumption = Resumption::disabled();
    let name = ServerName::try_from(host.host.clone()).ok();
    let is_name = matches!(name, Some(ServerName::DnsName(_)));
    config.enable_sni = settings.sslsni.unwrap_or(true) && is_name;
    // The verifier knows the host. This name is only for SNI, which never sends an address.
    let name = name.unwrap_or_else(|| std::net::Ipv4Addr::UNSPECIFIED.into());
    Ok((Arc::new(config), name))
}
