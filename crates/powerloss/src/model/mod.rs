//! The disk: inodes, names, and what a loss of power leaves of them. No I/O, no clock.

mod choice;
mod file;
mod names;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};

use serde::Deserialize;

pub use choice::Choice;
pub use file::{Content, Losses};
pub use names::{Catalogue, Entry};

pub const ROOT: u64 = 1;
/// `S_IFMT` and `S_IFDIR` of stat(2).
const TYPE_MASK: u32 = 0o170_000;
const DIRECTORY_TYPE: u32 = 0o040_000;

/// Which names survive that no fsync of their directory has covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Directories {
    /// As POSIX says: only fsync of the directory keeps a name.
    #[default]
    Strict,
    /// As the ordered journal of ext4: every fsync keeps all operations before it.
    Ext4,
}

/// A planted error of the layer, for tests that must find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Defect {
    FsyncIgnored,
    DirectoryFsyncDropped,
    /// The last change before an fsync is not durable before the next fsync.
    ReorderedAcrossSync,
}

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub directories: Directories,
    pub sector_bytes: usize,
    pub defect: Option<Defect>,
}

/// What is not content: survives at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// With the type, as in stat(2).
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub modified_ns: u64,
}

impl Attributes {
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.mode & TYPE_MASK == DIRECTORY_TYPE
    }
}

#[derive(Debug, Clone)]
pub struct Node {
    pub attributes: Attributes,
    /// The content of a file, or the target of a symbolic link.
    pub content: Content,
    pub link_count: u32,
}

/// What was lost and kept at a cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CutCounts {
    pub data: Losses,
    pub names_lost_count: u64,
}

#[derive(Debug)]
pub struct Disk {
    options: Options,
    nodes: HashMap<u64, Node>,
    names: Catalogue,
    next_inode: u64,
}

impl Disk {
    #[must_use]
    pub fn new(options: Options, root: Attributes) -> Self {
        let node = Node { attributes: root, content: Content::default(), link_count: 2 };
        let nodes = HashMap::from([(ROOT, node)]);
        Self { options, nodes, names: Catalogue::default(), next_inode: ROOT + 1 }
    }

    #[must_use]
    pub fn node(&self, inode: u64) -> Option<&Node> {
        self.nodes.get(&inode)
    }

    pub fn node_mut(&mut self, inode: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&inode)
    }

    #[must_use]
    pub fn names(&self) -> &Catalogue {
        &self.names
    }

    /// Return the inodes in use and the changes of content that are not durable.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.nodes.values().map(|node| node.content.pending_count()).sum()
    }

    /// Make a new inode with this name. The caller has checked that the name is free.
    pub fn create(&mut self, parent: u64, name: &OsStr, attributes: Attributes) -> u64 {
        let inode = self.next_inode;
        self.next_inode += 1;
        let link_count = if attributes.is_directory() { 2 } else { 1 };
        self.nodes.insert(inode, Node { attributes, content: Content::default(), link_count });
        self.names.change(vec![entry(parent, name, Some(inode))]);
        inode
    }

    pub fn link(&mut self, inode: u64, parent: u64, name: &OsStr) {
        self.add_links(inode, 1);
        self.names.change(vec![entry(parent, name, Some(inode))]);
    }

    /// Remove a name. The inode stays, because the name may come back at a cut.
    pub fn unlink(&mut self, parent: u64, name: &OsStr) {
        if let Some(inode) = self.names.get(parent, name) {
            self.add_links(inode, -1);
            self.names.change(vec![entry(parent, name, None)]);
        }
    }

    /// Rename, and replace what had the new name; with `is_exchange` the two change places.
    pub fn rename(&mut self, old: (u64, &OsStr), new: (u64, &OsStr), is_exchange: bool) {
        let (source, target) = (self.names.get(old.0, old.1), self.names.get(new.0, new.1));
        // Two names of one file: rename(2) does nothing.
        if source.is_none() || source == target {
            return;
        }
        if let (Some(inode), false) = (target, is_exchange) {
            self.add_links(inode, -1);
        }
        let left = if is_exchange { target } else { None };
        self.names.change(vec![entry(old.0, old.1, left), entry(new.0, new.1, source)]);
    }

    /// fsync or fdatasync of a file.
    pub fn sync_file(&mut self, inode: u64) {
        if self.options.defect == Some(Defect::FsyncIgnored) {
            return;
        }
        let left = usize::from(self.options.defect == Some(Defect::ReorderedAcrossSync));
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.content.sync(left);
        }
        self.commit_journal();
    }

    /// fsync of a directory.
    pub fn sync_directory(&mut self, inode: u64) {
        if let Some(Defect::FsyncIgnored | Defect::DirectoryFsyncDropped) = self.options.defect {
            return;
        }
        self.names.sync_directory(inode);
        self.commit_journal();
    }

    fn commit_journal(&mut self) {
        let is_dropped = self.options.defect == Some(Defect::DirectoryFsyncDropped);
        if self.options.directories == Directories::Ext4 && !is_dropped {
            self.names.sync_all();
        }
    }

    /// Make everything durable that is here now, and forget what has no name.
    pub fn settle(&mut self) {
        for node in self.nodes.values_mut() {
            node.content.sync(0);
        }
        self.names.sync_all();
    }

    /// Lose the power: afterwards the disk has what survived, and all of it is durable.
    pub fn cut(&mut self, seed: u64) -> CutCounts {
        let choice = Choice::new(seed);
        let names_lost_count = self.names.cut(self.options.directories, &mut choice.of(0));
        let mut counts = CutCounts { names_lost_count, ..CutCounts::default() };
        for (inode, node) in &mut self.nodes {
            let losses = node.content.cut(self.options.sector_bytes, &mut choice.of(*inode));
            counts.data.kept_count += losses.kept_count;
            counts.data.lost_count += losses.lost_count;
            counts.data.torn_count += losses.torn_count;
        }
        self.forget_unnamed();
        counts
    }

    /// Drop inodes that no name leads to, and count the links of the others.
    fn forget_unnamed(&mut self) {
        let mut links: HashMap<u64, u32> = HashMap::from([(ROOT, 2)]);
        let mut seen: HashSet<u64> = HashSet::from([ROOT]);
        let mut open = vec![ROOT];
        while let Some(directory) = open.pop() {
            for (_, inode) in self.names.list(directory) {
                let is_directory =
                    self.nodes.get(&inode).is_some_and(|node| node.attributes.is_directory());
                *links.entry(inode).or_insert(u32::from(is_directory)) += 1;
                if is_directory && seen.insert(inode) {
                    open.push(inode);
                }
            }
        }
        self.nodes.retain(|inode, node| {
            node.link_count = links.get(inode).copied().unwrap_or(0);
            node.link_count > 0
        });
    }

    fn add_links(&mut self, inode: u64, difference: i32) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            node.link_count = node.link_count.saturating_add_signed(difference);
        }
    }
}

fn entry(directory: u64, name: &OsStr, inode: Option<u64>) -> Entry {
    Entry { directory, name: OsString::from(name), inode }
}
