"""Measures pgdyno itself: against pgbench, a server without a database, and a bare loop."""
