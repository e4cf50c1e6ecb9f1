"""Telemetry of a server's host from afar: one shell script that only reads, or files made by it."""
