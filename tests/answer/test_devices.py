"""What the devices of each variant did, from samples made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.answer.test_time_split_gate import LENGTH_S, SECOND_NS, TRANSACTIONS, numbers
from tests.report.compare_examples import compared

from pgdyno.analysis.devices import DeviceFindings, DevicesOfRuns, device_findings
from pgdyno.answer.devices import QUANTITIES, devices_of_runs
from pgdyno.designs import blocks_of, page_of, words_of
from pgdyno.loop.journal import Visit
from pgdyno.observe.catalogue import columns_of
from pgdyno.observe.collector import Notice, NoticeKind
from pgdyno.report.compare_documents import compare_body
from pgdyno.report.markdown import answer_markdown
from pgdyno.spec.planned import Cell, PlannedRun
from pgdyno.store.experiment import Store
from pgdyno.store.run_writer import RunWriter

FAST, SLOW = "nvme0n1", "sda"
# In each second: 100 reads of 8 kB that take 2 ms, 50 writes of 16 kB of 4 ms, 10 flushes of 6 ms.
A_SECOND = {
    "reads": 100,
    "read_bytes": 100 * 8_000,
    "read_time_ns": 100 * 2_000_000,
    "writes": 50,
    "write_bytes": 50 * 16_000,
    "write_time_ns": 50 * 4_000_000,
    "flushes": 10,
    "flush_time_ns": 10 * 6_000_000,
    "queue_time_ns": SECOND_NS // 2,
}
NO_TEMPERATURE = "No temperature can be read here: the kernel shows no sensor."
NO_ENERGY = "Only root may read the energy counters here (/sys/class/powercap/intel-rapl)."


def add(writer: RunWriter, collector: str, a_second: dict[str, float], **keys: str) -> None:
    """Add samples once a second, from one second before the measured phase to one after it."""
    natures = {column.name: column.nature for column in columns_of(collector)}
    empty: dict[str, Any] = {
        column.name: "" if column.dtype == "text" else 0 for column in columns_of(collector)
    }
    for second in range(-1, LENGTH_S + 2):
        grown = {
            name: (second + 1) * value if natures[name] == "counter" else value
            for name, value in a_second.items()
        }
        stamp = {"time_ns": second * SECOND_NS, "interval_ns": SECOND_NS if second >= 0 else 0}
        writer.add_samples(collector, [{**empty, **keys, **grown, **stamp}])


def place(device: str, *disks: str) -> dict[str, Any]:
    return {"device": device, "disks": list(disks), "file_system": "ext4"}


def measured(
    tmp_path: Path,
    server: dict[str, Any],
    *,
    busy: str = FAST,
    sensors: bool = True,
    factor: float = 1,
) -> DevicesOfRuns:
    """Return one run on a host with two disks, one of which is busy."""
    folder = Store(tmp_path).create("devices", "compare")
    with folder.begin_run(1, "run", {}) as writer:
        for disk in (FAST, SLOW):
            of_disk = {name: int(factor * value) for name, value in A_SECOND.items()}
            idle = dict.fromkeys(A_SECOND, 0)
            add(writer, "disk", of_disk if disk == busy else {**idle, "reads": 1}, device=disk)
        add(writer, "wal", {"position_bytes": 3_000_000})
        add(writer, "checkpointer", {"buffers_checkpoint": 20, "buffers_backend": 5})
        if sensors:
            for chip, sensor, celsius in (("nvme", FAST, 61.5), ("coretemp", "hwmon1", 70.0)):
                add(
                    writer, "temperature", {"temperature_celsius": celsius}, chip=chip, place=sensor
                )
            add(writer, "energy", {"energy_uj": 45_000_000}, domain="package-0")
        else:
            for source, words in (("temperature", NO_TEMPERATURE), ("energy", NO_ENERGY)):
                notice = Notice(0, NoticeKind.NOT_MEASURABLE, words, "", source)
                writer.add_notice(notice.as_record())
        writer.add_record({"record": "summary", "began_ns": 0, "ended_ns": LENGTH_S * SECOND_NS})
        writer.finish()
    planned = PlannedRun(1, "round", 1, Cell((0,), 4), 0, LENGTH_S * SECOND_NS, seed=1)
    return devices_of_runs(busy, [Visit(planned, folder.runs()[0], 0)], {1: numbers()}, server)


def test_every_quantity_is_what_the_samples_say(tmp_path: Path) -> None:
    of_runs = measured(tmp_path, {"data_storage": place("nvme0n1p2", FAST)})
    assert dict(of_runs.places) == {"data": FAST}
    assert of_runs.missing == []
    [values] = of_runs.by_run
    assert dict(values) == pytest.approx(
        {
            "data_requests": 150,
            "data_reads": 100,
            "data_writes": 50,
            "data_flushes": 10,
            "data_read": 0.8,
            "data_written": 0.8,
            "data_read_time": 2,
            "data_write_time": 4,
            "data_flush_time": 6,
            "data_queue": 0.5,
            "data_temperature": 61.5,
            "wal_generated": 3,
            "checkpoints": 0,
            "checkpoint_pages": 20,
            "cleaner_pages": 0,
            "backend_pages": 5,
            "processor_temperature": 70,
            "power": 45,
            "energy": 45_000 * LENGTH_S / TRANSACTIONS,
        }
    )


@pytest.mark.parametrize(
    ("data", "disk"),
    [
        (place(SLOW, SLOW), SLOW),
        (place("sda1", SLOW), SLOW),
        (place("dm-0", FAST, SLOW), ""),
        (place("tmpfs"), ""),
        ({}, FAST),
    ],
)
def test_the_disk_is_that_of_the_data_and_not_the_busiest_one_of_the_host(
    tmp_path: Path, data: dict[str, Any], disk: str
) -> None:
    of_runs = measured(tmp_path, {"data_storage": data}, busy=FAST)
    assert of_runs.places.get("data", "") == disk
    [values] = of_runs.by_run
    assert values.get("data_reads") == {SLOW: 1, FAST: 100}.get(disk)
    if not disk:
        said = f"The kernel counts no requests of {data['device']}, where the data are."
        assert said in of_runs.missing


def test_a_separate_disk_of_the_wal_has_separate_rows(tmp_path: Path) -> None:
    server = {"data_storage": place(SLOW, SLOW), "wal_storage": place("nvme0n1p1", FAST)}
    of_runs = measured(tmp_path, server)
    assert dict(of_runs.places) == {"data": SLOW, "wal": FAST}
    assert of_runs.by_run[0]["wal_flush_time"] == pytest.approx(6)
    assert "data_flush_time" not in of_runs.by_run[0]


def two_disks(tmp_path: Path, *, sensors: bool) -> DeviceFindings:
    """Return two variants with two runs each; the second one has three times the traffic."""
    variants = []
    for disk, factors in ((SLOW, (1.0, 1.1)), (FAST, (3.0, 3.3))):
        runs = [
            measured(
                tmp_path / f"{disk}{factor}",
                {"data_storage": place(disk, disk)},
                busy=disk,
                sensors=sensors,
                factor=factor,
            )
            for factor in factors
        ]
        by_run = [values for run in runs for values in run.by_run]
        missing = [words for run in runs for words in run.missing]
        name = {SLOW: "128MB", FAST: "4GB"}[disk]
        variants.append(DevicesOfRuns(name, runs[0].places, by_run, missing))
    findings = device_findings(variants, QUANTITIES)
    assert findings is not None
    return findings


def test_the_table_has_a_column_a_variant_in_text_page_markdown_and_json(tmp_path: Path) -> None:
    findings = compared()
    assert findings.compare is not None
    devices = two_disks(tmp_path, sensors=True)
    shown = replace(findings, compare=replace(findings.compare, devices=devices))
    text = words_of(shown)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "what the devices did" in lines
    assert "128MB, 2 runs 4GB, 2 runs" in lines
    assert "data disk sda nvme0n1" in lines
    [requests] = [line for line in lines if "reads and writes, requests/s" in line]
    assert "160 (90 to 290) 470 (260 to 870)" in requests
    markdown = answer_markdown(blocks_of(shown), stem="x")
    assert "| data disk | sda | nvme0n1 |" in markdown
    page = page_of(shown)
    assert 'href="#devices"' in page
    assert ">processors: power, W</td>" in page
    slow, fast, bad = compare_body(shown)["variants"]
    assert (slow["devices"]["data_disk"], fast["devices"]["data_disk"]) == (SLOW, FAST)
    assert fast["devices"]["data_requests"]["value"] == pytest.approx(472.5)
    assert fast["devices"]["data_requests"]["unit"] == "requests/s"
    assert fast["devices"]["power"]["n"] == 2
    assert bad["devices"] is None
    assert compare_body(shown)["devices_not_measured"] == [
        f"128MB: No sensor shows the temperature of {SLOW}."
    ]


def test_a_missing_measurement_of_a_host_is_named_once_with_its_reason(tmp_path: Path) -> None:
    findings = compared()
    assert findings.compare is not None
    devices = two_disks(tmp_path, sensors=False)
    assert devices.not_measured == (NO_TEMPERATURE, NO_ENERGY)
    shown = replace(findings, compare=replace(findings.compare, devices=devices))
    text = " ".join(words_of(shown).split())
    assert f"Not measured: {NO_TEMPERATURE} {NO_ENERGY}" in text
    assert "highest temperature" not in text
    assert "power, W" not in text


def test_two_folders_of_one_disk_are_named_as_such(tmp_path: Path) -> None:
    findings = compared()
    assert findings.compare is not None
    said = "All variants have their data on sda: this compares folders of one disk."
    values = {"data_reads": 1.0}
    for changed, is_said in (("data_dir", True), ("shared_buffers", False)):
        variants = tuple(
            replace(variant, changes=((changed, variant.name),))
            for variant in findings.compare.variants
        )
        devices = device_findings(
            [DevicesOfRuns(name, {"data": SLOW}, [values], []) for name in ("128MB", "4GB")],
            QUANTITIES,
        )
        shown = replace(findings.compare, variants=variants, devices=devices)
        text = " ".join(words_of(replace(findings, compare=shown)).split())
        assert (said in text) is is_said


def test_a_run_without_telemetry_has_no_table_of_devices(tmp_path: Path) -> None:
    assert device_findings([DevicesOfRuns("a", {}, [{}], [NO_ENERGY])], QUANTITIES) is None
    findings = compared()
    assert "what the devices did" not in words_of(findings)
    assert 'href="#devices"' not in page_of(findings)
    assert compare_body(findings)["variants"][0]["devices"] is None
