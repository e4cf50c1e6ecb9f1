//! Reads certificates and keys from the files that libpq uses, with libpq's rules.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::TlsError;
use super::certificate::Certificate;
use super::verifier::Roots;
use crate::contract::tls::{CertificateMode, SslMode, TlsSettings};

/// Files with the certificates that a system trusts: Debian, Red Hat, SUSE, Alpine and the BSDs.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Return the root certificates for checking servers; None if every server is accepted.
pub(super) fn roots(mode: SslMode, settings: &TlsSettings) -> Result<Option<Arc<Roots>>, TlsError> {
    let path = match settings.sslrootcert.as_deref() {
        Some("system") if mode != SslMode::VerifyFull => {
            return Err(TlsError::new(
                "sslrootcert=system trusts many authorities, so sslmode must be verify-full",
                "give sslmode=verify-full",
            ));
        }
        Some("system") => system_roots()?,
        Some(path) => PathBuf::from(path),
        None => match own_file("root.crt") {
            Some(path) => path,
            None => return no_roots(mode, "there is no home folder to look for root.crt in"),
        },
    };
    let Some(bytes) = read(&path)? else {
        let message = format!("the file of root certificates {} does not exist", path.display());
        return no_roots(mode, &message);
    };
    refuse_revocation_list()?;
    let roots = Roots::new(certificates(&path, &bytes)?);
    if roots.is_empty() {
        return Err(TlsError::new(
            format!("{} has no self-signed certificate", path.display()),
            "put the certificate of the authority into the file",
        ));
    }
    Ok(Some(Arc::new(roots)))
}

fn no_roots(mode: SslMode, why: &str) -> Result<Option<Arc<Roots>>, TlsError> {
    match mode {
        SslMode::VerifyCa | SslMode::VerifyFull => Err(TlsError::new(
            format!("the server's certificate cannot be verified: {why}"),
            "give sslrootcert=FILE or sslrootcert=system, or sslmode=require to trust any server",
        )),
        _ => Ok(None),
    }
}

/// The file of the system's root certificates: OpenSSL's variable first, then the usual places.
fn system_roots() -> Result<PathBuf, TlsError> {
    let given = env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let mut usual = SYSTEM_ROOTS.iter().map(PathBuf::from);
    given.or_else(|| usual.find(|path| path.exists())).ok_or_else(|| {
        TlsError::new(
            "sslrootcert=system, and this system has no file of root certificates",
            "install the package ca-certificates, or give sslrootcert=FILE",
        )
    })
}

/// Refuse a revocation list, which libpq would read. If we ignored the file, we would trust revoked
/// certificates.
fn refuse_revocation_list() -> Result<(), TlsError> {
    match own_file("root.crl").filter(|path| path.exists()) {
        None => Ok(()),
        Some(path) => Err(TlsError::new(
            format!(
                "{} exists, but the load engine does not support certificate revocation lists",
                path.display()
            ),
            "move the file away for this run, if the server's certificate is not revoked",
        )),
    }
}

/// Return the client's certificate and key, if it has one.
pub(super) fn client_certificate(
    settings: &TlsSettings,
    provider: &CryptoProvider,
) -> Result<Option<CertifiedKey>, TlsError> {
    if settings.sslcertmode == CertificateMode::Disable {
        return Ok(None);
    }
    let place =
        |given: &Option<String>, usual| given.as_ref().map(PathBuf::from).or(own_file(usual));
    let Some(path) = place(&settings.sslcert, "postgresql.crt") else { return Ok(None) };
    // As libpq: if the server needs a certificate, the server reports that it is missing.
    let Some(bytes) = read(&path)? else { return Ok(None) };
    let chain = certificates(&path, &bytes)?;
    let key_path = place(&settings.sslkey, "postgresql.key").unwrap_or_default();
    let key = private_key(&key_path, &path)?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| {
        TlsError::new(
            format!("the private key {} cannot be used: {error}", key_path.display()),
            "RSA from 2048 bits, P-256, P-384 and Ed25519 are supported",
        )
    })?;
    let of_certificate = chain.first().map(|first| Certificate::read(first));
    let is_pair = match (of_certificate, key.public_key()) {
        (Some(Ok(certificate)), Some(of_key)) => certificate.public_key == of_key.as_ref(),
        _ => true,
    };
    if !is_pair {
        let (key, certificate) = (key_path.display(), path.display());
        return Err(TlsError::new(
            format!("the private key {key} does not belong to the certificate {certificate}"),
            "use the sslkey that belongs to sslcert",
        ));
    }
    Ok(Some(CertifiedKey::new(chain, key)))
}

fn private_key(path: &Path, certificate: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let Some(bytes) = read(path)? else {
        let message = format!(
            "there is a certificate {} but no private key {}",
            certificate.display(),
            path.display()
        );
        return Err(TlsError::new(message, "give sslkey=FILE"));
    };
    let facts = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    // As libpq: a group may read a key that root owns.
    let forbidden = if facts.uid() == 0 { 0o037 } else { 0o077 };
    if facts.is_file() && facts.mode() & forbidden != 0 {
        return Err(TlsError::new(
            format!("users other than its owner may use the private key {}", path.display()),
            format!("chmod 0600 {}", path.display()),
        ));
    }
    let text = String::from_utf8_lossy(&bytes);
    if text.contains("ENCRYPTED") {
        return Err(TlsError::new(
            format!("the private key {} is encrypted, which is not supported", path.display()),
            "make a copy without encryption: openssl pkey -in KEY -out COPY; chmod 0600 COPY",
        ));
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
        let message = format!("{} has no private key in PEM format", path.display());
        TlsError::new(message, "openssl pkey -in KEY -inform DER -out COPY converts one")
    })
}

fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(|| {
        TlsError::new(
            format!("{} has no certificate in PEM format", path.display()),
            "openssl x509 -in FILE -inform DER -out COPY converts one",
        )
    })
}

/// The largest file of certificates or keys that is read: about 10,000 certificates.
const BYTES_MAX: u64 = 16 << 20;

/// Return the bytes of a file; None if it does not exist.
///
/// A device or a pipe may never end, so it is refused.
fn read(path: &Path) -> Result<Option<Vec<u8>>, TlsError> {
    if let Ok(metadata) = fs::metadata(path)
        && (!metadata.is_file() || metadata.len() > BYTES_MAX)
        && path != Path::new("/dev/null")
    {
        let what = if metadata.is_file() { "larger than 16 MiB" } else { "not a file" };
        return Err(TlsError::new(
            format!("{} is {what}", path.display()),
            "name a file in PEM format",
        ));
    }
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> TlsError {
    let message = format!("{} cannot be read: {error}", path.display());
    TlsError::new(message, "check the owner and the permissions of the file")
}

/// Return the path of a file in this user's folder of libpq.
fn own_file(name: &str) -> Option<PathBuf> {
    let home = env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(Path::new(&home).join(".postgresql").join(name))
}
