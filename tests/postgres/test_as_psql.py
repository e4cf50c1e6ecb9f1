"""Connection strings lead where psql goes: 80 of them, with service, password and PG* settings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.fixtures.clusters import Make, run_sql
from tests.fixtures.prove import Figure

from pgdyno.errors import PgdynoError
from pgdyno.server.connect import connect
from pgdyno.server.conninfo import resolve
from pgdyno.server.find import find
from pgdyno.server.scratch.cluster import ScratchCluster

PASSWORD, DATABASES = r"se:c@r/e\t", ("alice", "d b", "a=b", "p%q/r", "it's")
ANSWER = (
    "SELECT current_user || '|' || current_database() || '|' || current_setting('port') || '|'"
    " || current_setting('work_mem') || '|' || coalesce(inet_server_addr()::text, 'local')"
    " || '|' || current_setting('TimeZone')"
)
# {h} {p}: the first server's socket and port; {h2} {p2}: of the second; {q}: quoted for a URI.
SOCKET = "host={h} port={p} user=alice"
BOTH = "host={h},{h2} port={p},{p2} user=alice dbname=postgres"
TCP = "host=127.0.0.1 port={p} dbname=postgres"
STRINGS: tuple[tuple[str, Mapping[str, str]], ...] = (
    *((text, {}) for text in (SOCKET, "host={h} port={p}", f"{SOCKET} dbname='d b'")),
    ("host = {h} port = '{p}' user = 'r s' dbname=postgres", {}),
    (r"host={h} port={p} user=al\ice dbname=it\'s", {}),
    ("host={h} port=' {p} ' user=alice", {}),
    *((f"host={{h}} user=alice port={port}", {}) for port in ("99999", "0", "{p}x")),
    *((f"{SOCKET} dbname='{name}'", {}) for name in ("a=b", "p%q/r", "no such", "x' y=")),
    ("dbname='postgres host={h}", {}),
    ("user=alice user=postgres dbname=postgres host={h} port={p}", {}),
    ("hostaddr=127.0.0.1 port={p} user=alice dbname=postgres", {}),
    ("host=localhost port={p} user=alice", {}),
    ("host=no.invalid hostaddr=127.0.0.1 port={p} user=alice dbname=postgres", {}),
    *((f"{TCP} user={user}", {}) for user in ("alice", "'r s'", "postgres")),
    (f"{TCP} user=alice passfile=/nowhere", {}),
    (f"{TCP} user=alice password='se:c@r/e\\\\t'", {}),
    *((f"service={name}", {}) for name in ("plain", "spaced", "quoted", "set", "nested", "no")),
    *((f"service={name}", {}) for name in ("unknown", "both")),
    ("service=plain host={h2} port={p2}", {}),
    *((f"service=plain {empty}=''", {}) for empty in ("user", "dbname")),
    ("service=plain", {"PGSERVICEFILE": "/nowhere"}),
    *((text, {"PGSERVICE": "plain"}) for text in ("", "alice", "dbname='d b'")),
    ("service=system", {"PGSYSCONFDIR": "{folder}"}),
    ("postgresql://?service=plain", {}),
    ("postgresql://alice@/d%20b?service=plain", {}),
    (BOTH, {}),
    *(
        (f"host=/none,{{h2}} port={port} user=alice dbname=postgres", {})
        for port in ("{p2}", "1,{p2}")
    ),
    ("host={h},{h2} port={p},{p2},{p} user=alice dbname=postgres", {}),
    *(
        (f"{BOTH} target_session_attrs={kind}", {})
        for kind in ("any", "read-write", "read-only", "primary", "standby", "prefer-standby", "x")
    ),
    *((f"{SOCKET} sslmode={mode}", {}) for mode in ("disable", "prefer", "verify-full", "x")),
    *((f"{TCP} user=alice sslmode={mode}", {}) for mode in ("allow", "prefer", "require")),
    (f"{SOCKET} options='-c work_mem=9MB'", {}),
    (f"{SOCKET} options='-cwork_mem=9MB --geqo=off'", {}),
    (f"{SOCKET} options='-c no_such=1'", {}),
    (SOCKET, {"PGOPTIONS": "-c work_mem=5MB", "PGTZ": "Asia/Tokyo"}),
    (SOCKET, {"PGSSLMODE": "x"}),
    (SOCKET, {"PGCONNECT_TIMEOUT": "x"}),
    (SOCKET, {"PGTARGETSESSIONATTRS": "read-only"}),
    ("", {"PGHOST": "{h}", "PGPORT": "{p}", "PGUSER": "alice", "PGDATABASE": "d b"}),
    ("user=alice dbname=postgres", {"PGHOSTADDR": "127.0.0.1", "PGPORT": "{p}"}),
    *(
        (f"postgresql://{user}@{{q}}:{{p}}/{rest}", {})
        for user, rest in (
            *(("alice", "d%20b"), ("alice", "p%25q%2Fr"), ("r%20s", "postgres"), ("alice", "a=b")),
            *(("%C3%BC", "postgres"), ("ü", "postgres"), ("alice", "%zz"), ("alice", "a%00b")),
            *(("alice", "postgres?options=-c%20work_mem%3D6MB"), ("alice", "?dbname=a%3Db")),
            *(("alice", "postgres?no_such=1"), ("alice", "postgres?ssl=true")),
        )
    ),
    ("postgresql://alice:se%3Ac%40r%2Fe%5Ct@127.0.0.1:{p}/postgres", {}),
    ("postgresql:///postgres?user=alice&host={h}&port={p}", {}),
    ("postgresql://alice@{q},{q2}:{p2}/postgres", {}),
    ("postgres://alice@[::1]:{p}/postgres", {}),
    *((f"{SOCKET} {text}", {}) for text in ("connect_timeout=-1", "gssencmode=require")),
    *((f"{SOCKET} channel_binding={text}", {}) for text in ("require", "x")),
    (f"{TCP} user=alice channel_binding=require", {}),
)


def test_strings_lead_where_psql_goes(
    new_cluster: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    figure: Figure,
) -> None:
    clusters = new_cluster("15"), new_cluster("18")
    first, second = (cluster.target for cluster in clusters)
    words = {"h": first.host, "p": first.ports, "h2": second.host, "p2": second.ports}
    words |= {"q": first.host.replace("/", "%2F"), "q2": second.host.replace("/", "%2F")}
    words["folder"] = str(tmp_path)
    for cluster in clusters:
        _prepare(cluster)
    _write_files(tmp_path, words)
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    psql = find(version="15").bin_dir / "psql"
    wrong = []
    for text, environment in STRINGS:
        asked = text.format(**words)
        with monkeypatch.context() as here:
            here.setenv("PGSERVICEFILE", str(tmp_path / "services"))
            here.setenv("PGPASSFILE", str(tmp_path / "passwords"))
            for name, value in environment.items():
                here.setenv(name, value.format(**words))
            if "PGSYSCONFDIR" in environment:
                here.delenv("PGSERVICEFILE")
                here.setenv("HOME", "/nowhere")
            argv = [psql, "-XAtw", "-c", ANSWER, *(["-d", asked] if asked else [])]
            said = subprocess.run(argv, capture_output=True, text=True, check=False)
            ours = answer(asked)
        theirs = None if said.returncode else said.stdout.strip()
        if ours != theirs:
            wrong.append((text, environment, theirs, ours))
    figure(
        "connection strings that lead where psql goes",
        truth=f"all {len(STRINGS)}",
        seen=f"{len(STRINGS) - len(wrong)} of {len(STRINGS)}",
    )
    assert wrong == []


def answer(text: str) -> str | None:
    """Return who and where pgdyno is with this string, None if it is refused or cannot connect."""
    try:
        target = resolve(conninfo=text or None).target
        with connect(target, verb="test") as connection:
            [[said]] = connection.execute(ANSWER.encode()).fetchall()
    except PgdynoError:
        return None
    return str(said)


def _prepare(cluster: ScratchCluster) -> None:
    for role, word in (("alice", PASSWORD), ("r s", "p w"), ("ü", "x")):
        run_sql(cluster.target, f"CREATE ROLE \"{role}\" LOGIN PASSWORD '{word}'")
    for name in DATABASES:
        run_sql(cluster.target, f'CREATE DATABASE "{name}"')


def _write_files(folder: Path, words: Mapping[str, str]) -> None:
    services = """# A comment.
[plain]
host={h}
port={p}
user=alice
dbname=postgres

[spaced]
host = {h}
[quoted]
host='{h}'
port={p}
[set]
host={h}
port={p}
user=postgres
options=-c work_mem=7MB
[nested]
service=plain
[unknown]
host={h}
foo=bar
[both]
host={h2},{h}
port={p2},{p}
user=postgres
dbname=postgres
target_session_attrs=read-write
"""
    (folder / "services").write_text(services.format(**words))
    system = "[system]\nhost={h2}\nport={p2}\nuser=alice\ndbname=postgres\n"
    (folder / "pg_service.conf").write_text(system.format(**words))
    escaped = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    passwords = (
        "# comment\nlocalhost:*:*:nobody:x\n127.0.0.1:{p}:postgres:r s:p w\n"
        + f"127.0.0.1:{{p}}:postgres:alice:{escaped}\nlocalhost:{{p}}:*:alice:{escaped}\n"
        + f"no.invalid:*:*:alice:{escaped}\n"
    )
    path = folder / "passwords"
    path.write_text(passwords.format(**words))
    path.chmod(0o600)
