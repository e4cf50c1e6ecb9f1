"""The store keeps everything that was measured, in folders that only grow."""

from pgdyno.store.experiment import ListedExperiment, Store
from pgdyno.store.folder import ExperimentFolder
from pgdyno.store.run_writer import RunWriter
from pgdyno.store.stored_run import StoredHistogram, StoredRun

__all__ = [
    "ExperimentFolder",
    "ListedExperiment",
    "RunWriter",
    "Store",
    "StoredHistogram",
    "StoredRun",
]
