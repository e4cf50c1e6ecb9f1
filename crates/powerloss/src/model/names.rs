//! The names of all directories: live, durable, and the operations between the two.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};

use super::Directories;
use super::choice::Choice;

/// Names of directories, by inode.
type Names = HashMap<u64, BTreeMap<OsString, u64>>;

/// One name that gets an inode, or loses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub directory: u64,
    pub name: OsString,
    pub inode: Option<u64>,
}

/// One operation, which survives wholly or not at all: a rename has two entries.
type Operation = Vec<Entry>;

#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    live: Names,
    durable: Names,
    pending: Vec<Operation>,
}

impl Catalogue {
    #[must_use]
    pub fn get(&self, directory: u64, name: &OsStr) -> Option<u64> {
        self.live.get(&directory)?.get(name).copied()
    }

    pub fn list(&self, directory: u64) -> impl Iterator<Item = (&OsString, u64)> {
        self.live.get(&directory).into_iter().flatten().map(|(name, inode)| (name, *inode))
    }

    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    pub fn change(&mut self, operation: Vec<Entry>) {
        apply(&mut self.live, &operation);
        self.pending.push(operation);
    }

    /// Make every operation durable that concerns `directory`, with those that came before it.
    ///
    /// A rename between two directories is one operation. Therefore the earlier operations on its
    /// other name become durable, too.
    pub fn sync_directory(&mut self, directory: u64) {
        let mut names: HashSet<(u64, OsString)> = HashSet::new();
        let mut is_needed = vec![false; self.pending.len()];
        for (place, operation) in self.pending.iter().enumerate().rev() {
            is_needed[place] = operation.iter().any(|entry| {
                entry.directory == directory
                    || names.contains(&(entry.directory, entry.name.clone()))
            });
            if is_needed[place] {
                names.extend(operation.iter().map(|entry| (entry.directory, entry.name.clone())));
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for (operation, is_needed) in pending.into_iter().zip(is_needed) {
            if is_needed {
                apply(&mut self.durable, &operation);
            } else {
                self.pending.push(operation);
            }
        }
    }

    pub fn sync_all(&mut self) {
        for operation in self.pending.drain(..) {
            apply(&mut self.durable, &operation);
        }
    }

    /// Lose the power. Return how many operations were lost.
    ///
    /// `Ext4`: the journal is ordered, so the first operations survive. `Strict`: any may be lost,
    /// and then all later ones on the same name are lost with it.
    pub fn cut(&mut self, directories: Directories, choice: &mut Choice) -> u64 {
        let pending = std::mem::take(&mut self.pending);
        let count = pending.len();
        let first = choice.up_to(count);
        let share = choice.share();
        let mut lost_names: HashSet<(u64, OsString)> = HashSet::new();
        let mut lost_count = 0;
        for (place, operation) in pending.iter().enumerate() {
            let is_kept = match directories {
                Directories::Ext4 => place < first,
                Directories::Strict => {
                    let is_free = !operation
                        .iter()
                        .any(|entry| lost_names.contains(&(entry.directory, entry.name.clone())));
                    choice.keeps(share) && is_free
                }
            };
            if is_kept {
                apply(&mut self.durable, operation);
            } else {
                lost_count += 1;
                let names = operation.iter().map(|entry| (entry.directory, entry.name.clone()));
                lost_names.extend(names);
            }
        }
        self.live.clone_from(&self.durable);
        lost_count
    }
}

fn apply(names: &mut Names, operation: &[Entry]) {
    for entry in operation {
        let directory = names.entry(entry.directory).or_default();
        match entry.inode {
            Some(inode) => directory.insert(entry.name.clone(), inode),
            None => directory.remove(&entry.name),
        };
    }
}
