//! The rows of the nine tables, in COPY's text format.
//!
//! Each district has a separate stream of random numbers; for stock, each warehouse has one. So the
//! rows do not depend on how the work is divided.
//!
//! Source: TPC-C specification, clause 4.3.3.1.
//! Limits: all dates are `DATE`, not the time of the load, so that a seed always makes the same
//! rows.

use super::ddl::Table;
use crate::random::Random;
use crate::sizes::{
    A_LAST_NAME, CUSTOMERS_PER_DISTRICT, DISTRICTS_PER_WAREHOUSE, FIRST_OPEN_ORDER, ITEMS,
    LAST_NAMES, ORDERS_PER_DISTRICT, push_last_name,
};
use pgdyno_engine::dataset::partition_hash::partition_of;
use pgdyno_engine::dataset::piece::RowSource;

const DATE: &str = "2026-01-01 00:00:00";

/// Tag of the random stream that orders and their lines share.
const ORDER_STREAM: u32 = 100;

/// Rows of one table, or of one of its hash partitions.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    table: Table,
    seed: u64,
    /// NURand's C for last names.
    c_last: u32,
    /// The first and the last warehouse.
    first: u32,
    last: u32,
    /// Modulus and remainder of the partition.
    partition: Option<(u32, u32)>,
    warehouse: u32,
    district: u32,
    /// Number of the row within the district, or within the warehouse if there are no districts.
    row: u32,
    /// Number of the order line within the order.
    line: u32,
    random: Random,
    /// The customers of the district's orders, by order.
    customers: Vec<u32>,
}

impl Rows {
    pub(super) fn new(
        table: Table,
        (seed, c_last): (u64, u32),
        (first, last): (u32, u32),
        partition: Option<(u32, u32)>,
    ) -> Rows {
        let mut rows = Rows {
            table,
            seed,
            c_last,
            first,
            last: if table == Table::Item { 1 } else { last },
            partition,
            warehouse: first - 1,
            district: 0,
            row: 1,
            line: 1,
            random: Random::of(seed, [0; 4]),
            customers: Vec::new(),
        };
        rows.next_warehouse();
        rows
    }

    fn next_warehouse(&mut self) {
        self.warehouse += 1;
        if let Some((modulus, remainder)) = self.partition {
            while self.warehouse <= self.last
                && partition_of(u64::from(self.warehouse), false, modulus) != remainder
            {
                self.warehouse += 1;
            }
        }
        self.district = 1;
        self.begin();
    }

    /// Begin a district, or a warehouse if there are no districts.
    fn begin(&mut self) {
        let place = [self.table as u32, self.warehouse, self.district, 0];
        self.random = Random::of(self.seed, place);
        self.row = if self.table == Table::NewOrder { FIRST_OPEN_ORDER } else { 1 };
        self.line = 1;
        if self.table == Table::Orders {
            self.customers = self.random.permutation(CUSTOMERS_PER_DISTRICT);
        }
    }

    fn last_row(&self) -> u32 {
        match self.table {
            Table::Warehouse | Table::District => 1,
            Table::Customer | Table::History => CUSTOMERS_PER_DISTRICT,
            Table::Orders | Table::NewOrder | Table::OrderLine => ORDERS_PER_DISTRICT,
            Table::Item | Table::Stock => ITEMS,
        }
    }

    fn has_districts(&self) -> bool {
        !matches!(self.table, Table::Warehouse | Table::Item | Table::Stock)
    }

    /// Number of lines of the present order, 5 to 15. Each call returns the same number.
    fn line_count(&self) -> u32 {
        let place = [ORDER_STREAM, self.warehouse, self.district, self.row];
        Random::of(self.seed, place).within(5, 15)
    }

    fn advance(&mut self) {
        if self.table == Table::OrderLine && self.line < self.line_count() {
            self.line += 1;
            return;
        }
        self.line = 1;
        self.row += 1;
        if self.row <= self.last_row() {
            return;
        }
        if self.has_districts() && self.district < DISTRICTS_PER_WAREHOUSE {
            self.district += 1;
            self.begin();
        } else {
            self.next_warehouse();
        }
    }

    fn push_row(&mut self, out: &mut Vec<u8>) {
        let mut line = Line { out, random: &mut self.random, is_begun: false };
        let (w, d, row) = (self.warehouse, self.district, self.row);
        match self.table {
            Table::Warehouse => {
                line.number(w).address_of(true).tax().literal("300000.00");
            }
            Table::District => {
                line.number(d).number(w).address_of(true).tax().literal("30000.00").number(3001);
            }
            Table::Customer => {
                line.number(row).number(d).number(w).customer(row, self.c_last);
            }
            Table::History => {
                line.number(row).number(d).number(w).number(d).number(w);
                line.literal(DATE).literal("10.00").text(12, 24);
            }
            Table::NewOrder => {
                line.number(row).number(d).number(w);
            }
            Table::Orders => {
                let customer = self.customers[row as usize - 1];
                line.number(row).number(d).number(w).number(customer).literal(DATE);
                match row < FIRST_OPEN_ORDER {
                    true => line.random_number(1, 10),
                    false => line.literal("\\N"),
                };
                let place = [ORDER_STREAM, w, d, row];
                line.number(Random::of(self.seed, place).within(5, 15)).literal("1");
            }
            Table::OrderLine => {
                let is_delivered = row < FIRST_OPEN_ORDER;
                line.number(row).number(d).number(w).number(self.line);
                line.random_number(1, ITEMS).number(w);
                line.literal(if is_delivered { DATE } else { "\\N" }).literal("5");
                match is_delivered {
                    true => line.literal("0.00"),
                    false => line.cents(1, 999_999),
                };
                line.text(24, 24);
            }
            Table::Item => {
                line.number(row)
                    .random_number(1, 10_000)
                    .text(14, 24)
                    .cents(100, 10_000)
                    .original();
            }
            Table::Stock => {
                line.number(row).number(w).random_number(10, 100);
                for _ in 0..DISTRICTS_PER_WAREHOUSE {
                    line.text(24, 24);
                }
                line.literal("0").literal("0").literal("0").original();
            }
        }
        out.push(b'\n');
    }
}

impl RowSource for Rows {
    fn fill(&mut self, out: &mut Vec<u8>, size: usize) -> u64 {
        let mut count = 0;
        while out.len() < size && self.warehouse <= self.last {
            self.push_row(out);
            self.advance();
            count += 1;
        }
        count
    }

    /// The count is an estimate: all partitions count as equally large, and each order as ten
    /// lines, which is the mean.
    fn count(&self) -> u64 {
        let count = self.table.rows_of(self.last + 1 - self.first);
        self.partition.map_or(count, |(modulus, _)| count / u64::from(modulus))
    }
}

/// A row that is being written: columns with tabs between them.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    random: &'a mut Random,
    is_begun: bool,
}

impl Line<'_> {
    fn tab(&mut self) {
        if self.is_begun {
            self.out.push(b'\t');
        }
        self.is_begun = true;
    }

    fn literal(&mut self, text: &str) -> &mut Self {
        self.tab();
        self.out.extend_from_slice(text.as_bytes());
        self
    }

    fn number(&mut self, number: u32) -> &mut Self {
        self.tab();
        push_number(self.out, number);
        self
    }

    fn random_number(&mut self, low: u32, high: u32) -> &mut Self {
        let number = self.random.within(low, high);
        self.number(number)
    }

    fn text(&mut self, least: u32, most: u32) -> &mut Self {
        self.tab();
        self.random.push_text(self.out, least, most);
        self
    }

    /// A random amount of money between `low` and `high` cents, written with two decimals.
    fn cents(&mut self, low: u32, high: u32) -> &mut Self {
        let cents = self.random.within(low, high);
        self.number(cents / 100);
        let rest = cents % 100;
        self.out.extend_from_slice(&[b'.', b'0' + (rest / 10) as u8, b'0' + (rest % 10) as u8]);
        self
    }

    /// A random number from 0.0000 to `most` ten thousandths.
    fn ten_thousandths(&mut self, most: u32) -> &mut Self {
        let value = self.random.within(0, most);
        self.tab();
        self.out.extend_from_slice(b"0.");
        let digits = [value / 1000, value / 100 % 10, value / 10 % 10, value % 10];
        self.out.extend(digits.map(|digit| b'0' + digit as u8));
        self
    }

    fn tax(&mut self) -> &mut Self {
        self.ten_thousandths(2000)
    }

    /// Name (of warehouses and districts), two streets, city, state, zip code.
    fn address_of(&mut self, has_name: bool) -> &mut Self {
        if has_name {
            self.text(6, 10);
        }
        self.text(10, 20).text(10, 20).text(10, 20);
        self.tab();
        for _ in 0..2 {
            self.out.push(b'A' + self.random.within(0, 25) as u8);
        }
        self.tab();
        self.random.push_digits(self.out, 4);
        self.out.extend_from_slice(b"11111");
        self
    }

    fn customer(&mut self, id: u32, c_last: u32) -> &mut Self {
        self.text(8, 16).literal("OE");
        let name = match id <= LAST_NAMES {
            true => id - 1,
            false => self.random.nurand(A_LAST_NAME, c_last, 0, LAST_NAMES - 1),
        };
        self.tab();
        push_last_name(self.out, name);
        self.address_of(false).tab();
        self.random.push_digits(self.out, 16);
        let is_bad = self.random.within(1, 10) == 1;
        self.literal(DATE).literal(if is_bad { "BC" } else { "GC" }).literal("50000.00");
        self.ten_thousandths(5000).literal("-10.00").literal("10.00").literal("1").literal("0");
        self.text(300, 500)
    }

    /// 26 to 50 letters; a tenth of the texts, chosen at random, contain "ORIGINAL".
    fn original(&mut self) -> &mut Self {
        self.text(26, 50);
        if self.random.within(1, 10) == 1 {
            let begin = self.out.iter().rposition(|byte| *byte == b'\t').map_or(0, |at| at + 1);
            let length = (self.out.len() - begin) as u32;
            let at = begin + self.random.within(0, length - 8) as usize;
            self.out[at..at + 8].copy_from_slice(b"ORIGINAL");
        }
        self
    }
}

fn push_number(out: &mut Vec<u8>, number: u32) {
    let mut digits = [b'0'; 10];
    let mut begin = digits.len();
    let mut left = number;
    loop {
        begin -= 1;
        digits[begin] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[begin..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(mut rows: Rows, size: usize) -> String {
        let mut all = Vec::new();
        loop {
            let mut buffer = Vec::new();
            if rows.fill(&mut buffer, size) == 0 {
                return String::from_utf8(all).expect("rows are ASCII");
            }
            all.extend(buffer);
        }
    }

    fn rows(table: Table, warehouses: u32, partition: Option<(u32, u32)>) -> Rows {
        Rows::new(table, (1, 157), (1, warehouses), partition)
    }

    #[test]
    fn lines_of_orders_are_as_many_as_their_orders_say() {
        let orders = text(rows(Table::Orders, 1, None), 4096);
        let said: u32 = orders.lines().map(|line| column(line, 6).parse::<u32>().unwrap()).sum();
        let lines = text(rows(Table::OrderLine, 1, None), 5000);
        assert_eq!(lines.lines().count() as u32, said);
        assert_eq!(orders.lines().count(), 30_000);
        let mut customers: Vec<u32> =
            orders.lines().take(3000).map(|line| column(line, 3).parse().unwrap()).collect();
        customers.sort_unstable();
        assert!(customers.into_iter().eq(1..=3000));
        let open = lines.lines().filter(|line| column(line, 6) == "\\N");
        assert!(open.clone().all(|line| column(line, 8) != "0.00"));
        let delivered = lines.lines().filter(|line| column(line, 6) != "\\N");
        assert!(delivered.clone().all(|line| column(line, 8) == "0.00"));
        assert!((open.count() as f64 / lines.lines().count() as f64 - 0.3).abs() < 0.01);
    }

    fn column(line: &str, number: usize) -> &str {
        line.split('\t').nth(number).expect("a column")
    }

    #[test]
    fn partitions_have_every_row_once_and_the_rows_of_the_whole() {
        let whole = text(rows(Table::NewOrder, 5, None), 999);
        let mut parts: Vec<String> = (0..3)
            .flat_map(|r| {
                let part = text(rows(Table::NewOrder, 5, Some((3, r))), 100);
                part.lines().map(String::from).collect::<Vec<_>>()
            })
            .collect();
        let mut expected: Vec<String> = whole.lines().map(String::from).collect();
        parts.sort();
        expected.sort();
        assert_eq!(parts, expected);
        let range = |first, last| Rows::new(Table::NewOrder, (1, 157), (first, last), None);
        assert_eq!(text(range(1, 2), 99) + &text(range(3, 5), 99), whole);
    }

    #[test]
    fn a_tenth_has_bad_credit_and_a_tenth_is_original() {
        let customers = text(rows(Table::Customer, 1, None), 65_536);
        let bad = customers.lines().filter(|line| column(line, 13) == "BC").count();
        assert!((2700..3300).contains(&bad), "{bad}");
        assert_eq!(column(customers.lines().next().unwrap(), 5), "BARBARBAR");
        let items = text(rows(Table::Item, 7, None), 65_536);
        assert_eq!(items.lines().count(), 100_000);
        let original = items.lines().filter(|line| line.contains("ORIGINAL")).count();
        assert!((9_500..10_500).contains(&original), "{original}");
    }
}
