"""Collectors that ask the console of a connection pooler in the path: PgBouncer."""
