"""What `pgdyno work-mem` found, as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from pgdyno.features.tune.spill import Advice, Need
from pgdyno.features.tune.spilling import LoggedFiles, Spilled
from pgdyno.quantities import counted, format_bytes, plain
from pgdyno.report.block_charts import SentenceBlock
from pgdyno.report.block_text import blocks_text

_LABEL_WIDTH = 8
_MB = 1 << 20
# Labels of the second column, under the statement.
_NOW, _ENOUGH, _UNDER = (f"{'':{_LABEL_WIDTH}}{word:7}" for word in ("now", "enough", ""))


@dataclass(frozen=True, slots=True)
class Again:
    """What another verb needs for the same server: words, and a change of each variant."""

    words: tuple[str, ...] = ()
    change: str = ""

    @property
    def or_else(self) -> str:
        """Return the other way to compare; "" if --prove does not take this request."""
        return "" if self.change else "   (or --prove 5min)"


def text_of(
    target: str,
    spilled: Spilled | None,
    logged: LoggedFiles | None,
    needs: tuple[Need, ...],
    advice: Advice,
    *,
    files: tuple[str, ...],
    again: Again,
    width: int,
    has_log: bool,
) -> str:
    """Return the whole text in lines of at most `width` signs.

    Args: files, with the statements, as the user named them; again, for the command that compares
    both values; has_log, whether the user gave a log, which may have no temporary file.
    """
    rows = [("target", target), ("now", _now(advice))]
    if spilled is not None:
        rows += _spilled(spilled)
    if has_log:
        rows.append(("log", _logged(logged) if logged is not None else _NOTHING_LOGGED))
    for need in needs:
        rows += [("", ""), *_need(need)]
    rows += _advice(advice, files if needs else (), again)
    return blocks_text([SentenceBlock(*row) for row in rows], width, _LABEL_WIDTH)


def setting_text(size_bytes: int) -> str:
    """Return the next larger value that is easy to read: whole MB, or whole 64 kB below 1 MB."""
    if size_bytes >= _MB:
        return f"{-(-size_bytes // _MB)}MB"
    return f"{-(-size_bytes // (64 << 10)) * 64}kB"


def exact_setting_text(size_bytes: int) -> str:
    """Return a present value as SHOW writes it: 4MB, or 4100kB."""
    return f"{size_bytes // _MB}MB" if size_bytes % _MB == 0 else f"{size_bytes >> 10}kB"


def _now(advice: Advice) -> str:
    value = exact_setting_text(advice.now_bytes)
    said = f"work_mem = {value}, {counted(advice.active_count, 'statement')} at work"
    if advice.budget_bytes is None:
        return f"{said} at one time; memory not known (--ram)"
    return f"{said} at one time; {format_bytes(advice.budget_bytes)} for all sorts and hashes"


def _spilled(spilled: Spilled) -> Iterator[tuple[str, str]]:
    if not spilled.file_count:
        yield "spilled", "no temporary file since the statistics were reset"
        return
    mean = format_bytes(spilled.temp_bytes // spilled.file_count)
    since = f" since {spilled.since[:16]}" if spilled.since else ""
    total = format_bytes(spilled.temp_bytes)
    files = counted(spilled.file_count, "temporary file")
    yield "spilled", f"{files}, {total}, {mean} each{since}"
    if spilled.tried_bytes:
        yield "", f"of this, {format_bytes(spilled.tried_bytes)} by statements tried with EXPLAIN"
    if spilled.why_no_statements:
        yield "", f"which statements wrote them is not known: {spilled.why_no_statements}"
    for statement in spilled.statements[:5]:
        per_call = format_bytes(statement.bytes_per_call)
        yield (
            "",
            f"{per_call} a call, {statement.calls:,} calls, role {statement.role}: "
            f"{statement.text[:70]}",
        )


_NOTHING_LOGGED = "no temporary file in it; with log_temp_files = 0 the server logs each"


def _logged(logged: LoggedFiles) -> str:
    sizes = ", ".join(
        f"{name} {format_bytes(size)}"
        for name, size in (
            ("median", logged.median_bytes),
            ("90 % below", logged.p90_bytes),
            ("largest", logged.max_bytes),
        )
    )
    return f"{logged.count:,} temporary files: {sizes}"


def _need(need: Need) -> Iterator[tuple[str, str]]:
    yield need.place, need.statement[:120]
    if not need.now.spills:
        used = format_bytes(need.now.memory_bytes)
        yield "", f"writes no temporary file; its sorts and hashes use {used}"
        return
    present = setting_text(need.now.work_mem_bytes)
    now = f"{plain(need.now.duration_ms)} ms, {format_bytes(need.now.temp_bytes)} temporary"
    yield _NOW, f"work_mem = {present}: {now} ({', '.join(need.now.nodes)})"
    if need.enough is None:
        yield _ENOUGH, "no value tried: it still spills; try a larger --max"
        return
    value = setting_text(need.enough.work_mem_bytes)
    processes = f", {need.enough.process_count} processes" if need.enough.process_count > 1 else ""
    yield (
        _ENOUGH,
        f"work_mem = {value}: {plain(need.enough.duration_ms)} ms"
        f" ({plain(need.gain_ratio)}x, one execution each: no interval),"
        f" memory {format_bytes(need.enough.memory_bytes)}{processes}"
        f" ({', '.join(need.enough.nodes)}); {need.tried_count} executions",
    )
    if need.now.is_hash_alone:
        yield _UNDER, "only hashes spill: a larger hash_mem_multiplier helps as well"


def _advice(advice: Advice, files: tuple[str, ...], again: Again) -> Iterator[tuple[str, str]]:
    yield "", ""
    if not files:
        yield "next", "give the statements that spill: -f statements.sql, with --scratch or"
        yield "", "--allow-explain-analyze; the smallest value that is enough is found by trying"
        return
    if advice.why:
        yield "note", advice.why
    if advice.server_bytes is not None:
        value = setting_text(advice.server_bytes)
        reload = "SELECT pg_catalog.pg_reload_conf();"
        yield "server", f"ALTER SYSTEM SET work_mem = '{value}'; {reload}"
        yield (
            "compare",
            (
                f"pgdyno compare{''.join(f' {shlex.quote(word)}' for word in again.words)}"
                f"{''.join(f' -f {shlex.quote(name)}' for name in files)}"
                f" --variant 'now: work_mem={exact_setting_text(advice.now_bytes)}{again.change}'"
                f" --variant 'enough: work_mem={value}{again.change}'{again.or_else}"
            ),
        )
    for advised in advice.apart:
        need, count = advised.need, advised.at_one_time_count
        assert need.enough is not None, "what is set apart has a value"
        value, used = setting_text(need.enough.work_mem_bytes), need.enough.memory_bytes
        room = f": at most {count} at one time fit" if advice.budget_bytes is not None else ""
        said = f"SET LOCAL work_mem = '{value}', or ALTER ROLE ... SET; {format_bytes(used)} each"
        yield "apart", f"{need.place}: {said}{room}"
