"""Collectors that ask PostgreSQL; each file holds its SQL keyed by major version."""
