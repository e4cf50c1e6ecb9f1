"""What the lab must know about a program before it runs: its load, its types, its metrics.

The engine knows everything else about a program (`pgdyno-engine facts`). The other parts of a
program belong to later rooms; `programs/registry.py` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pgdyno.feature import Metric


def _never(_script: Mapping[str, Any]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class TransactionType:
    """A type of transaction: `words` is its name for readers.

    `p90_limit_s`: the limit of the 90th percentile of the latency, None without one.
    `least_ratio`: the smallest share of all transactions that clients wait for.
    """

    name: str
    words: str
    p90_limit_s: float | None = None
    least_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Background:
    """Work that transactions leave to connections of the background.

    It is left if the program's `option` has the value `when`, which is the option's default.
    """

    option: str
    when: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program as a load; the defaults are those of a text script.

    `name`: of the built-in. `client_word`: "client", or the word that the program's specification
    uses. `protocol`: the default. `metrics`: those of no other program, as its feature declares
    them; the first decides unless the user or the design chooses another one. `clients_per_size`:
    how many clients with full think times belong to one unit of the dataset's size, a `size_word`;
    None without a rule.
    `counts_statements`: the server's counters of each statement are read before and after a run.
    `pipelines`: whether a script of a job with this program sends a statement before the result of
    the one before has arrived.
    """

    name: str = ""
    client_word: str = "client"
    protocol: Literal["simple", "extended", "prepared"] = "simple"
    types: tuple[TransactionType, ...] = ()
    metrics: tuple[Metric, ...] = ()
    background: Background | None = None
    clients_per_size: int | None = None
    size_word: str = ""
    counts_statements: bool = False
    pipelines: Callable[[Mapping[str, Any]], bool] = _never

    def defers(self, options: Mapping[str, str]) -> bool:
        """Return whether transactions with these options leave work to the background."""
        rule = self.background
        return rule is not None and options.get(rule.option, rule.when) == rule.when
