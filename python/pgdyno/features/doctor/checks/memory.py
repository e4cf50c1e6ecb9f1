"""Compares the memory that settings allow with RAM, by the published rule and by observation."""

from __future__ import annotations

from pgdyno.features.doctor.check import check
from pgdyno.features.doctor.check_facts import CheckFacts, system_bytes
from pgdyno.features.doctor.finding import Judgement, Unknown, bad, good, warn
from pgdyno.quantities import format_bytes, percent, written_bytes

_MB = 1 << 20
# One statement may have several sorts and hashes. So each session has this many times work_mem.
_NODES_PER_SESSION = 4
_SHARED_BUFFERS_DEFAULT_BYTES = 128 * _MB
_TEMP_BUFFERS_DEFAULT_BYTES = 8 * _MB
_CONNECTIONS_DEFAULT = 100
_CONNECTION_BYTES = 9_531_392
# A session is at work for a fraction of its time: this many share the work of one.
_CONNECTIONS_PER_WORKING = 50


@check("memory", "a server without free memory swaps, or the kernel kills it during a run")
def memory_rule(facts: CheckFacts) -> Judgement:
    """The published rule: all permitted connections use their work_mem at the same time."""
    server = facts.on_server()
    connections = int(server.number("max_connections"))
    text, total_bytes = _sum(facts, connections, "connections")
    ram_bytes = facts.memory_bytes()
    seen = f"{text} = {format_bytes(total_bytes)}, memory {format_bytes(ram_bytes)}"
    if total_bytes <= ram_bytes:
        return good(seen)
    # At twice the memory, even half of the sessions are too many.
    verdict = bad if total_bytes > 2 * ram_bytes else warn
    return verdict(seen, _mend(facts, connections, nodes=1))


@check(
    "memory",
    (
        "the published rule assumes that all sessions work at the same time; this check uses the "
        "observed number"
    ),
)
def memory_at_the_peak(facts: CheckFacts) -> Judgement:
    """The same rule for the largest observed number of sessions at work at one time."""
    facts.on_watched_server()
    if facts.peak is None:
        raise Unknown("the number of concurrently active sessions was not observed")
    active = max(1, facts.peak.sessions)
    text, total_bytes = _sum(facts, active, f"active ({facts.peak.source})")
    ram_bytes = facts.memory_bytes()
    seen = f"{text} = {format_bytes(total_bytes)}, memory {format_bytes(ram_bytes)}"
    if total_bytes <= ram_bytes:
        return good(seen)
    return bad(seen, _mend(facts, active, nodes=_NODES_PER_SESSION))


@check("memory", "temp_buffers is per session: every session with temporary tables uses that much")
def temp_buffers(facts: CheckFacts) -> Judgement:
    """The memory for temporary tables if every session has such tables."""
    server = facts.on_server()
    each_bytes, ram_bytes = server.size_bytes("temp_buffers"), facts.memory_bytes()
    connections = int(server.number("max_connections"))
    total_bytes = each_bytes * connections
    seen = (
        f"{connections} connections x {format_bytes(each_bytes)} = {format_bytes(total_bytes)},"
        f" memory {format_bytes(ram_bytes)}"
    )
    if total_bytes <= ram_bytes // 2:
        return good(seen)
    mend = "ALTER SYSTEM SET temp_buffers = '8MB'; give more only to the sessions that need it"
    if each_bytes <= _TEMP_BUFFERS_DEFAULT_BYTES:
        mend = f"lower max_connections ({connections} here), with a pooler if necessary"
    return bad(seen, mend) if total_bytes > 2 * ram_bytes else warn(seen, mend)


@check(
    "memory",
    "each connection is a process: it takes memory, and only a few of them can work at one time",
)
def max_connections(facts: CheckFacts) -> Judgement:
    """The number of connections compared with cores and RAM.

    Source: the wiki of PostgreSQL, "Number Of Database Connections" (2 x cores + 1 disk can work
    at one time), and the formula of Amazon RDS (RAM / 9531392 bytes).
    """
    count = int(facts.on_server().number("max_connections"))
    limits = {}
    if facts.cores is not None:
        working = 2 * facts.cores + 1
        most = _CONNECTIONS_PER_WORKING * working
        why = f"{facts.cores} cores keep about {working} sessions at work"
        limits[f"{why}, and {_CONNECTIONS_PER_WORKING} connections for each are {most}"] = most
    if facts.ram_bytes is not None:
        most = facts.ram_bytes // _CONNECTION_BYTES
        memory = format_bytes(facts.ram_bytes)
        limits[f"with {format_bytes(_CONNECTION_BYTES)} each, {most} fit in {memory}"] = most
    if not limits:
        raise Unknown("the cores and the memory of the host are not known: give --cores and --ram")
    why, most = min(limits.items(), key=lambda limit: limit[1])
    seen = f"max_connections = {count}: {why}"
    if count <= max(most, _CONNECTIONS_DEFAULT):
        return good(seen)
    new = max(_CONNECTIONS_DEFAULT, most // 50 * 50)
    mend = f"a pooler, and ALTER SYSTEM SET max_connections = {new} (restart)"
    return bad(seen, mend) if count > 4 * new else warn(seen, mend)


@check("memory", "building an index and each autovacuum worker may take this memory")
def maintenance_memory(facts: CheckFacts) -> Judgement:
    """maintenance_work_mem, once by hand and once for each autovacuum worker, compared with RAM."""
    server, ram_bytes = facts.on_server(), facts.memory_bytes()
    each_bytes = server.size_bytes("maintenance_work_mem")
    own = server.settings.get("autovacuum_work_mem")
    is_own = own is not None and not own.text.startswith("-")
    vacuum_bytes = server.size_bytes("autovacuum_work_mem") if is_own else each_bytes
    if server.major < 17:
        vacuum_bytes = min(vacuum_bytes, 1 << 30)  # More was never used for dead rows.
    workers = int(server.number("autovacuum_max_workers"))
    total_bytes = each_bytes + workers * vacuum_bytes
    seen = (
        f"{format_bytes(each_bytes)} by hand + {workers} autovacuum workers x"
        f" {format_bytes(vacuum_bytes)} = {format_bytes(total_bytes)}, memory"
        f" {format_bytes(ram_bytes)}"
    )
    if each_bytes <= ram_bytes // 4 and total_bytes <= ram_bytes:
        return good(seen)
    new_mb = max(64, min(8 << 10, written_bytes(ram_bytes // 16) // _MB))
    mend = f"ALTER SYSTEM SET maintenance_work_mem = '{new_mb}MB'"
    is_bad = each_bytes > ram_bytes // 2 or total_bytes > 2 * ram_bytes
    return bad(seen, mend) if is_bad else warn(seen, mend)


@check(
    "memory",
    (
        "with too little, pages are read again and again; with too much, nothing is left for other "
        "uses"
    ),
)
def shared_buffers(facts: CheckFacts) -> Judgement:
    """The buffer pool compared with RAM."""
    size_bytes, ram_bytes = facts.on_server().size_bytes("shared_buffers"), facts.memory_bytes()
    ratio, data_bytes = size_bytes / ram_bytes, facts.data_bytes
    seen = f"{format_bytes(size_bytes)} = {percent(ratio)} of {format_bytes(ram_bytes)}"
    new_mb = buffers_fitting(written_bytes(ram_bytes // 4), data_bytes) // _MB
    mend = f"ALTER SYSTEM SET shared_buffers = '{new_mb}MB' (restart)"
    if ratio > 0.8:
        return bad(seen, mend)
    if ratio > 0.4:
        return warn(seen, f"{mend}; a measured comparison may show something else")
    if data_bytes is not None and size_bytes >= data_bytes:
        return good(f"{seen}; all databases together have {format_bytes(data_bytes)}")
    if size_bytes <= _SHARED_BUFFERS_DEFAULT_BYTES and ram_bytes >= 4 << 30:
        return warn(f"{seen}: no more than the default, which fits the smallest machine", mend)
    return good(seen)


def buffers_fitting(size_bytes: int, data_bytes: int | None) -> int:
    """Return a size of shared_buffers, at most the power of two above twice the data."""
    if data_bytes is None:
        return size_bytes
    room_bytes = max(_SHARED_BUFFERS_DEFAULT_BYTES, 2 * data_bytes)
    return min(size_bytes, 1 << (room_bytes - 1).bit_length())


@check("memory", "the planner selects index scans by the cache size that it assumes")
def effective_cache_size(facts: CheckFacts) -> Judgement:
    """The cache size that the planner assumes, compared with RAM and shared_buffers."""
    server = facts.on_server()
    believed_bytes, ram_bytes = server.size_bytes("effective_cache_size"), facts.memory_bytes()
    shared_bytes = server.size_bytes("shared_buffers")
    seen = f"{format_bytes(believed_bytes)}, memory {format_bytes(ram_bytes)}"
    mend = f"ALTER SYSTEM SET effective_cache_size = '{written_bytes(ram_bytes * 3 // 4) // _MB}MB'"
    if believed_bytes > ram_bytes:
        return warn(f"{seen}: more than the host has", mend)
    if believed_bytes < shared_bytes:
        return warn(f"{seen}: less than shared_buffers, {format_bytes(shared_bytes)}", mend)
    return good(seen)


@check("memory", "without huge pages each backend maps shared_buffers in pages of 4 kB")
def huge_pages(facts: CheckFacts) -> Judgement:
    """Explicit huge pages for a large buffer pool; reserved pages that are not used."""
    server = facts.on_server()
    size_bytes, asked = server.size_bytes("shared_buffers"), server.text("huge_pages")
    is_used: bool | None = None
    pages = -(-size_bytes * 11 // 10 // (2 * _MB))
    if asked == "on" and not server.answers:
        reserved = facts.host.memory.get("huge_pages_total_bytes", 0) if facts.host else 0
        if reserved < size_bytes:
            return bad(
                f"huge_pages = on: the server does not start unless the host has reserved {pages}"
                " huge pages of 2 MB",
                f"huge_pages = try, or sysctl -w vm.nr_hugepages={pages} before the start",
            )
    if "huge_pages_status" in server.settings:
        is_used = server.text("huge_pages_status") == "on"
    elif asked in ("on", "off"):
        is_used = asked == "on"  # With `on`, the server would not have started without them.
    elif facts.host is not None:
        is_used = facts.host.memory.get("huge_pages_total_bytes", 0) >= size_bytes
    if is_used is None:
        raise Unknown(
            f"huge_pages = {asked}; before PostgreSQL 17 only the host shows whether they are used"
        )
    reserved_bytes = facts.host.memory.get("huge_pages_total_bytes", 0) if facts.host else 0
    seen = f"huge_pages = {asked}, {'used' if is_used else 'not used'}"
    seen += f", shared_buffers {format_bytes(size_bytes)}"
    if not is_used and reserved_bytes:
        return warn(
            f"{seen}, and {format_bytes(reserved_bytes)} reserved but unused",
            "sysctl -w vm.nr_hugepages=0, or huge_pages = try and a restart of the server",
        )
    if is_used or size_bytes < 2 << 30:
        return good(seen)
    return warn(seen, f"sysctl -w vm.nr_hugepages={pages}, huge_pages = try, restart of the server")


def _sum(facts: CheckFacts, sessions: int, word: str) -> tuple[str, int]:
    """Return the sum of the rule in words and bytes; the rule counts temp_buffers once."""
    server = facts.on_server()
    work_bytes = server.size_bytes("work_mem")
    fixed_bytes = {
        "shared_buffers": server.size_bytes("shared_buffers"),
        "temp_buffers": server.size_bytes("temp_buffers"),
        "maintenance": server.size_bytes("maintenance_work_mem"),
        "system": system_bytes(facts.memory_bytes()),
    }
    parts = [f"{format_bytes(size)} {name}" for name, size in fixed_bytes.items()]
    text = f"{sessions} {word} x {format_bytes(work_bytes)} + {' + '.join(parts)}"
    return text, sessions * work_bytes + sum(fixed_bytes.values())


def _mend(facts: CheckFacts, sessions: int, *, nodes: int) -> str:
    """Return the largest work_mem, a power of two MB, with which the rule holds."""
    server, ram_bytes = facts.on_server(), facts.memory_bytes()
    work_bytes = server.size_bytes("work_mem")
    fixed_bytes = _sum(facts, sessions, "")[1] - sessions * work_bytes
    room_mb = (ram_bytes - fixed_bytes) // sessions // nodes // _MB
    if room_mb < 1:
        return (
            "lower shared_buffers, temp_buffers or maintenance_work_mem, which alone use all "
            f"memory, or max_connections ({sessions} here) with a pooler"
        )
    new_mb = min(1 << (room_mb.bit_length() - 1), max(1, work_bytes // _MB))
    after = format_bytes(fixed_bytes + sessions * new_mb * _MB)
    return f"ALTER SYSTEM SET work_mem = '{new_mb}MB' -> {after}"
