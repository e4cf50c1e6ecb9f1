"""Every command of README, the pages, the examples and the helps is carried out.

`shorter.py` has the rule by which its load becomes small, and the commands that no test runs.
`make test` runs the cheapest command of each verb and page; `-m slow` runs the others.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.command import Command
from tests.fixtures.programs import required
from tests.site.readers import Reader
from tests.site.shorter import FORMS, GATES, NOT_RUN, RIGHT, reason_not_to_run, words_for
from tests.site.shown import DOCUMENTS, Shown, commands, labels, outputs
from tests.tidy.source import ROOT

COMMANDS = commands()
OUTPUTS = outputs()
RUN = [shown for shown in COMMANDS if not reason_not_to_run(shown)]
# Seconds of a command, where it takes more than two.
_SECONDS = {
    "--price-of-loss": 20,
    "tune": 60,
    "crash": 20,
    "compare": 8,
    "sweep": 6,
    "run": 10,
    "init": 3,
    "bench": 3,
    "doctor --aa": 60,
}
# The dearest command that `make test` runs for its verb, and for its page.
_VERB_MAX, _PAGE_MAX = 10, 3
READ_RESULTS = ("list", "show", "report", "diff", "export", "note", "undo")
# Commands of the same page that come before.
BEFORE = {
    "pgdyno bench -b core.capture -h test -d core_copy": (
        "pgdyno init core.capture -h test -d core_copy --fraction 0.1",
    ),
    "pgdyno bench -b core.with-values.capture -h test -d restored -c 32 --allow-write": (
        "pgdyno capture -h prod -d core --log server.csv --keep-values --i-may-store-values",
    ),
    "pg_restore -h test -d restored core.dump": ("pg_dump -h prod -Fc core > core.dump",),
}


def quick_ones() -> set[str]:
    """Return the cheapest command of each verb, and one of each page that has a cheap one."""
    chosen: dict[str, str] = {}
    for shown in sorted(RUN, key=_seconds):
        is_new_page = shown.page.endswith(".md") and shown.page not in chosen
        if (shown.verb not in chosen and _seconds(shown) < _VERB_MAX) or (
            is_new_page and _seconds(shown) <= _PAGE_MAX
        ):
            chosen |= dict.fromkeys((shown.verb, shown.page), shown.typed)
    return set(chosen.values())


def _seconds(shown: Shown) -> int:
    """Return about how long a command takes."""
    if "--help" in shown.typed or "--dry-run" in shown.typed:
        return 1
    return next((_SECONDS[verb] for verb in _SECONDS if f"{verb} " in f"{shown.typed} "), 1)


QUICK = quick_ones()


@pytest.fixture(scope="module")
def reader(house: Path) -> Iterator[Reader]:
    """Start the reader's server."""
    folder = house / "reader"
    folder.mkdir(mode=0o755)
    there = Reader(folder)
    yield there
    there.close()


@pytest.mark.pg
@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(
            shown,
            id=shown.typed[:80],
            marks=() if shown.typed in QUICK else (pytest.mark.slow, pytest.mark.timeout(600)),
        )
        for shown in RUN
    ],
)
def test_a_command_that_a_page_shows_can_be_typed(
    shown: Shown, reader: Reader, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "pooler=" in shown.typed:
        required("pgbouncer")
    place = house / f"page-{COMMANDS.index(shown)}"
    place.mkdir(mode=0o755)
    reader.files_in(place, " ".join((*BEFORE.get(shown.typed, ()), shown.typed)))
    if shown.verb in READ_RESULTS or "--of" in shown.typed:
        reader.results_in(place / "store")
    command = Command(place / "store")
    if "--resume" in shown.typed:
        reader.interrupt_a_run(place, command)
    for typed in (*BEFORE.get(shown.typed, ()), shown.typed):
        carry_out(Shown(shown.page, typed), reader, command, place)
    command.close()


def carry_out(shown: Shown, reader: Reader, command: Command, place: Path) -> None:
    """Make the databases of a command, run it, and look at how it ended."""
    for name in re.findall(
        r"-d (\w+)|(?:psql|pgbench .*) -h \w+ (\w+)|-h prod(?: -Fc)? (\w+)", shown.typed
    ):
        database = next(filter(None, name))
        is_filled = shown.verb in ("init", "pg_restore") or "psql" in shown.typed
        if database == "core_copy" and shown.verb == "bench":
            continue  # It was filled before.
        is_filled &= not (shown.verb == "pg_dump" and database == "core")
        target = reader.database(database, is_empty=is_filled)
    if not shown.typed.startswith("pgdyno"):
        return in_a_shell(shown.typed, reader, place)
    words = words_for(shown, reader.options, place)
    if shown.verb == "capture" and "-d" in words:
        with reader.load(target):
            said = command(*words, env=reader.environment, timeout_s=300)
    else:
        said = command(*words, env=reader.environment, timeout_s=300)
    right = RIGHT | ({4} if {*GATES} & {*words} else set())
    assert said.code in right, f"{words}\n{said.out}\n{said.err}"
    assert "Traceback" not in said.out + said.err
    assert said.out or said.err
    # A page shows lines in today's order. A short run lacks some: it waits less, or proves less.
    on_page = OUTPUTS.get(shown.typed, [])
    both = [word for word in labels(said.out) if word in on_page]
    assert both == [word for word in on_page if word in both], said.out
    assert both or not on_page, said.out
    return None


def in_a_shell(typed: str, reader: Reader, place: Path) -> None:
    """Run what is not pgdyno, with the programs of the server."""
    where = " ".join(reader.options)
    typed = re.sub(r"-h (?:prod|test)\b", where, typed)
    subprocess.run(
        ["bash", "-o", "pipefail", "-c", typed],
        cwd=place,
        env={"PATH": f"{reader.bin_dir}:/usr/bin:/bin"},
        check=True,
        capture_output=True,
        timeout=60,
    )


def test_each_command_that_no_test_runs_is_still_shown_and_has_a_reason() -> None:
    assert {*FORMS} <= {shown.typed for shown in COMMANDS}
    for words, reason in NOT_RUN.items():
        assert any(shown.typed.startswith(words) for shown in COMMANDS), words
        for folder in re.findall(r"tests/[\w/]+", reason):
            assert (ROOT / folder).exists() or (ROOT / f"{folder}.py").exists(), folder


def test_the_quick_ones_have_every_verb_that_is_not_long_and_each_page_that_shows_one() -> None:
    quick = [shown for shown in RUN if shown.typed in QUICK]
    assert {shown.verb for shown in RUN} - {shown.verb for shown in quick} == {"tune", "crash"}
    left_out = {shown.page for shown in RUN} - {shown.page for shown in quick}
    for shown in RUN:
        if shown.page in left_out and shown.page.endswith(".md"):
            assert _seconds(shown) > _PAGE_MAX, shown


def test_each_target_of_make_module_and_extra_that_a_page_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for path in DOCUMENTS:
        text = path.read_text()
        for target in re.findall(r"(?:^ {4}|`)make ([\w-]+)", text, re.M):
            assert re.search(rf"^{target}:", makefile, re.M), f"{path.name}: make {target}"
        for module in re.findall(r"python -m ((?:bench|tests)[\w.]*)", text):
            place = ROOT / module.replace(".", "/")
            assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
        for extra in re.findall(r"pgdyno\[(\w+)\]", text):
            assert extra in extras.get("optional-dependencies", {}), f"{path.name}: {extra}"
