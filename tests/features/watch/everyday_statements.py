"""Everyday statements that take most of a server's time: one table of incidents."""

from __future__ import annotations

from tests.features.watch.everyday import Staging, asking, email, spread

STATEMENTS: tuple[Staging, ...] = (
    asking("UPDATE purchases SET n = n + 1 WHERE client = %s", spread, name="update_by_client"),
    asking("DELETE FROM lines WHERE purchase = %s", spread, name="delete_by_purchase"),
    asking("SELECT p.id, (SELECT sum(quantity) FROM lines l WHERE l.purchase = p.id)"
           " FROM purchases p WHERE p.id BETWEEN %s AND %s + 4", spread, spread,
           name="correlated_sum"),
    asking("SELECT p.id FROM purchases p WHERE p.id = %s"
           " AND EXISTS (SELECT 1 FROM lines l WHERE l.purchase = p.id AND l.quantity > 100)",
           spread, name="exists_without_index"),
    asking("SELECT p.id, p.note FROM clients c JOIN purchases p ON p.client = c.id"
           " WHERE c.email = %s", email, name="join_without_index"),
    asking("SELECT id, quantity FROM lines WHERE purchase IN (SELECT id FROM purchases"
           " WHERE id = %s)", spread, name="in_subquery"),
    asking("SELECT id, note FROM purchases ORDER BY placed DESC LIMIT 10", name="newest_ten"),
    asking("SELECT id, note FROM purchases WHERE client = %s ORDER BY placed DESC LIMIT 1",
           spread, name="newest_of_client"),
    asking("SELECT max(placed) FROM purchases", name="newest_moment"),
    asking("SELECT count(*) FROM purchases WHERE state = %s", lambda _: "open",
           name="count_of_state", count=5),
    asking("SELECT region, count(*) FROM clients GROUP BY region ORDER BY 2",
           name="dashboard_groups", count=5),
    asking("SELECT DISTINCT state FROM purchases", name="distinct_states", count=5),
    asking("SELECT id FROM clients WHERE name LIKE %s", lambda turn: f"{turn:04x}%",
           name="prefix_under_collation"),
    asking("SELECT id FROM clients WHERE lower(email) = %s", lambda turn: email(turn).lower(),
           name="lower_email"),
    asking("SELECT p.id FROM purchases p JOIN clients c ON c.id = p.client"
           " WHERE p.id = %s OR c.email = %s", spread, email, name="or_over_join"),
    asking("WITH all_of_them AS MATERIALIZED (SELECT * FROM purchases)"
           " SELECT note FROM all_of_them WHERE id = %s", spread, name="materialized_cte"),
    asking("SELECT id, place FROM ranked WHERE id = %s", spread, name="window_view",
           prepare=("CREATE VIEW ranked AS SELECT id, rank() OVER (ORDER BY placed) AS place"
                    " FROM purchases",)),
    asking("SELECT id FROM purchases WHERE shipped IS NULL LIMIT 50", name="open_by_null"),
    asking("SELECT id FROM purchases WHERE flagged", name="open_by_flag"),
    asking("SELECT id, note FROM purchases WHERE placed > now() + interval '1 minute' * %s",
           lambda turn: 1000000 + turn, name="recent_without_index"),
    asking("SELECT id, note FROM purchases WHERE placed + interval '1 hour' * %s > now()",
           lambda turn: -100000 - turn, name="arithmetic_on_column"),
    asking("SELECT id FROM measured WHERE date_trunc('day', at) = %s", lambda _: "2026-02-10",
           name="no_pruning",
           prepare=("CREATE TABLE measured (id int, at timestamp) PARTITION BY RANGE (at)",
                    *(f"CREATE TABLE measured{month} PARTITION OF measured FOR VALUES FROM"
                      f" ('2026-{month:02}-01') TO ('2026-{month + 1:02}-01')"
                      for month in range(1, 12)),
                    "INSERT INTO measured SELECT id, timestamp '2026-01-01'"
                    " + id % 300 * interval '1 day' FROM generate_series(1, 60000) id",
                    "CREATE INDEX ON measured (at)", "ANALYZE measured")),
    asking("SELECT o.id FROM purchases o JOIN lines l ON l.purchase = o.id"
           " ORDER BY l.quantity, o.note, l.id OFFSET 119000", name="sort_spill",
           setting="work_mem = '256kB'"),
    asking("SELECT count(*) FROM purchases p JOIN lines l ON l.purchase = p.id AND p.note > ''",
           name="hash_spill", setting="work_mem = '64kB'"),
    asking("UPDATE purchases p SET n = p.n + 1 FROM clients c WHERE c.id = p.client"
           " AND c.email = %s", email, name="update_from"),
    asking("INSERT INTO wide (a, b, c, d, e, f) SELECT random() * 1e6, random() * 1e6,"
           " random() * 1e6, random() * 1e6, random() * 1e6, random() * 1e6"
           " FROM generate_series(1, 20)", name="many_indexes", count=6,
           prepare=("CREATE TABLE wide (id bigserial PRIMARY KEY, a int, b int, c int, d int,"
                    " e int, f int)",
                    *(f"CREATE INDEX ON wide ({columns})" for columns in (
                        "a", "b", "c", "d", "e", "f", "a, b", "b, c", "c, d", "d, e", "e, f",
                        "f, a", "a, c", "b, d", "c, e", "d, f")),
                    "INSERT INTO wide (a, b, c, d, e, f) SELECT random() * 1e6, random() * 1e6,"
                    " random() * 1e6, random() * 1e6, random() * 1e6, random() * 1e6"
                    " FROM generate_series(1, 20000)")),
    asking("UPDATE seats SET seen = now() WHERE id = %s", lambda turn: 1 + turn * 17 % 5000,
           name="no_hot_updates", count=8,
           prepare=("CREATE TABLE seats AS SELECT id, now() AS seen, id * 3 % 977 AS a,"
                    " id * 5 % 977 AS b, id * 7 % 977 AS c, id * 11 % 977 AS d"
                    " FROM generate_series(1, 5000) id",
                    "ALTER TABLE seats ADD PRIMARY KEY (id)", "CREATE INDEX ON seats (seen)",
                    *(f"CREATE INDEX ON seats ({columns})" for columns in (
                        "a", "b", "c", "d", "a, b", "b, c", "c, d", "d, a")),
                    "ANALYZE seats")),
    asking("UPDATE documents SET body = jsonb_set(body, '{n}', to_jsonb(%s::int)) WHERE id = %s",
           lambda turn: turn, lambda turn: 1 + turn % 20, name="large_document_updates",
           prepare=("CREATE TABLE documents (id int PRIMARY KEY, body jsonb)",
                    "INSERT INTO documents SELECT i, jsonb_build_object('n', 0, 'rest',"
                    " (SELECT jsonb_agg(md5((i * 10000 + g)::text)) FROM generate_series(1, 8000)"
                    " g)) FROM generate_series(1, 20) i", "ANALYZE documents")),
    asking("SELECT sum(l.quantity) FROM lines l WHERE l.product = %s", lambda turn: turn % 500,
           name="sum_without_index"),
    asking("SELECT c.id FROM clients c LEFT JOIN purchases p ON p.client = c.id AND p.state ="
           " 'open' WHERE p.id IS NULL AND c.id < 50", name="anti_join"),
    asking("SELECT client, sum(n) FROM purchases GROUP BY client HAVING count(*) > %s",
           lambda _: 1000, name="having_filter"),
    asking("SELECT id FROM clients WHERE region || name = %s", lambda turn: f"region {turn}",
           name="concatenated"),
    asking("SELECT lines.id FROM lines WHERE product <> ALL (%s)",
           lambda _: list(range(499)), name="not_in_long_list"),
    asking("SELECT id, placed FROM open_ones WHERE client = %s", spread, name="view_without_index",
           prepare=("CREATE VIEW open_ones AS SELECT id, client, placed FROM purchases"
                    " WHERE state = 'open'",)),
    asking("SELECT id FROM events WHERE account = %s", spread, name="partitions_without_index",
           prepare=("CREATE TABLE events (id int, account int, day int) PARTITION BY RANGE (day)",
                    *(f"CREATE TABLE events{day} PARTITION OF events FOR VALUES FROM ({day})"
                      f" TO ({day + 1})" for day in range(6)),
                    "INSERT INTO events SELECT i, i % 5000, i % 6 FROM generate_series(1, 60000) i",
                    "ANALYZE")),
    asking("WITH RECURSIVE r AS (SELECT id FROM tree WHERE id = %s UNION ALL"
           " SELECT t.id FROM tree t JOIN r ON t.parent = r.id) SELECT count(*) FROM r",
           lambda turn: 1 + turn % 200, name="recursion_without_index",
           prepare=("CREATE TABLE tree AS SELECT i AS id, i / 3 AS parent"
                    " FROM generate_series(1, 20000) i",
                    "ALTER TABLE tree ADD PRIMARY KEY (id)", "ANALYZE tree")),
    asking("SELECT id FROM purchases WHERE id %% 1000 = %s", lambda turn: turn % 1000,
           name="remainder_of_key"),
    asking("SELECT id FROM clients WHERE upper(name) LIKE %s", lambda turn: f"{turn:04X}%",
           name="prefix_of_capitals"),
    asking("SELECT c.id, count(p.id) FROM clients c LEFT JOIN purchases p ON p.client = c.id"
           " WHERE c.id BETWEEN %s AND %s + 10 GROUP BY c.id", spread, spread,
           name="join_in_groups"),
    asking("UPDATE purchases SET n = 1 WHERE state = 'closed' AND placed > %s",
           lambda _: "2027-01-01", name="two_columns"),
    asking("SELECT id FROM carts WHERE body->>'sku' = %s ORDER BY id LIMIT 5", str,
           name="field_with_limit",
           prepare=("CREATE TABLE carts AS SELECT id, jsonb_build_object('sku', id::text) AS body"
                    " FROM generate_series(1, 40000) id", "ANALYZE carts")),
)  # fmt: skip
