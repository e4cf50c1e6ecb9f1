//! Connection strings: `name = value` pairs, and URIs.

use super::Parameters;
use crate::pgbench::say::{Fault, fault};

/// `name = value` pairs; values may be quoted with `'`, and `\` takes the next character as it is.
pub(super) fn read_pairs(text: &str) -> Result<Parameters, Fault> {
    let mut parameters = Parameters::new();
    let mut characters = text.chars().peekable();
    loop {
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        if characters.peek().is_none() {
            return Ok(parameters);
        }
        let mut name = String::new();
        while let Some(c) = characters.next_if(|&c| c != '=' && !c.is_whitespace()) {
            name.push(c);
        }
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        if characters.next() != Some('=') {
            let message = format!("missing \"=\" after \"{name}\" in connection info string");
            return Err(fault(message));
        }
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        let is_quoted = characters.next_if_eq(&'\'').is_some();
        let mut value = String::new();
        let mut is_closed = !is_quoted;
        while let Some(&c) = characters.peek() {
            if !is_quoted && c.is_whitespace() {
                break;
            }
            characters.next();
            match c {
                '\'' if is_quoted => {
                    is_closed = true;
                    break;
                }
                '\\' => value.extend(characters.next()),
                other => value.push(other),
            }
        }
        if !is_closed {
            return Err(fault("unterminated quoted string in connection info string"));
        }
        parameters.insert(name, value);
    }
}

/// `postgresql://user:password@host:port,host:port/database?name=value&...`
pub(super) fn read_uri(uri: &str) -> Result<Parameters, Fault> {
    let mut parameters = Parameters::new();
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, places) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let mut put = |name: &str, value: &str| -> Result<(), Fault> {
        if !value.is_empty() {
            parameters.insert(name.into(), decode(value, uri)?);
        }
        Ok(())
    };
    put("user", user)?;
    put("password", password)?;
    put("dbname", database)?;
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for place in places.split(',') {
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or("")),
            None => place.rsplit_once(':').unwrap_or((place, "")),
        };
        hosts.push(host);
        ports.push(port);
    }
    put("host", &hosts.join(","))?;
    if ports.iter().any(|port| !port.is_empty()) {
        put("port", &ports.join(","))?;
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            fault(format!("missing key/value separator \"=\" in URI query parameter: \"{pair}\""))
        })?;
        put(&decode(name, uri)?, value)?;
    }
    Ok(parameters)
}

/// Undo percent encoding.
fn decode(text: &str, uri: &str) -> Result<String, Fault> {
    let invalid = || fault(format!("invalid percent-encoded token in \"{uri}\""));
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next().ok_or_else(invalid)?, rest.next().ok_or_else(invalid)?];
        let digits = std::str::from_utf8(&digits).map_err(|_| invalid())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(parameters: &Parameters) -> Vec<(&str, &str)> {
        parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    #[test]
    fn pairs_may_be_quoted_and_escaped() {
        let found = read_pairs(r"host = /tmp  user='a b\'c' password=x\ y").expect("valid");
        assert_eq!(pairs(&found), [("host", "/tmp"), ("password", "x y"), ("user", "a b'c")]);
        assert!(read_pairs("host").is_err());
        assert!(read_pairs("host='x").is_err());
    }

    #[test]
    fn a_uri_has_hosts_ports_login_and_parameters() {
        let uri = "postgresql://me:s%40crt@[::1]:5433,b/db?sslmode=disable&host=%2Ftmp";
        let found = read_uri(uri).expect("valid");
        assert_eq!(
            pairs(&found),
            [
                ("dbname", "db"),
                ("host", "/tmp"),
                ("password", "s@crt"),
                ("port", "5433,"),
                ("sslmode", "disable"),
                ("user", "me"),
            ]
        );
    }
}
