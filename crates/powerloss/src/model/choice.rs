//! What survives, chosen by a seed.

/// A generator of choices; the same seed gives the same choices.
///
/// Source: splitmix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub struct Choice {
    state: u64,
}

impl Choice {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Return a separate choice for item `key`, so that other items do not move it.
    #[must_use]
    pub fn of(&self, key: u64) -> Self {
        let mut choice = Self { state: self.state ^ key.wrapping_mul(0x9E37_79B9_7F4A_7C15) };
        choice.next();
        choice
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Return how many of 256 changes survive: nothing, all and half are more frequent.
    pub fn share(&mut self) -> u64 {
        match self.next() % 4 {
            0 => 0,
            1 => 256,
            2 => 128,
            _ => self.next() % 257,
        }
    }

    /// Return whether one change survives, at `share` of 256.
    pub fn keeps(&mut self, share: u64) -> bool {
        self.next() % 256 < share
    }

    /// Return a number from 0 to `limit`, both included.
    pub fn up_to(&mut self, limit: usize) -> usize {
        (self.next() % (limit as u64 + 1)) as usize
    }
}
