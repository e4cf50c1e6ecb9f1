//! The faults that the server was asked to show, as pure functions of counts and times.

use std::rc::Rc;

use crate::canned::Canned;

/// How a reply is spoilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// A message of a type no server sends.
    Type,
    /// A message longer than any memory.
    Length,
    /// Half a message, then the end of the connection.
    Truncated,
}

/// Every option that changes an answer.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// Time from the last statement's end (or its arrival) to its answer.
    pub service_ns: u64,
    /// From the first statement on: no answer leaves between these two times.
    pub stall: Option<(u64, u64)>,
    /// A connection is closed instead of answering its statement of this number.
    pub close_after: Option<u64>,
    /// Every statement whose number is a multiple fails with this SQLSTATE.
    pub error_every: Option<(u64, [u8; 5])>,
    pub garbage: Option<Garbage>,
    /// Rows carry the server's clock: when the statement came, when its answer left.
    pub stamps: bool,
    /// Results for some statements; the first that fits counts.
    pub canned: Vec<Rc<Canned>>,
}

impl Behaviour {
    /// True when every answer leaves as soon as it is made.
    pub fn is_immediate(&self) -> bool {
        self.service_ns == 0 && self.stall.is_none()
    }

    /// When the answer to `statements` leaves that came at `received_ns` on a connection whose last
    /// answer was due at `busy_until_ns`; `first_ns` is when the very first statement came.
    pub fn due_ns(
        &self,
        received_ns: u64,
        busy_until_ns: u64,
        first_ns: u64,
        statements: u64,
    ) -> u64 {
        let due_ns = received_ns.max(busy_until_ns) + self.service_ns * statements;
        match self.stall {
            Some((from_ns, to_ns)) if due_ns >= first_ns + from_ns && due_ns < first_ns + to_ns => {
                first_ns + to_ns
            }
            _ => due_ns,
        }
    }

    /// The SQLSTATE the statement of this number (from 1) fails with.
    pub fn error_of(&self, number: u64) -> Option<[u8; 5]> {
        self.error_every.filter(|(every, _)| number.is_multiple_of(*every)).map(|(_, state)| state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_one_connection_are_served_one_after_another() {
        let behaviour = Behaviour { service_ns: 10, ..Behaviour::default() };
        assert_eq!(behaviour.due_ns(100, 0, 100, 1), 110);
        assert_eq!(behaviour.due_ns(102, 110, 100, 1), 120);
        assert_eq!(behaviour.due_ns(500, 120, 100, 3), 530);
    }

    #[test]
    fn an_answer_due_in_the_stall_leaves_at_its_end() {
        let behaviour = Behaviour { stall: Some((50, 80)), ..Behaviour::default() };
        assert_eq!(behaviour.due_ns(1_049, 0, 1_000, 1), 1_049);
        assert_eq!(behaviour.due_ns(1_050, 0, 1_000, 1), 1_080);
        assert_eq!(behaviour.due_ns(1_079, 0, 1_000, 1), 1_080);
        assert_eq!(behaviour.due_ns(1_080, 0, 1_000, 1), 1_080);
    }

    #[test]
    fn every_third_statement_fails() {
        let behaviour = Behaviour { error_every: Some((3, *b"40001")), ..Behaviour::default() };
        let failing: Vec<u64> = (1..=7).filter(|n| behaviour.error_of(*n).is_some()).collect();
        assert_eq!(failing, [3, 6]);
    }
}
