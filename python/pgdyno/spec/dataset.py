"""Which data the load runs on: one model for each kind of dataset, and the options of `init`.

A field made by `option` is also an option of the command line, with its name, help and range.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from pgdyno.errors import SpecError
from pgdyno.spec.base import Spec
from pgdyno.spec.units import scale_for

_STEPS = "dtgGvpf"


def option(
    *names: str,
    help: str,
    default: Any = None,
    metavar: str = "",
    first: bool = False,
    **rules: Any,
) -> Any:
    """Return a field that is also an option of the command line under `names`.

    Args: names, such as "-s", "--scale"; metavar, for a text; first, whether --help
    shows it; rules, pydantic's (ge, le).
    """
    extra: dict[str, Any] = {"option": list(names), "metavar": metavar, "first": first}
    return Field(default=default, description=help, json_schema_extra=extra, **rules)


_UNLOGGED = option("--unlogged-tables", help="Create tables without WAL.", default=False)
_FOREIGN_KEYS = option("--foreign-keys", help="Add foreign keys between the tables.", default=False)


class PgbenchDataset(Spec):
    """The tables of pgbench."""

    kind: Literal["pgbench"] = "pgbench"
    scale: int = option(
        "-s",
        "--scale",
        help="Scale factor, 100,000 accounts and 15 MB each (default 10; for init 1).",
        default=1,
        ge=1,
        le=2**31 - 1,
        first=True,
    )
    size: str | None = Field(default=None, exclude=True)
    """Approximate size instead of `scale`, such as "200GB" or "2xRAM"."""
    fillfactor: int | None = option(
        "-F",
        "--fillfactor",
        help="Fill factor of the tables in percent (default 100).",
        ge=10,
        le=100,
    )
    unlogged: bool = _UNLOGGED
    foreign_keys: bool = _FOREIGN_KEYS
    partitions: int = option(
        "--partitions",
        help="Number of partitions of pgbench_accounts (default 0).",
        default=0,
        ge=0,
        le=2**31 - 1,
    )
    partition_method: Literal["range", "hash"] = option(
        "--partition-method", help="Partitioning method (default range).", default="range"
    )

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

    steps: Annotated[str | None, AfterValidator(_steps)] = option(
        "-I",
        "--init-steps",
        help="Steps to run, in the given order: d(rop) t(ables) g(enerate) G(enerate on the"
        " server) v(acuum) p(rimary keys) f(oreign keys), as in pgbench.",
        metavar="STEPS",
    )
    distribute: Annotated[str | None, AfterValidator(_distribute)] = option(
        "--distribute",
        help="Distribute the tables over the nodes of citus or greenplum, by account (:aid,"
        " default) or by branch (:bid).",
        metavar="SERVER[:COLUMN]",
    )


class TpccDataset(Spec):
    """The tables of the TPC-C-like workload."""

    kind: Literal["tpcc"] = "tpcc"
    warehouses: int = option(
        "-W",
        "--warehouses",
        help="Number of warehouses, about 100 MB each (default 1).",
        default=1,
        ge=1,
        le=1_000_000,
        first=True,
    )
    seed: int = option(
        "--seed",
        help="Seed of the data (default 1). The same seed makes the same rows.",
        default=1,
        ge=0,
        le=2**64 - 1,
    )
    c_last: int = option(
        "--c-last",
        help="NURand's constant C for the last names in the data (default 157).",
        default=157,
        ge=0,
        le=255,
    )
    fillfactor: int | None = option(
        "-F",
        "--fillfactor",
        help="Fill factor of all tables in percent (default: a value for each table).",
        ge=10,
        le=100,
    )
    unlogged: bool = _UNLOGGED
    foreign_keys: bool = _FOREIGN_KEYS
    partitions: int = option(
        "--partitions",
        help="Number of hash partitions by warehouse of each large table (default 0).",
        default=0,
        ge=0,
        le=2**31 - 1,
    )

    @model_validator(mode="after")
    def _keys_can_be_made(self) -> TpccDataset:
        _refuse_mixed_keys(self)
        return self


class TpccLoading(Spec):
    """How `init` loads the tables of the TPC-C-like workload."""

    distribute: Literal["citus"] | None = option(
        "--distribute", help="Distribute the tables over the nodes of Citus, by warehouse."
    )


class LedgerDataset(Spec):
    """The tables of the ledger, which show what became of each commit."""

    kind: Literal["ledger"] = "ledger"
    accounts: int = option(
        "--accounts",
        help="Number of accounts, at least one for each client of a load (default 1000).",
        default=1000,
        ge=1,
        le=1_000_000,
        first=True,
    )


class LedgerLoading(Spec):
    """How `init` loads the tables of the ledger: there is only one way."""


class CaptureDataset(Spec):
    """The tables of a capture, filled from their statistics."""

    kind: Literal["capture"] = "capture"
    file: str
    fraction: float = option(
        "--fraction",
        help="Make this share of the rows of the captured tables (default 1).",
        default=1.0,
        gt=0,
        le=100,
    )


class CaptureLoading(Spec):
    """How `init` loads the tables of a capture."""

    import_statistics: bool = option(
        "--import-statistics",
        help="Give the tables the planner statistics of the original (needs PostgreSQL 18).",
        default=False,
    )


class ExistingDataset(Spec):
    """Data that already exist: pgdyno never loads, drops, truncates, vacuums or resets them."""

    kind: Literal["existing"] = "existing"

    @model_validator(mode="before")
    @classmethod
    def _without_tables(cls, given: object) -> object:
        """Drop the fields of the pgbench tables, which results of earlier versions contain."""
        if not isinstance(given, dict):
            return given
        return {name: v for name, v in given.items() if name not in PgbenchDataset.model_fields} | {
            "kind": "existing"
        }


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
