"""TLS with a real server: whom the engine trusts, how it gets in, and load that adds up."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

import pytest
from tests.fixtures.bank import make_bank, money
from tests.fixtures.clusters import run_sql, scalar
from tests.fixtures.command import Command, eventually
from tests.fixtures.engine_process import Engine, EngineEnd, load_job
from tests.fixtures.tls_server import PASSWORD, Certificates, present

from pgdyno.engine.executable import engine_path
from pgdyno.engine.job import HostPort, Job, TlsSettings
from pgdyno.server.scratch.cluster import ScratchCluster
from pgdyno.server.target import Target

SSLMODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
IS_ENCRYPTED = (
    "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
    " WHERE ssl AND application_name LIKE 'pgdyno/test%'"
)
# Fails with division by zero unless the session is encrypted (or, the other way, is not).
NEEDS_TLS = "SELECT 1 / ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid();"
NEEDS_PLAIN = "SELECT 1 / (NOT ssl)::int FROM pg_stat_ssl WHERE pid = pg_backend_pid();"


def job_of(
    cluster: ScratchCluster, user: str, sslmode: str, text: str = NEEDS_TLS, **given: object
) -> Job:
    """Return a small load over TCP by this user; `host` is the name to connect by."""
    host = str(given.pop("host", "localhost"))
    tls = TlsSettings.model_validate(given.pop("tls", {}))
    target: Target = replace(cluster.tcp_target, user=user, password=PASSWORD)
    job = load_job(target, text, **{"clients": 2, "transactions": 3, **given})
    [place] = job.target.hosts
    places = (HostPort(host=host, hostaddr="127.0.0.1", port=place.port),)
    update = {"hosts": places, "sslmode": sslmode, "tls": tls}
    return job.model_copy(update={"target": job.target.model_copy(update=update)})


def refused(end: EngineEnd) -> str:
    """Return the one failure's message; there is a next step."""
    [failure] = end.failures
    assert end.exit_code != 0
    assert failure.hint
    return failure.message


@pytest.mark.parametrize("sslmode", SSLMODES)
def test_each_sslmode_with_a_trusted_certificate(
    sslmode: str, secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "by_name")
    tls = {"sslrootcert": certificates.path("root.crt")}
    end = engine(job_of(secure, "bound", sslmode, tls=tls))
    if sslmode == "disable":
        assert "no encryption" in refused(end)
    else:
        assert end.exit_code == 0, end
        assert (end.summary.counts.completed, end.summary.failures) == (6, {})


@pytest.mark.parametrize("sslmode", ["disable", "allow", "prefer"])
def test_a_server_that_wants_it_plain_gets_it_plain(
    sslmode: str, secure: ScratchCluster, engine: Engine
) -> None:
    end = engine(job_of(secure, "plain", sslmode, NEEDS_PLAIN))
    assert end.exit_code == 0, end
    assert (end.summary.counts.completed, end.summary.failures) == (6, {})


def test_required_tls_never_becomes_plain(secure: ScratchCluster, engine: Engine) -> None:
    assert "no pg_hba.conf entry" in refused(engine(job_of(secure, "plain", "require")))


@pytest.mark.parametrize("sslmode", ["require", "verify-ca", "verify-full"])
def test_a_server_without_tls_is_refused(
    sslmode: str, pg15: ScratchCluster, engine: Engine, certificates: Certificates
) -> None:
    tls = {"sslrootcert": certificates.path("root.crt")}
    message = refused(engine(job_of(pg15, "postgres", sslmode, "SELECT 1;", tls=tls)))
    assert "does not support TLS" in message


TRUST = {
    # What the server presents, what is trusted, by which name: sslmodes that accept it.
    ("by_name", "root.crt", "localhost"): {"require", "verify-ca", "verify-full"},
    ("by_name", "root.crt", "127.0.0.1"): {"require", "verify-ca"},
    ("by_both", "root.crt", "127.0.0.1"): {"require", "verify-ca", "verify-full"},
    ("by_both", "root.crt", "localhost"): {"require", "verify-ca", "verify-full"},
    ("by_both", "root.crt", "elsewhere"): {"require", "verify-ca"},
    ("elsewhere", "root.crt", "localhost"): {"require", "verify-ca"},
    ("own", "own.crt", "localhost"): {"require", "verify-ca", "verify-full"},
    ("own", "root.crt", "localhost"): set(),
    ("by_name", "stranger.crt", "localhost"): set(),
    ("expired", "root.crt", "localhost"): set(),
    ("own", "missing.crt", "localhost"): {"require"},
    ("expired", "missing.crt", "localhost"): {"require"},
}


@pytest.mark.parametrize(("presented", "trusted", "host"), TRUST)
def test_a_server_is_trusted_only_with_the_right_certificate(
    presented: str,
    trusted: str,
    host: str,
    secure: ScratchCluster,
    certificates: Certificates,
    engine: Engine,
) -> None:
    present(secure, certificates, presented)
    accepting = set()
    for sslmode in ("require", "verify-ca", "verify-full"):
        tls = {"sslrootcert": certificates.path(trusted)}
        end = engine(job_of(secure, "bound", sslmode, host=host, tls=tls))
        if end.exit_code == 0:
            assert (end.summary.counts.completed, end.summary.failures) == (6, {})
            accepting.add(sslmode)
        else:
            assert "certificate" in refused(end)
    assert accepting == TRUST[presented, trusted, host]


def test_an_untrusted_server_is_used_without_tls_by_prefer_alone(
    secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "own")
    tls = {"sslrootcert": certificates.path("root.crt")}
    end = engine(job_of(secure, "plain", "prefer", NEEDS_PLAIN, tls=tls))
    assert end.exit_code == 0, end


def test_the_systems_authorities_are_asked_for_names_only(
    secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "by_name")
    system = {"sslrootcert": "system"}
    assert "verify-full" in refused(engine(job_of(secure, "bound", "require", tls=system)))
    message = refused(engine(job_of(secure, "bound", "verify-full", tls=system)))
    assert "certificate" in message


def test_a_client_certificate_opens_and_a_missing_or_foreign_one_does_not(
    secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "by_name")
    pair = {"sslcert": certificates.path("ann.crt"), "sslkey": certificates.path("ann.key")}
    assert engine(job_of(secure, "ann", "require", tls=pair)).exit_code == 0
    assert "certificate" in refused(engine(job_of(secure, "ann", "require")))
    foreign = {
        "sslcert": certificates.path("stranger.crt"),
        "sslkey": certificates.path("stranger.key"),
    }
    refused(engine(job_of(secure, "ann", "require", tls=foreign)))
    mixed = {"sslcert": certificates.path("ann.crt"), "sslkey": certificates.path("root.key")}
    assert "does not belong to the certificate" in refused(
        engine(job_of(secure, "ann", "require", tls=mixed))
    )


def test_the_error_of_an_unusable_key_names_the_next_step(
    secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    locking = ("-aes128", "-passout", "pass:x", "-out", "locked.key")
    certificates.openssl("pkey", "-in", "ann.key", *locking)
    (certificates.folder / "locked.key").chmod(0o600)
    (certificates.folder / "open.key").write_bytes((certificates.folder / "ann.key").read_bytes())
    (certificates.folder / "open.key").chmod(0o644)
    for key, words in (
        ("locked.key", "encrypted"),
        ("open.key", "other than"),
        ("no.key", "but no"),
    ):
        tls = {"sslcert": certificates.path("ann.crt"), "sslkey": certificates.path(key)}
        assert words in refused(engine(job_of(secure, "ann", "require", tls=tls)))


@pytest.mark.parametrize("binding", ["disable", "prefer", "require"])
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_scram_is_bound_to_the_channel_in_both_versions_of_tls(
    binding: str, version: str, secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "by_name")
    tls = {
        "channel_binding": binding,
        "ssl_min_protocol_version": version,
        "ssl_max_protocol_version": version,
    }
    script = (
        "SELECT 1 / (version = '" + version + "')::int FROM pg_stat_ssl"
        " WHERE pid = pg_backend_pid();"
    )
    end = engine(job_of(secure, "bound", "require", script, tls=tls))
    assert end.exit_code == 0, end
    assert (end.summary.counts.completed, end.summary.failures) == (6, {})


@pytest.mark.parametrize("user", ["open", "hashed"])
def test_required_channel_binding_refuses_other_ways_in(
    user: str, secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "by_name")
    tls = {"channel_binding": "require"}
    assert "channel_binding=require" in refused(engine(job_of(secure, user, "require", tls=tls)))
    assert engine(job_of(secure, user, "require")).exit_code == 0


def test_statements_still_running_at_the_end_are_cancelled_over_tls(
    secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "by_name")
    job = job_of(
        secure, "bound", "require", "SELECT pg_sleep(600);", transactions=None, measure_s=1
    )
    work = job.work.model_copy(update={"drain_ns": 100_000_000})
    end = engine(job.model_copy(update={"work": work}))
    assert end.summary.counts.unfinished == 2
    eventually(lambda: scalar(secure.target, IS_ENCRYPTED) == 0)


def test_lost_connections_are_made_again_over_tls(
    secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "by_both")
    tls = {"sslrootcert": certificates.path("root.crt"), "channel_binding": "require"}
    job = job_of(secure, "bound", "verify-full", transactions=None, measure_s=600.0, tls=tls)
    running = engine.start(job)
    running.await_record(record="phase", phase="measure", event="begin")
    mine = "FROM pg_stat_activity WHERE usename = 'bound'"
    before = str(scalar(secure.target, f"SELECT string_agg(pid::text, ',') {mine}"))
    run_sql(secure.target, f"SELECT pg_terminate_backend(pid) {mine}")
    # Both are back, and at work: NEEDS_TLS fails on a connection without it.
    again = f"SELECT count(*) {mine} AND pid NOT IN ({before}) AND query <> ''"
    eventually(lambda: scalar(secure.target, again) == 2)
    running.stop()
    end = running.wait()
    assert (end.summary.connections.lost_count, end.summary.connections.reconnect_count) == (2, 2)
    # What the ended backends were at is all that failed.
    assert set(end.summary.failures) <= {"57P01", "connection_lost", "08006"}


def test_require_auth_decides_what_the_server_may_ask_for(
    secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "by_both")
    for user, asked, why in (
        ("bound", "scram-sha-256", None),
        ("bound", "!password,!md5", None),
        ("bound", "none", "server requested SASL authentication"),
        ("hashed", "scram-sha-256", "server requested a hashed password"),
        ("open", "!none", "server did not complete authentication"),
    ):
        end = engine(job_of(secure, user, "require", tls={"require_auth": asked}))
        if why is None:
            assert end.summary.counts.completed == 6, (user, asked)
        else:
            assert f'requirement "{asked}" failed: {why}' in refused(end)


def test_rows_longer_than_many_records_come_through(
    secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "by_name")
    text = "SELECT repeat('x', 300000), n FROM generate_series(1, 20) AS n;"
    end = engine(job_of(secure, "bound", "require", text))
    assert end.exit_code == 0, end
    assert (end.summary.counts.completed, end.summary.failures) == (6, {})


@pytest.mark.parametrize("protocol", ["simple", "prepared"])
def test_money_is_conserved_over_tls(
    protocol: str, secure: ScratchCluster, certificates: Certificates, engine: Engine
) -> None:
    present(secure, certificates, "by_name")
    bank = make_bank(secure, f"bank_{protocol}")
    job = job_of(
        secure, "bound", "require", "tpcb-like", clients=4, protocol=protocol, transactions=25
    )
    target = job.target.model_copy(update={"database": bank.database})
    end = engine(job.model_copy(update={"target": target}))
    assert end.exit_code == 0, end
    assert end.summary.failures == {}
    after = money(bank)
    assert after.is_conserved, after
    assert after.movements == end.summary.transactions_committed_all_phases == 100


def test_init_and_bench_over_verified_tls_from_the_command_line(
    secure: ScratchCluster, certificates: Certificates, pgdyno: Command
) -> None:
    present(secure, certificates, "by_name")
    conninfo = (
        f"host=localhost hostaddr=127.0.0.1 port={secure.tcp_target.port} user=bound"
        f" dbname=postgres sslmode=verify-full sslrootcert={certificates.path('root.crt')}"
        " channel_binding=require"
    )
    environment = {"PGPASSWORD": PASSWORD.get_secret_value()}
    loaded = pgdyno("init", "-s", "1", conninfo, env=environment)
    assert loaded.code == 0, loaded
    options = ("-T", "1", "--warmup", "0", "-c", "2", "-b", "tpcb-like", "--allow-write")
    ran = pgdyno("bench", *options, conninfo, "--json", env=environment)
    # 3: two seconds are too short for a valid measurement.
    assert ran.code in (0, 3), ran
    after = money(secure.target.with_database("postgres"))
    assert after.is_conserved, after
    assert after.movements > 0


def test_the_drop_in_loads_and_runs_over_verified_tls(
    secure: ScratchCluster, certificates: Certificates
) -> None:
    present(secure, certificates, "by_both")
    run_sql(secure.target, "CREATE DATABASE drop_in")
    conninfo = (
        f"host=localhost hostaddr=127.0.0.1 port={secure.tcp_target.port} user=bound"
        " dbname=drop_in sslmode=verify-full channel_binding=require sslrootcert="
    )
    for root, options in (("root", ("-i",)), ("root", ("-c", "2", "-t", "20")), ("own", ("-i",))):
        said = subprocess.run(
            [engine_path(), "pgbench", *options, conninfo + certificates.path(f"{root}.crt")],
            env={**os.environ, "PGPASSWORD": PASSWORD.get_secret_value()},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (said.returncode == 0) == (root == "root"), said
    assert "certificate is not trusted" in said.stderr
    after = money(secure.target.with_database("drop_in"))
    assert after.is_conserved, after
    assert after.movements == 40
