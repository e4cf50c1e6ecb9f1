//! The fields of an X.509 certificate that the verifier needs. `x509-cert` reads the format.
//!
//! Source: RFC 5280, section 4.1. This file does not decide whether to trust a certificate.

use x509_cert::der::asn1::{BitStringRef, ObjectIdentifier};
use x509_cert::der::{Decode, Encode, Error, ErrorKind, Header, Reader, SliceReader, Tag};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{ExtendedKeyUsage, SubjectAltName};
use x509_cert::name::Name;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");

/// A certificate. The signed parts are borrowed from its bytes, unchanged.
#[derive(Debug)]
pub(super) struct Certificate<'a> {
    /// The bytes that the issuer signed.
    pub(super) signed: &'a [u8],
    /// Contents of the AlgorithmIdentifier of the signature.
    pub(super) signature_algorithm: &'a [u8],
    pub(super) signature: &'a [u8],
    pub(super) issuer: Name,
    pub(super) subject: Name,
    /// SubjectPublicKeyInfo, header included.
    pub(super) public_key: Vec<u8>,
    /// Seconds since 1970.
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    pub(super) common_name: Option<Vec<u8>>,
    pub(super) dns_names: Vec<Vec<u8>>,
    pub(super) ip_addresses: Vec<Vec<u8>>,
    /// There is no extended key usage, or it includes servers.
    pub(super) may_serve: bool,
    /// There is a critical extension that this file does not read.
    pub(super) has_unknown_critical: bool,
}

impl<'a> Certificate<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Certificate<'a>, Error> {
        let [signed, signature_algorithm, signature] = raw_parts(bytes)?;
        let whole = x509_cert::Certificate::from_der(bytes)?;
        let fields = whole.tbs_certificate;
        if fields.signature != whole.signature_algorithm {
            return Err(ErrorKind::Failed.into());
        }
        let seconds = |time: x509_cert::time::Time| time.to_unix_duration().as_secs() as i64;
        let mut certificate = Certificate {
            signed,
            signature_algorithm,
            signature,
            public_key: fields.subject_public_key_info.to_der()?,
            not_before: seconds(fields.validity.not_before),
            not_after: seconds(fields.validity.not_after),
            common_name: common_name(&fields.subject),
            issuer: fields.issuer,
            subject: fields.subject,
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            may_serve: true,
            has_unknown_critical: false,
        };
        for extension in fields.extensions.iter().flatten() {
            let value = extension.extn_value.as_bytes();
            match extension.extn_id {
                SUBJECT_ALT_NAME => certificate.take_names(SubjectAltName::from_der(value)?),
                EXTENDED_KEY_USAGE => {
                    certificate.may_serve =
                        ExtendedKeyUsage::from_der(value)?.0.contains(&SERVER_AUTH);
                }
                BASIC_CONSTRAINTS | KEY_USAGE => {}
                _ => certificate.has_unknown_critical |= extension.critical,
            }
        }
        Ok(certificate)
    }

    fn take_names(&mut self, names: SubjectAltName) {
        for name in names.0 {
            match name {
                GeneralName::DnsName(name) => self.dns_names.push(name.as_bytes().to_vec()),
                GeneralName::IpAddress(address) => self.ip_addresses.push(address.into_bytes()),
                _ => {}
            }
        }
    }

    /// True if issuer and subject are the same.
    pub(super) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }
}

/// Return three parts of the bytes, unchanged: the signed part, the contents of the algorithm, and
/// the signature. A signature is made over bytes, so they must not be decoded and encoded again.
fn raw_parts(bytes: &[u8]) -> Result<[&[u8]; 3], Error> {
    let mut outer = SliceReader::new(bytes)?;
    Header::decode(&mut outer)?.tag.assert_eq(Tag::Sequence)?;
    let signed = outer.tlv_bytes()?;
    let algorithm = outer.tlv_bytes()?;
    let signature = BitStringRef::decode(&mut outer)?;
    let mut inner = SliceReader::new(algorithm)?;
    Header::decode(&mut inner)?;
    let contents = inner.read_slice(inner.remaining_len())?;
    let signature = signature.as_bytes().ok_or_else(|| Error::from(ErrorKind::Failed))?;
    Ok([signed, contents, signature])
}

/// Return the first common name of a subject.
fn common_name(subject: &Name) -> Option<Vec<u8>> {
    let mut attributes = subject.0.iter().flat_map(|set| set.0.iter());
    attributes
        .find(|attribute| attribute.oid == COMMON_NAME)
        .map(|attribute| attribute.value.value().to_vec())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::tls::{binding, name};

    /// Seconds of the fuzz run; the ordinary test takes one.
    const VARIABLE: &str = "PGDYNO_FUZZ_SECONDS";

    /// Whatever a server sends is read or refused: nothing panics and nothing is read past its end.
    #[test]
    fn no_changed_certificate_is_more_than_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/certificates");
        let mut corpus = Vec::new();
        for entry in fs::read_dir(folder).expect("the corpus").flatten() {
            let pem = fs::read(entry.path()).expect("a file");
            let read = CertificateDer::pem_slice_iter(&pem).flatten();
            corpus.extend(read.map(|certificate| certificate.to_vec()));
        }
        assert!(corpus.len() >= 3, "{} certificates in {folder}", corpus.len());
        assert!(corpus.iter().all(|bytes| Certificate::read(bytes).is_ok()));
        let seconds = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below.max(1) as u64) as usize
        };
        while Instant::now() < end {
            let mut bytes = corpus[random(corpus.len())].clone();
            for _ in 0..=random(6) {
                let place = random(bytes.len());
                match random(4) {
                    0 => bytes[place] = random(256) as u8,
                    1 => bytes[place] ^= 1 << random(8),
                    2 => bytes.truncate(place),
                    _ => bytes.insert(place, random(256) as u8),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            if let Ok(certificate) = Certificate::read(&bytes) {
                let _ = (name::is_for(&certificate, "db.example"), name::shown(&certificate));
            }
            let _ = binding::end_point(&bytes);
        }
    }
}
