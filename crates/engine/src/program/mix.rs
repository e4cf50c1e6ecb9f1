//! Which transaction type of a program a terminal runs next.

use pgdyno_script::{Prng, choose_script, script_at};

/// How the types of a program are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// Each draw is independent, and its chances follow the weights.
    #[default]
    Chance,
    /// Each terminal has a deck with one card for each unit of weight. It draws cards without
    /// replacement, and begins a new deck when no card is left.
    Deck,
    /// The chances follow the weights, and the number of draws of each type stays near its share of
    /// all draws: chance changes the mix of a short run much less.
    Even,
    /// The program itself says what comes next, by `Transactions::next`.
    Program,
}

/// What a terminal does next, if its program decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A transaction of the type with this number. In an open loop it begins at `due_ns` after the
    /// begin of the load, or later; 0 = when an arrival is due.
    Type { number: usize, due_ns: u64 },
    /// Nothing: it starts no more transactions.
    Over,
}

/// The state of a terminal's draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dealer {
    Chance,
    Deck(Deck),
    Even(Even),
}

impl Dealer {
    pub fn new(mix: Mix) -> Dealer {
        match mix {
            // A program that decides itself draws nothing.
            Mix::Chance | Mix::Program => Dealer::Chance,
            Mix::Deck => Dealer::Deck(Deck::default()),
            Mix::Even => Dealer::Even(Even::default()),
        }
    }

    /// Return the next type.
    pub fn deal(&mut self, weights: &[u32], random: &mut Prng) -> usize {
        match self {
            Dealer::Chance => choose_script(weights, random),
            Dealer::Deck(deck) => deck.deal(weights, random),
            Dealer::Even(even) => {
                let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
                let drawn = (u128::from(even.point(random)) * u128::from(total)) >> 32;
                script_at(weights, drawn as u64)
            }
        }
    }
}

/// Points that fill an interval evenly: the first 64, 128, 256 and so on have one point in each
/// equal part. Each 64 neighbours come in random order, so short sequences are like chance.
///
/// Source: Owen's scrambling of the van der Corput sequence, with the hash of Brent Burley,
/// "Practical Hash-based Owen Scrambling", Journal of Computer Graphics Techniques 9 (2020).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Even {
    /// The numbers of this block that were not drawn, as bits.
    left: u64,
    /// Blocks that were begun.
    block_count: u32,
    seed: u32,
}

impl Even {
    /// Return the next point, as a share of 2^32.
    fn point(&mut self, random: &mut Prng) -> u32 {
        if self.block_count == 0 {
            self.seed = random.next_u64() as u32;
        }
        if self.left == 0 {
            self.left = u64::MAX;
            self.block_count = self.block_count.wrapping_add(1).max(1);
        }
        let mut bits = self.left;
        for _ in 0..random.offset(u64::from(bits.count_ones()) - 1) {
            bits &= bits - 1;
        }
        let bit = bits.trailing_zeros();
        self.left &= !(1 << bit);
        let mut number = ((self.block_count - 1) << 6) | bit;
        number ^= number.wrapping_mul(0x3d20_adea);
        number = number.wrapping_add(self.seed);
        number = number.wrapping_mul((self.seed >> 16) | 1);
        number ^= number.wrapping_mul(0x0552_6c56);
        number ^= number.wrapping_mul(0x53a2_2864);
        number.reverse_bits()
    }
}

/// A terminal's deck: the number of cards left for each transaction type. A random draw without
/// replacement gives the same orders as a shuffled deck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deck([u8; Deck::TYPES_MAX]);

impl Deck {
    /// Maximum number of types of a program that deals.
    pub const TYPES_MAX: usize = 8;

    /// Take the next card and return its type; if no card is left, begin a new deck.
    pub fn deal(&mut self, weights: &[u32], random: &mut Prng) -> usize {
        let mut left: u64 = self.0.iter().map(|&cards| u64::from(cards)).sum();
        if left == 0 {
            for (cards, &weight) in self.0.iter_mut().zip(weights) {
                *cards = weight as u8;
                left += u64::from(*cards);
            }
        }
        let mut drawn = random.offset(left - 1);
        for (number, cards) in self.0.iter_mut().enumerate() {
            if drawn < u64::from(*cards) {
                *cards -= 1;
                return number;
            }
            drawn -= u64::from(*cards);
        }
        unreachable!("the draw is below the number of cards")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deck_has_exactly_its_cards_in_another_order() {
        let (mut deck, mut random) = (Deck::default(), Prng::from_seed(3));
        let weights = [10, 10, 1, 1, 1];
        let mut orders = Vec::new();
        for _ in 0..20 {
            let cards: Vec<usize> = (0..23).map(|_| deck.deal(&weights, &mut random)).collect();
            let counts = (0..5).map(|number| cards.iter().filter(|&&c| c == number).count());
            assert_eq!(counts.collect::<Vec<_>>(), [10, 10, 1, 1, 1]);
            assert!(!orders.contains(&cards));
            orders.push(cards);
        }
    }

    #[test]
    fn an_even_mix_has_the_share_of_each_type_in_short_runs_too() {
        let weights = [600_000, 250_000, 100_000, 49_000, 1_000];
        for seed in 0..20 {
            let (mut dealer, mut random) = (Dealer::new(Mix::Even), Prng::from_seed(seed));
            let mut counts = [0_u32; 5];
            for drawn in 1..=20_000_u32 {
                counts[dealer.deal(&weights, &mut random)] += 1;
                if drawn % 64 == 0 {
                    for (count, weight) in counts.iter().zip(weights) {
                        let expected = f64::from(drawn) * f64::from(weight) / 1e6;
                        let off = (f64::from(*count) - expected).abs();
                        assert!(off < 12.0, "{seed}: {count} of {drawn}, not {expected}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_even_mix_has_another_order_for_each_terminal() {
        let order = |seed| {
            let (mut dealer, mut random) = (Dealer::new(Mix::Even), Prng::from_seed(seed));
            (0..64).map(|_| dealer.deal(&[1, 1], &mut random)).collect::<Vec<_>>()
        };
        let orders: Vec<_> = (0..20).map(order).collect();
        assert!(orders.iter().all(|own| orders.iter().filter(|other| own == *other).count() == 1));
        // Runs of one type occur, as by chance.
        let longest = |order: &Vec<usize>| {
            order.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or_default()
        };
        assert!(orders.iter().map(longest).max() >= Some(5));
    }
}
