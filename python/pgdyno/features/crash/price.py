"""The price of a gain: the commits that crashes take with the settings of each variant.

An experiment that asks for it measures this after its last run. Every variant crashes as often as
the others, at the same moments, after the controls of each kind of crash. Each crash is a line of
the result, so an interrupted experiment goes on with the next crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.analysis.losses import Loss, events
from pgdyno.clock import ClockPair
from pgdyno.features.crash.controls import (
    REPEATS_MAX,
    Control,
    Kind,
    controls_of,
    is_settled,
    judged,
)
from pgdyno.features.crash.crashers import ScratchCrasher
from pgdyno.features.crash.crashes import loss_of
from pgdyno.features.crash.moments import planned_crashes
from pgdyno.features.crash.power_disk import why_not_here
from pgdyno.features.crash.record import CrashRecord
from pgdyno.features.crash.request import CrashRequest
from pgdyno.features.crash.work import CrashSetup
from pgdyno.measure.run_progress import RunProgress
from pgdyno.server.find import Binaries, find
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedVariant
from pgdyno.spec.variant import Variant
from pgdyno.store.folder import ExperimentFolder

_CLIENTS = 8
_RECOVERY_TIMEOUT_S = 120.0
# A killed server loses nothing that the kernel has.
_NEED_POWER = ("fsync", "full_page_writes")


def kinds_of(variant: Variant) -> tuple[Kind, ...]:
    """Return how servers with these settings crash here: without power, and with a standby.

    Where no disk loses its power, a killed server shows the loss of synchronous_commit alone.
    """
    kinds: list[Kind] = ["failover"] if variant.standby is not None else []
    if not why_not_here():
        return ("power", *kinds)
    weak = any(variant.settings.get(name, "on") != "on" for name in _NEED_POWER)
    return tuple(kinds) if weak else ("kill", *kinds)


def measure_losses(
    experiment: Experiment,
    variants: Sequence[PlannedVariant],
    folder: ExperimentFolder,
    clock: ClockPair,
    progress: RunProgress,
) -> None:
    """Let servers with the settings of each variant crash, and store every crash.

    Raises: ServerError or EngineError if a server or a load does not begin; InterruptedByUser.
    """
    scratch = experiment.server.scratch
    assert scratch is not None, "only scratch servers crash here"
    groups: dict[tuple[Kind, Binaries], list[PlannedVariant]] = {}
    for variant in variants:
        own = variant.spec
        is_other = own.version is not None or own.bin_dir is not None
        named = own if is_other else scratch
        binaries = find(bin_dir=named.bin_dir, version=named.version)
        for kind in kinds_of(own):
            groups.setdefault((kind, binaries), []).append(variant)
    for (kind, binaries), members in groups.items():
        request = CrashRequest(
            kind=kind,
            crashes=experiment.crash_count,
            seed=experiment.workload.seed,
            clients=_CLIENTS,
            binaries=binaries,
            settings=experiment.server.settings,
            data_dir=scratch.data_dir,
            allow_tmpfs=scratch.allow_tmpfs,
            recovery_timeout_s=_RECOVERY_TIMEOUT_S,
        )
        bench = CrashSetup(request, clock, folder.folder)
        with ScratchCrasher.ready(request, clock, progress) as crasher:
            _crash_each(bench, crasher, members, folder, progress)


def losses_by_variant(folder: ExperimentFolder) -> Mapping[str, tuple[Loss, ...]]:
    """Return the losses of each variant that crashed, by its id."""
    stored: dict[Kind, dict[str, list[CrashRecord]]] = {}
    for line in folder.crashes():
        of_kind = stored.setdefault(line["kind"], {})
        of_kind.setdefault(line["arm"], []).append(CrashRecord.of(line))
    seen: dict[str, tuple[Loss, ...]] = {}
    for kind, by_arm in stored.items():
        blind = tuple(
            control.name
            for control in controls_of(kind, is_own=False)
            if control.name in by_arm and not judged(control, by_arm[control.name]).holds
        )
        for arm, records in by_arm.items():
            if arm.startswith(_ARM):
                variant_id = arm.removeprefix(_ARM)
                seen[variant_id] = (*seen.get(variant_id, ()), loss_of(kind, records, blind))
    return seen


_ARM = "variant "


def _crash_each(
    bench: CrashSetup,
    crasher: ScratchCrasher,
    members: Sequence[PlannedVariant],
    folder: ExperimentFolder,
    progress: RunProgress,
) -> None:
    request, kind = bench.request, bench.request.kind
    done: dict[str, list[CrashRecord]] = {}
    for line in folder.crashes():
        if line["kind"] == kind:
            done.setdefault(line["arm"], []).append(CrashRecord.of(line))
    for name, arm in _arms(request, members):
        records = done.setdefault(arm.name, [])
        count = request.crashes if name else arm.tries + REPEATS_MAX
        planned = planned_crashes(count, request.seed, crasher.phases if name else arm.phases)
        for crash in planned[len(records) :]:
            if not name and is_settled(arm, records):
                break
            progress.said(f"{events(kind, 1)} {crash.number} of {count}: {name or arm.name}")
            record = crasher.crash(bench, crash, arm)
            records.append(record)
            folder.add_crash({**record.as_document(), "kind": kind})


def _arms(
    request: CrashRequest, members: Sequence[PlannedVariant]
) -> Iterator[tuple[str, Control]]:
    """Yield the controls, then each variant with its name, as settings that crash.

    Only controls that must show a loss: that nothing is lost, durable variants show themselves.
    """
    given = [request.settings, *(variant.spec.settings for variant in members)]
    weakened = {name for settings in given for name, value in settings.items() if value != "on"}
    for control in controls_of(request.kind, is_own=False):
        needs_power = [name for name in _NEED_POWER if control.settings.get(name) == "off"]
        if control.expected != "nothing lost" and weakened.issuperset(needs_power):
            yield "", control
    for variant in members:
        yield (
            variant.name,
            Control(
                f"{_ARM}{variant.id}",
                "nothing lost",
                variant.spec.settings,
                replication=variant.spec.standby or "",
            ),
        )
