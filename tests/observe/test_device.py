"""What hardware tells of itself, on hand-made machines: temperature, frequency, energy, wear."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.ssh import shell_like
from tests.observe.contract import CollectorContract
from tests.observe.machines import BIG_MACHINE, machine

from pgdyno.observe.collector import Collector, NotMeasurable
from pgdyno.observe.device import health
from pgdyno.observe.device.health import (
    HealthUnknown,
    parse_nvme,
    parse_smartctl,
    read_health,
    slowed_by_heat,
)
from pgdyno.observe.device.power import EnergyCollector, FrequencyCollector
from pgdyno.observe.device.temperature import TemperatureCollector
from pgdyno.observe.host import memory, network
from pgdyno.observe.host.files import LocalFiles, ReceivedFiles
from pgdyno.observe.processes.proc_files import PAGE_BYTES
from pgdyno.observe.remote.host_session import shell_command
from pgdyno.observe.remote.processes import read_health_afar

NOTHING = ReceivedFiles()


class TestTemperature(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return TemperatureCollector(machine())

    def test_disks_are_named_and_limits_are_the_makers(self, collector: Collector) -> None:
        rows = {(row["place"], row["sensor"]): row for row in collector.sample(0)}
        assert rows["nvme0n1", "Composite"] == {
            "chip": "nvme",
            "place": "nvme0n1",
            "sensor": "Composite",
            "temperature_celsius": 41.85,
            "high_celsius": 79.85,
            "critical_celsius": 84.85,
        }
        assert rows["nvme0n1", "Sensor 1"]["high_celsius"] is None
        assert rows["hwmon1", "Package id 0"]["temperature_celsius"] == -1.0
        assert rows["sdb", "temp1"]["temperature_celsius"] == 33.0

    def test_a_sensor_that_does_not_answer_has_no_row(self, collector: Collector) -> None:
        assert "hwmon2" not in {row["place"] for row in collector.sample(0)}


class TestFrequency(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return FrequencyCollector(machine())

    def test_cores_are_summed_up_and_a_processor_is_counted_once(
        self, collector: Collector
    ) -> None:
        assert collector.sample(0) == [
            {
                "mean_hz": 2_300_000_000,
                "lowest_hz": 1_200_000_000,
                "highest_hz": 3_400_000_000,
                "core_throttles": 7,
                "package_throttles": 9,
            }
        ]


class TestEnergy(CollectorContract):
    @pytest.fixture
    def collector(self) -> Collector:
        return EnergyCollector(machine())

    def test_energy_is_added_up_also_when_the_counter_begins_again(self) -> None:
        files = machine()
        collector = EnergyCollector(files)
        assert {row["energy_uj"] for row in collector.sample(0)} == {0}
        files.by_path["/sys/class/powercap/intel-rapl:0/energy_uj"] = "1500000\n"
        files.by_path["/sys/class/powercap/intel-rapl:1/energy_uj"] = "150\n"
        assert {row["domain"]: row["energy_uj"] for row in collector.sample(1)} == {
            "package-0": 500_000,
            "package-0/dram": 0,
            "package-1": 1000,
        }

    def test_a_counter_whose_range_is_not_told_began_again_at_0(self) -> None:
        zone = "/sys/class/powercap/intel-rapl:1"
        files = machine({f"{zone}/max_energy_range_uj": None})
        collector = EnergyCollector(files)
        collector.sample(0)
        files.by_path[f"{zone}/energy_uj"] = "150\n"
        assert {row["domain"]: row["energy_uj"] for row in collector.sample(1)}["package-1"] == 150

    def test_a_note_names_a_counter_that_only_root_may_read(self) -> None:
        names = [path for path in BIG_MACHINE if path.endswith("energy_uj")]
        files = machine(dict.fromkeys(names))
        with pytest.raises(NotMeasurable, match="Only root may read"):
            EnergyCollector(files).sample(0)


@pytest.mark.parametrize(
    ("collector", "why"),
    [
        (TemperatureCollector(NOTHING), "no sensor"),
        (FrequencyCollector(NOTHING), "no cpufreq"),
        (EnergyCollector(NOTHING), "no RAPL"),
    ],
)
def test_a_notice_names_facts_that_a_virtual_machine_hides(collector: Collector, why: str) -> None:
    with pytest.raises(NotMeasurable, match=why):
        collector.sample(0)


def test_received_and_read_files_match_patterns_alike(tmp_path: Path) -> None:
    for path, text in BIG_MACHINE.items():
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    read, received = LocalFiles(tmp_path), machine()
    for pattern in ("/sys/class/hwmon/hwmon*/name", "/sys/class/*", "/sys/class/powercap/*:*/name"):
        assert read.matching(pattern) == received.matching(pattern) != []
    for path in ("/sys/class/hwmon", "/sys/class/hwmon/hwmon0/name", "/sys/nowhere"):
        assert read.exists(path) == received.exists(path)


# As nvme-cli 2.x prints it: 16-byte counters as numbers or as text.
SMART: dict[str, Any] = {
    "critical_warning": 0,
    "temperature": 315,
    "avail_spare": 100,
    "percent_used": 3,
    "data_units_read": "41003299",
    "data_units_written": 20000000,
    "media_errors": 0,
    "unsafe_shutdowns": 12,
    "warning_temp_time": 0,
    "critical_comp_time": 0,
    "thm_temp1_trans_count": 4,
    "thm_temp2_trans_count": 1,
    "thm_temp1_total_time": 30,
    "thm_temp2_total_time": 2,
}


def test_the_wear_of_a_disk_is_read_in_bytes_and_degrees() -> None:
    wear = parse_nvme(SMART)
    assert (wear.used_percent, wear.available_spare_percent) == (3, 100)
    assert wear.temperature_celsius == 42
    assert wear.read_bytes == 41_003_299 * 512_000
    assert (wear.slowed_count, wear.slowed_seconds) == (5, 32)


def test_smartctl_gives_all_facts_except_throttling_by_heat() -> None:
    log = {"percentage_used": 3, "available_spare": 100, "temperature": 42, "media_errors": 0}
    wear = parse_smartctl({"nvme_smart_health_information_log": log})
    assert (wear.used_percent, wear.temperature_celsius) == (3, 42)
    assert wear.slowed_count is None
    with pytest.raises(HealthUnknown, match="nothing"):
        parse_smartctl({"smartctl": {}})


@pytest.mark.parametrize(
    ("grown", "slowed"),
    [({}, False), ({"thm_temp2_trans_count": 2}, True), ({"warning_temp_time": 1}, True)],
)
def test_a_disk_that_slowed_itself_between_two_readings_is_noticed(
    grown: dict[str, int], slowed: bool
) -> None:
    assert slowed_by_heat(parse_nvme(SMART), parse_nvme(SMART | grown)) is slowed


@pytest.mark.parametrize("tool", ["nvme", "smartctl", "silent nvme", "nothing"])
def test_another_hosts_disk_is_asked_through_the_program_that_is_there(
    tool: str, tmp_path: Path
) -> None:
    log = {"smartctl": {}, "nvme_smart_health_information_log": {"percentage_used": 3}}
    said = {"nvme": json.dumps(SMART, indent=2), "smartctl": json.dumps(log), "silent nvme": ""}
    if tool in said:
        program = tmp_path / tool.split()[-1]
        program.write_text(f"#!/bin/sh\ncat <<'E'\n{said[tool]}\nE\n")
        program.chmod(0o755)
    (tmp_path / "nvme0n1").mkdir()
    sed = f"exec sed -u -e 's,/sys/block/nvme\\*n\\*,{tmp_path}/nvme*n*,'"
    sed += " -e 's/command -v nvme || command -v smartctl/:/'" if tool == "nothing" else ""
    command = shell_like(tmp_path, f"PATH={tmp_path}:$PATH; export PATH; {sed} | exec /bin/sh")
    wear = read_health_afar(shell_command(command), ("nvme0n1", "sda"))
    disk = wear["nvme0n1"]
    if isinstance(disk, str):
        why = {"silent nvme": "need root", "nothing": "neither nvme nor smartctl is installed"}
        assert why[tool] in disk
    else:
        assert disk.used_percent == 3
    assert "not an NVMe disk" in str(wear["sda"])


def test_a_host_that_does_not_answer_has_no_facts_about_disks() -> None:
    wear = read_health_afar(("/nowhere/ssh", "sh"), ("nvme0n1",))
    assert "cannot be started" in str(wear["nvme0n1"])


def test_a_disk_is_asked_through_the_program_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvme"
    program.write_text(f"#!/bin/sh\ncat <<'E'\n{json.dumps(SMART)}\nE\n")
    program.chmod(0o755)
    monkeypatch.setattr(health.shutil, "which", {"nvme": str(program)}.get)
    assert read_health("nvme0n1").used_percent == 3
    program.write_text("#!/bin/sh\necho 'open failed: Permission denied' >&2\nexit 13\n")
    with pytest.raises(HealthUnknown, match="Permission denied"):
        read_health("nvme0n1")


def test_the_reason_for_unknown_wear_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.shutil, "which", lambda _: None)
    with pytest.raises(HealthUnknown, match="neither nvme nor smartctl"):
        read_health("nvme0n1")
    with pytest.raises(HealthUnknown, match="not an NVMe disk"):
        read_health("sda")


def test_paging_is_in_bytes_and_missing_counters_stay_unknown() -> None:
    row = memory.parse_paging(
        "pgpgin 10\npgpgout 20\npswpin 3\npgmajfault 4\npgscan_direct 5\nx y\n"
    )
    assert (row["paged_in_bytes"], row["paged_out_bytes"]) == (10_240, 20_480)
    assert (row["swapped_in_bytes"], row["major_faults"]) == (3 * PAGE_BYTES, 4)
    assert (row["scanned_pages"], row["oom_kills"]) == (5, None)


def test_tcp_is_read_from_both_files_by_name() -> None:
    snmp = "Ip: A\nIp: 1\nTcp: MaxConn CurrEstab OutSegs RetransSegs\nTcp: -1 7 1000 12\n"
    netstat = "TcpExt: ListenOverflows TCPTimeouts\nTcpExt: 3 4\nIpExt: X\nIpExt: 9\n"
    row = network.parse_tcp(snmp, netstat)
    assert (row["established"], row["sent_segments"], row["retransmits"]) == (7, 1000, 12)
    assert (row["listen_overflows"], row["timeouts"]) == (3, 4)
    assert row["lost_retransmits"] is None
    assert network.parse_tcp(snmp, "")["timeouts"] is None
