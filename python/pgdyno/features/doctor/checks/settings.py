"""Settings that contradict each other or the machine, or that hide measurements."""

from __future__ import annotations

from pgdyno.features.doctor.check import check
from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.doctor.finding import Judgement, Unknown, bad, good, warn
from pgdyno.quantities import format_bytes


@check(
    "settings",
    "without it, results have no read and write times; its cost is that of reading a clock",
)
def track_io_timing(facts: CheckFacts) -> Judgement:
    """Whether reads and writes of blocks are timed."""
    if facts.on_server().is_on("track_io_timing"):
        return good("track_io_timing = on")
    return warn(
        "track_io_timing = off: results have no read times",
        "ALTER SYSTEM SET track_io_timing = on; SELECT pg_catalog.pg_reload_conf()",
    )


@check("settings", "without it, results have no WAL flush times")
def track_wal_io_timing(facts: CheckFacts) -> Judgement:
    """Whether WAL writes and flushes are timed."""
    if facts.on_server().is_on("track_wal_io_timing"):
        return good("track_wal_io_timing = on")
    return warn(
        "track_wal_io_timing = off: results have no flush times",
        "ALTER SYSTEM SET track_wal_io_timing = on; SELECT pg_catalog.pg_reload_conf()",
    )


@check("settings", "wait events and autovacuum depend on tracking")
def tracking(facts: CheckFacts) -> Judgement:
    """The statistics that all other measurements need."""
    server = facts.on_server()
    off = [name for name in ("track_activities", "track_counts") if not server.is_on(name)]
    if off:
        return bad(f"{' and '.join(off)} = off", f"ALTER SYSTEM SET {off[0]} = on")
    return good("track_activities and track_counts = on")


@check("settings", "without pg_stat_statements, results do not separate statements")
def statements(facts: CheckFacts) -> Judgement:
    """pg_stat_statements in the examined database."""
    server = facts.on_server()
    is_there, query_id = bool(server.answer("identity")[4]), server.text("compute_query_id")
    if not is_there and not server.answer("identity")[5]:
        return warn(
            "pg_stat_statements is not among the files of this PostgreSQL",
            "install the contrib modules of this PostgreSQL, such as the package"
            " postgresql-contrib",
        )
    if not is_there:
        preloaded = server.settings.get("shared_preload_libraries")
        is_preloaded = preloaded is not None and "pg_stat_statements" in preloaded.text
        preload = "" if is_preloaded else "add it to shared_preload_libraries (restart); "
        return warn(
            "pg_stat_statements is not in this database",
            f"{preload}CREATE EXTENSION pg_stat_statements",
        )
    if query_id == "off":
        return warn("compute_query_id = off", "ALTER SYSTEM SET compute_query_id = auto")
    return good(f"pg_stat_statements is installed, compute_query_id = {query_id}")


@check("settings", "a capture is loaded only where its extensions are, such as pg_trgm")
def extensions(facts: CheckFacts) -> Judgement:
    """Which extensions of contrib a scratch server lacks."""
    if facts.server is not None:
        return good("pgdyno init compares the extensions of a capture with those of the server")
    if not facts.scratch:
        raise Unknown("needs a PostgreSQL for scratch servers on this host")
    lacking = [programs for programs in facts.scratch if programs.lacks]
    if not lacking:
        return good("scratch servers have all extensions of contrib")
    seen = "; ".join(
        f"scratch servers of PostgreSQL {programs.version} ({programs.source}) lack "
        f"{', '.join(programs.lacks)}"
        for programs in lacking
    )
    major = lacking[0].major
    whole = next((programs for programs in facts.scratch if not programs.lacks), None)
    here = "" if whole is None else f", or use --pg-version {whole.major}, which has all of them"
    return warn(seen, f"install PostgreSQL {major} with contrib{here}")


@check(
    "settings",
    (
        "without it, tables grow and get slower from run to run, and transaction IDs wrap around "
        "one day"
    ),
)
def autovacuum(facts: CheckFacts) -> Judgement:
    """Whether dead rows are ever removed."""
    if facts.on_server().is_on("autovacuum"):
        return good("autovacuum = on")
    return bad("autovacuum = off", "ALTER SYSTEM SET autovacuum = on")


@check("settings", "a build with assertions is several times slower, so its numbers are useless")
def debug_assertions(facts: CheckFacts) -> Judgement:
    """Whether the server was built with assertions."""
    if facts.on_server().is_on("debug_assertions"):
        return bad("debug_assertions = on", "measure a build without --enable-cassert")
    return good("built without assertions")


@check("settings", "the measurement uses the value in effect, not the value in the file")
def pending_restart(facts: CheckFacts) -> Judgement:
    """Values that wait for a restart."""
    server = facts.on_server()
    names = sorted(name for name, setting in server.settings.items() if setting.is_pending)
    if names:
        return warn(f"{', '.join(names)} wait for a restart", "restart the server")
    return good("every setting is in effect")


@check("settings", "a log line for each statement is extra load on the same disk")
def statement_logging(facts: CheckFacts) -> Judgement:
    """Logging of every statement."""
    server = facts.on_server()
    logged, shortest = server.text("log_statement"), server.number("log_min_duration_statement")
    seen = f"log_statement = {logged}, log_min_duration_statement = {shortest:g} ms"
    if logged == "all" or shortest == 0:
        return warn(f"{seen}: every statement is logged", "log only slow statements, such as 1 s")
    return good(seen.replace("-1 ms", "off"))


@check("settings", "without it, the log does not show when checkpoints began and why")
def log_checkpoints(facts: CheckFacts) -> Judgement:
    """Checkpoints in the log."""
    if facts.on_server().is_on("log_checkpoints"):
        return good("log_checkpoints = on")
    return warn("log_checkpoints = off", "ALTER SYSTEM SET log_checkpoints = on")


@check("settings", "checkpoints that WAL forces come in bursts and write every page again")
def max_wal_size(facts: CheckFacts) -> Judgement:
    """Whether checkpoints started early because the WAL was full."""
    server = facts.on_server()
    timed, requested = server.answer("checkpoints")
    size = server.size_bytes("max_wal_size")
    total = timed + requested
    seen = f"{requested} of {total} checkpoints forced, max_wal_size = {format_bytes(size)}"
    if total >= 10 and requested / total > 0.5:
        new = format_bytes(size * 4).replace(".0", "").replace(" ", "")
        return warn(seen, f"ALTER SYSTEM SET max_wal_size = '{new}'")
    return good(seen)


@check("settings", "a checkpoint that writes too fast causes a pause in every latency curve")
def checkpoint_pace(facts: CheckFacts) -> Judgement:
    """The share of the checkpoint interval over which writes are spread."""
    server = facts.on_server()
    target = server.number("checkpoint_completion_target")
    seen = f"checkpoint_completion_target = {target:g}"
    if target < 0.7:
        return warn(seen, "ALTER SYSTEM SET checkpoint_completion_target = 0.9")
    return good(
        f"{seen}, checkpoint_timeout = {server.duration_ms('checkpoint_timeout') / 1000:g} s"
    )


@check("settings", "the smallest of these three limits decides; the others have no effect")
def parallel_workers(facts: CheckFacts) -> Judgement:
    """Limits of parallel workers that contradict each other."""
    server = facts.on_server()
    names = ("max_parallel_workers_per_gather", "max_parallel_workers", "max_worker_processes")
    values = [int(server.number(name)) for name in names]
    seen = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    if sorted(values) != values:
        return warn(seen, "set them in ascending order")
    return good(seen)


@check(
    "settings",
    ("4 is the cost of a seek on a rotating disk; on other disks random reads cost little more"),
)
def random_page_cost(facts: CheckFacts) -> Judgement:
    """The planner's cost of random reads, compared with the kind of disk."""
    cost = facts.on_server().number("random_page_cost")
    facts.on_host()
    disks = facts.data.disks if facts.data is not None else ()
    kinds = {disk.is_rotational for disk in disks}
    if not disks or None in kinds:
        raise Unknown("the kind of the disk is not known")
    seen = f"random_page_cost = {cost:g} on {'a rotating disk' if True in kinds else 'flash'}"
    if kinds == {False} and cost >= 4:
        return warn(seen, "ALTER SYSTEM SET random_page_cost = 1.1; compare the plans")
    if True in kinds and cost < 2:
        return warn(seen, "ALTER SYSTEM SET random_page_cost = 4")
    return good(seen)
