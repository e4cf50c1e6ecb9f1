"""Which settings are worth a search, by the evidence of a measured run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from pgdyno.features.tune.space import DEFAULT_RISKS, SETTINGS_MAX
from pgdyno.settings.formula import Machine
from pgdyno.settings.rule import rule_of
from pgdyno.settings.table import EVIDENCE, Risk, accepted_values, catalogue
from pgdyno.settings.value import amount, defaults_of

# Evidence -> the settings that may help, the most promising first.
_SETTINGS: dict[str, tuple[str, ...]] = {
    "forced_checkpoints": ("max_wal_size", "checkpoint_timeout"),
    "full_page_images": ("max_wal_size", "wal_compression", "checkpoint_timeout"),
    "temporary_bytes": ("work_mem", "hash_mem_multiplier"),
    "sequential_scans": ("random_page_cost", "effective_cache_size"),
    "buffer_misses": ("shared_buffers", "effective_io_concurrency"),
    "read_waits": ("shared_buffers", "effective_io_concurrency", "io_workers"),
    "wal_flush": ("wal_compression", "wal_buffers", "commit_delay", "synchronous_commit"),
    "wal_buffers_full": ("wal_buffers",),
    "backend_writes": ("shared_buffers", "bgwriter_lru_maxpages", "bgwriter_delay"),
    "lock_waits": ("deadlock_timeout",),
    "jit_time": ("jit", "jit_above_cost"),
}
_STRONG = 0.1
# More than all evidence together: a value that the doctor would report is tried first.
_UNUSUAL = 10.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence from a run.

    `kind`: a key of `catalogue.EVIDENCE`. `strength_ratio`: 0..1. `words`: such as "31 % of WAL".
    """

    kind: str
    strength_ratio: float
    words: str

    @property
    def text(self) -> str:
        """Return the whole sentence."""
        return f"{EVIDENCE[self.kind]}: {self.words}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A setting to search, with the reason."""

    setting: str
    why: str


def choose(
    evidence: Iterable[Evidence],
    machine: Machine,
    risks: Iterable[Risk] = DEFAULT_RISKS,
    *,
    unusual: Iterable[Chosen] = (),
) -> tuple[Chosen, ...]:
    """Return at most six settings to search, those with the strongest evidence first.

    Args: unusual, settings whose present value costs time on every server; they come first.

    If several pieces of evidence are for a setting, their strengths are added up. Settings that
    this version does not have, that need a new cluster, or whose risk is not allowed are left out.
    A setting without evidence is not searched.
    """
    allowed = frozenset(risks)
    scores: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for choice in unusual:
        if _is_possible(choice.setting, machine, allowed):
            scores[choice.setting], reasons[choice.setting] = _UNUSUAL, choice.why
    for piece in sorted(evidence, key=lambda piece: -piece.strength_ratio):
        for place, setting in enumerate(_SETTINGS.get(piece.kind, ())):
            if piece.strength_ratio < _STRONG or not _is_possible(setting, machine, allowed):
                continue
            scores[setting] = scores.get(setting, 0.0) + piece.strength_ratio / (1 + place)
            reasons.setdefault(setting, piece.text)
    ranked = sorted(scores, key=lambda setting: -scores[setting])[:SETTINGS_MAX]
    return tuple(Chosen(setting, reasons[setting]) for setting in ranked)


def not_allowed(
    evidence: Iterable[Evidence], machine: Machine, risks: Iterable[Risk] = DEFAULT_RISKS
) -> Iterator[Chosen]:
    """Yield the settings that evidence speaks for, but whose class is not allowed."""
    allowed = frozenset(risks)
    for piece in evidence:
        for name in _SETTINGS.get(piece.kind, ()) if piece.strength_ratio >= _STRONG else ():
            entry = catalogue()[name]
            if entry.risk not in allowed and _is_possible(name, machine, {entry.risk}):
                why = f"{piece.text}. {entry.price} --class {entry.risk} searches it"
                yield Chosen(name, why)


def unusual_values(now: Mapping[str, str], major: int) -> Iterator[Chosen]:
    """Yield the settings whose present value needs attention on every server."""
    defaults = defaults_of(major)
    for name, text in now.items():
        accepted, rule = accepted_values().get(name.lower()), rule_of(name, major)
        if accepted is None or rule is None or text == defaults.get(name):
            continue
        if not accepted.has(rule, text):
            yield Chosen(name, f"it is {text}, and usual values are {accepted.shown}")


def small_cache(
    evidence: Iterable[Evidence], now: Mapping[str, str], machine: Machine
) -> Iterator[Chosen]:
    """Yield shared_buffers if the data is larger, and the memory at least eight times as large.

    Pages must have been read: the part of the data that the load uses may be small.
    """
    rule, name = rule_of("shared_buffers", machine.major), "shared_buffers"
    cache_bytes = amount(rule, now[name]) if rule is not None else None
    missed = next((piece for piece in evidence if piece.kind == "buffer_misses"), None)
    if missed is None or not cache_bytes or 8 * cache_bytes > (machine.ram_bytes or 0):
        return
    if (times := (machine.database_bytes or 0) / cache_bytes) > 1:
        yield Chosen(name, f"the data is {times:.1f} times its size, and it lacked {missed.words}")


def choosable(machine: Machine, risks: Iterable[Risk] = DEFAULT_RISKS) -> tuple[Chosen, ...]:
    """Return every setting that `choose` may return, each with the evidence that it needs."""
    allowed = frozenset(risks)
    reasons: dict[str, list[str]] = {}
    for evidence, settings in _SETTINGS.items():
        for setting in settings:
            reasons.setdefault(setting, []).append(EVIDENCE[evidence])
    return tuple(
        Chosen(setting, ", or ".join(words))
        for setting, words in reasons.items()
        if _is_possible(setting, machine, allowed)
    )


def _is_possible(setting: str, machine: Machine, allowed: Set[Risk]) -> bool:
    entry, rule = catalogue().get(setting), rule_of(setting, machine.major)
    if entry is None or rule is None or rule.needs == "new cluster":
        return False
    return entry.risk in allowed
