"""How a test runs a command that a page shows: less load, less time, and a server of the test.

One rule for all: the values of these options become small, and the names of hosts, folders and
files become those of the test. Every other word stays as the page has it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tests.site.shown import Shown

# Option -> small value.
SHORTER = {
    **dict.fromkeys(("-T", "--duration"), "500ms"),
    **dict.fromkeys(("-s", "--scale", "--warehouses", "--crashes"), "1"),
    **dict.fromkeys(
        ("-c", "--terminals", "-j", "--load-jobs", "--partitions", "--connections"), "2"
    ),
    **{
        "--clients": "1,2",
        "-R": "50",
        "--budget": "60s",
        "--rounds": "3",
        "--price-of-loss": "1",
        "--prove": "5s",
        "--think-factor": "0.01",
    },
}
# Verb -> what is added where the page leaves the long default.
ADDED = {
    "bench": ("-T", "500ms", "--warmup", "0s"),
    "sweep": (
        *("-T", "500ms", "--warmup", "0s", "--rounds", "1"),
        *("--clients", "1,2", "--knee-duration", "500ms"),
    ),
    "compare": ("-T", "500ms", "--warmup", "0s", "--rounds", "3"),
    "tune": ("--budget", "70s"),
    "crash": ("--crashes", "1"),
    "doctor --aa": ("--budget", "60s", "--run", "1s"),
    "watch": ("--duration", "1s"),
}
# Levels of clients, which only a sweep takes; a tuning and a proof need more than one run.
BY_VERB = {
    **{("sweep", "-c"): "1,2", ("tune", "--budget"): "70s", ("capture", "--duration"): "2s"},
    **{("watch", "--duration"): "2s", ("pgbench", "-T"): "1"},
}
# A scratch server is loaded with this, unless the page names another size.
_SMALL = ("-s", "1")
_LOADS = ("bench", "sweep", "compare", "tune")
# Servers of the reader: each is the server of the test.
HOSTS = ("db1", "db2", "HOST", "prod", "test")
# 0: answered; 3: runs of a second are too short to be valid; 5: they do not decide.
RIGHT = {0, 3, 5}
# 4: a condition of `--check` is false, which the page asks for.
GATES = ("--check",)

# The first word or words of commands that no test runs -> the reason.
NOT_RUN = {
    "apt install": "installs the package; tests/release installs it into an empty root",
    "apt remove": "would remove the package of the machine",
    "pip install": "needs an index; tests/release installs the wheels",
    "pip download": "needs an index; tests/release downloads the dependencies",
    "pip uninstall": "would remove pgdyno from the environment of the tests",
    "uv tool": "needs an index; tests/release installs the wheels",
    "make": "builds or tests the project itself; the test reads its name in the Makefile",
    "python -m": "measures or tests the project for minutes; the test looks for its module",
    "ssh -o": "needs another machine",
    "export": "sets a variable of the reader's shell",
    ".venv/bin/pytest": "runs tests for an hour",
    "scripts/known-loads-table": "writes a page from the hour of tests before it",
    "pgdyno crash -h db1": "cuts the power of a machine; tests/features/crash/test_own_server",
    "pgdyno bench -h db1 -d bank --hosts": "needs three more machines; tests/features/hosts",
    "pgdyno bench -h db1 --hosts": "needs a cluster of Dask; tests/features/hosts/test_far_hosts",
    "pgdyno init -h db1 -d bank -s 1000 --hosts": "needs three more machines; tests/features/hosts",
    "pgdyno bench -h db1 -d bank --ssh": "needs another machine; tests/observe, test_afar",
    "pgdyno doctor --ssh": "needs another machine; tests/features/doctor/test_afar",
    "pgdyno watch -h db1 --host-shell": "needs another machine; tests/observe",
    "pgdyno bench -h db1 --host-shell": "needs another machine; tests/observe",
    "pgdyno bench -h pooler": "needs a pooler on another machine; tests/observe/test_pooler",
    "pgdyno bench -h node1": "needs three nodes; tests/postgres/test_connections",
    "pgdyno init -h coordinator": "needs Citus; tests/features/nodes and tests/examples",
    "pgdyno bench -h coordinator": "needs Citus; tests/features/nodes and tests/examples",
    "pgdyno init tpcc --distribute": "needs Citus; tests/features/nodes",
    "pgdyno run examples/tune.toml": "its small runs are tried by tests/examples/test_small_forms",
    "pgdyno run examples/distributed.toml": "needs Citus; tests/examples/test_small_forms",
}
# A verb with one word, which a sentence names; the page shows whole commands of it.
FORMS = (
    *("pgdyno pgbench ...", "pgdyno pgbench -R ... -L ...", "pgdyno init FILE", "pgdyno init tpcc"),
    *("pgdyno drop ledger", "pgdyno check tpcc", "pgdyno capture show", "pgdyno sweep --slo"),
)
# Words that stand for what the reader has.
STAND_INS = {"FILE": "core.capture", "RESULT": "last", "examples/NAME.toml": "examples/commit.toml"}


def reason_not_to_run(shown: Shown) -> str:
    """Return why no test runs the command; empty if one does."""
    if shown.typed in FORMS:
        return "the name of a verb in a sentence"
    return next((why for words, why in NOT_RUN.items() if shown.typed.startswith(words)), "")


def words_for(shown: Shown, server: Sequence[str], place: Path) -> list[str]:
    """Return the words of the command, as the test types them.

    Args: server, the options of the test's server without the database. place, a folder.
    """
    _, verb, *words = (STAND_INS.get(word, word) for word in shlex.split(shown.typed))
    short = _shortened(verb, words)
    for option, value in _pairs(ADDED.get(f"{verb} --aa" if words == ["--aa"] else verb, ())):
        ends = {"--budget", "--rounds"}
        is_set = option in short or (option in ends and not ends.isdisjoint(short))
        is_set |= option in ("-T", "--clients") and {"-T", "-c"} & {*short} == {option, "-c"}
        if not is_set and not _is_only_read(verb, short):
            short += [option, value]
    if verb in _LOADS and not {"-h", "-b", "-f", "-s"} & {*short}:
        short += _SMALL
    return [verb, *_placed(short, server, place)]


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(words[::2], words[1::2], strict=True))


def _shortened(verb: str, words: list[str]) -> list[str]:
    short = list(words)
    for place, word in enumerate(words[:-1]):
        value = BY_VERB.get((verb, word), SHORTER.get(word))
        if value and not words[place + 1].startswith("-"):
            short[place + 1] = value
    return short


def _is_only_read(verb: str, words: Sequence[str]) -> bool:
    """Return whether the command neither measures nor watches."""
    return verb in ("watch", "bench") and any(
        word.startswith(("--print", "--of", "--help")) for word in words
    )


def _placed(words: Sequence[str], server: Sequence[str], place: Path) -> list[str]:
    placed: list[str] = []
    for word in words:
        if placed[-1:] == ["-h"] and word in HOSTS:
            # The role of the test, unless the page names one.
            placed[-1:] = server[:-2] if "-U" in words else server
        else:
            for root in ("/mnt/", "/opt/", "/srv/"):
                word = word.replace(root, f"{place}{root}")
            placed.append(word)
    return placed
