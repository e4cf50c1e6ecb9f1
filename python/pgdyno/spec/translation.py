"""Turns a file of another tool into an experiment, and lists the keys that it cannot use.

Shared by the readers of files, which lie in the folders of the programs that they translate to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from pgdyno.errors import SpecError
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.workload import Script

_WEIGHT_MAX = 255
_ON = ("1", "true", "on", "yes")
_OFF = ("0", "false", "off", "no")


@dataclass(frozen=True, slots=True)
class Note:
    """One key of the file that the experiment could not take over; `words` give the reason."""

    key: str
    value: str
    words: str

    def __str__(self) -> str:
        """Return the line that a person reads."""
        return (
            f"{self.key} = {self.value}: {self.words}"
            if self.value
            else f"{self.key}: {self.words}"
        )


@dataclass(frozen=True, slots=True)
class Translated:
    """An experiment made from a file of another tool, and notes on what does not correspond."""

    tool: str
    experiment: Experiment
    notes: tuple[Note, ...]


@dataclass(slots=True)
class Keys:
    """The keys of a file. A reader takes the keys that it uses; each other key becomes a note.

    `path` is shown in errors. `explained` has the reasons for keys that have no counterpart.
    `lines`: where the keys are, if a note shall say it.
    """

    tool: str
    path: str
    values: Mapping[str, str]
    explained: Mapping[str, str]
    notes: list[Note] = field(default_factory=list)
    lines: Mapping[str, int] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def text(self, key: str) -> str | None:
        """Return the value of a key, None without one."""
        self._taken.add(key)
        return self.values.get(key) or None

    def number(self, key: str, *, least: float = 0) -> float | None:
        """Return the value as a number. Raises: SpecError for other text and below `least`."""
        given = self.text(key)
        if given is None:
            return None
        try:
            number = float(given)
        except ValueError:
            number = float("nan")
        if not least <= number < 1e12:
            raise SpecError(
                f"{self._place(key)}: {key} must be a number, at least {least:g}, got {given!r}.",
                hint=f"correct the line, or remove it if {self.tool} does not need it",
            )
        return number

    def count(self, key: str, *, least: int = 0) -> int | None:
        """Return the value as a whole number. Raises: SpecError for anything else."""
        number = self.number(key, least=least)
        if number is not None and number != int(number):
            raise SpecError(
                f"{self._place(key)}: {key} must be a whole number, got {self.values[key]!r}.",
                hint="correct the line",
            )
        return None if number is None else int(number)

    def flag(self, key: str) -> bool | None:
        """Return the value as true or false. Raises: SpecError if it is neither."""
        given = self.text(key)
        if given is None or given.lower() in (*_ON, *_OFF):
            return None if given is None else given.lower() in _ON
        raise SpecError(
            f"{self._place(key)}: {key} must be true or false, got {given!r}.",
            hint="correct the line",
        )

    def _place(self, key: str) -> str:
        """Return where a key is, for an error."""
        line = self.lines.get(key)
        return self.path if line is None else f"{self.path}, line {line}"

    def note(self, key: str, words: str) -> None:
        """Keep the reason why the experiment could not take over a key."""
        if key in self.values:
            self.notes.append(Note(key, self.values[key], words))

    def missing(self, key: str, used: str) -> str:
        """Return the value that is used for a key that the tool needs and the file lacks."""
        words = f"the file lacks this key, which {self.tool} needs; pgdyno uses {used}."
        self.notes.append(Note(key, "", words))
        return used

    def all_notes(self) -> tuple[Note, ...]:
        """Return the notes, and a note for each key that no reader took; passwords are masked."""
        left = [key for key in self.values if key not in self._taken]
        unknown = f"pgdyno does not know this key of {self.tool}."
        rest = [Note(key, self.values[key], self.explained.get(key, unknown)) for key in left]
        return tuple(map(self._shown, (*self.notes, *rest)))

    def _shown(self, note: Note) -> Note:
        """Return a note with the line of its key, and without a password."""
        line = self.lines.get(note.key)
        has_line = line is None or note.words.startswith("line ")
        words = note.words if has_line else f"line {line}: {note.words}"
        return Note(note.key, "***" if _is_secret(note.key) else note.value, words)


def _is_secret(key: str) -> bool:
    return key.lower().endswith(("pass", "password"))


def dsn_of(
    *,
    host: str,
    port: str | None,
    user: str | None,
    database: str | None,
    parameters: Mapping[str, str | None] | None = None,
) -> str:
    """Return a connection URI without a password.

    Args: host, a name, an address, the folder of a socket, or several `host:port` with commas;
    database, None for the usual one; parameters, further ones of libpq; None leaves one out.
    """
    who = f"{quote(user, safe='')}@" if user else ""
    further = {"host": host if host.startswith("/") else None, **(parameters or {})}
    # A folder cannot be in the place of the host; then the port cannot be there, either.
    further["port"] = port if host.startswith("/") else None
    where = "" if host.startswith("/") else f"[{host}]" if _is_bare_ipv6(host) else host
    where += f":{port}" if port and where else ""
    given = "&".join(f"{key}={quote(value, safe='/')}" for key, value in further.items() if value)
    path = f"/{quote(database, safe='')}" if database else "/"
    return f"postgresql://{who}{where}{path}{'?' if given else ''}{given}"


def _is_bare_ipv6(host: str) -> bool:
    return host.count(":") > 1 and "," not in host and not host.startswith("[")


def mix_of(shares: Mapping[str, float]) -> dict[str, str]:
    """Return the options that draw each type independently, with these shares.

    Args: shares, relative, by the name of each type; above 0.
    """
    most = max(shares.values())
    # Whole numbers up to 255: 44.2, 43.2 and 4.2 % become 221, 216 and 21.
    factors = [float(n) for n in range(1, 256) if n * most <= _WEIGHT_MAX]
    factors = factors or [_WEIGHT_MAX / most]
    factor = min(factors, key=lambda n: (round(_error_of(shares, n), 3), n))
    weights = {name: max(1, round(share * factor)) for name, share in shares.items()}
    return {"mix": "weights", **{f"{name}-weight": str(w) for name, w in weights.items()}}


def _error_of(shares: Mapping[str, float], factor: float) -> float:
    """Return the largest relative error of a share after rounding."""
    return max(abs(round(s * factor) - s * factor) / (s * factor) for s in shares.values())


def experiment_from(
    keys: Keys,
    *,
    dataset: Mapping[str, Any],
    dsn: str | None,
    script: Script,
    workload: Mapping[str, Any],
    design: Mapping[str, Any] | None = None,
) -> Experiment:
    """Return the experiment of a file.

    Args: dataset, of a scratch server; dsn, the server (None: a scratch server); script, the
    built-in program with its options; workload and design, the fields that the file sets.
    Raises: SpecError with the file and every rule that the experiment breaks.
    """
    server: dict[str, Any] = {"scratch": {}} if dsn is None else {"dsn": dsn}
    try:
        return Experiment.model_validate(
            {
                "name": f"{script.name}, from {keys.path}",
                "server": server,
                "dataset": dict(dataset) if dsn is None else {"kind": "existing"},
                "workload": {"scripts": (script,), "protocol": "prepared", **workload},
                "design": {"kind": "bench", **(design or {})},
            }
        )
    except ValidationError as error:
        rules = "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg'].removeprefix('Value error, ')}"
            for item in error.errors()
        )
        raise SpecError(
            f"{keys.path} describes an impossible experiment: {rules}.",
            hint="correct these values in the file",
        ) from None
