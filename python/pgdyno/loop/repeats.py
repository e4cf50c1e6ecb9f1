"""Decides which runs are repeated, because something outside disturbed them.

A repeated run is in the store and not in the history, so the plan returns it again: a design does
not need to know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pgdyno.analysis import verdicts
from pgdyno.analysis.verdicts import Doubt
from pgdyno.errors import AnalysisError
from pgdyno.loop.disturbed import (
    disturbed_from_outside,
    has_timed_checkpoint,
    other_programs_ratio_of,
)
from pgdyno.loop.journal import Visit, repeat, visits
from pgdyno.loop.load_numbers import load_numbers
from pgdyno.plan.history import History, Measured, elapsed_ns
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.folder import ExperimentFolder

_REPEATS_MAX = 2
# If this number of runs was repeated in vain, the disturbance is a property of the machine.
_IN_VAIN_MAX = 2
# Without a budget, repeating takes no more than two minutes, or a quarter of the time.
_UNASKED_NS = 120_000_000_000
_UNASKED_RATIO = 0.25
# Uneven pairs are no reason to use up the time for more pairs.
_UNEVEN_RATIO = 0.1
_CHECKPOINT = Doubt(
    "checkpoint_in_one_arm",
    "doubt",
    "A checkpoint by checkpoint_timeout was in one run of a round only.",
    "",
)
_UNEVEN = "other_programs_in_one_arm"
_PURPOSES = ("round", "detail", "capacity")


class Repeats:
    """The runs of one experiment that were repeated."""

    def __init__(self, folder: ExperimentFolder) -> None:
        """Read what an interrupted experiment has repeated already."""
        self._folder = folder
        before = [entry for entry in folder.decisions() if entry["decision"] == "repeated"]
        self._counts = Counter(str(entry["place"]) for entry in before)
        self._uneven = [str(entry["place"]) for entry in before if entry["kind"] == _UNEVEN]
        self._spent_ns = sum(int(entry["elapsed_ns"]) for entry in before)

    def taken_out(
        self, done: Visit, history: History, *, budget_ns: int | None
    ) -> tuple[Measured, Doubt] | None:
        """Return a run that is repeated, and why; record it. None: all runs count.

        Args: done, the run that is complete now; history, all that count, with this one;
        budget_ns, of the experiment, None without one.
        """
        if done.planned.purpose not in _PURPOSES:
            return None
        try:
            disturbed = self._disturbed(done, history)
        except AnalysisError:
            return None  # A run without any transaction: the script takes longer than the run.
        if disturbed is None:
            return None
        number, doubt = disturbed
        [entry] = [measured for measured in history if measured.run.number == number]
        place, spent_ns = _place_of(entry.run), entry.elapsed_ns
        if not self._may_repeat(place, entry.took_ns, history, budget_ns):
            return None
        if doubt.kind == _UNEVEN:
            if not self._may_be_even(place, entry, budget_ns):
                return None
            self._uneven.append(place)
        repeat(self._folder, number, place, doubt, spent_ns)
        self._counts[place] += 1
        self._spent_ns += spent_ns
        return entry, doubt

    def _may_repeat(
        self, place: str, took_ns: int, history: History, budget_ns: int | None
    ) -> bool:
        in_vain = sum(count >= _REPEATS_MAX for count in self._counts.values())
        if self._counts[place] >= _REPEATS_MAX or in_vain >= _IN_VAIN_MAX:
            return False
        spent_ns = elapsed_ns(history)
        if budget_ns is not None:
            return spent_ns + took_ns <= budget_ns
        most_ns = max(_UNASKED_NS, _UNASKED_RATIO * spent_ns)
        return self._spent_ns + took_ns <= most_ns

    def _may_be_even(self, place: str, entry: Measured, budget_ns: int | None) -> bool:
        """Return whether a run may be repeated because other programs used more CPU then.

        A variant may be the reason itself: if it has fewer processes or waits more, other programs
        get more of the cores in every run of it. So two runs of a variant are repeated, each
        once, within a tenth of the budget.
        """
        variant = entry.run.cell.variant
        places = [known for known in self._uneven if variant and variant.id in known.split()[2:3]]
        if place in places or len(places) >= _IN_VAIN_MAX:
            return False
        return budget_ns is None or self._spent_ns + entry.took_ns <= _UNEVEN_RATIO * budget_ns

    def _disturbed(self, done: Visit, history: History) -> tuple[int, Doubt] | None:
        numbers = load_numbers(done.stored, with_intervals=False)
        if numbers.seconds < 0.99 * verdicts.NEEDED_S_IN_SWEEP:
            return None  # It is not valid anyway, and another run would not be either.
        for doubt in disturbed_from_outside(done.stored, numbers):
            return done.planned.number, doubt
        arms = [(visit, load_numbers(visit.stored)) for visit in self._round_of(done, history)]
        others = [other_programs_ratio_of(visit.stored, its) for visit, its in arms]
        if (uneven := verdicts.other_programs_in_one_arm(others)) is not None:
            place, doubt = uneven
            return arms[place][0].planned.number, doubt
        timed = [(v, its) for v, its in arms if not _sets_checkpoints(v.planned)]
        had = [has_timed_checkpoint(visit.stored, its) for visit, its in timed]
        if any(had) and not all(had):
            return timed[had.index(True)][0].planned.number, _CHECKPOINT
        return None

    def _round_of(self, done: Visit, history: History) -> Sequence[Visit]:
        """Return the runs of the same round; none if there are no variants to compare."""
        planned = done.planned
        if planned.purpose != "round" or planned.cell.variant is None:
            return ()
        beside = {
            m.run.number
            for m in history
            if m.run.purpose == "round"
            and m.run.round == planned.round
            and (m.run.cell.clients, m.run.cell.script_indexes)
            == (planned.cell.clients, planned.cell.script_indexes)
        }
        if len(beside) < 2:
            return ()
        return [visit for visit in visits(self._folder) if visit.planned.number in beside]


def _sets_checkpoints(run: PlannedRun) -> bool:
    """Return whether the variant itself changes when checkpoints begin."""
    variant = run.cell.variant
    return variant is not None and "checkpoint_timeout" in variant.spec.settings


def _place_of(run: PlannedRun) -> str:
    """Return what a repeated run has in common with the run before it."""
    variant, cell = run.cell.variant, run.cell
    name = "" if variant is None else variant.id
    load = f"{cell.script_indexes} {cell.clients} {cell.rate_tps}"
    return f"{run.purpose} {run.round} {name} {load}"
