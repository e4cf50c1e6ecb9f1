"""The first part of --help: two examples of each verb. Also options that people type from habit."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from pgdyno.feature import features

# The purpose of an example, and its command. tests/examples/test_documents.py runs each of them.
Example = tuple[str, str]

_PAIRS_END = "The comparison ends by itself: set --precision, or the longest time with --budget."
EXAMPLES: dict[str, tuple[Example, Example]] = {
    "pgdyno": (
        ("How much can this machine do? A scratch server is created and removed", "pgdyno sweep"),
        (
            "Observe your own server for 10 minutes; only reads",
            "pgdyno watch -h db1 -d bank --duration 10min",
        ),
    ),
    "bench": (
        ("8 clients for one minute, on a scratch server", "pgdyno bench -c 8 -T 60s"),
        (
            "1,500 transactions per second on your own server, read-only",
            "pgdyno bench -h db1 -d bank -S -c 16 -R 1500 -T 3min",
        ),
    ),
    "sweep": (
        ("Peak and knee of a scratch server", "pgdyno sweep -s 50 -b tpcb-like"),
        (
            "The highest load of your own server with p99 <= 20 ms, read-only",
            "pgdyno sweep -h db1 -d bank -S --slo p99=20ms",
        ),
    ),
    "compare": (
        (
            "Does a setting help? On a scratch server",
            'pgdyno compare -c 8 --variant "1MB: work_mem=1MB" --variant "64MB: work_mem=64MB"',
        ),
        (
            "On your own server, read-only, with a setting of the session",
            'pgdyno compare -h db1 -d bank -S --variant "on: jit=on" --variant "off: jit=off"',
        ),
    ),
    "run": (
        ("Show the plan of an experiment, then carry it out", "pgdyno run spec.toml --dry-run"),
        ("Continue the last experiment, which was interrupted", "pgdyno run --resume last"),
    ),
    "pgbench": (
        ("Load pgbench's tables at scale 50", "pgdyno pgbench -i -s 50 -h db1 bank"),
        (
            "8 clients for a minute, prepared statements",
            "pgdyno pgbench -c 8 -j 2 -T 60 -M prepared -h db1 bank",
        ),
    ),
    "init": (
        ("Load the pgbench tables at scale 100 (1.5 GB)", "pgdyno init -h db1 -d bench -s 100"),
        (
            "Load with 8 connections",
            "pgdyno init -h db1 -d bench -s 1000 --load-jobs 8",
        ),
    ),
    "drop": (
        ("Remove the dataset that pgdyno made", "pgdyno drop -h db1 -d bench"),
        ("Remove only the pgbench tables", "pgdyno drop pgbench -h db1 -d bench"),
    ),
    "show": (
        ("Print the last result again", "pgdyno show"),
        ("Print result 12 as JSON", "pgdyno show 12 --json"),
    ),
    "report": (
        ("Write the HTML page of the last result", "pgdyno report"),
        ("Write result 12 as Markdown", "pgdyno report 12 --md -o result.md"),
    ),
    "list": (
        ("Results of this folder", "pgdyno list"),
        ("Results of another folder, as JSON", "pgdyno list --store /srv/results --json"),
    ),
    "diff": (
        ("Compare results 12 and 15", "pgdyno diff 12 15"),
        ("Compare variants of two comparisons", "pgdyno diff 12:off 15:off"),
    ),
    "export": (
        ("One row per run, as CSV", "pgdyno export 12"),
        (
            "Wait events of all runs, as Parquet",
            "pgdyno export 12 --table waits --format parquet -o waits.parquet",
        ),
    ),
    "note": (
        ("Keep a remark with result 12", 'pgdyno note 12 "after change CHG0048211"'),
        ("Print its remarks", "pgdyno note 12"),
    ),
    "help": (
        ("Which pages are there?", "pgdyno help"),
        ("What is a run that is not valid?", "pgdyno help valid"),
    ),
    "completion": (
        ("Print the script for bash, and where to put it", "pgdyno completion bash"),
        ("Print the script for fish", "pgdyno completion fish"),
    ),
    "undo": (
        ("Restore what killed experiments left changed", "pgdyno undo"),
        ("Print the previous values of result 12; change nothing", "pgdyno undo 12 --dismiss"),
    ),
}
# Options that people type from habit: the verb and the option, and what to use instead.
MEANT: dict[tuple[str, str], str] = {
    ("compare", "--pairs"): _PAIRS_END,
    ("compare", "--repeat"): _PAIRS_END,
    ("compare", "--runs"): _PAIRS_END,
    ("sweep", "--repeat"): "Use --rounds N.",
    ("sweep", "--runs"): "Use --rounds N.",
}


def examples_of(name: str) -> tuple[Example, ...]:
    """Return the examples of a verb, or of a kind of dataset; nothing for another word."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    return next((of.EXAMPLES[name] for of in _of_features(name) if name in of.EXAMPLES), ())


def meant_by(verb: str) -> dict[str, str]:
    """Return what people type from habit for options of a verb, and what to use instead."""
    meant = dict(MEANT)
    for of_feature in _of_features(verb):
        meant |= of_feature.MEANT
    return {habit: words for (of, habit), words in meant.items() if of == verb}


def _of_features(name: str) -> Iterator[ModuleType]:
    """Yield the help of the features that bring the verb or the kind of dataset `name`."""
    for feature in features():
        brings = {*feature.verbs, *feature.tables.get("dataset_kinds", ())}
        # A kind of dataset may have the name of a verb: "init NAME" and "NAME".
        if brings.intersection((name, name.rpartition(" ")[2])) and "verb_help" in feature.parts:
            yield feature.part("verb_help")
