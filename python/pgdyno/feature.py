"""What a feature brings: a capability above the core, in one folder, declared as data.

The core calls what features bring, and names none of them. `features/__init__.py` has the table
`FEATURES`; other packages add theirs by the entry point group `pgdyno.features`. Everything is
named as text ("package.module:NAME") and imported when it is first used, so an unused feature costs
nothing. Without the folder `features/` the core works alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

_TABLE = "pgdyno.features"
ENTRY_POINTS = "pgdyno.features"
T = TypeVar("T")
SLOTS: Mapping[str, str] = {
    "charts": "tuple of answer.charts.chart.TelemetryChart: telemetry drawn over time",
    "checkup": "() -> measure.checkup.Checkup: examines a server before each run",
    "collectors": "tuple of collectors: tables of telemetry that are not asked of a session",
    "fleet": "measure.fleet.OpenFleet: load from other hosts",
    "losses": "loop.losses.LossPrice: commits that crashes take, after an experiment",
    "nodes": "module with workers_of and STATEMENTS: the other nodes of a distributed server",
    "nodes_answer": "answer.nodes.NodesAnswer: what these nodes did in a run",
    "observed_nodes": "(nodes, target, run, is_local) -> tuple of observe.nodes.ObservedNode",
    "observer_statements": "(major version) -> name -> statement that collectors may send",
    "peak_seen": "(store, target) -> doctor's peak of sessions at work, or None",
    "run_doubts": "(stored run, load numbers) -> doubts",
    "run_findings": "(stored run) -> findings of this feature alone, or None",
    "run_sections": "(value of run_findings) -> report.blocks.BlockSection of a run's answer",
    "sql_collectors": "tuple of observe.sql collectors",
    "word_help": '(a word) -> what the feature says about it in `pgdyno help`, or ""',
    "verb_help": "module with EXAMPLES and MEANT, as cli.verb_help",
}
"""What the core asks features for: the name of the slot, and the type of what fills it."""
TABLES: Mapping[str, str] = {
    "dataset_kinds": "kind -> server.dataset.kind.DatasetKind",
    "design_models": "kind -> spec.designs.DesignSpec: the table [design] of a spec",
    "designs": "kind -> designs.Kind: planner, answer and forms of a design",
    "init_kinds": "kind of dataset -> cli.init_kind.InitKind: what only its `init` needs",
    "results": "verb -> report.result_kind.ResultKind: results that are no experiments",
}
"""The core's tables to which features add lines."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric that only one program has; more is better.

    `name`: in specs, options and JSON. `words`: for readers, also the unit of an estimate.
    `meaning` describes the column of an export. `unit`: of a limit in a condition. The metric
    counts completed transactions of the type `counts` in `seconds` of the measured time.
    """

    name: str
    words: str
    meaning: str
    unit: str
    counts: str
    seconds: float

    def measure(self, completed_by_type: Mapping[str, int], seconds: float) -> float | None:
        """Return the metric of a load that took `seconds`; None if it has no such type."""
        completed = completed_by_type.get(self.counts)
        return None if completed is None else completed * self.seconds / seconds


@dataclass(frozen=True, slots=True)
class ProgramWords:
    """What help says of a program whose clients have another name.

    `option`: its word for --clients. `clients`: how many of them think by default. `target`: an
    example for a transaction type.
    """

    option: str
    clients: str
    target: str


@dataclass(frozen=True, slots=True)
class KindHelp:
    """What the command line says of a kind of dataset.

    `options`: of the model of its tables, which a verb with a load has, too; `loading`: of the
    model of their loading; both are tables as `cli/option_table.py` reads them. `jobs`: the end of
    the help of --load-jobs. `check`: what the verb `check` does; "" without conditions.
    """

    options: str = ""
    loading: str = ""
    jobs: str = "(default 2)."
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One capability.

    `package`: its folder, for example "pgdyno.features.NAME". `needs`: names of features that it
    imports. `extension`: of PostgreSQL; the feature is not asked about a database without it.
    `traces`: documents and tables of telemetry, such as "hosts.json"; the feature is not asked
    about a stored run that has none of them. `verbs`: verb -> one line of help; the command is
    `command` of `PACKAGE.verbs.VERB`. `heading`: of the verbs in `pgdyno --help`. `programs`:
    built-in -> part -> module; the part `load` has the `PROGRAM`. `metrics`: built-in -> what only
    this program measures. `program_words`: built-in -> what help says of it. `kinds`: kind of
    dataset -> what help says of it. `parts`: slot -> "module:NAME", or "module:" for the module.
    `tables`: table -> key -> "module:NAME". Modules are relative to the package.
    """

    name: str
    package: str
    needs: tuple[str, ...] = ()
    extension: str = ""
    traces: tuple[str, ...] = ()
    verbs: Mapping[str, str] = field(default_factory=dict)
    heading: str = "Others"
    programs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    metrics: Mapping[str, tuple[Metric, ...]] = field(default_factory=dict)
    program_words: Mapping[str, ProgramWords] = field(default_factory=dict)
    kinds: Mapping[str, KindHelp] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def module(self, name: str) -> ModuleType:
        """Return a module of the feature. Example: "verbs.crash"."""
        return import_module(f"{self.package}.{name}")

    def part(self, slot: str) -> Any:
        """Return what the feature puts into a slot."""
        return _loaded(f"{self.package}.{self.parts[slot]}")


def _loaded(target: str) -> Any:
    """Return what "package.module:NAME" names; without a name, the module."""
    module, _, name = target.partition(":")
    holder = import_module(module)
    return getattr(holder, name) if name else holder


def at_first_call(target: str) -> Callable[..., Any]:
    """Return a function that imports "package.module:FUNCTION" when it is called."""
    return lambda *given, **named: _loaded(target)(*given, **named)


@cache
def features() -> tuple[Feature, ...]:
    """Return all features whose folders are here and whose needs are met, in their order."""
    table = import_module(_TABLE).FEATURES if find_spec(_TABLE) else ()
    here = [feature for feature in table if find_spec(feature.package)]
    here += _of_packages(here)
    names = {feature.name for feature in here}
    while lacking := {feature.name for feature in here if not names.issuperset(feature.needs)}:
        here = [feature for feature in here if feature.name not in lacking]
        names -= lacking
    return tuple(here)


def left_out() -> tuple[str, ...]:
    """Return a sentence for each feature of another package that cannot be used."""
    features()
    return tuple(_LEFT_OUT)


_LEFT_OUT: list[str] = []


def _of_packages(taken: Iterable[Feature]) -> list[Feature]:
    """Return the features of other installed packages; what is wrong with one stops nothing else.

    `importlib.metadata` takes half as long to import as the rest of a short verb, so it is imported
    only if the name of the group is in a package's list of entry points.
    """
    name = ENTRY_POINTS.encode()
    lists = (file for place in sys.path for file in Path(place).glob("*-info/entry_points.txt"))
    if not any(name in file.read_bytes() for file in lists):
        return []
    from importlib.metadata import entry_points

    kept: list[Feature] = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            feature = point.load()
            fault = _fault(feature, [*taken, *kept])
        except Exception as error:  # Code of others may fail in any way.
            fault = f"{type(error).__name__}: {error}"
        if fault:
            _LEFT_OUT.append(f"The feature {point.name} of {point.value} is left out: {fault}.")
        else:
            kept.append(feature)
    return kept


def _fault(feature: Any, others: Sequence[Feature]) -> str:
    """Return why a feature of another package cannot be used; "" if it can."""
    if not isinstance(feature, Feature):
        return f"it is a {type(feature).__name__}, and no pgdyno.feature.Feature"
    if unknown := sorted(({*feature.parts} - {*SLOTS}) | ({*feature.tables} - {*TABLES})):
        return f"no slot or table has the name {unknown[0]}"
    if not find_spec(feature.package):
        return f"no package {feature.package} is installed"
    names = {other.name for other in others}
    if feature.name in names:
        return f"another feature has the name {feature.name}"
    if lacking := sorted(set(feature.needs) - names):
        return f"it needs the feature {lacking[0]}"
    of_others = {verb for other in others for verb in other.verbs}
    for verb in feature.verbs:
        if verb in of_others or find_spec(f"pgdyno.cli.{verb}"):
            return f"pgdyno has the verb {verb} already"
    return ""


@cache
def parts(slot: str) -> tuple[Any, ...]:
    """Return what all features put into a slot, in the order of the features."""
    assert slot in SLOTS, f"{slot} is not a slot"
    return tuple(feature.part(slot) for feature in features() if slot in feature.parts)


def part(slot: str) -> Any | None:
    """Return what the first feature puts into a slot; None if no feature does."""
    return next(iter(parts(slot)), None)


def verbs() -> dict[str, tuple[str, Feature]]:
    """Return the verbs of all features with their help and their feature."""
    return {verb: (line, feature) for feature in features() for verb, line in feature.verbs.items()}


class FeatureTable(MutableMapping[str, T]):
    """A table of the core with the lines that features add; a value is imported at its first use.

    Args: slot, of `Feature.tables`; own, the core's lines: values, or "package.module:NAME".
    """

    def __init__(self, slot: str, own: Mapping[str, T | str]) -> None:
        assert slot in TABLES, f"{slot} is not a table"
        self._lines: dict[str, Any] = dict(own)
        for feature in features():
            for key, target in feature.tables.get(slot, {}).items():
                self._lines[key] = f"{feature.package}.{target}"

    def __getitem__(self, key: str) -> T:
        value = self._lines[key]
        if isinstance(value, str):
            value = self._lines[key] = _loaded(value)
        loaded: T = value
        return loaded

    def __setitem__(self, key: str, value: T) -> None:
        self._lines[key] = value

    def __delitem__(self, key: str) -> None:
        del self._lines[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, key: object) -> bool:
        return key in self._lines
