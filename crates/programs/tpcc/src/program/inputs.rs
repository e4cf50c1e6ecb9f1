//! Draws the input that a terminal enters for each transaction type, by clauses 2.4.1 to 2.8.1.

use pgdyno_script::Prng;

use crate::sizes::{Constants, DISTRICTS_PER_WAREHOUSE, ITEMS, push_last_name};

/// Maximum number of lines of an order.
const LINES_MAX: i64 = 15;
/// No item has this number.
const UNUSED_ITEM: u32 = ITEMS + 1;

/// What the inputs of a run depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    pub(super) constants: Constants,
    pub(super) warehouses: u32,
    pub(super) terminals: u32,
    pub(super) is_home_fixed: bool,
}

/// A district of a warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) warehouse: u32,
    pub(super) district: u32,
}

/// How a customer is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Customer {
    Number(u32),
    LastName(String),
}

impl Customer {
    pub(super) fn is_by_last_name(&self) -> bool {
        matches!(self, Customer::LastName(_))
    }
}

#[derive(Clone, Debug)]
pub(super) struct NewOrder {
    pub(super) place: Place,
    pub(super) customer: u32,
    /// The lines in the order in which stock is updated: by warehouse and item, the unused item
    /// last.
    pub(super) lines: Vec<Line>,
}

/// A line of an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Position of the line as the terminal's user entered it, from 1.
    pub(super) number: u32,
    pub(super) item: u32,
    pub(super) supply_warehouse: u32,
    pub(super) quantity: u32,
}

impl NewOrder {
    pub(super) fn remote_line_count(&self) -> u64 {
        let is_remote = |line: &&Line| line.supply_warehouse != self.place.warehouse;
        self.lines.iter().filter(is_remote).count() as u64
    }

    /// Return all lines but the one with the unused item.
    pub(super) fn used_lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.item != UNUSED_ITEM)
    }

    /// Return one number of each line, as a parameter of a statement.
    pub(super) fn of_lines(&self, number: impl Fn(&Line) -> u32) -> Vec<u32> {
        self.lines.iter().map(number).collect()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Payment {
    pub(super) place: Place,
    pub(super) customer_place: Place,
    pub(super) customer: Customer,
    pub(super) amount_cents: u32,
}

#[derive(Clone, Debug)]
pub(super) struct OrderStatus {
    pub(super) place: Place,
    pub(super) customer: Customer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) warehouse: u32,
    pub(super) carrier: u32,
}

impl Delivery {
    /// Return the delivery as the number that waits in the queue.
    pub(super) fn to_work(self) -> u64 {
        u64::from(self.warehouse) << 32 | u64::from(self.carrier)
    }

    pub(super) fn from_work(work: u64) -> Delivery {
        Delivery { warehouse: (work >> 32) as u32, carrier: work as u32 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StockLevel {
    pub(super) place: Place,
    pub(super) threshold: u32,
}

impl Inputs {
    /// Draw the input of a New-Order (clause 2.4.1).
    pub(super) fn new_order(&self, terminal: u32, random: &mut Prng) -> NewOrder {
        let place = self.place(terminal, random);
        let customer = self.constants.customer(random);
        let line_count = random.uniform(5, LINES_MAX) as u32;
        let is_rolled_back = random.uniform(1, 100) == 1;
        let line = |number| {
            let item = self.constants.item(random);
            let is_remote = random.uniform(1, 100) == 1;
            let supply_warehouse =
                if is_remote { self.other(place.warehouse, random) } else { place.warehouse };
            let quantity = random.uniform(1, 10) as u32;
            Line { number, item, supply_warehouse, quantity }
        };
        let mut lines: Vec<Line> = (1..=line_count).map(line).collect();
        if let (true, Some(last)) = (is_rolled_back, lines.last_mut()) {
            last.item = UNUSED_ITEM;
        }
        // All terminals update stock in the same order. So two orders never wait for each other.
        lines.sort_by_key(|line| (line.item == UNUSED_ITEM, line.supply_warehouse, line.item));
        NewOrder { place, customer, lines }
    }

    /// Draw the input of a Payment (clause 2.5.1).
    pub(super) fn payment(&self, terminal: u32, random: &mut Prng) -> Payment {
        let place = self.place(terminal, random);
        let customer_place = match random.uniform(1, 100) {
            1..=85 => place,
            _ => {
                Place { warehouse: self.other(place.warehouse, random), district: district(random) }
            }
        };
        let customer = self.customer(random);
        let amount_cents = random.uniform(100, 500_000) as u32;
        Payment { place, customer_place, customer, amount_cents }
    }

    /// Draw the input of an Order-Status (clause 2.6.1).
    pub(super) fn order_status(&self, terminal: u32, random: &mut Prng) -> OrderStatus {
        let place = self.place(terminal, random);
        OrderStatus { place, customer: self.customer(random) }
    }

    /// Draw the input of a Delivery (clause 2.7.1).
    pub(super) fn delivery(&self, terminal: u32, random: &mut Prng) -> Delivery {
        let warehouse = self.home(terminal, random);
        Delivery { warehouse, carrier: random.uniform(1, 10) as u32 }
    }

    /// Draw the input of a Stock-Level (clause 2.8.1). The district of a terminal stays the same.
    pub(super) fn stock_level(&self, terminal: u32, random: &mut Prng) -> StockLevel {
        let warehouse = self.home(terminal, random);
        let number = match self.terminals < self.warehouses {
            true => terminal,
            false => terminal / self.warehouses,
        };
        let district = number % DISTRICTS_PER_WAREHOUSE + 1;
        let threshold = random.uniform(10, 20) as u32;
        StockLevel { place: Place { warehouse, district }, threshold }
    }

    fn place(&self, terminal: u32, random: &mut Prng) -> Place {
        Place { warehouse: self.home(terminal, random), district: district(random) }
    }

    /// Return the home warehouse. If the terminal has several warehouses, draw one of them.
    fn home(&self, terminal: u32, random: &mut Prng) -> u32 {
        if !self.is_home_fixed {
            return random.uniform(1, i64::from(self.warehouses)) as u32;
        }
        if self.terminals >= self.warehouses {
            return terminal % self.warehouses + 1;
        }
        let own_count = (self.warehouses - 1 - terminal) / self.terminals + 1;
        let number = random.uniform(0, i64::from(own_count) - 1) as u32;
        terminal + self.terminals * number + 1
    }

    /// Draw another warehouse than `home`. If there is only one, return it.
    fn other(&self, home: u32, random: &mut Prng) -> u32 {
        if self.warehouses == 1 {
            return home;
        }
        let drawn = random.uniform(1, i64::from(self.warehouses) - 1) as u32;
        drawn + u32::from(drawn >= home)
    }

    fn customer(&self, random: &mut Prng) -> Customer {
        if random.uniform(1, 100) > 60 {
            return Customer::Number(self.constants.customer(random));
        }
        let mut name = Vec::with_capacity(16);
        push_last_name(&mut name, self.constants.last_name_number(random));
        Customer::LastName(String::from_utf8(name).expect("syllables are letters"))
    }
}

fn district(random: &mut Prng) -> u32 {
    random.uniform(1, i64::from(DISTRICTS_PER_WAREHOUSE)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(warehouses: u32, terminals: u32) -> Inputs {
        let constants = Constants::of_run(&mut Prng::from_seed(1), 157);
        Inputs { constants, warehouses, terminals, is_home_fixed: true }
    }

    /// Return whether a share is within 4.5 standard errors of the expected share.
    fn is_near(hits: usize, of: usize, share: f64) -> bool {
        let error = (share * (1.0 - share) / of as f64).sqrt();
        (hits as f64 / of as f64 - share).abs() < 4.5 * error
    }

    #[test]
    fn orders_have_the_specified_shares_and_an_order_for_locks() {
        let (inputs, mut random) = (inputs(7, 70), Prng::from_seed(5));
        let orders: Vec<_> = (0..20_000).map(|_| inputs.new_order(3, &mut random)).collect();
        let is_rolled_back =
            |order: &&NewOrder| order.lines.iter().any(|line| line.item == UNUSED_ITEM);
        let lines: usize = orders.iter().map(|order| order.lines.len()).sum();
        let remote: u64 = orders.iter().map(NewOrder::remote_line_count).sum();
        assert!(is_near(orders.iter().filter(is_rolled_back).count(), orders.len(), 0.01));
        assert!(is_near(remote as usize, lines, 0.01));
        // 5 to 15 lines: mean 10, standard deviation of a mean 0.022.
        assert!((lines as f64 / orders.len() as f64 - 10.0).abs() < 0.1);
        for order in &orders {
            assert_eq!(order.place.warehouse, 4);
            let items: Vec<_> = order.lines.iter().map(|l| (l.supply_warehouse, l.item)).collect();
            let used = items.iter().position(|line| line.1 == UNUSED_ITEM).unwrap_or(items.len());
            assert!(items[..used].is_sorted() && used + 1 >= items.len(), "{items:?}");
            let mut numbers = order.of_lines(|line| line.number);
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(1..=order.lines.len() as u32));
            if let Some(last) = order.lines.last().filter(|line| line.item == UNUSED_ITEM) {
                assert_eq!(last.number as usize, order.lines.len());
            }
        }
    }

    #[test]
    fn payments_have_the_specified_shares() {
        let (several, single, mut random) = (inputs(3, 3), inputs(1, 3), Prng::from_seed(7));
        let payments: Vec<_> = (0..20_000).map(|_| several.payment(1, &mut random)).collect();
        let is_remote =
            |payment: &&Payment| payment.customer_place.warehouse != payment.place.warehouse;
        let is_by_name = |payment: &&Payment| payment.customer.is_by_last_name();
        assert!(is_near(payments.iter().filter(is_remote).count(), payments.len(), 0.15));
        assert!(is_near(payments.iter().filter(is_by_name).count(), payments.len(), 0.60));
        assert!(payments.iter().all(|p| (100..=500_000).contains(&p.amount_cents)));
        assert!((0..500).all(|_| single.payment(2, &mut random).customer_place.warehouse == 1));
    }

    #[test]
    fn every_warehouse_is_the_home_of_a_terminal_however_many_there_are() {
        let mut random = Prng::from_seed(9);
        for (warehouses, terminals) in [(10, 3), (3, 10), (7, 7), (1, 5)] {
            let inputs = inputs(warehouses, terminals);
            let mut owners = vec![Vec::new(); warehouses as usize];
            for terminal in 0..terminals {
                for _ in 0..200 {
                    let home = inputs.home(terminal, &mut random) as usize - 1;
                    if !owners[home].contains(&terminal) {
                        owners[home].push(terminal);
                    }
                }
            }
            assert!(owners.iter().all(|owners| !owners.is_empty()), "{warehouses} {terminals}");
            assert!(terminals > warehouses || owners.iter().all(|owners| owners.len() == 1));
        }
        let uniform = Inputs { is_home_fixed: false, ..inputs(10, 2) };
        let hits = (0..10_000).filter(|_| uniform.home(0, &mut random) == 10).count();
        assert!(is_near(hits, 10_000, 0.1));
    }

    #[test]
    fn a_terminal_of_ten_to_a_warehouse_has_its_own_district_for_stock_levels() {
        let (inputs, mut random) = (inputs(4, 40), Prng::from_seed(2));
        let mut places: Vec<_> = (0..40)
            .map(|terminal| inputs.stock_level(terminal, &mut random).place)
            .map(|place| (place.warehouse, place.district))
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 40);
    }
}
