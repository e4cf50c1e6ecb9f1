//! What the user can do about an error of the server during a load, by its SQLSTATE.

use pgdyno_wire::ServerError;

/// The next step for an error: ours for this SQLSTATE, else the server's own hint, else the advice
/// for all other errors.
pub fn next_step(error: &ServerError) -> String {
    match (of_state(error.sqlstate.as_str()), &error.hint) {
        (Some(step), _) => step.to_owned(),
        (None, Some(hint)) => hint.clone(),
        (None, None) => of_class(error.sqlstate.as_str()).to_owned(),
    }
}

/// The next step for one SQLSTATE that a load may meet; None if the server may know better.
///
/// The session is not read-only by our doing: then `--allow-write` would be the next step.
pub fn of_state(state: &str) -> Option<&'static str> {
    Some(match state {
        "08P01" => "see the log of the server, or of the pooler before it: it refused a message",
        "25006" => "connect to a server that accepts writes, or run a script that only reads",
        "26000" => {
            "use --protocol simple: the pooler between load and server keeps no prepared statements"
        }
        "3F000" => "create the schema, or set search_path in the connection",
        "42501" => "grant the missing privilege to the user of the load",
        "42P01" => "create the table first, or set search_path in the connection",
        "53100" => "make room on the server's disk",
        "53200" => "use fewer clients, or lower work_mem: the server has no memory left",
        "53300" => "use fewer clients, or raise max_connections",
        "53400" => "raise the limit that the message names, or shorten the statement",
        "54001" => "raise max_stack_depth, or shorten the statement",
        "55P03" => "raise lock_timeout of the load's user, or use fewer clients",
        "57014" => "raise statement_timeout of the load's user, or shorten the statement",
        "57P01" | "57P02" => "see the server's log: the server or somebody ended the session",
        "58P01" | "58030" => "see the server's log: its disk or file system failed",
        "XX001" | "XX002" => "see the server's log: its data are damaged",
        _ => return None,
    })
}

/// The next step for all other errors of a class.
pub fn of_class(state: &str) -> &'static str {
    match state.get(..2).unwrap_or_default() {
        "08" => "start the node that the server cannot reach, and see its log",
        "22" => "correct the script, or the data that it works on",
        "23" => "let the script make rows that keep this rule, or load its data again",
        "40" => "use fewer clients, or a script in which fewer transactions meet",
        "42" => "correct the statement, or name the database that the script was written for",
        "53" | "58" | "XX" => "see the server's log",
        _ => "correct the script, or the data that it works on",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(state: &[u8; 5], hint: Option<&str>) -> ServerError {
        let hint = hint.map_or_else(String::new, |hint| format!("H{hint}\0"));
        ServerError::parse(&[b"C", &state[..], b"\0", hint.as_bytes(), b"\0"].concat())
    }

    #[test]
    fn our_step_comes_before_the_hint_of_the_server_and_every_error_has_one() {
        assert!(next_step(&error(b"42501", Some("x"))).starts_with("grant the missing privilege"));
        assert_eq!(
            next_step(&error(b"42703", Some("Perhaps you meant b."))),
            "Perhaps you meant b."
        );
        assert!(next_step(&error(b"42703", None)).starts_with("correct the statement"));
        assert!(next_step(&error(b"08P01", None)).starts_with("see the log of the server, or"));
        assert!(next_step(&error(b"08006", None)).starts_with("start the node"));
        assert!(next_step(&error(b"57014", None)).starts_with("raise statement_timeout"));
        assert!(next_step(&error(b"23505", None)).starts_with("let the script"));
        assert!(next_step(&error(b"XX000", None)).contains("log"));
        assert!(!next_step(&error(b"0A000", None)).is_empty());
    }
}
