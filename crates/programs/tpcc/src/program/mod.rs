//! The TPC-C-like workload: five transactions over the nine tables that `init tpcc` loads.
//!
//! Source: TPC-C specification, revision 5.11, clauses 2 and 5.2. It is not a TPC-C benchmark.

mod found;
mod inputs;
mod procedures;
mod run;
mod sql;
mod transactions;

use std::sync::{Arc, OnceLock};

use self::run::{DEFERRED_DELIVERY, Run};
use pgdyno_engine::program::{
    Asked, BoxFuture, Mix, Native, Pauses, Planned, ProgramOption, Running, Session, Takes,
    TransactionType, Transactions, Unready,
};

/// The program as `-b` knows it.
#[derive(Debug)]
pub struct TpccLike;

/// A transaction type of the specification: its cards in the deck of clause 5.2.4.2, its usual
/// weight, and keying time and mean think time of clause 5.2.5.7.
struct Kind {
    name: &'static str,
    weight_option: (&'static str, &'static str),
    cards: u32,
    weight: u32,
    keying_s: u64,
    think_s: u64,
    reads_only: bool,
    statements: fn(&str) -> Vec<String>,
    counters: &'static [&'static str],
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "new-order",
        weight_option: (
            "new-order-weight",
            "Cards of this type in the deck (default 10). With mix = weights: weight of \
             this type (default 45).",
        ),
        cards: 10,
        weight: 45,
        keying_s: 18,
        think_s: 12,
        reads_only: false,
        statements: sql::new_order,
        counters: &["lines", "remote_lines", "remote_orders"],
    },
    Kind {
        name: "payment",
        weight_option: (
            "payment-weight",
            "Cards of this type in the deck (default 10). With mix = weights: weight of \
             this type (default 43).",
        ),
        cards: 10,
        weight: 43,
        keying_s: 3,
        think_s: 12,
        reads_only: false,
        statements: sql::payment,
        counters: &["remote", "by_last_name"],
    },
    Kind {
        name: "order-status",
        weight_option: (
            "order-status-weight",
            "Cards of this type in the deck (default 1). With mix = weights: weight of \
             this type (default 4).",
        ),
        cards: 1,
        weight: 4,
        keying_s: 2,
        think_s: 10,
        reads_only: true,
        statements: sql::order_status,
        counters: &["by_last_name"],
    },
    Kind {
        name: "delivery",
        weight_option: (
            "delivery-weight",
            "Cards of this type in the deck (default 1). With mix = weights: weight of \
             this type (default 4).",
        ),
        cards: 1,
        weight: 4,
        keying_s: 2,
        think_s: 5,
        reads_only: false,
        statements: sql::delivery,
        counters: &["delivered_orders", "skipped_districts"],
    },
    Kind {
        name: "stock-level",
        weight_option: (
            "stock-level-weight",
            "Cards of this type in the deck (default 1). With mix = weights: weight of \
             this type (default 4).",
        ),
        cards: 1,
        weight: 4,
        keying_s: 2,
        think_s: 5,
        reads_only: true,
        statements: sql::stock_level,
        counters: &[],
    },
];

/// Numbers of the transaction types.
const DELIVERY: usize = 3;

const OPTIONS: &[ProgramOption] = &[
    ProgramOption {
        name: "mode",
        takes: Takes::Words(&["statements", "pipeline", "procedures"]),
        description: "statements: one round trip for each statement. pipeline: statements that do \
                      not depend on each other share a round trip. procedures: one round trip for \
                      each transaction, which is a PL/pgSQL procedure that pgdyno creates.",
    },
    ProgramOption {
        name: "mix",
        takes: Takes::Words(&["deck", "weights"]),
        description: "How a terminal chooses its next transaction. deck: from a shuffled deck of \
                      23 cards, so the shares are exact. weights: each is drawn by weight.",
    },
    weight_of(&KINDS[0]),
    weight_of(&KINDS[1]),
    weight_of(&KINDS[2]),
    weight_of(&KINDS[3]),
    weight_of(&KINDS[4]),
    ProgramOption {
        name: "home",
        takes: Takes::Words(&["fixed", "uniform"]),
        description: "fixed: a terminal keeps its warehouse, and every warehouse has a terminal. \
                      uniform: each transaction draws its warehouse.",
    },
    ProgramOption {
        name: "delivery",
        takes: Takes::Words(&["deferred", "inline"]),
        description: "deferred: a delivery only joins a queue, and background terminals do its \
                      work, as the specification says. inline: the terminal waits for it.",
    },
    ProgramOption {
        name: "isolation",
        takes: Takes::Words(&["read-committed", "repeatable-read", "serializable"]),
        description: "Isolation level of the transactions.",
    },
];

const fn weight_of(kind: &Kind) -> ProgramOption {
    ProgramOption {
        name: kind.weight_option.0,
        takes: Takes::Number { least: 1, most: 255 },
        description: kind.weight_option.1,
    }
}

impl Native for TpccLike {
    fn name(&self) -> &'static str {
        "tpcc-like"
    }

    fn description(&self) -> &'static str {
        "TPC-C-like: orders of a wholesale supplier, five transaction types"
    }

    fn dataset(&self) -> &'static str {
        "tpcc"
    }

    fn options(&self) -> &'static [ProgramOption] {
        OPTIONS
    }

    fn plan(&self, asked: &Asked<'_>) -> Result<Planned, String> {
        let is_dealt = asked.option("mix") == "deck";
        let level = asked.option("isolation").replace('-', " ");
        let begin = format!("BEGIN ISOLATION LEVEL {}", level.to_uppercase());
        let calls_procedures = asked.option("mode") == "procedures";
        let second = 1_000_000_000;
        let of_kind = |(kind, call): (&Kind, &str)| TransactionType {
            name: kind.name.to_owned(),
            weight: asked.number(kind.weight_option.0).unwrap_or(if is_dealt {
                kind.cards
            } else {
                kind.weight
            }),
            reads_only: kind.reads_only,
            pauses: Pauses {
                keying_ns: kind.keying_s * second,
                think_ns_mean: kind.think_s * second,
            },
            statements: match calls_procedures {
                true => vec![call.to_owned()],
                false => (kind.statements)(&begin),
            },
            counters: kind.counters,
            ..TransactionType::default()
        };
        let mut types: Vec<_> = KINDS.iter().zip(procedures::CALLS).map(of_kind).collect();
        let is_deferred = asked.option("delivery") == "deferred";
        if is_deferred {
            let delivery = &mut types[DELIVERY];
            let deferred = TransactionType {
                name: "deferred-delivery".to_owned(),
                weight: 1,
                pauses: Pauses::default(),
                is_background: true,
                ..delivery.clone()
            };
            (delivery.statements, delivery.counters) = (Vec::new(), &[]);
            types.push(deferred);
        }
        Ok(Planned {
            types,
            mix: if is_dealt { Mix::Deck } else { Mix::Chance },
            transactions: Arc::new(Run {
                seed: asked.seed,
                terminals: asked.terminal_count,
                is_home_fixed: asked.option("home") == "fixed",
                is_pipeline: asked.option("mode") == "pipeline",
                calls_procedures,
                is_deferred,
                inputs: OnceLock::new(),
            }),
            // In the other modes BEGIN names the isolation level; a procedure is called without
            // BEGIN.
            settings: match calls_procedures {
                true => vec![("default_transaction_isolation".to_owned(), level)],
                false => Vec::new(),
            },
        })
    }
}

impl Transactions for Run {
    fn prepare<'s>(&'s self, session: Session<'s>) -> BoxFuture<'s, Result<(), Unready>> {
        Box::pin(async move {
            self.look_at_tables(session).await?;
            if self.calls_procedures { procedures::make(session).await } else { Ok(()) }
        })
    }

    fn run<'s>(&'s self, number: usize, session: Session<'s>) -> Running<'s> {
        match (number, self.calls_procedures) {
            (0, false) => Box::pin(self.new_order(session)),
            (0, true) => Box::pin(self.call_new_order(session)),
            (1, false) => Box::pin(self.payment(session)),
            (1, true) => Box::pin(self.call_payment(session)),
            (2, false) => Box::pin(self.order_status(session)),
            (2, true) => Box::pin(self.call_order_status(session)),
            (DELIVERY, _) => Box::pin(self.delivery(session)),
            (DEFERRED_DELIVERY, _) => Box::pin(self.deferred_delivery(session)),
            (_, false) => Box::pin(self.stock_level(session)),
            (_, true) => Box::pin(self.call_stock_level(session)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn planned(options: &[(&str, &str)]) -> Result<Planned, String> {
        let given = options.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        let asked = Asked::new(&TpccLike, &given, None, (7, 20))?;
        TpccLike.plan(&asked)
    }

    fn weights(options: &[(&str, &str)]) -> Vec<u32> {
        let planned = planned(options).expect("valid options");
        // Background work has no share of the mix.
        planned.types.iter().filter(|kind| !kind.is_background).map(|kind| kind.weight).collect()
    }

    #[test]
    fn the_deck_and_the_weights_are_those_of_the_specification_unless_they_are_given() {
        assert_eq!(weights(&[]), [10, 10, 1, 1, 1]);
        assert_eq!(weights(&[("mix", "weights")]), [45, 43, 4, 4, 4]);
        assert_eq!(weights(&[("payment-weight", "9")]), [10, 9, 1, 1, 1]);
    }

    #[test]
    fn a_weight_out_of_range_is_refused_with_the_rule() {
        for weight in ["0", "256", "4.5", "-1", "many"] {
            let refusal = planned(&[("delivery-weight", weight)]).map(|_| ()).unwrap_err();
            let rule = "option delivery-weight must be a whole number from 1 to 255, got";
            assert_eq!(refusal, format!("{rule} \"{weight}\""));
        }
    }

    #[test]
    fn every_transaction_begins_at_the_isolation_level_that_was_asked_for() {
        for (delivery, kinds_with_sql) in [("inline", 5), ("deferred", 5)] {
            let options = [("isolation", "repeatable-read"), ("delivery", delivery)];
            let planned = planned(&options).expect("valid");
            // A terminal that defers a delivery sends no statement.
            let firsts: Vec<_> =
                planned.types.iter().filter_map(|t| t.statements.first()).collect();
            assert_eq!(firsts, vec!["BEGIN ISOLATION LEVEL REPEATABLE READ"; kinds_with_sql]);
        }
        let none = BTreeMap::new();
        assert_eq!(
            Asked::new(&TpccLike, &none, None, (1, 1)).unwrap().option("mode"),
            "statements"
        );
    }
}
