"""What `pgdyno help` and `settings --explain` say about one setting."""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.errors import SpecError
from pgdyno.features.doctor.check_facts import CheckFacts
from pgdyno.features.tune.machine import machine_of
from pgdyno.features.tune.review import Review, review
from pgdyno.features.tune.review_text import entry_text
from pgdyno.features.tune.server_settings import Reviewed, read_file
from pgdyno.report.text_page import WIDTH
from pgdyno.settings.rule import MAJORS, nearest, snapshot


def about(word: str) -> str:
    """Return the text about a setting of a new server, "" if the word is not a setting."""
    name = next((name for name in snapshot(MAJORS[-1]) if name.lower() == word), "")
    if not name:
        return ""
    new = as_new(CheckFacts())
    text = explained(review(new, machine_of(new.facts, {}), is_file=True), name, WIDTH)
    more = f"pgdyno settings --explain {name} -h HOST shows the value of a server."
    return f"```\n{text}\n```\n\n{more}\n"


def as_new(facts: CheckFacts, major: int = MAJORS[-1]) -> Reviewed:
    """Return the settings of a new server, on this host if the facts are of a host."""
    here = f"a new PostgreSQL {major}" + (" on this host" if facts.host is not None else "")
    return read_file(Path(os.devnull), major, facts, target=here)


def explained(reviewed: Review, name: str, width: int) -> str:
    """Return the text about one setting. Raises: SpecError if the server does not have it."""
    known = reviewed.every
    # PostgreSQL finds names in any case, such as datestyle for DateStyle.
    asked = next((own for own in known if own.lower() == name.strip().lower()), None)
    if asked is None:
        like = nearest(name.lower(), list(known))
        meant = f"did you mean {like}?" if like else "SHOW ALL lists the settings of the server"
        raise SpecError(f"--explain {name}: no such setting is known here.", hint=meant)
    return entry_text(known[asked], reviewed.machine, width)
