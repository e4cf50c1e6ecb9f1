"""What the help of a verb says about programs: from the table of features, never by their names."""

from __future__ import annotations

from pgdyno.programs.registry import METRICS, PROGRAM_WORDS


def own_defaults() -> str:
    """Return the default metric of each program that has its own: "METRIC for PROGRAM"."""
    return "; ".join(f"{metrics[0].name} for {name}" for name, metrics in METRICS.items())


def type_targets() -> str:
    """Return a target of a transaction type of each program: "TYPE.p90=5s with PROGRAM"."""
    targets = [f"{words.target} with {name}" for name, words in PROGRAM_WORDS.items()]
    return ", ".join(targets) or "TYPE.p90=5s"


def clients_by_size() -> str:
    """Return how many clients think by default: "10 per warehouse if terminals think"."""
    return "; ".join(words.clients for words in PROGRAM_WORDS.values())


def client_options() -> tuple[str, ...]:
    """Return the option of each word that a program uses for clients: "--terminals"."""
    return tuple(words.option for words in PROGRAM_WORDS.values())


def program_field(name: str) -> str:
    """Return click's parameter name for an option of a built-in program."""
    return f"program_{name.replace('-', '_')}"
