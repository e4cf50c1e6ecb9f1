"""The input of all rules: the text files of this project, read once, with syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "bench", "crates", "docs", "python", "scripts", "tests")
TOP_FILES = ("*.md", "*.toml", "Makefile")
SKIPPED_FOLDERS = {"__pycache__", "target", "vendor", "results", "corpus", "node_modules"}
# Programs that pgdyno sends to other hosts: they import nothing of it, so they need its rules less.
RUNS_ELSEWHERE = "python/pgdyno/features/hosts/there/"
TEXT_SUFFIXES = {"", ".py", ".rs", ".sql", ".sh", ".css", ".js", ".html", ".j2", ".md", ".toml"}


@dataclass(frozen=True)
class Source:
    """One text file: `path` is relative to the root, with forward slashes."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def syntax(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the syntax tree: walking it takes longer than most rules."""
        return tuple(ast.walk(self.syntax))

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def is_rust(self) -> bool:
        return self.path.endswith(".rs")

    @property
    def is_generated(self) -> bool:
        return bool(self.lines) and "generated" in self.lines[0].lower()

    @property
    def package(self) -> str | None:
        """`spec` for python/pgdyno/spec/x.py, `clock` for python/pgdyno/clock.py, else None."""
        parts = self.path.split("/")
        if parts[:2] != ["python", "pgdyno"] or len(parts) < 3:
            return None
        return room_of([part.removesuffix(".py") for part in parts[1:]])

    @property
    def module(self) -> str:
        """`pgdyno.spec.x` for python/pgdyno/spec/x.py, `bench.rows` for bench/rows.py."""
        name = self.path.removeprefix("python/").removesuffix(".py").removesuffix("/__init__")
        return name.replace("/", ".")

    def problem(self, line: int, text: str) -> str:
        """Return `text` with its place in front, as compilers print it."""
        return f"{self.path}:{line}: {text}"

    @cached_property
    def _aliases(self) -> dict[str, str]:
        """Map every imported name to what it stands for: `np` -> `numpy`."""
        aliases: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for name in node.names:
                    aliases[name.asname or name.name.split(".")[0]] = (
                        name.name if name.asname else name.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                base = self.imported_from(node)
                for name in node.names:
                    aliases[name.asname or name.name] = f"{base}.{name.name}"
        return aliases

    def imported_from(self, node: ast.ImportFrom) -> str:
        """Return the module of `from M import ...`, relative ones made absolute."""
        if not node.level:
            return node.module or ""
        above = self.module.split(".")
        is_package = self.path.endswith("/__init__.py")
        above = above[: len(above) - node.level + (1 if is_package else 0)]
        return ".".join([*above, *([node.module] if node.module else [])])

    def imports(self) -> Sequence[tuple[int, str]]:
        """Return (line, dotted name) of everything imported, `from a import b` as `a.b`."""
        return self._imports

    @cached_property
    def _imports(self) -> tuple[tuple[int, str], ...]:
        lines: list[tuple[int, str]] = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                lines += ((node.lineno, name.name) for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self.imported_from(node)
                lines += ((node.lineno, f"{base}.{name.name}") for name in node.names)
        return tuple(lines)

    def dotted(self, node: ast.expr) -> str:
        """Return `numpy.random.rand` for the expression `np.random.rand`; "" for anything else."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        names.append(self._aliases.get(node.id, node.id))
        return ".".join(reversed(names))

    def names(self) -> Sequence[tuple[ast.expr, str]]:
        """Return every name or attribute chain that is read, with what it stands for."""
        return self._names

    @cached_property
    def _names(self) -> tuple[tuple[ast.expr, str], ...]:
        chains = (node for node in self.nodes if isinstance(node, ast.Name | ast.Attribute))
        return tuple((node, name) for node in chains if (name := self.dotted(node)))

    def calls(self) -> Sequence[tuple[ast.Call, str]]:
        """Return every call with what is called."""
        return self._calls

    @cached_property
    def _calls(self) -> tuple[tuple[ast.Call, str], ...]:
        calls = (node for node in self.nodes if isinstance(node, ast.Call))
        return tuple((call, self.dotted(call.func)) for call in calls)


def room_of(names: Sequence[str]) -> str:
    """Return the room of a module, given as ["pgdyno", "spec", ...]."""
    return names[1]


@cache
def tree() -> tuple[Source, ...]:
    """Return every text file of the project, in path order."""
    return tuple(Source(str(path.relative_to(ROOT)), path.read_text()) for path in _text_files())


def _text_files() -> Iterable[Path]:
    paths = [path for pattern in TOP_FILES for path in ROOT.glob(pattern)]
    for folder in FOLDERS:
        paths += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(
        path
        for path in paths
        if path.suffix in TEXT_SUFFIXES and not SKIPPED_FOLDERS & set(path.parts)
    )
