//! What SCRAM is bound to: the hash of the server's certificate.
//!
//! Source: RFC 5929, section 4.1: the hash of the certificate's own signature, but SHA-256 in place
//! of MD5 and SHA-1.

use sha2::{Digest, Sha256, Sha384, Sha512};

use super::certificate::Certificate;
use super::der::{self, Reader};

/// 1.2.840.113549.1.1, of RSA.
const PKCS1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1];
/// 1.2.840.10045.4, of ECDSA.
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4];
/// 2.16.840.1.101.3.4.2, of the SHA-2 family.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// The `tls-server-end-point` of a certificate; absent when its signature has no hash (Ed25519) or
/// one that is not known here.
pub(super) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = Certificate::read(certificate).ok()?.signature_algorithm;
    Some(match hash_of(algorithm)? {
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

fn hash_of(algorithm: &[u8]) -> Option<Hash> {
    let mut parts = Reader(algorithm);
    let name = parts.expect(der::OBJECT_ID).ok()?.contents;
    match (name.strip_prefix(PKCS1), name.strip_prefix(ECDSA)) {
        // MD5 and SHA-1 with RSA; SHA-1 with ECDSA.
        (Some([4 | 5 | 11]), _) | (_, Some([1] | [3, 2])) => Some(Hash::Sha256),
        (Some([12]), _) | (_, Some([3, 3])) => Some(Hash::Sha384),
        (Some([13]), _) | (_, Some([3, 4])) => Some(Hash::Sha512),
        // RSA-PSS names its hash in the first parameter; without one it is SHA-1.
        (Some([10]), _) => {
            let mut parameters = parts.enter(der::SEQUENCE).ok()?;
            let Some(first) = parameters.optional(0xa0).ok()? else { return Some(Hash::Sha256) };
            let mut hash = Reader(first.contents).enter(der::SEQUENCE).ok()?;
            match hash.expect(der::OBJECT_ID).ok()?.contents.strip_prefix(SHA2)? {
                [1] => Some(Hash::Sha256),
                [2] => Some(Hash::Sha384),
                [3] => Some(Hash::Sha512),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_signature_and_never_an_unsafe_one() {
        let algorithm = |prefix: &[u8], last: &[u8], parameters: &[u8]| {
            let name = [prefix, last].concat();
            [&[der::OBJECT_ID, name.len() as u8], &name[..], parameters].concat()
        };
        for (bytes, expected) in [
            (algorithm(PKCS1, &[4], &[5, 0]), Some(Hash::Sha256)),
            (algorithm(PKCS1, &[5], &[5, 0]), Some(Hash::Sha256)),
            (algorithm(PKCS1, &[11], &[5, 0]), Some(Hash::Sha256)),
            (algorithm(PKCS1, &[12], &[5, 0]), Some(Hash::Sha384)),
            (algorithm(ECDSA, &[3, 4], &[]), Some(Hash::Sha512)),
            (algorithm(PKCS1, &[10], &[0x30, 0]), Some(Hash::Sha256)),
            (vec![der::OBJECT_ID, 3, 0x2b, 0x65, 0x70], None),
        ] {
            assert_eq!(hash_of(&bytes), expected, "{bytes:x?}");
        }
        let pss = [&[0x30, 15, 0xa0, 13, 0x30, 11, der::OBJECT_ID, 9], SHA2, &[2]].concat();
        assert_eq!(hash_of(&algorithm(PKCS1, &[10], &pss)), Some(Hash::Sha384));
    }
}
