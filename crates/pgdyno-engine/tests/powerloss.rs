//! The program `pgdyno-powerloss`: a mounted disk whose power is cut, with faults, and with a real
//! file system on it. Needs root and FUSE.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A mounted disk, which ends with this.
struct Disk {
    mount: PathBuf,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Disk {
    /// Mount a disk with these fields of the job. Returns: what it answered first.
    fn start(job: Value) -> (Disk, Value) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mount = PathBuf::from(format!("/var/tmp/pgdyno-disk-{}-{number}", std::process::id()));
        fs::create_dir(&mount).expect("a folder");
        let mut child = Command::new(env!("CARGO_BIN_EXE_pgdyno-powerloss"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut disk = Disk { mount, child, input, output };
        let mut job = job;
        job["mount"] = json!(disk.mount);
        let answer = disk.ask(&job);
        (disk, answer)
    }

    /// A mounted disk; None if this host has no FUSE or does not let us mount.
    fn mounted(job: Value) -> Option<Disk> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            eprintln!("SKIPPED: mounting needs root and FUSE");
            return None;
        }
        let (disk, answer) = Disk::start(job);
        assert_eq!(answer["kind"], "ready", "{answer}");
        Some(disk)
    }

    /// Send a line, and return its record. A warning fails the test: the disk knows every request.
    fn ask(&mut self, line: &Value) -> Value {
        writeln!(self.input.as_mut().expect("open"), "{line}").expect("it reads");
        let mut record = String::new();
        self.output.read_line(&mut record).expect("it answers");
        let record: Value = serde_json::from_str(&record).expect("a record");
        assert_ne!(record["kind"], "warning", "{record}");
        record
    }

    fn cut(&mut self, seed: u64) {
        assert_eq!(self.ask(&json!({"do": "cut", "seed": seed}))["kind"], "cut");
    }

    fn restore(&mut self) {
        assert_eq!(self.ask(&json!({"do": "restore"})), json!({"kind": "done"}));
    }

    fn fault(&mut self, fault: &str, seconds: f64) {
        let line = json!({"do": "fault", "fault": fault, "seconds": seconds});
        assert_eq!(self.ask(&line), json!({"kind": "done"}));
    }

    /// Write a file, and sync it with its name if asked.
    fn put(&self, name: &str, bytes: &[u8], is_synced: bool) {
        let mut file = File::create(self.mount.join(name)).expect("a file");
        file.write_all(bytes).expect("space");
        if is_synced {
            file.sync_all().expect("synced");
            File::open(&self.mount).and_then(|folder| folder.sync_all()).expect("synced");
        }
    }

    fn content(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.mount.join(name)).ok()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
        fs::remove_dir(&self.mount).expect("it is empty: nothing is mounted there any more");
        assert!(!self.mount.with_extension("disk").exists());
    }
}

fn number_of(error: &std::io::Error) -> i32 {
    error.raw_os_error().expect("an error of the system")
}

#[test]
fn what_was_synced_survives_a_cut_and_nothing_answers_before_the_restore() {
    let Some(mut disk) = Disk::mounted(json!({})) else { return };
    disk.put("synced", &[7; 100_000], true);
    disk.put("forgotten", &[8; 100_000], false);
    let direct =
        OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).open(disk.mount.join("synced"));
    direct.and_then(|file| file.write_all_at(b"dsync", 0)).expect("space");
    disk.cut(5);
    let error = File::open(disk.mount.join("synced")).expect_err("the power is off");
    assert_eq!(number_of(&error), libc::EIO);
    disk.restore();
    let mut expected = vec![7; 100_000];
    expected[..5].copy_from_slice(b"dsync");
    assert!(disk.content("synced") == Some(expected));
    assert!(disk.content("forgotten") != Some(vec![8; 100_000]));
}

#[test]
fn a_fault_lasts_as_long_as_it_was_asked_for() {
    let Some(mut disk) = Disk::mounted(json!({})) else { return };
    disk.put("file", &[1; 8192], true);
    let file = OpenOptions::new().write(true).open(disk.mount.join("file")).expect("it is there");
    disk.fault("fsync_eio_once", 0.0);
    assert_eq!(number_of(&file.sync_all().expect_err("once")), libc::EIO);
    file.sync_all().expect("only once");
    disk.fault("full", 0.0);
    let full = file.write_all_at(&[2; 8192], 8192).expect_err("no room");
    assert_eq!(number_of(&full), libc::ENOSPC);
    file.write_all_at(&[2; 8192], 0).expect("it takes no more room");
    disk.fault("none", 0.0);
    file.write_all_at(&[2; 8192], 8192).expect("room again");
    let began = Instant::now();
    disk.fault("stall", 0.3);
    file.sync_all().expect("late");
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_hole_reads_as_zeros_and_allocated_room_counts() {
    let Some(disk) = Disk::mounted(json!({})) else { return };
    disk.put("file", &[1; 8192], true);
    let file = OpenOptions::new().write(true).open(disk.mount.join("file")).expect("it is there");
    let allocate = |flags, from, length| rustix::fs::fallocate(&file, flags, from, length);
    use rustix::fs::FallocateFlags as Flags;
    allocate(Flags::PUNCH_HOLE | Flags::KEEP_SIZE, 4096, 8192).expect("a hole");
    allocate(Flags::ZERO_RANGE, 0, 10).expect("zeros");
    allocate(Flags::empty(), 0, 10_000).expect("room");
    let mut expected = vec![0; 10_000];
    expected[10..4096].fill(1);
    assert!(disk.content("file") == Some(expected));
}

#[test]
fn a_real_file_system_on_the_disk_keeps_what_it_synced() {
    for (kind, maker) in [("ext4", "mkfs.ext4"), ("xfs", "mkfs.xfs")] {
        let is_there = ["/usr/sbin", "/sbin", "/usr/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(maker).exists());
        if !is_there {
            let (_disk, answer) = Disk::start(json!({"on": kind}));
            let said = answer["message"].as_str().expect("an error");
            assert!(said.contains("install") || said.contains("mounted"), "{said}");
            continue;
        }
        let Some(mut disk) = Disk::mounted(json!({"on": kind})) else { return };
        for seed in 0..5 {
            let name = format!("synced {seed}");
            disk.put(&name, &[seed as u8; 50_000], true);
            disk.put("forgotten", &[9; 50_000], false);
            disk.cut(seed);
            disk.restore();
            assert!(disk.content(&name) == Some(vec![seed as u8; 50_000]), "{kind}, {name}");
            assert!(disk.content("forgotten") != Some(vec![9; 50_000]), "{kind}");
        }
        // Everything that the kernel still has counts as synced.
        disk.put("settled", &[3; 50_000], false);
        assert_eq!(disk.ask(&json!({"do": "settle"})), json!({"kind": "done"}));
        disk.cut(77);
        disk.restore();
        assert!(disk.content("settled") == Some(vec![3; 50_000]), "{kind}");
    }
}

#[test]
fn a_disk_in_use_is_not_restored_and_is_gone_when_the_program_ends() {
    for job in [json!({}), json!({"on": "ext4"})] {
        let Some(mut disk) = Disk::mounted(job) else { return };
        disk.put("file", &[1; 8192], true);
        let user = File::open(disk.mount.join("file")).expect("it is there");
        disk.cut(1);
        let answer = disk.ask(&json!({"do": "restore"}));
        let said = answer["message"].as_str().expect("an error");
        assert!(said.starts_with("a process still uses"), "{said}");
        drop(disk);
        drop(user);
    }
}

#[test]
fn what_is_wrong_with_a_job_or_a_command_is_said() {
    let (_disk, answer) = Disk::start(json!({"sector_bytes": 100}));
    assert!(answer["message"].as_str().is_some_and(|said| said.contains("512 or 4096")));
    let (_disk, answer) = Disk::start(json!({"on": "fat"}));
    assert!(answer["message"].as_str().is_some_and(|said| said.contains("bad job")));
    let Some(mut disk) = Disk::mounted(json!({})) else { return };
    for (line, words) in [
        (json!({"do": "restore"}), "restore comes after cut"),
        (json!({"do": "fault", "fault": "fire"}), "bad command"),
    ] {
        let answer = disk.ask(&line);
        assert!(answer["message"].as_str().is_some_and(|said| said.contains(words)), "{answer}");
    }
}
