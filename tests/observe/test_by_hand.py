"""Files made by hand are laid on the axis: the collector's own print, and CSV."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.observe.contract import CollectorContract

from pgdyno.errors import SpecError
from pgdyno.observe.collector import Collector
from pgdyno.observe.remote.by_hand import (
    Laid,
    OutsideCollector,
    facts_by_hand,
    read_by_hand,
)
from pgdyno.observe.remote.host_session import collector_script


class TestOutside(CollectorContract):
    gives_rows = False

    @pytest.fixture
    def collector(self) -> Collector:
        return OutsideCollector()


def laid(tmp_path: Path, text: str, *, ahead_ns: int = 0) -> list[Laid]:
    path = tmp_path / "host.txt"
    path.write_text(text)
    return list(read_by_hand(path, ahead_ns=ahead_ns))


def test_the_script_run_by_hand_gives_the_tables_of_its_host(tmp_path: Path) -> None:
    script = tmp_path / "collector.sh"
    script.write_text(collector_script())
    done = subprocess.run(
        ["sh", str(script), "0.01", "3"], capture_output=True, check=True, text=True
    )
    samples = laid(tmp_path, done.stdout, ahead_ns=5_000_000_000)
    times = sorted({laid_rows.time_ns for laid_rows in samples})
    assert len(times) == 3
    assert {"cpu", "memory", "disk", "tcp"} <= {laid_rows.collector for laid_rows in samples}
    headers = [line.split() for line in done.stdout.splitlines() if line.startswith("@sample")]
    told = [int(time) for _, what, time in headers if what != "health"]
    assert times == [time_ns - 5_000_000_000 for time_ns in told]


def test_a_sample_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    text = "@ready 1 100 4096 db\n@sample fast 1000000000000000000\n/proc/loadavg:1 2 3\n"
    assert laid(tmp_path, text) == []


def test_the_wear_of_disks_is_kept_with_the_facts_that_follow(tmp_path: Path) -> None:
    text = "@ready 1 100 4096 db\n@sample health 1\n/health/nvme0n1:\n/health/nvme0n1:{}\n@end\n"
    text += "@sample facts 2\n/proc/loadavg:1 2 3\n@end\n"
    assert laid(tmp_path, text) == []
    [(time_ns, files)] = facts_by_hand(tmp_path / "host.txt")
    assert time_ns == 2
    assert files.by_path == {"/health/nvme0n1": "\n{}\n", "/proc/loadavg": "1 2 3\n"}


@pytest.mark.parametrize(
    "time",
    ["1790000000.5", "1790000000500", "1790000000500000000", "2026-09-21T14:13:20.5",
     "2026-09-21T16:13:20.5+02:00", "2026-09-21T14:13:20.500Z"],
)  # fmt: skip
def test_times_are_taken_as_monitoring_systems_give_them(tmp_path: Path, time: str) -> None:
    [laid_rows] = laid(tmp_path, f"Time, Name, Value, Unit\n{time},CPUUtilization,41.5,%\n")
    assert laid_rows == Laid(
        "outside",
        1_790_000_000_500_000_000,
        [{"name": "CPUUtilization", "unit": "%", "value": 41.5}],
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hello\n", "line 1 is neither"),
        ("time,name,value,unit\n1790000000,cpu,many,%\n", "line 2: time and value are needed"),
        ("time,name,value,unit\nyesterday,cpu,1,%\n", "got 'yesterday'"),
    ],
)
def test_a_file_that_is_neither_is_refused_with_its_line(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(SpecError, match=why):
        laid(tmp_path, text)


def test_an_error_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        list(read_by_hand(tmp_path / "nothing"))
