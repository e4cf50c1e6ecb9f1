"""The `[design]` table of a search for better settings."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from pgdyno.programs.program import Program
from pgdyno.programs.registry import types_by_name
from pgdyno.spec.base import DurationNs
from pgdyno.spec.condition import Condition, memory_limit_from, slo_from
from pgdyno.spec.designs import BudgetDesign, Metric, throughput_of
from pgdyno.spec.targets import SLO_METRICS, kept_condition, objection_to_type, slo_to_improve
from pgdyno.spec.variant import Variant


class TuneDesign(BudgetDesign):
    """A search for better settings; the first variant is the unchanged server.

    `settings`: what to search, such as "work_mem=1MB..64MB" or "jit=on,off". `now`: their present
    values, if these are neither PostgreSQL's defaults nor among the server's settings. `classes`:
    risks that are allowed in addition to the usual ones. `keep`: conditions on every run of a
    candidate; "memory<70%" limits the share of the RAM (`ram_bytes`) that its settings allow, and
    is checked before the candidate runs. `slo`, such as "p99=20ms": under a rate, and without
    `metric`, the goal is to lower this latency; otherwise the unchanged server and each run of a
    candidate must meet it. `major`: the server's version, if the spec does not name it. `rules`:
    values of published rules, which are tried early. `formula`: values of these rules that
    the answer names if they were not proved; `together`: those of them that are measured as one
    candidate, with usual values for unusual ones. `reasons`: how each value of `formula` was
    computed; `formula_of`: from which facts. `left_out`: settings that the first run speaks for,
    but whose class is not in `classes`, each with the reason. `checkpoint_every`: the time between
    two checkpoints that the load forces, if this was measured; None if it forces none.
    """

    kind: Literal["tune"] = "tune"
    needs_valid_runs: ClassVar[bool] = True
    long_ratio: ClassVar[float] = 0.2
    settings: Annotated[tuple[str, ...], Field(min_length=1, max_length=6)]
    now: dict[str, str] = Field(default_factory=dict)
    rules: dict[str, str] = Field(default_factory=dict)
    formula: dict[str, str] = Field(default_factory=dict)
    together: dict[str, str] = Field(default_factory=dict)
    reasons: dict[str, str] = Field(default_factory=dict)
    formula_of: str = ""
    left_out: dict[str, str] = Field(default_factory=dict)
    classes: tuple[str, ...] = ()
    keep: tuple[Annotated[str, AfterValidator(kept_condition)], ...] = ()
    slo: Annotated[str, AfterValidator(slo_to_improve)] | None = None
    ram_bytes: Annotated[int, Field(gt=0)] | None = None
    checkpoint_every_ns: Annotated[DurationNs, Field(gt=0)] | None = Field(
        default=None, alias="checkpoint_every"
    )
    major: int | None = None

    @model_validator(mode="after")
    def _memory_is_known(self) -> TuneDesign:
        if self.memory_limit_ratio is not None and self.ram_bytes is None:
            raise ValueError("a condition on memory needs ram_bytes, the memory of the server")
        return self

    @property
    def chosen_metric(self) -> Metric | None:
        """Return the chosen metric; a latency target needs runs by the clock."""
        if self.metric is not None or self.target is None:
            return self.metric
        if self.target.of:
            program, _ = types_by_name()[self.target.of]
            return throughput_of(program)
        return "tps"

    def metric_under(self, program: Program, *, has_rate: bool) -> Metric:
        """Return the deciding metric: under a rate, the latency of the target.

        The latency of a single transaction type is not a metric, so p99 of all decides.
        """
        if self.metric is None and self.target is not None:
            if has_rate:
                return "p99" if self.target.of else SLO_METRICS[self.target.name]
            if program.metrics:
                return throughput_of(program)
        return super().metric_under(program, has_rate=has_rate)

    def objection_to_scripts(self, program: Program) -> str:
        """Refuse the target of a transaction type that does not run."""
        return objection_to_type(self.slo, program) or super().objection_to_scripts(program)

    @property
    def target(self) -> Condition | None:
        """Return the target of `slo`, its limit in ms."""
        return None if self.slo is None else slo_from(self.slo)

    @property
    def memory_limit_ratio(self) -> float | None:
        """Return the smallest share of RAM that `keep` allows, None without such a condition."""
        limits = [memory_limit_from(text) for text in self.keep]
        return min((limit for limit in limits if limit is not None), default=None)

    def settings_searched(self) -> tuple[str, ...]:
        """Return the names of `settings`."""
        return tuple(text.partition("=")[0].strip().lower() for text in self.settings)

    def objection_to(self, given: tuple[Variant, ...]) -> str:
        """Refuse variants, because the tuning makes its own."""
        return f"a tuning makes its variants from settings, got {len(given)}" if given else ""

    def variants_of(self, given: tuple[Variant, ...]) -> tuple[Variant, ...]:  # noqa: ARG002
        """Return the unchanged server."""
        return (Variant(name="yours"),)
