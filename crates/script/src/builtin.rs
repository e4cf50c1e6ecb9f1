//! The built-in scripts: those of pgbench, word for word, and two of pgdyno.

/// A script that needs no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// What `-b` calls it.
    pub name: &'static str,
    /// What reports call it.
    pub description: &'static str,
    /// Whose tables it uses: the word that `init` takes.
    pub dataset: &'static str,
    /// Its text.
    pub text: &'static str,
    /// Whether pgbench has it too.
    pub is_of_pgbench: bool,
}

macro_rules! random_keys {
    () => {
        "\\set aid random(1, 100000 * :scale)\n\
         \\set bid random(1, 1 * :scale)\n\
         \\set tid random(1, 10 * :scale)\n\
         \\set delta random(-5000, 5000)\n"
    };
}
macro_rules! update_accounts {
    () => {
        "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"
    };
}
macro_rules! select_accounts {
    () => {
        "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
    };
}
macro_rules! insert_history {
    () => {
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
         VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\n"
    };
}

/// Every built-in script, in the order `-b list` shows them.
pub const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "tpcb-like",
        description: "<builtin: TPC-B (sort of)>",
        dataset: "pgbench",
        text: concat!(
            random_keys!(),
            "BEGIN;\n",
            update_accounts!(),
            select_accounts!(),
            "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n",
            "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n",
            insert_history!(),
            "END;\n"
        ),
        is_of_pgbench: true,
    },
    Builtin {
        name: "simple-update",
        description: "<builtin: simple update>",
        dataset: "pgbench",
        text: concat!(
            random_keys!(),
            "BEGIN;\n",
            update_accounts!(),
            select_accounts!(),
            insert_history!(),
            "END;\n"
        ),
        is_of_pgbench: true,
    },
    Builtin {
        name: "select-only",
        description: "<builtin: select only>",
        dataset: "pgbench",
        text: concat!("\\set aid random(1, 100000 * :scale)\n", select_accounts!()),
        is_of_pgbench: true,
    },
    Builtin {
        name: "insert-only",
        description: "<builtin: insert only>",
        dataset: "pgbench",
        text: concat!(random_keys!(), insert_history!()),
        is_of_pgbench: false,
    },
    Builtin {
        name: "update-only",
        description: "<builtin: update only>",
        dataset: "pgbench",
        text: concat!(
            "\\set aid random(1, 100000 * :scale)\n\
             \\set delta random(-5000, 5000)\n",
            update_accounts!()
        ),
        is_of_pgbench: false,
    },
];

/// Why a name means no built-in script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinFault {
    /// None begins with the name.
    Unknown,
    /// Several names begin with it; their number.
    Ambiguous(usize),
}

/// Returns the one built-in script whose name begins with `name`.
pub fn find_builtin(name: &str) -> Result<&'static Builtin, BuiltinFault> {
    let mut matches = BUILTINS.iter().filter(|builtin| builtin.name.starts_with(name));
    match (matches.next(), matches.count()) {
        (None, _) => Err(BuiltinFault::Unknown),
        (Some(builtin), 0) => Ok(builtin),
        (Some(_), others) => Err(BuiltinFault::Ambiguous(1 + others)),
    }
}

/// Returns the one built-in script whose name begins with `name`, if there is exactly one.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    find_builtin(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_that_fit_one_script_name_it() {
        for (name, expected) in [
            ("t", "tpcb-like"),
            ("si", "simple-update"),
            ("se", "select-only"),
            ("select-only", "select-only"),
            ("i", "insert-only"),
            ("u", "update-only"),
        ] {
            assert_eq!(find_builtin(name).unwrap().name, expected);
        }
    }

    #[test]
    fn other_beginnings_are_unknown_or_ambiguous() {
        assert_eq!(find_builtin("x"), Err(BuiltinFault::Unknown));
        assert_eq!(find_builtin("select-only-"), Err(BuiltinFault::Unknown));
        assert_eq!(find_builtin("s"), Err(BuiltinFault::Ambiguous(2)));
        assert_eq!(find_builtin(""), Err(BuiltinFault::Ambiguous(5)));
    }
}
