//! A real file system (ext4, xfs) on one file of the layer, which is the disk of a loop device.
//!
//! So the kernel's file system decides what a sync writes, and its journal is replayed after a cut.
//! The loop device is made by mount(8) and goes away with the last user of the file system, also if
//! this program is killed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde::Deserialize;

/// How long an unmount waits for the last user of the mount.
const UNUSED_WITHIN: Duration = Duration::from_secs(2);
const LOOP_CONTROL: &str = "/dev/loop-control";

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Ext4,
    Xfs,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// Return the program that formats, its options, and the package that has it. The options leave
    /// no work for later.
    fn maker(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            Self::Ext4 => (
                "mkfs.ext4",
                &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
                "e2fsprogs",
            ),
            Self::Xfs => ("mkfs.xfs", &["-q", "-f", "-K"], "xfsprogs"),
        }
    }
}

/// The file system at `place`, whose disk is the file `image`.
#[derive(Debug)]
pub(crate) struct Formatted {
    kind: Kind,
    place: PathBuf,
    image: PathBuf,
}

impl Formatted {
    /// Make the disk in the mounted layer, format it, and mount it.
    ///
    /// Args: `layer`, where the layer is mounted; `place`, an existing folder outside of it.
    ///
    /// Errors: what is missing on this host, or what the system's programs said.
    pub(crate) fn make(
        kind: Kind,
        layer: &Path,
        place: &Path,
        size_bytes: u64,
    ) -> Result<Self, String> {
        let formatted = Self { kind, place: place.to_owned(), image: layer.join("disk") };
        formatted.make_disk(size_bytes)?;
        formatted.mount()?;
        // A data directory of PostgreSQL has no folder that belongs to another user.
        let _ = std::fs::remove_dir(place.join("lost+found"));
        Ok(formatted)
    }

    fn make_disk(&self, size_bytes: u64) -> Result<(), String> {
        if !Path::new(LOOP_CONTROL).exists() {
            return Err(format!("{LOOP_CONTROL} is missing: this kernel has no loop devices"));
        }
        let (program, options, package) = self.kind.maker();
        let mut file = OpenOptions::new();
        let file = file.write(true).create_new(true).mode(0o600).open(&self.image);
        file.and_then(|file| file.set_len(size_bytes))
            .map_err(|error| format!("{} cannot be made: {error}", self.image.display()))?;
        let mut command = Command::new(program);
        run(command.args(options).arg(&self.image)).map_err(|error| match error {
            Failure::Missing => format!("{program} was not found: install {package}"),
            Failure::Said(said) => format!("{program}: {said}"),
        })
    }

    /// Attach the disk and mount it; the file system replays its journal.
    pub(crate) fn mount(&self) -> Result<(), String> {
        let mut command = Command::new("mount");
        command.args(["-t", self.kind.name(), "-o", "loop,nodev,nosuid"]);
        run(command.arg(&self.image).arg(&self.place)).map_err(|error| match error {
            Failure::Missing => "mount was not found: install util-linux".to_owned(),
            Failure::Said(said) => format!("{} cannot be mounted: {said}", self.place.display()),
        })
    }

    /// Unmount, and so detach the disk.
    ///
    /// Errors: a process still uses it.
    pub(crate) fn unmount(&self) -> Result<(), String> {
        await_unused(&self.place)?;
        rustix::mount::unmount(&self.place, UnmountFlags::empty())
            .map_err(|error| format!("{} cannot be unmounted: {error}", self.place.display()))
    }

    /// Unmount now or when its last user ends.
    pub(crate) fn abandon(&self) {
        let _ = rustix::mount::unmount(&self.place, UnmountFlags::DETACH);
    }

    /// Write everything that the kernel has of this file system.
    pub(crate) fn sync(&self) -> Result<(), String> {
        File::open(&self.place)
            .and_then(|folder| rustix::fs::syncfs(folder).map_err(io::Error::from))
            .map_err(|error| format!("{} cannot be synced: {error}", self.place.display()))
    }
}

enum Failure {
    Missing,
    Said(String),
}

fn run(command: &mut Command) -> Result<(), Failure> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(Failure::Said(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Failure::Missing),
        Err(error) => Err(Failure::Said(error.to_string())),
    }
}

/// Wait until no process uses the mount: a killed process is gone a moment later.
///
/// Errors: a process still uses it.
pub(crate) fn await_unused(place: &Path) -> Result<(), String> {
    let deadline = Instant::now() + UNUSED_WITHIN;
    loop {
        // Subtle: the first such call unmounts nothing. It answers AGAIN if nobody uses the mount.
        match rustix::mount::unmount(place, UnmountFlags::EXPIRE) {
            Err(Errno::BUSY) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Errno::BUSY) => return Err(format!("a process still uses {}", place.display())),
            _ => return Ok(()),
        }
    }
}
