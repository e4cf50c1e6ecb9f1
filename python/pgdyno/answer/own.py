"""What a program adds to the findings of a run; the file `answer.py` of its folder overrides it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgdyno.analysis.consistency import CheckFindings, ConditionFindings
from pgdyno.analysis.findings import Panel, RunFindings, ScriptFindings
from pgdyno.analysis.verdicts import Doubt
from pgdyno.loop.load_numbers import LoadNumbers
from pgdyno.loop.took_part import features_of_run
from pgdyno.programs.program import Program
from pgdyno.programs.registry import part_of, program_of
from pgdyno.server.connect import Connection
from pgdyno.store.stored_run import StoredRun


@dataclass(frozen=True, slots=True)
class Examined:
    """What `pgdyno check` prints about the data: lines, and keys of its JSON document."""

    lines: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)


class OwnAnswer:
    """The base of all programs: a program without findings adds nothing."""

    def findings(
        self,
        stored: StoredRun,  # noqa: ARG002
        numbers: LoadNumbers,  # noqa: ARG002
        scripts: Sequence[ScriptFindings],  # noqa: ARG002
        server: Mapping[str, Any],  # noqa: ARG002
    ) -> Any:
        """Return the findings that only this program has; they become `ProgramFindings.own`.

        Args: scripts, of the run; server, the facts of the server as stored.
        """
        return None

    def together(self, runs: Sequence[tuple[StoredRun, LoadNumbers]]) -> Any:  # noqa: ARG002
        """Return the findings of all runs of one cell: of a variant, of a load of a sweep.

        None if the program finds nothing that an answer of several cells shows.
        """
        return None

    def doubts(self, own: Any) -> Iterator[Doubt]:  # noqa: ARG002
        """Yield the doubts about the run that is shown in detail."""
        yield from ()

    def judged_texts(self, own: Any) -> frozenset[str] | None:  # noqa: ARG002
        """Return the texts of the statements that a comparison judges; None: all."""
        return None

    def doubts_of_every_run(self, stored: StoredRun) -> Iterator[Doubt]:  # noqa: ARG002
        """Yield the doubts for which every run is examined."""
        yield from ()

    def panels(self, stored: StoredRun, numbers: LoadNumbers) -> Sequence[Panel]:  # noqa: ARG002
        """Return the program's charts over time, which precede the others."""
        return ()

    def sentence(self, run: RunFindings) -> str:  # noqa: ARG002
        """Return the answer of one run in a sentence; "" for the usual one."""
        return ""

    def examined(self, connection: Connection) -> Examined:  # noqa: ARG002
        """Return what the rows show that were made after the load, for `pgdyno check`."""
        return Examined()


def added_by_features(stored: StoredRun) -> dict[str, Any]:
    """Return what each feature finds in a run, by the name of the feature."""
    findings = {
        feature.name: feature.part("run_findings")(stored)
        for feature in features_of_run("run_findings", stored)
    }
    return {name: value for name, value in findings.items() if value is not None}


def program_of_run(numbers: LoadNumbers) -> Program:
    """Return the program that every script of a run is."""
    return program_of([shape.program for shape in numbers.scripts])


def own_answer(program: Program) -> OwnAnswer:
    """Return what a program adds."""
    part = part_of(program, "answer")
    answer = OwnAnswer() if part is None else part.ANSWER
    assert isinstance(answer, OwnAnswer), f"ANSWER of {program.name} is an OwnAnswer"
    return answer


def check_of(stored: StoredRun) -> CheckFindings | None:
    """Return the result of the data check after a run, None if nothing was checked."""
    document = stored.server_json.get("consistency")
    if not document:
        return None
    return CheckFindings(
        conditions=tuple(
            ConditionFindings(
                number=int(verdict["number"]),
                rule=str(verdict["rule"]),
                violations={int(part): int(count) for part, count in verdict["violations"].items()},
            )
            for verdict in document.get("conditions", ())
        ),
        duration_s=document.get("duration_ns", 0) / 1e9,
        why_not=str(document.get("why_not", "")),
    )
