"""Results that somebody changed at random: every verb answers or refuses, and shows the others."""

from __future__ import annotations

import json
import random
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgdyno.cli.main import _run
from pgdyno.errors import StoreError
from pgdyno.store import parquet
from pgdyno.store.schema import INTERVALS

TESTS = Path(__file__).parents[1]
STORED = (
    *sorted((TESTS / "store/fixtures/format-1-designs").glob("*.tar.xz")),
    TESTS / "store/fixtures/format-1-watch.tar.xz",
    TESTS / "outputs/stored/bench-tpcc.tar.xz",
)
GOOD = TESTS / "store/fixtures/format-1/fixture"
ODD = (
    *(None, "", 0, -1, 1e308, 2**70, True, [], {}, [[]], {"a": 1}, "x" * 3000, "1e400", [None]),
    *("\x1b[31m<script>made()</script>", "=cmd|' /C made'!A0", "\u202e", "$(touch made)", 1.5),
    *(float("nan"), float("inf"), "\ud800", "../../../etc/passwd", -(2**63)),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to each value of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:30])
    ways = [at] if at else []
    for key, below in inner:
        ways += places(below, (*at, key)) if isinstance(below, dict | list) else [(*at, key)]
    return ways


def changed(document: Any, draw: random.Random) -> Any:
    """Change one value of a document, remove it, or add another."""
    ways = places(document) if isinstance(document, dict | list) else []
    if not ways:
        return draw.choice(ODD)
    *above, last = draw.choice(ways)
    place = document
    for key in above:
        place = place[key]
    kind = draw.random()
    if kind < 0.2:
        del place[last]
    elif kind < 0.3 and isinstance(place, list):
        place.extend(place * 3)
    else:
        place[last] = draw.choice(ODD)
    return document


def mutate(path: Path, draw: random.Random) -> None:
    """Change one value of a file, or its bytes."""
    raw = path.read_bytes()
    if path.suffix in (".json", ".jsonl") and raw.strip() and draw.random() < 0.75:
        lines = [raw] if path.suffix == ".json" else raw.splitlines()
        place = draw.randrange(len(lines))
        try:
            lines[place] = json.dumps(changed(json.loads(lines[place]), draw)).encode()
        except ValueError:  # An earlier change broke it.
            lines[place] = b"{"
        path.write_bytes(b"\n".join(lines) + b"\n")
        return
    flipped = bytearray(raw or b"x")
    for _ in range(5):
        flipped[draw.randrange(len(flipped))] = draw.randrange(256)
    deep = b"[" * 100_000 + b"]" * 100_000
    cut = raw[: draw.randrange(len(raw) + 1)]
    path.write_bytes(draw.choice((b"", cut, raw + b"\xff\xfe\0", raw + raw, deep, bytes(flipped))))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One result of each kind, as it was stored."""
    unpacked: list[Path] = []
    for archive in STORED:
        place = tmp_path_factory.mktemp("results", numbered=True)
        with tarfile.open(archive) as packed:
            packed.extractall(place, filter="data")
        unpacked.append(next(path for path in place.iterdir() if path.is_dir()))
    return unpacked


@pytest.mark.parametrize("seed", range(12))
def test_no_change_of_a_result_crashes_a_verb_or_hides_another_result(
    seed: int, results: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = random.Random(seed)
    bad, good = tmp_path / "bad", tmp_path / "good"
    shutil.copytree(results[seed % len(results)], bad)
    shutil.copytree(GOOD, good)
    identity = json.loads((good / "experiment.json").read_text())
    (good / "experiment.json").write_text(json.dumps({**identity, "number": 777}))
    files = sorted(path for path in bad.rglob("*") if path.is_file())
    texts = [path for path in files if path.suffix in (".json", ".jsonl", ".toml")]
    for _ in range(draw.choice((1, 1, 3))):
        mutate(draw.choice(texts if draw.random() < 0.7 else files), draw)
    assert_every_verb_answers(bad, good, tmp_path, capsys.readouterr)


def test_a_watch_whose_figures_are_words_is_named(
    results: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    shutil.copytree(results[-2], bad)
    shutil.copytree(GOOD, good)
    document = json.loads((bad / "analysis.json").read_text())
    document["cost"]["server_cores"] = "1e400"
    (bad / "analysis.json").write_text(json.dumps(document))
    assert _run(["show", str(bad)]) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert "cannot be read" in said
    assert "nternal error" not in said


def test_numbers_of_thousands_of_digits_crash_no_verb(
    results: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tmp_path / "good"
    shutil.copytree(GOOD, good)
    identity = json.loads((good / "experiment.json").read_text())
    (good / "experiment.json").write_text(json.dumps({**identity, "number": 777}))
    source = results[0]
    texts = [path for path in source.rglob("*") if path.suffix in (".json", ".jsonl", ".toml")]
    for number, path in enumerate(sorted(texts)):
        bad = tmp_path / f"bad{number}"
        shutil.copytree(source, bad)
        long = re.sub(rb"([:=] ?)[0-9]+", rb"\g<1>" + b"9" * 5000, path.read_bytes(), count=1)
        (bad / path.relative_to(source)).write_bytes(long)
        assert_every_verb_answers(bad, good, tmp_path, capsys.readouterr)
        shutil.rmtree(bad)


def test_a_small_file_with_more_values_than_memory_is_refused_unread(
    results: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = next(results[0].rglob("intervals.parquet"))
    assert parquet.read_arrays(path, INTERVALS)["time_ns"].size
    big = tmp_path / "intervals.parquet"
    parquet.cursor().execute(
        f"COPY (SELECT rows.* FROM (SELECT * FROM read_parquet('{path}') LIMIT 1) AS rows,"
        f" range(20000)) TO '{big}' (FORMAT parquet, COMPRESSION zstd)"
    )
    monkeypatch.setattr(parquet, "_values_max", lambda: 100_000)
    with pytest.raises(StoreError, match="values, and the memory is enough for 100,000"):
        parquet.read_arrays(big, INTERVALS)
    with pytest.raises(StoreError, match="values, and the memory is enough for 100,000"):
        parquet.read_many([big, path], INTERVALS)


def assert_every_verb_answers(bad: Path, good: Path, store: Path, read: Callable[[], Any]) -> None:
    result, option = str(bad), ("--store", str(store))
    page = store / "page.html"
    for asked in (
        ("list", *option),
        ("show", "-v", result),
        ("report", result, "-o", str(page)),
        ("report", result, "-o", str(store / "page.md")),
        ("diff", result, str(good)),
        ("export", result),
        ("undo", *option),
    ):
        code = _run([*asked])
        out, err = read()
        assert isinstance(code, int)
        assert "nternal error" not in err, (asked, err)
        assert "Traceback" not in err, (asked, err)
        assert "\x1b" not in out + err, asked
        if asked[0] == "list":
            assert "#777" in out, (out, err)
    if page.exists():
        assert "<script>made" not in page.read_text()
    assert not Path("made").exists()
