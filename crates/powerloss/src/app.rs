//! The program: one job, then one command a line on standard input; one record for each.
//!
//! At the end of the input it unmounts and ends.

use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::formatted::{Formatted, Kind, await_unused};
use crate::layer::{Layer, State, now_ns};
use crate::model::{Attributes, Defect, Directories, Disk, Options};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    mount: PathBuf,
    #[serde(default)]
    directories: Directories,
    #[serde(default = "default_sector_bytes")]
    sector_bytes: usize,
    #[serde(default)]
    defect: Option<Defect>,
    /// Put a real file system on the layer. It is at `mount`, and the layer at `mount.disk`.
    #[serde(default)]
    on: Option<Kind>,
    /// Size of the disk of this file system.
    #[serde(default = "default_size_bytes")]
    size_bytes: u64,
}

fn default_size_bytes() -> u64 {
    1 << 29
}

fn default_sector_bytes() -> usize {
    512
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    /// Everything that the disk has is durable from now on.
    Settle,
    /// Lose the power: nothing is answered until `restore`.
    Cut {
        seed: u64,
    },
    /// Mount what survived.
    Restore,
    Fault {
        fault: Fault,
        #[serde(default)]
        seconds: f64,
    },
    Stats,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fault {
    None,
    FsyncEioOnce,
    Full,
    Stall,
}

/// Serve until the end of standard input; return 1 after a job that cannot be carried out.
#[must_use]
pub fn main() -> ExitCode {
    let has_logger = log::set_logger(&WarningRecords).is_ok();
    if has_logger {
        log::set_max_level(log::LevelFilter::Warn);
    }
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            write_record(&json!({"kind": "error", "message": message}));
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), String> {
    let mut lines = io::stdin().lock().lines();
    let first = lines.next().and_then(Result::ok).ok_or("no job came on standard input")?;
    let job: Job = serde_json::from_str(&first).map_err(|error| format!("bad job: {error}"))?;
    if !matches!(job.sector_bytes, 512 | 4096) {
        return Err(format!("sector_bytes is {}; it must be 512 or 4096", job.sector_bytes));
    }
    let layer = Layer { state: Arc::new(Mutex::new(new_state(&job))) };
    let mut disk = Mounted::new(layer, &job)?;
    write_record(&json!({"kind": "ready"}));
    for line in lines.map_while(Result::ok) {
        let record = match serde_json::from_str(&line) {
            Ok(Command::Restore) => disk.restore(),
            Ok(command) => disk.obey(command),
            Err(error) => Err(format!("bad command: {error}")),
        };
        write_record(
            &record.unwrap_or_else(|message| json!({"kind": "error", "message": message})),
        );
    }
    disk.end()
}

fn new_state(job: &Job) -> State {
    let options = Options {
        directories: job.directories,
        sector_bytes: job.sector_bytes,
        defect: job.defect,
    };
    let mode = libc::S_IFDIR | 0o755;
    let root = Attributes { mode, uid: 0, gid: 0, rdev: 0, modified_ns: now_ns() };
    State {
        disk: Disk::new(options, root),
        is_cut: false,
        is_full: false,
        fails_next_fsync: false,
        stalls_until: None,
        write_count: 0,
        fsync_count: 0,
        directory_fsync_count: 0,
    }
}

fn obey(layer: &Layer, command: Command) -> Value {
    let mut state = layer.lock();
    match command {
        Command::Settle => state.disk.settle(),
        Command::Cut { seed } => {
            // Subtle: the choice is made at once, so no later request can change what survives.
            state.is_cut = true;
            let counts = state.disk.cut(seed);
            return json!({
                "kind": "cut",
                "seed": seed,
                "kept_count": counts.data.kept_count,
                "lost_count": counts.data.lost_count,
                "torn_count": counts.data.torn_count,
                "names_lost_count": counts.names_lost_count,
            });
        }
        Command::Fault { fault, seconds } => set_fault(&mut state, &fault, seconds),
        Command::Restore => {}
        Command::Stats => {
            return json!({
                "kind": "stats",
                "write_count": state.write_count,
                "fsync_count": state.fsync_count,
                "directory_fsync_count": state.directory_fsync_count,
                "pending_count": state.disk.pending_count(),
                "names_pending_count": state.disk.names().pending_count(),
            });
        }
    }
    json!({"kind": "done"})
}

fn set_fault(state: &mut State, fault: &Fault, seconds: f64) {
    match fault {
        Fault::None => {
            state.is_full = false;
            state.fails_next_fsync = false;
            state.stalls_until = None;
        }
        Fault::FsyncEioOnce => state.fails_next_fsync = true,
        Fault::Full => state.is_full = true,
        Fault::Stall => {
            let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            state.stalls_until = Some(Instant::now() + length);
        }
    }
}

/// The mounted layer, with the real file system on it if the job asks for one.
struct Mounted {
    layer: Layer,
    /// Where the layer is mounted.
    place: PathBuf,
    session: Option<BackgroundSession>,
    formatted: Option<Formatted>,
}

impl Mounted {
    fn new(layer: Layer, job: &Job) -> Result<Self, String> {
        let Some(kind) = job.on else {
            let session = Some(mount(&layer, &job.mount)?);
            return Ok(Self { layer, place: job.mount.clone(), session, formatted: None });
        };
        let mut place = job.mount.clone().into_os_string();
        place.push(".disk");
        let place = PathBuf::from(place);
        std::fs::create_dir(&place)
            .map_err(|error| format!("{} cannot be made: {error}", place.display()))?;
        let made = mount(&layer, &place).and_then(|session| {
            match Formatted::make(kind, &place, &job.mount, job.size_bytes) {
                Ok(formatted) => Ok((session, formatted)),
                Err(why) => unmount(session, &place).and(Err(why)),
            }
        });
        match made {
            Ok((session, formatted)) => {
                // The disk was there before the power could fail.
                layer.lock().disk.settle();
                Ok(Self { layer, place, session: Some(session), formatted: Some(formatted) })
            }
            Err(why) => {
                let _ = std::fs::remove_dir(&place);
                Err(why)
            }
        }
    }

    fn obey(&self, command: Command) -> Result<Value, String> {
        if let (Command::Settle, Some(formatted)) = (&command, &self.formatted) {
            formatted.sync()?;
        }
        Ok(obey(&self.layer, command))
    }

    /// Unmount and mount again, which drops the kernel's cache. No process may use the mount.
    fn restore(&mut self) -> Result<Value, String> {
        if !self.layer.lock().is_cut {
            return Err("restore comes after cut; the power was not cut".to_owned());
        }
        if let Some(formatted) = &self.formatted {
            formatted.unmount()?;
        }
        // Subtle: before the session is taken, so that a disk in use stays mounted.
        await_unused(&self.place)?;
        if let Some(session) = self.session.take() {
            unmount_unused(session, &self.place)?;
        }
        {
            let mut state = self.layer.lock();
            set_fault(&mut state, &Fault::None, 0.0);
            state.is_cut = false;
        }
        self.session = Some(mount(&self.layer, &self.place)?);
        if let Some(formatted) = &self.formatted {
            formatted.mount()?;
        }
        Ok(json!({"kind": "done"}))
    }

    /// Unmount everything, even what is in use.
    fn end(self) -> Result<(), String> {
        if let Some(formatted) = &self.formatted
            && formatted.unmount().is_err()
        {
            formatted.abandon();
        }
        if let Some(session) = self.session
            && unmount(session, &self.place).is_err()
        {
            // A process uses it. Its requests fail as soon as this program has ended.
            let _ = rustix::mount::unmount(&self.place, UnmountFlags::DETACH);
        }
        if self.formatted.is_none() {
            return Ok(());
        }
        std::fs::remove_dir(&self.place)
            .map_err(|error| format!("{} cannot be removed: {error}", self.place.display()))
    }
}

fn mount(layer: &Layer, place: &Path) -> Result<BackgroundSession, String> {
    // A layer that was killed leaves a mount without an answer.
    if rustix::fs::stat(place).is_err_and(|error| error == Errno::NOTCONN) {
        let _ = rustix::mount::unmount(place, UnmountFlags::DETACH);
    }
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("pgdyno-powerloss".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    config.acl = SessionACL::All;
    config.n_threads = Some(2);
    fuser::spawn_mount(layer.clone(), place, &config)
        .map_err(|error| format!("{} cannot be mounted: {error}", place.display()))
}

fn unmount(session: BackgroundSession, place: &Path) -> Result<(), String> {
    await_unused(place)?;
    unmount_unused(session, place)
}

fn unmount_unused(session: BackgroundSession, place: &Path) -> Result<(), String> {
    session
        .umount_and_join()
        .map_err(|error| format!("{} cannot be unmounted: {error}", place.display()))
}

fn write_record(record: &Value) {
    let mut output = io::stdout().lock();
    // The reader closed the pipe; the end of standard input follows.
    let _ = writeln!(output, "{record}").and_then(|()| output.flush());
}

/// fuser says so if the kernel gave up a request, such as of a file system that was unmounted by
/// force, before its answer.
const TOO_LATE: &str = "Failed to send FUSE reply: No such file or directory";

/// Makes a record of each request that fuser answers because the rim does not know it.
struct WarningRecords;

impl log::Log for WarningRecords {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        let message = record.args().to_string();
        if self.enabled(record.metadata()) && !message.starts_with(TOO_LATE) {
            write_record(&json!({"kind": "warning", "message": message}));
        }
    }

    fn flush(&self) {}
}
