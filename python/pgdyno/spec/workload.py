"""What the clients do, how many they are, and for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from pgdyno.spec.base import SECOND_NS, DurationNs, Spec

BUILTINS = ("tpcb-like", "simple-update", "select-only", "insert-only", "update-only")
# Each arrival is counted one by one: of more the load engine would do nothing else.
RATE_TPS_MAX = 10_000_000
Protocol = Literal["simple", "extended", "prepared"]


class Script(Spec):
    """One script of the mix: a built-in by name, or a file with its text."""

    builtin: str | None = None
    file: Path | None = None
    text: str | None = Field(default=None, exclude=True)
    weight: Annotated[int, Field(ge=0)] = 1

    @model_validator(mode="after")
    def _exactly_one(self) -> Script:
        if (self.builtin is None) == (self.file is None):
            raise ValueError("exactly one of builtin and file must be given")
        return self

    @property
    def name(self) -> str:
        """Return the name shown in results."""
        return self.builtin or str(self.file)


class Workload(Spec):
    """What the clients do, how many they are, and for how long."""

    scripts: tuple[Script, ...]
    clients: Annotated[int, Field(ge=1, le=100_000)] = 1
    rate_tps: float | None = Field(
        default=None, gt=0, le=RATE_TPS_MAX, allow_inf_nan=False, alias="rate"
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    protocol: Protocol = "simple"
    duration_ns: Annotated[DurationNs, Field(gt=0)] = Field(
        default=60 * SECOND_NS, alias="duration"
    )
    transactions_per_client: Annotated[int, Field(ge=1)] | None = None
    warmup_ns: DurationNs | None = Field(default=None, alias="warmup")
    """None = auto: found by a pilot run."""
    variables: dict[str, str] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    allow_shell: bool = False
    """Scripts may run commands on the load host: \\shell and \\setshell."""

    @model_validator(mode="after")
    def _has_something_to_run(self) -> Workload:
        if not any(script.weight > 0 for script in self.scripts):
            raise ValueError("the weights of all scripts are 0: nothing would run")
        return self
