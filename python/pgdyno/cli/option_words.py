"""Options that the main part of --help shows for several verbs."""

from __future__ import annotations

PSQL = "--host --port --user --database"
LOAD = "--host --database --clients --builtin --file --scale --allow-write --dry-run"
