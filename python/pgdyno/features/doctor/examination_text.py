"""An examination as blocks: rights, then bad and doubtful findings, and the number of good ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from pgdyno.features.doctor import rights as rights_of
from pgdyno.features.doctor.examine import Examination
from pgdyno.features.doctor.finding import NO_SERVER, NO_SHELL, Finding, Verdict
from pgdyno.quantities import format_bytes
from pgdyno.report.block_charts import SentenceBlock
from pgdyno.report.block_text import blocks_text
from pgdyno.report.text_page import WIDTH

_LABELS: dict[Verdict, str] = {"bad": "BAD", "warn": "WARN", "good": "good", "unknown": "?"}
_LABEL_WIDTH = 6
# Many checks share these reasons, so the checks are counted and not listed.
_FOLDED = {NO_SHELL: NO_SHELL, NO_SERVER: "need a server"}


def text_of(
    examination: Examination, *, verbs: Collection[str], show_all: bool, width: int = WIDTH
) -> str:
    """Return the whole text in lines of `width` characters. Args: verbs, whose rights are shown."""
    rows = _rows(examination, verbs, show_all=show_all)
    return blocks_text([SentenceBlock(*row) for row in rows], width, _LABEL_WIDTH)


def _rows(
    examination: Examination, verbs: Collection[str], *, show_all: bool
) -> Iterator[tuple[str, str]]:
    """Yield the label and the words of every row."""
    yield "target  ", examination.target
    yield from _host(examination)
    yield from _rights(examination, verbs)
    for verdict in ("bad", "warn"):
        for finding in examination.of(verdict):
            yield from _finding(finding)
    for why, ids in examination.not_measurable().items():
        if ids and why in _FOLDED:
            continue
        named = ", ".join(name.replace("_", " ") for name in ids) or "the WAL's disk"
        where = "there" if examination.facts.is_afar else "here"
        said = f"not measurable {where}: {named}, because: {why}"
        yield _LABELS["unknown"], said
    if show_all:
        for finding in examination.of("good"):
            yield from _finding(finding)
    yield _LABELS["good"], _counts(examination, show_all=show_all)


def _host(examination: Examination) -> Iterator[tuple[str, str]]:
    """Yield one row about the host, if it was examined."""
    host = examination.facts.host
    if host is None:
        return
    words = [host.machine, f"container ({host.container})" if host.container else ""]
    words.append(f"{host.cores} core{'s' * (host.cores != 1)}")
    if "total_bytes" in host.memory:
        words.append(format_bytes(host.memory["total_bytes"]))
    yield "host    ", ", ".join(word for word in words if word)


def grants_text(examination: Examination) -> str:
    """Return the statements that grant the missing rights, ready for the server's owner."""
    server = examination.facts.server
    if server is None:
        return "-- no server: nothing to grant"
    grants = rights_of.grants(
        server.rights, major=server.major, database=str(server.answer("identity")[2])
    )
    return "\n".join(grants or ["-- no privilege is missing"])


def _rights(examination: Examination, verbs: Collection[str]) -> Iterator[tuple[str, str]]:
    facts = examination.facts
    server = facts.server
    if server is None or "role" not in server.answers:
        return
    rights, has_shell = server.rights, facts.host is not None
    named = rights_of.summary(rights, has_shell=has_shell)
    words = " | ".join(f"{name} {'yes' if has else 'NO'}" for name, has in named)
    yield "rights  ", words
    is_standby = bool(server.answer("identity")[1])
    for right in rights_of.verb_rights(rights, has_shell=has_shell, is_standby=is_standby):
        if right.verb in verbs and not (rights.is_superuser and right.is_complete):
            yield f" {right.verb:9}", right.text
    if rights.can_write and not is_standby:
        yield (
            " writes   ",
            "the role may change tables; for loads that only read, use one that may not",
        )
    missing = rights_of.grants(rights, major=server.major, database="")
    if missing:
        count = f"{len(missing)} statement{'s' * (len(missing) > 1)}"
        yield " missing  ", f"{count} for the server's owner: pgdyno doctor --grants"


def _finding(finding: Finding) -> Iterator[tuple[str, str]]:
    name = finding.id.replace("_", " ")
    is_said = finding.seen.startswith((name, finding.id))
    yield _LABELS[finding.verdict], finding.seen if is_said else f"{name}: {finding.seen}"
    if finding.mend:
        yield "", finding.why
        yield f"{'':{_LABEL_WIDTH}}mend: ", finding.mend


def _counts(examination: Examination, *, show_all: bool) -> str:
    good = len(examination.of("good"))
    text = f"{good} check{'s' * (good != 1)}" + ("" if show_all else " (--all)")
    reasons = Counter(
        _FOLDED.get(finding.seen, "not known here") for finding in examination.of("unknown")
    )
    return "; ".join([text, *(f"{count} {reason}" for reason, count in reasons.items())])
