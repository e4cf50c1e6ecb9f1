"""The rule that no Rust files of one crate use each other in a circle."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tests.tidy.rust_rules import product
from tests.tidy.source import Source

USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"\b(?:crate|self|super)(?:::\w+)+")
DEFINED = re.compile(r"\b(?:struct|enum|trait|type|fn|const|static|union|macro_rules!)\s+(\w+)")


@dataclass
class Module:
    """One file of a crate: the names that it defines, and those that it passes on."""

    path: str
    code: str
    defined: set[str]
    # Name to the whole path that a `pub use` gives it.
    passed_on: dict[str, tuple[str, ...]] = field(default_factory=dict)


def circles(sources: Sequence[Source]) -> Iterator[str]:
    """Yield each group of files that need each other, with its files.

    A file needs the one that defines what it names: neither `mod` nor `pub use` is a need.
    """
    for crate, modules in _crates(sources).items():
        needs = {place: _needs(place, modules) for place in modules}
        for group in _groups(needs):
            paths = sorted(modules[place].path for place in group)
            yield f"{crate}: {', '.join(paths)}"


def _crates(sources: Sequence[Source]) -> dict[str, dict[tuple[str, ...], Module]]:
    crates: dict[str, dict[tuple[str, ...], Module]] = defaultdict(dict)
    for source in sources:
        match = re.fullmatch(r"(crates/[\w/-]+?)/src/(?!bin/)(.+)\.rs", source.path)
        if match and not source.path.endswith("tests.rs"):
            parts = PurePosixPath(match[2]).parts
            place = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
            code = product(source.text)
            module = Module(source.path, code, set(DEFINED.findall(code)))
            for is_public, text in USE.findall(code):
                for name, path in _names(text):
                    if is_public and (whole := _whole(path, place)):
                        module.passed_on[name] = whole
            crates[match[1]][place] = module
    return crates


def _names(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each name that `text` of a `use` brings, and its path."""
    text = re.sub(r"\s+", " ", text.strip())
    begin, brace, rest = text.partition("{")
    if not brace:
        path, _, name = text.partition(" as ")
        parts = path.split("::")
        yield (name or parts[-1]), parts
        return
    depth, item = 0, ""
    for letter in rest.rpartition("}")[0] + ",":
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if item.strip():
                yield from _names(begin + item.strip())
            item = ""
        else:
            item += letter


def _whole(path: Sequence[str], place: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return `path`, which is written in the module `place`, from the root of the crate."""
    first, *rest = path
    if first == "crate":
        return tuple(rest)
    above = place
    if first not in ("self", "super"):
        return None
    while first == "super" or (rest and rest[0] == "super"):
        above = above[:-1]
        if first == "self" or rest[:1] != ["super"]:
            break
        rest = rest[1:]
    return (*above, *rest)


def _home(
    path: tuple[str, ...], modules: dict[tuple[str, ...], Module], depth: int = 0
) -> tuple[str, ...] | None:
    """Return the module that defines what `path` names."""
    for length in range(len(path), -1, -1):
        module = modules.get(path[:length])
        if module is None:
            continue
        if length == len(path) or path[length] in module.defined or path[length] == "*":
            return path[:length]
        passed_on = module.passed_on.get(path[length])
        if passed_on is not None and depth < 8:
            return _home((*passed_on, *path[length + 1 :]), modules, depth + 1)
        return None
    return None


def _needs(place: tuple[str, ...], modules: dict[tuple[str, ...], Module]) -> set[tuple[str, ...]]:
    code = modules[place].code
    brought: dict[str, tuple[str, ...]] = {}
    paths: set[tuple[str, ...]] = set()
    for is_public, text in USE.findall(code):
        for name, path in _names(text):
            if not is_public and (whole := _whole(path, place)) is not None:
                brought[name] = whole
                paths.add(whole)
    bare = USE.sub("", code)
    for match in PATH.finditer(bare):
        whole = _whole(match[0].split("::"), place)
        if whole is not None:
            paths.add(whole)
    for first, rest in re.findall(r"(?<![\w:])(\w+)::(\w+)", bare):
        if first in brought:
            paths.add((*brought[first], rest))
        elif (*place, first) in modules:
            paths.add((*place, first, rest))
    # A module that is only brought says nothing: what is used of it does.
    homes = {
        home
        for path in paths
        if not (path in modules and path in brought.values())
        if (home := _home(path, modules)) is not None
    }
    return homes - {place}


def _groups(needs: dict[tuple[str, ...], set[tuple[str, ...]]]) -> Iterator[list[tuple[str, ...]]]:
    """Yield the groups of modules each of which reaches all the others."""
    reached: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for start in needs:
        seen: set[tuple[str, ...]] = set()
        waiting = [start]
        while waiting:
            new = needs.get(waiting.pop(), set()) - seen
            seen |= new
            waiting.extend(new)
        reached[start] = seen
    done: set[tuple[str, ...]] = set()
    for start, seen in reached.items():
        if start in seen and start not in done:
            group = [other for other in seen if start in reached[other]]
            done.update(group)
            yield group
