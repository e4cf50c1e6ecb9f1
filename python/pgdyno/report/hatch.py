"""What tells the classes apart without colour: one hatch a class, in bars, swatches and stacks."""

from __future__ import annotations

from markupsafe import Markup

from pgdyno.report.palette import SHADES, Role, WaitClass

_TILE_PX = 8

# Content of a pattern tile of 8 x 8; server CPU is plain.
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
    """Return the patterns of a page: h-CLASS is the hatch alone, f-LOOK has its colour below it."""
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
