"""Published rules against values worked out by hand from their formulas."""

from __future__ import annotations

from pgdyno.settings.formula import Machine
from pgdyno.settings.objection import object_to
from pgdyno.settings.published import RULES, readable, recommend, rule_set
from pgdyno.settings.rule import MAJORS

GB = 1 << 30


def values(rules: str, machine: Machine) -> dict[str, str | None]:
    return {
        name: recommended.text for name, recommended in recommend(rule_set(rules), machine).items()
    }


def test_pgtune_for_16_cores_and_64_gb_under_oltp() -> None:
    machine = Machine(15, 300, ram_bytes=64 * GB, cores=16, disk="ssd", load="oltp")
    recommended = values("pgtune", machine)
    # (64 - 16) GB / ((300 + 16) x 3) = 53,092 kB
    expected = {
        "shared_buffers": "16GB",
        "effective_cache_size": "48GB",
        "maintenance_work_mem": "4GB",
        "autovacuum_work_mem": "2GB",
        "huge_pages": "try",
        "min_wal_size": "2GB",
        "max_wal_size": "8GB",
        "wal_buffers": "16MB",
        "random_page_cost": "1.1",
        "effective_io_concurrency": "200",
        "max_parallel_workers_per_gather": "4",
        "work_mem": "53092kB",
        "jit": "off",
        "wal_compression": "lz4",
        "autovacuum_max_workers": "4",
    }
    assert {name: recommended[name] for name in expected} == expected
    assert "io_method" not in recommended
    assert "wal_level" not in recommended


def test_pgtune_for_a_warehouse_on_rotating_disks() -> None:
    machine = Machine(18, 40, ram_bytes=8 * GB, cores=4, disk="hdd", load="dw")
    recommended = values("pgtune", machine)
    # (8 - 2) GB / ((40 + 4) x 3) / 2 = 23,831 kB
    expected = {
        "maintenance_work_mem": "1GB",
        "default_statistics_target": "500",
        "random_page_cost": "4",
        "max_parallel_workers_per_gather": "2",
        "work_mem": "23831kB",
        "jit": "on",
        "io_workers": "3",
    }
    assert {name: recommended[name] for name in expected} == expected


def test_a_database_that_fits_into_memory_gets_more_work_mem() -> None:
    small = Machine(
        15, 100, ram_bytes=16 * GB, cores=2, disk="hdd", load="web", database_bytes=2 * GB
    )
    recommended = values("pgtune", small)
    # (16 - 4) GB / ((100 + 8) x 3) x 1.3 = 50,486 kB
    assert recommended["work_mem"] == "50486kB"
    assert recommended["random_page_cost"] == "1.1"


def test_timescaledb_tune_for_16_gb_and_8_cores() -> None:
    machine = Machine(15, 100, ram_bytes=16 * GB, cores=8, wal_disk_bytes=100 * GB)
    recommended = values("timescaledb_tune", machine)
    expected = {
        "shared_buffers": "4GB",
        "effective_cache_size": "12GB",
        "maintenance_work_mem": "2047MB",
        "work_mem": "16MB",  # 16 x 400 MB / 100 / 4
        "max_wal_size": "60GB",
        "max_worker_processes": "27",
        "max_parallel_workers_per_gather": "4",
    }
    assert {name: recommended[name] for name in expected} == expected


def test_the_server_accepts_what_the_rules_say_on_every_version() -> None:
    for major in MAJORS:
        for rules in RULES:
            machine = Machine(major, 200, ram_bytes=28 * GB, cores=16, disk="nvme")
            for name, value in values(rules, machine).items():
                assert value is not None
                assert object_to(name, value, major) is None, (major, name, value)


def test_without_facts_the_rule_says_which_one_it_needs() -> None:
    recommended = recommend(rule_set("pgtune"), Machine(15, 100))
    assert (recommended["shared_buffers"].text, recommended["shared_buffers"].lacks) == (
        None,
        "ram",
    )
    assert recommended["work_mem"].lacks == "ram"
    assert recommended["checkpoint_completion_target"].text == "0.9"


def test_a_formula_is_shown_with_its_choices_made() -> None:
    machine = Machine(15, 100, ram_bytes=8 * GB, cores=8, load="oltp")
    formula = rule_set("pgtune").formulas["work_mem"]
    assert readable(formula, machine) == (
        "max(4 MB, (ram - shared_buffers) / ((connections + max_worker_processes) x 3))"
    )
