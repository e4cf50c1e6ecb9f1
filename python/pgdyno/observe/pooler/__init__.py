"""Collectors that query the console of a connection pooler in the path: PgBouncer."""
