"""Published rules of thumb: the recommended values, each with its formula."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from pgdyno.errors import SpecError
from pgdyno.settings.formula import FactMissing, Machine, Value, evaluate
from pgdyno.settings.rule import rule_of
from pgdyno.settings.value import amount, text_of, written_size

RULES = ("pgtune", "timescaledb_tune")
Fit = tuple[Callable[[int], int], str]
"""What lowers a size in bytes to one that fits, and to what it then fits."""
NO_FITS: Mapping[str, Fit] = {}


@dataclass(frozen=True, slots=True)
class RuleSet:
    """One published set of rules. Each of the `formulas` uses only earlier ones."""

    id: str
    name: str
    source: str
    formulas: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recommended:
    """The value that a rule recommends. If a fact is missing, `text` is None, `lacks` its name."""

    name: str
    text: str | None
    formula: str
    lacks: str = ""


@lru_cache(maxsize=len(RULES))
def rule_set(rule_id: str) -> RuleSet:
    """Return one published set of rules."""
    text = (
        files("pgdyno.settings").joinpath(f"published/{rule_id}.toml").read_text(encoding="utf-8")
    )
    document = tomllib.loads(text)
    return RuleSet(rule_id, document["name"], document["source"], document["settings"])


def recommend(
    rules: RuleSet, machine: Machine, fits: Mapping[str, Fit] = NO_FITS
) -> dict[str, Recommended]:
    """Return setting -> recommendation for this machine, for settings that its version has.

    Args: fits, of settings that may be too large here; later formulas use the lower value.

    max_connections keeps the server's value: a rule has only the assumption of its author.
    """
    names: dict[str, Value] = dict(machine.names())
    recommended: dict[str, Recommended] = {}
    for name, formula in rules.formulas.items():
        rule = rule_of(name, machine.major)
        if rule is None:
            continue
        try:
            value = evaluate(formula, names)
        except FactMissing as missing:
            names[name] = None
            recommended[name] = Recommended(name, None, readable(formula, machine), missing.name)
            continue
        said = readable(formula, machine)
        if name in fits and isinstance(value, int | float):
            fitting, to = fits[name]
            if (lower := fitting(int(value))) < int(value):
                said, value = f"{said}, lowered from {text_of(rule, value)} to fit {to}", lower
        names[name] = value
        text = text_of(rule, _known_word(rule.values, value))
        recommended[name] = Recommended(name, text, said)
    return recommended


def practical(advised: Mapping[str, Recommended], machine: Machine) -> dict[str, Recommended]:
    """Return sizes as a person writes them, and wal_buffers = -1 where it gives nearly the same."""
    written = {}
    for name, advice in advised.items():
        rule = rule_of(name, machine.major)
        text = written_size(rule, advice.text) if rule and advice.text else advice.text
        formula = advice.formula if text == advice.text else f"{advice.formula}, {advice.text}"
        written[name] = replace(advice, text=text, formula=formula)
    sizes = []
    for name in ("shared_buffers", "wal_buffers"):
        rule, text = rule_of(name, machine.major), written[name].text if name in written else None
        sizes.append(amount(rule, text) if rule and text else None)
    pool, buffers = sizes
    if pool and buffers and 0.5 <= buffers / min(pool / 32, 16 << 20) <= 2:
        same = f"{written['wal_buffers'].formula}, nearly what -1 gives"
        written["wal_buffers"] = replace(written["wal_buffers"], text="-1", formula=same)
    return written


def _known_word(values: tuple[str, ...], value: Value) -> Value:
    """Return the word if the server knows it, or else the first known one: 14 has no lz4."""
    if isinstance(value, str) and values and value not in values:
        return values[0]
    return value


def readable(formula: str, machine: Machine) -> str:
    """Return a formula without the choices that load, disk, cores or version decide.

    "by(load, dw=2, other=1) * ram" is "ram" for web; `*` is written "x".
    """
    tree = ast.parse(formula, mode="eval")
    chosen = _ChoiceReplacer(machine).visit(tree)
    text = ast.unparse(ast.fix_missing_locations(chosen))
    for old, new in ((" * MB", " MB"), (" * GB", " GB"), (" * kB", " kB"), (" * ", " x ")):
        text = text.replace(old, new)
    return text.replace("'", "")


class _ChoiceReplacer(ast.NodeTransformer):
    """Replaces each choice by the value that this machine chooses."""

    def __init__(self, machine: Machine) -> None:
        self._names = machine.names()

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Leave out a factor of 1, which may be the result of a choice."""
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.BinOp)
        is_one = isinstance(visited.right, ast.Constant) and visited.right.value == 1
        is_factor = isinstance(visited.op, ast.Mult | ast.Div)
        return visited.left if is_one and is_factor else visited

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        try:
            test = evaluate(ast.unparse(node.test), self._names)
        except (FactMissing, SpecError):
            return self.generic_visit(node)
        return self._chosen(node.body if test else node.orelse)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "by":
            word = self._names.get(ast.unparse(node.args[0]))
            choices = {keyword.arg: keyword.value for keyword in node.keywords}
            chosen = choices.get(str(word), choices.get("other"))
            return self.generic_visit(node) if chosen is None else self._chosen(chosen)
        return self.generic_visit(node)

    def _chosen(self, node: ast.expr) -> ast.AST:
        visited: ast.AST = self.visit(node)
        return visited
