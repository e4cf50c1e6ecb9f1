//! What makes connections secure, in libpq's words; the files are read by the engine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// libpq's sslmode. Sockets of this host are never encrypted, whatever it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SslMode {
    Disable,
    /// Plain, unless the server refuses that.
    Allow,
    /// Encrypted, unless the server refuses that.
    #[default]
    Prefer,
    /// Encrypted. When there is a file of root certificates, as `VerifyCa`.
    Require,
    /// Encrypted, by a server with a certificate that a root certificate vouches for.
    VerifyCa,
    /// As `VerifyCa`, and the certificate is for the name that was asked for.
    VerifyFull,
}

/// libpq's security parameters except `sslmode`; an absent one has libpq's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// A PEM file, or `system`; absent = ~/.postgresql/root.crt if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sslrootcert: Option<String>,
    /// The client's certificate, PEM; absent = ~/.postgresql/postgresql.crt if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sslcert: Option<String>,
    /// Its key, PEM, not encrypted; absent = ~/.postgresql/postgresql.key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sslkey: Option<String>,
    /// False = the name of the host is not sent in the clear when TLS begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sslsni: Option<bool>,
    #[serde(default)]
    pub channel_binding: ChannelBinding,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_min_protocol_version: Option<TlsVersion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_max_protocol_version: Option<TlsVersion>,
    #[serde(default)]
    pub sslcertmode: CertificateMode,
    /// What the server may ask for, as libpq reads it: `scram-sha-256,md5`, or `!password,!none`;
    /// absent = anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_auth: Option<String>,
}

/// Whether the client's certificate is sent to a server that asks for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateMode {
    Disable,
    #[default]
    Allow,
}

/// Whether SCRAM is bound to the TLS channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelBinding {
    Disable,
    #[default]
    Prefer,
    Require,
}

/// The versions that the engine speaks; older ones are no longer safe.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TlsVersion {
    #[serde(rename = "TLSv1.2")]
    V12,
    #[serde(rename = "TLSv1.3")]
    V13,
}
