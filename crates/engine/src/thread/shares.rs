//! Counts transactions by client, to report how evenly the clients were served.

use crate::contract::record::Fairness;

/// Transactions of the measured phase that the clients of a thread completed.
#[derive(Debug, Default)]
pub struct Shares {
    /// By client.
    clients: Vec<u64>,
    /// By host of the job.
    hosts: Vec<u64>,
}

impl Shares {
    pub(super) fn new(client_count: usize, host_count: usize) -> Shares {
        Shares { clients: vec![0; client_count], hosts: vec![0; host_count] }
    }

    #[inline]
    pub(super) fn completed(&mut self, client: u32, host: usize) {
        self.clients[client as usize] += 1;
        self.hosts[host] += 1;
    }

    /// Transactions that were completed at this host of the job.
    pub fn at_host(&self, host: usize) -> u64 {
        self.hosts.get(host).copied().unwrap_or(0)
    }
}

/// Return the fairness over the clients of all threads; None without clients, or if no transaction
/// was completed.
///
/// Source of the coefficient: Gini 1912, by ranks: `sum((2 i - n - 1) x_i) / (n sum(x_i))` over the
/// values in rising order, i from 1.
pub fn fairness<'a>(threads: impl Iterator<Item = &'a Shares>) -> Option<Fairness> {
    let mut counts: Vec<u64> = threads.flat_map(|shares| shares.clients.iter().copied()).collect();
    counts.sort_unstable();
    let sum: u64 = counts.iter().sum();
    let (min, max) = (*counts.first()?, *counts.last()?);
    if sum == 0 {
        return None;
    }
    let clients = counts.len() as f64;
    let ranked = counts.iter().enumerate();
    let spread: f64 =
        ranked.map(|(place, &x)| (2.0 * place as f64 + 1.0 - clients) * x as f64).sum();
    Some(Fairness {
        clients: counts.len() as u64,
        completed_count_min: min,
        completed_count_max: max,
        gini_ratio: spread / (clients * sum as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[u64]) -> Option<Fairness> {
        let shares = Shares { clients: counts.to_vec(), ..Shares::default() };
        fairness([shares, Shares::default()].iter())
    }

    #[test]
    fn clients_served_alike_have_a_coefficient_of_zero() {
        let found = of(&[7, 7, 7]).unwrap();
        assert_eq!(
            (found.clients, found.completed_count_min, found.completed_count_max),
            (3, 7, 7)
        );
        assert_eq!(found.gini_ratio, 0.0);
    }

    #[test]
    fn one_client_of_n_that_got_everything_has_one_less_the_nth() {
        let found = of(&[0, 0, 40, 0]).unwrap();
        assert_eq!((found.completed_count_min, found.completed_count_max), (0, 40));
        assert_eq!(found.gini_ratio, 0.75);
    }

    #[test]
    fn the_coefficient_is_half_the_relative_mean_difference() {
        // Mean |x - y| over all pairs with themselves: (1 + 3 + 2) * 2 / 9 = 4/3; mean 7/3.
        let found = of(&[4, 1, 2]).unwrap();
        assert!((found.gini_ratio - (4.0 / 3.0) / (2.0 * 7.0 / 3.0)).abs() < 1e-12);
    }

    #[test]
    fn nothing_completed_is_no_fairness() {
        assert_eq!(of(&[0, 0]), None);
        assert_eq!(of(&[]), None);
    }
}
