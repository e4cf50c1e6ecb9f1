"""The answer of `pgdyno crash` as a plain document, made from the stored crashes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pgdyno.analysis.estimate import Estimate, mean_between_runs
from pgdyno.analysis.losses import BLIND, EVENTS, events
from pgdyno.features.crash.controls import Control, ControlSeen, Kind, controls_of, judged
from pgdyno.features.crash.crashes import loss_of, recovery_line
from pgdyno.features.crash.faults import FAULTS
from pgdyno.features.crash.moments import PHASES
from pgdyno.features.crash.record import CrashRecord
from pgdyno.quantities import count as grouped
from pgdyno.quantities import percent
from pgdyno.spec.units import duration_ns, size_bytes
from pgdyno.store.folder import ExperimentFolder

Document = dict[str, Any]
_GB = 1e9
# What each kind of crash cannot show.
_NOT_SHOWN: Mapping[str, str] = {
    "kill": (
        "a loss of power: the kernel still writes what a killed server gave it, so fsync = off "
        "loses nothing here (--kind power)"
    ),
    "power": "caches inside the drive: --kind command with your power switch shows them",
    "failover": "a loss of power on either server (--kind power)",
    "command": "what your command does not cut off",
}
_DURABLE = {"fsync": "on", "full_page_writes": "on"}


def document_again(folder: ExperimentFolder) -> Document:
    """Return the document of a stored result; made anew if the lab was killed before."""
    return folder.analysis() or document_of(folder, is_complete=False)


def document_of(folder: ExperimentFolder, *, is_complete: bool) -> Document:
    """Return the document `pgdyno.crash/1`."""
    facts, asked = folder.facts() or {}, folder.asked("crash")
    records = [CrashRecord.of(line) for line in folder.crashes()]
    crashes = [record for record in records if not record.arm]
    kind: Kind = asked["kind"]
    of_kind = controls_of(kind, is_own="crash_command" in asked)
    controls = _seen_of(of_kind, records) if asked["controls"] else []
    loss = loss_of(kind, crashes)
    settings = facts.get("settings", {})
    recovery_s = [record.recovery_ns / 1e9 for record in crashes if record.recovery_ns]
    document: Document = {
        "format": "pgdyno.crash/1",
        "number": folder.number,
        "name": folder.name,
        "pgdyno_version": facts.get("pgdyno", ""),
        "target": facts.get("target_line", "not known"),
        "kind": kind,
        "seed": asked["seed"],
        "clients": asked["clients"],
        "settings": settings,
        "standby": facts.get("standby"),
        "is_complete": is_complete,
        "crashes_asked": 1 if "only" in asked else asked["crashes"],
        "crashes": len(crashes),
        "acknowledged": loss.acknowledged,
        "lost": loss.lost,
        "crashes_with_loss": sum(record.lost > 0 for record in crashes),
        "share_with_loss": _json(loss.share),
        "is_suffix": all(record.is_suffix for record in crashes),
        "in_doubt": sum(record.in_doubt for record in crashes),
        "in_doubt_committed": sum(record.in_doubt_committed for record in crashes),
        "corrupt": loss.corrupt_count,
        "controls": [asdict(control) for control in controls],
        "faults": [asdict(fault) for fault in _seen_of(FAULTS.values(), records)],
        "loss_seconds": _json(loss.seconds),
        "loss_seconds_max": loss.seconds_max,
        "loss_seconds_documented": _documented_s(settings),
        "recovery_seconds": _json(mean_between_runs(recovery_s, "s") if recovery_s else None),
        **_recovery(crashes, settings),
        "gap_seconds": _json(loss.gap),
        "gap_seconds_max": loss.gap_seconds_max,
        "coverage": _coverage(crashes),
        "checks": _checks(crashes),
        "not_shown": _NOT_SHOWN[kind],
        "records": [record.as_document() for record in records],
    }
    document["doubts"] = doubts_of(document, records)
    document["verdict"] = verdict_of(document)
    document["sentence"] = sentence_of(document)
    return document


def verdict_of(document: Mapping[str, Any]) -> str:
    """Return the verdict: "blind", "corrupt", "lost", "nothing lost" or "nothing crashed"."""
    if any(not control["holds"] for control in document["controls"]):
        return "blind"
    if not document["crashes"]:
        return "nothing crashed"
    if document["corrupt"]:
        return "corrupt"
    return "lost" if document["lost"] else "nothing lost"


def sentence_of(document: Mapping[str, Any]) -> str:
    """Return the answer in one or two sentences."""
    verdict, crashes = document["verdict"], document["crashes"]
    happened = events(document["kind"], crashes)
    if verdict == "blind":
        names = [control["name"] for control in document["controls"] if not control["holds"]]
        return f"{BLIND}: {', '.join(names)} did not show what it must."
    if verdict == "nothing crashed":
        return "no crash was finished"
    if verdict == "corrupt":
        return f"{document['corrupt']} of {happened} left damaged data."
    if verdict == "nothing lost":
        most = document["share_with_loss"]["high"]
        return (
            f"0 of {happened} lost an acknowledged commit "
            f"({grouped(document['acknowledged'])} commits): at 95 % fewer than {percent(most)} of "
            f"such {EVENTS[document['kind']][1]} do."
        )
    ends = "the last " if document["is_suffix"] else ""
    mean, most_s = document["loss_seconds"], document["loss_seconds_max"]
    low, high = mean["low"], mean["high"]
    between = f" ({low:.2f} to {high:.2f})" if low is not None and high is not None else ""
    return (
        f"{document['crashes_with_loss']} of {happened} lost {ends}"
        f"{mean['value']:.2f} s{between} of acknowledged commits, at most {most_s:.2f} s; "
        f"{grouped(document['lost'])} of {grouped(document['acknowledged'])} commits."
    )


def doubts_of(document: Mapping[str, Any], records: Sequence[CrashRecord]) -> list[str]:
    """Return in sentences what makes these crashes questionable.

    A loss beyond three times wal_writer_delay contradicts the manual, unless other settings weaken
    durability too, or a standby took over.
    """
    doubts = []
    settings, most_s = document["settings"], document["loss_seconds_documented"]
    is_durable_else = all(settings.get(name, on) == on for name, on in _DURABLE.items())
    if most_s is not None and is_durable_else and document["kind"] != "failover":
        crashes = [record for record in records if not record.arm and record.lost_ns > most_s * 1e9]
        if crashes:
            longest = max(crashes, key=lambda record: record.lost_ns)
            doubts.append(
                f"{len(crashes)} of {events(document['kind'], document['crashes'])} lost more than "
                f"3 x wal_writer_delay ({most_s:.2f} s), which the manual names as the maximum: "
                f"crash {longest.number} lost {longest.lost_ns / 1e9:.2f} s. The WAL writer may "
                "have had no CPU, or the disk was slow."
            )
    unknown = dict.fromkeys(warning for record in records for warning in record.disk_warnings)
    doubts += [f"The disk of the test does not know a request: {words}." for words in unknown]
    return doubts


def promises_durability(document: Mapping[str, Any]) -> bool:
    """Return whether the settings promise that such a crash loses no acknowledged commit."""
    settings = document["settings"]
    waits = settings.get("synchronous_commit", "on")
    if any(settings.get(name, value) != value for name, value in _DURABLE.items()):
        return False
    if document["kind"] == "failover":
        return document["standby"] == "synchronous" and waits not in ("off", "local")
    return bool(waits != "off")


def _seen_of(controls: Iterable[Control], records: Sequence[CrashRecord]) -> list[ControlSeen]:
    """Return what those of the controls showed that were begun."""
    by_control = [
        (control, [record for record in records if record.arm == control.name])
        for control in controls
    ]
    return [judged(control, of_control) for control, of_control in by_control if of_control]


def _documented_s(settings: Mapping[str, str]) -> float | None:
    """Return the longest loss that PostgreSQL documents for synchronous_commit = off."""
    delay = settings.get("wal_writer_delay")
    return None if delay is None else 3 * duration_ns(delay) / 1e9


def _recovery(crashes: Sequence[CrashRecord], settings: Mapping[str, str]) -> Document:
    """Return recovery time against WAL, and what it predicts for max_wal_size."""
    seen = [
        (record.wal_bytes, record.recovery_ns / 1e9)
        for record in crashes
        if record.wal_bytes is not None and record.recovery_ns is not None
    ]
    line = recovery_line([wal for wal, _ in seen], [time for _, time in seen]) if seen else None
    size = settings.get("max_wal_size")
    at_most = line.at(size_bytes(size)) if line is not None and size is not None else None
    return {
        "wal_bytes_max": max((wal for wal, _ in seen), default=None),
        "recovery_seconds_per_gb": _json(line.rate.scaled(_GB, "s/GB") if line else None),
        "recovery_seconds_at_max_wal_size": _json(at_most),
    }


def _coverage(crashes: Sequence[CrashRecord]) -> list[Document]:
    crashed = Counter(record.phase for record in crashes)
    hit = Counter(record.phase for record in crashes if record.hit)
    return [
        {"phase": phase, "crashes": crashed[phase], "in_progress": hit[phase]} for phase in PHASES
    ]


def _checks(crashes: Sequence[CrashRecord]) -> list[Document]:
    """Return each check once: how often it was good or bad, and what the first bad one saw."""
    rows: dict[str, Document] = {}
    for record in crashes:
        for check in record.checks:
            row = rows.setdefault(check.name, {"name": check.name, "seen": check.seen, "bad": 0})
            row[check.verdict] = row.get(check.verdict, 0) + 1
            if check.verdict == "bad" and row["bad"] == 1:
                row["seen"], row["crash"] = check.seen, record.number
            if check.verdict == "note" and row["note"] == 1 and not row["bad"]:
                row["seen"] = check.seen
    return list(rows.values())


def _json(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else estimate.to_json()
