"""Take passwords out of everything that is about to be written into a results folder.

The callers leave secrets out in the first place; this is the second lock on the same door.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"

_SECRET_KEYS = frozenset({"password", "passwd", "sslpassword", "pgpassword", "passfile", "secret"})
_MASKED: tuple[tuple[re.Pattern[str], str], ...] = (
    # postgres://user:secret@host. A password may hold "/" or "@": mask up to the last "@" of the
    # word, rather than leave half of one.
    (re.compile(r"(?i)\b(postgres(?:ql)?://[^\s:/@\"']*):[^\s\"']*@"), rf"\1:{MASK}@"),
    # password=secret and password='a secret', in a conninfo string, a URI query or a setting;
    # a space around "=" is allowed, as libpq allows it.
    (
        re.compile(r"(?i)\b((?:ssl)?password\s*=\s*)('(?:\\.|[^'\\])*'|(?:\\.|[^\s&;\"'\\])+)"),
        rf"\1{MASK}",
    ),
    # CREATE ROLE r PASSWORD 'secret'
    (re.compile(r"(?i)\b(password\s+)E?'(?:''|[^'])*'"), rf"\1'{MASK}'"),
)


def masked_text(text: str) -> str:
    """Return `text` with the passwords of connection strings and role statements masked."""
    if "password" not in text.lower() and "://" not in text:
        return text
    for pattern, replacement in _MASKED:
        text = pattern.sub(replacement, text)
    return text


def without_secrets(value: Any) -> Any:
    """Return a copy of a JSON value without secret keys, and with every string masked."""
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, Mapping):
        return {
            key: without_secrets(item)
            for key, item in value.items()
            if str(key).lower() not in _SECRET_KEYS
        }
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value
