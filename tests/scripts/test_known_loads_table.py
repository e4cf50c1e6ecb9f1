"""The table of known loads in docs/method.md, from the runs that make prove keeps."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = {
    "load": "slow statements",
    "version": "15",
    "source": "a clock",
    "part": "in the server",
    "truth_ms": 40.0,
    "found_ms": 41.0,
    "latency_ms": 50.0,
    "doubts": ["too_short"],
}


def test_the_table_has_a_row_for_each_part_and_replaces_the_last_one(tmp_path: Path) -> None:
    runs, method = tmp_path / "runs.jsonl", tmp_path / "method.md"
    other = {**ROW, "version": "18", "truth_ms": 20.0, "found_ms": 24.0}
    without_split = {**ROW, "part": "", "doubts": []}
    doubted = {**ROW, "found_ms": 99.0, "doubts": ["not_explained"]}
    rows = (ROW, other, without_split, doubted)
    runs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    begin, end = "<!-- known loads: begin -->", "<!-- known loads: end -->"
    method.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    for _ in range(2):
        script = ROOT / "scripts" / "known-loads-table"
        subprocess.run([script, runs, method], cwd=ROOT, check=True, timeout=60)
        first, *table, last = method.read_text().splitlines()
        assert (first, last) == ("before", "after")
        assert (table[0], table[-1], len(table)) == (begin, end, 7)
        cells = [cell.strip() for cell in table[3].strip("|").split("|")]
        assert cells[:3] == ["slow statements", "in the server", "a clock"]
        assert cells[3:] == ["40 / 41", "20 / 24", "+5.0 % in 2 runs"]
