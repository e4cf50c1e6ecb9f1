"""Telemetry: one collector a source, SQL keyed by major version."""
