//! Which random stream belongs to what: the seeding order of pgbench.

use std::ops::Range;

use crate::prng::Prng;

/// All random streams of one run, derived from `--random-seed`.
///
/// pgbench draws one seed a client, then `:default_seed`, then three seeds a thread, all from one
/// base sequence; so the clients' streams do not depend on the number of threads.
#[derive(Clone, Debug)]
pub struct RandomStreams {
    /// One per client, in order of `client_id`: every random function of a script.
    pub clients: Vec<Prng>,
    /// Value of `:default_seed`, unless it is defined from outside.
    pub default_seed: i64,
    /// One set per thread.
    pub threads: Vec<ThreadStreams>,
}

/// The random streams of one thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadStreams {
    /// Choice of the next script: see [`choose_script`].
    pub choose: Prng,
    /// Gaps between transactions under `--rate`.
    pub throttle: Prng,
    /// Choice of logged transactions under `--sampling-rate`.
    pub sample: Prng,
}

impl RandomStreams {
    /// Derives every stream from `seed`.
    ///
    /// Args: `draws_default_seed` is false when `-D default_seed=...` is given: pgbench then
    /// skips that draw, which shifts the threads' streams.
    pub fn new(
        seed: u64,
        client_count: usize,
        thread_count: usize,
        draws_default_seed: bool,
    ) -> Self {
        let mut base = Prng::from_seed(seed);
        let clients = (0..client_count).map(|_| derive(&mut base)).collect();
        let default_seed = if draws_default_seed { base.next_u64() as i64 } else { 0 };
        let threads = (0..thread_count)
            .map(|_| ThreadStreams {
                choose: derive(&mut base),
                throttle: derive(&mut base),
                sample: derive(&mut base),
            })
            .collect();
        Self { clients, default_seed, threads }
    }
}

/// Returns the range of clients each thread has: as even as possible, larger shares first.
///
/// Args: `1 <= thread_count <= client_count`.
/// Source: pgbench's `main`.
pub fn clients_of_threads(client_count: usize, thread_count: usize) -> Vec<Range<usize>> {
    let mut dealt = 0;
    (0..thread_count)
        .map(|thread| {
            let first = dealt;
            dealt += (client_count - dealt).div_ceil(thread_count - thread);
            first..dealt
        })
        .collect()
}

fn derive(base: &mut Prng) -> Prng {
    Prng::from_seed(base.next_u64())
}

/// Returns the index of the next script, each with a probability in proportion to its weight.
///
/// Args: `weights` not empty, with a sum above 0; `choose` is the thread's stream. With a single
/// script nothing is drawn.
/// Source: pgbench's `chooseScript`.
#[inline]
pub fn choose_script(weights: &[u32], choose: &mut Prng) -> usize {
    if weights.len() == 1 {
        return 0;
    }
    let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    assert!(total > 0, "script weights must not all be zero");
    script_at(weights, choose.offset(total - 1))
}

/// Return the script whose part of the sum of the weights has this place, from 0.
pub fn script_at(weights: &[u32], place: u64) -> usize {
    let mut left = place;
    for (index, &weight) in weights.iter().enumerate() {
        if left < u64::from(weight) {
            return index;
        }
        left -= u64::from(weight);
    }
    unreachable!("the place is below the sum of the weights")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_keep_their_streams_whatever_the_number_of_threads() {
        let single = RandomStreams::new(5432, 8, 1, true);
        let four = RandomStreams::new(5432, 8, 4, true);
        assert_eq!(single.clients, four.clients);
        assert_eq!(single.default_seed, four.default_seed);
    }

    #[test]
    fn a_script_of_weight_zero_is_never_chosen() {
        let mut choose = Prng::from_seed(9);
        let mut counts = [0; 3];
        for _ in 0..4000 {
            counts[choose_script(&[1, 0, 3], &mut choose)] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((800..1200).contains(&counts[0]), "a quarter of 4000 expected, got {counts:?}");
    }

    #[test]
    fn a_single_script_draws_nothing() {
        let mut choose = Prng::from_seed(9);
        let before = choose;
        assert_eq!(choose_script(&[5], &mut choose), 0);
        assert_eq!(choose, before);
    }
}
