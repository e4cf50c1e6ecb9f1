"""Strange command lines against a real server: each has a clear answer, and nothing changes."""

from __future__ import annotations

import shlex
import socket
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.command import Command, Said, server_options
from tests.postgres.strange_inputs import FILES, lines

from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
SECRET = "sTrange1Xq"
# make test has every twelfth line, make prove all of them.
EVERY = 12
# The state of the server that no command line may change. Reading statistics changes nothing.
STATE = (
    "SELECT (SELECT array_agg(datname ORDER BY 1) FROM pg_database),"
    " (SELECT array_agg(relname ORDER BY 1) FROM pg_class WHERE relnamespace >= 2200"
    "  AND relnamespace = 'public'::regnamespace),"
    " (SELECT array_agg(rolname ORDER BY 1) FROM pg_roles),"
    " (SELECT array_agg(a ORDER BY 1) FROM kept),"
    " (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_file_settings)"
)


def words_of(line: str, target: Target, folder: Path, port: int) -> list[str]:
    """Return the words of a command line with the places of this test."""
    place = server_options(target)
    conninfo = f"host={target.host} port={target.ports} user={target.user}"
    words: list[str] = []
    for word in shlex.split(line):
        if word == "SERVER":
            words += place
        elif word == "SERVERP":
            words += [*place[:-2], place[-1]]
        elif word == "ELSE":
            words += server_options(target.with_database("not_there"))
        else:
            changed = word.replace("GONE", str(port)).replace("SECRET", f"password={SECRET}")
            changed = changed.replace("CONN", conninfo).replace("FILE:", f"{folder}/")
            words.append(changed.replace("DIR", str(folder)).replace("NEWLINE", "a\nb"))
    return words


def objections(said: Said, is_drop_in: bool) -> list[str]:
    """Return what is wrong with an answer: it must refuse, and say why and what to do next."""
    output = said.out + said.err
    problems = [word for word in ("Traceback", "defect", "panicked", SECRET) if word in output]
    if said.code not in (1, 2):
        problems.append(f"exit code {said.code}")
    if not is_drop_in and "next: " not in said.err:
        problems.append("no next step")
    return problems


def ask_all(chosen: list[str], target: Target, pgdyno: Command, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content.replace(b"SECRET", SECRET.encode()))
    run_sql(target, "CREATE TABLE kept AS SELECT generate_series(1, 10) AS a")
    before = run_sql(target, STATE)
    wrong: dict[str, tuple[list[str], str]] = {}
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        for line in chosen:
            said = pgdyno(*words_of(line, target, folder, nobody.getsockname()[1]))
            if problems := objections(said, line.startswith("pgbench")):
                wrong[line] = (problems, said.err[-500:])
    assert wrong == {}
    assert run_sql(target, STATE) == before
    left = [path for path in pgdyno.store.rglob("*") if path.is_file()]
    assert [path for path in left if SECRET in path.read_bytes().decode(errors="replace")] == []


def test_there_are_at_least_100_strange_lines() -> None:
    assert len(set(lines())) == len(lines()) >= 100


def test_some_strange_lines_are_refused_with_a_next_step_and_change_nothing(
    database15: Target, pgdyno: Command, tmp_path: Path
) -> None:
    ask_all(lines()[::EVERY], database15, pgdyno, tmp_path)


@pytest.mark.slow
def test_all_strange_lines_are_refused_with_a_next_step_and_change_nothing(
    new_cluster: Make, pgdyno: Command, tmp_path: Path
) -> None:
    ask_all(lines(), new_cluster("15").target, pgdyno, tmp_path)
