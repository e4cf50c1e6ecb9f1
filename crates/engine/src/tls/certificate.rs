//! What the verifier reads of an X.509 certificate.
//!
//! Source: RFC 5280, section 4.1. Nothing here decides whether a certificate is to be trusted.

use super::der::{self, Malformed, Reader};

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];

/// A certificate, its parts borrowed.
#[derive(Debug)]
pub(super) struct Certificate<'a> {
    /// What the issuer signed.
    pub(super) signed: &'a [u8],
    /// Contents of the AlgorithmIdentifier of the signature.
    pub(super) signature_algorithm: &'a [u8],
    pub(super) signature: &'a [u8],
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    /// SubjectPublicKeyInfo, header included.
    pub(super) public_key: &'a [u8],
    /// Seconds since 1970.
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    pub(super) common_name: Option<&'a [u8]>,
    pub(super) dns_names: Vec<&'a [u8]>,
    pub(super) ip_addresses: Vec<&'a [u8]>,
    /// An extended key usage is absent, or has that of servers.
    pub(super) may_serve: bool,
    /// A critical extension that is not read here.
    pub(super) has_unknown_critical: bool,
}

impl<'a> Certificate<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Certificate<'a>, Malformed> {
        let mut outer = Reader(bytes);
        let mut parts = outer.enter(der::SEQUENCE)?;
        let signed = parts.expect(der::SEQUENCE)?;
        let signature_algorithm = parts.expect(der::SEQUENCE)?.contents;
        let signature = parts.expect(der::BIT_STRING)?.contents;
        // The first byte counts unused bits of the last one; signatures have none.
        let signature = signature.strip_prefix(&[0]).ok_or(Malformed)?;
        if !outer.is_empty() || !parts.is_empty() {
            return Err(Malformed);
        }
        let mut fields = Reader(signed.contents);
        fields.optional(0xa0)?; // Version.
        fields.expect(der::INTEGER)?; // Serial number.
        if fields.expect(der::SEQUENCE)?.contents != signature_algorithm {
            return Err(Malformed);
        }
        let issuer = fields.expect(der::SEQUENCE)?.whole;
        let mut validity = fields.enter(der::SEQUENCE)?;
        let (not_before, not_after) = (der::time(validity.any()?)?, der::time(validity.any()?)?);
        let subject = fields.expect(der::SEQUENCE)?;
        let public_key = fields.expect(der::SEQUENCE)?.whole;
        let mut certificate = Certificate {
            signed: signed.whole,
            signature_algorithm,
            signature,
            issuer,
            subject: subject.whole,
            public_key,
            not_before,
            not_after,
            common_name: common_name(Reader(subject.contents))?,
            dns_names: Vec::new(),
            ip_addresses: Vec::new(),
            may_serve: true,
            has_unknown_critical: false,
        };
        fields.optional(0x81)?; // Unique identifiers of issuer and subject.
        fields.optional(0x82)?;
        if let Some(extensions) = fields.optional(0xa3)? {
            certificate.read_extensions(Reader(extensions.contents).enter(der::SEQUENCE)?)?;
        }
        Ok(certificate)
    }

    fn read_extensions(&mut self, mut extensions: Reader<'a>) -> Result<(), Malformed> {
        while !extensions.is_empty() {
            let mut extension = extensions.enter(der::SEQUENCE)?;
            let name = extension.expect(der::OBJECT_ID)?.contents;
            let critical = extension.optional(der::BOOLEAN)?;
            let mut value = Reader(extension.expect(der::OCTET_STRING)?.contents);
            match name {
                SUBJECT_ALT_NAME => {
                    let mut names = value.enter(der::SEQUENCE)?;
                    while !names.is_empty() {
                        match names.any()? {
                            name if name.tag == 0x82 => self.dns_names.push(name.contents),
                            name if name.tag == 0x87 => self.ip_addresses.push(name.contents),
                            _ => {}
                        }
                    }
                }
                EXTENDED_KEY_USAGE => {
                    let mut usages = value.enter(der::SEQUENCE)?;
                    self.may_serve = false;
                    while !usages.is_empty() {
                        self.may_serve |= usages.expect(der::OBJECT_ID)?.contents == SERVER_AUTH;
                    }
                }
                BASIC_CONSTRAINTS | KEY_USAGE => {}
                _ => {
                    self.has_unknown_critical |=
                        critical.is_some_and(|critical| critical.contents != [0]);
                }
            }
        }
        Ok(())
    }

    /// Issuer and subject are one.
    pub(super) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }
}

/// The first common name of a subject.
fn common_name(mut subject: Reader<'_>) -> Result<Option<&[u8]>, Malformed> {
    while !subject.is_empty() {
        let mut set = subject.enter(der::SET)?;
        while !set.is_empty() {
            let mut attribute = set.enter(der::SEQUENCE)?;
            let kind = attribute.expect(der::OBJECT_ID)?.contents;
            let value = attribute.any()?.contents;
            if kind == COMMON_NAME {
                return Ok(Some(value));
            }
        }
    }
    Ok(None)
}
