"""What disks, sensors and checkpoints did during the runs of each variant, as dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.analysis.estimate import Estimate, alike, mean_between_runs

# A place of files of the server, as a key and for readers.
PLACES = {"data": "data disk", "wal": "WAL disk"}


@dataclass(frozen=True, slots=True)
class DeviceQuantity:
    """A quantity that is measured in every run; `key` is its name in JSON."""

    key: str
    words: str
    unit: str


@dataclass(frozen=True, slots=True)
class DevicesOfRuns:
    """What was measured in the runs of one variant.

    `places`: a key of `PLACES` -> name of the disk; "wal" only if it is not the same disk.
    `by_run`: the value of each quantity by its key; a quantity without a value is not there.
    `missing`: sentences with the reason for quantities that cannot be measured.
    """

    variant: str
    places: Mapping[str, str]
    by_run: Sequence[Mapping[str, float]]
    missing: Sequence[str]


@dataclass(frozen=True, slots=True)
class VariantDevices:
    """One variant; `means` over its runs by quantity."""

    name: str
    run_count: int
    places: Mapping[str, str]
    means: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class DeviceFindings:
    """All variants with runs; `quantities`: those that at least one variant has, in order.

    `not_measured`: whole sentences, each with the names of its variants unless it is about all.
    """

    variants: tuple[VariantDevices, ...]
    quantities: tuple[DeviceQuantity, ...]
    not_measured: tuple[str, ...]

    def shown(self, key: str) -> tuple[Estimate | None, ...]:
        """Return a quantity of each variant as people see it: either all have an interval."""
        return alike([variant.means.get(key) for variant in self.variants])


def device_findings(
    variants: Sequence[DevicesOfRuns], quantities: Sequence[DeviceQuantity]
) -> DeviceFindings | None:
    """Return the means over the runs of each variant; None if no run measured a quantity.

    Args: quantities, all that there may be, in the order of reading.
    """
    measured = [variant for variant in variants if variant.by_run]
    known = {key for variant in measured for values in variant.by_run for key in values}
    if not known:
        return None
    return DeviceFindings(
        variants=tuple(
            VariantDevices(
                name=variant.variant,
                run_count=len(variant.by_run),
                places=variant.places,
                means=_means(variant.by_run, quantities),
            )
            for variant in measured
        ),
        quantities=tuple(quantity for quantity in quantities if quantity.key in known),
        not_measured=_sentences(measured),
    )


def _means(
    by_run: Sequence[Mapping[str, float]], quantities: Sequence[DeviceQuantity]
) -> dict[str, Estimate]:
    """Return the mean of each quantity over the runs that measured it."""
    means = {}
    for quantity in quantities:
        values = [run[quantity.key] for run in by_run if quantity.key in run]
        if values:
            means[quantity.key] = mean_between_runs(values, quantity.unit)
    return means


def _sentences(variants: Sequence[DevicesOfRuns]) -> tuple[str, ...]:
    """Return each reason once, after the names of the variants that it is about."""
    said: dict[str, list[str]] = {}
    for variant in variants:
        for sentence in dict.fromkeys(variant.missing):
            said.setdefault(sentence, []).append(variant.variant)
    return tuple(
        sentence if len(names) == len(variants) else f"{', '.join(names)}: {sentence}"
        for sentence, names in said.items()
    )
