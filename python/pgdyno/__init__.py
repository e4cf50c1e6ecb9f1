"""pgdyno: a dynamometer for PostgreSQL.

In Python and notebooks:

    import pgdyno

    result = pgdyno.run("spec.toml")  # or pgdyno.open("last")
    result.compare("4GB", "128MB").tps

Everything else is in `pgdyno.api`, which is loaded when one of these names is first used.
"""

# Subtle: only modules that are built into Python. While a file of another one is read, a Ctrl-C
# would print a traceback. From here on it ends the command without one.
import _signal  # type: ignore[import-not-found]
import sys

# pip refuses an older Python; a folder that was copied does not.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("pgdyno needs Python 3.11 or newer; this is " + sys.version.split()[0] + ".")
if sys.argv[0].endswith("/pgdyno") and _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pgdyno.api import Contrast, Result, open, results, run

__all__ = ["Contrast", "Result", "open", "results", "run"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'pgdyno' has no attribute {name!r}")
    from pgdyno import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
