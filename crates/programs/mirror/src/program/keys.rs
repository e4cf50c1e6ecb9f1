//! Keys that exist in the database, and keys that do not exist yet.
//!
//! They are read before the load, because a copy has other rows than the source.

use std::sync::atomic::{AtomicU64, Ordering};

use super::catalog::{Facts, Kind, Wanted, ends};
use super::existing::Existing;
use super::number::{scrambled, write_instant};
use pgdyno_engine::contract::job::ClockPair;
use pgdyno_engine::program::{Session, Unready};

/// The keys of a run.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) existing: Vec<Existing>,
    pub(super) fresh: Vec<Fresh>,
}

impl Keys {
    /// Read the keys of these columns, and the largest key of each column that gets new ones.
    ///
    /// Errors: the database lacks a column, or a column has a type for which no new key is known.
    pub(super) async fn read(
        session: Session<'_>,
        wanted: &[Wanted],
        fresh: &[Wanted],
        terminals: u32,
    ) -> Result<Keys, Unready> {
        let mut keys = Keys { existing: Vec::new(), fresh: Vec::new() };
        for wanted in wanted {
            keys.existing.push(Existing::read(session, wanted).await?);
        }
        for wanted in fresh {
            keys.fresh.push(Fresh::read(session, wanted, terminals).await?);
        }
        Ok(keys)
    }
}

/// New keys of one column. Each terminal has every n-th number above `base`, so no two are equal.
#[derive(Debug)]
pub(super) struct Fresh {
    kind: Kind,
    base: u64,
    /// How many keys each terminal has used.
    used: Vec<AtomicU64>,
}

impl Fresh {
    async fn read(session: Session<'_>, wanted: &Wanted, terminals: u32) -> Result<Fresh, Unready> {
        let kind = Facts::read(session, &wanted.table, &wanted.columns[0]).await?.kind;
        let base = match kind {
            Kind::Integer => {
                ends(session, wanted).await?.1.map_or(1, |most| most.max(0) as u64 + 1)
            }
            // Later runs begin higher: no run makes a million keys a second.
            Kind::Text | Kind::Uuid | Kind::Time => ClockPair::now().unix_ns / 1000,
            Kind::Other => {
                return Err(Unready::Refused {
                    message: format!(
                        "column {} of {} has a type for which no new keys are known",
                        wanted.columns[0], wanted.table
                    ),
                    hint: "new keys may be integers, text, uuid or times".to_owned(),
                });
            }
        };
        Ok(Fresh { kind, base, used: (0..terminals).map(|_| AtomicU64::new(0)).collect() })
    }

    /// Append the next key of a terminal.
    pub(super) fn write(&self, terminal: u32, out: &mut Vec<u8>) {
        // Relaxed: only the thread of this terminal uses its counter.
        let used = self.used[terminal as usize].fetch_add(1, Ordering::Relaxed);
        let number = self.base + u64::from(terminal) + used * self.used.len() as u64;
        match self.kind {
            Kind::Text => out.extend_from_slice(format!("{number:x}").as_bytes()),
            Kind::Time => write_instant(number as i64, out),
            Kind::Uuid => {
                let (high, low) = (scrambled(number), scrambled(!number));
                let text = format!(
                    "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                    high >> 32,
                    high >> 16 & 0xffff,
                    high & 0xfff,
                    low >> 52,
                    low & 0xffff_ffff_ffff
                );
                out.extend_from_slice(text.as_bytes());
            }
            Kind::Integer | Kind::Other => {
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn fresh(kind: Kind, base: u64) -> Fresh {
        Fresh { kind, base, used: (0..3).map(|_| AtomicU64::new(0)).collect() }
    }

    fn next(keys: &Fresh, terminal: u32) -> String {
        let mut out = Vec::new();
        keys.write(terminal, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn new_keys_are_above_the_base_and_never_the_same() {
        let keys = fresh(Kind::Integer, 101);
        assert_eq!([next(&keys, 0), next(&keys, 2), next(&keys, 0)], ["101", "103", "104"]);
        for kind in [Kind::Text, Kind::Uuid, Kind::Time] {
            let keys = fresh(kind, 1_700_000_000_000_000);
            let all: BTreeSet<_> = (0..3000).map(|number| next(&keys, number % 3)).collect();
            assert_eq!(all.len(), 3000, "{kind:?}");
        }
        let uuid = next(&fresh(Kind::Uuid, 5), 0);
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    }
}
