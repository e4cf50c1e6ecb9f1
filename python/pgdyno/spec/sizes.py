"""Sizes of datasets as people think of them: "200GB", "2xRAM"; from there to pgbench's scale."""

from __future__ import annotations

import math
import os
import re

from pgdyno.errors import SpecError
from pgdyno.spec.units import size_bytes

# Tables and their keys at fill factor 100: 748 MiB at scale 50, 299 MiB at scale 20 (tried on 15).
_BYTES_EACH_SCALE = 15_690_000
_OF_RAM = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*x\s*RAM\s*", re.IGNORECASE)


def scale_for(size: str, *, ram_bytes: int | None = None) -> int:
    """Return the scale whose tables and keys take about `size`, at least 1.

    Args: ram_bytes, of the host whose memory is meant (None: this one, where a scratch server is).
    Raises: SpecError for what is no size.
    """
    found = _OF_RAM.fullmatch(size)
    if found is not None:
        wanted = float(found[1]) * (ram_bytes or os.sysconf("SC_PAGE_SIZE") * _pages())
    else:
        try:
            wanted = size_bytes(size)
        except SpecError:
            wanted = 0
    if not wanted > 0:
        raise SpecError(f"{size!r} is no size.", hint='such as "200GB" or "2xRAM"')
    return max(1, math.ceil(wanted / _BYTES_EACH_SCALE))


def _pages() -> int:
    return os.sysconf("SC_PHYS_PAGES")
