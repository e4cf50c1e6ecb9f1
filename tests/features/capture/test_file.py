"""The file of a capture: round trip, damage, formats, the line for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.captures import header, shop_capture, tpcb_capture

from pgdyno.errors import SpecError
from pgdyno.features.capture import file
from pgdyno.features.capture.model import Capture, Equal, Number, Taken
from pgdyno.features.capture.observed import REASONS

zstd = file.zstd


def written(path: Path, *lines: object) -> Path:
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    path.write_bytes(zstd.compress(text))
    return path


@pytest.mark.parametrize("capture", [tpcb_capture(), shop_capture()], ids=["tpcb", "shop"])
def test_a_capture_survives_its_file(tmp_path: Path, capture: Capture) -> None:
    path = tmp_path / "core.capture"
    path.write_bytes(file.encoded(capture))
    assert file.read(path) == capture


@pytest.mark.parametrize(("keeps", "words"), [(False, b"no values"), (True, b"WITH VALUES")])
def test_the_first_bytes_tell_a_person_whether_values_are_inside(keeps: bool, words: bytes) -> None:
    capture = tpcb_capture(header=header(keeps_values=keeps))
    assert words in file.encoded(capture).split(b"\n")[0]


def test_every_zstd_program_reads_the_lines_and_the_header_is_first(tmp_path: Path) -> None:
    path = tmp_path / "core.capture"
    path.write_bytes(file.encoded(tpcb_capture()))
    first = json.loads(zstd.decompress(path.read_bytes()).split(b"\n")[0])
    assert first["part"] == "header"
    assert first["format"] == "pgdyno.capture/1"


def test_a_cut_or_changed_file_is_refused(tmp_path: Path) -> None:
    path, whole = tmp_path / "core.capture", file.encoded(tpcb_capture())
    for content in (whole[: len(whole) // 2], whole[:-1], whole[:200] + b"x" + whole[201:], b"a"):
        path.write_bytes(content)
        with pytest.raises(SpecError, match="is not a whole capture"):
            file.read(path)


def test_a_file_without_its_last_lines_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "core.capture"
    lines = zstd.decompress(file.encoded(tpcb_capture())).splitlines(keepends=True)
    path.write_bytes(zstd.compress(b"".join(lines[:-3])))
    with pytest.raises(SpecError, match="lines at its end are missing"):
        file.read(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"statement": "000000000000"}, "a statement that is not in the file"),
        ({"parameters": (Taken(statement="0", column=0),)}, "a statement that is not in the file"),
        ({"parameters": (Equal(step=99, parameter=0),)}, "a step that it does not have"),
        ({"turns": Number(step=-1)}, "a step that it does not have"),
    ],
)
def test_a_transaction_that_uses_what_is_not_there_is_refused(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    capture = tpcb_capture()
    template = capture.templates[0]
    steps = (template.steps[0].model_copy(update=changes), *template.steps[1:])
    changed = (template.model_copy(update={"steps": steps}), *capture.templates[1:])
    path = tmp_path / "a.capture"
    path.write_bytes(file.encoded(capture.model_copy(update={"templates": changed})))
    with pytest.raises(SpecError, match=words):
        file.read(path)


def test_a_newer_format_is_refused_and_newer_parts_are_ignored(tmp_path: Path) -> None:
    lines = [json.loads(x) for x in zstd.decompress(file.encoded(shop_capture())).splitlines()]
    newer = {**lines[0], "format": "pgdyno.capture/2"}
    with pytest.raises(SpecError, match=r"has format pgdyno\.capture/2; this pgdyno reads up to"):
        file.read(written(tmp_path / "newer", newer, *lines[1:]))
    lines[-1]["lines"] += 1
    with_more = [{**lines[0], "mood": "new"}, *lines[1:-1], {"part": "moods"}, lines[-1]]
    assert file.read(written(tmp_path / "more", *with_more)) == shop_capture()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([{"part": "header", "format": "other/1"}], "does not name the format"),
        ([["a"]], "line 1 is not a part of a capture"),
        ([header().model_dump(mode="json") | {"part": "header", "seconds": "x"}], "seconds"),
    ],
)
def test_lines_that_are_not_a_capture_are_refused(
    tmp_path: Path, lines: list[object], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        file.read(written(tmp_path / "a", *lines, {"part": "end", "lines": len(lines)}))


def test_text_that_is_not_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(zstd.compress(b"hello\n"))
    with pytest.raises(SpecError, match="line 1 is not JSON"):
        file.read(tmp_path / "a")


def test_a_file_that_decompresses_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(
        zstd.compress(header().model_dump_json().replace("{", '{"part":"header",', 1).encode() * 10)
    )
    monkeypatch.setattr(file, "TEXT_MAX_BYTES", 1000)
    with pytest.raises(SpecError, match="more than"):
        file.read(tmp_path / "a")


def test_every_reason_of_the_hand_made_captures_is_known() -> None:
    assert {item.reason for item in tpcb_capture().left_out} <= set(REASONS)


def test_a_line_that_unpacks_to_more_than_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.capture"
    path.write_bytes(file.zstd.compress(b"0" * (file.LINE_MAX_BYTES + 2)))
    assert path.stat().st_size < 100_000
    with pytest.raises(SpecError, match="a line has more than"):
        file.read(path)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("tables", {"rows": 1e18}),
        ("tables", {"bytes": -5}),
        ("tables", {"rows": "many"}),
        ("columns", {"distribution": {"kind": "text", "width": 1e12}}),
        ("columns", {"distribution": {"kind": "integer", "distinct": float("inf")}}),
        ("columns", {"distribution": {"kind": "array", "length": {"most": 1e18}}}),
        ("columns", {"column": ["a"]}),
    ],
)
def test_numbers_that_no_table_has_are_refused(
    part: str, change: dict[str, Any], tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in file._lines(tpcb_capture())]
    changed = next(row for row in rows if row["part"] == part)
    changed |= change
    path = tmp_path / "edited.capture"
    path.write_bytes(zstd.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows)))
    with pytest.raises(SpecError, match="whole capture"):
        file.read(path)


def test_a_line_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    rows = list(file._lines(tpcb_capture()))
    rows.insert(1, b'{"part": "columns", "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
    path = tmp_path / "deep.capture"
    path.write_bytes(zstd.compress(b"".join(rows)))
    with pytest.raises(SpecError):
        file.read(path)
