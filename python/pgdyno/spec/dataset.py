"""Which data the load runs on: one model for each kind of dataset, and how `init` loads it.

`cli/kind_help.py` and the features have the options of the command line for these fields.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from pgdyno.errors import SpecError
from pgdyno.spec.base import Spec
from pgdyno.spec.units import scale_for

_STEPS = "dtgGvpf"


class PgbenchDataset(Spec):
    """The tables of pgbench."""

    kind: Literal["pgbench"] = "pgbench"
    scale: int = Field(default=1, ge=1, le=2**31 - 1)
    size: str | None = Field(default=None, exclude=True)
    """Approximate size instead of `scale`, such as "200GB" or "2xRAM"."""
    fillfactor: int | None = Field(default=None, ge=10, le=100)
    unlogged: bool = False
    foreign_keys: bool = False
    partitions: int = Field(default=0, ge=0, le=2**31 - 1)
    partition_method: Literal["range", "hash"] = "range"

    @model_validator(mode="before")
    @classmethod
    def _size_is_a_scale(cls, given: object) -> object:
        if not isinstance(given, dict) or not isinstance(given.get("size"), str):
            return given
        if "scale" in given:
            raise ValueError("use either scale or size, not both")
        try:
            return {**given, "scale": scale_for(given["size"])}
        except SpecError as error:
            raise ValueError(f"{error.message.rstrip('.')}; {error.hint}") from error


def _refuse_mixed_keys(dataset: TpccDataset) -> None:
    """Raise ValueError for foreign keys that PostgreSQL refuses once all rows are loaded.

    A partitioned table is always permanent, also if its partitions are unlogged, and a foreign key
    of a permanent table cannot reference an unlogged table.
    """
    if dataset.unlogged and dataset.partitions and dataset.foreign_keys:
        raise ValueError(
            "--unlogged-tables, --partitions and --foreign-keys exclude each other: a partitioned "
            "table is permanent, and PostgreSQL refuses foreign keys between permanent and "
            "unlogged tables; leave one of the three out"
        )


def _steps(given: str | None) -> str | None:
    steps = None if given is None else given.replace(" ", "")
    if steps is not None and (not steps or set(steps) - set(_STEPS)):
        raise ValueError(f"{given!r} must consist of the letters {_STEPS!r}, such as dtgvp")
    return steps


def _distribute(given: str | None) -> str | None:
    if given is None:
        return None
    server, _, column = given.partition(":")
    if server not in ("citus", "greenplum") or column not in ("", "aid", "bid"):
        raise ValueError(f"{given!r} must be citus or greenplum, optionally with :aid or :bid")
    return f"{server}:{column or 'aid'}"


class PgbenchLoading(Spec):
    """How `init` loads the tables of pgbench."""

    steps: Annotated[str | None, AfterValidator(_steps)] = None
    distribute: Annotated[str | None, AfterValidator(_distribute)] = None


class TpccDataset(Spec):
    """The tables of the TPC-C-like workload."""

    kind: Literal["tpcc"] = "tpcc"
    warehouses: int = Field(default=1, ge=1, le=1_000_000)
    seed: int = Field(default=1, ge=0, le=2**64 - 1)
    c_last: int = Field(default=157, ge=0, le=255)
    fillfactor: int | None = Field(default=None, ge=10, le=100)
    unlogged: bool = False
    foreign_keys: bool = False
    partitions: int = Field(default=0, ge=0, le=2**31 - 1)

    @model_validator(mode="after")
    def _keys_can_be_made(self) -> TpccDataset:
        _refuse_mixed_keys(self)
        return self


class TpccLoading(Spec):
    """How `init` loads the tables of the TPC-C-like workload."""

    distribute: Literal["citus"] | None = None


class LedgerDataset(Spec):
    """The tables of the ledger, which show what became of each commit."""

    kind: Literal["ledger"] = "ledger"
    accounts: int = Field(default=1000, ge=1, le=1_000_000)


class LedgerLoading(Spec):
    """How `init` loads the tables of the ledger: there is only one way."""


class CaptureDataset(Spec):
    """The tables of a capture, filled from their statistics."""

    kind: Literal["capture"] = "capture"
    file: str
    fraction: float = Field(default=1.0, gt=0, le=100)


class CaptureLoading(Spec):
    """How `init` loads the tables of a capture."""

    import_statistics: bool = False


class ExistingDataset(Spec):
    """Data that already exist: pgdyno never loads, drops, truncates, vacuums or resets them."""

    kind: Literal["existing"] = "existing"


class DatasetChange(Spec):
    """The options of the data that a variant changes."""

    scale: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    warehouses: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    accounts: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    fraction: Annotated[float, Field(gt=0, le=100)] | None = None
    fillfactor: Annotated[int, Field(ge=10, le=100)] | None = None
    unlogged: bool | None = None
    foreign_keys: bool | None = None
    partitions: Annotated[int, Field(ge=0)] | None = None
    partition_method: Literal["range", "hash"] | None = None


def changed(dataset: Dataset, change: DatasetChange) -> Dataset:
    """Return `dataset` with the changes of a variant.

    Raises: ValueError with the name of an option that this kind of dataset does not have.
    """
    changes = change.model_dump(exclude_none=True)
    unknown = sorted(changes.keys() - type(dataset).model_fields.keys())
    if unknown:
        raise ValueError(f"a {dataset.kind} dataset has no {unknown[0]}")
    copy = dataset.model_copy(update=changes)
    if isinstance(copy, TpccDataset):
        _refuse_mixed_keys(copy)
    return copy


def _kind_of(given: Any) -> str:
    kind = given.get("kind", "pgbench") if isinstance(given, dict) else getattr(given, "kind", None)
    return str(kind)


Dataset: TypeAlias = Annotated[
    Annotated[PgbenchDataset, Tag("pgbench")]
    | Annotated[TpccDataset, Tag("tpcc")]
    | Annotated[LedgerDataset, Tag("ledger")]
    | Annotated[CaptureDataset, Tag("capture")]
    | Annotated[ExistingDataset, Tag("existing")],
    Discriminator(_kind_of),
]
