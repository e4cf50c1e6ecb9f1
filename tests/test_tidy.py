"""The house rules: each is tried on a snippet to refuse and one to pass, then on the tree.

STYLE.md says what the rules are for. A rule is one function in tests/tidy.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from tests.fixtures import needs
from tests.tidy import (
    documents,
    english,
    everywhere,
    orphans,
    python_rules,
    rust_circles,
    rust_rules,
    units,
)
from tests.tidy.snippets import SNIPPETS, Rule
from tests.tidy.source import ROOT, Source, tree

from pgdyno import errors

# Class names that stand in more than one file.
PYTHON = (
    python_rules.function_length,
    python_rules.import_order,
    python_rules.no_io_in_pure_stages,
    python_rules.processes_in_one_place,
    python_rules.printing_in_one_place,
    python_rules.writing_in_few_places,
    python_rules.skipping_in_one_place,
    python_rules.one_clock,
    python_rules.seeded_randomness,
    python_rules.designs_in_one_table,
    python_rules.features_keep_apart,
    python_rules.words_of_features,
    python_rules.arguments_by_name,
    python_rules.locals_named_by_content,
    python_rules.type_names_are_nouns,
    python_rules.one_form_of_percent,
    units.units_in_names,
)
RUST = (
    rust_rules.function_length,
    rust_rules.printing_in_one_place,
    rust_rules.pure_crates,
    rust_rules.network_in_one_place,
    rust_rules.core_names_no_program,
    rust_rules.locals_named_by_content,
)
EVERYWHERE = (
    everywhere.file_length,
    everywhere.line_length,
    everywhere.prose_length,
    english.plain_prose,
    everywhere.left_behind,
    rust_rules.crate_arrow,
)


@pytest.fixture(scope="module", autouse=True)
def forgotten_trees() -> Iterator[None]:
    """Forget the syntax trees of all files: the garbage collector would walk them at the end."""
    yield
    tree.cache_clear()


def _name(rule: Rule) -> str:
    return f"{rule.__module__.rpartition('.')[2]}-{rule.__name__}"


@pytest.mark.parametrize("rule", [*PYTHON, *RUST, *EVERYWHERE], ids=_name)
def test_the_tree_keeps(rule: Rule) -> None:
    chosen = [
        source
        for source in tree()
        if rule in EVERYWHERE
        or (rule in PYTHON and source.is_python)
        or (rule in RUST and source.is_rust)
    ]
    problems = [problem for source in chosen for problem in rule(source)]
    assert not problems, "\n" + "\n".join(problems)


def test_no_class_name_exists_twice() -> None:
    names = Counter(
        node.name
        for source in tree()
        if source.package and source.path.endswith(".py")
        for node in ast.walk(source.syntax)
        if isinstance(node, ast.ClassDef)
    )
    twice = sorted(name for name, count in names.items() if count > 1)
    assert not twice


def test_no_public_function_is_used_by_tests_alone() -> None:
    assert not list(orphans.used_by_tests_alone(tree()))


def test_no_field_of_a_dataclass_is_used_by_tests_alone() -> None:
    assert not list(orphans.fields_that_tests_alone_use(tree()))


def test_a_field_that_only_tests_read_or_set_is_seen() -> None:
    text = "@dataclass\nclass A:\n    read: int\n    chosen: int = 0\n"
    source = Source("python/pgdyno/spec/a.py", text)
    test = Source("tests/spec/test_a.py", "assert A(1, chosen=2).read")
    user = Source("python/pgdyno/plan/b.py", "print(A(1, chosen=2).read)")
    assert len(list(orphans.fields_that_tests_alone_use([source, test]))) == 3
    assert not list(orphans.fields_that_tests_alone_use([source, test, user]))


def test_a_function_that_only_tests_use_is_seen() -> None:
    source = Source("python/pgdyno/spec/a.py", "def f():\n    pass\n\n\n@made\ndef g():\n    pass")
    test = Source("tests/spec/test_a.py", "from pgdyno.spec.a import f")
    user = Source("python/pgdyno/plan/b.py", "from pgdyno.spec.a import f")
    assert len(list(orphans.used_by_tests_alone([source, test]))) == 1
    assert not list(orphans.used_by_tests_alone([source, test, user]))


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert not list(python_rules.import_circles(tree()))


def test_an_import_circle_is_seen_unless_a_function_breaks_it() -> None:
    upward = Source("python/pgdyno/spec/a.py", "from pgdyno.spec.b import x")
    back = Source("python/pgdyno/spec/b.py", "from pgdyno.spec import a")
    broken = Source("python/pgdyno/spec/b.py", "def f():\n    from pgdyno.spec import a")
    assert list(python_rules.import_circles([upward, back]))
    assert not list(python_rules.import_circles([upward, broken]))


def test_no_rust_files_need_each_other_in_a_circle() -> None:
    assert not list(rust_circles.circles(tree()))


def test_a_circle_of_rust_files_is_seen_through_what_a_module_passes_on() -> None:
    root = Source("crates/x/src/lib.rs", "mod a;\nmod b;\npub use self::b::B;")
    upward = Source("crates/x/src/a.rs", "use crate::B;\npub struct A(B);")
    back = Source("crates/x/src/b.rs", "pub struct B;\nfn f() { crate::a::A::new(); }")
    alone = Source(
        "crates/x/src/b.rs", "pub struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }"
    )
    assert list(rust_circles.circles([root, upward, back])) == [
        "crates/x: crates/x/src/a.rs, crates/x/src/b.rs"
    ]
    assert not list(rust_circles.circles([root, upward, alone]))


@pytest.mark.parametrize(("rule", "path", "refused", "passed"), SNIPPETS)
def test_a_rule_refuses_what_it_names_and_passes_the_rest(
    rule: Rule, path: str, refused: str, passed: str
) -> None:
    assert list(rule(Source(path, refused)))
    elsewhere = path.replace("misc", "spec")
    assert not list(rule(Source(elsewhere, passed)))


def test_every_rule_has_a_snippet() -> None:
    assert {rule for rule, *_ in SNIPPETS} == {*PYTHON, *RUST, *EVERYWHERE}


def test_every_source_file_is_used() -> None:
    problems = [*orphans.unused_python(tree()), *orphans.unused_rust(tree())]
    assert not problems, "\n" + "\n".join(problems)


def test_a_python_file_nobody_imports_is_refused() -> None:
    used = Source("python/pgdyno/measure/a.py", "from . import b")
    verbs = "VERBS = {'d': 'pgdyno.measure.a:main'}\nload(f'pgdyno.measure.{name}')"
    importer = Source("python/pgdyno/cli/main.py", verbs)
    late = Source("python/pgdyno/measure/d.py", "")
    program = Source("python/pgdyno/measure/e.py", 'if __name__ == "__main__":\n    pass')
    lonely = Source("python/pgdyno/measure/c.py", "import pgdyno.measure.c")
    sources = [used, importer, Source("python/pgdyno/measure/b.py", ""), lonely, late, program]
    assert [p.split(":")[0] for p in orphans.unused_python(sources)] == [lonely.path]


def test_a_rust_file_no_module_declares_is_refused() -> None:
    root = Source("crates/engine/src/lib.rs", "mod poller; // mod lonely;")
    inner = Source("crates/engine/src/poller.rs", "pub mod timer;")
    leaf = Source("crates/engine/src/poller/timer.rs", "")
    lonely = Source("crates/engine/src/lonely.rs", "")
    problems = orphans.unused_rust([root, inner, leaf, lonely])
    assert [p.split(":")[0] for p in problems] == [lonely.path]


def test_no_large_file_is_under_version_control() -> None:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [path for path in listing.stdout.split("\0") if path and (ROOT / path).is_file()]
    assert paths
    assert not list(everywhere.large_blobs(ROOT, paths))


def test_a_blob_over_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(bytes(everywhere.BLOB_BYTES_MAX))
    (tmp_path / "large").write_bytes(bytes(everywhere.BLOB_BYTES_MAX + 1))
    assert len(list(everywhere.large_blobs(tmp_path, ["small", "large"]))) == 1


def _exists(path: str) -> pytest.MarkDecorator:
    return needs.when_offered((ROOT / path).exists(), f"{path} does not exist")


@_exists("python/pgdyno/cli/main.py")
def test_every_verb_and_option_is_in_the_manual() -> None:
    cli = vars(importlib.import_module("pgdyno.cli.main")).values()
    group = next(value for value in cli if isinstance(value, click.Group))
    context = click.Context(group)
    verbs = {
        name: [
            names
            for parameter in command.params
            if isinstance(parameter, click.Option) and not parameter.hidden
            if (names := [name for name in parameter.opts if name.startswith("--")])
        ]
        for name in group.list_commands(context)
        if (command := group.get_command(context, name)) and not command.hidden
    }
    assert verbs
    problems = list(documents.undocumented_verbs(verbs, (ROOT / "docs/cli.md").read_text()))
    assert not problems, "\n" + "\n".join(problems)


def test_a_verb_or_option_absent_from_the_manual_is_refused() -> None:
    manual = "# Verbs\n## `pgdyno bench`\n`--clients N`\n## `pgdyno show`\nx\n"
    assert not list(documents.undocumented_verbs({"bench": [["--clients"]], "show": []}, manual))
    assert list(documents.undocumented_verbs({"bench": [["--client"]]}, manual))
    assert list(documents.undocumented_verbs({"bench": [["--clients", "--client"]]}, manual))
    assert list(documents.undocumented_verbs({"sweep": []}, manual))


def test_every_error_has_a_row_in_the_message_table() -> None:
    contract = next(s for s in tree() if s.path == "crates/engine/src/contract/record.rs")
    names = [*documents.error_classes(tree()), *documents.rust_variants(contract, "ErrorKind")]
    table = (ROOT / "docs/errors.md").read_text()
    problems = list(documents.errors_without_row(names, table))
    assert not problems, "\n" + "\n".join(problems)


def test_the_message_table_has_the_exit_codes_of_the_classes() -> None:
    codes = documents.exit_codes((ROOT / "docs/errors.md").read_text())
    assert codes == {name: getattr(errors, name).exit_code for name in codes}
    assert codes


def test_every_kind_of_error_is_expected_by_a_test() -> None:
    contract = next(s for s in tree() if s.path == "crates/engine/src/contract/record.rs")
    kinds = documents.rust_variants(contract, "ErrorKind")
    problems = list(documents.errors_without_test(kinds, tree()))
    assert not problems, "\n" + "\n".join(problems)


def test_a_kind_of_error_no_test_expects_is_refused() -> None:
    python = Source("tests/a.py", 'assert kind == "too_many"')
    rust = Source("crates/engine/tests/a.rs", "ErrorKind::ConnectionLost")
    names = ["too_many", "connection_lost", "system"]
    assert len(list(documents.errors_without_test(names, [python, rust]))) == 1


def test_an_error_without_a_row_is_refused() -> None:
    tree_file = "class AError(PgdynoError): ...\nclass B(AError): ...\nclass C: ..."
    assert documents.error_classes([Source("python/pgdyno/errors.py", tree_file)]) == {
        "AError",
        "B",
    }
    enum = Source("x.rs", "pub enum ErrorKind {\n    /// No.\n    TooManyA,\n    B,\n}\n")
    assert documents.rust_variants(enum, "ErrorKind") == ["too_many_a", "b"]
    assert not list(documents.errors_without_row(["b"], "| `b` | 1 | says |"))
    assert list(documents.errors_without_row(["a", "b"], "| `b` | 1 | says |"))
    assert list(documents.errors_without_row(["b"], "| `b` | | says |"))
    assert list(documents.errors_without_row([], "| `b` | 1 | says |"))


@_exists("python/pgdyno/store/schema.py")
def test_every_column_of_the_store_has_a_unit_and_a_meaning() -> None:
    schema = importlib.import_module("pgdyno.store.schema")
    problems = list(documents.columns_without_meaning(schema.tables()))
    assert not problems, "\n" + "\n".join(problems)


def test_a_column_without_unit_or_meaning_is_refused() -> None:
    whole = SimpleNamespace(name="a", dtype="int64", unit="ns", meaning="when")
    part = SimpleNamespace(name="b", dtype="int64", unit="", meaning="when")
    assert not list(documents.columns_without_meaning({"t": (whole,)}))
    assert len(list(documents.columns_without_meaning([whole, [part]]))) == 1
    assert list(documents.columns_without_meaning({}))
