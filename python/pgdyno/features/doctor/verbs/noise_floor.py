"""`pgdyno doctor --aa`: the smallest difference that a host can show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from pgdyno.analysis.rounding import change_text
from pgdyno.answer.noise import HostNoise, aa_experiment, host_noise
from pgdyno.cli import options, output
from pgdyno.cli.from_options import refuse, server_named
from pgdyno.cli.live import Live
from pgdyno.cli.measure import exit_code, keep
from pgdyno.designs import answer_so_far, design_of
from pgdyno.loop.drive import carry_out
from pgdyno.loop.preview import refuse_short_budget
from pgdyno.quantities import counted, percent, seconds
from pgdyno.report.text_page import TextPage
from pgdyno.spec.experiment import Experiment, Permissions
from pgdyno.store.experiment import Store

_CLIENTS = 4
_SCALE = 10


def measure_noise(given: dict[str, Any]) -> int:
    """Measure A against A, print the noise floor, and return the exit code."""
    resolved = server_named(given)
    asked = _experiment(given, resolved.target.place if resolved else None)
    refuse_short_budget(asked, design_of(asked))
    progress = Live()
    outcome = carry_out(
        asked,
        design_of(asked),
        verb="doctor",
        resolved=resolved,
        permissions=Permissions(confirm=(given["confirm"],) if given["confirm"] else ()),
        store=Store.default(given["store"]),
        progress=progress,
    )
    progress.ended()
    findings = answer_so_far(outcome.folder, outcome.error)
    if findings is not None and outcome.folder is not None:
        keep(outcome.folder, findings)
        noise = host_noise(findings)
        lines = list(lines_of(noise, asked, findings.facts.target))
        lines.append(f"{'saved':12}#{outcome.folder.number}   pgdyno show {outcome.folder.number}")
        document = document_of_noise(noise, outcome.folder.number, findings.facts.target)
        text = json.dumps(document, indent=2, ensure_ascii=False)
        options.write("\n".join(lines), text, given["json_to"])
    if outcome.error is not None:
        output.problem(outcome.error.message, outcome.error.hint)
        return outcome.error.exit_code
    return exit_code(outcome.error, findings)


def _experiment(given: dict[str, Any], dsn: str | None) -> Experiment:
    try:
        return aa_experiment(
            dsn=dsn, clients=_CLIENTS, run=given["run"], budget=given["budget"], scale=_SCALE
        )
    except ValidationError as error:
        refuse(error)


def lines_of(noise: HostNoise, asked: Experiment, target: str) -> Iterator[str]:
    """Yield the lines of the noise floor as text."""
    floor = noise.floor
    script = asked.workload.scripts[0].name
    page = TextPage(output.width())
    yield from page.row("target", target)
    yield from page.row(
        "A against A",
        f"{counted(floor.pair_count, 'pair')} of runs of {script} with {_CLIENTS} clients, "
        f"{seconds(noise.pair_seconds)} per pair",
    )
    yield from page.row(
        "scatter",
        f"the ratio of one pair has a standard deviation of {percent(floor.deviation_ratio)}",
    )
    for place, (minutes, ratio) in enumerate(noise.detectable_ratio):
        yield from page.row(
            "noise floor" if place == 0 else "",
            f"in {minutes} min, 4 of 5 experiments find a difference of {percent(ratio)}",
        )
    said = change_text(noise.contrast.deciding.ratio)
    if noise.is_false_verdict:
        yield from page.row(
            "verdict",
            f"FALSE: A differs from itself by {said}. Something on this host changes during the "
            "test. Fewer than 1 in 20 quiet hosts show this. Stop other programs and repeat.",
        )
    else:
        yield from page.row("verdict", f"none, as expected: A against itself {said}")


def document_of_noise(noise: HostNoise, number: int, target: str) -> dict[str, Any]:
    """Return the noise floor as a JSON document."""
    deciding = noise.contrast.deciding
    return {
        "format": "pgdyno.noise/1",
        "number": number,
        "target": target,
        "pairs": noise.floor.pair_count,
        "pair_seconds": noise.pair_seconds,
        "deviation_ratio": noise.floor.deviation_ratio,
        "detectable": [{"minutes": m, "ratio": r} for m, r in noise.detectable_ratio],
        "verdict": deciding.verdict,
        "is_false_verdict": noise.is_false_verdict,
        "tps_ratio": deciding.ratio.to_json(),
        "ratios": [pair.ratio for pair in noise.contrast.pairs],
        "warnings": _warnings(noise),
    }


def _warnings(noise: HostNoise) -> list[dict[str, str]]:
    if not noise.is_false_verdict:
        return []
    message = "A differs from itself: something on this host changes during the test."
    return [{"kind": "false_verdict", "message": message, "hint": "stop other programs and repeat"}]
