"""The design `tune`: its planner, its answer, and how the answer is shown."""

from __future__ import annotations

from pgdyno.designs import Kind
from pgdyno.features.tune.answer import tune_answer
from pgdyno.features.tune.blocks import tune_blocks, tune_body
from pgdyno.features.tune.design import Tune

TUNE = Kind(Tune, tune_answer, tune_blocks, tune_body)
