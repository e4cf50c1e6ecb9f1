//! Channel binding of SCRAM: the hash of the server's certificate.
//!
//! Source: RFC 5929, section 4.1: the hash function of the certificate's signature, but SHA-256
//! instead of MD5 and SHA-1.

use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_cert::der::asn1::{AnyRef, ContextSpecific};
use x509_cert::der::referenced::OwnedToRef;
use x509_cert::der::{Decode, SliceReader, TagNumber};
use x509_cert::spki::AlgorithmIdentifierRef;

const RSA_PSS: &str = "1.2.840.113549.1.1.10";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// Return the `tls-server-end-point` of a certificate. None if its signature has no hash (Ed25519),
/// or a hash that is not known here.
pub(super) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let read = x509_cert::Certificate::from_der(certificate).ok()?;
    let algorithm = read.signature_algorithm.owned_to_ref();
    Some(match hash_of(&algorithm)? {
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

fn hash_of(algorithm: &AlgorithmIdentifierRef<'_>) -> Option<Hash> {
    match algorithm.oid.to_string().as_str() {
        // MD5, SHA-1 and SHA-256 with RSA; SHA-1 and SHA-256 with ECDSA.
        "1.2.840.113549.1.1.4" | "1.2.840.113549.1.1.5" | "1.2.840.113549.1.1.11" => {
            Some(Hash::Sha256)
        }
        "1.2.840.10045.4.1" | "1.2.840.10045.4.3.2" => Some(Hash::Sha256),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Some(Hash::Sha384),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Some(Hash::Sha512),
        RSA_PSS => hash_of_pss(algorithm.parameters?),
        _ => None,
    }
}

/// The hash of RSA-PSS is its first parameter; without the parameter it is SHA-1.
fn hash_of_pss(parameters: AnyRef<'_>) -> Option<Hash> {
    let mut fields = SliceReader::new(parameters.value()).ok()?;
    let first =
        ContextSpecific::<AlgorithmIdentifierRef<'_>>::decode_explicit(&mut fields, TagNumber::N0);
    let Some(hash) = first.ok()? else { return Some(Hash::Sha256) };
    match hash.value.oid.to_string().as_str() {
        "2.16.840.1.101.3.4.2.1" => Some(Hash::Sha256),
        "2.16.840.1.101.3.4.2.2" => Some(Hash::Sha384),
        "2.16.840.1.101.3.4.2.3" => Some(Hash::Sha512),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use x509_cert::der::asn1::ObjectIdentifier;

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_signature_and_never_an_unsafe_one() {
        let hash = |oid: &str, parameters: Option<AnyRef<'_>>| {
            hash_of(&AlgorithmIdentifierRef { oid: ObjectIdentifier::new_unwrap(oid), parameters })
        };
        for (oid, expected) in [
            ("1.2.840.113549.1.1.4", Some(Hash::Sha256)),
            ("1.2.840.113549.1.1.5", Some(Hash::Sha256)),
            ("1.2.840.113549.1.1.11", Some(Hash::Sha256)),
            ("1.2.840.113549.1.1.12", Some(Hash::Sha384)),
            ("1.2.840.10045.4.3.4", Some(Hash::Sha512)),
            ("1.3.101.112", None),
        ] {
            assert_eq!(hash(oid, None), expected, "{oid}");
        }
        let sha384 = [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2];
        let pss = [&[0x30, 15, 0xa0, 13, 0x30, 11, 6, 9][..], &sha384].concat();
        let parameters = AnyRef::try_from(pss.as_slice()).expect("a sequence");
        assert_eq!(hash(RSA_PSS, Some(parameters)), Some(Hash::Sha384));
        let empty = AnyRef::try_from(&[0x30, 0][..]).expect("a sequence");
        assert_eq!(hash(RSA_PSS, Some(empty)), Some(Hash::Sha256));
    }
}
