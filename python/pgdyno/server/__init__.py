"""PostgreSQL under test: binaries, scratch clusters, facts, dataset, reset, safety."""
