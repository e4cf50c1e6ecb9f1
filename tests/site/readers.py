"""What a reader of the pages has: a server with databases, files, results, a capture."""

from __future__ import annotations

import re
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from psycopg import sql
from tests.examples.small_form import FOLDER, small_form
from tests.features.tpcc.test_translation import TCL, VERSION_6
from tests.features.watch.test_changes import stored as stored_watch
from tests.fixtures.bank import TABLES
from tests.fixtures.captured_load import SETTINGS
from tests.fixtures.clusters import connection, make_cluster, run_sql, scalar
from tests.fixtures.command import Command, eventually
from tests.site.shorter import STAND_INS

from pgdyno.server.find import find
from pgdyno.server.target import Target
from pgdyno.store.experiment import Store

_SORT = "SELECT aid FROM pgbench_accounts ORDER BY abalance, aid LIMIT 10;\n"
FILES = {
    "report.sql": _SORT,
    "core.sql": _SORT,
    "tables.sql": TABLES,
    "props.pg": VERSION_6,
    "run.tcl": TCL,
    "proposed.conf": "work_mem = 64MB\n",
    "postgresql.conf": "work_mem = 64MB\n",
    "postgresql.log": "2026-11-24 12:00:00 UTC [7] LOG:  temporary file: path"
    ' "base/pgsql_tmp/pgsql_tmp7.0", size 14000000\n'
    "2026-11-24 12:00:00 UTC [7] STATEMENT:  SELECT 1\n",
}
# Results whose number a page names, and what they are; "-" only counts.
RESULTS = ("yesterday", "today", *"---", "watch", *"-----", "compare", "-", "watch", "compare")
# Ten minutes that have the periods of the pages.
WATCHES = {6: datetime(2026, 11, 20, 2, 55), 14: datetime(2026, 11, 20, 13, 55)}


class Reader:
    """One server, and a folder of results that each command gets a copy of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = {**SETTINGS, "log_min_duration_statement": "0"}
        self._cluster = make_cluster("15", settings=settings)
        self.target = self._cluster.target
        self.bin_dir = self._cluster.binaries.bin_dir
        self.options = ("-h", self.target.host, "-p", self.target.ports, "-U", self.target.user)
        self._made: set[str] = set()
        run_sql(self.target, "CREATE ROLE pgdyno LOGIN SUPERUSER")
        (folder / "services").write_text(
            f"[core-admin]\nhost={self.target.host}\nport={self.target.ports}\n"
            f"user={self.target.user}\ndbname=core\n"
        )

    def close(self) -> None:
        """Stop the server."""
        self._cluster.remove()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of the reader's shell."""
        return {"PGSERVICEFILE": str(self.folder / "services")}

    def database(self, name: str, *, is_empty: bool) -> Target:
        """Make a database anew: empty, or with what its name promises."""
        identifier = sql.Identifier(name)
        run_sql(self.target, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(identifier))
        template = "template1" if is_empty else self._template(name)
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            identifier, sql.Identifier(template)
        )
        run_sql(self.target, make)
        return self.target.with_database(name)

    def _template(self, name: str) -> str:
        kind = name if name in ("tpcc", "ledger") else "pgbench"
        template = f"template_{kind}"
        if template not in self._made:
            run_sql(self.target, f"CREATE DATABASE {template}")
            run_sql(self.target.with_database(template), "CREATE EXTENSION pg_stat_statements")
            size = {"tpcc": ("--warehouses", "1"), "ledger": ("--accounts", "64")}
            more = size.get(kind, ("-s", "1"))
            self._run("init", kind, *self.options, "-d", template, *more)
            self._made.add(template)
        return template

    def _run(self, *words: str | Path) -> None:
        command = Command(self.folder / "store")
        said = command(*words, env=self.environment)
        command.close()
        assert said.code in (0, 3, 5), (words, said.err)

    def capture(self) -> Path:
        """Return a capture of the load of pgbench's tables; make it once."""
        path = self.folder / "made.capture"
        if not path.exists():
            with self.load(self.database("captured", is_empty=False)):
                self._run(
                    *("capture", *self.options, "-d", "captured", "--duration", "3s", "-o", path)
                )
        return path

    @contextmanager
    def load(self, target: Target) -> Iterator[None]:
        """Within the block, one session changes accounts."""
        stop = threading.Event()

        def change() -> None:
            with suppress(Exception), connection(target) as session:
                for number in range(1, 100_000):
                    if stop.wait(0.005):
                        return
                    with session.transaction():
                        session.execute(
                            "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = %s",
                            [number],
                        )

        thread = threading.Thread(target=change)
        thread.start()
        yield
        stop.set()
        thread.join()

    def log(self) -> Path:
        """Return the file that the server writes its log to."""
        data = str(scalar(self.target, "SELECT current_setting('data_directory')"))
        return max(Path(data, "log").glob("*.csv"))

    def files_in(self, place: Path, typed: str) -> None:
        """Put the files that a command names into its folder."""
        for word, name in STAND_INS.items():
            typed = typed.replace(word, name)
        for name, text in FILES.items():
            (place / name).write_text(text)
        (place / "examples").mkdir()
        for name in {*re.findall(r"examples/(\w+)\.toml", typed)}:
            small_form(name, place / "examples")
        shutil.copy(FOLDER / "azure_published.conf", place / "examples")
        if "spec.toml" in typed and "-o spec.toml" not in typed:
            small_form("commit", place).rename(place / "spec.toml")
        for name in {*re.findall(r"[\w.-]+\.capture", typed)}:
            # A command before it makes the file with values.
            if f"-o {name}" not in typed and "--keep-values" not in typed:
                (place / name).symlink_to(self.capture())
        if "server.csv" in typed:
            (place / "server.csv").symlink_to(self.log())
        for path in {*re.findall(r"/(?:opt|mnt|srv)/[\w-]+", typed)}:
            (place / path[1:]).parent.mkdir(exist_ok=True)
            if path.startswith("/opt/"):
                (place / path[1:]).symlink_to(find().bin_dir.parent)
            else:
                (place / path[1:]).mkdir()
                (place / path[1:]).chmod(0o777)

    def results_in(self, store: Path) -> None:
        """Fill a store with results that have the numbers of the pages."""
        made = self.folder / "results" / "store"
        if not made.exists():
            made.parent.mkdir()
            self._make_results(made)
        shutil.copytree(made, store, symlinks=True)

    def _make_results(self, store: Path) -> None:
        where = (*self.options, "-d", self.database("measured", is_empty=False).database, "-S")
        short = ("-T", "300ms", "--warmup", "0s", "-c", "2", "--store", store, "-q")
        variants = ("--variant", "on: jit=on", "--variant", "off: jit=off", "--rounds", "3")
        for number, name in enumerate(RESULTS, 1):
            if name == "-":
                Store(store).create(f"result {number}", "bench")
            elif name == "watch":
                stored_watch(Store(store), ms=(2, 40), noise=0.1, began=WATCHES[number])
            elif name == "compare":
                self._run("compare", *where, *short, *variants)
            else:
                self._run("bench", *where, *short, "--name", name)

    def interrupt_a_run(self, place: Path, command: Command) -> None:
        """Leave an experiment that can be resumed as the last result."""
        spec = small_form("commit", place)
        running = command.start("run", spec)
        eventually(lambda: list(command.store.glob("[!.]*/runs/[!.]*/summary.json")) or None)
        running.signal(signal.SIGINT)
        running.wait()
