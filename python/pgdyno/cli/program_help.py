"""What the help of a verb says about programs: from the table of programs, never by their names."""

from __future__ import annotations

from pgdyno.programs.registry import programs


def own_defaults() -> str:
    """Return the default metric of each program that has its own: "METRIC for PROGRAM"."""
    return "; ".join(
        f"{program.metrics[0].name} for {program.name}" for program in programs() if program.metrics
    )


def type_targets() -> str:
    """Return a target of a transaction type of each program: "TYPE.p90=5s with PROGRAM"."""
    targets = []
    for program in programs():
        limited = [kind for kind in program.types if kind.p90_limit_s is not None]
        for kind in limited[:1]:
            targets.append(f"{kind.name}.p90={kind.p90_limit_s:g}s with {program.name}")
    return ", ".join(targets)


def clients_by_size() -> str:
    """Return how many clients think by default: "10 per warehouse if terminals think"."""
    return "; ".join(
        f"{program.clients_per_size} per {program.size_word} if {program.client_word}s think"
        for program in programs()
        if program.clients_per_size is not None
    )


def client_options() -> tuple[str, ...]:
    """Return the option of each word that a program uses for clients: "--terminals"."""
    words = {f"--{program.client_word}s": None for program in programs()}
    return tuple(word for word in words if word != "--clients")


def program_field(name: str) -> str:
    """Return click's parameter name for an option of a built-in program."""
    return f"program_{name.replace('-', '_')}"
