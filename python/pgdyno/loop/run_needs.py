"""Finds settings whose effect the runs cannot show, because no run contained what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from pgdyno.analysis.verdicts import Doubt
from pgdyno.loop.counter_growth import counters_of
from pgdyno.loop.journal import Visit
from pgdyno.observe.rates import Deltas
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.run_needs import WORDS, Need, needs_of
from pgdyno.store.stored_run import StoredRun

# The cache still fills if the second half of a run reads less than this share of the first half.
_FILLING_RATIO = 0.7
_FILLING_PAGES_MIN = 1000


def unseen_needs(settings: Iterable[str], runs: Sequence[StoredRun]) -> dict[str, str]:
    """Return setting -> why these runs do not show its effect, such as "no run had a checkpoint".

    A counter that was not observed raises no doubt.
    """
    wanted = needs_of(settings)
    unmet = {need for need in set(wanted.values()) if runs and _is_unmet(need, runs)}
    return {name: WORDS[need] for name, need in wanted.items() if need in unmet}


def doubts_about_needs(experiment: Experiment, done: Iterable[Visit]) -> Iterator[Doubt]:
    """Yield a doubt about the settings in which the variants differ, or that a bench sets."""
    runs = [visit.stored for visit in done]
    variants = experiment.all_variants()
    names = {name for variant in variants for name in variant.settings}
    unseen = unseen_needs(names or experiment.server.settings, runs)
    for why in sorted(set(unseen.values())):
        listed = ", ".join(sorted(name for name, seen in unseen.items() if seen == why))
        yield Doubt(
            "setting_not_shown",
            "doubt",
            f"The runs may not show the effect of {listed}: {why}.",
            "measure longer runs with -T, so that each contains one",
        )


def _is_unmet(need: Need, runs: Sequence[StoredRun]) -> bool:
    seen = [_MET[need](run) for run in runs]
    known = [is_met for is_met in seen if is_met is not None]
    return bool(known) and not any(known)


def _grew(collector: str, *counters: str) -> Callable[[StoredRun], bool | None]:
    def is_met(run: StoredRun) -> bool | None:
        growths = counters_of(run, collector)
        return any(_total(growth, counters) > 0 for growth in growths) if growths else None

    return is_met


def _is_filled(run: StoredRun) -> bool | None:
    """Return whether the cache was filled: the reads of a run do not become fewer."""
    growths = [g for g in counters_of(run, "database") if g.key.get("scope") == "ours"]
    if not growths or "blks_read" not in growths[0].by_column:
        return None
    read = np.nan_to_num(growths[0].by_column["blks_read"])
    first, second = read[: read.size // 2].sum(), read[-(read.size // 2) :].sum()
    return bool(first < _FILLING_PAGES_MIN or second >= _FILLING_RATIO * first)


def _total(growth: Deltas, counters: Iterable[str]) -> float:
    present = [growth.by_column[name] for name in counters if name in growth.by_column]
    return float(sum(np.nansum(values) for values in present))


_MET: Mapping[Need, Callable[[StoredRun], bool | None]] = {
    "checkpoint": _grew("checkpointer", "checkpoints_timed", "checkpoints_requested"),
    "full-page images": _grew("wal", "full_page_images"),
    "autovacuum": _grew("tables", "vacuums"),
    "full cache": _is_filled,
}
