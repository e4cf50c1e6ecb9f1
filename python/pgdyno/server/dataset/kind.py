"""What pgdyno must know about a kind of dataset: its tables, sizes, marks and options.

The engine makes the rows. `kinds.KINDS` lists the kinds, and docs/adding.md says how to add
one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString

from pgdyno.server.dataset.conditions import ConsistencyRule
from pgdyno.spec.base import Spec
from pgdyno.spec.dataset import Dataset

if TYPE_CHECKING:
    from pgdyno.server.connect import Connection

# A table and an expression over all its rows, such as ("pgbench_branches", "count(*)").
Number = Callable[[str, LiteralString], int | None]


class DatasetKind(ABC):
    """One kind of dataset. Its tables carry the mark `pgdyno dataset <name> option=value ...`."""

    name: ClassVar[str]
    options: ClassVar[type[Spec]]
    """The dataset in a spec file, and its options in every verb that loads."""
    loading: ClassVar[type[Spec]]
    """The options of `init` for this kind."""
    tables: tuple[str, ...] = ()
    sequences: ClassVar[tuple[str, ...]] = ()
    """Sequences that belong to the tables, if something reads them."""
    is_found_by_mark: ClassVar[bool] = False
    """Its tables have no fixed names: the mark alone says which they are."""
    emptied: ClassVar[tuple[str, ...]] = ()
    """Tables without rows of the load: the reset before each run empties them."""
    keyless: ClassVar[tuple[str, ...]] = ()
    """Tables that have no primary key."""
    size_option: ClassVar[str]
    """The option for the size."""
    kept_options: ClassVar[tuple[str, ...]] = ()
    """Engine options (numbers) that a continued load takes from the interrupted load."""

    scratch_options: ClassVar[Mapping[str, Any]] = {}
    """Options on a scratch server that differ from the defaults of `init`."""

    conditions: ClassVar[tuple[ConsistencyRule, ...]] = ()
    """Queries for rows that contradict each other, used after every load and every run."""
    conditions_of_load: ClassVar[tuple[ConsistencyRule, ...]] = ()
    """Conditions on rows that no run changes."""
    part_word: ClassVar[str] = ""
    """What a part of the data is, for which conditions count violations."""

    def bound(self, dataset: Dataset) -> DatasetKind:
        """Return the kind for one dataset, which may decide the tables."""
        del dataset
        return self

    def label(self, dataset: Dataset) -> str:
        """Return the size in words, such as "scale 10"."""
        return self.size_words(self.size_of(dataset))

    @abstractmethod
    def size_words(self, size: int | None) -> str:
        """Return a size read from the tables in words."""

    @abstractmethod
    def read_size(self, number: Number) -> int | None:
        """Return the size, read from a table."""

    def lacks(self, connection: Connection) -> str:
        """Return what the server refused when the tables were made, in words; "" for nothing."""
        del connection
        return ""

    @abstractmethod
    def why_partial(self, number: Number, size: int | None) -> str:
        """Return the missing rows in words if all tables exist, else nothing."""

    @abstractmethod
    def tables_bytes(self, dataset: Dataset) -> int:
        """Return the size of the loaded tables with their indexes."""

    def rows(self, dataset: Dataset) -> Mapping[str, int]:
        """Return the rows of each table that a load fills; empty if only the load knows them."""
        del dataset
        return {}

    @abstractmethod
    def sort_bytes(self, dataset: Dataset) -> int:
        """Return the bytes on disk that the sort of the largest index may need."""

    def size_of(self, dataset: Dataset) -> int:
        """Return the size that the options ask for, such as the number of warehouses."""
        size: int = getattr(dataset, self.size_option)
        return size

    def locks_count(self, dataset: Dataset) -> int:
        """Return how many locks the largest transaction of a load holds; 0 = few."""
        del dataset
        return 0

    @abstractmethod
    def row_bytes(self, dataset: Dataset) -> float:
        """Return how many bytes each loaded row adds to the tables, without indexes."""

    @abstractmethod
    def engine_options(self, dataset: Dataset, loading: Spec | None, jobs: int) -> dict[str, Any]:
        """Return the dataset as the engine's job describes it.

        Args: loading, of the kind's class; None = the defaults; jobs, connections if they were
        asked for, else 0.
        """

    def spread_options(self, dataset: Dataset, jobs: int) -> dict[str, Any]:
        """Return the additional options of a load from several hosts with `jobs` connections."""
        del dataset, jobs
        return {}

    def mark_options(self, dataset: Dataset, loading: Spec | None) -> dict[str, str]:
        """Return the options of the dataset as text for the mark."""
        fields = {**dataset.model_dump(), **(loading.model_dump() if loading else {})}
        left_out = {"kind", "steps"}
        return {k: str(v) for k, v in fields.items() if k not in left_out and v is not None}

    def resume_options(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Return the options that a continued load must share with the interrupted one."""
        names = (*self.kept_options, "steps")
        return {name: str(options[name]) for name in names if options.get(name) is not None}

    def kept_from(
        self, options: Mapping[str, Any], interrupted: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return options that a continued load takes from the interrupted one."""
        names = [name for name in self.kept_options if name in interrupted and name in options]
        return {name: int(interrupted[name]) for name in names}

    def has_step(self, loading: Spec | None, steps: str) -> bool:
        """Return whether a load has one of `steps` (pgbench's letters); a whole load has all."""
        asked = self.steps_of(loading)
        return asked is None or bool(set(asked) & set(steps))

    def steps_of(self, loading: Spec | None) -> str | None:
        """Return the requested steps, None for a whole load."""
        return getattr(loading, "steps", None)
