"""For a pip that is too old for pyproject.toml."""

from backend import refuse

refuse()
