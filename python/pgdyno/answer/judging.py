"""Collects the facts of a stored run and returns the doubts about the run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pgdyno.analysis.change_points import change_points
from pgdyno.analysis.consistency import check_doubts
from pgdyno.analysis.verdicts import CourseFacts, DatabaseFacts, Doubt, LoadFacts, RunFacts, doubts
from pgdyno.analysis.within_run import warmup_cut
from pgdyno.answer.own import check_of, own_answer, program_of_run
from pgdyno.answer.telemetry import telemetry_doubts
from pgdyno.errors import AnalysisError
from pgdyno.loop.disturbed import cpu_ns_by_mode, machine_facts, others_ratio_of
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.loop.took_part import parts_of_run
from pgdyno.quantities import counted
from pgdyno.server.dataset.kinds import KINDS
from pgdyno.spec.planned import Cell, PlannedRun
from pgdyno.spec.units import duration_ns
from pgdyno.store.stored_run import StoredRun

# Doubts about the set-up of the experiment, the same for every run.
_OF_EVERY_RUN = ("clients_above_scale", "same_host", "not_steady")
# Doubts about what others did. They say why runs differ; their first number is a share in %.
_OF_OTHERS = ("others", "other_programs")
_SHARE = re.compile(r"(\d+(?:\.\d+)?) %")
# A doubt names no more variants or loads than this.
_PLACES_NAMED = 3
_SEED = 20_260_103
_WARMUP_COUNTS_MIN = 20
_IDLE_MODES = ("idle_ns", "iowait_ns")


def changes_of(numbers: LoadNumbers) -> tuple[float, ...]:
    """Return the seconds at which throughput changed its level."""
    counts_per_second = round(1_000_000_000 / numbers.interval_ns)
    whole = numbers.counts_100ms.size // counts_per_second * counts_per_second
    seconds = numbers.counts_100ms[:whole].reshape(-1, counts_per_second).sum(axis=1)
    if not seconds.size:
        return ()  # A run of -t 1 ends within a second.
    points = change_points(seconds, interval_ns=counts_per_second * numbers.interval_ns, seed=_SEED)
    return tuple(point.time_ns / 1e9 for point in points)


def doubts_of(
    stored: StoredRun,
    numbers: LoadNumbers,
    planned: PlannedRun,
    server: Mapping[str, Any],
    *,
    checkpoint_count: int,
    change_seconds: tuple[float, ...],
) -> tuple[Doubt, ...]:
    """Return every doubt about a run, the worst first.

    Args: server, the facts of the server as stored.
    """
    summary = numbers.summary
    p50 = numbers.latency.percentiles["p50"].value * 1e6
    facts = RunFacts(
        LoadFacts(
            measured_seconds=numbers.seconds,
            client_count=planned.cell.clients,
            completed_count=numbers.counts.completed,
            failed_count=numbers.counts.failed,
            latency_mean_ns=numbers.latency.mean.value * 1e6,
            latency_p50_ns=p50,
            latency_max_ns=numbers.latency.max_ms * 1e6,
            is_closed_loop=planned.cell.rate_tps is None,
            offered_tps=offered_tps(numbers) if planned.cell.rate_tps is not None else None,
            between_transactions_ns=summary.clients.between_transactions_ns,
            think_time_ns=summary.clients.think_time_ns,
        ),
        machine_facts(stored, numbers, is_same_host=bool(server.get("is_local"))),
        DatabaseFacts(
            is_written=any(not script.reads_only for script in numbers.scripts),
            # In a sweep every run begins at the same checkpoint phase on purpose: no doubt.
            checkpoint_count=checkpoint_count if planned.purpose == "detail" else None,
            checkpoint_timeout_seconds=_checkpoint_timeout_seconds(server),
            scale=(server.get("dataset") or {}).get("scale"),
            updates_branches=_updates_branches(numbers),
            others_ratio=others_ratio_of(stored, numbers),
        ),
        CourseFacts(
            is_one_of_many=planned.purpose == "round",
            is_steady=_is_steady(numbers),
            change_point_seconds=change_seconds,
        ),
    )
    return (
        *_doubts_of_data(stored, (server.get("dataset") or {}).get("kind", "")),
        *own_answer(program_of_run(numbers)).doubts_of_every_run(stored),
        *_ended_early(stored, summary.ending),
        *_restarted(stored, numbers),
        *_not_reset(stored, planned),
        *doubts(facts),
        *(
            doubt
            for doubts_of in parts_of_run("run_doubts", stored)
            for doubt in doubts_of(stored, numbers)
        ),
        *telemetry_doubts(stored),
    )


def _checkpoint_timeout_seconds(server: Mapping[str, Any]) -> float | None:
    text = server.get("settings", {}).get("checkpoint_timeout")
    return None if text is None else duration_ns(text) / 1e9


def _updates_branches(numbers: LoadNumbers) -> bool:
    statements = (statement.text for script in numbers.scripts for statement in script.statements)
    return any("UPDATE PGBENCH_BRANCHES" in " ".join(text.upper().split()) for text in statements)


def offered_tps(numbers: LoadNumbers) -> float:
    """Return the load that was really offered, because random arrivals differ from their rate.

    At 200 a second, 5 s have 1000 +- 32 arrivals. Compared with the nominal rate, half of such runs
    would seem too slow.
    """
    return numbers.counts.scheduled / numbers.seconds


def cpu_busy_ratio(stored: StoredRun, numbers: LoadNumbers) -> float | None:
    """Return the busy share of all cores of this host in the measured phase, 0..1."""
    by_mode = cpu_ns_by_mode(stored, numbers)
    total = sum(by_mode.values())
    if not total:
        return None
    return 1 - sum(by_mode[mode] for mode in _IDLE_MODES) / total


def _doubts_of_data(stored: StoredRun, kind: str) -> Iterator[Doubt]:
    part_word = KINDS[kind].part_word if kind in KINDS else ""
    yield from check_doubts(check_of(stored), kind, part_word)


def _ended_early(stored: StoredRun, ending: str) -> tuple[Doubt, ...]:
    if ending == "completed":
        return ()
    why = stored.errors[0]["message"] if stored.errors else "it was stopped"
    return (
        Doubt(
            "ended_early",
            "not_valid" if ending == "aborted" else "doubt",
            f"The run ended early: {why}.",
            "the result covers the time until then",
        ),
    )


def _restarted(stored: StoredRun, numbers: LoadNumbers) -> tuple[Doubt, ...]:
    restarted_ns = stored.server_json.get("restarted_ns")
    if restarted_ns is None:
        return ()
    seconds = (restarted_ns - numbers.began_ns) / 1e9
    side = "after" if seconds >= 0 else "before"
    at = datetime.fromtimestamp(restarted_ns / 1e9, UTC)
    lost = numbers.summary.connections.lost_count
    return (
        Doubt(
            "restarted",
            "doubt",
            f"The server started again {abs(seconds):.1f} s {side} the beginning of the measured"
            f" time, at {at:%H:%M:%S} UTC; {counted(lost, 'connection')} of the load were lost.",
            "see the server's log at that moment; the results include the time without a server",
        ),
    )


def _not_reset(stored: StoredRun, planned: PlannedRun) -> tuple[Doubt, ...]:
    """Return the doubt about a single run on data as they were; in rounds all runs share this."""
    reset = stored.server_json.get("reset") or {}
    skipped = [step["skipped"] for step in reset.get("steps", ()) if step["name"] == "reset"]
    if planned.purpose != "detail" or not skipped:
        return ()
    return (
        Doubt(
            "not_reset",
            "doubt",
            "A first look: the data were not vacuumed before the run, and no checkpoint was written"
            " before it.",
            "leave out --quick and --reset none for a run that can be repeated",
        ),
    )


def _is_steady(numbers: LoadNumbers) -> bool | None:
    if numbers.counts_100ms.size < _WARMUP_COUNTS_MIN:
        return None
    try:
        return warmup_cut(numbers.counts_100ms, numbers.interval_ns).is_steady
    except AnalysisError:
        return None


def doubts_of_rounds(
    by_run: Sequence[tuple[Cell, tuple[Doubt, ...]]],
    *,
    run_count: int,
    of_variants: bool,
    client_word: str,
) -> tuple[Doubt, ...]:
    """Return every doubt that makes a run not valid, each kind once with its runs.

    What other sessions and programs did is returned, too, with the message of the worst run.
    Args: run_count, of all runs that the answer counts, also those that are not in by_run;
    of_variants, whether doubts about the set-up are returned, too, if at least half of the
    runs have them; client_word, "client" or "terminal".
    """
    first_by_kind: dict[str, Doubt] = {}
    cells: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell, of_run in by_run:
        for doubt in of_run:
            cells[doubt.kind].append(cell)
            if doubt.verdict == "not_valid" or doubt.kind in (*_OF_EVERY_RUN, *_OF_OTHERS):
                shown_of_kind = first_by_kind.setdefault(doubt.kind, doubt)
                if doubt.kind in _OF_OTHERS and _share(doubt) > _share(shown_of_kind):
                    first_by_kind[doubt.kind] = doubt
    shown = []
    for kind, doubt in first_by_kind.items():
        if doubt.verdict == "not_valid" or kind in _OF_OTHERS:
            places = [_place_of(cell, client_word) for cell in cells[kind]]
            message = doubt.message
            if kind in _OF_OTHERS and len(places) > 1:
                message = message.replace(" used ", " used up to ", 1)
            shown.append(replace(doubt, message=_with_runs(message, places, run_count)))
        elif of_variants and len(by_run) <= 2 * len(cells[kind]):
            shown.append(doubt)
    return tuple(shown)


def of_others(of_run: Sequence[Doubt]) -> tuple[Doubt, ...]:
    """Return the doubts about what others did in a run, which belong to those of all runs."""
    return tuple(doubt for doubt in of_run if doubt.kind in _OF_OTHERS)


def _share(doubt: Doubt) -> float:
    share = _SHARE.search(doubt.message)
    return float(share[1]) if share else 0.0


def _with_runs(message: str, places: Sequence[str], total: int) -> str:
    """Return the message behind its runs: "2 of 6 runs (8 clients): ..."."""
    if total == 1:
        return message
    if len(places) == total:
        return f"All {total} runs: {message}"
    names = [*dict.fromkeys(places)]
    more = f" and {len(names) - _PLACES_NAMED} more" if len(names) > _PLACES_NAMED else ""
    named = ", ".join(names[:_PLACES_NAMED]) + more
    return f"{len(places)} of {total} runs ({named}): {message}"


def _place_of(cell: Cell, client_word: str) -> str:
    """Return the variant of a cell, or the load that is its place in a sweep."""
    if cell.variant is not None:
        return cell.variant.name
    if cell.rate_tps is not None:
        return f"{cell.rate_tps:,.0f} tps"
    return counted(cell.clients, client_word)
