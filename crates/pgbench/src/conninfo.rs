//! Decides where to connect: from options, a connection string or URI, PG* variables, and the
//! service and password files.
//!
//! Source: manual, "Database Connection Control Functions", "Environment Variables", "The Password
//! File", "The Connection Service File".

mod files;
pub(super) mod parameters;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use self::files::{password_file, read_service};
use self::parameters::{Parameters, Settings, variable};
use self::text::{read_pairs, read_uri};

use super::options::Options;
use super::say::{Fault, fault};
use super::security;
use pgdyno_engine::contract::job::{HostPort, Keepalive, Reach, SessionAttrs, SslMode, Target};

/// Return the target, and the file that has its password, if the password comes from a file.
pub(super) fn target(options: &Options) -> Result<(Target, Option<String>), Fault> {
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
    let settings = Settings::new(given, read_service)?;
    let get = |name: &str| settings.get(name);
    let user = get("user").map_or_else(os_user, Ok)?;
    let database = get("dbname").unwrap_or_else(|| user.clone());
    let mut hosts = hosts(get("host"), get("hostaddr"), get("port"))?;
    let password = get("password");
    let mut password_from = None;
    if password.is_none() {
        // As libpq: each host gets the password of the line that matches it.
        for host in &mut hosts {
            let entry = password_file(get("passfile"), host, &database, &user);
            if let Some((password, file)) = entry {
                (host.password, password_from) = (Some(password), Some(file));
            }
        }
    }
    let application_name = get("application_name").unwrap_or("pgbench".into());
    // As libpq: a Unix socket is never encrypted, with any sslmode.
    let is_local = hosts.iter().all(HostPort::is_socket);
    let (asked, tls) = security::settings(&settings)?;
    let target = Target {
        sslmode: if is_local { SslMode::Disable } else { asked },
        tls,
        options: start_up(&settings)?,
        reach: reach(&settings)?,
        password_command: None,
        hosts,
        user,
        database,
        password,
        application_name,
    };
    Ok((target, password_from))
}

/// Return how to choose one of several hosts, and when to give up a host.
fn reach(settings: &Settings) -> Result<Reach, Fault> {
    let invalid = |name: &str, value: &str| fault(format!("invalid {name} value: \"{value}\""));
    let attrs = settings.word("target_session_attrs").unwrap_or("any".into());
    let target_session_attrs = match attrs.as_str() {
        "any" => SessionAttrs::Any,
        "read-write" => SessionAttrs::ReadWrite,
        "read-only" => SessionAttrs::ReadOnly,
        "primary" => SessionAttrs::Primary,
        "standby" => SessionAttrs::Standby,
        "prefer-standby" => SessionAttrs::PreferStandby,
        other => return Err(invalid("target_session_attrs", other)),
    };
    let balance = settings.word("load_balance_hosts").unwrap_or("disable".into());
    let load_balance = match balance.as_str() {
        "disable" => false,
        "random" => true,
        other => return Err(invalid("load_balance_hosts", other)),
    };
    let seconds = settings.number("connect_timeout")?.unwrap_or(0);
    // As libpq: without a positive number there is no limit, and the smallest limit is 2 s.
    let timeout_ns = (seconds > 0).then(|| seconds.max(2) as u64 * 1_000_000_000);
    let number = |name| Ok(settings.number(name)?.map(|value| value.max(0) as u32));
    let keepalive = Keepalive {
        off: settings.number("keepalives")? == Some(0),
        idle_s: number("keepalives_idle")?,
        interval_s: number("keepalives_interval")?,
        count: number("keepalives_count")?,
        user_timeout_ms: number("tcp_user_timeout")?,
    };
    Ok(Reach { target_session_attrs, load_balance, in_turns: false, timeout_ns, keepalive })
}

/// Return the settings that libpq sends when it connects.
fn start_up(settings: &Settings) -> Result<BTreeMap<String, String>, Fault> {
    let encoding = settings.get("client_encoding");
    if encoding.as_deref() == Some("auto") {
        let said = fault("client_encoding \"auto\" is not supported");
        return Err(said.hint("name the encoding, such as client_encoding=UTF8"));
    }
    let asked = [
        ("options", settings.get("options")),
        ("client_encoding", encoding),
        ("datestyle", variable("PGDATESTYLE")),
        ("timezone", variable("PGTZ")),
        ("geqo", variable("PGGEQO")),
    ];
    // As libpq: `default` in a variable means the server's value.
    let is_asked = |name: &str, value: &str| {
        ["options", "client_encoding"].contains(&name) || !value.eq_ignore_ascii_case("default")
    };
    let given = asked.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Ok(given.filter(|(name, value)| is_asked(name, value)).collect())
}

/// Return the name of the operating system's user.
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

/// Read lists of hosts, addresses and ports, separated by commas. One port may be for all hosts.
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
            text => match text.parse::<i32>() {
                Ok(port) => u16::try_from(port)
                    .ok()
                    .filter(|&port| port > 0)
                    .ok_or_else(|| fault(format!("invalid port number: \"{text}\""))),
                Err(_) => Err(fault(format!(
                    "invalid integer value \"{text}\" for connection option \"port\""
                ))),
            },
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
        // As libpq: a server without a host is in the first of the default folders.
        host: match *name {
            "" if addresses.is_none() => socket_folder(ports[index.min(ports.len() - 1)]),
            name => name.to_owned(),
        },
        hostaddr: addresses
            .as_ref()
            .map(|addresses| addresses[index].clone())
            .filter(|address| !address.is_empty() && address != name),
        port: ports[index.min(ports.len() - 1)],
        password: None,
    };
    Ok(hosts.iter().enumerate().map(host).collect())
}

/// Return the folder of the server's socket. Debian uses the first default folder, PostgreSQL the
/// other.
fn socket_folder(port: u16) -> String {
    let distribution = "/var/run/postgresql";
    match Path::new(distribution).join(format!(".s.PGSQL.{port}")).exists() {
        true => distribution.into(),
        false => "/tmp".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_serves_all_hosts() {
        let found = hosts(Some("a,b".into()), None, Some("7".into())).expect("valid");
        assert_eq!(found, ["a", "b"].map(|host| HostPort::new(host, 7)));
        assert!(hosts(Some("a,b".into()), None, Some("1,2,3".into())).is_err());
        assert!(hosts(None, None, Some("x".into())).is_err());
    }

    #[test]
    fn which_host_is_the_right_one_is_said_in_libpqs_words() {
        let of = |name: &str, value: &str| reach(&Settings::of(&[(name, value)])?);
        let attrs = of("target_session_attrs", "prefer-standby").expect("known");
        assert_eq!(attrs.target_session_attrs, SessionAttrs::PreferStandby);
        assert!(of("load_balance_hosts", "random").expect("known").load_balance);
        let limit = |text| of("connect_timeout", text).expect("a number").timeout_ns;
        assert_eq!(
            [limit("0"), limit("1"), limit("7")],
            [None, Some(2_000_000_000), Some(7_000_000_000)]
        );
        let keepalive = of("keepalives_idle", "30").expect("a number").keepalive;
        assert_eq!(keepalive, Keepalive { idle_s: Some(30), ..Keepalive::default() });
        assert!(of("keepalives", "0").expect("a number").keepalive.off);
        for (name, value) in
            [("target_session_attrs", "master"), ("connect_timeout", "soon"), ("keepalives", "no")]
        {
            assert!(of(name, value).is_err());
        }
    }
}
