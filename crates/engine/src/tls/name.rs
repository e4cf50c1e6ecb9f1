//! Checks that a certificate is for the host to which we connect, by libpq's rules.
//!
//! Source: manual, "SSL Support", "Client Verification of Server Certificates": if the subject
//! alternative name has a name of the same kind as the host, only these names count. If not, the
//! common name counts.

use std::net::IpAddr;

use super::certificate::Certificate;

/// True if `certificate` is for `host`, a name or an address.
pub(super) fn is_for(certificate: &Certificate<'_>, host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    let has_own_kind = match address {
        Some(_) => !certificate.ip_addresses.is_empty(),
        None => !certificate.dns_names.is_empty(),
    };
    let is_address = |bytes: &Vec<u8>| match address {
        Some(IpAddr::V4(address)) => bytes[..] == address.octets(),
        Some(IpAddr::V6(address)) => bytes[..] == address.octets(),
        None => false,
    };
    let is_name = |name: &Vec<u8>| matches(name, host);
    certificate.dns_names.iter().any(is_name)
        || certificate.ip_addresses.iter().any(is_address)
        || !has_own_kind && certificate.common_name.as_ref().is_some_and(is_name)
}

/// Return the names of a certificate, for an error message.
pub(super) fn shown(certificate: &Certificate<'_>) -> String {
    let text = |name: &Vec<u8>| format!("\"{}\"", name.escape_ascii());
    let addresses = certificate.ip_addresses.iter().filter_map(|bytes| match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes.as_slice())
            .ok()
            .map(|octets| IpAddr::from(octets).to_string()),
        _ => <[u8; 16]>::try_from(bytes.as_slice())
            .ok()
            .map(|octets| IpAddr::from(octets).to_string()),
    });
    let mut names: Vec<String> = certificate.dns_names.iter().map(text).chain(addresses).collect();
    if names.is_empty() {
        names.extend(certificate.common_name.as_ref().map(text));
    }
    match names.is_empty() {
        true => "no name".into(),
        false => names.join(", "),
    }
}

/// Compare two names, without regard to case. `*` stands for one whole label at the beginning.
fn matches(pattern: &[u8], host: &str) -> bool {
    let host = host.as_bytes();
    // Some clients stopped reading at a zero byte, and took "bank.com\0.evil.com" for bank.com.
    if pattern.contains(&0) || pattern.is_empty() {
        return false;
    }
    if pattern.eq_ignore_ascii_case(host) {
        return true;
    }
    let Some(suffix) = pattern.strip_prefix(b"*").filter(|suffix| suffix.starts_with(b".")) else {
        return false;
    };
    let Some(label_length) = host.len().checked_sub(suffix.len()) else { return false };
    let (label, rest) = host.split_at(label_length);
    suffix.len() > 1
        && !label.is_empty()
        && !label.contains(&b'.')
        && rest.eq_ignore_ascii_case(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_one_label_at_the_beginning() {
        for (pattern, host, expected) in [
            ("db.example", "DB.Example", true),
            ("*.example", "db.example", true),
            ("*.example", "a.db.example", false),
            ("*.example", ".example", false),
            ("*.example", "example", false),
            ("*", "db", false),
            ("*.", "db.", false),
            ("d*.example", "db.example", false),
            ("db.*", "db.example", false),
            ("db.example\0.evil", "db.example", false),
            ("", "", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), host), expected, "{pattern} {host}");
        }
    }
}
