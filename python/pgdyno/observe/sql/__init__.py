"""Collectors that query PostgreSQL; each file has its SQL by major version."""
