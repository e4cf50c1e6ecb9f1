"""Applications that nobody here wrote: how each is loaded, captured and what it needs."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.clusters import connection, run_sql, scalar
from tests.fixtures.command import Command, eventually, server_options

from pgdyno.server.target import Target

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "logging_collector": "on",
    "log_destination": "csvlog",
    "log_directory": "log",
    "log_rotation_size": "0",
    "log_min_duration_statement": "0",
    "log_parameter_max_length": "-1",
}
HERE = Path(__file__).parent
# Their clients are of the registries; they are made once, in a folder of the user.
_MADE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "pgdyno-applications")
_NODE = {"typeorm": "1.1.1", "pg": "8.23.1", "reflect-metadata": "0.2.2"}
_NODE |= {"graphile-worker": "0.17.3", "pg-boss": "10.4.2"}
_POM = """<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId>
<artifactId>a</artifactId><version>1</version><dependencies>
<dependency><groupId>org.quartz-scheduler</groupId><artifactId>quartz</artifactId>
<version>2.3.2</version></dependency>
<dependency><groupId>org.postgresql</groupId><artifactId>postgresql</artifactId>
<version>42.7.4</version></dependency></dependencies></project>"""


@dataclass(frozen=True, slots=True)
class Application:
    """A program of this folder. `is_at_work`: a question that is true when its load goes on."""

    program: str
    needs: str
    is_at_work: str

    @property
    def missing(self) -> str:
        """Return the program or package that this machine lacks; "" if it has everything."""
        if self.program.endswith(".py"):
            has_package = importlib.util.find_spec(self.needs) is not None
            return "" if has_package else f"no Python package {self.needs}"
        tools = {".js": ("node", "npm"), ".java": ("java", "mvn"), ".go": ("go",)}
        needed = tools[Path(self.program).suffix]
        return next((f"no program {tool}" for tool in needed if not shutil.which(tool)), "")


APPLICATIONS = {
    "wiki": Application("django_wiki.py", "wiki", "count(*) > 0 FROM django_session"),
    "queue": Application("job_queue.py", "procrastinate", "count(*) > 20 FROM procrastinate_jobs"),
    "shop": Application("search_shop.py", "psycopg", "count(*) > 2010 FROM booking"),
    "ledger": Application("ledger_app.py", "sqlalchemy", "count(*) > 0 FROM daily"),
    "typeorm": Application("typeorm_shop.js", "typeorm", "count(*) > 420 FROM orders"),
    "graphile": Application(
        "graphile_queue.js", "graphile-worker", "count(*) > 5 FROM graphile_worker._private_jobs"
    ),
    "boss": Application("boss_queue.js", "pg-boss", "count(*) > 20 FROM pgboss.job"),
    "gorm": Application("gorm_shop/main.go", "gorm", "count(*) > 0 FROM comments"),
    "river": Application("river_queue/main.go", "river", "count(*) > 20 FROM river_job"),
    "quartz": Application("Scheduler.java", "quartz", "count(*) > 5 FROM qrtz_triggers"),
}


def command_of(program: str) -> tuple[list[str], dict[str, str]]:
    """Return how a program is started, with its environment; packages are fetched once."""
    path, environment = HERE / program, {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if path.suffix == ".py":
        return [sys.executable, str(path)], environment
    made = _MADE / path.suffix[1:]
    made.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".js":
        wanted = json.dumps({"dependencies": _NODE})
        if not (made / "package.json").exists() or (made / "package.json").read_text() != wanted:
            (made / "package.json").write_text(wanted)
            _run(["npm", "install", "--no-audit", "--no-fund"], made)
        return ["node", str(path)], {**environment, "NODE_PATH": str(made / "node_modules")}
    if path.suffix == ".go":
        binary = made / path.parent.name
        _run(["go", "build", "-o", str(binary), "."], path.parent)
        return [str(binary)], environment
    if not any(made.glob("quartz*")):
        (made / "pom.xml").write_text(_POM)
        copied = ["dependency:copy-dependencies", f"-DoutputDirectory={made}"]
        _run(["mvn", "-q", "-f", str(made / "pom.xml"), *copied], made)
    return ["java", "-cp", f"{made}/*", str(path)], environment


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def made(server: Target, name: str) -> Target:
    """Make a database with pg_stat_statements."""
    run_sql(server, f"CREATE DATABASE {name}")
    own = server.with_database(name)
    run_sql(own, "CREATE EXTENSION pg_stat_statements")
    return own


def started(program: str, verb: str, target: Target, *arguments: str) -> subprocess.Popen[str]:
    """Start a program; its load goes on until its standard input ends."""
    host = target.host
    if program.endswith(".java"):
        # Java's driver knows no socket of this kind.
        file = Path(str(scalar(target, "SELECT current_setting('hba_file')")))
        file.write_text(f"host all all 127.0.0.1/32 trust\n{file.read_text()}")
        run_sql(target.with_database("postgres"), "SELECT pg_reload_conf()")
        host = "127.0.0.1"
    place = f"host={host} port={target.ports} user={target.user} dbname={target.database}"
    command, environment = command_of(program)
    return subprocess.Popen(
        [*command, verb, place, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> None:
    """Close the standard input, which ends a load, and wait."""
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said


def _is_true(source: Target, application: Application) -> bool:
    """Return whether the load goes on; the question is not in the log."""
    with connection(source) as session:
        session.execute("SET log_min_duration_statement = -1")
        row = session.execute(f"SELECT {application.is_at_work}".encode()).fetchone()
    return row is not None and bool(row[0])


def captured(
    pgdyno: Command,
    source: Target,
    application: Application,
    folder: Path,
    seconds: int,
    *given_to_log: str,
) -> dict[str, Path]:
    """Return the captures of one load: from statistics and from logs."""
    ended(started(application.program, "prepare", source))
    run_sql(source, "ANALYZE")
    run_sql(source.with_database("postgres"), f"CREATE DATABASE dump TEMPLATE {source.database}")
    return captured_load(pgdyno, source, application, folder, seconds, *given_to_log)


def captured_load(
    pgdyno: Command,
    source: Target,
    application: Application,
    folder: Path,
    seconds: int,
    *given_to_log: str,
) -> dict[str, Path]:
    """Return the captures of one load of a database that is prepared."""
    # The log of the load alone; the name of a file has its second.
    logs = Path(str(scalar(source, "SELECT current_setting('data_directory')")), "log")
    before = set(logs.glob("*.csv"))
    # In another database: the capture must not have this statement.
    other, rotate = source.with_database("postgres"), "SELECT pg_rotate_logfile()"
    eventually(lambda: scalar(other, rotate) and set(logs.glob("*.csv")) - before)
    files = {kind: folder / f"{kind}.capture" for kind in ("statistics", "log")}
    where = server_options(source)
    # However long a capture takes to begin, the load goes on until it has ended.
    with started(application.program, "load", source, "2") as load:
        eventually(lambda: _is_true(source, application), unless=lambda: load.poll() is not None)
        said = pgdyno(
            *("capture", *where, "-o", files["statistics"], "--duration", f"{seconds}s", "-q")
        )
        ended(load)
    assert said.code == 0, said.err
    # This statement is ours: it must not be in the log.
    run_sql(source, "SET log_min_duration_statement = -1; ANALYZE")
    paths = sorted(set(logs.glob("*.csv")) - before)
    given = [word for path in paths for word in ("--log", str(path))]
    said = pgdyno("capture", *where, "-o", files["log"], *given, *given_to_log, "-q")
    assert said.code == 0, said.err
    return files
