"""The contract with the load engine: the job, the records, the stream of one engine process."""

from pgdyno.engine.executable import engine_path
from pgdyno.engine.job import Job
from pgdyno.engine.records import Record, Summary, parse_record
from pgdyno.engine.stream import EngineRun, check_job

__all__ = [
    "EngineRun",
    "Job",
    "Record",
    "Summary",
    "check_job",
    "engine_path",
    "parse_record",
]
