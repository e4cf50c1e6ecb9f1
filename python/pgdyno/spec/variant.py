"""One variant of an experiment: its changes, its pooler and its price."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pgdyno.errors import SpecError
from pgdyno.quantities import is_whole
from pgdyno.spec.base import Command, Conninfo, Spec
from pgdyno.spec.dataset import DatasetChange
from pgdyno.spec.workload import Protocol, Script

PoolMode = Literal["session", "transaction", "statement"]
Replication = Literal["synchronous", "asynchronous"]
POOLER_FORM = "pooler=MODE:SIZE, such as pooler=transaction:20"


class Pooler(Spec):
    """PgBouncer in front of the server: the clients share at most this many sessions."""

    kind: Literal["pgbouncer"] = "pgbouncer"
    mode: PoolMode = "transaction"
    session_count: Annotated[int, Field(ge=1, le=10_000, alias="pool_size")] = 20

    def __str__(self) -> str:
        return f"{self.kind} {self.mode}, {self.session_count} sessions"


def pooler_from(text: str) -> dict[str, str]:
    """Return the fields of `transaction:20`, `20` or `session`; `Pooler` then checks them.

    Raises: SpecError if the text has more than these two parts.
    """
    parts = [part.strip() for part in text.split(":")]
    if len(parts) > 2 or not all(parts):
        raise SpecError(f"pooler={text} is not MODE:SIZE.", hint=POOLER_FORM)
    if len(parts) == 1:
        return {"pool_size" if is_whole(parts[0]) else "mode": parts[0]}
    return {"mode": parts[0], "pool_size": parts[1]}


def _setting_values(value: object) -> object:
    """Accept a setting as TOML writes it: 16, 0.9, true, "4GB"."""
    if not isinstance(value, dict):
        return value
    return {name: _setting_text(setting) for name, setting in value.items()}


def _setting_text(value: object) -> object:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, int | float) else value


# PostgreSQL: a power of two from 1 MB to 1 GB.
WalSegment = Literal[
    "1MB", "2MB", "4MB", "8MB", "16MB", "32MB", "64MB", "128MB", "256MB", "512MB", "1024MB"
]
COMMANDS = ("apply_command", "restart_command", "recover_command")
_PRICE = re.compile(r"(?P<amount>[0-9]+(?:\.[0-9]+)?)\s+(?P<unit>\D.{0,30})")
Settings = Annotated[dict[str, str], BeforeValidator(_setting_values)]


def price_of(text: str) -> tuple[float, str]:
    """Return amount and unit of "312 EUR/month".

    Raises: ValueError that shows the form.
    """
    match = _PRICE.fullmatch(text.strip())
    if match is None or not float(match["amount"]) > 0:
        raise ValueError(
            f"{text!r} is not a price: it needs an amount and a unit, such as 312 EUR/month"
        )
    return float(match["amount"]), match["unit"]


def _price(text: str) -> str:
    price_of(text)
    return text.strip()


class _NamedSpec(Spec):
    name: Annotated[str, Field(min_length=1, max_length=60)]


class ChangedContent(Spec):
    """Changes to the settings of a server and to its data.

    `sql` runs once on the loaded data, before the first run (indexes, schema).
    """

    settings: Settings = Field(default_factory=dict)
    dataset: DatasetChange = DatasetChange()
    sql: str | None = None


class OtherCluster(Spec):
    """Changes that need a cluster of another version, on another disk, or of another initdb.

    `checksums` and `wal_segment` are options of initdb. `standby`: the cluster has one, for which
    commits wait or not.
    """

    version: str | None = None
    bin_dir: Path | None = Field(default=None, alias="bin")
    data_dir: Path | None = None
    wal_dir: Path | None = None
    checksums: bool | None = None
    wal_segment: WalSegment | None = None
    standby: Replication | None = None


class OtherServer(Spec):
    """Another server or another way to it, and the means to change it.

    `admin` is the role that changes settings there. The three commands replace those of `[server]`.
    """

    dsn: Conninfo | None = None
    admin: Conninfo | None = None
    apply_command: Command | None = None
    restart_command: Command | None = None
    recover_command: Command | None = None


class OtherLoad(Spec):
    """Changes to the load, and to its way to a scratch server.

    `pooler` is between the load and the server. `idle_connections` are open in addition to those of
    the clients. `active_connections` is the number of connections that the clients share, one
    transaction at a time; None: no sharing.
    """

    path: Literal["unix", "tcp"] | None = None
    pooler: Pooler | None = None
    scripts: tuple[Script, ...] = ()
    clients: Annotated[int, Field(ge=1, le=100_000)] | None = None
    idle_connections: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        default=None, alias="idle"
    )
    active_connections: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, alias="active"
    )
    protocol: Protocol | None = None


class Variant(OtherLoad, OtherServer, OtherCluster, ChangedContent, _NamedSpec):
    """One variant of a comparison: it names only what it changes.

    A spec file has the fields of all groups in one table, in the reverse order of these classes.
    `price`, such as "312 EUR/month": reports show the price of 1,000 tps.
    """

    price: Annotated[str, AfterValidator(_price)] | None = None

    @model_validator(mode="after")
    def _path_leads_to_the_pooler(self) -> Variant:
        if self.pooler is not None and self.path == "tcp":
            raise ValueError(
                "path = tcp and pooler exclude each other: pgdyno's PgBouncer listens on a Unix "
                "socket; remove path, or name your own pooler with dsn"
            )
        return self

    @model_validator(mode="after")
    def _standby_decides_who_waits(self) -> Variant:
        if self.standby is not None and "synchronous_standby_names" in self.settings:
            raise ValueError(
                "standby and synchronous_standby_names exclude each other: standby sets it"
            )
        return self

    @property
    def cost(self) -> tuple[float, str] | None:
        """Return amount and unit of the price, None if there is no price."""
        return None if self.price is None else price_of(self.price)

    def changes(self) -> dict[str, str]:
        """Return the changes of this variant as flat text: `shared_buffers` -> `4GB`."""
        changes: dict[str, str] = dict(self.settings)
        for name, value in self.dataset.model_dump(exclude_none=True).items():
            changes[name] = str(value)
        if self.scripts:
            changes["script"] = " + ".join(script.name for script in self.scripts)
        for name in _PLAIN:
            if name not in _MEANS and (value := getattr(self, name)) is not None:
                changes[_ALIASES.get(name, name)] = str(value)
        return changes


# The fields that are one value or None, in their order.
_PLAIN = tuple(
    name for name in Variant.model_fields if name not in ("name", "settings", "dataset", "scripts")
)
# The means to change a server, and its price: they make no variant faster or slower.
_MEANS = ("admin", *COMMANDS, "price")
_ALIASES = {
    name: field.alias for name, field in Variant.model_fields.items() if field.alias is not None
}


def merged(name: str, parts: Iterable[Variant]) -> Variant:
    """Return one variant with the changes of all parts; a later part overrides an earlier one.

    The SQL of all parts runs, in their order.
    """
    settings: dict[str, str] = {}
    dataset: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    statements: list[str] = []
    for part in parts:
        settings |= part.settings
        dataset |= part.dataset.model_dump(exclude_none=True)
        given = {field: getattr(part, field) for field in (*_PLAIN, "scripts")}
        plain |= {field: value for field, value in given.items() if value not in (None, ())}
        statements += [part.sql] if part.sql is not None else []
    plain |= {"sql": ";\n".join(statements)} if statements else {}
    plain = {_ALIASES.get(field, field): value for field, value in plain.items()}
    return Variant(name=name, settings=settings, dataset=DatasetChange(**dataset), **plain)
