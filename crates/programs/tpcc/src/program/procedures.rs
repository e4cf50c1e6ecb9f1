//! The transactions as PL/pgSQL procedures: one round trip each.
//!
//! The engine creates them before the load. Each has a comment with the fingerprint of its text. So
//! a procedure of another version of pgdyno is recognised and replaced, and a procedure without our
//! comment is refused.

use super::inputs::{Customer, Delivery, Place};
use super::run::Run;
use super::transactions::{
    DELIVERED_ORDERS, PAID_BY_LAST_NAME, REMOTE, SEEN_BY_LAST_NAME, SKIPPED_DISTRICTS,
};
use pgdyno_engine::contract::record::WarningKind;
use pgdyno_engine::outcome::{Remark, Stopped};
use pgdyno_engine::program::{Cents, Done, Rows, Session, Unexpected, Unready};

/// Begin of the comment on each procedure.
const COMMENT: &str = "pgdyno tpcc procedure ";
/// Key of the advisory lock that a thread holds while it creates the procedures.
const LOCK: i64 = 0x7067_6479_6e6f_7470;

const ALL: [(&str, &str); 5] = [
    ("pgdyno_tpcc_new_order", NEW_ORDER),
    ("pgdyno_tpcc_payment", PAYMENT),
    ("pgdyno_tpcc_order_status", ORDER_STATUS),
    ("pgdyno_tpcc_delivery", DELIVERY),
    ("pgdyno_tpcc_stock_level", STOCK_LEVEL),
];

/// The CALL statement of each type, in the order of the types.
pub(super) const CALLS: [&str; 5] = [
    "CALL pgdyno_tpcc_new_order($1, $2, $3, $4, $5, $6, $7, $8, NULL, NULL)",
    "CALL pgdyno_tpcc_payment($1, $2, $3, $4, $5, $6, $7)",
    "CALL pgdyno_tpcc_order_status($1, $2, $3, $4, NULL)",
    "CALL pgdyno_tpcc_delivery($1, $2, NULL)",
    "CALL pgdyno_tpcc_stock_level($1, $2, $3, NULL)",
];
const CALL: usize = 0;

const NEW_ORDER: &str = "(p_w_id int, p_d_id int, p_c_id int, p_all_local int, p_numbers int[], \
p_items int[], p_supply int[], p_quantities int[], INOUT p_found int, INOUT p_total numeric)
LANGUAGE plpgsql AS $procedure$
DECLARE
  v_w_tax numeric; v_d_tax numeric; v_discount numeric; v_c_last text; v_c_credit text;
  v_o_id int; v_price numeric; v_i_name text; v_i_data text; v_dist text; v_quantity int;
  v_s_data text; v_amounts numeric[]; v_dists text[];
BEGIN
  SELECT w_tax INTO STRICT v_w_tax FROM warehouse WHERE w_id = p_w_id;
  SELECT c_discount, c_last, c_credit INTO STRICT v_discount, v_c_last, v_c_credit
    FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
  p_found := 0;
  p_total := 0;
  FOR line IN 1 .. cardinality(p_items) LOOP
    SELECT i_price, i_name, i_data INTO v_price, v_i_name, v_i_data
      FROM item WHERE i_id = p_items[line];
    -- The item that nobody sells is the last one.
    EXIT WHEN NOT FOUND;
    UPDATE stock SET
        s_quantity = CASE WHEN s_quantity >= p_quantities[line] + 10
          THEN s_quantity - p_quantities[line] ELSE s_quantity - p_quantities[line] + 91 END,
        s_ytd = s_ytd + p_quantities[line],
        s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + CASE WHEN p_supply[line] = p_w_id THEN 0 ELSE 1 END
      WHERE s_w_id = p_supply[line] AND s_i_id = p_items[line]
      RETURNING CASE WHEN p_d_id = 1 THEN s_dist_01 WHEN p_d_id = 2 THEN s_dist_02
          WHEN p_d_id = 3 THEN s_dist_03 WHEN p_d_id = 4 THEN s_dist_04
          WHEN p_d_id = 5 THEN s_dist_05 WHEN p_d_id = 6 THEN s_dist_06
          WHEN p_d_id = 7 THEN s_dist_07 WHEN p_d_id = 8 THEN s_dist_08
          WHEN p_d_id = 9 THEN s_dist_09 ELSE s_dist_10 END, s_quantity, s_data
      INTO STRICT v_dist, v_quantity, v_s_data;
    v_amounts[line] := v_price * p_quantities[line];
    v_dists[line] := v_dist;
    p_total := p_total + v_amounts[line];
    p_found := line;
  END LOOP;
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = p_w_id AND d_id = p_d_id
    RETURNING d_next_o_id - 1, d_tax INTO STRICT v_o_id, v_d_tax;
  INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (v_o_id, p_d_id, p_w_id, p_c_id, CURRENT_TIMESTAMP, cardinality(p_items), p_all_local);
  INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (v_o_id, p_d_id, p_w_id);
  INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
      ol_quantity, ol_amount, ol_dist_info)
    SELECT v_o_id, p_d_id, p_w_id, l.* FROM unnest(p_numbers[1:p_found], p_items[1:p_found],
      p_supply[1:p_found], p_quantities[1:p_found], v_amounts, v_dists) AS l;
  p_total := p_total * (1 - v_discount) * (1 + v_w_tax + v_d_tax);
  IF p_found < cardinality(p_items) THEN
    ROLLBACK;
  END IF;
END
$procedure$";

const PAYMENT: &str = "(p_w_id int, p_d_id int, p_c_w_id int, p_c_d_id int, INOUT p_c_id int, \
p_c_last text, p_amount numeric)
LANGUAGE plpgsql AS $procedure$
DECLARE
  v_ids int[]; v_warehouse warehouse; v_district district; v_customer customer;
BEGIN
  IF p_c_last IS NOT NULL THEN
    SELECT array_agg(c_id ORDER BY c_first) INTO STRICT v_ids FROM customer
      WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last;
    p_c_id := v_ids[(cardinality(v_ids) + 1) / 2];
  END IF;
  UPDATE district SET d_ytd = d_ytd + p_amount WHERE d_w_id = p_w_id AND d_id = p_d_id
    RETURNING * INTO STRICT v_district;
  UPDATE warehouse SET w_ytd = w_ytd + p_amount WHERE w_id = p_w_id
    RETURNING * INTO STRICT v_warehouse;
  UPDATE customer SET c_balance = c_balance - p_amount, c_ytd_payment = c_ytd_payment + p_amount,
      c_payment_cnt = c_payment_cnt + 1,
      c_data = CASE WHEN c_credit = 'BC' THEN left(c_id::text || ' ' || c_d_id::text || ' '
        || c_w_id::text || ' ' || p_d_id::text || ' ' || p_w_id::text || ' '
        || p_amount::text || ' ' || c_data, 500) ELSE c_data END
    WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id
    RETURNING * INTO STRICT v_customer;
  INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, CURRENT_TIMESTAMP, p_amount,
      v_warehouse.w_name || '    ' || v_district.d_name);
END
$procedure$";

const ORDER_STATUS: &str = "(p_w_id int, p_d_id int, INOUT p_c_id int, p_c_last text, \
INOUT p_items int[])
LANGUAGE plpgsql AS $procedure$
DECLARE
  v_ids int[]; v_customer record; v_order record; v_supply int[]; v_quantities int[];
  v_amounts numeric[]; v_dates timestamp[];
BEGIN
  IF p_c_last IS NOT NULL THEN
    SELECT array_agg(c_id ORDER BY c_first) INTO STRICT v_ids FROM customer
      WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last;
    p_c_id := v_ids[(cardinality(v_ids) + 1) / 2];
  END IF;
  SELECT c_first, c_middle, c_last, c_balance INTO STRICT v_customer FROM customer
    WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
  SELECT o_id, o_entry_d, o_carrier_id INTO STRICT v_order FROM orders
    WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_c_id = p_c_id ORDER BY o_id DESC LIMIT 1;
  SELECT array_agg(ol_i_id), array_agg(ol_supply_w_id), array_agg(ol_quantity),
      array_agg(ol_amount), array_agg(ol_delivery_d)
    INTO STRICT p_items, v_supply, v_quantities, v_amounts, v_dates FROM order_line
    WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id = v_order.o_id;
END
$procedure$";

const DELIVERY: &str = "(p_w_id int, p_carrier int, INOUT p_delivered int)
LANGUAGE plpgsql AS $procedure$
DECLARE
  v_o_id int; v_c_id int; v_amount numeric;
BEGIN
  p_delivered := 0;
  FOR district IN 1 .. 10 LOOP
    DELETE FROM new_order WHERE no_w_id = p_w_id AND no_d_id = district AND no_o_id =
        (SELECT no_o_id FROM new_order WHERE no_w_id = p_w_id AND no_d_id = district
          ORDER BY no_o_id LIMIT 1 FOR UPDATE)
      RETURNING no_o_id INTO v_o_id;
    CONTINUE WHEN NOT FOUND;
    UPDATE orders SET o_carrier_id = p_carrier
      WHERE o_w_id = p_w_id AND o_d_id = district AND o_id = v_o_id
      RETURNING o_c_id INTO STRICT v_c_id;
    WITH delivered AS (UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP
        WHERE ol_w_id = p_w_id AND ol_d_id = district AND ol_o_id = v_o_id RETURNING ol_amount)
      SELECT sum(ol_amount) INTO STRICT v_amount FROM delivered;
    UPDATE customer SET c_balance = c_balance + v_amount, c_delivery_cnt = c_delivery_cnt + 1
      WHERE c_w_id = p_w_id AND c_d_id = district AND c_id = v_c_id;
    p_delivered := p_delivered + 1;
  END LOOP;
END
$procedure$";

const STOCK_LEVEL: &str = "(p_w_id int, p_d_id int, p_threshold int, INOUT p_low bigint)
LANGUAGE plpgsql AS $procedure$
DECLARE
  v_next int;
BEGIN
  SELECT d_next_o_id INTO STRICT v_next FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id;
  SELECT count(DISTINCT s_i_id) INTO STRICT p_low FROM order_line JOIN stock
      ON s_w_id = ol_w_id AND s_i_id = ol_i_id
    WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id < v_next AND ol_o_id >= v_next - 20
      AND s_quantity < p_threshold;
END
$procedure$";

/// Return the fingerprint of a text: FNV-1a with 64 bits.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn comment(body: &str) -> String {
    format!("{COMMENT}{:016x}", fingerprint(body))
}

/// A procedure that exists: its name, its signature, its comment.
type Present = (String, String, Option<String>);

/// Create the procedures, unless they exist with the right text.
///
/// Errors: a procedure of that name is not ours, or the role may not create procedures.
pub(super) async fn make(session: Session<'_>) -> Result<(), Unready> {
    if is_complete(&present(session).await?) {
        return Ok(());
    }
    ask(session, "BEGIN").await?;
    // Another thread may create them at this moment, and may have finished when this one has the
    // lock.
    session.ask(&format!("SELECT pg_advisory_xact_lock({LOCK})"), |_| Ok(())).await?;
    let present = present(session).await?;
    if !is_complete(&present) {
        let is_ours =
            |text: &Option<String>| text.as_deref().is_some_and(|t| t.starts_with(COMMENT));
        if let Some((_, signature, _)) = present.iter().find(|(_, _, text)| !is_ours(text)) {
            let message = format!("{signature} exists, and pgdyno did not make it");
            let hint = "drop it, or choose --builtin-option mode=statements";
            return Err(Unready::Refused { message, hint: hint.into() });
        }
        if !present.is_empty() {
            session.warn(Remark {
                kind: WarningKind::ProceduresReplaced,
                message: "another version of pgdyno made the procedures pgdyno_tpcc_*; they were \
                          replaced"
                    .into(),
                hint: "do not run both versions in this database at the same time".into(),
            });
        }
        for (_, signature, _) in &present {
            ask(session, &format!("DROP ROUTINE {signature}")).await?;
        }
        for (name, body) in ALL {
            ask(session, &format!("CREATE PROCEDURE {name}{body}")).await?;
            let text = comment(body);
            ask(session, &format!("COMMENT ON PROCEDURE {name} IS '{text}'")).await?;
        }
    }
    ask(session, "COMMIT").await?;
    Ok(())
}

async fn ask(session: Session<'_>, sql: &str) -> Result<(), Stopped> {
    session.ask(sql, |_| Ok(())).await
}

async fn present(session: Session<'_>) -> Result<Vec<Present>, Stopped> {
    let names = ALL.map(|(name, _)| format!("'{name}'")).join(", ");
    let sql = format!(
        "SELECT proname::text, oid::regprocedure::text, pg_catalog.obj_description(oid, 'pg_proc') \
         FROM pg_proc WHERE pronamespace = current_schema()::regnamespace::oid \
         AND proname IN ({names})"
    );
    let read = |rows: &mut Rows| {
        let mut present = Vec::new();
        while let Some(row) = rows.next_row()? {
            present.push(row);
        }
        Ok(present)
    };
    session.ask(&sql, read).await
}

fn is_complete(present: &[Present]) -> bool {
    let is_there = |(name, body): &(&str, &str)| {
        let wanted = comment(body);
        present.iter().any(|(seen, _, text)| seen == name && text.as_deref() == Some(&wanted))
    };
    present.len() == ALL.len() && ALL.iter().all(is_there)
}

impl Customer {
    /// Return the parameters for the customer: a number or a last name.
    fn parameters(&self) -> (Option<u32>, Option<&str>) {
        match self {
            Customer::Number(number) => (Some(*number), None),
            Customer::LastName(name) => (None, Some(name)),
        }
    }
}

impl Run {
    pub(super) async fn call_new_order(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let terminal = session.terminal();
        let order = session.random(|random| self.inputs().new_order(terminal, random));
        let Place { warehouse, district } = order.place;
        let is_local = u32::from(order.remote_line_count() == 0);
        let numbers = order.of_lines(|line| line.number);
        let items = order.of_lines(|line| line.item);
        let supply = order.of_lines(|line| line.supply_warehouse);
        let quantities = order.of_lines(|line| line.quantity);
        let key = (&warehouse, &district, &order.customer);
        let (found_count,): (u32,) = session
            .query(
                CALL,
                &[key.0, key.1, key.2, &is_local, &numbers, &items, &supply, &quantities],
                |rows| Ok(rows.one()?),
            )
            .await?;
        if found_count as usize != order.used_lines().count() {
            return Err(Unexpected.into());
        }
        self.count_order(session, &order);
        Ok(if (found_count as usize) < order.lines.len() {
            Done::RolledBack
        } else {
            Done::Committed
        })
    }

    pub(super) async fn call_payment(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let terminal = session.terminal();
        let paid = session.random(|random| self.inputs().payment(terminal, random));
        let (place, of) = (paid.place, paid.customer_place);
        let amount = Cents(i64::from(paid.amount_cents));
        let (number, name) = paid.customer.parameters();
        let places = (&place.warehouse, &place.district, &of.warehouse, &of.district);
        session
            .query(
                CALL,
                &[places.0, places.1, places.2, places.3, &number, &name, &amount],
                |rows| Ok(rows.one::<(u32,)>()?),
            )
            .await?;
        session.count(REMOTE, u64::from(of.warehouse != place.warehouse));
        session.count(PAID_BY_LAST_NAME, u64::from(paid.customer.is_by_last_name()));
        Ok(Done::Committed)
    }

    pub(super) async fn call_order_status(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let terminal = session.terminal();
        let asked = session.random(|random| self.inputs().order_status(terminal, random));
        let Place { warehouse, district } = asked.place;
        let (number, name) = asked.customer.parameters();
        session
            .query(CALL, &[&warehouse, &district, &number, &name], |rows| {
                Ok(rows.one::<(u32, String)>()?)
            })
            .await?;
        session.count(SEEN_BY_LAST_NAME, u64::from(asked.customer.is_by_last_name()));
        Ok(Done::Committed)
    }

    pub(super) async fn call_delivery(
        &self,
        session: Session<'_>,
        asked: Delivery,
    ) -> Result<Done, Stopped> {
        let read = |rows: &mut Rows| Ok(rows.one()?);
        let (count,): (u32,) =
            session.query(CALL, &[&asked.warehouse, &asked.carrier], read).await?;
        session.count(DELIVERED_ORDERS, u64::from(count));
        session.count(SKIPPED_DISTRICTS, 10 - u64::from(count));
        Ok(Done::Committed)
    }

    pub(super) async fn call_stock_level(&self, session: Session<'_>) -> Result<Done, Stopped> {
        let terminal = session.terminal();
        let asked = session.random(|random| self.inputs().stock_level(terminal, random));
        let Place { warehouse, district } = asked.place;
        let parameters = (&warehouse, &district, &asked.threshold);
        session
            .query(CALL, &[parameters.0, parameters.1, parameters.2], |rows| {
                Ok(rows.one::<(i64,)>()?)
            })
            .await?;
        Ok(Done::Committed)
    }
}
