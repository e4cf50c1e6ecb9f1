"""What the clients do, how many clients there are, and how long they work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from pgdyno.errors import SpecError
from pgdyno.programs.registry import FILE_PROGRAM, part_of_files, program_named
from pgdyno.quantities import is_whole
from pgdyno.spec.base import SECOND_NS, DurationNs, Spec
from pgdyno.spec.hosts import hosts_from
from pgdyno.spec.rate import Rate, rate_from
from pgdyno.user_file import read_text

# The engine knows the built-ins (`pgdyno-engine facts`).
DEFAULT_SCRIPT_SCRATCH = "tpcb-like"
DEFAULT_SCRIPT_FOREIGN = "select-only"
# The largest number of threads that the engine chooses by itself.
_THREADS_MAX = 8
_BUILTIN_NAME = re.compile(r"[a-z][a-z0-9-]*")
_VARIABLE = re.compile(r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*")
Protocol = Literal["simple", "extended", "prepared"]
# The engine keeps a weight in 32 bits.
_WEIGHT_MAX = 2**32 - 1


def weight_from(text: str, *, of: str) -> int:
    """Return the weight of a script, given as digits. Raises: SpecError if it is too large."""
    if int(text) > _WEIGHT_MAX:
        raise SpecError(
            f"{of}: the weight must be at most {_WEIGHT_MAX}, got {text}.",
            hint="only the ratio of the weights counts: choose smaller ones",
        )
    return int(text)


class Script(Spec):
    """One script of the mix: the name of a built-in, or a file with its text.

    `capture`: the file of a capture, for the built-in `mirror`; `reads_only`: only its transactions
    that read are run; `only` and `without`: numbers or texts of its statements. `adapted`: what its
    program changes after it has looked at the database.
    """

    builtin: str | None = None
    file: Path | None = None
    capture: Path | None = None
    reads_only: bool = False
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    adapted: dict[str, Any] = Field(default_factory=dict, exclude=True)
    text: str | None = Field(default=None, exclude=True)
    weight: Annotated[int, Field(ge=0, le=_WEIGHT_MAX)] = 1
    options: dict[str, str] = Field(default_factory=dict)
    """Options of a native built-in; the engine knows their names and values."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Script:
        if (self.builtin is None) == (self.file is None):
            raise ValueError("exactly one of builtin and file must be given")
        if (self.builtin == FILE_PROGRAM) != (self.capture is not None) and (
            FILE_PROGRAM is not None or self.capture is not None
        ):
            raise ValueError(
                f"capture = FILE needs builtin = {FILE_PROGRAM!r}, and the other way round"
            )
        if self.reads_only and self.capture is None:
            raise ValueError("reads_only needs a capture: pgdyno cannot divide other scripts")
        if (self.only or self.without) and self.capture is None:
            raise ValueError("only and without need a capture: pgdyno cannot divide other scripts")
        return self

    @property
    def name(self) -> str:
        """Return the name shown in results."""
        return self.builtin or str(self.file)


def is_recorded(rate: object) -> bool:
    """Return whether a rate names recorded arrivals, such as "2x", and not a number."""
    part = part_of_files("recorded") if isinstance(rate, str) else None
    return part is not None and bool(part.is_recorded(rate))


def with_recorded_rate(
    rate: str, scripts: Sequence[Any], duration: str | None
) -> tuple[str, tuple[Script, ...]]:
    """Return the recorded arrivals of the load's capture for a rate such as `2x`; and the scripts.

    A script whose file has the times of its transactions gets the options for them.
    Args: scripts, each a Script or the fields of one. Raises: SpecError, ValidationError.
    """
    part = part_of_files("recorded")
    assert part is not None, "a rate is recorded only if a program reads files"
    made = [Script.model_validate(script) for script in scripts]
    captures = [script.capture for script in made if script.capture is not None]
    phases = part.rate_of(rate, captures, duration)
    options = part.options_of(rate, captures[0])
    return phases, tuple(
        script.model_copy(update={"options": {**script.options, **options}})
        if script.capture is not None
        else script
        for script in made
    )


def _rate(value: object) -> Rate:
    try:
        return rate_from(value)
    except SpecError as error:
        raise ValueError(f"{error.message} {error.hint}".strip()) from error


def _rate_text(rate: Rate) -> float | str:
    return rate.phases[0].from_tps if rate.is_constant else rate.text


class Workload(Spec):
    """What the clients do, how many clients there are, and how long they work."""

    scripts: tuple[Script, ...]
    clients: Annotated[int, Field(ge=1, le=100_000)] = 1
    rate: (
        Annotated[
            Rate, BeforeValidator(_rate), PlainSerializer(_rate_text, return_type=float | str)
        ]
        | None
    ) = None
    latency_limit_ns: Annotated[DurationNs, Field(gt=0)] | None = Field(
        default=None, alias="latency_limit"
    )
    """A transaction that takes longer is late: it is counted, and never skipped."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    hosts: str | None = None
    """The hosts that make the load: local:4, a,b,c or tls://SCHEDULER:8786; None: this one."""
    protocol: Protocol = "simple"
    duration_ns: Annotated[DurationNs, Field(gt=0)] = Field(
        default=60 * SECOND_NS, alias="duration"
    )
    transactions_per_client: Annotated[int, Field(ge=1)] | None = None
    warmup_ns: DurationNs | None = Field(default=None, alias="warmup")
    """None = auto: a pilot run finds it; bench has no pilot."""
    variables: dict[str, str] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    order_seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """Of the order of runs. None: drawn for each experiment."""
    think_ratio: float = Field(default=0.0, ge=0.0, le=1.0, allow_inf_nan=False)
    """Keying and thinking times of native built-ins are multiplied by this."""
    allow_shell: bool = False
    """Allow \\shell and \\setshell, which run commands on the load host."""
    idle_connections: Annotated[int, Field(ge=0, le=1_000_000)] = Field(default=0, alias="idle")
    """Idle connections, in addition to those of the clients; pgdyno checks them at the end."""
    active_connections: int | None = Field(default=None, ge=1, alias="active")
    """Number of connections that the clients share, one transaction at a time; None: no sharing."""
    connect_rate_per_second: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, alias="connect_rate"
    )
    connect_each_transaction: bool = False
    servers_in_turns: bool = False
    """Connections use the servers of the connection string in turns; without it, the servers are
    alternatives."""

    @property
    def rate_tps(self) -> float | None:
        """Return the mean rate offered while measuring; None for a closed loop."""
        return None if self.rate is None else self.rate.mean_tps(self.duration_ns)

    @field_validator("hosts")
    @classmethod
    def _hosts_are_named(cls, text: str | None) -> str | None:
        return None if text is None else hosts_from(text).text

    @model_validator(mode="before")
    @classmethod
    def _auto_is_no_time(cls, given: object) -> object:
        """Accept `warmup = "auto"`, which is the default."""
        if isinstance(given, dict) and given.get("warmup") == "auto":
            return {name: value for name, value in given.items() if name != "warmup"}
        return given

    @model_validator(mode="before")
    @classmethod
    def _phases_say_how_long(cls, given: object) -> object:
        """Measure for the whole length of the rate's phases, unless a duration is given."""
        if not isinstance(given, dict) or given.get("rate") is None or given.get("duration"):
            return given
        try:
            length_ns = rate_from(given["rate"]).length_ns
        except SpecError:
            return given  # The field itself reports the error.
        return given if length_ns is None else {**given, "duration": f"{length_ns}ns"}

    @model_validator(mode="before")
    @classmethod
    def _rates_may_be_recorded(cls, given: object) -> object:
        """Replace a rate such as `2x` by the recorded arrivals of the capture.

        Subtle: of these functions, the last one is called first.
        """
        if not isinstance(given, dict) or not is_recorded(given.get("rate")):
            return given
        scripts = given.get("scripts")
        scripts = scripts if isinstance(scripts, (list, tuple)) else ()
        try:
            rate, made = with_recorded_rate(given["rate"], scripts, given.get("duration"))
            return {**given, "rate": rate, "scripts": made}
        except SpecError as error:
            raise ValueError(f"{error.message} {error.hint}".strip()) from error

    @model_validator(mode="before")
    @classmethod
    def _programs_are_prepared(cls, given: object) -> object:
        """Choose the default protocol of the first program that has another than scripts."""
        if not isinstance(given, dict) or given.get("protocol") is not None:
            return given
        scripts = given.get("scripts")
        scripts = scripts if isinstance(scripts, (list, tuple)) else ()
        names = [
            script.get("builtin") if isinstance(script, dict) else script.builtin
            for script in scripts
        ]
        usual = program_named(None).protocol
        own = [program_named(name).protocol for name in names]
        return {**given, "protocol": next((name for name in own if name != usual), usual)}

    @model_validator(mode="after")
    def _variables_have_names(self) -> Workload:
        wrong = [name for name in self.variables if not _VARIABLE.fullmatch(name)]
        if wrong:
            raise ValueError(
                f"{wrong[0]!r} is not the name of a variable: letters, digits and _ are allowed,"
                " and the first is not a digit"
            )
        return self

    @model_validator(mode="after")
    def _phases_fit(self) -> Workload:
        if self.rate is None or self.rate.is_constant:
            return self
        if self.transactions_per_client is not None:
            raise ValueError(
                "the phases of a rate set the duration: remove the number of transactions"
            )
        begun_ns = sum(phase.duration_ns or 0 for phase in self.rate.phases)
        if begun_ns > self.duration_ns:
            raise ValueError(
                f"the phases of rate {self.rate.text} last {begun_ns / 1e9:g} s, but "
                f"the duration is {self.duration_ns / 1e9:g} s: remove the duration"
            )
        return self

    @model_validator(mode="after")
    def _has_something_to_run(self) -> Workload:
        if not self.scripts:
            raise ValueError("no script is given: at least one is needed")
        if not any(script.weight > 0 for script in self.scripts):
            raise ValueError("the weights of all scripts are 0, so nothing would run")
        if self.active_connections is not None and self.connect_each_transaction:
            raise ValueError(
                "active and connect_each_transaction (-C) exclude each other: a shared "
                "connection cannot be new for each transaction"
            )
        return self

    def connections_of(self, clients: int) -> int:
        """Return how many connections a load opens at most, idle and background ones included."""
        return (
            self.working_connections(clients)
            + self.background_connections(clients)
            + self.idle_connections
        )

    def working_connections(self, clients: int) -> int:
        """Return on how many connections this number of clients works."""
        return min(clients, self.active_connections or clients)

    @property
    def background_words(self) -> str:
        """Return the work that the scripts leave to the background in words; "" for none."""
        return background_words(self.scripts)

    def background_connections(self, clients: int) -> int:
        """Return how many connections the load opens at most for work in the background.

        If the number of connections is given, the background uses those of the clients, so the
        result is 0. The number of threads is at most 8, unless the user asks for more.
        """
        if self.active_connections is not None:
            return 0
        threads = min(clients, self.threads or _THREADS_MAX)
        return background_terminals(self.scripts, clients, threads)


def background_words(scripts: Sequence[Script]) -> str:
    """Return the work that these scripts leave to the background in words; "" for none."""
    for script in scripts:
        program = program_named(script.builtin)
        if script.weight > 0 and program.defers(script.options) and program.background:
            return program.background.words
    return ""


def background_terminals(scripts: Sequence[Script], connections: int, threads: int) -> int:
    """Return how many terminals do the work that these scripts leave to the background.

    There is one for each five connections of the clients, and at least one for each thread of the
    engine, because each thread has a queue of such work. 0 if there is no such work.
    """
    return max(-(-connections // 5), threads) if background_words(scripts) else 0


def default_script(*, is_scratch: bool) -> Script:
    """Return the default script: on the user's own server it only reads."""
    return Script(builtin=DEFAULT_SCRIPT_SCRATCH if is_scratch else DEFAULT_SCRIPT_FOREIGN)


def script_named(text: str) -> Script:
    """Parse `tpcb-like`, `orders.sql`, or either of them with a weight: `orders.sql@3`.

    If no file has the name, it belongs to a built-in; the engine checks it with all other scripts.
    A file whose name ends in `.capture` is a capture.
    Raises: SpecError if the text is neither the name of a built-in nor a readable file.
    """
    name, at, weight = text.rpartition("@")
    if not at or not is_whole(weight):
        name, weight = text, "1"
    path = Path(name)
    if not path.exists():
        if _BUILTIN_NAME.fullmatch(name):
            return Script(builtin=name, weight=weight_from(weight, of=text))
        raise SpecError(
            f"There is no script {name!r}: neither a built-in nor a file has that name.",
            hint="use a file, or a built-in (-b list shows them)",
        )
    number = weight_from(weight, of=text)
    if path.suffix == ".capture":
        return Script(builtin=FILE_PROGRAM, capture=path.absolute(), weight=number)
    return Script(file=path.absolute(), text=read_text(path), weight=number)
