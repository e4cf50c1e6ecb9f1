"""Findings about limits of the server: connections, WAL, standbys, temporary files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from pgdyno.analysis.wait_events import canonical_event
from pgdyno.features.watch.incident.evidence import (
    IncidentEvidence,
    Row,
    SeenRows,
    number,
)
from pgdyno.features.watch.incident.finding import (
    Danger,
    IncidentFinding,
    clock_text,
    quoted,
)
from pgdyno.features.watch.incident.known_statements import (
    KnownStatements,
    senders_of,
    short_text,
    time_of,
)
from pgdyno.features.watch.incident.sampled import is_little_room
from pgdyno.quantities import count, counted, format_bytes, percent, seconds

_NEAR_RATIO = 0.9
# SQLSTATE of a login for which no connection is left.
REFUSED = "53300"
# A checkpoint by volume begins when this share of max_wal_size is written since the last one:
# 1 / (1 + checkpoint_completion_target).
_VOLUME_RATIO = 0.53
# WAL fills max_wal_size this number of times within one checkpoint_timeout.
_FORCED_MIN = 5
_MANUAL_MIN = 4
_LAG_NS = 10_000_000_000
_SPILL_BYTES_PER_SECOND = 10e6
_SPILL_RATIO = 0.05
_SPILLED_FILES_MIN = 10
_SYNC_RATIO = 0.3
_POOL_WAIT_S = 1.0


def hidden_sessions(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if this role may not see the sessions of others."""
    if not evidence.tally.has_hidden:
        return
    # Results of older versions do not have the role.
    role = str(evidence.row("limits").get("watching_role") or "")
    said = f"role {role or 'of this watch'} may not see the sessions of others"
    yield IncidentFinding(
        kind="sessions hidden",
        said=said,
        cost="what they wait for and their statements are missing in this answer",
        next_step=f"as a superuser: GRANT pg_monitor TO {role or 'this role'}; then watch again",
        danger=Danger.BLIND,
        answer=f"{said}: GRANT pg_monitor TO {role or 'this role'}",
    )


def has_few_connections(evidence: IncidentEvidence) -> bool:
    """Return whether few connections are free for ordinary roles."""
    limits = evidence.row("limits")
    return bool(limits) and is_little_room(*_room_and_taken(limits))


def _room_and_taken(row: Row) -> tuple[float, float]:
    room = number(row, "connections_max") - number(row, "connections_reserved")
    return room, number(row, "clients") + number(row, "clients_own")


def connections(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if nine tenths of the connections are taken: who holds most of them."""
    if not (row := evidence.row("limits")):
        return
    room, all_taken = _room_and_taken(row)
    taken, idle, own = (number(row, name) for name in ("clients", "clients_idle", "clients_own"))
    if taken < _NEAR_RATIO * room:
        return
    free = max(0, int(room - all_taken))
    said = f"{count(int(taken))} of {count(int(room))} connections are taken"
    ours = f", {count(int(own))} by pgdyno" * bool(own)
    refused = evidence.errors_by_sqlstate[REFUSED]
    cost = "further sessions are refused" if not free else "further sessions will be refused"
    if refused:
        ago = max(0.0, (evidence.ended_ns - evidence.first_error_ns[REFUSED]) / 1e9)
        cost = (
            f"{counted(refused, 'login')} refused in the log, the first {seconds(round(ago))} ago"
        )
    is_idle = idle > taken / 2
    lines, step, holder = _holders(evidence, "idle" if is_idle else "count")
    pooler = "a pooler, or fewer connections in each application"
    busy = "find what keeps them busy; a pooler queues instead of refusing"
    yield IncidentFinding(
        kind="connections",
        said=f"{said}, {count(int(idle))} of them idle{ours}; {free or 'none'} free for ordinary"
        " roles",
        cost=cost,
        next_step=(f"{step}; then " * bool(step) + pooler) if is_idle else busy,
        lines=lines,
        danger=Danger.LIMIT_NEAR if free and not refused else Danger.WORK_REFUSED,
        answer=said
        + f", most by {holder}" * bool(holder)
        + ("; further sessions are refused" if not free or refused else ""),
        evidence={"taken": taken, "limit": room, "idle": idle, "application": holder}
        | {"refused": refused},
    )


def _holders(evidence: IncidentEvidence, most_of: str) -> tuple[tuple[str, ...], str, str]:
    """Return who holds most connections, the statement that ends its idle ones, and its name."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for seen in evidence.now("applications"):
        groups.setdefault((seen.last["application"], seen.last["role"]), []).append(seen.last)

    def total(group: Sequence[Row], column: str = most_of) -> int:
        return int(sum(number(row, column) for row in group))

    ranked = sorted(groups.items(), key=lambda item: -total(item[1]))
    if not ranked:
        return (), "", ""
    (application, role), rows = ranked[0]
    held, idle = total(rows, "count"), total(rows, "idle")
    name = application or "sessions without a name"
    places = [
        _listed(sorted({str(row[of]) or "local" for row in rows}), of_what)
        for of, of_what in (("address", "addresses"), ("database", "databases"))
    ]
    began = min((int(row["oldest_us"]) for row in rows if row["oldest_us"]), default=0)
    line = f"{name} (role {role}, from {places[0]}, database {places[1]}) has {held:,}"
    line += f", {idle:,} of them idle"
    line += f", open since {clock_text(began * 1000, evidence.ended_ns)}" * bool(began)
    longest_ns = max(number(row, "idle_ns") for row in rows)
    line += f", the longest idle for {seconds(round(longest_ns / 1e9))}" * bool(idle)
    others = [
        f"{of[0] or 'no name'} (role {of[1]}) {total(of_rows, 'count'):,}"
        for of, of_rows in ranked[1:3]
    ]
    more = (f"then {', '.join(others)}",) if others else ()
    where = (
        f"FROM pg_catalog.pg_stat_activity WHERE application_name = {quoted(application)}"
        f" AND usename = {quoted(role)} AND state = 'idle'"
    )
    step = (
        # Operators have no schema: else one of the database's owner could be called.
        f"look: SET search_path = pg_catalog; SELECT pid, client_addr, state_change, query {where};"
        " to end these sessions:"
        f" SELECT pg_catalog.pg_terminate_backend(pid) {where}"
    ) * bool(idle)
    return (line, *more), step, name


def _listed(names: Sequence[str], of_what: str) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} {of_what}"


def own_limits(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if a role or database has nearly as many sessions as it may have."""
    limits = evidence.row("limits")
    name, most = str(limits.get("limited") or ""), number(limits, "limited_max")
    taken = number(limits, "limited_clients")
    if not name or taken < _NEAR_RATIO * most:
        return
    said = f"{name} has {count(int(taken))} of {count(int(most))} sessions that it may have"
    is_full = taken >= most
    yield IncidentFinding(
        kind="connection limit",
        said=said,
        cost="further sessions are refused" if is_full else "further sessions will be refused",
        next_step=f"fewer connections, or ALTER {name.split()[0].upper()} ... CONNECTION LIMIT",
        danger=Danger.WORK_REFUSED if is_full else Danger.LIMIT_NEAR,
        answer=f"{said}" + "; further ones are refused" * is_full,
        evidence={"limited": name, "taken": taken, "limit": most},
    )


def forced_checkpoints(
    evidence: IncidentEvidence, known: KnownStatements
) -> Iterator[IncidentFinding]:
    """Yield a finding if WAL volume forces checkpoints much more often than the time does.

    It has no lost time: sessions that write much wait for WAL with any max_wal_size.
    """
    limits, done, wal = (evidence.one(name) for name in ("limits", "checkpointer", "wal"))
    if limits is None or done is None or wal is None:
        return
    forced = done.grown("checkpoints_requested")
    timed = done.grown("checkpoints_timed")
    volume = wal.grown("position_bytes")
    room = _VOLUME_RATIO * number(limits.last, "max_wal_bytes")
    often = number(limits.last, "checkpoint_timeout_ns") / 1e9 / evidence.seconds * volume / room
    # A backup or a CHECKPOINT also counts as requested, but writes no WAL before.
    if not forced or volume < 0.5 * forced * room or often < _FORCED_MIN:
        return
    # At most: unused space in a page is left out, and wal_compression makes images smaller.
    images = wal.grown("full_page_images") * 8192
    wal_share = min(1.0, images / volume) if volume else 0.0
    name = format_bytes(int(number(limits.last, "max_wal_bytes")))
    query, of_writer = _most_by(evidence, "wal_bytes")
    text = " ".join(known.texts.get(query, "").split())
    writer = (f"{percent(of_writer)} of the WAL of statements: {short_text(text)}",) if text else ()
    said = f"{forced:,.0f} of {forced + timed:,.0f} checkpoints were forced by WAL volume"
    yield IncidentFinding(
        kind="forced checkpoints",
        said=f"{said}: max_wal_size {name}",
        cost=f"at most {percent(wal_share)} of {format_bytes(int(volume))} of WAL is full-page"
        " images, which begin again after each checkpoint",
        lines=(*writer, *senders_of(evidence, str(query))),
        next_step=_larger_max_wal(often * number(limits.last, "max_wal_bytes"), limits, known),
        evidence={"forced": forced, "timed": timed, "wal_bytes": volume},
    )


def manual_checkpoints(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if commands ask for checkpoints again and again: who sends them."""
    limits, done, wal = (evidence.one(name) for name in ("limits", "checkpointer", "wal"))
    if limits is None or done is None or wal is None:
        return
    asked, volume = done.grown("checkpoints_requested"), wal.grown("position_bytes")
    per_minute = 60 * asked / evidence.seconds
    by_volume = volume / (_VOLUME_RATIO * number(limits.last, "max_wal_bytes"))
    if asked < _MANUAL_MIN or per_minute < 1 or by_volume >= asked / 2:
        return
    senders = {
        f"{row['application'] or 'a session without a name'} (role {row['role']})": None
        for seen in evidence.seen("applications").values()
        if (row := seen.last)["checkpointing"]
    }
    who = f", sent by {' and '.join(list(senders)[:2])}" if senders else ""
    written_s = sum(done.grown(f"checkpoint_{part}_time_ns") for part in ("write", "sync")) / 1e9
    said = f"commands ask for checkpoints again and again, {per_minute:,.0f} a minute{who}"
    images = min(volume, wal.grown("full_page_images") * 8192)
    yield IncidentFinding(
        kind="manual checkpoints",
        said=f"{said}: {asked:,.0f} in {seconds(round(evidence.seconds))}",
        cost=f"they wrote {format_bytes(int(done.grown('buffers_checkpoint') * 8192))} in"
        f" {seconds(round(written_s, 1))}; up to {format_bytes(int(images))} of"
        f" {format_bytes(int(volume))} of WAL is whole pages, which each checkpoint makes necessary"
        " again",
        next_step=("let it" if senders else "find who sends CHECKPOINT, and let it")
        + " stop: checkpoint_timeout and max_wal_size begin checkpoints; backups and CREATE"
        " DATABASE also ask for one",
        danger=Danger.GROWS,
        evidence={"asked": asked, "by": list(senders)},
    )


def _larger_max_wal(needed: float, limits: SeenRows, known: KnownStatements) -> str:
    """Return the statement that sets max_wal_size, in whole GB.

    Args: needed, bytes with which the time begins checkpoints and no longer the WAL.
    """
    timeout = seconds(number(limits.last, "checkpoint_timeout_ns") / 1e9)
    free, size_gb = known.wal_free_bytes, math.ceil(needed / 2**30)
    why = f"at the present rate, this holds the WAL of checkpoint_timeout ({timeout})"
    if free is None:
        why += "; the disk of pg_wal needs this room"
    elif size_gb * 2**30 > free / 2:
        size_gb = math.floor(free / 2**31)
        why = f"this is half of the {format_bytes(free)} that the disk of pg_wal has free"
    if size_gb * 2**30 <= number(limits.last, "max_wal_bytes"):
        return "a larger disk for pg_wal, then a larger max_wal_size"
    return (
        f"ALTER SYSTEM SET max_wal_size = '{size_gb}GB'; SELECT pg_catalog.pg_reload_conf(): {why};"
        " recovery after a crash takes longer"
    )


def _most_by(evidence: IncidentEvidence, column: str) -> tuple[int, float]:
    """Return the query id for which a counter grew most, and its share; 0 if none grew."""
    written: Counter[int] = Counter()
    for (_, query), seen in evidence.seen("statements").items():
        written[int(query)] += round(seen.grown(column))
    [(query, size)] = written.most_common(1) or [(0, 0)]
    return (query, size / written.total()) if size else (0, 0.0)


def slot_wal(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if a replication slot keeps more WAL than max_wal_size."""
    room = number(evidence.row("limits"), "max_wal_bytes") or 2**30
    kept = sorted(evidence.now("slots"), key=lambda seen: -number(seen.last, "kept_bytes"))
    for seen in kept[:1]:
        row = seen.last
        size, status = number(row, "kept_bytes"), str(row["wal_status"])
        if status not in ("extended", "unreserved", "lost") and size <= room:
            continue
        grown = size - number(seen.first, "kept_bytes")
        is_active = bool(row["active"])
        keeps = "has lost its WAL" if status == "lost" else f"keeps {format_bytes(int(size))} WAL"
        who = f"replication slot {row['slot']} ({'active' if is_active else 'no receiver'})"
        rest = row.get("room_bytes")
        limit = (
            "no limit: WAL fills the disk (max_slot_wal_keep_size)"
            if rest is None or rest != rest
            else f"it loses its WAL after {format_bytes(max(0, int(rest)))} more"
        )
        yield IncidentFinding(
            kind="slot keeps WAL",
            said=f"{who} {keeps}",
            cost=f"{grown / 1e6:+,.0f} MB during the watch; {limit}",
            next_step="find why its receiver is slow"
            if is_active
            else "start its receiver, or SELECT"
            f" pg_catalog.pg_drop_replication_slot({quoted(row['slot'])})",
            danger=Danger.LIMIT_NEAR,
            answer=f"{who} {keeps}",
            evidence={"slot": row["slot"], "kept_bytes": size, "wal_status": status},
        )


def archiver(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if WAL segments cannot be archived."""
    seen = evidence.one("archiver")
    if seen is None:
        return
    failed, row = seen.grown("failed"), seen.last
    last_failed, last_good = number(row, "last_failed_ns"), number(row, "last_archived_ns")
    if last_failed <= last_good or not (failed or number(row, "time_ns") - last_failed < 120e9):
        return
    since_s = (number(row, "time_ns") - last_good) / 1e9 if last_good else None
    ago = f"the last success was {seconds(since_s)} ago" if since_s else "it never succeeded"
    yield IncidentFinding(
        kind="archiver",
        said=f"archive_command fails: {counted(int(failed), 'attempt')} during the watch; {ago}",
        cost="WAL stays on the disk until it is archived; backups have a gap",
        since_s=since_s,
        next_step="see the server's log for the message of archive_command",
        danger=Danger.WORK_REFUSED,
        answer=f"WAL is not archived: {ago}",
        evidence={"failed": failed},
    )


def standbys(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield findings about standbys that lag, and about commits that wait for one."""
    rows = [seen.last for seen in evidence.now("replication")]
    waiting_s = evidence.in_events(lambda event: event == "IPC:SyncRep")
    share = evidence.share(waiting_s) or 0.0
    if evidence.row("limits").get("synchronous") and share >= _SYNC_RATIO:
        yield _synchronous(evidence, rows, waiting_s, share)
    late = [row for row in rows if number(row, "replay_lag_ns") >= _LAG_NS]
    for row in sorted(late, key=lambda row: -number(row, "replay_lag_ns"))[:1]:
        lag_s = number(row, "replay_lag_ns") / 1e9
        behind = format_bytes(int(number(row, "replay_lag_bytes")))
        who = str(row["standby"])
        said = f"{'this standby' if who == 'this server' else f'standby {who}'} is"
        yield IncidentFinding(
            kind="standby lag",
            said=f"{said} {seconds(round(lag_s, 1))} behind, {behind} of WAL not replayed",
            cost="it shows old rows; a failover now needs this time",
            since_s=lag_s,
            next_step="see its replay: long queries there, pg_wal_replay_pause, its disk",
            danger=Danger.GROWS,
            answer=f"{said} {seconds(round(lag_s, 1))} behind",
            evidence={"standby": who, "lag_s": lag_s},
        )


def _synchronous(
    evidence: IncidentEvidence, rows: Sequence[Row], waiting_s: float, share: float
) -> IncidentFinding:
    """Return the finding about commits that wait for a standby."""
    senders = [str(row["standby"]) for row in rows if row["sync_state"] in ("sync", "quorum")]
    names = ", ".join(sorted(set(senders)))
    said = (
        f"commits wait for synchronous standby {names}"
        if senders
        else "commits wait for a synchronous standby, and none is connected"
    )
    return IncidentFinding(
        kind="synchronous standby is slow" if senders else "synchronous standby missing",
        said=said,
        cost=evidence.cost_words(waiting_s),
        lost_s=waiting_s,
        next_step="see its disk and network; with remote_apply, also its replay:"
        " pg_wal_replay_pause, long queries there"
        if senders
        else "start the standby, or ALTER SYSTEM SET synchronous_standby_names = '';"
        " SELECT pg_catalog.pg_reload_conf()",
        danger=Danger.WORK_REFUSED,
        answer=f"{said}: {percent(share)} of DB time" if senders else said,
    )


def conflicts(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding if recovery cancelled queries on this standby."""
    by_reason = {
        str(seen.last["reason"]): int(seen.grown("cancelled"))
        for seen in evidence.seen("conflicts").values()
        if seen.grown("cancelled")
    }
    if not by_reason:
        return
    reasons = ", ".join(f"{name} {count(times)}" for name, times in sorted(by_reason.items()))
    said = f"recovery cancelled {counted(sum(by_reason.values()), 'statement')} on this"
    said += f" standby ({reasons})"
    yield IncidentFinding(
        kind="conflicts with recovery",
        said=said,
        cost="each lost its work, and is often sent again",
        next_step="a larger max_standby_streaming_delay, which lets the standby fall behind; for"
        " snapshots also hot_standby_feedback = on, which keeps dead rows on the primary",
        danger=Danger.WORK_REFUSED,
        evidence={"by_reason": by_reason},
    )


def pools(evidence: IncidentEvidence) -> Iterator[IncidentFinding]:
    """Yield a finding for the pool of PgBouncer whose clients wait longest for a connection."""
    waiting = [
        row for seen in evidence.now("pooler") if number(row := seen.last, "longest_wait_ns")
    ]
    for row in sorted(waiting, key=lambda row: -number(row, "longest_wait_ns"))[:1]:
        wait_s = number(row, "longest_wait_ns") / 1e9
        if wait_s < _POOL_WAIT_S:
            return
        clients, taken = int(number(row, "clients_waiting")), int(number(row, "servers_active"))
        pool = f"pool {row['database']}/{row['user']} of PgBouncer"
        said = f"{counted(clients, 'client')} of {pool} wait for a connection, the first for"
        said += f" {seconds(round(wait_s, 1))}"
        idle = number(row, "servers_idle")
        yield IncidentFinding(
            kind="pool exhausted",
            said=f"{said}; its {counted(taken, 'connection')} in use"
            f" {'is' if taken == 1 else 'are'} taken",
            cost="these clients wait outside of the server, which DB time does not include",
            since_s=wait_s,
            next_step="see SHOW SERVERS and who is idle in a transaction; a larger pool helps only"
            " if the server has free cores"
            if not idle
            else "SHOW SERVERS: connections are free, so it logs in or is paused",
            danger=Danger.WORK_REFUSED,
            evidence={"database": str(row["database"]), "waiting": clients, "wait_s": wait_s},
        )


def spills(evidence: IncidentEvidence, known: KnownStatements) -> Iterator[IncidentFinding]:
    """Yield a finding if statements write many temporary files."""
    size = sum(seen.grown("temp_bytes") for seen in evidence.seen("database").values())
    files = sum(seen.grown("temp_files") for seen in evidence.seen("database").values())
    lost_s = evidence.in_events(lambda event: canonical_event(event).startswith("io:buffile"))
    rate = size / evidence.seconds
    share = evidence.share(lost_s) or 0.0
    if rate < _SPILL_BYTES_PER_SECOND or not files:
        return
    if files < _SPILLED_FILES_MIN and share < _SPILL_RATIO:
        return  # One large sort, such as that of a report or an index build.
    query, of_writer = _most_by(evidence, "temp_blks_written")
    text = " ".join(known.texts.get(query, "").split())
    who = ""
    if text:
        _, of_time = time_of(evidence, query)
        who = f", {percent(of_writer)} of it by {short_text(text)},"
        who += f" which takes {percent(of_time)} of DB time"
    yield IncidentFinding(
        kind="temporary files",
        said=f"statements wrote {count(int(files))} temporary files, {format_bytes(int(size))}:"
        f" {rate / 1e6:,.0f} MB/s{who}",
        cost=f"{format_bytes(int(size / files))} each; {evidence.cost_words(lost_s)} in waits for"
        " these files",
        lost_s=lost_s,
        next_step="pgdyno work-mem finds how much memory these statements need",
        answer=f"statements write {rate / 1e6:,.0f} MB/s of temporary files",
        evidence={"bytes": size, "files": files},
    )
