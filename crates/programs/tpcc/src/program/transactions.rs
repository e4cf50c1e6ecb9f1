//! The five transactions of clauses 2.4.2 to 2.8.2.
//!
//! The same code sends single statements and pipelines: statements whose results do not depend on
//! each other form a batch.
//! Limits: there is no screen. Values that only a screen would show are read from the server and
//! not used.

use super::inputs::{Customer, Delivery, Line, NewOrder, Place};
use super::run::{DEFERRED_DELIVERY, Run};
use super::sql::{delivery, new_order, order_status, payment, stock_level};
use pgdyno_engine::outcome::Stopped;
use pgdyno_engine::program::{Cents, Done, Parameter, Rows, Session, Unexpected};

/// Places of the counters of each type.
pub(super) const LINES: usize = 0;
pub(super) const REMOTE_LINES: usize = 1;
pub(super) const REMOTE_ORDERS: usize = 2;
pub(super) const REMOTE: usize = 0;
pub(super) const PAID_BY_LAST_NAME: usize = 1;
pub(super) const SEEN_BY_LAST_NAME: usize = 0;
pub(super) const DELIVERED_ORDERS: usize = 0;
pub(super) const SKIPPED_DISTRICTS: usize = 1;

/// Amount of each line that has an item, and the district's text from the stock of the item.
struct Priced {
    amounts: Vec<Cents>,
    dist_infos: Vec<String>,
}

impl Run {
    pub(super) async fn new_order(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let terminal = session.terminal();
        let order = session.random(|random| self.inputs().new_order(terminal, random));
        let Place { warehouse, district } = order.place;
        let mut batch = session.batch(self.is_pipeline);
        batch.add(new_order::BEGIN, &[]).await?;
        batch.add(new_order::WAREHOUSE, &[&warehouse]).await?;
        batch.add(new_order::CUSTOMER, &[&warehouse, &district, &order.customer]).await?;
        batch.add(new_order::ITEMS, &[&order.of_lines(|line| line.item)]).await?;
        for line in order.used_lines() {
            let is_remote = u32::from(line.supply_warehouse != warehouse);
            let of = (&line.supply_warehouse, &line.item, &line.quantity);
            batch.add(new_order::STOCK, &[of.0, of.1, of.2, &is_remote, &district]).await?;
        }
        batch.add(new_order::DISTRICT, &[&warehouse, &district]).await?;
        let (priced, order_id) = batch.results(|rows| read_order(rows, &order)).await?;

        let count = order.lines.len() as u32;
        let is_local = u32::from(order.remote_line_count() == 0);
        let key = (&order_id, &district, &warehouse);
        let own = (&order.customer, &count, &is_local);
        batch.add(new_order::ORDER, &[key.0, key.1, key.2, own.0, own.1, own.2]).await?;
        batch.add(new_order::NEW_ORDER, &[key.0, key.1, key.2]).await?;
        let found_count = priced.amounts.len();
        let of_lines = |number: fn(&Line) -> u32| {
            let mut numbers = order.of_lines(number);
            numbers.truncate(found_count);
            numbers
        };
        let numbers = of_lines(|line| line.number);
        let items = of_lines(|line| line.item);
        let supply_warehouses = of_lines(|line| line.supply_warehouse);
        let quantities = of_lines(|line| line.quantity);
        let values: [&dyn Parameter; 9] = [
            key.0,
            key.1,
            key.2,
            &numbers,
            &items,
            &supply_warehouses,
            &quantities,
            &priced.amounts,
            &priced.dist_infos,
        ];
        batch.add(new_order::LINES, &values).await?;
        // An item is not on sale: the user made a mistake, and the order is rolled back.
        let is_rolled_back = found_count < order.lines.len();
        let end = if is_rolled_back { new_order::ROLLBACK } else { new_order::COMMIT };
        batch.add(end, &[]).await?;
        let wrote = |rows: &mut Rows| {
            rows.wrote(1)?;
            rows.wrote(1)?;
            Ok(rows.wrote(found_count as u64)?)
        };
        batch.results(wrote).await?;
        self.count_order(session, &order);
        Ok(if is_rolled_back { Done::RolledBack } else { Done::Committed })
    }

    pub(super) fn count_order(&self, session: Session<'_>, order: &NewOrder) {
        let remote_lines = order.remote_line_count();
        session.count(LINES, order.lines.len() as u64);
        session.count(REMOTE_LINES, remote_lines);
        session.count(REMOTE_ORDERS, u64::from(remote_lines > 0));
    }

    pub(super) async fn payment(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let terminal = session.terminal();
        let paid = session.random(|random| self.inputs().payment(terminal, random));
        let Place { warehouse, district } = paid.place;
        let of = paid.customer_place;
        let amount = Cents(i64::from(paid.amount_cents));
        let mut batch = session.batch(self.is_pipeline);
        batch.add(payment::BEGIN, &[]).await?;
        if let Customer::LastName(name) = &paid.customer {
            batch.add(payment::BY_LAST_NAME, &[&of.warehouse, &of.district, name]).await?;
        }
        batch.add(payment::DISTRICT, &[&warehouse, &district, &amount]).await?;
        batch.add(payment::WAREHOUSE, &[&warehouse, &amount]).await?;
        let read = |rows: &mut Rows| {
            rows.wrote(0)?;
            let customer = found_customer(rows, &paid.customer)?;
            let (district_name,): (String,) = rows.one()?;
            let (warehouse_name,): (String,) = rows.one()?;
            Ok((customer, format!("{warehouse_name}    {district_name}")))
        };
        let (customer, data) = batch.results(read).await?;

        let place = (&of.warehouse, &of.district);
        let to = (&district, &warehouse);
        batch.add(payment::CUSTOMER, &[place.0, place.1, &customer, &amount, to.0, to.1]).await?;
        batch
            .add(payment::HISTORY, &[&customer, place.1, place.0, to.0, to.1, &amount, &data])
            .await?;
        batch.add(payment::COMMIT, &[]).await?;
        batch.results(|rows| Ok(rows.wrote(1).and_then(|()| rows.wrote(1))?)).await?;
        session.count(REMOTE, u64::from(of.warehouse != warehouse));
        session.count(PAID_BY_LAST_NAME, u64::from(paid.customer.is_by_last_name()));
        Ok(Done::Committed)
    }

    pub(super) async fn order_status(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let terminal = session.terminal();
        let asked = session.random(|random| self.inputs().order_status(terminal, random));
        let Place { warehouse, district } = asked.place;
        let mut batch = session.batch(self.is_pipeline);
        batch.add(order_status::BEGIN, &[]).await?;
        let customer = match &asked.customer {
            Customer::Number(number) => *number,
            Customer::LastName(name) => {
                batch.add(order_status::BY_LAST_NAME, &[&warehouse, &district, name]).await?;
                let read = |rows: &mut Rows| {
                    rows.wrote(0)?;
                    Ok(found_customer(rows, &asked.customer)?)
                };
                batch.results(read).await?
            }
        };
        batch.add(order_status::CUSTOMER, &[&warehouse, &district, &customer]).await?;
        batch.add(order_status::ORDER, &[&warehouse, &district, &customer]).await?;
        let read = |rows: &mut Rows| {
            if !asked.customer.is_by_last_name() {
                rows.wrote(0)?;
            }
            rows.one::<(String,)>()?;
            Ok(rows.one::<(u32,)>()?.0)
        };
        let order_id = batch.results(read).await?;

        batch.add(order_status::LINES, &[&warehouse, &district, &order_id]).await?;
        batch.add(order_status::COMMIT, &[]).await?;
        batch
            .results(|rows| match rows.count()? {
                5..=15 => Ok(()),
                _ => Err(Unexpected.into()),
            })
            .await?;
        session.count(SEEN_BY_LAST_NAME, u64::from(asked.customer.is_by_last_name()));
        Ok(Done::Committed)
    }

    pub(super) async fn delivery(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let terminal = session.terminal();
        let asked = session.random(|random| self.inputs().delivery(terminal, random));
        if self.is_deferred {
            session.defer(DEFERRED_DELIVERY, asked.to_work());
            return Ok(Done::Committed);
        }
        self.deliver_as_asked(session, asked).await
    }

    /// Execute a delivery that a terminal deferred.
    pub(super) async fn deferred_delivery(&self, session: Session<'_>) -> Result<Done, Stopped> {
        self.deliver_as_asked(session, Delivery::from_work(session.deferred_work())).await
    }

    async fn deliver_as_asked(
        &self,
        session: Session<'_>,
        asked: Delivery,
    ) -> Result<Done, Stopped> {
        match self.calls_procedures {
            true => self.call_delivery(session, asked).await,
            false => self.deliver(session, asked).await,
        }
    }

    /// Deliver the oldest open order of each district of a warehouse.
    pub(super) async fn deliver(
        &self,
        session: Session<'_>,
        asked: Delivery,
    ) -> Result<Done, Stopped> {
        let Delivery { warehouse, carrier } = asked;
        let mut batch = session.batch(self.is_pipeline);
        batch.add(delivery::BEGIN, &[]).await?;
        for district in 1..=10u32 {
            batch.add(delivery::OLDEST, &[&warehouse, &district]).await?;
        }
        let read = |rows: &mut Rows| {
            rows.wrote(0)?;
            let mut orders = Vec::with_capacity(10);
            for district in 1..=10u32 {
                let order: Option<(u32,)> = rows.maybe_one()?;
                orders.extend(order.map(|(order_id,)| (district, order_id)));
            }
            Ok(orders)
        };
        let orders: Vec<(u32, u32)> = batch.results(read).await?;

        for (district, order_id) in &orders {
            batch.add(delivery::ORDER, &[&warehouse, district, order_id, &carrier]).await?;
            batch.add(delivery::LINES, &[&warehouse, district, order_id]).await?;
        }
        let read = |rows: &mut Rows| {
            let mut owed = Vec::with_capacity(10);
            for _ in &orders {
                owed.push((rows.one::<(u32,)>()?.0, rows.one::<(Cents,)>()?.0));
            }
            Ok(owed)
        };
        let owed: Vec<(u32, Cents)> =
            if orders.is_empty() { Vec::new() } else { batch.results(read).await? };

        for ((district, _), (customer, amount)) in orders.iter().zip(&owed) {
            batch.add(delivery::CUSTOMER, &[&warehouse, district, customer, amount]).await?;
        }
        batch.add(delivery::COMMIT, &[]).await?;
        batch.results(|rows| Ok(owed.iter().try_for_each(|_| rows.wrote(1))?)).await?;
        session.count(DELIVERED_ORDERS, orders.len() as u64);
        session.count(SKIPPED_DISTRICTS, 10 - orders.len() as u64);
        Ok(Done::Committed)
    }

    pub(super) async fn stock_level(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let terminal = session.terminal();
        let asked = session.random(|random| self.inputs().stock_level(terminal, random));
        let Place { warehouse, district } = asked.place;
        let mut batch = session.batch(self.is_pipeline);
        batch.add(stock_level::BEGIN, &[]).await?;
        batch.add(stock_level::DISTRICT, &[&warehouse, &district]).await?;
        let read = |rows: &mut Rows| {
            rows.wrote(0)?;
            Ok(rows.one::<(u32,)>()?.0)
        };
        let next_order = batch.results(read).await?;

        let threshold = &asked.threshold;
        batch.add(stock_level::LOW, &[&warehouse, &district, &next_order, threshold]).await?;
        batch.add(stock_level::COMMIT, &[]).await?;
        batch.results(|rows| Ok(rows.one::<(i64,)>()?)).await?;
        Ok(Done::Committed)
    }
}

/// Read the results of the first batch: prices and stock of the lines that have an item, and the
/// number of the order.
fn read_order(rows: &mut Rows, order: &NewOrder) -> Result<(Priced, u32), Stopped> {
    rows.wrote(0)?;
    rows.one::<(f64,)>()?;
    rows.one::<(f64,)>()?;
    let mut prices: Vec<(u32, Cents)> = Vec::with_capacity(order.lines.len());
    while let Some(price) = rows.next_row()? {
        prices.push(price);
    }
    let mut priced = Priced { amounts: Vec::new(), dist_infos: Vec::new() };
    for line in order.used_lines() {
        let price = prices.iter().find(|(item, _)| *item == line.item).ok_or(Unexpected)?.1;
        priced.amounts.push(Cents(price.0 * i64::from(line.quantity)));
        priced.dist_infos.push(rows.one::<(String,)>()?.0);
    }
    let (order_id, _): (u32, f64) = rows.one()?;
    Ok((priced, order_id))
}

/// Return the number of the customer. Of the customers with a last name it is the one in the
/// middle, sorted by first name.
fn found_customer(rows: &mut Rows, asked: &Customer) -> Result<u32, Unexpected> {
    let Customer::Number(number) = asked else {
        let mut numbers: Vec<u32> = Vec::with_capacity(8);
        while let Some((number,)) = rows.next_row()? {
            numbers.push(number);
        }
        // The place n/2, rounded up, counted from 1.
        let middle = numbers.len().div_ceil(2).checked_sub(1).ok_or(Unexpected)?;
        return Ok(numbers[middle]);
    };
    Ok(*number)
}
