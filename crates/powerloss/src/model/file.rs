//! The content of one file: what reads see, what is durable, and the changes between the two.

use super::choice::Choice;

/// One change since the last sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize { size: usize },
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write(image, *offset, bytes),
            // Zeros of the system take no memory: a disk of a real file system is mostly empty.
            Self::Resize { size } if image.is_empty() => *image = vec![0; *size],
            Self::Resize { size } => image.resize(*size, 0),
        }
    }
}

/// What a cut did to pending changes; a write counts once for each of its sectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    pub kept_count: u64,
    pub lost_count: u64,
    /// Writes of which some sectors survived and some did not.
    pub torn_count: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

impl Content {
    #[must_use]
    pub fn live(&self) -> &[u8] {
        &self.live
    }

    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.change(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub fn resize(&mut self, size: usize) {
        if size != self.live.len() {
            self.change(Change::Resize { size });
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    /// Make every change durable, except the last `left` ones.
    pub fn sync(&mut self, left: usize) {
        let end = self.pending.len().saturating_sub(left);
        for change in self.pending.drain(..end) {
            change.apply(&mut self.durable);
        }
    }

    /// Lose the power: each sector of each pending write, and each pending size, survives or not.
    ///
    /// Whatever subset survives is applied in order, so a sector that was written twice may have
    /// its old, first or second content.
    pub fn cut(&mut self, sector_bytes: usize, choice: &mut Choice) -> Losses {
        let mut losses = Losses::default();
        let share = choice.share();
        for change in self.pending.drain(..) {
            let (kept_before, lost_before) = (losses.kept_count, losses.lost_count);
            match &change {
                Change::Resize { .. } => {
                    if count(&mut losses, choice.keeps(share)) {
                        change.apply(&mut self.durable);
                    }
                }
                Change::Write { offset, bytes } => {
                    for (start, end) in sectors(*offset, bytes.len(), sector_bytes) {
                        if count(&mut losses, choice.keeps(share)) {
                            write(&mut self.durable, offset + start, &bytes[start..end]);
                        }
                    }
                }
            }
            if losses.kept_count > kept_before && losses.lost_count > lost_before {
                losses.torn_count += 1;
            }
        }
        self.live.clone_from(&self.durable);
        losses
    }
}

fn count(losses: &mut Losses, is_kept: bool) -> bool {
    *(if is_kept { &mut losses.kept_count } else { &mut losses.lost_count }) += 1;
    is_kept
}

fn write(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(bytes);
}

/// Return the parts of a write that lie in one sector of the file each, relative to its start.
fn sectors(
    offset: usize,
    length: usize,
    sector_bytes: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == length {
            return None;
        }
        let end = length.min(start + sector_bytes - (offset + start) % sector_bytes);
        let part = (start, end);
        start = end;
        Some(part)
    })
}
