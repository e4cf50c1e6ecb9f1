"""Settings that contradict each other: the server refuses to start, or one has no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pgdyno.features.doctor.finding import Unknown, Verdict
from pgdyno.features.doctor.server_seen import ServerSeen
from pgdyno.quantities import format_bytes

# Five segments of WAL; the server takes no less than two.
_MIN_WAL_DEFAULT_BYTES, _MIN_WAL_MB = 80 << 20, 32
# The pace of the defaults before PostgreSQL 12 (20 ms), and five times the default pause.
_SLOW_VACUUM_BYTES, _LONG_PAUSE_S = 5e6, 300


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two settings that do not go together; `setting` is the one to change."""

    setting: str
    verdict: Verdict
    seen: str
    mend: str


def contradictions(server: ServerSeen) -> tuple[Contradiction, ...]:
    """Return every contradiction; rules about settings that are not known are left out."""
    contradictions: list[Contradiction] = []
    for rule in (
        _wal_level,
        _archiving,
        _standbys,
        _sizes,
        _connections,
        _without_effect,
        _timeouts,
        _costs,
        _vacuum,
        _vacuum_pace,
    ):
        contradictions += _judged(rule, server)
    return tuple(contradictions)


def _judged(
    rule: Callable[[ServerSeen], Iterator[Contradiction]], server: ServerSeen
) -> Iterator[Contradiction]:
    try:
        yield from rule(server)
    except Unknown:
        return


def _wal_level(server: ServerSeen) -> Iterator[Contradiction]:
    """wal_level = minimal has no WAL for standbys, archives or summaries."""
    if server.text("wal_level") != "minimal":
        return
    minimal = "wal_level = minimal"
    if (senders := server.number("max_wal_senders")) > 0:
        yield _refused("max_wal_senders", f"{minimal} and max_wal_senders = {senders:g}", "0")
    if (mode := server.text("archive_mode")) != "off":
        yield _refused("archive_mode", f"{minimal} and archive_mode = {mode}", "off")
    if _text(server, "summarize_wal", "off") == "on":
        yield _refused("summarize_wal", f"{minimal} and summarize_wal = on", "off")


def _archiving(server: ServerSeen) -> Iterator[Contradiction]:
    """archive_mode without a way to archive keeps all WAL."""
    mode = server.text("archive_mode")
    has_way = any(_text(server, name, "") for name in ("archive_command", "archive_library"))
    if mode != "off" and not has_way:
        yield Contradiction(
            "archive_mode",
            "bad",
            f"archive_mode = {mode}, but archive_command is empty: WAL fills the disk",
            "set archive_command, or archive_mode = off",
        )


def _standbys(server: ServerSeen) -> Iterator[Contradiction]:
    """Physical standbys and slots need senders."""
    slots, senders = server.number("max_replication_slots"), server.number("max_wal_senders")
    names = server.text("synchronous_standby_names")
    if names and not senders:
        yield Contradiction(
            "max_wal_senders",
            "bad",
            f"synchronous_standby_names = '{names}', but max_wal_senders = 0: no standby can"
            " connect, and no commit returns",
            "max_wal_senders = 10",
        )
    if server.text("wal_level") == "logical" and not slots:
        yield Contradiction(
            "max_replication_slots",
            "warn",
            "wal_level = logical, but max_replication_slots = 0: nothing can be decoded",
            "max_replication_slots = 10",
        )


def _sizes(server: ServerSeen) -> Iterator[Contradiction]:
    """One size is the limit of another."""
    low, high = server.size_bytes("min_wal_size"), server.size_bytes("max_wal_size")
    if low > high:
        # The default of min_wal_size is not the mistake; a rule then has a value for max_wal_size.
        is_low_set = low != _MIN_WAL_DEFAULT_BYTES
        yield Contradiction(
            "min_wal_size" if is_low_set else "max_wal_size",
            "warn",
            f"min_wal_size ({format_bytes(int(low))}) is above max_wal_size"
            f" ({format_bytes(int(high))})",
            f"min_wal_size = {max(int(high) // 2 >> 20, _MIN_WAL_MB)}MB" if is_low_set else "",
        )
    if "io_max_combine_limit" in server.settings:
        asked, limit = (
            server.size_bytes("io_combine_limit"),
            server.size_bytes("io_max_combine_limit"),
        )
        if asked > limit:
            yield Contradiction(
                "io_combine_limit",
                "warn",
                f"io_combine_limit = {server.settings['io_combine_limit'].shown} has no effect"
                f" above io_max_combine_limit = {server.settings['io_max_combine_limit'].shown}",
                "raise io_max_combine_limit (restart)",
            )


def _connections(server: ServerSeen) -> Iterator[Contradiction]:
    """Reserved connections must leave connections for ordinary roles."""
    total = server.number("max_connections")
    reserved = server.number("superuser_reserved_connections")
    reserved += float(_text(server, "reserved_connections", "0"))
    if reserved >= total:
        seen = f"{reserved:g} connections are reserved, max_connections = {total:g}"
        yield _refused("superuser_reserved_connections", seen, "3")


def _without_effect(server: ServerSeen) -> Iterator[Contradiction]:
    """Another setting switches a setting off."""
    if server.is_on("autovacuum") and not server.is_on("track_counts"):
        yield Contradiction(
            "track_counts",
            "bad",
            "autovacuum = on has no effect while track_counts = off: dead rows stay",
            "track_counts = on",
        )
    if not server.is_on("fsync") and server.text("synchronous_commit") != "off":
        yield Contradiction(
            "synchronous_commit",
            "warn",
            f"synchronous_commit = {server.text('synchronous_commit')} promises nothing while"
            " fsync = off",
            "fsync = on",
        )
    slots = server.settings.get("autovacuum_worker_slots")
    workers = server.number("autovacuum_max_workers")
    if slots is not None and workers > float(slots.text):
        yield Contradiction(
            "autovacuum_max_workers",
            "warn",
            f"autovacuum_max_workers = {workers:g} has no effect above autovacuum_worker_slots ="
            f" {slots.text}",
            "raise autovacuum_worker_slots (restart)",
        )
    delay, siblings = server.number("commit_delay"), server.number("commit_siblings")
    if delay > 0 and siblings >= server.number("max_connections"):
        yield Contradiction(
            "commit_siblings",
            "warn",
            f"commit_delay = {delay:g} has no effect: commit_siblings = {siblings:g} sessions are"
            " never active",
            "commit_siblings = 5",
        )


def _timeouts(server: ServerSeen) -> Iterator[Contradiction]:
    """A longer timeout never passes where transaction_timeout is shorter."""
    if "transaction_timeout" not in server.settings:
        return
    whole_ms = server.duration_ms("transaction_timeout")
    for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
        part_ms = server.duration_ms(name)
        if 0 < whole_ms <= part_ms:
            yield Contradiction(
                name,
                "warn",
                f"{name} = {part_ms:g} ms has no effect: transaction_timeout = {whole_ms:g} ms ends"
                " the transaction before",
                f"{name} below transaction_timeout, or 0",
            )


def _costs(server: ServerSeen) -> Iterator[Contradiction]:
    """A page in any order costs at least as much as the next page of a file."""
    random, sequential = server.number("random_page_cost"), server.number("seq_page_cost")
    if random < sequential:
        yield Contradiction(
            "random_page_cost",
            "warn",
            f"random_page_cost = {random:g} is below seq_page_cost = {sequential:g}: the planner"
            " takes indexes even where it reads the whole table",
            f"random_page_cost = {sequential:g} or more",
        )


def _vacuum(server: ServerSeen) -> Iterator[Contradiction]:
    """A share of 0 leaves the threshold alone to start a vacuum."""
    for kind in ("vacuum", "analyze"):
        name = f"autovacuum_{kind}_threshold"
        rows, share = server.number(name), server.number(f"autovacuum_{kind}_scale_factor")
        if share == 0 and rows < 100:
            yield Contradiction(
                f"autovacuum_{kind}_scale_factor",
                "warn",
                f"autovacuum_{kind}_scale_factor = 0 and {name} = {rows:g}: autovacuum reads a"
                " table after nearly every change",
                f"autovacuum_{kind}_scale_factor = 0.05, or {name} = 10000",
            )


def _vacuum_pace(server: ServerSeen) -> Iterator[Contradiction]:
    """A vacuum that begins late must not be slow, too."""
    delay_ms = server.number("autovacuum_vacuum_cost_delay")
    delay_ms = server.number("vacuum_cost_delay") if delay_ms < 0 else delay_ms
    limit = server.number("autovacuum_vacuum_cost_limit")
    limit = server.number("vacuum_cost_limit") if limit < 0 else limit
    pause_s = server.duration_ms("autovacuum_naptime") / 1000
    cost = server.number("vacuum_cost_page_dirty")
    if not delay_ms or not cost or not server.is_on("autovacuum"):
        return
    pages = limit / cost * 1000 / delay_ms
    written_bytes = int(8192 * pages)
    if written_bytes <= _SLOW_VACUUM_BYTES and pause_s >= _LONG_PAUSE_S:
        yield Contradiction(
            "autovacuum_naptime",
            "warn",
            f"autovacuum looks at a database every {pause_s:g} s, and all of its workers together"
            f" write {format_bytes(written_bytes)} a second (autovacuum_vacuum_cost_delay ="
            f" {delay_ms:g} ms): dead rows stay",
            "autovacuum_naptime = 1min, and autovacuum_vacuum_cost_delay = 2ms",
        )


def _refused(setting: str, seen: str, value: str) -> Contradiction:
    return Contradiction(
        setting, "bad", f"{seen}: the server does not start", f"{setting} = {value}"
    )


def _text(server: ServerSeen, name: str, otherwise: str) -> str:
    known = server.settings.get(name)
    return known.text if known is not None else otherwise
