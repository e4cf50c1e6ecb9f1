"""What the text and the page of `pgdyno crash` say, from its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pgdyno.analysis.estimate import Estimate
from pgdyno.analysis.losses import events
from pgdyno.quantities import format_bytes
from pgdyno.report.numbers import estimate_text

Document = Mapping[str, Any]


def controls_rows(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the truth table, one row for each control."""
    if not document["controls"]:
        yield "controls", "none: without them nobody knows whether this test sees losses"
    for place, control in enumerate(document["controls"]):
        holds = "as it must" if control["holds"] else f"but it must show: {control['expected']}"
        yield "" if place else "controls", f"{control['name']}: {control['seen']}, {holds}"


def fault_rows(document: Document) -> Iterator[tuple[str, str]]:
    """Yield one row for each fault of the disk."""
    for place, fault in enumerate(document["faults"]):
        what = f"{fault['name']}: {fault['seen']}"
        record = next(row for row in document["records"] if row["arm"] == fault["name"])
        notes = [row["seen"] for row in record["checks"] if row["name"] == "what the server did"]
        yield "" if place else "faults", "; ".join([what, *notes])


def commits_words(document: Document) -> str:
    """Return how many commits were acknowledged, lost and in doubt."""
    crashes = events(document["kind"], document["crashes"])
    words = (
        f"{document['acknowledged']:,} acknowledged in {crashes}, {document['lost']:,} lost; "
        f"{document['in_doubt']:,} in doubt, of which {document['in_doubt_committed']:,} happened"
    )
    documented_s = document["loss_seconds_documented"]
    if document["lost"] and documented_s is not None:
        words += f"; 3 x wal_writer_delay is {documented_s:.2f} s"
    return words


def coverage_words(document: Document) -> str:
    """Return how many crashes each phase had, and how many hit its work."""
    parts = []
    for row in document["coverage"]:
        part = f"{row['phase']} {row['crashes']}"
        if row["in_progress"] < row["crashes"]:
            part += f" ({row['in_progress']} in progress)"
        parts.append(part)
    return ", ".join(parts)


def checks_words(document: Document) -> str:
    """Return how many checks there were and how many failed."""
    rows = document["checks"]
    bad = [row["name"] for row in rows if row["bad"]]
    skipped = [row["name"] for row in rows if row.get("skipped")]
    words = f"{len(rows)} after each crash: "
    words += f"{', '.join(bad)} failed" if bad else "all hold"
    return words + (f"; not possible: {', '.join(skipped)}" if skipped else "")


def recovery_words(document: Document) -> str:
    """Return how long recoveries took, and what they predict for max_wal_size."""
    seconds = estimate_of(document["recovery_seconds"])
    if seconds is None:
        return "no crash was recovered"
    words = estimate_text(seconds, with_unit=True)
    rate, at_most = (
        estimate_of(document["recovery_seconds_per_gb"]),
        estimate_of(document["recovery_seconds_at_max_wal_size"]),
    )
    if rate is None or at_most is None:
        wal = document["wal_bytes_max"]
        seen = f" (at most {format_bytes(wal)} here)" if wal is not None else ""
        return f"{words}; these crashes do not show how it grows with the WAL to replay{seen}"
    size = document["settings"]["max_wal_size"]
    slope = estimate_text(rate.scaled(1, "s"), with_unit=True)
    return (
        f"{words}; {slope} for each GB of WAL since the checkpoint: "
        f"at max_wal_size = {size} expect {estimate_text(at_most, with_unit=True)}"
    )


def gap_words(document: Document) -> str:
    """Return how long clients waited in a failover; "" for other kinds."""
    gap = estimate_of(document["gap_seconds"])
    if gap is None:
        return ""
    most_s = document["gap_seconds_max"]
    mean = estimate_text(gap, with_unit=True)
    return f"longest gap of a client, on average {mean}, at most {most_s:.2f} s"


def estimate_of(document: Mapping[str, Any] | None) -> Estimate | None:
    """Return an estimate from its JSON object."""
    return None if document is None else Estimate(**document)
