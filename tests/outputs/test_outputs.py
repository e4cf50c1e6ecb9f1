"""What is shown of a result does not change unless somebody wants it to.

After a wanted change, `.venv/bin/python -m tests.outputs.rendered` writes the snapshots again.
Commit such a change separately.
"""

from __future__ import annotations

import re

from tests.outputs.rendered import (
    BUILT,
    SNAPSHOTS,
    all_outputs,
    comparable,
    snapshots_of,
)

from pgdyno.designs import DESIGNS

RENEW = ".venv/bin/python -m tests.outputs.rendered"


# Not numbers that were measured: what draws a picture; then versions, addresses, kernels.
MARKUP = re.compile(r"<(style|script|svg)\b.*?</\1>|<[^>]+>", re.DOTALL)
NAMES = re.compile(r"PostgreSQL[\s|]+[\d.]+|\d+(\.\d+){2,}|load [\d.]+ on")
FRACTION = re.compile(r"(?<![\w.,])(\d[\d,]*\.\d+)(?![\w.])")


def long_numbers(content: str) -> list[str]:
    """Return the numbers with a fraction and more than three digits; an end may have one more."""
    text = NAMES.sub(" ", MARKUP.sub(" ", content))
    long = []
    for match in FRACTION.finditer(text):
        digits = match[1].replace(",", "").replace(".", "").lstrip("0")
        is_end = text[: match.start()].rstrip().endswith(" to")
        if len(digits) > 3 + is_end:
            long.append(match[1])
    return long


def hashes_in(sums: str) -> dict[str, str]:
    """Return name -> hash of a list of hashes."""
    return {name: sha for sha, name in (line.split("  ", 1) for line in sums.splitlines())}


def test_every_form_of_every_result_is_as_it_was() -> None:
    now = snapshots_of(all_outputs())
    kept = {path.name: path.read_text(encoding="utf-8") for path in SNAPSHOTS.iterdir()}
    sums, sums_kept = (hashes_in(some.pop("SHA256SUMS")) for some in (now, kept))
    changed = sorted(
        name
        for before, after in ((kept, now), (sums_kept, sums))
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    )
    assert not changed, f"if each change is wanted: {RENEW}"


def test_no_measured_number_has_more_than_three_digits_and_a_fraction() -> None:
    texts = {name: text for name, text in all_outputs().items() if not name.endswith(".json")}
    long = {name: long_numbers(text) for name, text in texts.items()}
    assert {name: numbers for name, numbers in long.items() if numbers} == {}


def test_every_design_is_kept_in_each_form() -> None:
    built = {make().kind for make in BUILT.values()}
    assert built | {"factorial"} == DESIGNS.keys()
    hashed = hashes_in((SNAPSHOTS / "SHA256SUMS").read_text(encoding="utf-8"))
    names = {path.stem for path in SNAPSHOTS.glob("*.txt")}
    assert {*(f"built-{design}" for design in ("bench", "tune")), "stored-factorial"} <= names
    for name in names:
        forms = (".html", ".json") if name.endswith("watch") else (".html", ".json", ".md")
        assert {name + form for form in forms} <= hashed.keys()


def test_the_last_digits_of_a_number_are_not_compared() -> None:
    assert comparable("1.00000000001 ms") == comparable("1.00000000002 ms")
    assert comparable("1.001 ms") != comparable("1.002 ms")
    assert comparable("version 1.2.3456789") == "version 1.2.3456789"
