//! Reads connection strings: `name = value` pairs, and URIs.

use super::parameters::{Parameters, is_known};
use crate::say::{Fault, fault};

/// Read `name = value` pairs. `'` may quote a value. After `\`, the next character is taken
/// unchanged.
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
        let (name, value) = of_old(name, value);
        if !is_known(&name) {
            return Err(fault(format!("invalid connection option \"{name}\"")));
        }
        parameters.insert(name, value);
    }
}

/// Replace old names of parameters that libpq still accepts.
fn of_old(name: String, value: String) -> (String, String) {
    match name.as_str() {
        "requiressl" => {
            let mode = if value.starts_with('1') { "require" } else { "prefer" };
            ("sslmode".into(), mode.into())
        }
        _ => (name, value),
    }
}

/// Read a URI: `postgresql://user:password@host:port,host:port/database?name=value&...`
pub(super) fn read_uri(uri: &str) -> Result<Parameters, Fault> {
    let mut parameters = Parameters::new();
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    // As libpq: the text before the first `@` is the login, if no `/` comes before.
    let (login, rest) = match rest.find(['@', '/']) {
        Some(at) if rest[at..].starts_with('@') => (&rest[..at], &rest[at + 1..]),
        _ => ("", rest),
    };
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let mut put = |name: &str, value: &str| -> Result<(), Fault> {
        if !value.is_empty() {
            parameters.insert(name.into(), decode(value)?);
        }
        Ok(())
    };
    put("user", user)?;
    put("password", password)?;
    let (places, rest) = read_places(uri, rest)?;
    let hosts: Vec<_> = places.iter().map(|place| place.0).collect();
    let ports: Vec<_> = places.iter().map(|place| place.1).collect();
    put("host", &hosts.join(","))?;
    if ports.iter().any(|port| !port.is_empty()) {
        put("port", &ports.join(","))?;
    }
    let (database, query) = rest.split_once('?').unwrap_or((rest, ""));
    put("dbname", database.strip_prefix('/').unwrap_or(database))?;
    read_query(query, &mut parameters)?;
    Ok(parameters)
}

/// A host and its port.
type Place<'a> = (&'a str, &'a str);

/// Read hosts with their ports. Returns the rest of the text, too.
fn read_places<'a>(uri: &'a str, mut rest: &'a str) -> Result<(Vec<Place<'a>>, &'a str), Fault> {
    let mut places = Vec::new();
    loop {
        let host;
        if let Some(inner) = rest.strip_prefix('[') {
            let Some(end) = inner.find(']') else {
                return Err(fault(format!(
                    "end of string reached when looking for matching \"]\" in IPv6 host address \
                     in URI: \"{uri}\""
                )));
            };
            if end == 0 {
                return Err(fault(format!("IPv6 host address may not be empty in URI: \"{uri}\"")));
            }
            (host, rest) = (&inner[..end], &inner[end + 1..]);
            if let Some(next) = rest.chars().next().filter(|next| !":/?,".contains(*next)) {
                return Err(fault(format!(
                    "unexpected character \"{next}\" at position {} in URI (expected \":\" or \
                     \"/\"): \"{uri}\"",
                    uri.len() - rest.len() + 1
                )));
            }
        } else {
            (host, rest) = rest.split_at(rest.find([':', '/', '?', ',']).unwrap_or(rest.len()));
        }
        let mut port = "";
        if let Some(behind) = rest.strip_prefix(':') {
            (port, rest) = behind.split_at(behind.find(['/', '?', ',']).unwrap_or(behind.len()));
        }
        places.push((host, port));
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Ok((places, rest)),
        }
    }
}

/// Read `name=value` pairs between `&`.
fn read_query(mut query: &str, parameters: &mut Parameters) -> Result<(), Fault> {
    while !query.is_empty() {
        let (pair, rest) = query.split_once('&').unwrap_or((query, ""));
        query = rest;
        let Some((name, value)) = pair.split_once('=') else {
            return Err(fault(format!(
                "missing key/value separator \"=\" in URI query parameter: \"{pair}\""
            )));
        };
        if value.contains('=') {
            return Err(fault(format!(
                "extra key/value separator \"=\" in URI query parameter: \"{name}\""
            )));
        }
        let (name, value) = match (decode(name)?, decode(value)?) {
            // JDBC's name for sslmode=require.
            (name, value) if name == "ssl" && value == "true" => {
                ("sslmode".to_owned(), "require".to_owned())
            }
            (name, value) => of_old(name, value),
        };
        if !is_known(&name) {
            return Err(fault(format!("invalid URI query parameter: \"{name}\"")));
        }
        parameters.insert(name, value);
    }
    Ok(())
}

/// Decode percent encoding.
fn decode(text: &str) -> Result<String, Fault> {
    let invalid = || fault(format!("invalid percent-encoded token: \"{text}\""));
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit(rest.next()), digit(rest.next()));
        let byte = high.zip(low).map(|(high, low)| (high << 4 | low) as u8).ok_or_else(invalid)?;
        if byte == 0 {
            let message = format!("forbidden value %00 in percent-encoded value: \"{text}\"");
            return Err(fault(message));
        }
        bytes.push(byte);
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
    fn the_ways_of_old_and_of_jdbc_to_ask_for_tls_are_taken() {
        let require = [("sslmode", "require")];
        assert_eq!(pairs(&read_pairs("requiressl=1").expect("valid")), require);
        assert_eq!(pairs(&read_uri("postgresql:///?ssl=true").expect("valid")), require);
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
