"""A watch of a server whose connections run out: it takes no last one, and names who holds most."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from tests.features.watch.examples import text_of
from tests.features.watch.incidents import findings, of_kind, session
from tests.features.watch.test_watch import OBSERVERS, once
from tests.fixtures.clusters import make_cluster, run_sql
from tests.fixtures.command import Command, eventually, server_options

from pgdyno.features.watch.tally import Tally
from pgdyno.server.target import Target

pytestmark = pytest.mark.pg
ROOM = 30
SETTINGS = {
    "max_connections": str(ROOM + 3),
    "superuser_reserved_connections": "3",
    "log_line_prefix": "%m [%p] %e ",
}


@pytest.fixture(scope="module", params=["15", "18"])
def crowded(request: pytest.FixtureRequest, house: Path) -> Iterator[Target]:
    """A server with few connections for everybody."""
    with make_cluster(request.param, settings=SETTINGS, clients=1) as cluster:
        run_sql(cluster.target, "CREATE ROLE billing LOGIN")
        run_sql(cluster.target, "CREATE ROLE shop LOGIN")
        run_sql(cluster.target, "CREATE ROLE mon LOGIN")
        run_sql(cluster.target, "GRANT pg_monitor TO mon")
        yield cluster.target


def opened(stack: ExitStack, target: Target, name: str, count: int) -> list[psycopg.Connection]:
    """Let sessions of an application be idle, with the role of this name if there is one."""
    return [stack.enter_context(session(target, name, autocommit=True)) for _ in range(count)]


def own_count(target: Target) -> int:
    return len(run_sql(target, OBSERVERS))


def is_refused(target: Target) -> bool:
    """Return whether a login of a role without privileges is refused now."""
    try:
        session(target, "probe").close()
    except psycopg.OperationalError:
        return True
    return False


def logs_in(target: Target) -> None:
    """Log in; a connection that was closed just now may need a moment to be free."""
    eventually(lambda: not is_refused(target))


def first_sample(tally: Tally) -> bool:
    return tally.total.wait_samples > 5


def test_a_watch_gives_a_connection_back_when_few_are_left(crowded: Target, tmp_path: Path) -> None:
    """With the watch, the last free connections stay free, and waits are sampled on."""
    billing, shop = replace(crowded, user="billing"), replace(crowded, user="shop")
    counts: list[int] = []
    samples: list[int] = []
    with ExitStack() as stack:
        opened(stack, shop, "shop", 5)

        def is_one(tally: Tally) -> bool:
            samples.append(tally.total.wait_samples)
            return own_count(crowded) == 1

        listed, document = findings(
            replace(crowded, user="mon"),
            tmp_path,
            3,
            first_sample,
            once(lambda: counts.append(own_count(crowded))),
            once(lambda: opened(stack, billing, "reports-web", ROOM - 5 - 3)),
            is_one,
            once(lambda: logs_in(shop)),
            lambda tally: tally.total.wait_samples > samples[-1] + 80,
        )
    assert counts == [2]
    assert document["sessions_at_work"]["samples"] > samples[-1] + 10
    finding = of_kind(listed, "connections")
    assert f"{ROOM - 3} of {ROOM} connections are taken" in finding["said"]
    assert "1 by pgdyno; 2 free for ordinary roles" in finding["said"]
    assert document["sentence"].endswith("most by reports-web")


def test_a_watch_begins_with_one_connection_if_few_are_free(
    crowded: Target, tmp_path: Path
) -> None:
    shop = replace(crowded, user="shop")
    counts: list[int] = []
    with ExitStack() as stack:
        opened(stack, shop, "shop", ROOM - 2)
        listed, _ = findings(
            replace(crowded, user="mon"),
            tmp_path,
            2,
            once(lambda: logs_in(shop)),
            first_sample,
            once(lambda: counts.append(own_count(crowded))),
            once(lambda: logs_in(shop)),
        )
    assert counts == [1]
    assert "1 free for ordinary roles" in of_kind(listed, "connections")["said"]


def test_an_application_that_names_itself_like_us_is_named(crowded: Target, tmp_path: Path) -> None:
    billing = replace(crowded, user="billing")
    with ExitStack() as stack:
        opened(stack, billing, "pgdyno/watch", ROOM - 2)
        listed, _ = findings(replace(crowded, user="mon"), tmp_path, 2, first_sample)
    finding = of_kind(listed, "connections")
    assert "1 by pgdyno; 1 free" in finding["said"]
    assert f"pgdyno/watch (role billing, from local, database postgres) has {ROOM - 2}" in "".join(
        finding["lines"]
    )


def test_a_watch_whose_role_may_have_one_connection_observes_with_it(
    crowded: Target, tmp_path: Path
) -> None:
    run_sql(crowded, "ALTER ROLE mon CONNECTION LIMIT 1")
    try:
        _, document = findings(replace(crowded, user="mon"), tmp_path, 2, first_sample)
    finally:
        run_sql(crowded, "ALTER ROLE mon CONNECTION LIMIT -1")
    assert document["sessions_at_work"]["samples"] > 10


def test_who_holds_most_connections_is_named_and_only_its_idle_sessions_are_ended(
    crowded: Target, tmp_path: Path
) -> None:
    billing, shop = replace(crowded, user="billing"), replace(crowded, user="shop")
    with ExitStack() as stack:
        pool = opened(stack, shop, "shop", 5)
        leaked = opened(stack, billing, "reports-'web' 7", ROOM - 5)
        time.sleep(1)
        assert all(is_refused(shop) for _ in range(4))
        listed, document = findings(
            crowded, tmp_path, 4, once(lambda: [is_refused(shop) for _ in range(4)])
        )
        finding = of_kind(listed, "connections")
        [look, end] = re.findall(r"SELECT .*?state = 'idle'", finding["next_step"])
        assert len(run_sql(crowded, look)) == len(leaked)
        assert len(run_sql(crowded, end)) == len(leaked)
        assert [made.execute("SELECT 1").fetchone() for made in pool] == [(1,)] * 5
    held, others, *_ = finding["lines"]
    assert held.startswith("reports-'web' 7 (role billing, from local, database ")
    assert f"has {ROOM - 5}, {ROOM - 5} of them idle, open since" in held
    assert re.search(r"since \d\d:\d\d:\d\d UTC, the longest idle for \d[\d.]* s", held), held
    assert others == "then shop (role shop) 5"
    assert re.search(r"^\d+ logins refused in the log", finding["cost"]), finding["cost"]
    assert not [made for made in listed if made["kind"] == "errors"]
    assert len(text_of(document, 100).splitlines()) <= 25
    assert "pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE" in text_of(
        document, 100
    )


def test_advice_without_a_connection_ends_no_session_of_anybody(
    crowded: Target, pgdyno: Command
) -> None:
    shop = replace(crowded, user="shop")
    with ExitStack() as stack:
        opened(stack, shop, "shop", ROOM)
        refused = pgdyno("watch", *server_options(replace(crowded, user="mon")), "--duration", "1s")
        assert "53300" in refused.error
        assert "pg_terminate_backend" not in refused.error
        asked = re.search(r"SELECT application_name.* DESC", refused.error)
        assert asked is not None, refused.error
        first, *_ = run_sql(crowded, asked[0])
        assert first[0] == "shop"
        assert first[-1] == ROOM
