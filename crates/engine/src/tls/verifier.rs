//! Decides whether to trust a server's certificate: by PostgreSQL's rules, not by a browser's.
//!
//! webpki checks chains of certificates. PostgreSQL's manual shows how to make two kinds of
//! certificates that webpki refuses, and this file checks these: a self-signed certificate that is
//! both server and root, and a server's certificate of version 1 (or marked as an authority) that a
//! root has signed directly.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, ServerName, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime,
};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage, RawPublicKeyEntity};

use super::certificate::Certificate;
use super::name;

/// The reason why a server is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Distrust {
    pub(super) message: String,
    pub(super) hint: &'static str,
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Distrust {}

fn distrust(message: impl Into<String>, hint: &'static str) -> Distrust {
    Distrust { message: message.into(), hint }
}

/// The certificates of a root file. A certificate that is not self-signed is not a root, but may
/// link to a root.
#[derive(Debug, Default)]
pub(super) struct Roots {
    roots: Vec<CertificateDer<'static>>,
    links: Vec<CertificateDer<'static>>,
}

impl Roots {
    pub(super) fn new(certificates: Vec<CertificateDer<'static>>) -> Roots {
        let (roots, links) = certificates
            .into_iter()
            .filter(|certificate| Certificate::read(certificate).is_ok())
            .partition(|bytes| Certificate::read(bytes).is_ok_and(|c| c.is_self_issued()));
        Roots { roots, links }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// The roots that are valid at `now`, in seconds since 1970.
    fn valid(&self, now: i64) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.roots.iter().filter(move |bytes| {
            Certificate::read(bytes)
                .is_ok_and(|root| (root.not_before..=root.not_after).contains(&now))
        })
    }
}

/// The rules for a server's certificate.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    /// None if any certificate is accepted.
    pub(super) roots: Option<Arc<Roots>>,
    /// The name for which the certificate must be; None if any name is accepted.
    pub(super) host: Option<String>,
}

impl Verifier {
    /// Check the certificate `server`, which came with the intermediate certificates `links`, at
    /// `now`.
    pub(super) fn judge(
        &self,
        server: &CertificateDer<'_>,
        links: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Distrust> {
        let certificate = Certificate::read(server).map_err(|_| {
            distrust(
                "the server's certificate cannot be read",
                "openssl x509 -text may show the reason",
            )
        })?;
        let Some(roots) = &self.roots else { return Ok(()) };
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if seconds > certificate.not_after {
            return Err(distrust("the server's certificate has expired", "renew it"));
        }
        if seconds < certificate.not_before {
            let hint = "compare the clocks of both hosts";
            return Err(distrust("the server's certificate is not valid yet", hint));
        }
        self.judge_chain(roots, server, &certificate, links, now)?;
        match &self.host {
            Some(host) if !name::is_for(&certificate, host) => Err(distrust(
                format!(
                    "the server's certificate is for {}, not for \"{host}\"",
                    name::shown(&certificate)
                ),
                "connect by the name in the certificate, or give sslmode=verify-ca",
            )),
            _ => Ok(()),
        }
    }

    fn judge_chain(
        &self,
        roots: &Roots,
        server: &CertificateDer<'_>,
        certificate: &Certificate<'_>,
        links: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Distrust> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let is_root = certificate.is_self_issued() && roots.roots.iter().any(|root| root == server);
        if is_root || self.is_signed_by_a_root(roots, certificate, seconds) {
            return Ok(());
        }
        let anchors: Vec<TrustAnchor<'_>> = roots
            .valid(seconds)
            .filter_map(|root| webpki::anchor_from_trusted_cert(root).ok())
            .collect();
        let links: Vec<CertificateDer<'_>> =
            links.iter().chain(&roots.links).map(|link| link.as_ref().into()).collect();
        let (usage, all) = (KeyUsage::server_auth(), self.algorithms.all);
        let result = EndEntityCert::try_from(server).and_then(|server| {
            server.verify_for_usage(all, &anchors, &links, now, usage, None, None).map(|_| ())
        });
        result.map_err(|error| {
            use webpki::Error::{CaUsedAsEndEntity, UnknownIssuer};
            let has_expired = roots.roots.len() > anchors.len();
            let (why, hint) = match error {
                UnknownIssuer | CaUsedAsEndEntity if has_expired => (
                    "no valid root certificate signed it or its issuers; some have expired".into(),
                    "renew the root certificates",
                ),
                // webpki refuses an authority as a server, and no root has signed this one
                // directly.
                UnknownIssuer | CaUsedAsEndEntity => (
                    "no root certificate signed it or its issuers".into(),
                    "put the certificate of the server's authority into the file that sslrootcert \
                     names, and the ones between into the server's ssl_cert_file",
                ),
                error => (error.to_string(), "openssl verify may show the reason"),
            };
            distrust(format!("the server's certificate is not trusted: {why}"), hint)
        })
    }

    /// True if a root has signed the certificate directly. Its version does not matter.
    fn is_signed_by_a_root(&self, roots: &Roots, server: &Certificate<'_>, now: i64) -> bool {
        let signs = |bytes: &&CertificateDer<'static>| {
            let Ok(root) = Certificate::read(bytes) else { return false };
            // If a root is limited to some names, only webpki can check it.
            let is_free = webpki::anchor_from_trusted_cert(bytes)
                .is_ok_and(|anchor| anchor.name_constraints.is_none());
            let signature = server.signature;
            is_free
                && root.subject == server.issuer
                && self.is_signed(
                    &root.public_key,
                    server.signature_algorithm,
                    server.signed,
                    signature,
                )
        };
        server.may_serve
            && !server.has_unknown_critical
            && roots.valid(now).any(|root| signs(&root))
    }

    fn is_signed(&self, key: &[u8], algorithm: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let key = SubjectPublicKeyInfoDer::from(key);
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
        let mut all = self.algorithms.all.iter();
        all.any(|known| {
            known.signature_alg_id().as_ref() == algorithm
                && key.verify_signature(*known, message, signature).is_ok()
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.judge(end_entity, intermediates, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(distrust) => Err(CertificateError::Other(OtherError(Arc::new(distrust))).into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let certificate = Certificate::read(cert).map_err(|_| CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key.as_slice());
        let key = RawPublicKeyEntity::try_from(&key).map_err(|_| CertificateError::BadEncoding)?;
        let mapping = self.algorithms.mapping.iter();
        let mut known = mapping.filter(|(scheme, _)| *scheme == dss.scheme).flat_map(|(_, a)| *a);
        match known.any(|known| key.verify_signature(*known, message, dss.signature()).is_ok()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let certificate = Certificate::read(cert).map_err(|_| CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key.as_slice());
        verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
