\set aid random(1, 100000 * :scale)
\set delta random(-5000, 5000)
\set slot random(1, 10)
BEGIN;
SELECT pg_advisory_xact_lock(:slot);
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
END;
