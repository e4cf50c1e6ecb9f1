"""What the runs of one experiment share."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgdyno.clock import ClockPair
from pgdyno.engine.records import ScriptShape
from pgdyno.measure.checkup import Checkup, new_checkup
from pgdyno.measure.run_progress import RunProgress
from pgdyno.measure.servers import Servers
from pgdyno.spec.condition import Condition
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.planned import PlannedRun
from pgdyno.store.folder import ExperimentFolder


@dataclass(frozen=True, slots=True)
class Stage:
    """What the runs of one experiment share: its servers, its folder, its clock, its scripts."""

    experiment: Experiment
    servers: Servers
    scripts: tuple[ScriptShape, ...]
    folder: ExperimentFolder
    clock: ClockPair
    progress: RunProgress
    read_only: bool
    abort_if: tuple[Condition, ...] = ()
    checkup: Checkup = field(default_factory=new_checkup)

    def shapes_of(self, planned: PlannedRun) -> list[ScriptShape]:
        """Return the scripts of a run as the engine has them; a program is one for each type."""
        left = list(self.scripts)
        by_script: list[list[ScriptShape]] = []
        for script in self.experiment.all_scripts():
            shapes = [left.pop(0)]
            while script.builtin and left and left[0].program == script.builtin != left[0].name:
                shapes.append(left.pop(0))
            by_script.append(shapes)
        return [shape for index in planned.cell.script_indexes for shape in by_script[index]]

    def texts_of(self, planned: PlannedRun) -> dict[str, list[tuple[int, str]]]:
        """Return script -> line and text of each statement of a run."""
        return {
            script.name: [(statement.line, statement.text) for statement in script.statements]
            for script in self.shapes_of(planned)
        }
