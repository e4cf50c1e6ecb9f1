"""Settings that trade safety for speed: what a crash may lose, the largest risk first."""

from __future__ import annotations

from pgdyno.features.doctor.check import check
from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.finding import Judgement, bad, good, warn

_ATOMIC_FILE_SYSTEMS = {"zfs"}


@check("durability", "a server without flushes does not show the speed of a durable server")
def fsync(facts: CheckFacts) -> Judgement:
    """Whether the server flushes its files."""
    if facts.on_server().is_on("fsync"):
        return good("fsync = on")
    return bad(
        "fsync = off: a crash of the machine may destroy the whole cluster",
        "ALTER SYSTEM SET fsync = on",
    )


@check(
    "durability",
    "most WAL after a checkpoint is full page images; without them a crash can leave torn pages",
)
def full_page_writes(facts: CheckFacts) -> Judgement:
    """Protection from pages that are only half written after a crash."""
    if facts.on_server().is_on("full_page_writes"):
        return good("full_page_writes = on")
    mend = "ALTER SYSTEM SET full_page_writes = on"
    if facts.data is not None and facts.data.file_system in _ATOMIC_FILE_SYSTEMS:
        return warn(
            f"full_page_writes = off on {facts.data.file_system}, which writes blocks whole if its"
            " record size is a multiple of 8 kB",
            mend,
        )
    return bad("full_page_writes = off: pages torn in a crash cannot be repaired", mend)


@check(
    "durability",
    "it decides whether a commit waits for the disk, which is most of a commit's latency",
)
def synchronous_commit(facts: CheckFacts) -> Judgement:
    """Whether a crash may lose acknowledged commits."""
    server = facts.on_server()
    value = server.text("synchronous_commit")
    if value != "off":
        return good(f"synchronous_commit = {value}")
    window_ms = 3 * server.duration_ms("wal_writer_delay")
    return warn(
        f"synchronous_commit = off: a crash may lose acknowledged commits of the last"
        f" {window_ms:g} ms; nothing becomes inconsistent",
        "ALTER SYSTEM SET synchronous_commit = on, or off only where the loss is accepted",
    )


@check("durability", "commits wait forever for standbys that are named but not connected")
def synchronous_standbys(facts: CheckFacts) -> Judgement:
    """Standbys that commits wait for."""
    server = facts.on_server()
    names, value = server.text("synchronous_standby_names"), server.text("synchronous_commit")
    if not names:
        return good("commits wait for no standby")
    if value in ("off", "local"):
        return warn(
            f"synchronous_standby_names = '{names}', but synchronous_commit = {value} does not "
            "wait for them",
            "ALTER SYSTEM SET synchronous_commit = on, or no standby names",
        )
    connected, synchronous = facts.on_watched_server().answer("replication")
    seen = f"synchronous_standby_names = '{names}': {synchronous} of {connected} standbys sync"
    if not synchronous:
        return bad(seen, "start the standby, or ALTER SYSTEM SET synchronous_standby_names = ''")
    return good(seen)


@check("durability", "without checksums, the server does not detect pages that the disk damaged")
def data_checksums(facts: CheckFacts) -> Judgement:
    """Whether the server notices damaged pages, and whether it has found any."""
    server = facts.on_server()
    if not server.is_on("data_checksums"):
        return warn("data_checksums = off", "pg_checksums --enable while the server is stopped")
    _, failures = server.answer("databases")
    if failures:
        return bad(
            f"{failures} checksum failures", "find the damaged relation (pg_amcheck), restore"
        )
    return good("data_checksums = on, no failures")


@check("durability", "with these settings, the server reads damaged data without an error")
def damage_ignored(facts: CheckFacts) -> Judgement:
    """Whether settings for rescuing damaged data are still on."""
    server = facts.on_server()
    names = [n for n in ("zero_damaged_pages", "ignore_checksum_failure") if server.is_on(n)]
    if names:
        return bad(f"{' and '.join(names)} = on", f"ALTER SYSTEM RESET {names[0]}")
    return good("damaged pages are errors")


@check(
    "durability", "after a failed flush Linux marks pages as clean, so a retry appears to succeed"
)
def data_sync_retry(facts: CheckFacts) -> Judgement:
    """Whether the server continues after a failed flush."""
    if facts.on_server().is_on("data_sync_retry"):
        return bad("data_sync_retry = on", "ALTER SYSTEM RESET data_sync_retry (restart)")
    return good("data_sync_retry = off")


@check("durability", "minimal skips WAL that every server with backups or standbys must write")
def wal_level(facts: CheckFacts) -> Judgement:
    """Whether archiving and replication are possible."""
    value = facts.on_server().text("wal_level")
    if value == "minimal":
        return warn(
            "wal_level = minimal: no point-in-time recovery, no standby",
            "ALTER SYSTEM SET wal_level = replica (restart)",
        )
    return good(f"wal_level = {value}")


@check("durability", "WAL that cannot be archived stays until the disk is full")
def archiving(facts: CheckFacts) -> Judgement:
    """Whether the archiver works."""
    server = facts.on_server()
    mode = server.text("archive_mode")
    if mode == "off":
        return good("archive_mode = off")
    is_failing, failures = server.answer("archiver")
    if is_failing:
        return bad(
            f"archive_mode = {mode}, and the last attempt failed ({failures} failures)",
            "see the server's log for what archive_command says",
        )
    return good(f"archive_mode = {mode}, the last segment was archived")


@check("durability", "a forgotten prepared transaction keeps locks and dead rows forever")
def prepared_transactions(facts: CheckFacts) -> Judgement:
    """Limit of prepared transactions, and prepared transactions that were forgotten."""
    server = facts.on_server()
    room, connections = (
        int(server.number(name)) for name in ("max_prepared_transactions", "max_connections")
    )
    count, oldest_s = server.answer("prepared")
    if oldest_s > 300:
        return bad(
            f"{count} prepared transactions, the oldest for {oldest_s / 60:.0f} min",
            "SELECT gid FROM pg_catalog.pg_prepared_xacts; then ROLLBACK PREPARED 'gid'",
        )
    if 0 < room < connections:
        return warn(
            f"max_prepared_transactions = {room} is below max_connections = {connections}: "
            "sessions may fail to prepare",
            f"ALTER SYSTEM SET max_prepared_transactions = {connections} (restart), or 0",
        )
    return good(f"max_prepared_transactions = {room}, {count} prepared")
