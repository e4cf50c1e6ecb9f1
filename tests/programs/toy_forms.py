"""Prints a result of the toy program in each form, as one JSON document.

It is a separate process, because importing pgdyno reads the table of programs. The result is a
stored one of the TPC-C-like program under other names.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.programs.toy.load import SALES

from pgdyno.feature import ProgramWords
from pgdyno.programs.registry import METRICS, PROGRAM_WORDS, PROGRAMS

# The lines that a program needs.
METRICS["toy"] = (SALES,)
PROGRAM_WORDS["toy"] = ProgramWords(
    "--stalls", "3 per street if stalls think", "toy-sale.p90=0.001s"
)
PROGRAMS["toy"] = {part: f"tests.programs.toy.{part}" for part in ("load", "answer", "shown")}

STORED = Path(__file__).parents[1] / "outputs/stored/bench-tpcc.tar.xz"
NAMES = {"tpcc-like": "toy", "new-order": "toy-sale"}


def renamed(store: Path) -> None:
    """Unpack the stored result, and give the program and its first type their other names."""
    with tarfile.open(STORED) as packed:
        packed.extractall(store, filter="data")
    for path in [*store.rglob("*.json"), *store.rglob("*.jsonl"), *store.rglob("*.toml")]:
        text = path.read_text()
        for name, other in NAMES.items():
            text = text.replace(name, other)
        path.write_text(text)


def live_line() -> str:
    """Return the line about a run of two sales in a second."""
    from pgdyno.cli.live import line
    from pgdyno.engine.records import Counts, Interval, ScriptShape
    from pgdyno.measure.run_progress import Moment, RunProgress, RunWatch
    from pgdyno.spec.planned import Cell, PlannedRun

    class Heard(RunProgress):
        last = Moment("", "")

        def moved(self, moment: Moment) -> None:
            self.last = moment

    heard = Heard()
    planned = PlannedRun(1, "round", 1, Cell((0,), 1), warm_ns=0, measure_ns=10**9, seed=1)
    shape = ScriptShape(name="toy-sale", program="toy", weight=1, reads_only=False, statements=())
    watch = RunWatch(planned, "market", heard, position="", shapes=[shape])
    none = dict.fromkeys(Counts.model_fields, 0)
    watch.see(
        Interval.model_validate(
            {
                **dict.fromkeys(Interval.model_fields, 0),
                "record": "interval",
                "time_ns": 10**9,
                "interval_ns": 10**9,
                "phase": "measure",
                "counts": {**none, "completed": 2},
                "completed_by_script": [2],
            }
        )
    )
    return line(heard.last)


def forms() -> dict[str, object]:
    """Return each form of the result, and what the command line says about the program."""
    from click.testing import CliRunner

    from pgdyno.cli.compare import command as compare
    from pgdyno.cli.sweep import command as sweep
    from pgdyno.designs import answer_of, blocks_of, document_of, page_of, words_of
    from pgdyno.report.markdown import answer_markdown
    from pgdyno.store.experiment import Store

    with tempfile.TemporaryDirectory() as store:
        renamed(Path(store))
        findings = answer_of(Store(Path(store)).find("last"))
        return {
            "text": words_of(findings, 100),
            "page": page_of(findings),
            "markdown": answer_markdown(blocks_of(findings), stem="report"),
            "json": document_of(findings),
            "live": live_line(),
            "compare": CliRunner().invoke(compare, ["--help-all"]).output,
            "sweep": CliRunner().invoke(sweep, ["--help-all"]).output,
        }


if __name__ == "__main__":
    json.dump(forms(), sys.stdout)
