"""A matrix on a real server: one factor compared at every level of the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fixtures.command import Command

SPEC = """
[experiment]
name = "commit by clients"
[server]
scratch = {{ version = "{version}", allow_tmpfs = true }}
[dataset]
scale = 1
[workload]
scripts = [{{ builtin = "tpcb-like" }}]
duration = "1s"
warmup = "0s"
[design]
kind = "matrix"
rounds = 3
[[design.factors]]
name = "clients"
levels = [{{ name = "1 client", clients = 1 }}, {{ name = "4 clients", clients = 4 }}]
[[design.factors]]
name = "commit"
levels = [
  {{ name = "on", settings = {{ synchronous_commit = "on" }} }},
  {{ name = "off", settings = {{ synchronous_commit = "off" }} }},
]
"""


@pytest.mark.pg
@pytest.mark.parametrize("version", ["15", "18"])
def test_a_setting_has_a_ratio_at_each_number_of_clients(
    pgdyno: Command, tmp_path: Path, version: str
) -> None:
    spec = tmp_path / "matrix.toml"
    spec.write_text(SPEC.format(version=version))
    store = ("--store", str(tmp_path / "store"))
    said = pgdyno("run", str(spec), "--json", *store)
    assert said.code in (0, 3, 5), said.err
    variants = {variant["name"]: variant for variant in said.document["variants"]}
    assert "against" not in variants["1 client, on"]
    for load in ("1 client", "4 clients"):
        varied = variants[f"{load}, off"]
        assert varied["against"] == f"{load}, on"
        ratio = varied["ratios"]["tps"]
        assert ratio["low"] < ratio["value"] < ratio["high"]
    assert "against" not in variants["4 clients, on"], "the load is not what is compared"
    text = " ".join(pgdyno("show", "last", *store).out.split())
    if said.code != 3:
        assert "in short " in text
        assert text.count("a crash can lose") == 1
    assert "4 clients, off against 4 clients, on " in text
    assert "cells: tps by clients and commit" in text
    shown = pgdyno("show", "last", *store).out.splitlines()
    rows = {line.strip().split("  ")[0]: line for line in shown if line.startswith("  ")}
    for load in ("1 client", "4 clients"):
        assert len(re.findall(r"\d \([\d,]+ to [\d,]+\)", rows[load])) == 2, rows[load]
    page, markdown = tmp_path / "page.html", tmp_path / "page.md"
    for form in (page, markdown):
        assert pgdyno("report", "last", "-o", str(form), *store).code == 0
        assert "tps by clients and commit" in form.read_text()
    assert text.count("a crash may lose") == 1
