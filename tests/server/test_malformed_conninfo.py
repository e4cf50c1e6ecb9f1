"""No part of a password is shown, however its connection string is malformed."""

from __future__ import annotations

import re
import string

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pgdyno.errors import SpecError
from pgdyno.redaction import redacted
from pgdyno.server.conninfo import resolve

# Letters that no message of libpq or pgdyno has in this order, and every character with a meaning.
_PIECE = st.text(alphabet="QXZJ", min_size=3, max_size=6)
_BETWEEN = st.text(alphabet="@:/?&=#%'\"\\ ,[]", min_size=1, max_size=3)
_PASSWORDS = st.lists(st.tuples(_PIECE, _BETWEEN), min_size=1, max_size=3)
_FORMS = (
    "postgres://u:{}@host",
    "postgresql://u:{}@host:5432/db",
    "postgresql://u:{}@host/db?sslmode=prefer",
    "postgres://u:{}",
    "postgresql://host/db?password={}",
    "postgresql://host/db?user=u&password={}&sslmode=prefer",
    "postgress://u:{}@host/db",
    " postgresql://u:{}@host/db",
    "password={}",
    "password={} host=h",
    "host=h password={} user=u",
    "host=h password='{} user=u",
    "host=h password= '{}' user=u",
    "host=h user=u password={}",
)


def shown_of(text: str) -> str:
    """Return all that a user would see of a connection string: the error, or the place."""
    try:
        resolved = resolve(conninfo=text)
    except SpecError as error:
        return f"{error.message} {error.hint} {error}"
    target = resolved.target
    return f"{target.place} {target.as_document()} {resolved.conninfo} {target!r}"


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(_FORMS), _PASSWORDS)
def test_no_part_of_a_password_is_shown(form: str, parts: list[tuple[str, str]]) -> None:
    password = "".join(piece + between for piece, between in parts)
    text = form.format(password)
    # What follows the last @ is the host, if the form has no other one, and nobody can know better.
    assume(form != "postgres://u:{}" or not re.search("@[^@]*[QXZJ]", password))
    shown = shown_of(text)
    for piece, _ in parts:
        assert piece not in shown, (text, shown)


def test_examples_of_halves_of_a_password() -> None:
    for text in (
        "postgres://u:Two@at:pw@host",
        "postgresql://u:Two/slash@host/db",
        "password=Two words",
        "host=h password=Two words=Three",
        "postgres://u:TwoThree",
        "passwordTwo",
    ):
        shown = shown_of(text)
        for part in ("Two", "at:pw", "slash", "words", "Three"):
            assert part not in shown, (text, shown)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(_FORMS[:3]), _PASSWORDS)
def test_a_whole_uri_is_kept_without_its_password(form: str, parts: list[tuple[str, str]]) -> None:
    password = "".join(piece + between for piece, between in parts)
    kept = redacted(form.format(password))
    assert all(piece not in kept for piece, _ in parts), kept


def test_every_letter_of_the_pieces_is_absent_from_messages() -> None:
    assert set("QXZJ") <= set(string.ascii_uppercase)
