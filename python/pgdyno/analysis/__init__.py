"""NUMBERS with uncertainty: arrays in, dataclasses out; pure.

One module a question: one run `within_run`, `change_points`, `verdicts`; a sweep
`curve`; A against B `compare`; more than two cells `contrasts`; why `where`.
"""

from pgdyno.analysis import (
    change_points,
    compare,
    contrasts,
    curve,
    verdicts,
    where,
    within_run,
)

__all__ = [
    "change_points",
    "compare",
    "contrasts",
    "curve",
    "verdicts",
    "where",
    "within_run",
]
