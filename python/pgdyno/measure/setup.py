"""What an experiment needs to be carried out: the question, the permissions, the checked scripts.

`loop/drive.py` makes it before any server is opened. The servers (`measure/servers.py`) and the
folder of results come later. So what a run needs is: setup, servers, folder, and the planned run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgdyno.clock import ClockPair
from pgdyno.engine.records import ScriptShape
from pgdyno.measure.backend_memory import refuse_too_little_memory
from pgdyno.measure.run_progress import RunProgress
from pgdyno.measure.under_test import LentCluster
from pgdyno.server.target import Target
from pgdyno.spec.condition import Condition
from pgdyno.spec.experiment import Experiment, Permissions
from pgdyno.spec.planned import PlannedRun


@dataclass(frozen=True, slots=True)
class Setup:
    """What all runs of one experiment share.

    `target`: the user's own server, None for a scratch server. `scripts`: as the engine has them.
    `is_read_only`: the sessions of the load are. `lent`: where a scratch cluster is kept that
    outlives the experiment.
    """

    experiment: Experiment
    verb: str
    target: Target | None
    permissions: Permissions
    scripts: tuple[ScriptShape, ...]
    clock: ClockPair
    store_dir: Path
    progress: RunProgress
    is_read_only: bool = False
    abort_if: tuple[Condition, ...] = ()
    lent: LentCluster | None = None

    def label_of(self, planned: PlannedRun) -> str:
        """Return a run's label for readers, such as "64 clients"."""
        return planned.label([script.name for script in self.experiment.all_scripts()])

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

    def refuse_too_little_memory(self, target: Target, *, is_local: bool = True) -> None:
        """Raise RefusedError if the load's connections need more memory than the server has."""
        refuse_too_little_memory(
            target,
            connections=self.experiment.connections_max(),
            is_local=is_local,
            verb=self.verb,
            is_confirmed=self.permissions.confirm_memory,
            progress=self.progress,
        )
