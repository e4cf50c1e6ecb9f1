"""pgdyno: a dynamometer for PostgreSQL.

In Python and notebooks:

    import pgdyno

    result = pgdyno.run("spec.toml")  # or pgdyno.open("last")
    result.compare("4GB", "128MB").tps

Everything else is in `pgdyno.api`, which is loaded when one of these names is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgdyno.api import Contrast, Result, open, results, run

__all__ = ["Contrast", "Result", "open", "results", "run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'pgdyno' has no attribute {name!r}")
    from pgdyno import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
