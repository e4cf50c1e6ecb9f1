"""Choices of tables and cluster that a tuning searches like settings, on scratch servers alone.

Each value needs separate tables or a separate cluster, made when a candidate first uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.errors import SpecError
from pgdyno.settings.rule import SettingRule
from pgdyno.settings.table import Risk
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.variant import Variant

_CHECKSUMS_DEFAULT_MAJOR = 18


@dataclass(frozen=True, slots=True)
class StorageChoice:
    """One choice of storage.

    `field`: the field of the variant that it sets. `is_of_tables`: the field belongs to the
    variant's dataset. `unsafe`: the value that needs the class of risk "durability".
    """

    field: str
    values: tuple[str, ...]
    price: str
    unsafe: str | None = None
    is_of_tables: bool = False

    def risk_of(self, value: str) -> Risk:
        """Return the class of a value."""
        return "durability" if value == self.unsafe else "safe"


STORAGE: dict[str, StorageChoice] = {
    "fillfactor": StorageChoice(
        "fillfactor",
        ("100", "90", "70"),
        "The tables take up to 100 / fillfactor of the space.",
        is_of_tables=True,
    ),
    "partitions": StorageChoice(
        "partitions", ("0", "8"), "Statements without the key read every one.", is_of_tables=True
    ),
    "wal-segment": StorageChoice(
        "wal_segment", ("16MB", "64MB"), "Archiving moves whole files of this size."
    ),
    "checksums": StorageChoice(
        "checksums", ("on", "off"), "With off, damaged pages are not noticed.", unsafe="off"
    ),
    "wal-dir": StorageChoice("wal_dir", (), "Both disks are needed to start the server."),
    "data-dir": StorageChoice("data_dir", (), "The file system must be as safe as the other."),
}


def rule_of_choice(name: str) -> SettingRule:
    """Return a rule like that of a setting which only a new cluster has."""
    return SettingRule(name, "enum", "internal", "", "", "", (), "")


def choices_now(experiment: Experiment, major: int) -> dict[str, str]:
    """Return the present value of every choice; "" for a folder that was not named."""
    dataset, scratch = experiment.dataset, experiment.server.scratch
    data_dir = scratch.data_dir if scratch is not None else None
    wal_dir = scratch.wal_dir if scratch is not None else None
    return {
        "fillfactor": str(getattr(dataset, "fillfactor", None) or 100),
        "partitions": str(getattr(dataset, "partitions", None) or 0),
        "wal-segment": "16MB",
        "checksums": "on" if major >= _CHECKSUMS_DEFAULT_MAJOR else "off",
        "wal-dir": str(wal_dir or data_dir or ""),
        "data-dir": str(data_dir or ""),
    }


def variant_of(name: str, values: Mapping[str, str]) -> Variant:
    """Return the variant of a candidate: its settings, its tables, and its cluster."""
    fields: dict[str, Any] = {"name": name, "settings": {}, "dataset": {}}
    for key, value in values.items():
        choice = STORAGE.get(key)
        if choice is None:
            fields["settings"][key] = value
        elif not value:
            continue  # The server of the spec has this value.
        elif choice.is_of_tables:
            fields["dataset"][choice.field] = value
        else:
            fields[choice.field] = value
    return Variant.model_validate(fields)


def refuse_on_own_server(names: Mapping[str, object] | tuple[str, ...]) -> None:
    """Raise SpecError for choices of storage among the names: only a scratch server has them."""
    chosen = [name for name in names if name in STORAGE]
    if chosen:
        raise SpecError(
            f"--setting {chosen[0]} needs a new cluster or new tables, and a tuning makes these on"
            " a scratch server only.",
            hint="search it with --scratch, or compare two servers of your own",
        )
