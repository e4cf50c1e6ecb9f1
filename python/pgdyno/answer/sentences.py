"""The answers of bench, sweep and TPC-C-like runs in sentences."""

from __future__ import annotations

from pgdyno.analysis.capacity import Capacity
from pgdyno.analysis.findings import CurveFindings, RunFindings
from pgdyno.analysis.rounding import change_text, range_words, value_words
from pgdyno.analysis.speed_up import SpeedUp
from pgdyno.analysis.where import WhereTheTimeGoes
from pgdyno.answer.own import own_answer
from pgdyno.programs.registry import program_named
from pgdyno.quantities import counted, percent

_BUSY_RATIO = 0.9


def bench_sentence(run: RunFindings | None) -> str:
    """Return throughput, p99 and the largest part of the time."""
    if run is None:
        return "No run was completed."
    if run.program.own is not None and (
        own := own_answer(program_named(run.program.name)).sentence(run)
    ):
        return own
    p99 = run.latency.percentiles["p99"]
    words = f"{value_words(run.tps)} tps{range_words(run.tps)} with {_clients(run.clients)}"
    words += f", p99 {'at least ' if p99.censored else ''}{value_words(p99)} ms"
    if run.where is not None and run.where.parts:
        largest = max(run.where.parts, key=lambda part: part.ms.value)
        share = largest.ms.value / run.where.latency_ms.value if run.where.latency_ms.value else 0
        words += f"; {percent(share)} of the time is {largest.name}"
        if busy := while_busy_words(run.where):
            words += f"; {busy}"
    return words + "."


def while_busy_words(where: WhereTheTimeGoes) -> str:
    """Return the wait events of busy clients while transactions waited for a client.

    The wait for a client is only the consequence. Its cause is in this sentence.
    Returns: "" if no transaction waited for a client.
    """
    if not where.while_busy:
        return ""
    event, share = where.while_busy[0]
    return f"meanwhile the busy clients spent {percent(share)} of their time in {event}"


def sweep_sentence(curves: tuple[CurveFindings, ...]) -> str:
    """Return peak and knee of every curve."""
    if not curves:
        return "No load curve: no level was measured."
    return " ".join(_of_curve(findings) for findings in curves)


def limit_sentence(where: WhereTheTimeGoes, cpu_busy_ratio: float | None) -> str:
    """Return the largest parts of the time at the knee, and whether all cores were busy."""
    words = []
    if cpu_busy_ratio is not None and cpu_busy_ratio >= _BUSY_RATIO:
        words.append(f"all cores {percent(cpu_busy_ratio)} busy")
    if where.parts:
        largest = max(where.parts, key=lambda part: part.ms.value)
        words.append(f"{largest.name} {largest.ms.value:.3g} of {where.latency_ms.value:.3g} ms")
    return "; ".join(words)


def _of_curve(findings: CurveFindings) -> str:
    peak, knee = findings.curve.peak, findings.curve.knee
    words = f"{findings.script} peaks at {value_words(peak.tps)} tps{range_words(peak.tps)} "
    if findings.rates:
        rate = findings.rates[peak.clients]
        words = f"{findings.script} peaks at {value_words(rate)} {rate.unit}{range_words(rate)} "
    words += f"with {findings.load_words(peak.clients)}"
    if peak.is_at_edge:
        words += ", the highest load tried"
    if knee.clients != peak.clients:
        words += (
            f"; {findings.load_words(knee.clients)} are enough for "
            f"{percent(1 - knee.tolerance_ratio)} of it"
        )
    if findings.capacity is not None:
        words += f"; {capacity_words(findings.capacity)}"
    if findings.speed_up is not None:
        words += f"; {speed_up_words(findings.speed_up)}"
    return words + "."


def capacity_words(held_load: Capacity) -> str:
    """Return how much load can be held under the latency target, and the rule."""
    load = held_load.load
    number, interval = f"{value_words(load)} {load.unit}", range_words(load)
    if load.unit != "tps":
        number = counted(round(load.value), load.unit.removesuffix("s"))
        interval = f" ({load.low or 0:,.0f} to {load.high or 0:,.0f})"
    held = {
        "found": f"holds {number}{interval}",
        "above": f"keeps the target at {number} or more (the highest offered load)",
        "below": f"does not keep the target even at {number} (the lowest offered load)",
    }[held_load.end]
    return f"{held} under {held_load.rule}"


def speed_up_words(ratio: SpeedUp) -> str:
    """Return mean and maximum of a variant's speed-up up to the knee."""
    return (
        f"against the first variant {change_text(ratio.mean)} on average up to the knee of "
        f"{_clients(ratio.knee_clients)}, at most {change_text(ratio.maximum)} at "
        f"{_clients(ratio.maximum_clients)}"
    )


def _clients(count: int) -> str:
    return f"{count} client{'s' if count != 1 else ''}"
