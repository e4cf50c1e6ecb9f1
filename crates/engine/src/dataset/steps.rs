//! The steps of a load (create, load, vacuum, index): when each begins and ends, and its progress.
//!
//! Several tables are loaded at the same time, so steps overlap. A step begins with its first piece
//! of work and ends with its last.

use crate::clock::now_ns;
use crate::contract::job::ClockPair;
use crate::contract::record::{Phase, PhaseEvent, PhaseName, PhaseSpan, Pieces, Record};

/// A piece of work of a step, as a session reports it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepEvent {
    pub phase: PhaseName,
    pub event: PhaseEvent,
    pub at_ns: u64,
}

impl StepEvent {
    pub(super) fn now(phase: PhaseName, event: PhaseEvent) -> StepEvent {
        StepEvent { phase, event, at_ns: now_ns() }
    }
}

#[derive(Debug)]
struct Step {
    phase: PhaseName,
    /// Pieces of work that have not ended.
    pending: usize,
    total: usize,
    /// Pieces that had ended when the progress was last reported.
    told: usize,
    began_ns: Option<u64>,
    ended_ns: Option<u64>,
}

/// All steps of a load. Pieces of work report to it, and it makes the records.
#[derive(Debug)]
pub(super) struct Steps {
    clock: ClockPair,
    steps: Vec<Step>,
}

impl Steps {
    pub(super) fn new(clock: ClockPair) -> Steps {
        Steps { clock, steps: Vec::new() }
    }

    /// Announce `pieces` more of `phase`. Call it before the first piece begins.
    pub(super) fn expect(&mut self, phase: PhaseName, pieces: usize) {
        match self.steps.iter_mut().find(|step| step.phase == phase) {
            Some(step) => {
                step.pending += pieces;
                step.total += pieces;
            }
            None if pieces == 0 => {}
            None => self.steps.push(Step {
                phase,
                pending: pieces,
                total: pieces,
                told: 0,
                began_ns: None,
                ended_ns: None,
            }),
        }
    }

    /// Return the record to write if a step begins or ends with this event.
    pub(super) fn note(&mut self, event: StepEvent) -> Option<Record> {
        let step = self.steps.iter_mut().find(|step| step.phase == event.phase)?;
        let is_news = match event.event {
            PhaseEvent::Begin => step.began_ns.is_none(),
            PhaseEvent::End => {
                step.pending -= 1;
                step.pending == 0
            }
        };
        if !is_news {
            return None;
        }
        let time_ns = self.clock.unix_ns(event.at_ns);
        match event.event {
            PhaseEvent::Begin => step.began_ns = Some(time_ns),
            PhaseEvent::End => step.ended_ns = Some(time_ns),
        }
        Some(Record::Phase(Phase { time_ns, phase: event.phase, event: event.event }))
    }

    /// Return the progress of each step that has not ended, if it changed since the last report.
    ///
    /// The load step is left out, because its progress is counted in rows.
    pub(super) fn underway(&mut self) -> Vec<Record> {
        let time_ns = self.clock.unix_ns(now_ns());
        let steps = self.steps.iter_mut().filter(|step| {
            let done = step.total - step.pending;
            step.phase != PhaseName::Load && step.pending > 0 && done > step.told
        });
        steps
            .map(|step| {
                step.told = step.total - step.pending;
                Record::Pieces(Pieces {
                    time_ns,
                    phase: step.phase,
                    done_count: step.told as u64,
                    total_count: step.total as u64,
                })
            })
            .collect()
    }

    /// End, now, all steps that have begun and not ended. Returns their records.
    pub(super) fn cut_off(&mut self) -> Vec<Record> {
        let time_ns = self.clock.unix_ns(now_ns());
        let open = self.steps.iter_mut().filter(|s| s.began_ns.is_some() && s.ended_ns.is_none());
        open.map(|step| {
            step.ended_ns = Some(time_ns);
            Record::Phase(Phase { time_ns, phase: step.phase, event: PhaseEvent::End })
        })
        .collect()
    }

    /// Return begin and end of each step that has ended.
    pub(super) fn spans(&self) -> Vec<PhaseSpan> {
        let span = |step: &Step| {
            let (began_ns, ended_ns) = (step.began_ns?, step.ended_ns?);
            Some(PhaseSpan { phase: step.phase, began_ns, ended_ns })
        };
        self.steps.iter().filter_map(span).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_begins_with_its_first_piece_and_ends_with_its_last() {
        let mut steps = Steps::new(ClockPair { monotonic_ns: 0, unix_ns: 100 });
        steps.expect(PhaseName::Load, 2);
        steps.expect(PhaseName::Index, 1);
        let load = |event, at_ns| StepEvent { phase: PhaseName::Load, event, at_ns };
        assert!(steps.note(load(PhaseEvent::Begin, 1)).is_some());
        assert!(steps.note(load(PhaseEvent::Begin, 2)).is_none());
        assert!(steps.note(load(PhaseEvent::End, 3)).is_none());
        assert!(steps.note(load(PhaseEvent::End, 4)).is_some());
        let span = PhaseSpan { phase: PhaseName::Load, began_ns: 101, ended_ns: 104 };
        assert_eq!(steps.spans(), [span]);
    }

    #[test]
    fn how_far_a_step_has_come_is_told_once_for_each_change() {
        let mut steps = Steps::new(ClockPair { monotonic_ns: 0, unix_ns: 0 });
        steps.expect(PhaseName::Create, 3);
        steps.expect(PhaseName::Load, 2);
        for phase in [PhaseName::Create, PhaseName::Load] {
            steps.note(StepEvent::now(phase, PhaseEvent::Begin));
            steps.note(StepEvent::now(phase, PhaseEvent::End));
        }
        let told = steps.underway();
        let [Record::Pieces(pieces)] = told.as_slice() else { panic!("{told:?}") };
        let counts = (pieces.phase, pieces.done_count, pieces.total_count);
        assert_eq!(counts, (PhaseName::Create, 1, 3));
        assert!(steps.underway().is_empty());
    }

    #[test]
    fn a_step_cut_off_gets_an_end() {
        let mut steps = Steps::new(ClockPair { monotonic_ns: 0, unix_ns: 0 });
        steps.expect(PhaseName::Load, 1);
        steps.note(StepEvent::now(PhaseName::Load, PhaseEvent::Begin));
        assert_eq!(steps.cut_off().len(), 1);
        assert_eq!(steps.spans().len(), 1);
        assert!(steps.cut_off().is_empty());
    }
}
