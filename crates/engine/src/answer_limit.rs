//! The limits of one answer, so that no server keeps the engine, or its memory, without an end.
//!
//! They hold for all that the engine asks outside the load: logins, the statements of its blocking
//! sessions, and the preparation of the load's sessions. The load itself ends with its duration.

use std::time::{Duration, Instant};

/// The engine asks nothing whose answer comes near these limits.
const BYTES_MAX: usize = 64 << 20;
const TIME_MAX: Duration = Duration::from_secs(60);
/// A pause counts as one second at most, because a statement may warn at its beginning and then
/// work for an hour.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How large an answer has become, and how long it has taken so far.
#[derive(Debug, Default)]
pub struct AnswerLimit {
    received_bytes: usize,
    /// Time between its pieces, and when the last piece came.
    took: Duration,
    last_piece: Option<Instant>,
}

impl AnswerLimit {
    /// Note a piece of the answer that came at `now`.
    ///
    /// Errors: the answer is too long or takes too long; the text says what was seen.
    pub fn grows(&mut self, count: usize, now: Instant) -> Result<(), String> {
        self.took += self.last_piece.map_or(Duration::ZERO, |last| (now - last).min(PAUSE_MAX));
        self.last_piece = Some(now);
        self.received_bytes += count;
        if self.received_bytes > BYTES_MAX {
            Err(format!("the answer had more than {} MB and no end", BYTES_MAX >> 20))
        } else if self.took > TIME_MAX {
            Err(format!("the answer had not ended {} s after it had begun", TIME_MAX.as_secs()))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_be_large_or_slow_but_not_without_an_end() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut large = AnswerLimit::default();
        assert_eq!(large.grows(BYTES_MAX, begun), Ok(()));
        assert!(large.grows(1, begun).unwrap_err().contains("64 MB"));
        let mut drops = AnswerLimit::default();
        assert!((0..=60).all(|second| drops.grows(1, after(second)).is_ok()));
        assert!(drops.grows(1, after(61)).unwrap_err().contains("60 s"));
    }

    #[test]
    fn a_statement_may_warn_and_then_work_for_an_hour() {
        let begun = Instant::now();
        let mut limit = AnswerLimit::default();
        assert_eq!(limit.grows(100, begun), Ok(()));
        assert_eq!(limit.grows(100, begun + Duration::from_secs(3_600)), Ok(()));
    }
}
