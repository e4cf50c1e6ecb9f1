"""The hosts that make the load, as the user names them; nothing is connected here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgdyno.quantities import is_whole

HOSTS_MAX = 256
_NAME = re.compile(r"(?:[A-Za-z0-9_.-]+@)?[A-Za-z0-9][A-Za-z0-9_.:-]*")


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where load comes from: workers here, hosts by ssh, or the cluster of a scheduler."""

    text: str
    local_count: int = 0
    names: tuple[str, ...] = ()
    scheduler: str = ""


def hosts_from(text: str) -> Hosts:
    """Return the hosts of "local:4", "a,b,c" or "tls://scheduler:8786".

    Raises: ValueError with the rule.
    """
    if text.startswith("local:"):
        count = text.removeprefix("local:")
        if not is_whole(count) or not 1 <= int(count) <= HOSTS_MAX:
            raise ValueError(f"local:N needs a number from 1 to {HOSTS_MAX}, got {text!r}")
        return Hosts(text, local_count=int(count))
    if "://" in text:
        if not re.fullmatch(r"tls://[^\s/]+:[0-9]+/?", text):
            raise ValueError(
                f"the address of a scheduler must be tls://HOST:PORT, got {text!r}: a scheduler "
                "without TLS runs the code of anybody"
            )
        return Hosts(text, scheduler=text.rstrip("/"))
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a load host, as in a,user@b or local:4")
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"the load host {doubled[0]} is named twice")
    if len(names) > HOSTS_MAX:
        raise ValueError(f"at most {HOSTS_MAX} load hosts can share a load, got {len(names)}")
    return Hosts(text, names=names)
