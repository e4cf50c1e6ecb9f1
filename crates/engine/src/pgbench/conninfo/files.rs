//! The service file and the password file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{Parameters, variable};
use crate::contract::job::HostPort;
use crate::pgbench::say::{self, Fault, fault};

/// The section of the service file that has this name.
pub(super) fn read_service(name: &str) -> Result<Parameters, Fault> {
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
pub(super) fn password_file(
    file: Option<String>,
    host: &HostPort,
    database: &str,
    user: &str,
) -> Option<String> {
    let path = file.map(PathBuf::from).or_else(|| Some(home()?.join(".pgpass")))?;
    let mode = fs::metadata(&path).ok()?.permissions().mode();
    if mode & 0o077 != 0 {
        say::warning(format!(
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

    #[test]
    fn colons_of_a_password_need_no_escape() {
        assert_eq!(split_fields(r"h\:x:1:d:u:p:q"), ["h:x", "1", "d", "u", "p:q"]);
    }
}
