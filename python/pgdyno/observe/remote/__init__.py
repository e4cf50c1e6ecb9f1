"""Telemetry of a remote host: from a shell script that only reads, or from files that it wrote."""
