"""The look of each series and part in a report: colour, dash, marker and hatch.

`assets/light.css` and `dark.css` have the colours. This module has their names, and the dashes
and markers that distinguish series without colour. `CPU`, a wait class, a percentile or the network
looks the same in every bar, chart and table of a report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

Marker = Literal["circle", "triangle", "rect", "diamond", "none"]
WaitClass = Literal["cpu", "io", "lwlock", "lock", "network", "client", "other", "residual"]

WAIT_CLASS_NAMES: dict[WaitClass, str] = {
    "cpu": "server CPU",
    "io": "disk and WAL (IO)",
    "lwlock": "internal locks (LWLock)",
    "lock": "row and table locks (Lock)",
    "network": "network",
    "client": "client",
    "other": "other waits",
    "residual": "not explained",
}
"""The order of these classes in bars and stacks."""

_CLASS_BY_PREFIX: dict[str, WaitClass] = {
    "IO": "io",
    "LWLock": "lwlock",
    "Lock": "lock",
    "Client": "network",
}
_CLASS_BY_NAME: dict[str, WaitClass] = {
    "cpu": "cpu",
    "server": "cpu",
    "server cpu": "cpu",
    "waiting for a core": "cpu",
    "cpu or not instrumented": "cpu",
    "other nodes": "cpu",
    "between nodes, or not instrumented": "network",
    "network": "network",
    "client": "client",
    "waiting for the load engine": "client",
    "schedule lag": "client",
    "wait for a connection": "client",
    "wait for a pooled session": "client",
    "not explained": "residual",
    "residual": "residual",
}
# The parts that most reports show, so they get their shades first.
_USUAL = (
    *("cpu", "waiting for a core", "cpu or not instrumented"),
    *("io:walsync", "io:datafileread", "lwlock:walwrite", "lock:transactionid", "lock:tuple"),
)
SHADES = 3  # looks of one class in one chart; further parts share the last look


@dataclass(frozen=True, slots=True)
class Role:
    """A look. `css`: the name of a colour. `dash`: (drawn, gap, ...) in pixels, () = solid."""

    css: str
    dash: tuple[int, ...] = ()
    marker: Marker = "circle"


SEQUENCE = (
    Role("s1", (), "circle"),
    Role("s2", (7, 3), "triangle"),
    Role("s3", (2, 3), "rect"),
    Role("s4", (9, 3, 2, 3), "diamond"),
    Role("s5", (4, 2), "circle"),
    Role("s6", (12, 4), "triangle"),
)
_FIXED: dict[str, Role] = {
    "tps": SEQUENCE[0],
    "completed": SEQUENCE[0],
    "failed": Role("lock", (2, 2), "diamond"),
    "p50": SEQUENCE[0],
    "mean": Role("s6", (12, 4), "none"),
    "p90": Role("s5", (4, 2), "circle"),
    "p95": Role("s3", (7, 3), "rect"),
    "p99": Role("s2", (2, 2), "triangle"),
    "p99.9": Role("s4", (9, 3, 2, 3), "diamond"),
    "p999": Role("s4", (9, 3, 2, 3), "diamond"),
    "max": Role("s6", (1, 3), "none"),
    "user": Role("cpu", (), "circle"),
    "system": Role("io", (7, 3), "triangle"),
    "interrupts": Role("other", (2, 3), "rect"),
    "waiting for i/o": Role("lock", (2, 3), "rect"),
    "stolen": Role("lwlock", (9, 3, 2, 3), "diamond"),
    "backends of the load": Role("cpu", (), "circle"),
    "server's other processes": Role("cpu-2", (7, 3), "triangle"),
    "observer's backends": Role("residual", (2, 3), "rect"),
    "load engine": Role("client", (9, 3, 2, 3), "diamond"),
    "pgdyno itself": Role("client-2", (4, 2), "circle"),
    "read": Role("s3", (7, 3), "rect"),
    "write": SEQUENCE[0],
    "written": SEQUENCE[0],
    "flush": Role("s2", (2, 2), "triangle"),
}
"""Series that mean the same thing in every report, by their names in lower case."""

MODEL_DASH = (5, 4)
_SHADE_DASHES: tuple[tuple[int, ...], ...] = ((), (7, 3), (2, 3))


def wait_class(name: str) -> WaitClass:
    """Return the class of a part of the latency or of a wait event such as "IO:WalSync"."""
    by_name = _CLASS_BY_NAME.get(name.strip().lower())
    if by_name:
        return by_name
    return _CLASS_BY_PREFIX.get(name.split(":", 1)[0].strip(), "other")


def is_wait(name: str) -> bool:
    """Return whether `name` is a wait event or another part of a transaction's time."""
    return wait_class(name) != "other" or ":" in name


def role_of(name: str, position: int) -> Role:
    """Return the look of a series: by its name if known, else by its place in the chart."""
    return _FIXED.get(name.strip().lower()) or at(position)


def at(position: int) -> Role:
    """Return the look at a place; the seventh has the colour of the first, but another dash."""
    turn, place = divmod(position, len(SEQUENCE))
    dashed, marked = (SEQUENCE[(place + step * turn) % len(SEQUENCE)] for step in (1, 2))
    return Role(SEQUENCE[place].css, dashed.dash, marked.marker)


def shade(wait: WaitClass, index: int) -> Role:
    """Return the look of the `index`-th part of one class in one chart: same hue, other shade."""
    index = min(index, SHADES - 1)
    css = wait if index == 0 else f"{wait}-{index + 1}"
    return Role(css, _SHADE_DASHES[index], "circle")


def shades(names: tuple[str, ...]) -> tuple[Role, ...]:
    """Return one look for each part or wait event of a chart.

    The usual parts of a class come first, so that they look the same in every chart of a report.
    """
    usual = {name: place for place, name in enumerate(_USUAL)}
    order = sorted(range(len(names)), key=lambda i: usual.get(names[i].casefold(), len(usual)))
    seen: dict[WaitClass, int] = {}
    roles: dict[int, Role] = {}
    for i in order:
        wait = wait_class(names[i])
        roles[i] = shade(wait, seen.get(wait, 0))
        seen[wait] = seen.get(wait, 0) + 1
    return tuple(roles[i] for i in range(len(names)))


def roles(names: tuple[str, ...]) -> tuple[Role, ...]:
    """Return one look for each series of a chart; all differ if there are enough looks.

    If most names are waits, this is a chart of parts: their colours are those of the wait classes.
    """
    if sum(map(is_wait, names)) * 2 > len(names):
        return shades(names)
    return tuple(role_of(name, position) for position, name in enumerate(names))


_TILE_PX = 8

# Content of a pattern tile of 8 x 8. Server CPU has no pattern.
_HATCHES: dict[WaitClass, str] = {
    "io": '<path class="hatch" d="M-2 10L10 -2M-6 6L6 -6M2 14L14 2"/>',
    "lwlock": '<circle class="hatch-dot" cx="2" cy="2" r="1.3"/>'
    '<circle class="hatch-dot" cx="6" cy="6" r="1.3"/>',
    "lock": '<path class="hatch" d="M-2 10L10 -2M-6 6L6 -6M-2 -2L10 10M-6 2L2 10"/>',
    "network": '<path class="hatch" d="M0 2H8M0 6H8"/>',
    "client": '<path class="hatch" d="M2 0V8M6 0V8"/>',
    "other": '<path class="hatch" d="M-2 -2L10 10M-6 2L6 14M2 -6L14 6"/>',
    "residual": '<circle class="hatch-dot" cx="4" cy="4" r="1.2"/>',
}


def definitions() -> Markup:
    """Return the patterns of a page: h-CLASS is only the hatch, f-LOOK is the hatch on a colour."""
    bare = [_pattern(f"h-{wait}", content) for wait, content in _HATCHES.items()]
    filled = [
        _pattern(f"f-{css}", f'<rect class="solid {css}" width="8" height="8"/>{content}')
        for wait, content in _HATCHES.items()
        for css in (wait, *(f"{wait}-{n}" for n in range(2, SHADES + 1)))
    ]
    return Markup(
        '<svg class="vh" width="0" height="0" aria-hidden="true"><defs>'
        f"{''.join(bare)}{''.join(filled)}</defs></svg>"
    )


def overlay(wait: WaitClass, box: str) -> str:
    """Return the hatch of a class over a rectangle `box` (attributes), "" for a plain class."""
    return f'<rect fill="url(#h-{wait})" {box}/>' if wait in _HATCHES else ""


def fill_attributes(role: Role) -> str:
    """Return the attributes that fill an area in the colour and hatch of a look."""
    if role.css.split("-")[0] in _HATCHES:
        return f'class="hatched" fill="url(#f-{role.css})"'
    return 'class="fill"'


def _pattern(name: str, content: str) -> str:
    size = f'width="{_TILE_PX}" height="{_TILE_PX}"'
    return f'<pattern id="{name}" {size} patternUnits="userSpaceOnUse">{content}</pattern>'
