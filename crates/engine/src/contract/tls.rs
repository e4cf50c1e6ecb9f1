//! The security of connections, by libpq's parameters. The engine reads the files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// libpq's sslmode. Unix sockets are never encrypted, with any mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SslMode {
    Disable,
    /// Not encrypted; if the server refuses that, encrypted.
    Allow,
    /// Encrypted; if the server refuses that, not encrypted.
    #[default]
    Prefer,
    /// Encrypted. If there is a file of root certificates, as `VerifyCa`.
    Require,
    /// Encrypted, and a root certificate has signed the server's certificate.
    VerifyCa,
    /// As `VerifyCa`, and the certificate is for the name of the host.
    VerifyFull,
}

/// libpq's security parameters except `sslmode`. An absent parameter has libpq's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// A PEM file, or `system`; absent = ~/.postgresql/root.crt if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sslrootcert: Option<String>,
    /// The client's certificate, PEM; absent = ~/.postgresql/postgresql.crt if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sslcert: Option<String>,
    /// The key of the client's certificate, PEM, not encrypted; absent =
    /// ~/.postgresql/postgresql.key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sslkey: Option<String>,
    /// False = do not send the name of the host unencrypted when TLS begins.
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
    /// The authentication methods that the server may use, in libpq's form: `scram-sha-256,md5`, or
    /// `!password,!none`; absent = all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_auth: Option<String>,
}

/// Whether the client sends its certificate when the server asks for one.
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

/// The TLS versions that the engine supports. Older versions are not safe.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TlsVersion {
    #[serde(rename = "TLSv1.2")]
    V12,
    #[serde(rename = "TLSv1.3")]
    V13,
}
