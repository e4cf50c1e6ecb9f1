"""What a script of HammerDB sets is what Tcl 8.6 or Python would set, or it is named."""

from __future__ import annotations

from typing import Any

import pytest

from pgdyno.errors import SpecError
from pgdyno.features.tpcc.hammerdb import from_hammerdb
from pgdyno.features.tpcc.script_settings import ScriptSettings, UndecidedValue
from pgdyno.features.tpcc.tcl import Tcl
from pgdyno.spec.designs import SweepDesign
from pgdyno.spec.translation import Translated

BEGIN = "dbset db pg\ndbset bm TPC-C\n"


def set_by(text: str) -> dict[str, Any]:
    """Return what a script of Tcl sets; it is understood as a whole."""
    settings = ScriptSettings()
    Tcl(settings, "h.tcl").run(text)
    assert settings.remarks == []
    [run] = settings.runs()
    return {key: setting.value for key, setting in run.items()}


def note_of(translated: Translated, key: str) -> str:
    [words] = [note.words for note in translated.notes if note.key == key]
    return words


def remarks_of(text: str) -> list[str]:
    notes = map(str, from_hammerdb(text, "h.tcl").notes)
    return [note for note in notes if " = " not in note and not note.startswith("vurun")]


# The values are those of tclsh 8.6.
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("set a 5\nvuset vu [expr $a*2+1]", {"vu": "11"}),
        ("diset tpcc pg_a [expr {-7/2}]\ndiset tpcc pg_b [expr {7/2.0}]", ("-4", "3.5")),
        ("diset tpcc pg_a [expr {010 + 0x10}]\ndiset tpcc pg_b [expr {2**10}]", ("24", "1024")),
        ("diset tpcc pg_a [expr {1 ? int(3.7) : 1/0}]", {"pg_a": "3"}),
        ("foreach {k v} {pg_a 1 pg_b 2} {diset tpcc $k $v}", ("1", "2")),
        ("set i 1\nwhile 1 {if {[incr i] > 3} break}\nvuset vu $i", {"vu": "4"}),
        ("for {set i 0} {$i < 3} {incr i} {append s $i}\ndiset tpcc pg_a $s", {"pg_a": "012"}),
        ("if 0 {vuset vu 1} elseif 1 then {vuset vu 2} else {vuset vu 3}", {"vu": "2"}),
        ("set u 0\nvuset vu 1\nif {$u} {\n vuset vu 2\n}", {"vu": "1"}),
        ("switch pg {ora {vuset vu 1} pg - postgres {vuset vu 2}}", {"vu": "2"}),
        ("proc go {n {d 3}} {global w; set w 9; vuset vu [expr {$n+$d}]}\ngo 4", {"vu": "7"}),
        (
            "proc fac n {if {$n < 2} {return 1}; expr {$n*[fac [expr {$n-1}]]}}\nvuset vu [fac 4]",
            "24",
        ),
        ("# no \\\ndiset tpcc pg_a 1\ndiset tpcc \\\n  pg_b \\\n  2 ;# tail", {"pg_b": "2"}),
        ('set h db\ndiset tpcc pg_a "$h.x"\ndiset tpcc pg_b ${h}y', ("db.x", "dby")),
        ("array set c {ware 5}\nset k ware\ndiset tpcc pg_a $c($k)", {"pg_a": "5"}),
        ("set l [list 1 2]\nlappend l 8\nvuset vu [lindex $l end]", {"vu": "8"}),
        ("set f diset\n$f tpcc pg_a 1\n{*}[list diset tpcc pg_b 2]", ("1", "2")),
        ("vuset vu 3\nexit\nvuset vu 9", {"vu": "3"}),
        ("vuset vu 3\nvucreate\nvurun\nvudestroy\ndiset tpcc pg_a 1", {"vu": "3"}),
        ("diset tpcc pg_a 1\nloadscript\ndiset tpcc pg_a 2\nvurun", {"pg_a": "1"}),
    ],
)
def test_tcl_is_evaluated_as_tclsh_evaluates_it(text: str, values: object) -> None:
    if isinstance(values, tuple):
        values = dict(zip(("pg_a", "pg_b"), values, strict=True))
    elif isinstance(values, str):
        values = {"vu": values}
    assert set_by(text) == values


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("diset connection pg_host $::env(PG_HOST)", "pg_host"),
        ("diset tpcc pg_count_ware [expr {$argc * 2}]", "pg_count_ware"),
        ("vuset vu $nobody", "vu"),
        ("vuset vu vcpu", "vu"),
        ("vuset vu [exec nproc]", "vu"),
        ("if {[info exists env(X)]} {vuset vu 3} else {vuset vu 4}", "vu"),
        ("if {[catch {open x}]} {vuset vu 3}", "vu"),
        ("foreach v $argv {vuset vu $v}", "vu"),
        ("proc of {n} {if {[info exists ::env(X)]} {return 3}; return $n}; vuset vu [of 4]", "vu"),
        ("proc of {} {if {[catch {open x}]} {return}; vuset vu 3}; of", "vu"),
        ("while {[gets stdin]} {vuset vu 3}", "vu"),
        ("switch $env(X) {a {vuset vu 3} default {vuset vu 4}}", "vu"),
    ],
)
def test_a_value_that_the_text_does_not_decide_is_named_with_its_line(line: str, key: str) -> None:
    words = note_of(from_hammerdb(f"{BEGIN}{line}\n", "h.tcl"), key)
    assert words.startswith("line 3")
    assert "computes this value" in words


def test_the_line_of_an_unknown_value_is_that_of_its_origin() -> None:
    text = f"{BEGIN}set a $env(A)\nset b [expr {{$a + 1}}]\nvuset vu $b\n"
    assert note_of(from_hammerdb(text, "h.tcl"), "vu").startswith("line 5, from line 3: ")


def test_a_branch_that_changes_nothing_leaves_a_value_known() -> None:
    text = f"{BEGIN}vuset vu 3\nif {{$env(X)}} {{\n vuset vu 3\n}}\n"
    assert from_hammerdb(text, "h.tcl").experiment.workload.clients == 3


@pytest.mark.parametrize(
    "line",
    [
        "source common.tcl",
        "frobnicate 7",
        "namespace eval cfg {variable h db7}",
        "set x [expr {1 +}]",
        "diset tpcc pg_count_ware",
        "diset tpcc pg_host db1",
        "vuset iterations 5",
        "customscript my.tcl",
        "while 1 {set x 1}",
    ],
)
def test_a_line_that_is_not_understood_is_named(line: str) -> None:
    [remark] = remarks_of(f"{BEGIN}{line}\n")
    assert remark.startswith("line 3, ")


def test_lines_count_within_bodies_and_after_continued_lines() -> None:
    text = f"{BEGIN}proc a {{}} {{\n  set x \\\n    1\n  source other.tcl\n}}\nif 1 {{\n  a\n}}\n"
    assert [remark.partition(",")[0] for remark in remarks_of(text)] == ["line 6"]


@pytest.mark.parametrize("text", ["vuset vu {3", "vuset vu [expr 1", 'vuset vu "3', "if 1 {\n{\n}"])
def test_an_open_bracket_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(SpecError, match=r"h\.tcl, line 3: .* has no "):
        from_hammerdb(f"{BEGIN}{text}\n", "h.tcl")


def test_a_script_that_does_not_end_is_refused() -> None:
    loop = "for {set i 0} {$i < 900} {incr i} {for {set j 0} {$j < 900} {incr j} {}}"
    with pytest.raises(SpecError, match="has not ended"):
        from_hammerdb(f"{BEGIN}{loop}\n", "h.tcl")
    deep = "[expr {1}" * 3000
    with pytest.raises(SpecError):
        from_hammerdb(f"{BEGIN}vuset vu {deep}\n", "h.tcl")


def test_texts_that_grow_in_a_loop_become_unknown() -> None:
    text = f"{BEGIN}set s ab\nfor {{set i 0}} {{$i < 90}} {{incr i}} {{append s $s}}\nvuset vu 2\n"
    assert any("too long" in remark for remark in remarks_of(text))


def test_a_script_that_builds_tables_only_is_no_load() -> None:
    text = f"{BEGIN}diset tpcc pg_partition false\nbuildschema\n"
    notes = [str(note) for note in from_hammerdb(text, "h.tcl").notes]
    assert any(note.startswith("vurun: the script never calls it") for note in notes)
    assert not any("pg_partition" in note for note in notes), "as it is without"
    partitioned = from_hammerdb(text.replace("false", "true"), "h.tcl")
    assert "--partitions N" in note_of(partitioned, "pg_partition")


def test_a_number_that_a_template_shall_fill_in_is_refused_with_its_line() -> None:
    with pytest.raises(SpecError, match=r"h\.tcl, line 3: pg_count_ware must be a number"):
        from_hammerdb(f"{BEGIN}diset tpcc pg_count_ware {{{{warehouses}}}}\n", "h.tcl")


def test_runs_with_other_settings_are_named() -> None:
    text = f"{BEGIN}vuset vu 2\nforeach a {{true false}} {{\n diset tpcc pg_vacuum $a\n vurun\n}}\n"
    notes = [str(note) for note in from_hammerdb(text, "h.tcl").notes]
    assert any("line 5: a later load" in note for note in notes)


def test_a_socket_is_a_folder_and_the_defaults_are_those_of_hammerdb() -> None:
    text = f"{BEGIN}diset connection pg_host /run/postgresql\ndiset connection pg_port 5433\n"
    server = from_hammerdb(text, "h.tcl").experiment.server
    assert server.dsn == "postgresql://tpcc@/tpcc?host=/run/postgresql&port=5433"


WHOLE_SCRIPTS = {
    "an if that is false": (
        "set uaw 0\ndiset tpcc pg_allwarehouse false\n"
        "if {$uaw} {\n    diset tpcc pg_allwarehouse true\n}\nvuset vu 8\n",
        {"pg_allwarehouse": "false", "vu": "8"},
    ),
    "one branch of two": (
        "set big 1\n"
        "if {$big} { diset tpcc pg_count_ware 100 } else { diset tpcc pg_count_ware 2 }\n"
        "if {$big} {\n  diset tpcc pg_duration 10\n} else {\n  diset tpcc pg_duration 1\n}\n",
        {"pg_count_ware": "100", "pg_duration": "10"},
    ),
    "computed numbers": (
        "set wh 10\nset users [expr {$wh * 2}]\n"
        "diset tpcc pg_count_ware [expr {$wh * 10}]\nvuset vu $users\n",
        {"pg_count_ware": "100", "vu": "20"},
    ),
}


@pytest.mark.parametrize("name", WHOLE_SCRIPTS)
def test_a_whole_script_sets_what_hammerdb_sets(name: str) -> None:
    text, values = WHOLE_SCRIPTS[name]
    assert set_by(text) == values


def test_a_host_that_may_come_from_outside_is_named_and_the_rest_is_read() -> None:
    text = (
        f'{BEGIN}set host [expr {{[info exists ::env(H)] ? $::env(H) : "db9"}}]\n'
        "diset connection pg_host $host\nvuset vu 20\n"
    )
    translated = from_hammerdb(text, "h.tcl")
    assert note_of(translated, "pg_host").startswith("line 4, from line 3: ")
    assert translated.experiment.workload.clients == 20
    assert "env" not in str(translated.experiment.server.dsn)


PYTHON = """\
import os
dbset('db', 'pg')
dbset("bm", "TPC-C")
base = {"ware": 10}
def build(host, port=5432):
    diset('connection', 'pg_host', host)
    diset('connection', 'pg_port', port)
build('db' + str(1))
diset('tpcc', 'pg_count_ware', base["ware"] * 3)
if base["ware"] > 5:
    diset('tpcc', 'pg_duration', f"{1 + 2}")
else:
    diset('tpcc', 'pg_duration', 99)
for z in [1, 2, 4]:
    loadscript()
    vuset("vu", str(z))
    vurun()
"""


def test_the_python_form_is_evaluated() -> None:
    translated = from_hammerdb(PYTHON, "h.py")
    experiment = translated.experiment
    assert isinstance(experiment.design, SweepDesign)
    assert experiment.design.levels == (1, 2, 4)
    assert experiment.design.run_ns == 180 * 10**9
    assert experiment.server.dsn == "postgresql://tpcc@db1:5432/tpcc"
    assert "--warehouses 30" in note_of(translated, "pg_count_ware")


@pytest.mark.parametrize(
    "line",
    [
        "diset('tpcc', 'pg_count_ware', os.environ['WH'])",
        "diset('tpcc', 'pg_count_ware', int(os.getenv('WH', '10')))",
        "diset('tpcc', 'pg_count_ware', 10) if os.getenv('X') else None",
        "diset('tpcc', 'pg_count_ware', len('x' * 10**10))",
        "diset('tpcc', 'pg_count_ware', nobody)",
    ],
)
def test_python_that_the_text_does_not_decide_is_named(line: str) -> None:
    text = f"import os\ndbset('db', 'pg')\n{line}\n"
    notes = [str(note) for note in from_hammerdb(text, "h.py").notes]
    assert any("line 3" in note for note in notes), notes


def test_a_function_that_may_have_returned_has_an_unknown_result() -> None:
    text = (
        "import os\ndef host(default):\n if os.environ.get('H'):\n  return os.environ['H']\n"
        " return default\ndef port():\n for p in (5432, 5433):\n  if p > 5432:\n   return p\n"
        "dbset('db', 'pg')\ndiset('connection', 'pg_host', host('db7'))\n"
        "diset('connection', 'pg_port', port())\nloadscript(); vuset('vu', 4)\nvucreate()\n"
        "vurun()\n"
    )
    translated = from_hammerdb(text, "h.py")
    assert "line 11, from line 3" in note_of(translated, "pg_host")
    assert translated.experiment.server.dsn == "postgresql://tpcc@localhost:5433/tpcc"


def test_a_script_that_may_have_ended_goes_on() -> None:
    text = f"{BEGIN}if {{[catch {{open x}}]}} {{\n exit 1\n}}\nvuset vu 3\n"
    assert from_hammerdb(text, "h.tcl").experiment.workload.clients == 3


def test_python_that_is_none_is_refused_with_its_line() -> None:
    with pytest.raises(SpecError, match=r"h\.py, line 2: the script is not Python"):
        from_hammerdb("dbset('db', 'pg')\nfor x in\n", "h.py")


def test_no_password_is_in_a_note() -> None:
    text = f"{BEGIN}diset tpcc pg_pass sec ret1\ndiset connection pg_pass secret2\n"
    text += "diset tpcc pg_superuserpass $env(secret3)\n"
    notes = " ".join(str(note) for note in from_hammerdb(text, "h.tcl").notes)
    assert not any(word in notes for word in ("ret1", "secret2"))


def test_unknown_values_stay_unknown_in_what_is_computed_from_them() -> None:
    settings = ScriptSettings()
    Tcl(settings, "h.tcl").run("set a $env(A)\nset l [list 1 $a]\nvuset vu [llength $l]")
    assert isinstance(settings.runs()[0]["vu"].value, UndecidedValue)
