"""Rules for Python: imports between rooms, which room may do what, length of functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from tests.tidy.source import RUNS_ELSEWHERE, Source, room_of

from pgdyno.features import FEATURES

FUNCTION_LINES_MAX = 70
# The stages data flows through: an import points to an earlier one.
ARROW = (
    ("redaction",),
    ("feature",),
    ("errors", "clock", "quantities"),
    ("user_file",),
    ("programs",),
    ("settings",),
    ("spec",),
    ("process",),
    ("server",),
    ("engine",),
    ("observe",),
    ("store",),
    ("measure",),
    ("analysis",),
    ("plan",),
    ("loop",),
    ("answer",),
    ("report",),
    ("designs",),
    ("cli",),
    ("api",),
)
RANK = {name: rank for rank, names in enumerate(ARROW) for name in names}

IO_MODULES = re.compile(
    r"(os|io|pathlib|socket|ssl|select|subprocess|shutil|tempfile|time|datetime|threading|asyncio"
    r"|multiprocessing|logging|urllib|http|sqlite3|pickle|shelve|mmap|fcntl|signal|psycopg|duckdb"
    r"|click|rich|jinja2)(\.|$)"
)
IO_CALLS = re.compile(
    r"(open|input|numpy\.(load|save|savez|loadtxt|savetxt|genfromtxt|fromfile|memmap))$"
    r"|.*\.(read_text|write_text|read_bytes|write_bytes|tofile)$"
)
PURE_STAGES = {"redaction", "errors", "quantities", "programs", "settings", "spec", "analysis"}
PURE_STAGES |= {"plan"}

PROCESS_NAMES = re.compile(
    r"subprocess\.(Popen|run|call|check_call|check_output|getoutput|getstatusoutput)$"
    r"|os\.(fork|forkpty|system|popen|kill|killpg|exec\w+|spawn\w+|posix_spawnp?|wait\w*|waitpid)$"
    r"|(multiprocessing|pty)(\.|$)|concurrent\.futures\.ProcessPoolExecutor"
    r"|asyncio\.(subprocess\.)?create_subprocess_\w+|signal\.pidfd_send_signal"
)
PRINTING_NAMES = re.compile(
    r"(print|pprint\.pprint|sys\.(__)?(stdout|stderr)(__)?|click\.(echo|secho)|rich\.print)$"
)
SKIPPING_NAMES = re.compile(r"pytest\.(skip|importorskip|mark\.(skip|skipif))$")
CLOCK_NAMES = re.compile(
    r"time\.(time|monotonic|perf_counter|process_time|clock_gettime)(_ns)?$"
    r"|datetime\.(datetime\.)?(now|utcnow|today)$|datetime\.date\.today$"
)
UNSEEDED_NAMES = re.compile(
    r"random\.(?!Random$)\w+$|random\.SystemRandom$"
    r"|numpy\.random\.(?!default_rng|Generator|SeedSequence|PCG64|Philox|BitGenerator)\w+$"
)
SEEDED_WHEN_GIVEN = re.compile(
    r"random\.Random$|numpy\.random\.(default_rng|SeedSequence|PCG64\w*|Philox)$"
)


def function_length(source: Source) -> Iterator[str]:
    """A function has at most 70 lines, decorators not counted."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            count = node.end_lineno - node.lineno + 1
            if count > FUNCTION_LINES_MAX:
                text = f"{node.name} has {count} lines, at most {FUNCTION_LINES_MAX}"
                yield source.problem(node.lineno, text)


def import_order(source: Source) -> Iterator[str]:
    """An import points to an earlier stage, never to a later one."""
    if source.package in (None, "__init__"):
        return
    own = RANK.get(source.package or "")
    if source.package == "features":
        return
    if own is None:
        yield source.problem(1, f"{source.package} has no place in the order of stages")
        return
    for line, name in source.imports():
        if (target := _stage(name)) and RANK.get(target, 99) > own:
            yield source.problem(line, f"{source.package} may not import {target}, a later stage")


def _stage(name: str) -> str | None:
    parts = name.split(".")
    return room_of(parts) if parts[0] == "pgdyno" and len(parts) > 1 else None


def no_io_in_pure_stages(source: Source) -> Iterator[str]:
    """`plan` and `analysis` compute: no files, sockets, clocks, nor stages that have them."""
    if source.package not in ("plan", "analysis"):
        return
    for line, name in source.imports():
        stage = _stage(name)
        if IO_MODULES.match(name) or (stage and stage not in PURE_STAGES):
            yield source.problem(line, f"{name} does I/O; {source.package} is pure")
    for call, name in source.calls():
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if IO_CALLS.match(name) or IO_CALLS.match(f".{method}"):
            yield source.problem(call.lineno, f"{name or method} does I/O; the stage is pure")


def runs_elsewhere(source: Source) -> bool:
    """Return whether the file is sent to another host, where nothing of pgdyno is installed."""
    return source.path.startswith(RUNS_ELSEWHERE)


def processes_in_one_place(source: Source) -> Iterator[str]:
    """Only `process` starts, signals and awaits processes."""
    if source.package and source.package != "process" and not runs_elsewhere(source):
        yield from _uses(source, PROCESS_NAMES, "belongs to process/")


def printing_in_one_place(source: Source) -> Iterator[str]:
    """Only `cli` and the verbs of features print."""
    is_verb = re.match(r"python/pgdyno/features/\w+/verbs/", source.path)
    if source.package and source.package != "cli" and not is_verb:
        yield from _uses(source, PRINTING_NAMES, "belongs to cli/", except_for=("flush", "isatty"))


_WRITING = re.compile(
    r".*\.(write_text|write_bytes|tofile)$|os\.(write|fdopen)$|open$|io\.open$|.*\.open$"
    r"|tempfile\.NamedTemporaryFile$"
)
# The files that may write past `redaction`, and why nothing of the user's data gets out.
MAY_WRITE = {
    "cli/headings.py": "help",
    "cli/options.py": "write_file redacts every text",
    "cli/output.py": "every text is redacted before",
    "cli/export.py": "a temporary file, which output.data or write_file reads",
    "store/files.py": "every writer redacts; the others take pages and tables",
    "store/experiment.py": "an empty file, to see whether the store can be written",
    "store/export.py": "lines for DuckDB, from the store",
    "measure/observed_load.py": "standard error of the engine, which the end of the run redacts",
    "server/scratch/conf.py": "settings of a scratch server",
    "server/scratch/record.py": "pid and place of a scratch server",
    "server/scratch/pgbouncer.py": "settings, users of a pooler, in a folder only its user reads",
    "server/scratch/postmaster.py": "log of a scratch server, in its folder",
    "server/system_settings.py": "postgresql.auto.conf of the user's server, as it was",
}


def writing_in_few_places(source: Source) -> Iterator[str]:
    """A file is written by `store.files` or `cli.options.write_file`, which redact the text."""
    if source.package is None or source.path.removeprefix("python/pgdyno/") in MAY_WRITE:
        return
    if runs_elsewhere(source):
        return
    for call, name in source.calls():
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        full = name or f".{method}"
        if not _WRITING.match(full) or "files." in full or full == "os.open":
            continue
        if not full.endswith("open") or _opens_to_write(call):
            yield source.problem(call.lineno, f"{full} writes past redaction: use store.files")


def _opens_to_write(call: ast.Call) -> bool:
    modes = [*call.args, *(keyword.value for keyword in call.keywords)]
    texts = [str(mode.value) for mode in modes if isinstance(mode, ast.Constant)]
    return any(re.fullmatch(r"[rwxabt+]{1,3}", text) and set(text) & set("wxa+") for text in texts)


def skipping_in_one_place(source: Source) -> Iterator[str]:
    """Only `tests/fixtures/needs.py` skips tests, so that in CI none is skipped by mistake."""
    if source.path.startswith("tests/") and source.path != "tests/fixtures/needs.py":
        yield from _uses(source, SKIPPING_NAMES, "belongs to tests/fixtures/needs.py")


def one_clock(source: Source) -> Iterator[str]:
    """Time comes from `pgdyno.clock`: one monotonic clock, one pair that maps it to Unix time."""
    if runs_elsewhere(source):
        return
    if source.package != "clock" and (source.package or source.path.startswith("bench/")):
        yield from _uses(source, CLOCK_NAMES, "reads another clock than pgdyno.clock")


def seeded_randomness(source: Source) -> Iterator[str]:
    """Every random number comes from a generator whose seed is given, in tests too."""
    yield from _uses(source, UNSEEDED_NAMES, "has no seed of its own")
    for call, name in source.calls():
        if SEEDED_WHEN_GIVEN.match(name) and not call.args and not call.keywords:
            yield source.problem(call.lineno, f"{name}() without a seed")


def _uses(
    source: Source, pattern: re.Pattern[str], text: str, *, except_for: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield a problem for each use of a name that matches, unless for one of these methods."""
    seen: set[tuple[int, str]] = set()
    names = list(source.names())
    harmless = {
        id(node.value)
        for node, _ in names
        if isinstance(node, ast.Attribute) and node.attr in except_for
    }
    for node, name in names:
        if pattern.match(name) and (node.lineno, name) not in seen and id(node) not in harmless:
            seen.add((node.lineno, name))
            yield source.problem(node.lineno, f"{name} {text}")
    for line, name in source.imports():
        if pattern.match(name) and "." in name:
            yield source.problem(line, f"{name} {text}")


def import_circles(sources: Iterable[Source]) -> Iterator[str]:
    """No module imports itself by way of others; imports inside functions do not count."""
    modules = {source.module: source for source in sources if source.package and source.is_python}
    graph = {
        name: {target for target in _imported(source, modules) if target != name}
        for name, source in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield "import circle: " + " -> ".join(reversed(error.args[1]))


def _imported(source: Source, modules: Mapping[str, Source]) -> Iterator[str]:
    """Yield the modules that a file imports when it is loaded."""
    for node in source.syntax.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


# Where the kinds of designs may be told apart: their models, and the one table.
DESIGN_TABLES = {"python/pgdyno/spec/designs.py", "python/pgdyno/designs.py"}
DESIGN_KINDS = {"bench", "sweep", "compare", "factorial", "matrix", "passes"}


def designs_in_one_table(source: Source) -> Iterator[str]:
    """Only the table of designs distinguishes designs; other code asks the class of the design."""
    if source.package is None or source.path in DESIGN_TABLES:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            for inner in ast.walk(node.args[-1]):
                name = getattr(inner, "attr", getattr(inner, "id", ""))
                if name.endswith("Design"):
                    yield source.problem(node.lineno, f"asks whether a design is a {name}")
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            kinds = {part.value for part in parts if isinstance(part, ast.Constant)}
            is_kind = any(ast.unparse(part).split(".")[-1] == "kind" for part in parts)
            if is_kind and kinds & DESIGN_KINDS:
                yield source.problem(node.lineno, "tells designs apart by their kind")


def _feature_of(name: str) -> str | None:
    """Return "tpcc" for pgdyno.features.tpcc.load, else None."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["pgdyno", "features"] and len(parts) > 2 else None


def features_keep_apart(source: Source) -> Iterator[str]:
    """The core imports no feature; a feature imports the core and the features that it needs."""
    if source.package is None:
        return
    own = _feature_of(source.module)
    needs = {feature.name: {feature.name, *feature.needs} for feature in FEATURES}
    allowed = needs.get(own, {own}) if own else set()
    for line, name in source.imports():
        target = _feature_of(name)
        if target and target not in allowed:
            yield source.problem(line, f"{own or 'the core'} may not import the feature {target}")
    if source.package == "features":
        return
    for node in source.nodes:
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.fullmatch(r"pgdyno\.features\.[\w.:]+", text):
            yield source.problem(node.lineno, f"the core names {text}")


# Words that only one feature has, and the features that may have them.
FEATURE_WORDS = {"tpcc": (re.compile(r"tpcc|nopm", re.IGNORECASE), {"tpcc"})}
# The core's models of spec and job still have the options of the datasets.
NAMING_PLACES = {"python/pgdyno/spec/dataset.py", "python/pgdyno/engine/job.py"}


def words_of_features(source: Source) -> Iterator[str]:
    """The words of a feature stand in its folder, in the table of features, and nowhere else."""
    own = _feature_of(source.module)
    is_table = source.package == "features" and own is None
    if source.package is None or is_table or source.path in NAMING_PLACES:
        return
    for name, (words, places) in FEATURE_WORDS.items():
        for number, line in enumerate(source.lines if own not in places else [], 1):
            if match := words.search(line):
                yield source.problem(number, f"{match[0]} belongs to the feature {name}")


def arguments_by_name(source: Source) -> Iterator[str]:
    """A constructor is not given a tuple unpacked in place: that hides positional arguments."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1][:1].isupper():
            for argument in node.args:
                if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple):
                    yield source.problem(node.lineno, "name these arguments instead of *(...)")


def one_form_of_percent(source: Source) -> Iterator[str]:
    """Shares are formatted by `quantities.percent`: "63 %" everywhere, and never "63.0%"."""
    if not source.path.startswith("python/"):
        return
    for node in source.nodes:
        spec = node.format_spec if isinstance(node, ast.FormattedValue) else None
        if spec is not None and ast.unparse(spec).rstrip("'\"").endswith("%"):
            yield source.problem(node.lineno, "use quantities.percent for a share")


# They say that there is something, and not what.
EMPTY_NAMES = {"one", "found", "each"}


def locals_named_by_content(source: Source) -> Iterator[str]:
    """A local or argument has the noun of what it holds."""
    for node in source.nodes:
        is_bound = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        name = node.id if isinstance(node, ast.Name) else getattr(node, "arg", None)
        if (is_bound or isinstance(node, ast.arg)) and name in EMPTY_NAMES:
            yield source.problem(node.lineno, f"name this by what it holds rather than `{name}`")


PARTICIPLE = re.compile(
    r"(?<!Spe)(?<!Ne)(?<!Se)(?<!Fe)ed$|(Chosen|Drawn|Found|Given|Held|Kept|Known|Laid|Lost|Made"
    r"|Said|Seen|Sent|Shown|Taken|Told|Written)$"
)
# The records of these names are those of the engine's contract.
CONTRACT_NAMES = {"Served"}
# They had these names before the rule. A name leaves the table when its class is renamed.
NAMED_BEFORE = {
    *("Asked", "Captured", "Changed", "CheckSeen", "Chosen", "Compared", "ControlSeen", "CopySeen"),
    *("Counted", "Described", "Drawn", "Examined", "Explained", "Given", "HostLost", "Kept"),
    *("Known", "Logged", "Measured", "NotCovered", "Observed", "Parsed", "Proposed", "Recalled"),
    *("Recommended", "Resolved", "Restricted", "Returned", "Reviewed", "Sampled", "Seen"),
    *("Sent", "ServerSeen", "Shared", "SourceSeen", "Spilled", "Taken"),
    *("Translated", "Tried", "Watched", "_Seen", "SloHeld"),
}


def type_names_are_nouns(source: Source) -> Iterator[str]:
    """A class is named by a noun: `StatementInfo`, and not `Described`."""
    if not source.package:
        return
    for node in source.nodes:
        name = node.name if isinstance(node, ast.ClassDef) else ""
        if PARTICIPLE.search(name) and name not in CONTRACT_NAMES | NAMED_BEFORE:
            yield source.problem(node.lineno, f"name {name} by a noun")
