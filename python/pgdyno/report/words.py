"""Sentences that the text and the HTML page share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pgdyno import quantities
from pgdyno.analysis.findings import (
    ConnectionFindings,
    CurveFindings,
    ExperimentFindings,
    Mark,
    RunFindings,
    ScriptFindings,
)
from pgdyno.analysis.losses import Loss
from pgdyno.analysis.rounding import change_text
from pgdyno.analysis.speed_up import SpeedUp
from pgdyno.analysis.usl import Usl
from pgdyno.answer.sentences import capacity_words, speed_up_words
from pgdyno.programs.registry import program_named
from pgdyno.report import numbers
from pgdyno.report.figures import in_ms

_MARKS = {
    "checkpoint": ("checkpoint", "C"),
    "vacuum": ("vacuum", "V"),
    "change": ("change of speed", "C"),
    "gap": ("gap", "G"),
    "error": ("error", "E"),
}


def loss_words(names: Sequence[str], value: str = "off", losses: Sequence[Loss] = ()) -> str:
    """Return what crashes took with settings that weaken durability, or how to measure it."""
    if losses:
        return "; ".join(loss.sentence() for loss in losses) + "."
    set_options = " ".join(f"--set {name}={value}" for name in names)
    # A killed server loses nothing that the kernel has: only a loss of power shows the others.
    kind = "" if {*names} == {"synchronous_commit"} else " --kind power"
    return f"The loss was not measured: pgdyno crash{kind} {set_options}"


def fact_line(findings: ExperimentFindings) -> str:
    """Return date, duration and number of runs, and the first facts about the machine."""
    pieces = [findings.started_utc, quantities.seconds(findings.seconds)]
    if findings.runs_total > 1:
        pieces.append(quantities.counted(findings.runs_total, "run"))
    pieces += [f"{label} {value}" for label, value in findings.facts.rows]
    return " · ".join(pieces)


def run_words(findings: ExperimentFindings) -> str:
    """Return which run is shown in detail: "the run at the knee: 32 clients, 30 s"."""
    run = findings.run
    if run is None:
        return ""
    load = quantities.counted(run.clients, program_named(run.program.name).client_word)
    if run.open_loop is not None:
        load = f"{quantities.plain(run.open_loop.offered_tps)} tps offered to {load}"
    which = "the run at the knee" if findings.curves else "the run"
    return f"{which}: {load}, {quantities.seconds(run.timeline.duration_s)}"


def loop_words(run: RunFindings) -> str:
    """Return the meaning of latency for this load (open or closed loop)."""
    if run.open_loop is not None:
        return "Open loop: latency counts from the time at which a transaction was due."
    return (
        "Closed loop: latency counts from the start of a transaction. A client that waits sends "
        "nothing new."
    )


def mark_words(run: RunFindings) -> str:
    """Return "3 checkpoints, 1 change of speed"."""
    counts: Counter[str] = Counter()
    for mark in run.timeline.marks:
        counts[mark.kind] += mark.count
    return ", ".join(
        quantities.counted(count, noun) if noun != "change of speed" or count == 1
        else f"{count} changes of speed"
        for kind, (noun, _) in _MARKS.items()
        if (count := counts[kind])
    )  # fmt: skip


def marks_shown(marks: Sequence[Mark]) -> str:
    """Return "3 marks on the time line", and whether near marks are joined."""
    total = sum(mark.count for mark in marks)
    words = f"{quantities.counted(total, 'mark')} on the time line"
    return (
        words
        if total == len(marks)
        else f"{words}, shown as {len(marks)}: near marks of a kind are combined"
    )


def failures_text(failures: Mapping[str, int]) -> str:
    """Return "0 failed" or "3 failed (40001: 2, 40P01: 1)"."""
    total = sum(failures.values())
    if not total:
        return "0 failed"
    kinds = ", ".join(
        f"{name}: {quantities.count(count)}" for name, count in sorted(failures.items())
    )
    return f"{quantities.count(total)} failed ({kinds})"


def script_words(script: ScriptFindings) -> str:
    """Return a script's weight, counts, throughput and latency in one line."""
    pieces = [
        f"weight {script.weight}",
        quantities.counted(script.transactions, "transaction")
        + f", {failures_text(script.failures)}",
        numbers.estimate_text(script.tps, with_unit=True),
        f"mean {numbers.estimate_text(in_ms(script.latency.mean), with_unit=True)}",
    ]
    if (p99 := script.latency.percentiles.get("p99")) is not None:
        pieces.append(f"p99 {numbers.estimate_text(in_ms(p99), with_unit=True)}")
    return ", ".join(pieces)


def curve_words(findings: CurveFindings) -> str:
    """Return peak, knee, the loss after the peak and the fitted law in words."""
    curve = findings.curve
    said = []
    if curve.peak.is_at_edge:
        said.append("The peak is at the highest load tried; the true peak may be higher.")
    chances = ", ".join(
        f"{candidate.clients} clients {quantities.percent(candidate.probability_ratio)}"
        for candidate in curve.knee.candidates
    )
    if len(curve.knee.candidates) > 1:
        said.append(f"Probabilities of the knee: {chances}.")
    if curve.degradation is not None:
        said.append(f"Against the peak: {degradation_text(findings)}.")
    if curve.usl is not None:
        said.append(law_words(curve.usl, "client"))
    if findings.limit:
        said.append(f"Limit at the knee: {findings.limit}.")
    if findings.capacity is not None:
        said.append(f"With the latency target, it {capacity_words(findings.capacity)}.")
    if findings.cost is not None:
        said.append(f"This costs {numbers.estimate_text(findings.cost, with_unit=True)}.")
    if findings.speed_up is not None:
        said.append(f"Throughput {speed_up_words(findings.speed_up)}.")
        said.append(f"By level: {level_ratios_text(findings.speed_up)}.")
    return " ".join(said)


def law_words(law: Usl, what: str) -> str:
    """Return the coefficients of the law over clients or workers as a sentence."""
    words = (
        f"Fitted law: one {what} {numbers.estimate_text(law.gamma)} tps, contention "
        f"{numbers.estimate_text(law.alpha)}, coherency {numbers.estimate_text(law.beta)}"
    )
    return f"{words}; {law.reason}." if law.reason else f"{words}."


def degradation_text(findings: CurveFindings) -> str:
    """Return "-36 % (-38 to -34) at 256 clients", "" if the peak is at the largest load."""
    fallen = findings.curve.degradation
    if fallen is None:
        return ""
    change = fallen.change.scaled(100, "%")
    clients = quantities.clients_text(fallen.clients)
    return f"{numbers.estimate_text(change, with_unit=True)} at {clients}"


def level_ratios_text(speed_up: SpeedUp) -> str:
    """Return "1 client +3.1 % (+2.0 to +4.2); 8 clients ..."."""
    return "; ".join(
        f"{quantities.clients_text(level.clients)} {change_text(level.ratio)}"
        for level in speed_up.levels
    )


def knee_range_text(findings: CurveFindings) -> str:
    """Return the other levels that may be the knee."""
    loads = [candidate.clients for candidate in findings.curve.knee.candidates]
    if not loads:
        return numbers.NO_INTERVAL
    if len(loads) == 1:
        return "no other level is likely"
    return f"{min(loads)} to {max(loads)}"


def connection_rows(connections: ConnectionFindings) -> Iterator[tuple[str, str]]:
    """Yield label and text of every row; no rows if each client kept its connection."""
    if connections.is_per_transaction:
        yield (
            "connecting",
            f"{_of(connections.connect_ms)}; {quantities.count(connections.opened_count)} "
            "connections, one per transaction",
        )
    if connections.shared_count is not None and connections.wait_ms is not None:
        yield (
            "shared",
            f"{quantities.counted(connections.shared_count, 'connection')}, mean wait "
            f"{quantities.milliseconds(connections.wait_ms['mean'])}, {_of(connections.wait_ms)}",
        )
    if connections.idle_opened_count is not None:
        yield (
            "idle",
            f"{connections.idle_alive_count or 0:,} of "
            + quantities.counted(connections.idle_opened_count, "idle connection")
            + " answered at the end",
        )
    if connections.hosts:
        parts = (
            f"{host.host}:{host.port} {quantities.counted(host.opened_count, 'connection')}, "
            f"{quantities.count(host.transactions_count)} transactions "
            f"({quantities.percent(host.transactions_ratio)})"
            for host in connections.hosts
        )
        yield "servers", "; ".join(parts)
    if connections.lost_count:
        doubt = connections.commits_in_doubt_count
        words = (
            f"{quantities.counted(connections.lost_count, 'connection')}, "
            f"{quantities.count(connections.reconnected_count)} opened again"
        )
        if doubt:
            words += f"; {quantities.counted(doubt, 'commit')} in doubt: sent, but not answered"
        if connections.longest_gap_ms is not None and connections.longest_gap_began_s is not None:
            words += (
                f"; nothing completed for {quantities.plain(connections.longest_gap_ms / 1e3)} s, "
                f"{quantities.plain(connections.longest_gap_began_s)} s after the start"
            )
        yield "lost", words


def _of(percentiles: dict[str, float]) -> str:
    names = ("p50", "p95", "p99", "max")
    return ", ".join(f"{name} {quantities.milliseconds(percentiles[name])}" for name in names)
