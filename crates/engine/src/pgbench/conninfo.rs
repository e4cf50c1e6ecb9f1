//! Where to connect: options, a connection string or URI, PG* variables, service and password
//! files.
//!
//! Source: manual, "Database Connection Control Functions", "Environment Variables", "The Password
//! File", "The Connection Service File".

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::options::Options;
use super::say::{Fault, fault};
use super::security;
use crate::contract::job::{HostPort, Reach, SslMode, Target};

/// Parameters that are sent to the server, or that decide where to connect.
const KNOWN: [&str; 11] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "passfile",
    "service",
    "application_name",
    "options",
    "client_encoding",
];

/// Parameters that change nothing here and are accepted.
const IGNORED: [&str; 7] = [
    "connect_timeout",
    "fallback_application_name",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
];

type Parameters = BTreeMap<String, String>;

/// The target that the options name.
pub(super) fn target(options: &Options) -> Result<Target, Fault> {
    let mut given = Parameters::new();
    let mut put = |name: &str, value: &Option<String>| {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            given.insert(name.into(), value.clone());
        }
    };
    put("host", &options.host);
    put("port", &options.port);
    put("user", &options.user);
    let database = options.database.clone().filter(|name| !name.is_empty());
    let database = database.or_else(|| variable("PGDATABASE")).or_else(|| variable("PGUSER"));
    let database = database.map_or_else(os_user, Ok)?;
    if database.starts_with("postgresql://") || database.starts_with("postgres://") {
        given.extend(read_uri(&database)?);
    } else if database.contains('=') {
        given.extend(read_pairs(&database)?);
    } else {
        given.insert("dbname".into(), database);
    }
    let known = || KNOWN.iter().chain(&IGNORED).chain(&security::KNOWN);
    let unknown = |name: &&String| !known().any(|known| known == name);
    if let Some(name) = given.keys().find(unknown) {
        return Err(fault(format!("invalid connection option \"{name}\"")).hint(
            "supported are host, hostaddr, port, dbname, user, password, passfile, service, \
                   application_name, options, client_encoding, and those of TLS (sslmode, \
                   sslrootcert, sslcert, sslkey, channel_binding)",
        ));
    }
    let service = given.get("service").cloned().or_else(|| variable("PGSERVICE"));
    let service = service.map(|name| read_service(&name)).transpose()?.unwrap_or_default();
    let get = |name: &str, variable_name: &str| {
        let own = given.get(name).or_else(|| service.get(name)).cloned();
        own.or_else(|| variable(variable_name))
    };
    let user = get("user", "PGUSER").map_or_else(os_user, Ok)?;
    let database = get("dbname", "PGDATABASE").unwrap_or_else(|| user.clone());
    let hosts = hosts(get("host", "PGHOST"), get("hostaddr", "PGHOSTADDR"), get("port", "PGPORT"))?;
    let password = get("password", "PGPASSWORD")
        .or_else(|| password_file(get("passfile", "PGPASSFILE"), &hosts[0], &database, &user));
    let application_name = get("application_name", "PGAPPNAME").unwrap_or("pgbench".into());
    // As libpq: a Unix socket needs no TLS, whatever is asked for.
    let is_local = hosts.iter().all(|host| host.host.starts_with('/'));
    let (asked, tls) = security::settings(&get)?;
    Ok(Target {
        sslmode: if is_local { SslMode::Disable } else { asked },
        tls,
        options: start_up(&get),
        reach: Reach::default(),
        password_command: None,
        hosts,
        user,
        database,
        password,
        application_name,
    })
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Settings that libpq sends when it connects.
fn start_up(get: &impl Fn(&str, &str) -> Option<String>) -> BTreeMap<String, String> {
    let settings = [
        ("options", get("options", "PGOPTIONS")),
        ("client_encoding", get("client_encoding", "PGCLIENTENCODING")),
        ("datestyle", variable("PGDATESTYLE")),
        ("timezone", variable("PGTZ")),
        ("geqo", variable("PGGEQO")),
    ];
    let given = settings.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    given.collect()
}

/// The user of the operating system.
fn os_user() -> Result<String, Fault> {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    name.or_else(|| variable("USER")).ok_or_else(|| {
        fault(format!("could not look up effective user ID {uid}: user does not exist"))
            .hint("name the user with -U")
    })
}

/// Hosts, their addresses and ports, lists separated by commas; one port may serve for all hosts.
fn hosts(
    hosts: Option<String>,
    addresses: Option<String>,
    ports: Option<String>,
) -> Result<Vec<HostPort>, Fault> {
    let ports = ports.unwrap_or_else(|| "5432".into());
    let ports: Vec<u16> = ports
        .split(',')
        .map(|port| match port.trim() {
            "" => Ok(5432),
            text => text
                .parse()
                .ok()
                .filter(|&port| port > 0)
                .ok_or_else(|| fault(format!("invalid port number: \"{text}\""))),
        })
        .collect::<Result<_, _>>()?;
    let addresses: Option<Vec<String>> =
        addresses.map(|list| list.split(',').map(str::to_owned).collect());
    let hosts = match (hosts, &addresses) {
        (Some(hosts), _) => hosts,
        (None, Some(addresses)) => addresses.join(","),
        (None, None) => socket_folder(ports[0]),
    };
    let hosts: Vec<&str> = hosts.split(',').collect();
    if let Some(addresses) = addresses.as_ref().filter(|list| list.len() != hosts.len()) {
        return Err(fault(format!(
            "could not match {} host names to {} hostaddr values",
            hosts.len(),
            addresses.len()
        )));
    }
    if ports.len() != 1 && ports.len() != hosts.len() {
        return Err(fault(format!(
            "could not match {} port numbers to {} hosts",
            ports.len(),
            hosts.len()
        )));
    }
    let host = |(index, name): (usize, &&str)| HostPort {
        host: name.to_string(),
        hostaddr: addresses
            .as_ref()
            .map(|addresses| addresses[index].clone())
            .filter(|address| !address.is_empty() && address != name),
        port: ports[index.min(ports.len() - 1)],
    };
    Ok(hosts.iter().enumerate().map(host).collect())
}

/// Debian keeps the socket in the first of these folders, PostgreSQL itself in the other.
fn socket_folder(port: u16) -> String {
    let distribution = "/var/run/postgresql";
    match Path::new(distribution).join(format!(".s.PGSQL.{port}")).exists() {
        true => distribution.into(),
        false => "/tmp".into(),
    }
}

/// `name = value` pairs; values may be quoted with `'`, and `\` takes the next character as it is.
fn read_pairs(text: &str) -> Result<Parameters, Fault> {
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
fn read_uri(uri: &str) -> Result<Parameters, Fault> {
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

/// The section of the service file that has this name.
fn read_service(name: &str) -> Result<Parameters, Fault> {
    let own = variable("PGSERVICEFILE").map(PathBuf::from);
    let own = own.or_else(|| Some(home()?.join(".pg_service.conf")));
    let system = PathBuf::from(variable("PGSYSCONFDIR").unwrap_or("/etc/postgresql-common".into()));
    let files = [own, Some(system.join("pg_service.conf"))];
    for text in files.into_iter().flatten().filter_map(|path| fs::read_to_string(path).ok()) {
        let mut lines = text.lines().map(str::trim).skip_while(|line| *line != format!("[{name}]"));
        if lines.next().is_none() {
            continue;
        }
        let section = lines.take_while(|line| !line.starts_with('['));
        let pairs = section.filter(|line| !line.starts_with('#')).filter_map(|l| l.split_once('='));
        return Ok(pairs.map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned())).collect());
    }
    Err(fault(format!("definition of service \"{name}\" not found")))
}

fn home() -> Option<PathBuf> {
    variable("HOME").map(PathBuf::from)
}

/// The password of the first line that fits: `host:port:database:user:password`, `*` fits all.
fn password_file(
    file: Option<String>,
    host: &HostPort,
    database: &str,
    user: &str,
) -> Option<String> {
    let path = file.map(PathBuf::from).or_else(|| Some(home()?.join(".pgpass")))?;
    let mode = fs::metadata(&path).ok()?.permissions().mode();
    if mode & 0o077 != 0 {
        super::say::warning(format!(
            "password file \"{}\" has group or world access; permissions should be u=rw (0600) or \
             less",
            path.display()
        ));
        return None;
    }
    let name = if host.host.starts_with('/') { "localhost" } else { host.host.as_str() };
    let wanted = [name, &host.port.to_string(), database, user];
    let text = fs::read_to_string(&path).ok()?;
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = split_fields(line);
        let fits = |(field, wanted): (&String, &&str)| field == "*" || field == wanted;
        let is_match = fields.len() == 5 && fields.iter().zip(&wanted).all(fits);
        is_match.then(|| fields[4].clone())
    })
}

/// Fields between colons; `\` takes the next character as it is.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        let last = fields.len() - 1;
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields[last].extend(characters.next()),
            other => fields[last].push(other),
        }
    }
    fields
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

    #[test]
    fn one_port_serves_all_hosts() {
        let found = hosts(Some("a,b".into()), None, Some("7".into())).expect("valid");
        let place = |host: &str| HostPort { host: host.into(), hostaddr: None, port: 7 };
        assert_eq!(found, [place("a"), place("b")]);
        assert!(hosts(Some("a,b".into()), None, Some("1,2,3".into())).is_err());
        assert!(hosts(None, None, Some("x".into())).is_err());
    }

    #[test]
    fn colons_of_a_password_need_no_escape() {
        assert_eq!(split_fields(r"h\:x:1:d:u:p:q"), ["h:x", "1", "d", "u", "p:q"]);
    }
}
