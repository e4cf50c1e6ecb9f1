"""Makes the small form of an example: the same cells and design, in a few seconds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from tests.fixtures import needs
from tests.fixtures.clusters import QUICK

FOLDER = Path(__file__).parents[2] / "examples"
_CLIENTS_MAX = 2
RUN = "300ms"
# This setting is left out because it needs a restart for each run, which takes time.
_LEFT_OUT = ("shared_buffers",)
_CRASHED = ("on", "off, standby")


def small_form(name: str, place: Path, *, dsn: str = "") -> Path:
    """Write the small form of an example into `place` and return the spec file.

    Args: dsn, of the server if the example is about one of the user's own.
    """
    needs.postgresql("15")
    document = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    kind = document["dataset"].get("kind", "pgbench")
    document["dataset"]["warehouses" if kind == "tpcc" else "scale"] = 1
    if dsn:
        document["server"]["dsn"] = dsn
    else:
        document["server"]["scratch"]["version"] = "15"
        # The samples of ANALYZE, for a tenth of the time: no example asks how good a plan is.
        quick = {**QUICK, "max_wal_size": "1GB", "default_statistics_target": "10"}
        document["server"]["settings"] = quick
    workload = document["workload"]
    workload |= {"duration": RUN, "warmup": "0s"}
    if workload.get("clients", 0) < 100:  # Examples about many connections keep them.
        workload["clients"] = min(_CLIENTS_MAX, workload.get("clients", 1))
    _shorten(document["design"])
    if "price_of_loss" in document["experiment"]:
        document["experiment"]["price_of_loss"] = 1
        document["server"]["settings"] |= {"fsync": "on", "full_page_writes": "on"}
        # Each of the others differs from these in one value of one setting.
        document["variant"] = [v for v in document["variant"] if v["name"] in _CRASHED]
    keeps_settings = name == "shared_buffers"
    for variant in _variants(document):
        variant.get("dataset", {}).pop("scale", None)
        if "data_dir" in variant:
            variant["data_dir"] = _folder(place / variant["name"].replace(" ", "-"))
        if not keeps_settings:
            for setting in _LEFT_OUT:
                variant.get("settings", {}).pop(setting, None)
    for scripts in (workload["scripts"], *(v.get("scripts", []) for v in _variants(document))):
        for script in scripts:
            if "file" in script:
                script["file"] = str(FOLDER / script["file"])
    path = place / f"{name}.toml"
    path.write_text(tomli_w.dumps(document))
    return path


def _shorten(design: dict[str, Any]) -> None:
    kind = design["kind"]
    if kind == "sweep":
        design |= {"levels": [1, 2], "rounds": 1, "run": RUN, "knee": RUN}
    elif kind == "compare":
        design.pop("budget", None)
        design["rounds"] = 3
    elif kind == "tune":
        design |= {"budget": "30s", "settings": ["wal_compression=off,pglz", "work_mem=1MB,64MB"]}
    else:
        design["rounds"] = 1


def _variants(document: dict[str, Any]) -> list[dict[str, Any]]:
    factors = document["design"].get("factors", [])
    levels = [level for factor in factors for level in factor["levels"]]
    return [*document.get("variant", []), *levels]


def _folder(path: Path) -> str:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
    return str(path)
