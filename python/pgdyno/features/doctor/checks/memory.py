"""Compares the memory that settings allow with RAM, by the published rule and by observation."""

from __future__ import annotations

from pgdyno.features.doctor.check import check
from pgdyno.features.doctor.check_facts import CheckFacts, system_bytes
from pgdyno.features.doctor.finding import Judgement, Unknown, bad, good, warn
from pgdyno.quantities import format_bytes, percent

_MB = 1 << 20
# One statement may have several sorts and hashes. So each session has this many times work_mem.
_NODES_PER_SESSION = 4
_SHARED_BUFFERS_DEFAULT_BYTES = 128 * _MB
_TEMP_BUFFERS_DEFAULT_BYTES = 8 * _MB


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
    (
        "with too little, pages are read again and again; with too much, nothing is left for other "
        "uses"
    ),
)
def shared_buffers(facts: CheckFacts) -> Judgement:
    """The buffer pool compared with RAM."""
    size_bytes, ram_bytes = facts.on_server().size_bytes("shared_buffers"), facts.memory_bytes()
    ratio = size_bytes / ram_bytes
    seen = f"{format_bytes(size_bytes)} = {percent(ratio)} of {format_bytes(ram_bytes)}"
    quarter = f"ALTER SYSTEM SET shared_buffers = '{ram_bytes // 4 // _MB}MB' (restart)"
    if ratio > 0.8:
        return bad(seen, quarter)
    if ratio > 0.4:
        return warn(seen, f"{quarter}; a measured comparison may show something else")
    if size_bytes <= _SHARED_BUFFERS_DEFAULT_BYTES and ram_bytes >= 4 << 30:
        return warn(f"{seen}: the default for a machine of any size", quarter)
    return good(seen)


@check("memory", "the planner selects index scans by the cache size that it assumes")
def effective_cache_size(facts: CheckFacts) -> Judgement:
    """The cache size that the planner assumes, compared with RAM and shared_buffers."""
    server = facts.on_server()
    believed_bytes, ram_bytes = server.size_bytes("effective_cache_size"), facts.memory_bytes()
    shared_bytes = server.size_bytes("shared_buffers")
    seen = f"{format_bytes(believed_bytes)}, memory {format_bytes(ram_bytes)}"
    mend = f"ALTER SYSTEM SET effective_cache_size = '{ram_bytes * 3 // 4 // _MB}MB'"
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
    if "huge_pages_status" in server.settings:
        is_used = server.text("huge_pages_status") == "on"
    elif asked == "off":
        is_used = False
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
    pages = -(-size_bytes * 11 // 10 // (2 * _MB))
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
