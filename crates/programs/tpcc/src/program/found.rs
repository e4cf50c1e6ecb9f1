//! Checks before the load that the tables are those that `init tpcc` loaded, and complete.

use pgdyno_script::Prng;

use super::inputs::Inputs;
use super::run::Run;
use super::sql;
use crate::sizes::{A_LAST_NAME, Constants, DISTRICTS_PER_WAREHOUSE, ITEMS};
use pgdyno_engine::program::{Session, Unready};

/// Begin of the comment that `init` puts on the table `warehouse`.
const MARK: &str = "pgdyno dataset tpcc ";

/// The facts in that comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marked {
    warehouses: u32,
    /// The load's constant of last names.
    c_last: u32,
}

impl Run {
    pub(super) async fn look_at_tables(&self, session: Session<'_>) -> Result<(), Unready> {
        let (mark,): (Option<String>,) = session.ask(sql::MARK, |rows| Ok(rows.one()?)).await?;
        let marked = read_mark(mark.as_deref()).map_err(refused)?;
        type Counts = (i64, Option<i64>, Option<i64>, i64, Option<i64>, i64, i64);
        let counts: Counts = session.ask(sql::COUNTS, |rows| Ok(rows.one()?)).await?;
        let (warehouses, first, last, districts, items, customers, stock) = counts;
        let expected = i64::from(marked.warehouses);
        let comparisons = [
            ("rows in warehouse", warehouses, expected),
            ("lowest w_id", first.unwrap_or(0), 1),
            ("highest w_id", last.unwrap_or(0), expected),
            ("rows in district", districts, expected * i64::from(DISTRICTS_PER_WAREHOUSE)),
            ("highest i_id in item", items.unwrap_or(0), i64::from(ITEMS)),
            ("one row in customer", customers, 1),
            ("one row in stock", stock, 1),
        ];
        if let Some((what, seen, wanted)) =
            comparisons.into_iter().find(|(_, seen, wanted)| seen != wanted)
        {
            return Err(refused(format!(
                "the tables are not as they were loaded, with {expected} warehouses: {what}: \
                 expected {wanted}, found {seen}"
            )));
        }
        // Without these indexes every transaction would read a whole table.
        let missing: (Option<String>,) =
            session.ask(sql::MISSING_INDEX, |rows| Ok(rows.one()?)).await?;
        if let Some(index) = missing.0 {
            return Err(refused(format!(
                "the tables are not as they were loaded: no index begins with the columns of \
                 {index}"
            )));
        }
        // The constants follow from the seed alone, not from the random numbers of the clients.
        let mut random = Prng::from_seed(self.seed ^ 0x7470_6363);
        self.inputs.get_or_init(|| Inputs {
            constants: Constants::of_run(&mut random, marked.c_last),
            warehouses: marked.warehouses,
            terminals: self.terminals,
            is_home_fixed: self.is_home_fixed,
        });
        Ok(())
    }
}

fn refused(message: String) -> Unready {
    Unready::Refused {
        message,
        hint: "load them again: pgdyno init tpcc --warehouses W; or name the database that has \
               them"
            .into(),
    }
}

/// Read the facts in the comment of the table `warehouse`.
///
/// Errors: a message that says what the comment is instead.
fn read_mark(mark: Option<&str>) -> Result<Marked, String> {
    let refuse = |seen: &str| {
        format!(
            "table warehouse is not from pgdyno init tpcc: its comment must begin with \
             \"{MARK}\", found {seen}"
        )
    };
    let Some(mark) = mark else { return Err(refuse("no comment")) };
    let options = mark.strip_prefix(MARK).ok_or_else(|| refuse(&format!("\"{mark}\"")))?;
    let number = |name: &str| {
        let mut pairs = options.split_whitespace().filter_map(|word| word.split_once('='));
        pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse::<u32>().ok())
    };
    match (number("warehouses"), number("c_last")) {
        (Some(warehouses), Some(c_last)) if warehouses > 0 && c_last <= A_LAST_NAME => {
            Ok(Marked { warehouses, c_last })
        }
        _ => Err(format!(
            "the comment on table warehouse must have warehouses=W, W at least 1, and c_last=C, C \
             at most {A_LAST_NAME}, found \"{mark}\""
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_tells_size_and_constant() {
        let mark = "pgdyno dataset tpcc warehouses=12 seed=1 c_last=157 partitions=0";
        assert_eq!(read_mark(Some(mark)), Ok(Marked { warehouses: 12, c_last: 157 }));
    }

    #[test]
    fn another_loaders_tables_are_refused_with_what_was_found() {
        assert!(read_mark(None).unwrap_err().ends_with("found no comment"));
        assert!(read_mark(Some("by hand")).unwrap_err().ends_with("found \"by hand\""));
        for options in
            ["warehouses=0 c_last=1", "c_last=1", "warehouses=3", "warehouses=1 c_last=256"]
        {
            let mark = format!("{MARK}{options}");
            assert!(read_mark(Some(&mark)).unwrap_err().contains(options));
        }
    }
}
