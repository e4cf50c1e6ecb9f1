"""The rule that every source file is used by another one."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from tests.tidy.rust_rules import bare
from tests.tidy.source import Source

from pgdyno.features import FEATURES

# Where the outside world comes in.
ENTRY_MODULES = {"pgdyno.cli.main", "pgdyno"}
RUST_ROOTS = re.compile(
    r"(.*/)?(src/(lib|main)|build|src/bin/\w+"
    r"|(tests|benches|examples|fuzz_targets)/(\w+/main|\w+))\.rs$"
)


def unused_python(sources: Sequence[Source]) -> Iterator[str]:
    """Every Python file is imported by another one, or named in one as text (late imports)."""
    ours = [s for s in sources if s.is_python and s.path.startswith(("python/", "bench/"))]
    used: set[str] = set(ENTRY_MODULES)
    for source in ours:
        named = {name for _, name in source.imports()} | set(_dotted_texts(source))
        named |= set(_late_imports(source))
        used |= {name for name in named if name != source.module}
        used |= {name.rpartition(".")[0] for name in named} - {source.module}
    used |= set(_declared())
    for source in ours:
        is_entry = source.path.endswith(("/__init__.py", "/__main__.py")) or _is_program(source)
        if not is_entry and source.module not in used:
            yield source.problem(1, "nothing imports this file")


def used_by_tests_alone(sources: Sequence[Source]) -> Iterator[str]:
    """Every public function of a module is named somewhere besides its definition and tests.

    A decorated one may be used by what decorates it.
    """
    ours = [s for s in sources if s.is_python and s.path.startswith(("python/", "bench/"))]
    count = Counter(word for source in ours for word in re.findall(r"\w+", source.text))
    for source in ours:
        for node in source.syntax.body:
            is_public = isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
            if is_public and not node.decorator_list and count[node.name] < 2:
                yield source.problem(node.lineno, f"only tests use {node.name}")


def fields_that_tests_alone_use(sources: Sequence[Source]) -> Iterator[str]:
    """Every field of a dataclass is read, and one with a default is set, outside tests.

    Limits: a field counts as read if its name occurs anywhere else, as set if any call names it.
    pydantic models are left out: JSON sets and reads their fields.
    """
    ours = [s for s in sources if s.is_python and s.path.startswith(("python/", "bench/"))]
    templates = [s for s in sources if s.path.endswith(".j2")]
    words = Counter(word for s in (*ours, *templates) for word in re.findall(r"\w+", s.text))
    set_by_name, positional = _what_calls_set(ours)
    for source in ours:
        for node in source.nodes:
            if not isinstance(node, ast.ClassDef) or not _is_dataclass(node):
                continue
            is_dumped = "asdict" in source.text or positional[node.name] == _EVERY_FIELD
            fields = [f for f in node.body if isinstance(f, ast.AnnAssign)]
            for place, field in enumerate(fields):
                name = ast.unparse(field.target)
                if words[name] < 2 and not is_dumped:
                    yield source.problem(field.lineno, f"only tests use {node.name}.{name}")
                is_set = name in set_by_name or positional[node.name] > place
                if field.value and not is_set and not _is_made_by_init(field.value):
                    yield source.problem(field.lineno, f"only tests set {node.name}.{name}")


_EVERY_FIELD = 1_000


def _what_calls_set(sources: Sequence[Source]) -> tuple[set[str], Counter[str]]:
    """Return the names of all keyword arguments, keys and assigned attributes; and, for each
    name that is called, how many arguments have no name.
    """
    names: set[str] = set()
    positional: Counter[str] = Counter()
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func).split(".")[-1]
                names |= {keyword.arg for keyword in node.keywords if keyword.arg}
                is_open = any(keyword.arg is None for keyword in node.keywords) or any(
                    isinstance(argument, ast.Starred) for argument in node.args
                )
                count = _EVERY_FIELD if is_open else len(node.args)
                positional[called] = max(positional[called], count)
            elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
    return names, positional


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def _is_made_by_init(value: ast.expr) -> bool:
    """Return whether a field is not an argument: it begins empty and is filled later."""
    text = ast.unparse(value)
    return text.startswith("field(") and ("init=False" in text or "default_factory" in text)


def _is_program(source: Source) -> bool:
    return re.search(r'^if __name__ == "__main__":', source.text, re.M) is not None


def _texts(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _late_imports(source: Source) -> Iterator[str]:
    """Yield `pgdyno.cli.bench` for f"pgdyno.cli.{name}" in a file that has the text "bench"."""
    for node in source.nodes:
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            prefix = str(node.values[0].value)
            if re.fullmatch(r"pgdyno(\.\w+)*\.", prefix):
                yield from (prefix + text for text in _texts(source))


def _declared() -> Iterator[str]:
    """Yield the modules that features declare: verbs, parts of programs, parts, lines of tables."""
    for feature in FEATURES:
        yield from (f"{feature.package}.verbs.{verb.replace('-', '_')}" for verb in feature.verbs)
        of_programs = [
            module for modules in feature.programs.values() for module in modules.values()
        ]
        of_tables = [line for lines in feature.tables.values() for line in lines.values()]
        for target in (*of_programs, *feature.parts.values(), *of_tables):
            yield f"{feature.package}.{target.partition(':')[0]}"


def _dotted_texts(source: Source) -> Iterator[str]:
    for text in _texts(source):
        name, _, _ = text.partition(":")
        if re.fullmatch(r"[a-z_]+(\.[a-z_0-9]+)+", name):
            yield name


def unused_rust(sources: Sequence[Source]) -> Iterator[str]:
    """Every Rust file is declared by a `mod` in its parent, or is where a crate begins."""
    ours = [source for source in sources if source.is_rust]
    declared: set[str] = set()
    for source in ours:
        path = PurePosixPath(source.path)
        is_parent = path.stem in ("lib", "main", "mod") or RUST_ROOTS.match(source.path)
        folder = path.parent if is_parent else path.with_suffix("")
        for match in re.finditer(r"\bmod\s+(\w+)\s*;", bare(source.text)):
            declared |= {f"{folder}/{match[1]}.rs", f"{folder}/{match[1]}/mod.rs"}
        for match in re.finditer(r'#\[path\s*=\s*"([^"]+)"\]', source.text):
            declared.add(str(path.parent / match[1]))
    for source in ours:
        if source.path not in declared and not RUST_ROOTS.match(source.path):
            yield source.problem(1, "no `mod` declares this file")
