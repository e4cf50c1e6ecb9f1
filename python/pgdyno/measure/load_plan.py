"""What a load would do, before it is done: rows, bytes on each node, and the time it would take."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import sql

from pgdyno.clock import monotonic_ns, read_pair
from pgdyno.errors import SpecError
from pgdyno.measure.loading import Loading, load_dataset
from pgdyno.measure.run_progress import RunProgress
from pgdyno.server.connect import Connection, connect
from pgdyno.server.dataset.kinds import kind_of
from pgdyno.server.target import Target
from pgdyno.spec.dataset import Dataset

_NODES = (
    "SELECT nodename || ':' || nodeport FROM pg_catalog.pg_dist_node"
    " WHERE isactive AND shouldhaveshards AND noderole = 'primary' ORDER BY nodename, nodeport"
)
# Sizes of the two loads whose difference gives the time of one unit of size.
PROBE_SIZES = (1, 3)


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What a load would do.

    `size_words`: such as "scale 100". `rows`: of each table, empty if not known before a load.
    `nodes`: the bytes of each node; empty without nodes, or if no server was asked. `seconds`: the
    estimated time, None without a probe; `probe_seconds`: of the small loads, by their size.
    """

    size_words: str
    rows: Mapping[str, int]
    size_bytes: int
    nodes: Mapping[str, int]
    seconds: float | None = None
    probe_seconds: Mapping[int, float] = field(default_factory=dict)

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document of `init --dry-run`."""
        return {
            "format": "pgdyno.init-plan/1",
            "size": self.size_words,
            "rows": dict(self.rows),
            "size_bytes": self.size_bytes,
            "nodes": [{"node": node, "size_bytes": size} for node, size in self.nodes.items()],
            "seconds": self.seconds,
            "probed": [
                {"size": size, "seconds": seconds} for size, seconds in self.probe_seconds.items()
            ],
        }


def planned(dataset: Dataset, how: Loading, connection: Connection | None) -> LoadPlan:
    """Return what a load would do, without its time.

    Args: connection, to the server, which is only read; None: nodes are not known.
    """
    kind = kind_of(dataset)
    size_bytes, nodes = kind.tables_bytes(dataset), {}
    asked = str(getattr(how.loading, "distribute", None) or "")
    if connection is not None and asked.startswith("citus"):
        names = [str(name) for (name,) in connection.execute(_NODES)]
        row = connection.execute("SHOW citus.shard_count").fetchone()
        nodes = _spread(size_bytes, names, int(row[0]) if row else 1)
    return LoadPlan(kind.label(dataset), kind.rows(dataset), size_bytes, nodes)


def why_not_spread(how: Loading, connection: Connection) -> str:
    """Return why a distributed load would have one node only; "" if it has more, or is not one."""
    if not str(getattr(how.loading, "distribute", None) or "").startswith("citus"):
        return ""
    known = connection.execute("SELECT to_regclass('pg_catalog.pg_dist_node')").fetchone()
    if known is None or known[0] is None or connection.execute(_NODES).fetchone() is not None:
        return ""
    return "This Citus has no workers, so all shards will be on the coordinator."


def _spread(size_bytes: int, names: list[str], shard_count: int) -> dict[str, int]:
    """Return the bytes of each node: shards are of equal size, and Citus places them in turns."""
    if not names:
        return {}
    least, more = divmod(shard_count, len(names))
    shards = [least + (number < more) for number in range(len(names))]
    shares = zip(names, shards, strict=True)
    return {name: round(size_bytes * count / shard_count) for name, count in shares}


def timed(
    plan: LoadPlan, dataset: Dataset, target: Target, how: Loading, progress: RunProgress
) -> LoadPlan:
    """Return the plan with the time of the load, from two small loads on the same server.

    The small loads make their tables in a new schema, which is dropped. The time grows by the same
    amount with each unit of size, as the two loads say.
    Limits: tables that exceed the memory of the server may need longer.
    """
    size_option = kind_of(dataset).size_option
    if size_option not in type(dataset).model_fields or size_option == "fraction":
        raise SpecError(
            f"--probe cannot load a small part of the {dataset.kind} tables.",
            hint="leave --probe out: the plan then has no time",
        )
    seconds = []
    with _schema(target) as place:
        for size in PROBE_SIZES:
            small = dataset.model_copy(update={size_option: size})
            began_ns = monotonic_ns()
            once = replace(how, drop_existing=size != PROBE_SIZES[0])
            load_dataset(small, place, clock=read_pair(), verb="init", progress=progress, how=once)
            seconds.append((monotonic_ns() - began_ns) / 1e9)
    per_unit = max(0.0, (seconds[1] - seconds[0]) / (PROBE_SIZES[1] - PROBE_SIZES[0]))
    total = seconds[0] + (kind_of(dataset).size_of(dataset) - PROBE_SIZES[0]) * per_unit
    of_sizes = dict(zip(PROBE_SIZES, seconds, strict=True))
    return replace(plan, seconds=total, probe_seconds=of_sizes)


@contextmanager
def _schema(target: Target) -> Iterator[Target]:
    """Yield the target with a new schema as the only one, and drop the schema at the end."""
    name = f"pgdyno_probe_{os.getpid()}"
    with connect(target, verb="init") as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    try:
        yield replace(target, options=f"{target.options} -c search_path={name}".strip())
    finally:
        with connect(target, verb="init") as connection:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
