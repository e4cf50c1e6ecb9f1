//! What survives a cut, against simple oracles.

use std::ffi::OsStr;

use pgdyno_powerloss::model::{Attributes, Defect, Directories, Disk, Options, ROOT};
use proptest::prelude::*;

const FILE_MODE: u32 = 0o100_644;
const DIRECTORY_MODE: u32 = 0o040_755;
const SECTOR: usize = 512;

fn disk(directories: Directories, defect: Option<Defect>) -> Disk {
    Disk::new(Options { directories, sector_bytes: SECTOR, defect }, with_mode(DIRECTORY_MODE))
}

fn with_mode(mode: u32) -> Attributes {
    Attributes { mode, uid: 0, gid: 0, rdev: 0, modified_ns: 0 }
}

fn named(disk: &Disk, name: &str) -> Option<u64> {
    disk.names().get(ROOT, OsStr::new(name))
}

fn create(disk: &mut Disk, name: &str) -> u64 {
    disk.create(ROOT, OsStr::new(name), with_mode(FILE_MODE))
}

fn write(disk: &mut Disk, inode: u64, offset: usize, bytes: &[u8]) {
    disk.node_mut(inode).expect("the inode exists").content.write(offset, bytes);
}

fn live(disk: &Disk, inode: u64) -> Vec<u8> {
    disk.node(inode).expect("the inode exists").content.live().to_vec()
}

/// Return whether a disk with this defect loses what was synced, with this seed.
fn loses(defect: Option<Defect>, seed: u64) -> bool {
    let mut disk = disk(Directories::Strict, defect);
    let inode = create(&mut disk, "a");
    for block in 0..16_u8 {
        write(&mut disk, inode, usize::from(block) * 8192, &[block + 1; 8192]);
    }
    disk.sync_file(inode);
    disk.sync_directory(ROOT);
    let synced = live(&disk, inode);
    disk.cut(seed);
    named(&disk, "a").is_none_or(|inode| live(&disk, inode) != synced)
}

proptest! {
    #[test]
    fn synced_content_survives(
        writes in prop::collection::vec((0_usize..4000, 1_usize..3000, any::<u8>()), 0..12),
        seed in any::<u64>(),
        is_ext4 in any::<bool>(),
    ) {
        let mode = if is_ext4 { Directories::Ext4 } else { Directories::Strict };
        let mut disk = disk(mode, None);
        let inode = create(&mut disk, "a");
        for (offset, length, byte) in &writes {
            write(&mut disk, inode, *offset, &vec![*byte; *length]);
        }
        disk.sync_file(inode);
        disk.sync_directory(ROOT);
        let synced = live(&disk, inode);
        disk.cut(seed);
        prop_assert_eq!(named(&disk, "a"), Some(inode));
        prop_assert_eq!(live(&disk, inode), synced);
    }

    #[test]
    fn every_sector_has_a_content_that_it_had_since_the_sync(
        blocks in prop::collection::vec((0_usize..8, 1_u8..), 1..20),
        seed in any::<u64>(),
    ) {
        let mut disk = disk(Directories::Strict, None);
        let inode = create(&mut disk, "a");
        write(&mut disk, inode, 0, &[0; 8 * 2048]);
        disk.sync_file(inode);
        disk.sync_directory(ROOT);
        for (block, byte) in &blocks {
            write(&mut disk, inode, block * 2048, &[*byte; 2048]);
        }
        disk.cut(seed);
        for (place, sector) in live(&disk, inode).chunks(SECTOR).enumerate() {
            let byte = sector[0];
            prop_assert!(sector.iter().all(|other| *other == byte), "a sector was torn");
            let was_there = blocks.iter().any(|(block, had)| *block == place / 4 && *had == byte);
            prop_assert!(byte == 0 || was_there);
        }
    }

    #[test]
    fn a_durable_rename_leaves_the_old_or_the_new_file(
        synced_steps in 0_usize..3,
        seed in any::<u64>(),
        is_ext4 in any::<bool>(),
    ) {
        let mode = if is_ext4 { Directories::Ext4 } else { Directories::Strict };
        let mut disk = disk(mode, None);
        let old = create(&mut disk, "a");
        write(&mut disk, old, 0, b"old");
        disk.settle();
        let new = create(&mut disk, "a.tmp");
        write(&mut disk, new, 0, b"new");
        disk.sync_file(new);
        if synced_steps > 0 {
            disk.rename((ROOT, OsStr::new("a.tmp")), (ROOT, OsStr::new("a")), false);
        }
        if synced_steps > 1 {
            disk.sync_file(new);
            disk.sync_directory(ROOT);
        }
        disk.cut(seed);
        let content = live(&disk, named(&disk, "a").expect("one of them is there"));
        prop_assert!(content == b"new" || (synced_steps < 2 && content == b"old"));
    }

    #[test]
    fn the_same_seed_gives_the_same_survivors(
        blocks in prop::collection::vec((0_usize..8, any::<u8>()), 1..20),
        seed in any::<u64>(),
    ) {
        let survivors = || {
            let mut disk = disk(Directories::Strict, None);
            let inode = create(&mut disk, "a");
            disk.settle();
            for (block, byte) in &blocks {
                write(&mut disk, inode, block * 2048, &[*byte; 2048]);
            }
            let counts = disk.cut(seed);
            (counts, live(&disk, inode))
        };
        prop_assert_eq!(survivors(), survivors());
    }
}

#[test]
fn a_name_without_a_directory_fsync_is_lost_with_some_seeds_and_kept_with_others() {
    let is_kept = |seed| {
        let mut disk = disk(Directories::Strict, None);
        let inode = create(&mut disk, "a");
        disk.sync_file(inode);
        disk.cut(seed);
        named(&disk, "a").is_some()
    };
    let kept_count = (0..100).filter(|seed| is_kept(*seed)).count();
    assert!((20..80).contains(&kept_count), "{kept_count} of 100");
}

#[test]
fn ext4_keeps_the_name_of_a_synced_file() {
    for seed in 0..100 {
        let mut disk = disk(Directories::Ext4, None);
        let inode = create(&mut disk, "a");
        disk.sync_file(inode);
        disk.cut(seed);
        assert_eq!(named(&disk, "a"), Some(inode), "seed {seed}");
    }
}

#[test]
fn a_file_comes_back_whose_removal_was_not_synced() {
    let comes_back = |seed| {
        let mut disk = disk(Directories::Strict, None);
        let inode = create(&mut disk, "a");
        write(&mut disk, inode, 0, b"kept");
        disk.settle();
        disk.unlink(ROOT, OsStr::new("a"));
        disk.cut(seed);
        named(&disk, "a").is_some_and(|inode| live(&disk, inode) == b"kept")
    };
    let count = (0..100).filter(|seed| comes_back(*seed)).count();
    assert!((20..80).contains(&count), "{count} of 100");
}

#[test]
fn a_rename_between_directories_is_synced_with_either_of_them() {
    for is_source in [true, false] {
        for seed in 0..50 {
            let mut disk = disk(Directories::Strict, None);
            let [from, to] = ["from", "to"]
                .map(|name| disk.create(ROOT, OsStr::new(name), with_mode(DIRECTORY_MODE)));
            disk.settle();
            let inode = disk.create(from, OsStr::new("a"), with_mode(FILE_MODE));
            disk.rename((from, OsStr::new("a")), (to, OsStr::new("b")), false);
            disk.sync_directory(if is_source { from } else { to });
            disk.cut(seed);
            assert_eq!(disk.names().get(to, OsStr::new("b")), Some(inode));
            assert_eq!(disk.names().get(from, OsStr::new("a")), None);
        }
    }
}

#[test]
fn an_exchange_swaps_two_names_and_a_hard_link_counts() {
    let mut disk = disk(Directories::Strict, None);
    let (first, second) = (create(&mut disk, "a"), create(&mut disk, "b"));
    disk.rename((ROOT, OsStr::new("a")), (ROOT, OsStr::new("b")), true);
    assert_eq!((named(&disk, "a"), named(&disk, "b")), (Some(second), Some(first)));
    disk.link(first, ROOT, OsStr::new("c"));
    disk.settle();
    disk.cut(1);
    assert_eq!(disk.node(first).expect("it has names").link_count, 2);
}

#[test]
fn truncated_bytes_are_zero_when_the_file_grows_again() {
    let mut disk = disk(Directories::Strict, None);
    let inode = create(&mut disk, "a");
    write(&mut disk, inode, 0, b"abcdef");
    let content = &mut disk.node_mut(inode).expect("it was created").content;
    content.resize(2);
    content.resize(4);
    disk.settle();
    disk.cut(3);
    assert_eq!(live(&disk, inode), b"ab\0\0");
}

#[test]
fn a_sound_disk_loses_nothing_that_was_synced_in_20_of_20_tries() {
    assert!((0..20).all(|seed| !loses(None, seed)));
}

#[test]
fn each_planted_defect_is_found_within_20_cuts_in_20_of_20_tries() {
    for defect in [Defect::FsyncIgnored, Defect::DirectoryFsyncDropped, Defect::ReorderedAcrossSync]
    {
        for attempt in 0..20 {
            let is_found = (0..20).any(|cut| loses(Some(defect), attempt * 20 + cut));
            assert!(is_found, "{defect:?} in attempt {attempt}");
        }
    }
}
