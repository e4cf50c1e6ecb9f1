//! Reads libpq's service file (`pg_service.conf`) and password file (`.pgpass`) for the pgbench
//! drop-in. Rules and messages are those of libpq, so that both programs behave alike.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::parameters::{Parameters, is_known, variable};
use crate::say::{Fault, fault};
use pgdyno_engine::contract::job::HostPort;

/// Folders of the socket if no host is given: Debian's, and PostgreSQL's.
const DEFAULT_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// True for a default socket folder: the lines of `.pgpass` name it `localhost`.
pub(super) fn is_default_folder(name: &str) -> bool {
    DEFAULT_FOLDERS.contains(&name)
}

/// Return the section with this name, from the user's service file or else from the system's.
pub(super) fn read_service(name: &str) -> Result<Parameters, Fault> {
    let named = variable("PGSERVICEFILE").map(PathBuf::from);
    let own = named.clone().or_else(|| Some(home()?.join(".pg_service.conf")));
    let system = PathBuf::from(variable("PGSYSCONFDIR").unwrap_or("/etc/postgresql-common".into()));
    for path in own.into_iter().chain([system.join("pg_service.conf")]) {
        match fs::read_to_string(&path) {
            Ok(text) => {
                if let Some(section) = read_section(name, &text, &path)? {
                    return Ok(section);
                }
            }
            // As in libpq, only a file that PGSERVICEFILE names must exist.
            Err(_) if named.as_ref() == Some(&path) => {
                return Err(fault(format!("service file \"{}\" not found", path.display())));
            }
            Err(_) => {}
        }
    }
    Err(fault(format!("definition of service \"{name}\" not found")))
}

/// Return the parameters of the section `[name]`. If a parameter has several values, the first
/// counts.
fn read_section(name: &str, text: &str, path: &Path) -> Result<Option<Parameters>, Fault> {
    let path = path.display();
    let header = format!("[{name}]");
    let mut section: Option<Parameters> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            if section.is_some() {
                break;
            }
            // As in libpq, text after the closing bracket is ignored.
            section = line.starts_with(&header).then(Parameters::new);
            continue;
        }
        let Some(parameters) = &mut section else { continue };
        let pair = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        match pair {
            Some(("service", _)) => {
                return Err(fault(format!(
                    "nested service specifications not supported in service file \"{path}\", \
                     line {number}"
                )));
            }
            Some((key, value)) if is_known(key) => {
                parameters.entry(key.to_owned()).or_insert_with(|| value.to_owned());
            }
            // LDAP is not supported, so a line with an LDAP URL is an error, too.
            _ => {
                return Err(fault(format!(
                    "syntax error in service file \"{path}\", line {number}"
                )));
            }
        }
    }
    Ok(section)
}

fn home() -> Option<PathBuf> {
    variable("HOME").map(PathBuf::from)
}

/// Return the password of the first line that matches, and the file's name. A line is
/// `host:port:database:user:password`; `*` matches everything.
pub(super) fn password_file(
    file: Option<String>,
    host: &HostPort,
    database: &str,
    user: &str,
) -> Option<(String, String)> {
    let path = file.map(PathBuf::from).or_else(|| Some(home()?.join(".pgpass")))?;
    let facts = fs::metadata(&path).ok()?;
    let shown = path.display();
    if !facts.is_file() {
        eprintln!("WARNING: password file \"{shown}\" is not a plain file");
        return None;
    }
    if facts.permissions().mode() & 0o077 != 0 {
        eprintln!(
            "WARNING: password file \"{shown}\" has group or world access; permissions should be \
             u=rw (0600) or less"
        );
        return None;
    }
    let name = if is_default_folder(&host.host) { "localhost" } else { host.host.as_str() };
    let wanted = [name, &host.port.to_string(), database, user];
    let text = fs::read_to_string(&path).ok()?;
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = split_fields(line);
        let fits = |(field, wanted): (&String, &&str)| field == "*" || field == wanted;
        // `wanted` has no password, so the fifth field is not compared.
        let is_match = fields.len() == 5 && fields.iter().zip(&wanted).all(fits);
        is_match.then(|| (fields[4].clone(), path.display().to_string()))
    })
}

/// Split a line into at most five fields at colons; the last field is the password. After `\`, the
/// next character is taken unchanged.
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

    #[test]
    fn a_service_is_read_as_libpq_reads_it() {
        let path = Path::new("/x");
        let text = "# ours\nport=1\n[one]\nhost = a\nhost=b\n[two]\nport=7\nbogus=1\n";
        let section = read_section("one", text, path).expect("valid").expect("there");
        assert_eq!(section, Parameters::from([("host".to_owned(), "a".to_owned())]));
        assert_eq!(read_section("three", text, path), Ok(None));
        let said = read_section("two", text, path).expect_err("bogus").text();
        assert!(said.ends_with("syntax error in service file \"/x\", line 8"), "{said}");
        let nested = read_section("a", "[a]\nservice=b\n", path).expect_err("nested").text();
        assert!(nested.contains("nested service specifications"), "{nested}");
    }
}
