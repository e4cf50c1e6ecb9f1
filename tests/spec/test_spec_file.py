"""A spec file: a right one becomes an experiment, a wrong one gets all errors at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.errors import SpecError
from pgdyno.settings.conf_file import read_conf
from pgdyno.settings.objection import object_to
from pgdyno.settings.rule import MAJORS, snapshot
from pgdyno.spec.experiment import CompareDesign
from pgdyno.spec.file import read_spec, to_toml
from pgdyno.spec.toml_lines import TomlLines
from pgdyno.spec.variant_text import variant_from

GOOD = """
[experiment]
name = "shared_buffers on this disk"
[server]
scratch = { version = "15" }
settings = { max_wal_size = "4GB", jit = false, checkpoint_completion_target = 0.9 }
[dataset]
kind = "pgbench"
scale = 100
[workload]
scripts = [{ builtin = "tpcb-like", weight = 7 }, { builtin = "select-only" }]
clients = 16
duration = "10s"
[[variant]]
name = "128MB"
settings = { shared_buffers = "128MB" }
[[variant]]
name = "4GB"
settings = { shared_buffers = "4GB", max_parallel_workers = 4 }
[design]
kind = "compare"
precision = "3%"
budget = "30min"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "spec.toml"
    path.write_text(text)
    return path


def mistakes(tmp_path: Path, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        read_spec(written(tmp_path, text))
    return caught.value.message


def test_missing_tables_are_named_as_the_file_writes_them(tmp_path: Path) -> None:
    said = mistakes(tmp_path, "[server]\nscratch = {}\n")
    for missing in ("[experiment] name", "[dataset]", "[workload]", "[design]"):
        assert f"{missing} is missing." in said


def test_a_folder_of_a_variant_is_named_with_a_dash_or_an_underscore() -> None:
    assert variant_from("a: data_dir=/x") == variant_from("a: data-dir=/x")


def test_a_spec_file_becomes_the_experiment_it_describes(tmp_path: Path) -> None:
    experiment = read_spec(written(tmp_path, GOOD)).experiment
    assert experiment.name == "shared_buffers on this disk"
    assert [variant.name for variant in experiment.variants] == ["128MB", "4GB"]
    assert experiment.variants[1].settings == {"shared_buffers": "4GB", "max_parallel_workers": "4"}
    assert experiment.server.settings["jit"] == "off"
    assert isinstance(experiment.design, CompareDesign)
    assert experiment.design.precision_ratio == pytest.approx(0.03)


def test_a_spec_survives_writing_and_reading(tmp_path: Path) -> None:
    experiment = read_spec(written(tmp_path, GOOD)).experiment
    assert read_spec(written(tmp_path, to_toml(experiment))).experiment == experiment


def test_a_key_of_another_kind_of_design_names_the_kinds_that_have_it(tmp_path: Path) -> None:
    head, _, _ = GOOD.partition("[[variant]]")
    said = mistakes(tmp_path, f'{head}[design]\nkind = "bench"\nprecision = "3%"\n')
    assert "design.precision: is not a key of this kind: [design] has it if kind is compare" in said


def test_all_mistakes_are_reported_together_with_their_lines(tmp_path: Path) -> None:
    wrong = (
        GOOD.replace("scale = 100", "scale = 0")
        .replace("clients = 16", 'clients = "many"')
        .replace("precision", "precison")
        .replace('shared_buffers = "4GB"', 'shared_bufers = "4GB"')
        .replace('duration = "10s"', 'duration = "10 parsecs"')
    )
    said = mistakes(tmp_path, wrong)
    path = tmp_path / "spec.toml"
    assert f"{path} has 5 mistakes:" in said
    assert f"{path}:9: dataset.scale = 0: must be greater than or equal to 1" in said
    assert f"{path}:12: workload.clients = 'many'" in said
    assert f"{path}:13: workload.duration = '10 parsecs'" in said
    assert f"{path}:19: variant.1.settings.shared_bufers" in said
    assert "did you mean shared_buffers?" in said
    assert f"{path}:22: design.precison: is not a known key: did you mean precision?" in said


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('name = "4GB"', 'name = "128MB"', "variant.1.name = '128MB': an earlier variant has it"),
        ('kind = "compare"', 'kind = "compair"', "must be one of"),
        ('scratch = { version = "15" }', 'dsn = "x"\nscratch = {}', "exactly one of scratch"),
        ('name = "4GB"', 'name = "4GB"\ndsn = "service=x"', "the server is scratch"),
        ("[dataset]", "[datasat]", "did you mean dataset?"),
        ('shared_buffers = "4GB"', 'shared_buffers = "1kB"', "must be from 16 to"),
        ('shared_buffers = "4GB"', 'jit = "perhaps"', "must be on or off"),
        ('shared_buffers = "4GB"', 'wal_level = "some"', "must be one of minimal, replica"),
        ('shared_buffers = "4GB"', 'block_size = "4096"', "cannot be set"),
        ('{ builtin = "select-only" }', '{ file = "no.sql" }', "no.sql cannot be read"),
        ('{ shared_buffers = "128MB" }', '"@no.conf"', "no.conf cannot be read"),
        ("clients = 16", "clients = 16\nclients = 3", "is not TOML"),
        ("clients = 16", "clients = 16\nactive = 50", "50 connections for 16 clients"),
        ("clients = 16", 'clients = 16\nvariables = { 1x = "2" }', "not the name of a variable"),
        ('duration = "10s"', 'duration = "40d"', "at most 31 d"),
        ("clients = 16", "clients = true", "workload: clients must be a number, got true"),
        ("clients = 16", "clients = 1.5", "workload.clients = 1.5: must be a whole number"),
        ("clients = 16", 'clients = "many"', "'many': must be a whole number"),
        (
            'kind = "compare"',
            'kind = "sweep"\nlevels = [1, "x"]',
            "has 2 mistakes:\n  ",
        ),
        (
            'kind = "compare"',
            'kind = "sweep"\nlevels = [1, "x"]',
            "levels.1 = 'x': must be a whole",
        ),
        ("[workload]", "[[workload]]", "workload: must be a table"),
        ('kind = "pgbench"', 'kind = "existing"', "dataset.scale: is not a known key"),
    ],
)
def test_a_mistake_is_refused_with_its_rule(tmp_path: Path, old: str, new: str, rule: str) -> None:
    assert old in GOOD
    assert rule in mistakes(tmp_path, GOOD.replace(old, new, 1))


def test_a_name_that_is_given_twice_is_noted_at_its_own_line(tmp_path: Path) -> None:
    said = mistakes(tmp_path, GOOD.replace('name = "4GB"', 'name = "128MB"'))
    assert "has 1 mistake" in said
    assert "spec.toml:18: variant.1.name" in said


def test_an_unknown_kind_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    said = mistakes(tmp_path, GOOD.replace('kind = "compare"', 'kind = "comapre"'))
    assert "design.kind = 'comapre': must be one of" in said
    assert "did you mean compare?" in said


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_spec(path).experiment.name == "shared_buffers on this disk"


def test_deep_nesting_is_a_mistake_and_no_defect(tmp_path: Path) -> None:
    assert "nested too deeply" in mistakes(tmp_path, f"x = {'[' * 3000}{']' * 3000}\n")


def test_variants_that_are_the_same_raise_a_doubt(tmp_path: Path) -> None:
    text = GOOD.replace(
        'shared_buffers = "4GB", max_parallel_workers = 4', 'shared_buffers = "128MB"'
    )
    [doubt] = read_spec(written(tmp_path, text)).doubts
    assert "'128MB' and '4GB' are the same" in doubt


def test_a_comparison_needs_two_variants(tmp_path: Path) -> None:
    cut = GOOD.index("[[variant]]"), GOOD.index("[design]")
    said = mistakes(tmp_path, GOOD[: cut[0]] + GOOD[cut[1] :])
    assert "at least 2 variants, got 0" in said


def test_files_are_found_next_to_the_spec(tmp_path: Path) -> None:
    (tmp_path / "new.conf").write_text("work_mem = 64MB  # more\nlog_line_prefix = '%m '' '\n")
    (tmp_path / "load.sql").write_text("SELECT 1;\n")
    text = GOOD.replace('{ shared_buffers = "128MB" }', '"@new.conf"')
    text = text.replace('{ builtin = "select-only" }', '{ file = "load.sql" }')
    experiment = read_spec(written(tmp_path, text)).experiment
    assert experiment.variants[0].settings == {"work_mem": "64MB", "log_line_prefix": "%m ' "}
    assert experiment.workload.scripts[1].text == "SELECT 1;\n"
    assert experiment.workload.scripts[1].file == tmp_path / "load.sql"


def test_a_version_without_a_snapshot_only_raises_a_doubt(tmp_path: Path) -> None:
    text = GOOD.replace('version = "15"', 'version = "19"')
    text = text.replace('shared_buffers = "4GB"', 'no_such_thing = "4"')
    [doubt] = read_spec(written(tmp_path, text)).doubts
    assert "no_such_thing" in doubt
    assert "as of PostgreSQL 18" in doubt


@pytest.mark.parametrize("major", MAJORS)
def test_a_snapshot_has_every_setting_with_a_rule(major: int) -> None:
    settings = snapshot(major)
    assert len(settings) > 300
    assert settings["shared_buffers"].context == "postmaster"
    assert settings["work_mem"].unit == "kB"


@pytest.mark.parametrize(
    ("name", "value", "is_right"),
    [
        ("work_mem", "64", True),
        ("work_mem", "63", False),
        ("work_mem", "1.5GB", True),
        ("work_mem", "64 mb", False),
        ("deadlock_timeout", "1min", True),
        ("checkpoint_completion_target", "1.1", False),
        ("random_page_cost", "1e1", True),
        ("random_page_cost", "4kB", False),
        ("synchronous_commit", "ON", True),
        ("synchronous_commit", "true", True),
        ("jit", "f", True),
        ("jit", "o", False),
        ("datestyle", "iso, dmy", True),
        ("pg_stat_statements.max", "100", True),
        ("io_method", "worker", False),
        # What only some builds have is for the server to refuse.
        ("wal_compression", "zstd", True),
    ],
)
def test_a_value_is_judged_as_postgres_15_would(name: str, value: str, is_right: bool) -> None:
    assert (object_to(name, value, 15) is None) == is_right


def test_a_setting_of_any_known_version_passes_while_the_version_is_open() -> None:
    assert object_to("io_method", "worker", None) is None
    assert object_to("io_methud", "worker", None) is not None


def test_lines_are_found_through_tables_arrays_and_strings() -> None:
    lines = TomlLines(
        'a = 1\n[t]\nx = """\n[no]\n"""\ny = [\n  1, # two\n  {z = 2,\n   w.v = "]"},\n]\n'
        "[[v]]\nn = 1\n[v.s]\nk = 1\n[[v]]\n'q u' = 2\n"
    )
    expected = {
        ("a",): 1,
        ("t", "x"): 3,
        ("t", "y", 0): 7,
        ("t", "y", 1, "z"): 8,
        ("t", "y", 1, "w", "v"): 9,
        ("v", 0, "n"): 12,
        ("v", 0, "s", "k"): 14,
        ("v", 1, "q u"): 16,
        ("v", 1, "missing"): 15,
    }
    assert {path: lines.line_of(path) for path in expected} == expected


def test_a_variant_option_names_settings_places_and_data(tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_text("wal_level minimal\n")
    variant = variant_from(
        f"nvme: Work_Mem=64MB; data-dir=/mnt/nvme; fillfactor=50; @{tmp_path / 'x.conf'}; "
        "sql='SELECT 1; SELECT 2'; clients=8; path=tcp; wal-segment=64MB; script=select-only@2"
    )
    assert variant.name == "nvme"
    assert variant.settings == {"work_mem": "64MB", "wal_level": "minimal"}
    assert (variant.data_dir, variant.dataset.fillfactor) == (Path("/mnt/nvme"), 50)
    assert (variant.sql, variant.clients, variant.path) == ("SELECT 1; SELECT 2", 8, "tcp")
    assert (variant.wal_segment, variant.scripts[0].weight) == ("64MB", 2)


@pytest.mark.parametrize(
    ("text", "name", "changes"),
    [
        ("work_mem=1MB", "work_mem=1MB", {"work_mem": "1MB"}),
        ("work_mem = 1MB; jit=off", "work_mem = 1MB; jit=off", {"work_mem": "1MB", "jit": "off"}),
        ("wm=64: work_mem=64MB", "wm=64", {"work_mem": "64MB"}),
        ("dsn=host=db1 port=5433", "dsn=host=db1 port=5433", {"dsn": "host=db1 port=5433"}),
        ("dsn=postgres://h:5432/d", "dsn=postgres://h:5432/d", {"dsn": "postgres://h:5432/d"}),
        ("pooler=session:20", "pooler=session:20", {"pooler": "pgbouncer session, 20 sessions"}),
        ("off: ", "off", {}),
    ],
)
def test_a_variant_without_a_name_is_named_by_what_it_changes(
    text: str, name: str, changes: dict[str, str]
) -> None:
    variant = variant_from(text)
    assert (variant.name, variant.changes()) == (name, changes)


def test_a_setting_twice_in_a_variant_is_refused() -> None:
    with pytest.raises(SpecError, match="Work_Mem is given twice"):
        variant_from("a: work_mem=1MB; Work_Mem=2MB")


def test_a_variant_may_change_nothing() -> None:
    assert variant_from("old").changes() == {}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a: work_mem", "is not KEY=VALUE"),
        (": work_mem=1", "name"),
        ("a: data-dri=/mnt", "did you mean data-dir?"),
        ("a: clients=none", "clients"),
        ("a: @no.conf", "cannot be read"),
        ("a: script=no-such.sql", "neither a built-in"),
    ],
)
def test_a_variant_option_that_cannot_be_read_is_refused(text: str, rule: str) -> None:
    with pytest.raises(SpecError, match=rule):
        variant_from(text)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("include_dir 'x'", "no folder .*/x"),
        ("include_dir 'x.conf'", "no folder .*x.conf"),
        ("include 'x.conf'", "more than 10 deep"),
        ("work_mem = ", "name = value"),
        ("include 'x'", "no file .*/x"),
        ("= 3", "name = value"),
    ],
)
def test_a_conf_line_the_server_would_not_read_is_refused(
    tmp_path: Path, line: str, rule: str
) -> None:
    (tmp_path / "x.conf").write_text(f"# fine\n{line}\n")
    with pytest.raises(SpecError, match=f"x.conf:2: .*{rule}"):
        read_conf(tmp_path / "x.conf")


def test_included_files_are_read_where_they_are_named_as_the_server_reads_them(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "20.conf").write_text("work_mem = 2MB\ninclude '../more'\n")
    (folder / "10.conf").write_text("work_mem = 1MB\njit = off\n")
    (folder / ".hidden.conf").write_text("work_mem = 3MB\n")
    (folder / "30.conf.bak").write_text("work_mem = 4MB\n")
    (tmp_path / "more").write_text("max_wal_size = 5GB\n")
    main = tmp_path / "postgresql.conf"
    main.write_text("jit = on\ninclude_dir = 'conf.d'\ninclude_if_exists = 'none'\nport = 1\n")
    assert read_conf(main) == {
        "jit": "off",
        "work_mem": "2MB",
        "max_wal_size": "5GB",
        "port": "1",
    }


def test_a_folder_of_includes_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "conf.d").mkdir()
    (tmp_path / "x.conf").write_text("include_dir 'conf.d'\n")
    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(SpecError, match=r"x.conf:1: include_dir: .*conf.d cannot be read: Perm"):
        read_conf(tmp_path / "x.conf")


def test_an_empty_folder_of_includes_as_debian_makes_it_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "x.conf").write_text("include_dir = 'conf.d'\t\t# include files\nport = 1\n")
    assert read_conf(tmp_path / "x.conf") == {"port": "1"}


@pytest.mark.parametrize(
    ("text", "mode", "size"),
    [("transaction:20", "transaction", 20), ("7", "transaction", 7), ("session", "session", 20)],
)
def test_a_pooler_is_a_mode_and_a_size(text: str, mode: str, size: int) -> None:
    pooler = variant_from(f"pooled: pooler={text}").pooler
    assert pooler is not None
    assert (pooler.mode, pooler.session_count) == (mode, size)


@pytest.mark.parametrize("text", ["sometimes:3", "transaction:x", "transaction:1:2", ":"])
def test_an_impossible_pooler_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="pooler"):
        variant_from(f"pooled: pooler={text}")
