"""An experiment as TOML, and back."""

from __future__ import annotations

import tomli_w

from pgdyno.spec.experiment import Experiment


def to_toml(experiment: Experiment) -> str:
    """Return the experiment as a spec file; what stands at its default is written too.

    A connection string is written without its password.
    """
    document = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    experiment_table = {key: document.pop(key) for key in ("name", "reset", "cache", "reload")}
    named = {"experiment": experiment_table, **document}
    variants = [_without_empty(variant) for variant in document.pop("variant")]
    if variants:
        named["variant"] = variants
    else:
        named.pop("variant")
    return tomli_w.dumps(named)


def _without_empty(variant: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in variant.items() if value not in ({}, [])}
