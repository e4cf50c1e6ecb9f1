"""The rule that the name of a numeric field has its unit, and the list of units."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import Source

UNITS = {
    *("ns", "us", "ms", "s", "seconds", "minutes", "hours", "hz", "px", "ppm"),
    *("bytes", "kib", "mib", "gib", "pages", "sectors", "columns", "lines"),
    "celsius",
    *("tps", "ratio", "count", "percent", "rows", "cores", "pid", "uid", "gid", "fd", "oid"),
}
# Numbers that PostgreSQL, pgbench or statistics know by one word, without a unit.
DIMENSIONLESS = {
    *("scale", "scale_factor", "fillfactor", "seed", "weight", "port", "version", "major"),
    *("minor", "line", "column", "number", "index", "round", "rank", "level", "priority"),
    *("statement", "script", "variant", "bucket", "exit_code", "returncode", "backlog"),
    *("reference", "in_flight", "thinking"),
    *("client", "sequence", "xid", "thread", "phase", "place"),
    # As in pg_stats; a distribution has the unit of its values.
    *("fraction", "distinct", "width", "correlation", "step", "parameter", "position"),
    "c_last",  # TPC-C: NURand's constant for last names.
    *("alpha", "beta", "sigma", "lambda_", "gamma", "n", "df", "mad", "probability", "confidence"),
    *(
        "uid",
        "gid",
        "pid",
        "oid",
        "query_id",
        "lsn",
        "generation",
        "server_version_num",
        "timeline",
        "n_runs",
    ),
}
# A transaction's outcomes are counted under pgbench's own words.
OUTCOMES = {
    *("scheduled", "started", "completed", "failed", "skipped", "late", "retried"),
    *("unfinished", "not_started", "in_doubt", "rolled_back"),
    *("acknowledged", "lost", "in_doubt_committed", "in_doubt_wrong", "unsent"),
}
NOT_COUNTS = re.compile(r"(.*(ss|us|is|ness|basis|bias))$")
NUMERIC = re.compile(r"\b(int|float|U8|U16|U32|U64|Count|FloatArray|IntArray|NDArray)\b")
MAPPING_OR_TEXT = re.compile(r"\b(dict|Mapping|str|ClassVar|Literal|Callable|Estimate)\b")
# A drawing has the unit of its axis.
DRAWING = {"x", "y", "low", "high", "mean", "dash", "values"}
# A statistic has the unit of the values it is of.
STATISTICS = {"value", "mean", "median", "variance", "half_width", "values"}
EXCEPTED_FILES = {"python/pgdyno/report/documents.py"}
# The unit of their numbers is that of a parameter, or in another field.
EXCEPTED_CLASSES = {
    *("Condition", "Estimate", "Spread", "OfColumn", "Linear", "Between", "Quantity"),
    *("Plus", "Number", "Turn"),
    "Sessions",
    "DrawnFindings",
}


def units_in_names(source: Source) -> Iterator[str]:
    """A public numeric field names its unit, is a plain count, or ends in `_count`/`_ratio`."""
    if not source.package or source.path in EXCEPTED_FILES:
        return
    for node in source.nodes:
        is_record = isinstance(node, ast.ClassDef) and (node.decorator_list or node.bases)
        if not is_record or node.name.startswith("_") or node.name in EXCEPTED_CLASSES:
            continue
        fields = [f for f in node.body if isinstance(f, ast.AnnAssign)]
        names = {ast.unparse(f.target): f for f in fields}
        if "unit" in names:
            continue
        for name, field in names.items():
            if _is_numeric(ast.unparse(field.annotation)) and not name.startswith("_"):
                generic = {"report": DRAWING, "analysis": STATISTICS}.get(source.package, set())
                is_generic = name in generic or name.split("_")[-1] in generic
                if not is_generic and not _says_its_unit(name):
                    text = f"{node.name}.{name} is a number without unit, _count or _ratio"
                    yield source.problem(field.lineno, text)


def _is_numeric(annotation: str) -> bool:
    return bool(NUMERIC.search(annotation)) and not MAPPING_OR_TEXT.search(annotation)


def _says_its_unit(name: str) -> bool:
    words = name.split("_")
    if UNITS & set(words) or name in DIMENSIONLESS | OUTCOMES or words[-1] in DIMENSIONLESS:
        return True
    if re.search(r"_per_(second|transaction|sample|client|page|row)$", name):
        return True
    # A plural noun is a count of such things: clients, transactions, connections_lost.
    return any(w.endswith("s") and not NOT_COUNTS.match(w) for w in (words[0], words[-1]))
