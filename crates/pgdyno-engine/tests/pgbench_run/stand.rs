//! Where both programs run, and what of their words is compared.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use crate::common::{Server, bin_dirs, lines};

/// A database with the pgbench tables, scripts to run, and both programs.
pub(crate) struct Stand {
    pub(crate) server: Arc<Server>,
    pub(crate) database: String,
    folder: PathBuf,
}

impl Stand {
    pub(crate) fn new(server: Arc<Server>, stem: &str) -> Stand {
        let database = server.create_database(stem);
        let folder = std::env::temp_dir().join(format!("pgdyno-{database}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for scripts");
        let stand = Stand { server, database, folder };
        let made = stand.ours(&["-i", "-q", "-s", "1"]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        stand
    }

    pub(crate) fn script(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("a script");
    }

    pub(crate) fn script_of_bytes(&self, name: &str, bytes: &[u8]) {
        fs::write(self.folder.join(name), bytes).expect("a script");
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn ours(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgdyno-engine"));
        self.run(command.arg("pgbench"), arguments)
    }

    /// The newest pgbench there is.
    pub(crate) fn theirs(&self, arguments: &[&str]) -> Output {
        let bin = bin_dirs().pop().expect("servers were found");
        self.run(&mut Command::new(bin.join("pgbench")), arguments)
    }

    fn run(&self, command: &mut Command, arguments: &[&str]) -> Output {
        command.env("PGHOST", self.server.socket_dir()).env("PGPORT", "5432");
        command.env("PGUSER", "postgres").env("PGDATABASE", &self.database).env("LC_ALL", "C");
        command.args(arguments).current_dir(&self.folder).output().expect("it runs")
    }

    /// The logs whose names begin with `prefix`.
    pub(crate) fn logged(&self, prefix: &str) -> Vec<String> {
        let files = fs::read_dir(&self.folder).expect("the folder").flatten();
        let files = files.filter(|f| f.file_name().to_string_lossy().starts_with(prefix));
        files.map(|file| fs::read_to_string(file.path()).expect("a log")).collect()
    }

    pub(crate) fn lines(&self, sql: &str) -> Vec<String> {
        lines(&mut self.server.session(&self.database), sql)
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.server.session(&self.database).query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Numbers replaced by `N`, the first line left out: it names the program.
pub(crate) fn shape(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| !line.starts_with("pgbench ("));
    let mut shapes: Vec<String> = lines.map(|line| shape_of_line(line).trim_end().into()).collect();
    // How often pgbench looks for a result depends on when its bytes come.
    shapes.dedup_by(|line, before| line == before && line.ends_with(" receiving"));
    // Clients fail in any order.
    if shapes.iter().any(|line| line.contains("aborted in command")) {
        shapes.sort();
    }
    shapes
}

pub(crate) fn shape_of_line(line: &str) -> String {
    let mut out = String::new();
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        if c.is_ascii_digit() {
            while characters.next_if(|c| c.is_ascii_digit() || *c == '.').is_some() {}
            out.push('N');
        } else if c == ' ' {
            while characters.next_if_eq(&' ').is_some() {}
            out.push(' ');
        } else {
            out.push(c);
        }
    }
    out
}
