"""pgdyno: a dynamometer for PostgreSQL."""
