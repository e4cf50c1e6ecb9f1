//! The statements of each transaction type, and their places in its list.
//!
//! Where the specification reads a row and then updates it, one UPDATE with RETURNING does both.
//! The rows for which many transactions wait (warehouse, district) are updated as late as possible.
//!
//! Three forms are those that Citus accepts: subqueries have columns, a CASE repeats its condition
//! instead of naming the value once, and text is joined by ||, because concat_ws is not immutable.

/// Queries that check the tables before the load.
pub(super) const MARK: &str =
    "SELECT pg_catalog.obj_description('warehouse'::regclass, 'pg_class')";
pub(super) const COUNTS: &str = "SELECT (SELECT count(*) FROM warehouse), \
     (SELECT min(w_id) FROM warehouse), (SELECT max(w_id) FROM warehouse), \
     (SELECT count(*) FROM district), (SELECT max(i_id) FROM item), \
     (SELECT count(*) FROM (SELECT c_id FROM customer LIMIT 1) AS c), \
     (SELECT count(*) FROM (SELECT s_i_id FROM stock LIMIT 1) AS s)";

/// Query for an index that the statements need and that is missing or not valid: its table and
/// columns.
pub(super) const MISSING_INDEX: &str = "SELECT min(name || ' (' || columns || ')') FROM (VALUES \
     ('warehouse', 'w_id'), ('district', 'd_w_id, d_id'), ('customer', 'c_w_id, c_d_id, c_id'), \
     ('customer', 'c_w_id, c_d_id, c_last'), ('new_order', 'no_w_id, no_d_id, no_o_id'), \
     ('orders', 'o_w_id, o_d_id, o_id'), ('orders', 'o_w_id, o_d_id, o_c_id'), \
     ('order_line', 'ol_w_id, ol_d_id, ol_o_id'), ('item', 'i_id'), ('stock', 's_w_id, s_i_id')) \
     AS wanted(name, columns) WHERE NOT EXISTS (SELECT FROM pg_index \
     WHERE indrelid = name::regclass::oid AND indisvalid AND indpred IS NULL AND starts_with(\
     (SELECT string_agg(attname::text, ', ' ORDER BY place) \
     FROM unnest(indkey::int2[]) WITH ORDINALITY AS k(number, place) \
     JOIN pg_attribute ON attrelid = indrelid AND attnum = number), columns))";

const COMMIT: &str = "COMMIT";
const BY_LAST_NAME: &str = "SELECT c_id FROM customer \
     WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first";

pub(super) mod new_order {
    pub(in super::super) const BEGIN: usize = 0;
    pub(in super::super) const WAREHOUSE: usize = 1;
    pub(in super::super) const CUSTOMER: usize = 2;
    pub(in super::super) const ITEMS: usize = 3;
    pub(in super::super) const STOCK: usize = 4;
    pub(in super::super) const DISTRICT: usize = 5;
    pub(in super::super) const ORDER: usize = 6;
    pub(in super::super) const NEW_ORDER: usize = 7;
    pub(in super::super) const LINES: usize = 8;
    pub(in super::super) const COMMIT: usize = 9;
    pub(in super::super) const ROLLBACK: usize = 10;
}

pub(super) fn new_order(begin: &str) -> Vec<String> {
    list(&[
        begin,
        "SELECT w_tax FROM warehouse WHERE w_id = $1",
        "SELECT c_discount, c_last, c_credit FROM customer \
         WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
        "SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id = ANY ($1::int[])",
        // If less than 10 would be left, 91 are added to the stock.
        "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $3::int + 10 \
         THEN s_quantity - $3::int ELSE s_quantity - $3::int + 91 END, \
         s_ytd = s_ytd + $3::int, s_order_cnt = s_order_cnt + 1, \
         s_remote_cnt = s_remote_cnt + $4::int WHERE s_w_id = $1 AND s_i_id = $2 \
         RETURNING CASE WHEN $5::int = 1 THEN s_dist_01 WHEN $5::int = 2 THEN s_dist_02 \
         WHEN $5::int = 3 THEN s_dist_03 WHEN $5::int = 4 THEN s_dist_04 \
         WHEN $5::int = 5 THEN s_dist_05 WHEN $5::int = 6 THEN s_dist_06 \
         WHEN $5::int = 7 THEN s_dist_07 WHEN $5::int = 8 THEN s_dist_08 \
         WHEN $5::int = 9 THEN s_dist_09 ELSE s_dist_10 END, s_quantity, s_data",
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
         RETURNING d_next_o_id - 1, d_tax",
        "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
         VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP, $5, $6)",
        "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)",
        "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, \
         ol_quantity, ol_amount, ol_dist_info) SELECT $1, $2, $3, l.* FROM unnest($4::int[], \
         $5::int[], $6::int[], $7::int[], $8::numeric[], $9::text[]) AS l",
        COMMIT,
        "ROLLBACK",
    ])
}

pub(super) mod payment {
    pub(in super::super) const BEGIN: usize = 0;
    pub(in super::super) const BY_LAST_NAME: usize = 1;
    pub(in super::super) const DISTRICT: usize = 2;
    pub(in super::super) const WAREHOUSE: usize = 3;
    pub(in super::super) const CUSTOMER: usize = 4;
    pub(in super::super) const HISTORY: usize = 5;
    pub(in super::super) const COMMIT: usize = 6;
}

pub(super) fn payment(begin: &str) -> Vec<String> {
    list(&[
        begin,
        BY_LAST_NAME,
        "UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2 \
         RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
        "UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1 \
         RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
        // If the customer has bad credit, this payment is put before the customer's data, of which
        // the first 500 characters are kept.
        "UPDATE customer SET c_balance = c_balance - $4::numeric, \
         c_ytd_payment = c_ytd_payment + $4::numeric, c_payment_cnt = c_payment_cnt + 1, \
         c_data = CASE WHEN c_credit = 'BC' THEN left(c_id::text || ' ' || c_d_id::text || ' ' \
         || c_w_id::text || ' ' || $5::int::text || ' ' || $6::int::text || ' ' \
         || $4::numeric::text || ' ' || c_data, 500) ELSE c_data END \
         WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 \
         RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, \
         c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, \
         CASE WHEN c_credit = 'BC' THEN left(c_data, 200) END",
        "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, \
         h_data) VALUES ($1, $2, $3, $4, $5, CURRENT_TIMESTAMP, $6, $7)",
        COMMIT,
    ])
}

pub(super) mod order_status {
    pub(in super::super) const BEGIN: usize = 0;
    pub(in super::super) const BY_LAST_NAME: usize = 1;
    pub(in super::super) const CUSTOMER: usize = 2;
    pub(in super::super) const ORDER: usize = 3;
    pub(in super::super) const LINES: usize = 4;
    pub(in super::super) const COMMIT: usize = 5;
}

pub(super) fn order_status(begin: &str) -> Vec<String> {
    list(&[
        begin,
        BY_LAST_NAME,
        "SELECT c_first, c_middle, c_last, c_balance FROM customer \
         WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
        "SELECT o_id, o_entry_d, o_carrier_id FROM orders \
         WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
         WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
        COMMIT,
    ])
}

pub(super) mod delivery {
    pub(in super::super) const BEGIN: usize = 0;
    pub(in super::super) const OLDEST: usize = 1;
    pub(in super::super) const ORDER: usize = 2;
    pub(in super::super) const LINES: usize = 3;
    pub(in super::super) const CUSTOMER: usize = 4;
    pub(in super::super) const COMMIT: usize = 5;
}

pub(super) fn delivery(begin: &str) -> Vec<String> {
    list(&[
        begin,
        // If two deliveries run at the same time, the second waits and then takes the next order.
        "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = \
         (SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
         ORDER BY no_o_id LIMIT 1 FOR UPDATE) RETURNING no_o_id",
        "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 \
         RETURNING o_c_id",
        "WITH delivered AS (UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP \
         WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 RETURNING ol_amount) \
         SELECT sum(ol_amount) FROM delivered",
        "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 \
         WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
        COMMIT,
    ])
}

pub(super) mod stock_level {
    pub(in super::super) const BEGIN: usize = 0;
    pub(in super::super) const DISTRICT: usize = 1;
    pub(in super::super) const LOW: usize = 2;
    pub(in super::super) const COMMIT: usize = 3;
}

pub(super) fn stock_level(begin: &str) -> Vec<String> {
    list(&[
        begin,
        "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2",
        // The items of the last 20 orders; each item is counted once.
        "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock \
         ON s_w_id = ol_w_id AND s_i_id = ol_i_id WHERE ol_w_id = $1 AND ol_d_id = $2 \
         AND ol_o_id < $3 AND ol_o_id >= $3::int - 20 AND s_quantity < $4",
        COMMIT,
    ])
}

fn list(statements: &[&str]) -> Vec<String> {
    statements.iter().map(|&sql| sql.to_owned()).collect()
}
